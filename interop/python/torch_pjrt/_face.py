"""What a jit function is beside a function: the module that it wraps, and an object that is copied and pickled."""

from __future__ import annotations

import functools
import sys
import types
from typing import Any

import torch


class Face:
    """Base class of jit functions. One of a module has the module's attributes: ``parameters()``, ``state_dict()``,
    ``train()``, ``to()``; copies and pickles have the function and no programs.
    """

    _fn: Any
    _attribute: str
    """The name that it has in a class, as a method."""

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

    def __set_name__(self, owner: type, name: str) -> None:
        self._attribute = name

    def _given(self) -> tuple[Any, ...]:
        """The arguments that it was made with."""
        raise NotImplementedError

    def __reduce__(self) -> Any:
        if self._attribute and isinstance(self._fn, types.MethodType):
            return getattr, (self._fn.__self__, self._attribute)
        module = sys.modules.get(getattr(self, "__module__", None) or "")
        name = getattr(self, "__qualname__", None)
        if name is not None and getattr(module, name, None) is self:
            return name
        return type(self), self._given()
