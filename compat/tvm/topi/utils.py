"""topi.utils: what programs on topi use to write operators and schedules of their own."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from ....ir.arith import Analyzer
from ....ir.expr import Expr, FloatImm, IntImm
from ....ir.ops import integer_value
from ....schedule import Schedule
from ....te import Operation, Tensor
from ....topi.transform import flat_index as ravel_index
from . import tag

__all__ = [
    "equal_const_int",
    "get_const_float",
    "get_const_int",
    "get_const_tuple",
    "get_shape",
    "prod",
    "ravel_index",
    "simplify",
    "sum_dtype",
    "traverse_inline",
    "unravel_index",
]


def simplify(expr: Any) -> Any:
    """An expression simplified; a constant one as an integer."""
    simplified = Analyzer().simplify(expr) if isinstance(expr, Expr) else expr
    return integer_value(simplified, simplified)


def prod(x: Any) -> Any:
    """The product of extents; 1 of none."""
    product: Any = 1
    for factor in x:
        product = product * factor
    return product


def get_const_float(expr: Any) -> float:
    """A constant number as a float. Raises ValueError for a symbol."""
    if isinstance(expr, (IntImm, FloatImm)):
        return float(expr.value)
    if not isinstance(expr, (int, float)):
        raise ValueError("Expect value to be constant float")
    return float(expr)


def sum_dtype(data: Tensor, out_dtype: Any) -> Any:
    """The out_dtype of ours that adds products up as TVM does: in the data's dtype, float16 too, where none is asked for."""
    return out_dtype or (str(data.dtype) if data.dtype.is_float and data.dtype.bits == 16 else None)


def get_shape(src_shape: Any, src_layout: str, dst_layout: str) -> tuple[Any, ...]:
    """A shape in another order of its letters, or in other blocks of them: (1, 16, 7, 7) in NCHW is (1, 4, 7, 7, 4) in NCHW4c."""
    given, wanted = _blocks(src_layout), _blocks(dst_layout)
    if sorted({letter.upper() for letter, _ in given}) != sorted({letter.upper() for letter, _ in wanted}):
        raise ValueError(f"{src_layout} and {dst_layout} name other dimensions")
    whole: dict[str, Any] = {}
    for extent, (letter, _) in zip(get_const_tuple(src_shape), given, strict=True):
        whole[letter.upper()] = whole.get(letter.upper(), 1) * extent
    inner = {letter.upper(): block for letter, block in wanted if letter.islower()}
    return tuple(block if letter.islower() else whole[letter] // inner.get(letter, 1) for letter, block in wanted)


def _blocks(layout: str) -> list[tuple[str, int]]:
    """The dimensions of a layout: a letter, and how large its block is where it is a small one."""
    return [(letter, int(block or 1)) for block, letter in re.findall(r"(\d*)([A-Za-z])", layout)]


def unravel_index(idx: Any, shape: Any) -> list[Any]:
    """The indices of a place in row-major order."""
    indices: list[Any] = []
    for extent in reversed(list(shape)):
        indices.append(idx % extent)
        idx = idx // extent
    return list(reversed(indices))


def get_const_int(expr: Any) -> int:
    """A constant extent as an integer. Raises ValueError for a symbol."""
    if isinstance(expr, IntImm):
        return expr.value
    if not isinstance(expr, int):
        raise ValueError("Expect value to be constant int")
    return expr


def get_const_tuple(in_tuple: Any) -> tuple[Any, ...]:
    """Extents as integers; symbols stay what they are."""
    return tuple(integer_value(extent, extent) for extent in in_tuple)


def equal_const_int(expr: Any, value: int) -> bool:
    """Return whether an extent is this number."""
    return integer_value(expr, expr) == value if isinstance(expr, (int, IntImm)) else False


def traverse_inline(s: Schedule, final_op: Operation, callback: Callable[[Operation], None]) -> None:
    """Inlines what is tagged injective, from `final_op` to its inputs, and calls `callback` on every operation."""
    seen: set[Operation] = set()
    stack = [final_op]
    while stack:
        op = stack.pop()
        if op in seen:
            continue
        seen.add(op)
        if tag.is_injective(op.tag):
            if op not in s.outputs:
                s[op].compute_inline()
            stack.extend(tensor.op for tensor in op.input_tensors if tensor.op.input_tensors)
        callback(op)
