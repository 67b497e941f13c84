"""tvm.runtime."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ...ir import ops as _ops
from ...ir.dtype import DType as DataType
from ...ir.expr import Expr, StringImm
from ...te import Tensor
from . import nd as ndarray
from .driver import Module, load_module
from .nd import NDArray, cpu, cuda, device

__all__ = ["DataType", "Module", "NDArray", "convert", "cpu", "cuda", "device", "enabled", "get_global_func", "load_module",
           "ndarray", "register_func"]

_FUNCTIONS: dict[str, Callable[..., Any]] = {}


def register_func(name: str | Callable[..., Any], f: Callable[..., Any] | None = None, override: bool = False) -> Any:
    """Registers a Python function by name: as a call, or as a decorator with or without a name."""
    if callable(name):
        return register_func(name.__name__, name)

    def register(function: Callable[..., Any]) -> Callable[..., Any]:
        if name in _FUNCTIONS and not override:
            raise ValueError(f"a function named {name!r} is registered already; pass override=True to replace it")
        _FUNCTIONS[name] = function
        return function

    return register if f is None else register(f)


def get_global_func(name: str, allow_missing: bool = False) -> Callable[..., Any] | None:
    """A function that register_func registered."""
    if name not in _FUNCTIONS and not allow_missing:
        raise ValueError(f"no function named {name!r} is registered; there are {', '.join(_FUNCTIONS) or 'none'}")
    return _FUNCTIONS.get(name)


def convert(value: Any) -> Any:
    """A Python value as TVM hands it to its functions: numbers and strings as expressions, lists item by item."""
    if isinstance(value, (list, tuple)):
        return [convert(item) for item in value]
    if isinstance(value, str):
        return StringImm(value)
    return value if isinstance(value, (Expr, Tensor)) or callable(value) else _ops.convert(value)


def enabled(target: str) -> bool:
    """Whether code for a target can be built and run here."""
    return str(target).split()[0] in ("llvm", "cpu")
