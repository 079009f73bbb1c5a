"""What each ``functools.lru_cache`` that a function reaches keeps of a trace: what is of the trace ends with it."""

from __future__ import annotations

import gc
from typing import Any

from ._settled import holds_numbers
from ._state import Walk


class Caches:
    """The caches as they are before a trace."""

    def __init__(self, before: Walk) -> None:
        self._before = before
        self._caches = [(c, misses, _entries(c)) for c, misses in before.caches]

    def drop(self) -> None:
        """Takes out what was put there since and holds tensors of the trace; the rest stays as without a trace."""
        for cache, misses, old in self._caches:
            if cache.cache_info().misses == misses:
                continue
            now = _entries(cache)
            if old is None or now is None:
                cache.cache_clear()
                continue
            table, entries = now
            known = {id(result) for _, result in old[1]}
            for key, result in entries:
                if id(result) not in known and self._is_of_trace((key, result)):
                    # An entry that has left the table is none to the cache, which looks for no other way to it.
                    table.pop(key, None)

    def _is_of_trace(self, entry: tuple[Any, Any]) -> bool:
        w = Walk([])
        w.reads_all = True
        w.root(entry, "cache")
        before = self._before
        new = any(id(t) not in before.index for t, _, _ in w.tensors)
        return new or any(i not in before.sparse for i in w.sparse) or holds_numbers(entry, before)


def _entries(cache: Any) -> tuple[dict[Any, Any], list[tuple[Any, Any]]] | None:
    """The table of a cache, with its keys and results; ``None`` where Python does not tell. In a table of limited size
    are links, whose keys and results the cache gives one after the other."""
    parts = gc.get_referents(cache)
    tables = [p for p in parts if type(p) is dict and p is not vars(cache)]
    results = {id(k): r for k, r, t in zip(parts, parts[1:], parts[2:], strict=False) if _is_link(t)}
    info = cache.cache_info()
    if not tables or len(tables[-1]) != info.currsize:
        return None
    table: dict[Any, Any] = tables[-1]  # after the results
    if info.maxsize is None:
        return table, list(table.items())
    if any(id(k) not in results or not _is_link(type(link)) for k, link in table.items()):
        return None
    return table, [(k, results[id(k)]) for k in table]


def _is_link(t: Any) -> bool:
    return type(t) is type and t.__name__ == "_lru_list_elem"
