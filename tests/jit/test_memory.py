"""Memory of the host and large containers that a function reads: any change is seen, whoever made it."""

import collections
import configparser
import ctypes
import io
import mmap
import multiprocessing
import random
import warnings
from multiprocessing import shared_memory

import numpy as np
import pytest
import torch
import torch_pjrt as tp

from tests.jit.support import close, sees

MANY = 6000


def _read(t, change):
    """A CPU tensor of which the function reads the first part."""
    return lambda x: x * t[:3].to("pjrt", torch.float32), change


def _from_numpy():
    a = np.ones(3, np.float32)
    return _read(torch.from_numpy(a), lambda: a.__setitem__(1, 5))


def _numpy():
    t = torch.ones(3)
    return _read(t, lambda: t.numpy().__setitem__(1, 5))


def _large():
    a = np.ones(1 << 20, np.float32)
    return _read(torch.from_numpy(a), lambda: a.__setitem__(1, 5))


def _strided():
    a = np.ones((3, 8), np.float32)
    return _read(torch.from_numpy(a)[:, 5], lambda: a.__setitem__((2, 5), 5))


def _number():
    a = np.ones((), np.float64)
    t = torch.from_numpy(a)
    return lambda x: x * t.item(), lambda: a.__setitem__((), 5)


def _conjugate():
    a = np.ones(3, np.complex64)
    t = torch.from_numpy(a).conj()
    return lambda x: x * t.imag.to("pjrt"), lambda: a.__setitem__(0, 5j)


def _sparse():
    t = torch.eye(3).to_sparse()
    values = t._values().numpy()
    return lambda x: x * t.to_dense().to("pjrt")[1], lambda: values.__setitem__(1, 5)


def _pointer():
    t = torch.ones(3)
    return _read(t, lambda: ctypes.c_float.from_address(t.data_ptr() + 4).__init__(5.0))


def _data():
    t = torch.ones(3)
    return _read(t, lambda: setattr(t, "data", torch.full((3,), 5.0)))


TENSORS = {
    "from_numpy": _from_numpy,
    "numpy": _numpy,
    "4 MiB": _large,
    "strided": _strided,
    "number": _number,
    "conjugate": _conjugate,
    "sparse": _sparse,
    "address": _pointer,
    "data": _data,
}


def _array(a, index=(0,), value=5, read=lambda a: float(a.ravel()[0])):
    return lambda x: x * read(a), lambda: a.__setitem__(index, value)


class _Array(np.ndarray):
    pass


def _masked():
    a = np.ma.masked_array([1.0, 2.0], mask=[False, False])
    return lambda x: x * float(a.sum()), lambda: a.__setitem__(1, np.ma.masked)


def _records():
    a = np.zeros(3, [("k", np.float32), ("n", np.int8)])
    a["k"] = 1
    return lambda x: x * float(a["k"].sum()), lambda: a["k"].__setitem__(1, 5)


ARRAYS = {
    "4 MiB": lambda: _array(np.ones(1 << 20, np.float32)),
    "Fortran": lambda: _array(np.asfortranarray(np.ones((600, 600))), (0, 0)),
    "strided": lambda: _array(np.ones((1 << 10, 1 << 10))[::2, ::2], (0, 0)),
    "dates": lambda: _array(np.zeros(3, "M8[s]"), read=lambda a: int(a.astype(np.int64)[0])),
    "objects": lambda: _array(np.array([1.0, "a"], object)),
    "subclass": lambda: _array(np.ones(2).view(_Array), 0),
    "masked": _masked,
    "records": _records,
}


def _replaced(many, key, value, read):
    return lambda x: x * read(many), lambda: many.__setitem__(key, value)


def _inside(many, key):
    return lambda x: x * float(many[key]["k"]), lambda: many[key].__setitem__("k", 5.0)


def _ones(value=1.0):
    return torch.full((3,), value).to("pjrt")


def _set():
    many = set(range(MANY))
    return lambda x: x * float(7 in many), lambda: many.remove(7)


def _tensor():
    many = [None] * MANY
    many[7] = _ones()
    return lambda x: x * many[7], lambda: many.__setitem__(7, _ones(5.0))


CONTAINERS = {
    "list": lambda: _replaced([1.0] * MANY, 7, 5.0, lambda m: m[7]),
    "dict": lambda: _replaced(dict.fromkeys(range(MANY), 1.0), 7, 5.0, lambda m: m[7]),
    "dict of names": lambda: _replaced({str(i): i for i in range(MANY)}, "7", 5, lambda m: m["7"]),
    "deque": lambda: _replaced(collections.deque([1.0] * MANY), 7, 5.0, lambda m: m[7]),
    "set": _set,
    "list of dicts": lambda: _inside([{"k": 1.0} for _ in range(MANY)], 7),
    "tuple of dicts": lambda: _inside(tuple({"k": 1.0} for _ in range(MANY)), 7),
    "tensor in a list": _tensor,
}


def _bytes_io():
    b = io.BytesIO(b"\x01\x02")
    return lambda x: x * b.getvalue()[0], lambda: b.write(b"\x05")


def _string_io():
    b = io.StringIO("1.5")
    return lambda x: x * float(b.getvalue()), lambda: b.write("2")


def _config():
    c = configparser.ConfigParser()
    c.read_dict({"a": {"k": "1.5"}})
    return lambda x: x * float(c["a"]["k"]), lambda: c.set("a", "k", "5")


def _shared():
    m = shared_memory.SharedMemory(create=True, size=8)
    m.buf[0] = 1
    m.unlink()
    return lambda x: x * m.buf[0], lambda: m.buf.__setitem__(0, 5)


def _value():
    v = multiprocessing.Value("d", 1.0)
    return lambda x: x * v.value, lambda: setattr(v, "value", 5.0)


