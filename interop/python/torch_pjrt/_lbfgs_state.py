"""The state of ``torch.optim.LBFGS`` in two forms: torch's dict, and tensors of fixed shapes for programs.

While the tensors are the newer, the optimizer's ``state`` holds a :class:`Frozen` in the dict's place, which is the
dict again as soon as anybody looks at it: eager steps, ``state_dict()``, ``pickle``, ``copy``.
"""

from __future__ import annotations

import contextlib
import weakref
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import torch

from . import _native

_NAME = "_pjrt_lbfgs"
_COUNTS = ("func_evals", "n_iter", "count", "start", "lent")
_LISTS = ("old_dirs", "old_stps", "ro", "al")
_OURS = {*_LISTS, "func_evals", "n_iter", "d", "t", "H_diag", "prev_flat_grad", "prev_loss"}


class NotFrozenError(BaseException):
    """A trace met an optimizer whose state is torch's dict: it has to be frozen before."""

    def __init__(self, optimizer: torch.optim.LBFGS) -> None:
        self.optimizer = optimizer


class Frozen(dict):  # type: ignore[type-arg]
    """Stands for the state of an optimizer that programs step. Itself it is always empty."""

    def __init__(self, held: _Held | _Hidden) -> None:
        self._held = held

    def __reduce_ex__(self, protocol: Any) -> Any:
        return dict, (self._held.thaw(),)

    def __copy__(self) -> Any:
        return dict(self._held.thaw())

    def __deepcopy__(self, memo: Any) -> Any:
        import copy

        return copy.deepcopy(self._held.thaw(), memo)


def _forward(name: str) -> Any:
    def method(self: Frozen, *args: Any, **kwargs: Any) -> Any:
        return getattr(self._held.thaw(), name)(*args, **kwargs)

    method.__name__ = name
    return method


for _method in (
    *("__getitem__", "__setitem__", "__delitem__", "__contains__", "__iter__", "__len__", "__reversed__", "__repr__"),
    *("__eq__", "__ne__", "__or__", "__ror__", "__ior__", "keys", "values", "items", "get", "setdefault", "pop"),
    *("popitem", "update", "clear", "copy"),
):
    setattr(Frozen, _method, _forward(_method))


class _Held:
    """The tensors of one optimizer, in :attr:`tensors`, which is a dict that traces walk into."""

    def __init__(self, optimizer: torch.optim.LBFGS, kind: tuple[Any, ...]) -> None:
        self.optimizer, self.kind = weakref.ref(optimizer), kind
        self.plain: dict[str, Any] | None = {}
        """torch's form, while that is the newer one."""
        n, history, dtype = kind
        self.others: dict[str, Any] = {}
        self.lr = optimizer.param_groups[0]["lr"]

        def empty(*sizes: int, dtype: torch.dtype = dtype) -> torch.Tensor:
            return torch.empty(sizes, dtype=dtype, device="pjrt")

        self.tensors = {name: empty(dtype=torch.int64) for name in _COUNTS}
        self.tensors |= {name: empty(dtype=torch.float64) for name in ("t", "prev_loss")}
        self.tensors |= {name: empty(history) for name in ("ro", "al")}
        self.tensors |= {name: empty(history, n) for name in ("old_dirs", "old_stps")}
        self.tensors |= {name: empty(n) for name in ("d", "prev_flat_grad")}
        self.tensors["H_diag"] = empty()

    def stands_in(self, optimizer: torch.optim.LBFGS) -> bool:
        """Whether the optimizer has no dict, but what stands for this."""
        now = optimizer.state.get(optimizer._params[0])
        return isinstance(now, Frozen) and now._held is self

    @torch.no_grad()
    def pack(self, plain: dict[str, Any]) -> None:
        """Takes over torch's form."""
        t = self.tensors
        history = self.kind[1]
        count = len(plain.get("old_dirs") or ())
        if count > history:
            raise ValueError(
                f"LBFGS: state of {count} directions, expected at most history_size={history}. Way out: leave "
                "history_size as it was, or start with a new optimizer"
            )
        self.others = {k: v for k, v in plain.items() if k not in _OURS}
        for name in ("func_evals", "n_iter", "t", "prev_loss", "d", "prev_flat_grad"):
            _fill(t[name], plain.get(name))
        _fill(t["H_diag"], plain.get("H_diag", 1))
        t["start"].zero_()
        t["lent"].fill_(plain.get("t") is self.lr and isinstance(self.lr, torch.Tensor))
        t["count"].fill_(count)
        for name in _LISTS:
            items = [x for x in plain.get(name) or () if x is not None]
            t[name].zero_()
            if items:
                t[name][: len(items)].copy_(torch.stack(items))
        self.plain = None

    @torch.no_grad()
    def thaw(self) -> dict[str, Any]:
        """torch's form, from now on the newer one. It is put into the optimizer."""
        if _native.tracing():
            from ._jit_errors import refusal

            raise refusal("lbfgs_state")
        if self.plain is None:
            self.plain = self._unpack()
        optimizer = self.optimizer()
        if optimizer is not None and self.stands_in(optimizer):
            optimizer.state[optimizer._params[0]] = self.plain
        return self.plain

    @torch.no_grad()
    def part(self, lr: Any) -> None:
        """Another learning rate takes the place of the one that may also be the length of the last step."""
        t = self.tensors
        if isinstance(self.lr, torch.Tensor):
            t["t"].copy_(torch.where(t["lent"] != 0, self.lr.reshape(()).to("pjrt").double(), t["t"]))
            t["lent"].zero_()
        self.lr = lr

    def _unpack(self) -> dict[str, Any]:
        t = self.tensors
        evals, steps, count, start, lent = (int(t[name].item()) for name in _COUNTS)
        if evals == 0 and steps == 0:
            return dict(self.others)
        plain: dict[str, Any] = {"func_evals": evals, "n_iter": steps}
        if steps:
            plain |= {name: t[name].clone() for name in ("d", "prev_flat_grad")}
            plain |= {name: t[name].item() for name in ("t", "prev_loss")}
            if lent:
                plain["t"] = self.lr
            # torch starts from the number 1.
            plain["H_diag"] = t["H_diag"].clone() if count else 1
            history = self.kind[1]
            for name in ("old_dirs", "old_stps", "ro"):
                plain[name] = [t[name][(start + i) % history].clone() for i in range(count)]
            if steps > 1:
                plain["al"] = [t["al"][i].clone() if i < count else None for i in range(history)]
        return plain | self.others


