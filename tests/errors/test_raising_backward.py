"""Python code that raises during backward: the exception arrives unchanged, the process lives, the tensors still work.

Each case runs in this process: an exception that torch cannot carry out of a thread of its own would end it."""

import threading

import pytest
import torch
from torch.utils.checkpoint import checkpoint

from tests.support import DEVICE, python

pytestmark = pytest.mark.usefixtures("mode")


class Raised(Exception):
    """What every case raises: not an exception that anything else could."""


def boom(*_):
    raise Raised("in backward", 7)


class RaisesInBackward(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x * 2

    @staticmethod
    def backward(ctx, grad):
        boom()


def tensor_hook(x):
    y = x * 2
    y.register_hook(boom)
    return y * y


def hook_of_a_leaf(x):
    x.register_hook(boom)
    return x * 2


def hook_after_accumulation(x):
    x.register_post_accumulate_grad_hook(boom)
    return x * 2


def hook_before_a_node(x):
    y = x * 2
    y.grad_fn.register_prehook(boom)
    return y


def hook_after_a_node(x):
    y = x * 2
    y.grad_fn.register_hook(boom)
    return y


def full_backward_hook(x):
    module = torch.nn.Linear(4, 4).to(x.device)
    module.register_full_backward_hook(boom)
    return module(x)


def full_backward_pre_hook(x):
    module = torch.nn.Linear(4, 4).to(x.device)
    module.register_full_backward_pre_hook(boom)
    return module(x)


def multi_grad_hook(x):
    y, z = x * 2, x * 3
    torch.autograd.graph.register_multi_grad_hook((y, z), boom)
    return y * z


def custom_function(x):
    return RaisesInBackward.apply(x * 3)


def saved_tensors_hook(x):
    with torch.autograd.graph.saved_tensors_hooks(lambda t: t, boom):
        return x * x


def checkpointed(x, use_reentrant=False):
    calls = []

    def second_time_raises(v):
        calls.append(1)
        if len(calls) > 1:
            boom()
        return v.sin()

    return checkpoint(second_time_raises, x * 2, use_reentrant=use_reentrant)


def reentrant_checkpoint(x):
    return checkpointed(x, use_reentrant=True)


CASES = [
    tensor_hook,
    hook_of_a_leaf,
    hook_after_accumulation,
    hook_before_a_node,
    hook_after_a_node,
    full_backward_hook,
    full_backward_pre_hook,
    multi_grad_hook,
    custom_function,
    saved_tensors_hook,
    checkpointed,
    reentrant_checkpoint,
]
by_name = pytest.mark.parametrize("case", CASES, ids=lambda f: f.__name__)


def run(case, device=DEVICE):
    """Backward of the case raises what the case raised; a fresh backward right after it is right."""
    x = torch.arange(4.0, device=device).requires_grad_()
    y = case(x).sum()
    with pytest.raises(Raised) as caught:
        y.backward()
    assert caught.type is Raised
    assert caught.value.args == ("in backward", 7)
    assert caught.value.__cause__ is None
    assert caught.traceback[-1].name == "boom"
    again = torch.arange(4.0, device=device).requires_grad_()
    (again * again).sum().backward()
    assert again.grad.tolist() == [0, 2, 4, 6]
    assert x.tolist() == [0, 1, 2, 3]


@by_name
def test_the_exception_arrives(case):
    run(case)


@by_name
def test_the_exception_arrives_in_a_thread(case):
    failed = []

    def body():
        try:
            run(case)
        except BaseException as error:
            failed.append(error)

    thread = threading.Thread(target=body)
    thread.start()
    thread.join()
    assert not failed, failed


def test_again_and_again():
    for _ in range(50):
        run(tensor_hook)


def test_the_same_exception_object():
    error = Raised("kept")

    def hook(_):
        raise error

    x = torch.ones(3, device=DEVICE, requires_grad=True)
    y = x * 2
    y.register_hook(hook)
    with pytest.raises(Raised) as caught:
        y.sum().backward()
    assert caught.value is error


@pytest.mark.parametrize("kind", [KeyboardInterrupt, SystemExit, StopIteration, MemoryError])
def test_exceptions_of_every_kind(kind):
    def hook(_):
        raise kind("x")

    x = torch.ones(3, device=DEVICE, requires_grad=True)
    y = x * 2
    y.register_hook(hook)
    with pytest.raises(kind):
        y.sum().backward()


def test_autograd_grad_as_well():
    x = torch.ones(3, device=DEVICE, requires_grad=True)
    with pytest.raises(Raised):
        torch.autograd.grad(tensor_hook(x).sum(), x)


def test_an_error_of_ours_in_backward():
    """Not only Python code: a kernel that refuses inside backward."""
    x = torch.ones(3, device=DEVICE, requires_grad=True)
    y = x * 2
    y.register_hook(lambda g: g + torch.ones(5, device=g.device))
    with pytest.raises(RuntimeError, match="size of tensor"):
        y.sum().backward()


@pytest.mark.skipif(DEVICE == "cpu", reason="a trace is made of the device")
@pytest.mark.parametrize("case", [tensor_hook, custom_function], ids=lambda f: f.__name__)
def test_inside_a_trace(case):
    import torch_pjrt as tp

    @tp.jit
    def step(x):
        x = x.detach().requires_grad_()
        case(x).sum().backward()
        return x.grad

    x = torch.ones(4, device=DEVICE)
    with pytest.raises(Raised):
        step(x)
    assert (x + 1).tolist() == [2] * 4
    assert tp.jit(lambda v: v * 2)(x).tolist() == [2] * 4


def test_a_program_may_end_with_backward():
    """Autograd's thread still holds objects when backward returns: the end of the interpreter waits for it."""
    text = f"""
import torch, torch_pjrt
x = torch.ones(4, device={DEVICE!r}, requires_grad=True)
y = x
for _ in range(200):
    y = y * x
y.sum().backward()
"""
    for _ in range(3):
        done = python(text)
        assert done.returncode == 0, done.stderr
