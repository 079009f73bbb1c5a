"""Numbers in containers of the user's that change from call to call: a weight that is annealed, a count of steps.

The first trace takes such a number for a constant. When another value stands in its place at a later trace, it becomes
an input of the program, as a float argument is.
"""

from __future__ import annotations

from typing import Any


class Varying:
    """Which places of one jit function hold numbers that change."""

    def __init__(self) -> None:
        self._seen: dict[tuple[int, Any], float] = {}
        self._places: set[tuple[int, Any]] = set()

    def varies(self, container: Any, key: Any, value: float) -> bool:
        """Whether another number was seen at this place before."""
        if not isinstance(key, str | int):
            return False
        place = (id(container), key)
        was = self._seen.setdefault(place, value)
        if was != value and not (was != was and value != value):
            self._places.add(place)
        return place in self._places
