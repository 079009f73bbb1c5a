"""A learning rate after its schedule was stepped, which happens once the program ran: the program does not know it."""

from __future__ import annotations

from typing import Any, NoReturn

from ._jit_errors import refusal


class Later:
    """Stands for a number that is known only after the program ran; every use is refused."""

    def __init__(self, held: Any, schedule: str) -> None:
        self.held: Any = held.held if isinstance(held, Later) else held
        self._schedule = schedule

    def refuse(self) -> NoReturn:
        raise refusal("stepped", f" ({self._schedule})")


def _refusing(self: Later, *args: Any) -> NoReturn:
    self.refuse()


for _name in (
    *("add", "radd", "sub", "rsub", "mul", "rmul", "truediv", "rtruediv", "pow", "rpow", "neg", "pos", "abs", "float"),
    *("int", "bool", "eq", "ne", "lt", "le", "gt", "ge", "iter", "getitem", "len", "hash", "repr", "format", "round"),
    *("floordiv", "rfloordiv", "mod", "rmod", "index", "complex"),
):
    setattr(Later, f"__{_name}__", _refusing)
