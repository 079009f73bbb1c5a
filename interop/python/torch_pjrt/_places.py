"""Parts of a tensor at a place that only the device knows: ``x[i]``, ``x[:, i] = v``, ``select``, ``narrow``.

torch would read the place on the host and take a view. Here the part is a copy, on which ``_blind.py`` keeps an eye:
what would tell it from a view is refused.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch

from ._asserted import check

if TYPE_CHECKING:
    from ._blind import Ops

_Tensor = torch.Tensor
_aten = torch.ops.aten


def _on_device(t: Any) -> bool:
    return isinstance(t, _Tensor) and t.device.type == "pjrt"


def _is_place(entry: Any) -> bool:
    """Whether an entry of an index is a number that the device holds. A bool or a uint8 is a mask."""
    return (
        _on_device(entry)
        and entry.dim() == 0
        and not (entry.is_floating_point() or entry.is_complex())
        and entry.dtype not in (torch.bool, torch.uint8)
    )


def _dims_of(entry: Any) -> int:
    """How many dims an entry of an index, not an Ellipsis, stands for."""
    if entry is None or isinstance(entry, bool):
        return 0
    is_mask = getattr(entry, "dtype", None) in (torch.bool, torch.uint8) or str(getattr(entry, "dtype", "")) == "bool"
    return int(entry.ndim) if is_mask else 1


def _picked(x: _Tensor, index: Any) -> tuple[list[tuple[int, _Tensor]], tuple[Any, ...]]:
    """The dims of ``x`` at which ``index`` has a place, with that, and the index of what is left without these dims."""
    entries = index if isinstance(index, tuple) else (index,)
    found: list[tuple[int, _Tensor]] = []
    rest = []
    dim = 0
    for k, entry in enumerate(entries):
        if entry is Ellipsis:
            dim = x.dim() - sum(_dims_of(e) for e in entries[k + 1 :])
        elif _is_place(entry):
            found.append((dim, entry))
            dim += 1
            continue
        else:
            dim += _dims_of(entry)
        rest.append(entry)
    return (found if dim <= x.dim() else []), tuple(rest)


def _places(found: list[tuple[int, _Tensor]]) -> list[Any]:
    """As ``aten.index`` takes them. Its checks are the device's, and it counts negative places from the end."""
    places: list[Any] = [None] * (found[-1][0] + 1)
    for d, place in found:
        places[d] = place.to(torch.int64)
    return places


def _is_whole(rest: tuple[Any, ...]) -> bool:
    return all(e is Ellipsis or (isinstance(e, slice) and (e.start, e.stop, e.step) == (None,) * 3) for e in rest)


def _is_basic(rest: tuple[Any, ...]) -> bool:
    """Whether an index takes a view."""
    return all(e is None or e is Ellipsis or type(e) in (int, slice) for e in rest)


def getitem(ops: Ops, x: _Tensor, index: Any) -> Any:
    found, rest = _picked(x, index) if _on_device(x) else ([], ())
    if not found:
        return NotImplemented
    made = _aten.index.Tensor(x, _places(found))
    if not _is_whole(rest):
        made = made[rest]
    if _is_basic(rest):
        ops.copy(made, x, index)
    return made


def setitem(ops: Ops, x: _Tensor, index: Any, value: Any) -> Any:
    found, rest = _picked(x, index) if _on_device(x) else ([], ())
    if not found:
        return NotImplemented
    ops.put_back(value, x, index)
    places = _places(found)
    if _is_whole(rest):
        dims = {d for d, _ in found}
        part = x.new_empty([n for d, n in enumerate(x.shape) if d not in dims])
        part[...] = value
    else:
        part = _aten.index.Tensor(x, places)
        part[rest] = value
    _aten.index_put_(x, places, part)
    return None


def select(ops: Ops, input: _Tensor, dim: int, index: Any) -> Any:
    if not (_on_device(input) and _is_place(index)):
        return NotImplemented
    d = dim + input.dim() if dim < 0 else dim
    if not 0 <= d < input.dim():
        return NotImplemented
    made = _aten.index.Tensor(input, _places([(d, index)]))
    ops.copy(made, input, (d, index))
    return made


def narrow(ops: Ops, input: _Tensor, dim: int, start: Any, length: int) -> Any:
    if not (_on_device(input) and isinstance(start, _Tensor)):
        return NotImplemented
    size = input.size(dim)
    start = start.to(input.device, torch.int64).reshape(())
    check(
        (start < -size) | (start > size),
        f"narrow: start out of range (expected to be in range of [{-size}, {size}], but got {{}})",
        "index",
        start,
    )
    start = torch.where(start < 0, start + size, start)
    check(
        start + length > size,
        f"narrow: start ({{}}) + length ({length}) exceeds dimension size ({size}).",
        value=start,
    )
    places = torch.arange(length, device=input.device) + start.clamp(0, max(size - length, 0))
    made = input.index_select(dim, places)
    ops.copy(made, input)
    return made


_T: Any = torch.Tensor
INSTEAD: dict[Any, Callable[..., Any]] = {
    _T.__getitem__: getitem,
    _T.__setitem__: setitem,
    torch.select: select,
    _T.select: select,
    torch.narrow: narrow,
    _T.narrow: narrow,
}
