"""tvm.runtime."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

import numpy as np

from ...base.arguments import is_a, is_sequence
from ...ir import ops as _ops
from ...ir.dtype import DType as DataType
from ...ir.expr import Expr, StringImm
from ...ir.packed_functions import find_func, registered_names
from ...ir.packed_functions import register_func as _register
from ...te import Tensor
from . import nd as ndarray
from .container import Array, Map
from .driver import Module, load_module
from .executor import create
from .nd import NDArray, cpu, cuda, device, gpu
from .tir import const

__all__ = [
    "Array",
    "DataType",
    "Map",
    "Module",
    "NDArray",
    "String",
    "const",
    "convert",
    "cpu",
    "create",
    "cuda",
    "device",
    "enabled",
    "get_global_func",
    "gpu",
    "load_module",
    "ndarray",
    "register_func",
]

String = str


def register_func(name: str | Callable[..., Any], f: Callable[..., Any] | None = None, override: bool = False) -> Any:
    """Registers a Python function by name: as a call, or as a decorator with or without a name."""
    if callable(name):
        return register_func(name.__name__, name)

    def register(function: Callable[..., Any]) -> Callable[..., Any]:
        _register(name, _wrap_arrays(function), override)
        return function

    return register if f is None else register(f)


def _wrap_arrays(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function over arrays as TVM's functions get them, with .numpy() and .copyto(), where kernels pass numpy views."""

    @wraps(function)
    def called(*args: Any) -> Any:
        return function(*(arg.view(NDArray) if type(arg) is np.ndarray else arg for arg in args))

    return called


def get_global_func(name: str, allow_missing: bool = False) -> Callable[..., Any] | None:
    """A function that register_func registered."""
    function = find_func(name)
    if function is None and not allow_missing:
        raise ValueError(
            f"no function named {name!r} is registered; there are {', '.join(registered_names()) or 'none'}"
        )
    return function


def convert(value: Any) -> Any:
    """A Python value as TVM hands it to its functions: numbers and strings as expressions, lists item by item."""
    if is_sequence(value):
        return Array(convert(item) for item in value)
    if is_a(value, dict):
        return Map({key: convert(item) for key, item in value.items()})
    if isinstance(value, str):
        return StringImm(value)
    return value if isinstance(value, (Expr, Tensor)) or callable(value) else _ops.convert(value)


def enabled(target: str) -> bool:
    """Return whether code for a target can be built and run here."""
    return str(target).split()[0] in ("llvm", "cpu")
