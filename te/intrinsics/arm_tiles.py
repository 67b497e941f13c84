"""Tiles of 32 x 32 sums of products of bytes in AArch64's registers: by dot products of four bytes, or by products of two rows by two
columns.

    c[i, j, l] += a[i, k] * b[j, k / 4, l * 4 + k % 4]                              tile_dot: int8 or uint8 each
    c[i, j, l] += a[i / 2, k / 8, i % 2 * 8 + k % 8] * b[j, k / 8, l * 8 + k % 8]   tile_mmla

The whole sum at once, exactly, in parts of 4 rows and 16 columns, whose 16 registers keep two or four units busy: 16 bytes of a row are
loaded at once, and instructions take four of them by their place. Bytes of two kinds are products of their own with I8MM; else a is
taken as bytes of b's kind, each 128 more or less, and the 128 times b that is too much is taken off again.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ...ir import Buffer, DType, Expr, Shuffle, Stmt
from ...ir.builder import ir_builder
from ...ir.ops import call, cast, const
from ..extern_calls import target_has
from ..tensor_intrin import TensorIntrin
from .arm_dots import DOTPROD, I8MM, WIDTH, bytes_dotted, bytes_multiplied, lane_quad
from .dots import LANES
from .registry import register_intrinsic
from .tile_dots import GROUP, PANELS, ROWS, declare_tile

__all__ = ["tile_dot", "tile_mmla"]

_ROWS, _BYTES, _VECTORS, _EIGHT = 4, 16, LANES // WIDTH, 8
"""Of a part; of a register; registers of a row; terms of an instruction on rows and columns."""
_SUMS = DType("int32x4")


@register_intrinsic("arm.tile_dot_32x32")
def tile_dot(terms: int, a_dtype: str = "int8", b_dtype: str = "int8") -> TensorIntrin:
    """The intrinsic by dot products, for sums of a multiple of 64 terms."""

    def body(ins: list[Buffer], out: Buffer) -> Stmt:
        ib = ir_builder()
        with ib.if_scope(target_has(DOTPROD)):
            if a_dtype == b_dtype:
                ib.emit(_dot_parts(ins, out, terms, turned=False))
            else:
                with ib.if_scope(target_has(I8MM)):
                    ib.emit(_dot_parts(ins, out, terms, turned=False))
                with ib.else_scope():
                    ib.emit(_dot_parts(ins, out, terms, turned=True))
        with ib.else_scope():
            ib.emit(
                _plain_loops(
                    out, terms, lambda i, j, k, lane: _product(ins, (i, k), (j, k // GROUP, lane * GROUP + k % GROUP))
                )
            )
        return ib.get()

    return declare_tile("tile_dot_lanes", terms, (a_dtype, b_dtype), body)


@register_intrinsic("arm.tile_mmla_32x32")
def tile_mmla(terms: int, a_dtype: str = "int8", b_dtype: str = "int8") -> TensorIntrin:
    """The intrinsic by rows and columns, for sums of a multiple of 64 terms, two rows of a taking turns."""

    def body(ins: list[Buffer], out: Buffer) -> Stmt:
        ib = ir_builder()
        with ib.if_scope(target_has(I8MM)):
            ib.emit(_square_parts(ins, out, terms))
        with ib.else_scope():
            ib.emit(
                _plain_loops(
                    out,
                    terms,
                    lambda i, j, k, lane: _product(
                        ins,
                        (i // 2, k // _EIGHT, i % 2 * _EIGHT + k % _EIGHT),
                        (j, k // _EIGHT, lane * _EIGHT + k % _EIGHT),
                    ),
                )
            )
        return ib.get()

    return declare_tile("tile_mmla", terms, (a_dtype, b_dtype), body, _EIGHT, 2)


def _product(ins: Sequence[Buffer], left: Sequence[Expr], right: Sequence[Expr]) -> Expr:
    return cast(ins[0].vload(left), "int32") * cast(ins[1].vload(right), "int32")


def _plain_loops(out: Buffer, terms: int, product: Callable[[Expr, Expr, Expr, Expr], Expr]) -> Stmt:
    """The same where there are no such instructions."""
    ib = ir_builder()
    with ib.for_range(0, ROWS, "i") as i, ib.for_range(0, PANELS, "j") as j, ib.for_range(0, LANES, "lane") as lane:
        ib.emit(out.vstore([i, j, lane], const(0, "int32")))
        with ib.for_range(0, terms, "k") as k:
            ib.emit(out.vstore([i, j, lane], out.vload([i, j, lane]) + product(i, j, k, lane)))
    return ib.get()


def _dot_parts(ins: Sequence[Buffer], out: Buffer, terms: int, *, turned: bool) -> Stmt:
    """Parts of 4 rows. turned: a as bytes of b's kind."""
    ib, (a, b) = ir_builder(), ins
    kind = str(b.dtype) if turned else str(a.dtype)
    half = 128 if kind == "uint8" else -128
    with ib.for_range(0, PANELS, "panel") as panel:

        def column(k: Expr, vector: int) -> Expr:
            return b.vload([panel, k, vector * _BYTES], b.dtype.with_lanes(_BYTES))

        # what 128 times the columns adds too much is the same for all rows
        extra = ib.allocate("int32", (_VECTORS, WIDTH), "extra").buffer
        if turned:
            halves = const(half, f"{kind}x{_BYTES}")
            for vector in range(_VECTORS):
                ib.emit(extra.vstore([vector, 0], const(0, _SUMS)))
            with ib.for_range(0, terms // GROUP, "k") as k:
                for vector in range(_VECTORS):
                    old = extra.vload([vector, 0], _SUMS)
                    ib.emit(extra.vstore([vector, 0], bytes_dotted(old, halves, column(k, vector))))
        with ib.for_range(0, ROWS // _ROWS, "part") as part:
            sums = ib.allocate("int32", (_ROWS, _VECTORS, WIDTH), "sums").buffer
            places = [(row, vector, 0) for row in range(_ROWS) for vector in range(_VECTORS)]
            for place in places:
                ib.emit(sums.vstore(place, const(0, _SUMS)))
            with ib.for_range(0, terms // _BYTES, "k") as k:
                # 16 bytes a load serve four steps: an instruction picks its four by their number
                rows = [ib.let("row", _row(a, part * _ROWS + row, k * _BYTES, turned)) for row in range(_ROWS)]
                for step in range(_BYTES // GROUP):
                    for vector in range(_VECTORS):
                        right = ib.let("column", column(k * (_BYTES // GROUP) + step, vector))
                        for row in range(_ROWS):
                            old = sums.vload((row, vector, 0), _SUMS)
                            new = bytes_dotted(old, lane_quad(rows[row], step), right)
                            ib.emit(sums.vstore((row, vector, 0), new))
            for row, vector, lane in places:
                total: Expr = sums.vload((row, vector, lane), _SUMS)
                if turned:
                    total = total - extra.vload([vector, 0], _SUMS)
                ib.emit(out.vstore([part * _ROWS + row, panel, vector * WIDTH], total))
    return ib.get()


def _row(a: Buffer, i: Expr, k: Expr, turned: bool) -> Expr:
    """16 bytes of a row; turned: as those of the other kind."""
    values = a.vload([i, k], a.dtype.with_lanes(_BYTES))
    if not turned:
        return values
    other = "int8" if str(a.dtype) == "uint8" else "uint8"
    # flipping the sign's bit moves a byte by 128 into the other kind
    signs = const(128 if str(a.dtype) == "uint8" else -128, values.dtype)
    return call("reinterpret", values ^ signs, dtype=f"{other}x{_BYTES}")


def _square_parts(ins: Sequence[Buffer], out: Buffer, terms: int) -> Stmt:
    """Parts of two pairs of rows and eight pairs of columns."""
    ib, (a, b) = ir_builder(), ins
    pairs, across = _ROWS // 2, LANES // 2
    crossed = str(a.dtype) == "int8" and str(b.dtype) == "uint8"  # columns come first, and squares are transposed
    firsts, seconds = ((0, 2, 4, 6), (1, 3, 5, 7)) if crossed else ((0, 1, 4, 5), (2, 3, 6, 7))
    with ib.for_range(0, PANELS, "panel") as panel, ib.for_range(0, ROWS // _ROWS, "part") as part:
        sums = ib.allocate("int32", (pairs, across, WIDTH), "sums").buffer
        for pair in range(pairs):
            for at in range(across):
                ib.emit(sums.vstore((pair, at, 0), const(0, _SUMS)))
        with ib.for_range(0, terms // _EIGHT, "k") as k:
            rows = [
                ib.let("rows", a.vload([part * pairs + pair, k, 0], a.dtype.with_lanes(_BYTES)))
                for pair in range(pairs)
            ]
            for at in range(across):
                columns = ib.let("columns", b.vload([panel, k, at * _BYTES], b.dtype.with_lanes(_BYTES)))
                for pair in range(pairs):
                    old = sums.vload((pair, at, 0), _SUMS)
                    ib.emit(sums.vstore((pair, at, 0), bytes_multiplied(old, rows[pair], columns)))
        # a register has a square of 2 by 2 sums: two neighbours make four columns of each row
        for pair in range(pairs):
            for vector in range(_VECTORS):
                squares = tuple(sums.vload((pair, 2 * vector + at, 0), _SUMS) for at in range(2))
                for row, lanes in enumerate((firsts, seconds)):
                    place = [part * _ROWS + pair * 2 + row, panel, vector * WIDTH]
                    ib.emit(out.vstore(place, Shuffle(squares, lanes)))
    return ib.get()
