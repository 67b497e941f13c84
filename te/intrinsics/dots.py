"""Dot products of a few numbers each, 16 or as many as lanes: what the intrinsics for them have in common."""

from __future__ import annotations

from collections.abc import Callable

from ...ir import Buffer, DType, Expr, Shuffle, Stmt
from ...ir.ops import const
from ..axis import reduce_axis
from ..compute import compute, placeholder
from ..intrin_declaration import decl_buffer, decl_tensor_intrin
from ..reduce import sum as reduce_sum
from ..tensor_intrin import TensorIntrin

__all__ = ["LANES", "declare_dots", "neighbours_added"]

LANES = 16
"""How many dot products there are."""


def declare_dots(
    name: str,
    operands: tuple[str, str],
    length: int,
    sums: str,
    body: Callable[[Buffer, Buffer, Buffer, Expr], Stmt],
    lanes: int = LANES,
) -> TensorIntrin:
    """The intrinsic c[i] += a[0] * b[i, 0] + ..., a: (length,), b: (lanes, length) compact, c: (lanes,).

    operands: the dtypes of a and b. sums: that of c, and of the products. body: what stores into c the dot products of a and
    b added to the sums, from (a, b, c, those sums).
    """
    a = placeholder((length,), operands[0], "a")
    b = placeholder((lanes, length), operands[1], "b")
    k = reduce_axis((0, length), "k")
    c = compute((lanes,), lambda i: reduce_sum(a[k].astype(sums) * b[i, k].astype(sums), axis=k), "c")
    binds = {
        a: decl_buffer(a.shape, a.dtype, "a", strides=[1], offset_factor=1),
        b: decl_buffer(b.shape, b.dtype, "b", strides=[length, 1], offset_factor=1),
        c: decl_buffer(c.shape, c.dtype, "c", strides=[1], offset_factor=1),
    }
    vector = DType(f"{sums}x{lanes}")

    def bodies(ins: list[Buffer], outs: list[Buffer]) -> tuple[Stmt, Stmt, Stmt]:
        (left, right), (out,) = ins, outs
        zero = const(0, vector)
        return body(left, right, out, zero), out.vstore([0], zero), body(left, right, out, out.vload([0], vector))

    return decl_tensor_intrin(c.op, bodies, name, binds)


def neighbours_added(values: Expr) -> Expr:
    """v[0] + v[1], v[2] + v[3] ...: of products of numbers of 16 bits this is one instruction on most processors."""
    lanes = values.dtype.lanes
    return Shuffle((values,), tuple(range(0, lanes, 2))) + Shuffle((values,), tuple(range(1, lanes, 2)))
