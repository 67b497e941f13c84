"""Instructions that add up products of bytes, a row each: for rules that choose among those that a target has.

A processor's instruction enters here, with the intrinsic that computes a tile of 32 x 32 sums by it.
"""

from __future__ import annotations

from ...base.dataclass import dataclass
from .arm_dots import DOTPROD, I8MM
from .tile_dots import DOTS, GROUP, TILES

__all__ = ["DENSE_DOTS", "LEVEL_DOTS", "PAIRS", "PAIR_DOTS", "UNITS", "ByteUnit"]

PAIRS = "avx2"
"""The feature with which products of pairs of 16 bits are worth it."""


@dataclass(frozen=True)
class ByteUnit:
    """Instruction for products of bytes.

    feature: the target has it. intrinsic: its tile, by name. products: of bytes in a cycle, and turned_products: where one side
    has to be taken as bytes of another kind on the way; for one instruction a cycle where rate, a field of Machine, says how many
    there are. turns: whether that is where both sides are of one kind (True) or of two (False). begun: cycles that a tile takes
    beside. group: terms of a column that lie side by side; together: rows of the left side that take turns by them.
    """

    feature: str
    name: str
    intrinsic: str
    products: float
    turned_products: float
    begun: float
    rate: str = ""
    turns: bool = True
    group: int = GROUP
    together: int = 1


UNITS = (
    ByteUnit(TILES, "tile registers", "x86.tile_dot_32x32", 900, 900, 300),
    ByteUnit(DOTS, "dot products", "x86.tile_dot_32x32", 110, 65, 300),
    ByteUnit(I8MM, "products of rows by columns", "arm.tile_mmla_32x32", 28, 28, 160, "matrices", False, 8, 2),
    ByteUnit(DOTPROD, "dot products", "arm.tile_dot_32x32", 15, 14, 160, "dots", False),
)
"""The quickest first. Of 1024 products that tile registers have units for, 128 of dot products of 512 bits, 32 of rows by columns and 16
of dot products of 128 bits."""

DENSE_DOTS = {"uint8": ("x86.dot_u8i8_16x4", 4), "bfloat16": ("x86.dot_bf16_16x2", 2)}
"""By the dtype of what is multiplied with packed weights: the intrinsic of 16 sums, and how many numbers it takes at once. Its body has
an instruction for each architecture that has one, as those below."""
PAIR_DOTS = {"int16": "x86.dot_i16_16x2", "int8": "x86.dot_i16i8_16x2"}
"""Those of pairs of 16 bits, by the dtype of the packed weights."""
LEVEL_DOTS = "x86.dot_i8u8_16x4"
"""That of four bytes with weights of 4 bits, unpacked."""
