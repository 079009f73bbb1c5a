"""What a jit function is beside a function: the module that it wraps, and an object that is copied and pickled."""

from __future__ import annotations

import functools
import sys
import types
from typing import Any

import torch

from ._methods import name_in, underlying


class Face:
    """Base class of jit functions. One of a module has the module's attributes: ``parameters()``, ``state_dict()``,
    ``train()``, ``to()``; copies and pickles have the function and no programs.
    """

    _fn: Any
    source: Any

    def _take_after(self, fn: Any) -> None:
        """Name, documentation and attributes of the function."""
        inner = underlying(fn.forward if isinstance(fn, torch.nn.Module) else fn)
        own = self.__dict__
        for name in (*functools.WRAPPER_ASSIGNMENTS, "__isabstractmethod__"):
            if hasattr(inner, name) or hasattr(fn, name):
                own[name] = getattr(inner if hasattr(inner, name) else fn, name)
        named = fn
        while isinstance(named, functools.partial):
            named = named.func
        if named is not fn and hasattr(named, "__name__"):
            own["__name__"] = named.__name__
        if isinstance(fn, torch.nn.Module) or "__name__" not in own:
            own["__name__"] = type(fn).__name__
        if isinstance(inner, types.FunctionType):
            for name, value in vars(inner).items():
                own.setdefault(name, value)

    def __getattr__(self, name: str) -> Any:
        fn = self.__dict__.get("_fn")
        if not isinstance(fn, torch.nn.Module) or (name.startswith("__") and name.endswith("__")):
            raise AttributeError(f"'{type(self).__name__}' object has no attribute {name!r}")
        found = getattr(fn, name)
        if not isinstance(found, types.MethodType) or found.__self__ is not fn:
            return found

        @functools.wraps(found)
        def method(*args: Any, **kwargs: Any) -> Any:
            out = found(*args, **kwargs)
            return self if out is fn else out

        return method

    def __setattr__(self, name: str, value: Any) -> None:
        own = self.__dict__
        if "_complete" in own and name not in own and isinstance(own["_fn"], torch.nn.Module):
            setattr(own["_fn"], name, value)
        else:
            object.__setattr__(self, name, value)

    def _given(self) -> tuple[Any, ...]:
        """The arguments that it was made with."""
        raise NotImplementedError

    def __reduce__(self) -> Any:
        if self.source is not None:
            holder = getattr(self._fn, "__self__", None)
            found = None if holder is None else name_in(holder, self.source)
            if found is not None:
                return getattr, (holder, found)
        name = getattr(self, "__qualname__", None)
        at: Any = sys.modules.get(getattr(self, "__module__", None) or "")
        for part in (name or "").split("."):
            at = getattr(at, part, None)
        if name is not None and at is self:
            return name
        return type(self), self._given()
