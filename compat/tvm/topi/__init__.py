"""tvm.topi: its operators are ours (tilewright.topi), its schedules topi.schedule for the target.

Where a name means something else here than in TVM, TVM's meaning holds: `divide` of integers rounds towards zero.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from importlib import import_module
from typing import Any

from .... import te
from .... import topi as _ours
from ....ir import ops
from ....te import Tensor
from .utils import sum_dtype

_SUBMODULES = (
    "arm_cpu",
    "cuda",
    "generic",
    "image",
    "nn",
    "random",
    "sparse",
    "tag",
    "testing",
    "utils",
    "vision",
    "x86",
)
_RENAMED = {
    "floordiv": "floor_divide",
    "floormod": "floor_mod",
    "broadcast_add": "add",
    "broadcast_sub": "subtract",
    "broadcast_mul": "multiply",
    "broadcast_div": "divide",
    "fast_exp": "exp",
    "fast_tanh": "tanh",
    "fast_erf": "erf",
}
"""Names of older releases, and of approximations: ours are within 2 units in the last place."""


_HERE = ("math", "broadcast", "transform", "reduction")
"""Modules of TVM's whose names all stand here."""
for _part in _HERE:
    sys.modules[f"{__name__}.{_part}"] = sys.modules[__name__]


def __getattr__(name: str) -> Any:
    if name in _SUBMODULES:
        return import_module(f".{name}", __name__)
    if name == "util":
        return import_module(".utils", __name__)
    if name in _HERE:
        return sys.modules[__name__]
    if name in _RENAMED:
        return globals().get(_RENAMED[name]) or getattr(_ours, _RENAMED[name])
    try:
        return getattr(_ours, name)
    except AttributeError:
        raise AttributeError(
            f"topi has no {name}: there are {', '.join(sorted({*dir(_ours), *_SUBMODULES}))}"
        ) from None


def __dir__() -> list[str]:
    return sorted({*dir(_ours), *_SUBMODULES, *_RENAMED})


def matmul(a: Tensor, b: Tensor, transp_a: bool = False, transp_b: bool = False) -> Tensor:
    """The product of two matrices."""
    return _ours.matmul(a, b, transp_a, transp_b, sum_dtype(a, None))


def gather(data: Tensor, axis: int, indices: Tensor, support_negative_indices: bool = True) -> Tensor:
    """Elements of data by their places along an axis, which count from the end where they are negative."""
    if support_negative_indices and indices.dtype.is_signed:
        extent = ops.convert(data.shape[axis]).astype(indices.dtype)
        given = indices
        indices = te.compute(
            given.shape,
            lambda *i: te.select(given[i] < 0, given[i] + extent, given[i]),
            name=f"{given.name}_from_begin",
            tag="injective",
        )
    return _ours.gather(data, axis, indices)


def gather_nd(a: Tensor, indices: Tensor, batch_dims: int = 0, index_rank: int | None = None) -> Tensor:
    """Elements of a by their coordinates."""
    del index_rank
    return _ours.gather_nd(a, indices, batch_dims)


def strided_slice(
    a: Tensor,
    begin: Any,
    end: Any,
    strides: Any = None,
    axes: Any = None,
    slice_mode: str = "end",
    assume_inbound: bool = True,
) -> Tensor:
    """a[begin:end:strides] along `axes`."""
    del assume_inbound
    return _ours.strided_slice(a, begin, end, strides, axes, slice_mode)


def cumsum(data: Tensor, axis: int | None = None, dtype: Any = None, exclusive: bool | None = None) -> Tensor:
    """Running sums."""
    return _ours.cumsum(data, axis, dtype, bool(exclusive))


def cumprod(data: Tensor, axis: int | None = None, dtype: Any = None, exclusive: bool | None = None) -> Tensor:
    """Running products."""
    return _ours.cumprod(data, axis, dtype, bool(exclusive))


def scatter(data: Tensor, indices: Tensor, updates: Tensor, axis: int = 0) -> Tensor:
    """data with updates at their places along an axis."""
    return _ours.scatter_elements(data, indices, updates, axis)


def scatter_add(data: Tensor, indices: Tensor, updates: Tensor, axis: int = 0) -> Tensor:
    """data with updates added at their places along an axis."""
    return _ours.scatter_elements(data, indices, updates, axis, "add")


def divide(lhs: Any, rhs: Any) -> Any:
    """lhs / rhs; of integers the quotient rounded towards zero."""
    whole = all(ops.convert(_element(side)).dtype.is_integer for side in (lhs, rhs))
    quotient: Callable[..., Any] = _ours.trunc_divide if whole else _ours.divide
    return quotient(lhs, rhs)


def _element(side: Any) -> Any:
    return ops.const(0, side.dtype) if isinstance(side, Tensor) else side
