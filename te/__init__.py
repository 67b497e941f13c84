"""Tensor expressions: what to compute, with no word about how."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..importing import import_on_thread
from ..ir.expr import Expr, IterVar, SizeVar, Var
from .axis import reduce_axis, size_var, thread_axis, var
from .boundaries import Extended, clamped, mirrored, padded, wrapped
from .compute import compute, placeholder
from .constant import ConstantOp, constant
from .errors import NoSuchName
from .extern import ExternOp, extern
from .extern_calls import (
    call_extern,
    call_intrin,
    call_llvm_intrin,
    call_llvm_pure_intrin,
    call_packed,
    call_pure_extern,
    target_has,
)
from .intrin_declaration import decl_buffer, decl_tensor_intrin
from .math import (
    abs,
    acos,
    acosh,
    all,
    any,
    asin,
    asinh,
    atan,
    atan2,
    atanh,
    ceil,
    ceildiv,
    clz,
    const,
    copysign,
    cos,
    cosh,
    div,
    erf,
    exp,
    exp2,
    exp10,
    expm1,
    floor,
    floordiv,
    floormod,
    fma,
    fmod,
    hypot,
    if_then_else,
    indexdiv,
    indexmod,
    infinity,
    isfinite,
    isinf,
    isnan,
    likely,
    log,
    log1p,
    log2,
    log10,
    max_value,
    min_value,
    nearbyint,
    popcount,
    pow,
    power,
    reinterpret,
    round,
    rsqrt,
    select,
    sigmoid,
    sin,
    sinh,
    sqrt,
    tan,
    tanh,
    trunc,
    truncdiv,
    truncmod,
)
from .operation import ComputeOp, Operation, PlaceholderOp
from .reduce import comm_reducer, max, min, prod, sum
from .scan import ScanOp, scan
from .tag import tag_scope
from .tensor import Tensor, TensorRegion, TensorSlice
from .tensor_compute import TensorComputeOp
from .tensor_intrin import TensorIntrin
from .tf32 import tf32
from .trace import trace
from .unknown_names import unknown_name

if TYPE_CHECKING:
    from ..schedule import Schedule, create_schedule
    from . import blas as blas
    from . import hybrid as hybrid
    from . import intrinsics as intrinsics
    from .autodiff import gradient

__all__ = [
    "ComputeOp",
    "ConstantOp",
    "Expr",
    "Extended",
    "ExternOp",
    "IterVar",
    "Operation",
    "PlaceholderOp",
    "ScanOp",
    "Schedule",
    "SizeVar",
    "Tensor",
    "TensorComputeOp",
    "TensorIntrin",
    "TensorRegion",
    "TensorSlice",
    "Var",
    "abs",
    "acos",
    "acosh",
    "all",
    "any",
    "asin",
    "asinh",
    "atan",
    "atan2",
    "atanh",
    "blas",
    "call_extern",
    "call_intrin",
    "call_llvm_intrin",
    "call_llvm_pure_intrin",
    "call_packed",
    "call_pure_extern",
    "ceil",
    "ceildiv",
    "clamped",
    "clz",
    "comm_reducer",
    "compute",
    "const",
    "constant",
    "copysign",
    "cos",
    "cosh",
    "create_schedule",
    "decl_buffer",
    "decl_tensor_intrin",
    "div",
    "erf",
    "exp",
    "exp10",
    "exp2",
    "expm1",
    "extern",
    "floor",
    "floordiv",
    "floormod",
    "fma",
    "fmod",
    "gradient",
    "hybrid",
    "hypot",
    "if_then_else",
    "indexdiv",
    "indexmod",
    "infinity",
    "intrinsics",
    "isfinite",
    "isinf",
    "isnan",
    "likely",
    "log",
    "log10",
    "log1p",
    "log2",
    "max",
    "max_value",
    "min",
    "min_value",
    "mirrored",
    "nearbyint",
    "padded",
    "placeholder",
    "popcount",
    "pow",
    "power",
    "prod",
    "reduce_axis",
    "reinterpret",
    "round",
    "rsqrt",
    "scan",
    "select",
    "sigmoid",
    "sin",
    "sinh",
    "size_var",
    "sqrt",
    "sum",
    "tag_scope",
    "tan",
    "tanh",
    "target_has",
    "tf32",
    "thread_axis",
    "trace",
    "trunc",
    "truncdiv",
    "truncmod",
    "var",
    "wrapped",
]

_ELSEWHERE = {
    "maximum": "te.max(a, b)",
    "minimum": "te.min(a, b)",
    "cast": "x.astype(dtype)",
    "arange": "te.compute((n,), lambda i: i)",
    "where": "te.if_then_else(condition, a, b), or te.select",
    "clip": "te.min(te.max(x, low), high)",
    "argmax": "a te.comm_reducer over (index, value) tuples",
    "argmin": "a te.comm_reducer over (index, value) tuples",
    "mean": "te.sum(x, axis=k) in a stage of its own, divided by the extent in the next",
    "relu": "te.max(x, 0)",
    "zeros": "te.compute(shape, lambda *i: te.const(0, dtype))",
    "matmul": "te.sum(A[i, k] * B[k, j], axis=k)",
    "array": "te.placeholder(shape, dtype), and pass the array when the kernel is called",
    "dot": "te.sum(a[k] * b[k], axis=k)",
    **{
        name: f"s[T].{name}(...), with s = te.create_schedule(T)"
        for name in (
            "split",
            "fuse",
            "reorder",
            "tile",
            "vectorize",
            "parallel",
            "unroll",
            "bind",
            "compute_at",
            "compute_inline",
        )
    },
    "vectorise": "s[T].vectorize(axis), with s = te.create_schedule(T)",
    "cache_read": "s.cache_read(T, scope, readers)",
    "cache_write": "s.cache_write(T, scope)",
    "rfactor": "s.rfactor(T, axis)",
    "logical_and": "te.all(a, b)",
    "logical_or": "te.any(a, b)",
    "logical_not": "~condition",
}
"""What other libraries have under these names, in ours."""

_FROM_SCHEDULE = ("Schedule", "create_schedule")


def _get(name: str) -> Any:
    if name in _FROM_SCHEDULE:  # an upper floor: loaded when it is asked for
        return getattr(import_on_thread("..schedule", __name__), name)
    if name in ("blas", "hybrid", "intrinsics"):
        return import_on_thread("." + name, __name__)
    if name == "gradient":
        return import_on_thread(".autodiff", __name__).gradient
    raise unknown_name(NoSuchName, "te", name, __all__, _ELSEWHERE)


if not TYPE_CHECKING:  # to which every name of a module with __getattr__ is one that it has
    __getattr__ = _get


def __dir__() -> list[str]:
    return sorted((*__all__, *(name for name in globals() if name.startswith("__"))))
