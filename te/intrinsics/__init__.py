"""The tensor intrinsics that come with tilewright, a file each."""

from __future__ import annotations

from . import arm_dots as arm_dots
from . import arm_tiles as arm_tiles
from . import byte_units as byte_units
from . import dot_bf16 as dot_bf16
from . import dot_i16 as dot_i16
from . import dot_u8i8 as dot_u8i8
from . import dp4a as dp4a
from . import gemv_c as gemv_c
from . import mma as mma
from . import outer_product as outer_product
from . import tile_dots as tile_dots
from . import wgmma as wgmma
from .registry import get, names

__all__ = [
    "arm_dots",
    "arm_tiles",
    "byte_units",
    "dot_bf16",
    "dot_i16",
    "dot_u8i8",
    "dp4a",
    "gemv_c",
    "get",
    "mma",
    "names",
    "outer_product",
    "tile_dots",
    "wgmma",
]