def _mapped():
    m = mmap.mmap(-1, 16)
    return lambda x: x * m[0], lambda: m.__setitem__(0, 5)


def _seed():
    g = torch.Generator().manual_seed(2)
    return lambda x: x * g.initial_seed(), lambda: g.manual_seed(5)


def _state():
    g = random.Random(2)
    return lambda x: x * (g.getstate()[1][5] % 7), lambda: g.seed(6)


OTHERS = {
    "seed of a generator": _seed,
    "state of a generator": _state,
    "BytesIO": _bytes_io,
    "StringIO": _string_io,
    "ConfigParser": _config,
    "SharedMemory": _shared,
    "Value": _value,
    "mmap": _mapped,
}
KINDS = {"tensor": TENSORS, "array": ARRAYS, "many": CONTAINERS, "other": OTHERS}


@pytest.mark.parametrize("case", [f"{kind}, {name}" for kind, cases in KINDS.items() for name in cases])
def test_a_change_is_seen(case):
    kind, _, name = case.partition(", ")
    f, change = KINDS[kind][name]()
    x = _ones(2.0)
    sees(f, change, x)


def test_memory_in_a_file_is_seen(tmp_path):
    np.ones(3).tofile(tmp_path / "k")
    a = np.memmap(tmp_path / "k", mode="r+")
    f = tp.jit(lambda x: x * float(a.view(np.float64)[1]))
    for k in (1.0, 5.0):
        a.view(np.float64)[1] = k
        close(f(_ones()), _ones(k))


def test_arrays_among_the_arguments_are_seen():
    a = np.ones(1 << 18)
    f = tp.jit(lambda x, a: x * float(a[1]))
    for k in (1.0, 5.0):
        a[1] = k
        close(f(_ones(), a), _ones(k))


def test_writing_to_a_tensor_through_numpy_is_refused_and_undone():
    t = torch.ones(1 << 19)
    a = t.numpy()

    def f(x):
        a[1] += 1
        return x * t[1].item()

    with pytest.raises(tp.JitError, match=r"test_memory\.py:\d+: f: host: a CPU tensor .* was written to: t.*Way out"):
        tp.jit(f)(_ones())
    assert t[1] == 1


def test_bytes_are_as_before_when_the_function_fails():
    b, a = io.BytesIO(b"abc"), np.zeros(1 << 18)

    def f(x):
        b.seek(0, 2)
        b.write(b"def")
        a[5] = 1
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        tp.jit(f)(_ones())
    assert b.getvalue() == b"abc" and b.tell() == 0 and not a.any()


class _Node(ctypes.Structure):
    _fields_ = [("k", ctypes.c_int), ("next", ctypes.POINTER(ctypes.c_int))]


_number_behind = ctypes.c_int(3)
POINTERS = {
    "pointer": (lambda x, p: x * p[0], ctypes.pointer(_number_behind)),
    "text": (lambda x, p: x * len(p.value), ctypes.c_char_p(b"abc")),
    "structure": (lambda x, p: x * p.next[0], _Node(1, ctypes.pointer(_number_behind))),
    "array": (lambda x, p: x * p[0][0], (ctypes.POINTER(ctypes.c_int) * 1)(ctypes.pointer(_number_behind))),
}


@pytest.mark.parametrize("name", POINTERS)
def test_addresses_are_refused(name):
    f, p = POINTERS[name]
    with pytest.raises(tp.JitError, match=r"test_memory\.py:\d+: .*p, a \w+ of ctypes, holds an address.*Way out"):
        tp.jit(lambda x: f(x, p))(_ones())


@pytest.mark.parametrize("much", [np.zeros(9 << 20), [0] * (1 << 18)], ids=["memory", "items"])
def test_much_to_look_at_is_said(much):
    f = tp.jit(lambda x: x * float(much[0]))
    with pytest.warns(UserWarning, match=r"each call looks at [\d,]+ .*most of it in much.*Way out"):
        f(_ones())
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        f(_ones())


@pytest.mark.parametrize("write", [lambda t: t.add_(1), lambda t: t.numpy().fill(7)], ids=["torch", "numpy"])
def test_a_refused_write_to_a_tensor_is_undone(write):
    t = torch.arange(3.0)

    def f(x):
        write(t)
        return x

    with pytest.raises(tp.JitError, match="a CPU tensor that outlives the function was written to"):
        tp.jit(f)(_ones())
    assert t.tolist() == [0, 1, 2]


@pytest.mark.parametrize("size", [0, 8])
def test_memory_that_was_freed_is_not_read(size):
    t, read = torch.ones(1 << 20), [1]
    f = tp.jit(lambda x: x * (t[0].item() if read else 3.0))
    close(f(_ones()), _ones())
    t.untyped_storage().resize_(size)
    read.clear()
    close(f(_ones()), _ones(3.0))


def test_a_mapped_file_that_was_cut_is_not_read(tmp_path):
    (tmp_path / "k").write_bytes(b"\x02" * (1 << 16))
    read = [1]
    with open(tmp_path / "k", "r+b") as file, mmap.mmap(file.fileno(), 0) as m:
        a = np.memmap(tmp_path / "k", mode="r")
        f = tp.jit(lambda x: x * (m[0] * a[0] / 4 if read else 3.0))
        close(f(_ones()), _ones())
        read.clear()
        file.truncate(0)
        close(f(_ones()), _ones(3.0))


def test_a_tensor_of_inference_mode_is_seen():
    with torch.inference_mode():
        t = torch.full((3,), 2.0)
    f = tp.jit(lambda x: x * t.to("pjrt"))
    close(f(_ones()), _ones(2.0))
    with torch.inference_mode():
        t.fill_(5)
    close(f(_ones()), _ones(5.0))