def _fill(tensor: torch.Tensor, value: Any) -> None:
    if isinstance(value, torch.Tensor):
        tensor.copy_(value.reshape(tensor.shape))
    else:
        tensor.fill_(value or 0)


class _Hidden:
    """In a trace, what stands behind a state that is torch's dict: nobody may look."""

    def thaw(self) -> dict[str, Any]:
        from ._jit_errors import refusal

        raise refusal("lbfgs_state")


@contextlib.contextmanager
def hidden(optimizers: list[torch.optim.LBFGS]) -> Iterator[None]:
    """Hides states while a function is traced: a program knows nothing of torch's form."""
    found = []
    for o in optimizers:
        if o._params and not isinstance(o.state.get(o._params[0]), Frozen):
            found.append((o.state, o._params[0], o.state.get(o._params[0])))
            o.state[o._params[0]] = Frozen(_Hidden())
    try:
        yield
    finally:
        for states, key, was in found:
            if was is None:
                states.pop(key, None)
            else:
                states[key] = was


def _kind(optimizer: torch.optim.LBFGS) -> tuple[Any, ...]:
    """Length, history and dtype of the flat gradient."""
    dtype = optimizer._params[0].dtype
    for p in optimizer._params:
        dtype = torch.promote_types(dtype, p.dtype)
    return optimizer._numel(), optimizer.param_groups[0]["history_size"], dtype.to_real()


def freeze(optimizer: torch.optim.LBFGS, fill: bool = True) -> None:
    """Makes the tensors the newer form. Without ``fill`` they get no values yet, and torch's form stays the newer."""
    held = optimizer.__dict__.get(_NAME)
    key = optimizer._params[0]
    kind = _kind(optimizer)
    if held is not None and held.kind == kind and held.plain is None and held.stands_in(optimizer):
        return
    plain = optimizer.state.get(key, {})
    if isinstance(plain, Frozen):
        plain = plain._held.thaw()
    if held is None or held.kind != kind:
        held = _Held(optimizer, kind)
        setattr(optimizer, _NAME, held)
        optimizer.register_state_dict_pre_hook(_thaw)
    held.lr = optimizer.param_groups[0]["lr"]
    if fill:
        held.pack(plain)
    else:
        held.plain = plain
    optimizer.state[key] = Frozen(held)


def fill(optimizer: Any) -> None:
    """Gives tensors that a trace without a run made their values."""
    held = optimizer.__dict__[_NAME]
    if held.plain is not None and held.stands_in(optimizer):
        held.pack(held.plain)


def ready(optimizer: torch.optim.LBFGS) -> None:
    """Before a program that steps the optimizer: makes the tensors the newer form, where they are not."""
    held = optimizer.__dict__.get(_NAME)
    if held is None or held.plain is not None or not held.stands_in(optimizer):
        freeze(optimizer)
    elif held.lr is not optimizer.param_groups[0]["lr"]:
        held.part(optimizer.param_groups[0]["lr"])


def _thaw(optimizer: torch.optim.Optimizer) -> None:
    """``state_dict`` hands out torch's form itself."""
    held = optimizer.__dict__.get(_NAME)
    if held is not None:
        held.thaw()


def tensors_of(optimizer: torch.optim.LBFGS) -> SimpleNamespace:
    """The tensors, for a trace.

    Raises :class:`NotFrozenError` where they are not the newer form.
    """
    held = optimizer.__dict__.get(_NAME)
    if held is None or not held.stands_in(optimizer) or held.kind != _kind(optimizer):
        raise NotFrozenError(optimizer)
    return SimpleNamespace(**held.tensors)


def tensors_held(optimizer: torch.optim.Optimizer) -> dict[str, torch.Tensor]:
    """What a trace reaches besides what is in the optimizer's containers."""
    held = optimizer.__dict__.get(_NAME)
    return held.tensors if held is not None else {}
