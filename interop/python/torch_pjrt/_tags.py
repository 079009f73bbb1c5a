"""Tries out whether this interpreter marks every change of a dict."""

from __future__ import annotations

import gc
from collections.abc import Callable
from typing import Any

from . import _native

TURNS = 40  # an interpreter that adapts its code to what it meets has done so by then


class _Holder:
    pass


class _Class:
    pass


def are_told() -> bool:
    """Whether the word of a dict that may be its tag is another one after each change, however it is made."""
    words = _native.dict_words
    plain: dict[Any, Any] = {"a": 0}
    if any(words(dict.fromkeys(range(n)))[0] != n for n in (0, 1, 7)):
        return False
    small, large, module = _Holder(), _Holder(), type(_native)("module")
    small.a = module.a = 0  # type: ignore[attr-defined]
    for k in range(40):
        setattr(large, f"a{k}", k)
    names: dict[str, Any] = {"a": 0}
    exec("def write(value):\n    global a\n    a = value\n", names)

    def store(value: object) -> None:
        small.a = value  # type: ignore[attr-defined]

    def store_in_large(value: object) -> None:
        large.a7 = value  # type: ignore[attr-defined]

    def store_in_module(value: object) -> None:
        module.a = value  # type: ignore[attr-defined]

    def delete_and_store(value: object) -> None:
        del small.a  # type: ignore[attr-defined]
        small.a = value  # type: ignore[attr-defined]

    ways: list[tuple[dict[Any, Any], Callable[[object], object]]] = [
        (plain, lambda value: plain.__setitem__("a", value)),
        (plain, lambda value: plain.__setitem__(value, value)),
        (plain, lambda value: plain.popitem()),
        (plain, lambda value: plain.update(a=value)),
        (plain, lambda value: plain.update(a=plain.pop("a"))),
        (plain, lambda value: plain.clear() if plain else plain.setdefault("a", value)),
        (plain, lambda value: plain.__ior__({"b": value})),
        (vars(small), store),
        (vars(small), lambda value: setattr(small, "a", value)),
        (vars(small), lambda value: object.__setattr__(small, "a", value)),
        (vars(small), delete_and_store),
        (vars(large), store_in_large),
        (vars(large), lambda value: vars(large).update(a9=value)),
        (vars(module), store_in_module),
        (names, lambda value: names["write"](value)),
        (gc.get_referents(vars(_Class))[0], lambda value: setattr(_Class, "a", value)),
    ]
    for found, change in ways:
        for _ in range(TURNS):
            before = words(found)[1]
            change(object())
            if words(found)[1] == before:
                return False
    return True
