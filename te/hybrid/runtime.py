"""Names of hybrid scripts when a script runs as Python, on numpy arrays.

`from tilewright.te.hybrid import output_tensor, parallel` tells editors and linters of them; scripts do not need it.
"""

from __future__ import annotations

import types
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, SupportsInt, cast

import numpy as np

from ...ir.dtype import DType
from ...ir.interpret.scalars import numpy_dtype
from .. import math as te_math
from .functions import FUNCTIONS
from .loops import LOOPS

__all__ = [
    "EMULATED",
    "allocate",
    "atomic_add",
    "bind",
    "const_range",
    "emulated",
    "output_tensor",
    "parallel",
    "serial",
    "unroll",
    "unrolled",
    "vectorize",
    "vectorized",
]


if TYPE_CHECKING:
    from ..tensor import Tensor

    class Memory(Tensor):
        """The memory that a script writes to."""

        def __setitem__(self, indices: Any, value: Any) -> None: ...


def output_tensor(shape: int | Sequence[int], dtype: object) -> Memory:
    """A result of the script: an array of zeros."""
    return cast("Memory", np.zeros(shape, numpy_dtype(DType(dtype))))


def allocate(shape: int | Sequence[int], dtype: object = "float32", scope: str = "global") -> Memory:
    """Memory of the script's own: an array of zeros.

    Parameters
    ----------
    shape : int or sequence of int
        One extent or several.
    dtype : str or dtype, default "float32"
        Of its elements.
    scope : str, default "global"
        global, shared, local or warp.
    """
    del scope  # of memory on a GPU
    return cast("Memory", np.zeros(shape, numpy_dtype(DType(dtype))))


def atomic_add(buffer: Any, index: int | tuple[int, ...], value: Any) -> None:
    """buffer[index] += value in one step, which iterations of a parallel loop may do to one element.

    Parameters
    ----------
    buffer : tensor of the script
        A result or allocated memory.
    index : int or tuple of int
        Of the element.
    value : number
        Of the buffer's dtype.
    """
    buffer[index] += value


def serial(*bounds: SupportsInt) -> range:
    """A loop, as range. bounds: numbers, or extents of tensors."""
    return range(*map(int, bounds))


def parallel(*bounds: SupportsInt, independent: bool = False) -> range:
    """A loop whose iterations are shared among threads. independent: they touch no element in common, though nobody can prove it."""
    del independent
    return range(*map(int, bounds))


vectorize = vectorized = unroll = unrolled = const_range = serial


def bind(tag: Any, extent: SupportsInt) -> range:
    """A loop whose iterations are threads."""
    del tag
    return range(int(extent))


def _limit(name: str) -> Callable[[Any], Any]:
    def emulated(dtype: Any) -> Any:
        return numpy_dtype(DType(dtype)).type(getattr(te_math, name)(str(np.dtype(numpy_dtype(DType(dtype))))).value)

    return emulated


def _max_num_threads(allow_none: bool = True) -> int:
    del allow_none  # TVM's name for: do not ask a target
    return 1024


EMULATED: dict[str, Any] = {
    **{name: row.emulated for name, row in FUNCTIONS.items()},
    **dict.fromkeys(LOOPS, serial),
    "parallel": parallel,
    "bind": bind,
    "output_tensor": output_tensor,
    "allocate": allocate,
    "atomic_add": atomic_add,
    "max_num_threads": _max_num_threads,
    **{name: _limit(name) for name in ("min_value", "max_value", "infinity")},
}
"""Every name of hybrid scripts, besides len."""


def emulated(function: types.FunctionType) -> types.FunctionType:
    """The function with the names of hybrid scripts around it."""
    emulated = types.FunctionType(
        function.__code__,
        {**function.__globals__, **EMULATED},
        function.__name__,
        function.__defaults__,
        function.__closure__,
    )
    emulated.__kwdefaults__ = function.__kwdefaults__
    return emulated
