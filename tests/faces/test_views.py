"""View kernels: the same view, the same alias, the same exception as torch CPU."""

from collections.abc import Callable

import pytest
import torch

VIEWS: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "first": lambda a: a[0],
    "last_of_second": lambda a: a[-1, 1],
    "select_from_the_end": lambda a: a.select(-1, 2),
    "scalar": lambda a: a[1][2][3],
    "unbind": lambda a: a.unbind(1)[2],
    "transposed": lambda a: a.transpose(0, 2)[1],
    "strided": lambda a: a[:, ::2, 1::2],
    "unfold": lambda a: a.unfold(2, 3, 1),
    "as_strided": lambda a: a.as_strided((2, 3), (1, 2), 3),
    "diagonal": lambda a: a.diagonal(dim1=1, dim2=2),
    "view": lambda a: a.view(-1, 6),
    "flattened": lambda a: a.flatten(),
}

WRONG: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "dim": lambda a: a.select(7, 0),
    "index": lambda a: a.select(0, -3),
    "scalar": lambda a: a[0, 0, 0].select(0, 0),
    "indexing": lambda a: a[5],
    "view_size": lambda a: a.view(5, 5),
    "view_stride": lambda a: a.transpose(0, 2).view(24),
    "two_unknown": lambda a: a.view(-1, -1),
}


def _pair() -> tuple[torch.Tensor, torch.Tensor]:
    host = torch.arange(24.0).reshape(2, 3, 4)
    return host, host.to("pjrt")


@pytest.mark.parametrize("name", VIEWS)
def test_view_has_the_geometry_and_values_of_torch_cpu(name: str) -> None:
    host, device = _pair()
    expected, got = VIEWS[name](host), VIEWS[name](device)
    assert got.stride() == expected.stride()
    assert got.storage_offset() == expected.storage_offset()
    assert torch.equal(got.cpu(), expected)


@pytest.mark.parametrize("name", [n for n in VIEWS if n != "unfold"])
def test_a_write_through_a_view_reaches_the_base(name: str) -> None:
    host, device = _pair()
    for base in (host, device):
        VIEWS[name](base).mul_(-3)
    assert torch.equal(device.cpu(), host)
    assert device._version == host._version


@pytest.mark.parametrize("name", VIEWS)
def test_the_gradient_of_a_view(name: str) -> None:
    host, device = (t.requires_grad_() for t in _pair())
    for base in (host, device):
        VIEWS[name](base).square().sum().backward()
    assert torch.equal(device.grad.cpu(), host.grad)


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_view_raises_what_torch_cpu_raises(name: str) -> None:
    host, device = _pair()
    with pytest.raises((IndexError, RuntimeError)) as expected:
        WRONG[name](host)
    with pytest.raises(type(expected.value)):
        WRONG[name](device)


@pytest.mark.parametrize("name", [*VIEWS, "detached", "conjugate", "real"])
def test_a_view_in_inference_mode_is_of_the_kind_of_its_base(name: str) -> None:
    more = {
        "detached": torch.detach,
        "conjugate": lambda a: torch.complex(a, a).conj(),
        "real": lambda a: torch.view_as_real(torch.complex(a, a)),
    }
    view = (VIEWS | more)[name]
    seen = []
    for base in _pair():
        version = base._version
        with torch.inference_mode():
            inside = view(base + 1)  # of an inference tensor
            outside = view(base)
            if name != "unfold":
                outside.mul_(2)
        kinds = [inside.is_inference(), outside.is_inference(), base._version - version]
        seen.append([kinds, outside.stride(), outside.storage_offset(), outside.cpu(), inside.cpu(), base.cpu()])
    (kinds, *values), (expected_kinds, *expected) = seen[1], seen[0]
    assert kinds == expected_kinds
    for value, wanted in zip(values, expected, strict=True):
        assert torch.equal(value, wanted) if isinstance(wanted, torch.Tensor) else value == wanted


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_view_in_inference_mode_raises_what_torch_cpu_raises(name: str) -> None:
    host, device = _pair()
    with torch.inference_mode():
        with pytest.raises((IndexError, RuntimeError)) as expected:
            WRONG[name](host)
        with pytest.raises(type(expected.value)):
            WRONG[name](device)
