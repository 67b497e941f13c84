"""Products of integers with fractions that are integers too."""

from __future__ import annotations

from typing import Any

from .. import te
from ..base.errors import user_source
from ..te.tensor import Tensor, tensor_text
from .checks import BadOperand, tensor
from .transform import injective

__all__ = ["fixed_point_multiply"]


def fixed_point_multiply(x: Tensor, multiplier: int, shift: int) -> Tensor:
    """x * multiplier * 2 ** (shift - 31), rounded to the next integer, halves upwards. The product is of 64 bits.

    Parameters
    ----------
    x : Tensor
        int32 of any shape.
    multiplier : int
        A fraction, in parts of 2 ** 31.
    shift : int
        The exponent.

    Returns
    -------
    Tensor
        int32 in the shape of x.

    Raises
    ------
    BadOperand (TW0181)
        An operand that is not a tensor, or of another shape or dtype.
    """
    source = tensor(x, "fixed_point_multiply")
    if str(source.dtype) != "int32":
        raise BadOperand(
            f"fixed_point_multiply of {tensor_text(source)}",
            reason="it multiplies int32",
            declared=source.source,
            called=user_source(),
            fix='topi.cast(x, "int32")',
        )
    # a left shift before the product keeps bits that a right one after it would lose
    up, down = max(shift, 0), 31 + max(-shift, 0)
    # half of what is shifted out, so that the shift rounds
    half, by = te.const(1 << (down - 1), "int64"), te.const(multiplier, "int64")

    def element(*i: Any) -> Any:
        wide = source[i].astype("int64") << te.const(up, "int64")  # int32 times int32 fits 64 bits
        return ((wide * by + half) >> te.const(down, "int64")).astype("int32")

    return injective(source.shape, element, "fixed_point_multiply")
