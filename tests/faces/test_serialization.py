"""Pickle, torch.save and torch.load with map_location both ways, safetensors, state dicts."""

import io
import pickle

import pytest
import torch

from tests.support import DEVICE, assert_same


def saved(value):
    buffer = io.BytesIO()
    torch.save(value, buffer)
    buffer.seek(0)
    return buffer


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.int64, torch.bool, torch.complex64])
@pytest.mark.parametrize("map_location", [None, "cpu", DEVICE])
def test_save_on_the_device_and_load_anywhere(dtype, map_location):
    x = torch.arange(6).reshape(2, 3).to(dtype)
    loaded = torch.load(saved(x.to(DEVICE)), map_location=map_location, weights_only=True)
    assert loaded.device.type == (DEVICE if map_location is None else map_location)
    assert_same(loaded, x)


@pytest.mark.parametrize("map_location", [DEVICE, lambda storage, location: storage, {"cpu": DEVICE}])
def test_save_on_the_cpu_and_load_on_the_device(map_location):
    x = torch.arange(6.0)
    loaded = torch.load(saved({"x": x, "view": x[2:]}), map_location=map_location)
    assert_same(loaded, {"x": x, "view": x[2:]})
    loaded["x"].add_(1)
    assert loaded["view"].cpu().tolist() == [3, 4, 5, 6], "views still share their storage"


def test_views_share_storage_after_a_round_trip():
    x = torch.arange(6.0, device=DEVICE)
    base, view, transposed = torch.load(saved([x, x[1:4], x.view(2, 3).t()]))
    base.mul_(2)
    assert base.device.type == DEVICE
    assert view.cpu().tolist() == [2, 4, 6]
    assert transposed.stride() == (1, 3)
    assert transposed.cpu().tolist() == [[0, 6], [2, 8], [4, 10]]


def test_pickle():
    x = torch.nn.Parameter(torch.arange(3.0, device=DEVICE))
    twin = pickle.loads(pickle.dumps(x))
    assert isinstance(twin, torch.nn.Parameter)
    assert twin.device.type == DEVICE
    assert twin.requires_grad
    assert_same(twin, x)
    assert_same(pickle.loads(pickle.dumps(x[1:].detach())), x[1:])


def test_state_dicts_move_between_devices():
    torch.manual_seed(0)
    here = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.BatchNorm1d(4)).to(DEVICE)
    there = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.BatchNorm1d(4))
    there.load_state_dict(here.state_dict())
    assert_same(dict(there.state_dict()), dict(here.state_dict()))
    here.load_state_dict({k: v + 1 for k, v in there.state_dict().items()})
    assert_same(here.state_dict()["0.weight"], there.state_dict()["0.weight"] + 1)
    meta = torch.nn.Linear(3, 4, device="meta")
    meta.load_state_dict({k.removeprefix("0."): v for k, v in here.state_dict().items() if k[0] == "0"}, assign=True)
    assert meta.weight.device.type == DEVICE
    empty = torch.nn.Linear(3, 4, device="meta").to_empty(device=DEVICE)
    assert empty.weight.shape == (4, 3)


def test_optimizer_state_resumes():
    def make():
        torch.manual_seed(0)
        net = torch.nn.Linear(3, 2).to(DEVICE)
        return net, torch.optim.AdamW(net.parameters(), lr=0.1)

    def step(net, opt):
        opt.zero_grad()
        net(torch.ones(4, 3, device=DEVICE)).pow(2).sum().backward()
        opt.step()

    net, opt = make()
    for _ in range(2):
        step(net, opt)
    checkpoint = torch.load(saved({"net": net.state_dict(), "opt": opt.state_dict()}), map_location="cpu")
    step(net, opt)
    net2, opt2 = make()
    net2.load_state_dict(checkpoint["net"])
    opt2.load_state_dict(checkpoint["opt"])
    step(net2, opt2)
    assert_same(dict(net2.state_dict()), dict(net.state_dict()))


def test_safetensors(tmp_path):
    from safetensors.torch import load_file, load_model, save_file, save_model

    path = str(tmp_path / "x.safetensors")
    x = {
        "a": torch.arange(6.0, device=DEVICE).reshape(2, 3),
        "b": torch.tensor([1, 2], device=DEVICE),
        "half": torch.ones(2, 2, dtype=torch.bfloat16, device=DEVICE),
        "flags": torch.tensor([True, False], device=DEVICE),
        "scalar": torch.tensor(2.5, device=DEVICE),
        "nothing": torch.zeros(0, 3, device=DEVICE),
    }
    save_file(x, path)
    assert_same(load_file(path), x)
    on_device = {name: t.to(DEVICE) for name, t in load_file(path).items()}
    assert_same(on_device, x)
    net, twin = torch.nn.Linear(3, 2).to(DEVICE), torch.nn.Linear(3, 2).to(DEVICE)
    save_model(net, path)
    load_model(twin, path)
    assert_same(dict(twin.state_dict()), dict(net.state_dict()))


@pytest.mark.skipif(DEVICE == "cpu", reason="an index means the accelerator")
def test_safetensors_straight_onto_the_device(tmp_path):
    """It knows a fixed list of device names, in which ``pjrt`` is not; an index is torch's own accelerator."""
    from safetensors import safe_open
    from safetensors.torch import load_file, load_model, save_file, save_model

    path = str(tmp_path / "x.safetensors")
    x = {"a": torch.arange(6.0, device=DEVICE).reshape(2, 3), "b": torch.tensor([1, 2], device=DEVICE)}
    save_file(x, path)
    loaded = load_file(path, device=0)
    assert {t.device.type for t in loaded.values()} == {DEVICE}
    assert_same(loaded, x)
    with safe_open(path, framework="pt", device=0) as file:
        assert file.get_tensor("a").device.type == file.get_slice("a")[1:].device.type == DEVICE
        assert file.get_slice("a")[1:].tolist() == [[3, 4, 5]]
    net, twin = torch.nn.Linear(3, 2).to(DEVICE), torch.nn.Linear(3, 2).to(DEVICE)
    save_model(net, path)
    load_model(twin, path, device=0)
    assert_same(dict(twin.state_dict()), dict(net.state_dict()))


@pytest.mark.skipif(DEVICE == "cpu", reason="storages of the CPU may be resized")
def test_a_storage_keeps_its_size():
    x = torch.arange(6.0, device=DEVICE)
    storage = x.untyped_storage()
    assert storage.resize_(24) is storage
    for size in (0, 12, 48):
        with pytest.raises(
            NotImplementedError, match=f"got size {size}, expected 24: a storage on pjrt keeps its size"
        ):
            storage.resize_(size)
    with pytest.raises(NotImplementedError, match="keeps its size"):
        torch.UntypedStorage(0, device=DEVICE).resize_(8)
    assert storage.nbytes() == 24
    assert x.tolist() == [0, 1, 2, 3, 4, 5]
    assert torch.arange(6.0).untyped_storage().resize_(0).nbytes() == 0
