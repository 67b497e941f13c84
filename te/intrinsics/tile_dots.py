"""A tile of 32 x 32 sums of products of bytes: in the tile registers of x86 (AMX), or by dot products of four bytes or of two.

    c[i, j, l] += a[i, k] * b[j, k / 4, l * 4 + k % 4]
                                       a: [32, terms], b: [2, terms / 4, 64] compact in the last two, int8 or uint8 each
                                       c: int32[32, 2, 16]

The whole sum at once: registers hold what is added up, and give it to memory once. Exact, as all sums of int32. Where the target
has no AMX, or the system does not give it to the process, dot products (AVX-512 VNNI, else pairs of 16 bits) do the same.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ...base.errors import user_source
from ...ir import Buffer, DType, Expr, IterVar, Stmt
from ...ir.builder import ir_builder
from ...ir.ops import cast, const
from ..axis import reduce_axis, var
from ..compute import compute, placeholder
from ..errors import BadTensorIntrin
from ..extern_calls import call_extern, target_has
from ..intrin_declaration import decl_buffer, decl_tensor_intrin
from ..reduce import sum as reduce_sum
from ..tensor_intrin import TensorIntrin
from .dot_u8i8 import FEATURE as DOTS
from .dot_u8i8 import GROUP, dots_at_once, dots_by_pairs, spread
from .dots import LANES
from .registry import register_intrinsic

__all__ = ["DOTS", "GROUP", "LANES", "PANELS", "ROWS", "STEP", "TILES", "declare_tile", "tile_dot"]

TILES = "amx-int8"
"""What the target has to have for tile registers; DOTS: for dot products of four bytes."""
ROWS, PANELS, STEP = 32, 2, 64
"""Rows of the tile; panels of 16 columns; terms of an instruction on tile registers."""
_NAMES = {"int8": "i8", "uint8": "u8"}
_SUMS = DType("int32").with_lanes(LANES)

Dot = Callable[[Expr, Expr, Expr], Expr]
"""Sums, with the dot products of two vectors of bytes added."""


def declare_tile(
    name: str,
    terms: int,
    dtypes: tuple[str, str],
    body: Callable[[list[Buffer], Buffer], Stmt],
    group: int = GROUP,
    together: int = 1,
) -> TensorIntrin:
    """A tile of 32 x 32 sums, for sums of a multiple of 64 terms. The rows of a and c, and the panels of b, may lie any number of
    elements apart. group: terms that lie side by side for a column; together: rows of a that take turns, so many terms each. body: what
    stores the sums, from a and b, and c. Raises BadTensorIntrin (TW0132) for other terms and dtypes."""
    if terms < 1 or terms % STEP or not set(dtypes) <= _NAMES.keys():
        raise BadTensorIntrin(
            f"cannot declare a tile of {terms} terms of {dtypes[0]} by {dtypes[1]}",
            called=user_source(),
            reason=f"an instruction takes {STEP} terms, each int8 or uint8",
            fix=f"pad the sum to a multiple of {STEP}",
        )
    rows = (ROWS, terms) if together == 1 else (ROWS // together, terms // group, together * group)
    a, b = placeholder(rows, dtypes[0], "a"), placeholder((PANELS, terms // group, LANES * group), dtypes[1], "b")
    k = reduce_axis((0, terms), "k")

    def left(i: IterVar) -> Expr:
        return a[i, k] if together == 1 else a[i // together, k // group, i % together * group + k % group]

    c = compute(
        (ROWS, PANELS, LANES),
        lambda i, j, lane: reduce_sum(
            left(i).astype("int32") * b[j, k // group, lane * group + k % group].astype("int32"), axis=k
        ),
        "c",
    )
    binds = {
        a: decl_buffer(a.shape, a.dtype, "a", strides=[var("a_row"), *rows[2:], 1], offset_factor=1),
        b: decl_buffer(b.shape, b.dtype, "b", strides=[var("b_panel"), LANES * group, 1], offset_factor=1),
        c: decl_buffer(c.shape, c.dtype, "c", strides=[var("c_row"), LANES, 1], offset_factor=1),
    }

    def whole(ins: list[Buffer], outs: list[Buffer]) -> Stmt:
        return body(ins, outs[0])

    return decl_tensor_intrin(c.op, whole, f"{name}_{terms}", binds)


@register_intrinsic("x86.tile_dot_32x32")
def tile_dot(terms: int, a_dtype: str = "int8", b_dtype: str = "int8") -> TensorIntrin:
    """The intrinsic: declare_tile's, of a row after the other."""

    def body(ins: list[Buffer], out: Buffer) -> Stmt:
        ib, (left, right) = ir_builder(), ins
        # Linux gives tile registers on request alone (arch_prctl), and may refuse
        with ib.if_scope(target_has(TILES)), ib.if_scope(_call_with_registers(left, right, out, terms) != 0):
            ib.emit(_sum_by_dots(left, right, out, terms))
        with ib.else_scope():
            ib.emit(_sum_by_dots(left, right, out, terms))
        return ib.get()

    return declare_tile("tile_dot", terms, (a_dtype, b_dtype), body)


def _call_with_registers(a: Buffer, b: Buffer, c: Buffer, terms: int) -> Expr:
    """The call of the function around them, which tells whether the process may not use them."""
    apart = [cast(buffer.strides[0], "int64") * buffer.dtype.bytes for buffer in (a, b, c)]
    return call_extern(
        "int32",
        f"tw_tile_dot_{_NAMES[str(a.dtype)]}{_NAMES[str(b.dtype)]}",
        a.access_ptr("r"),
        apart[0],
        b.access_ptr("r"),
        apart[1],
        c.access_ptr("w"),
        apart[2],
        # the loop over terms is inside of the call, which loads and stores tile registers once
        const(terms // STEP, "int64"),
    )


def _sum_by_dots(a: Buffer, b: Buffer, c: Buffer, terms: int) -> Stmt:
    """Sum as many rows and panels at once as registers hold the sums of."""
    ib = ir_builder()
    with ib.if_scope(target_has(DOTS)):
        # 16 sums and the two panels of b leave registers of the 32 for rows of a
        ib.emit(_split_parts((a, b, c), terms, 8, PANELS, dots_at_once, turned=a.dtype == b.dtype))
    with ib.else_scope():
        # 16 registers without AVX-512, and the products by pairs need more of them
        ib.emit(_split_parts((a, b, c), terms, 4, 1, dots_by_pairs))
    return ib.get()


def _split_parts(of: Sequence[Buffer], terms: int, rows: int, panels: int, dot: Dot, *, turned: bool = False) -> Stmt:
    """The tile by parts of so many rows and panels. turned: instructions take one side unsigned, so a is taken as bytes of the
    other kind, each 128 more or less; the 128 times b that is too much is what zeros would give, and is taken off again."""
    a, b, c = of
    ib = ir_builder()
    with ib.for_range(0, PANELS // panels, "some") as some:

        def right(panel: int, k: Expr) -> Expr:
            return b.vload([some * panels + panel, k, 0], b.dtype.with_lanes(GROUP * LANES))

        # depends on columns alone, so it is computed once for all rows of the tile
        extra = ib.allocate("int32", (panels, LANES), "extra").buffer
        if turned:
            zeros = const(
                -128 if str(a.dtype) == "uint8" else 128, "int8x64" if str(a.dtype) == "uint8" else "uint8x64"
            )
            for panel in range(panels):
                ib.emit(extra.vstore([panel, 0], const(0, _SUMS)))
            with ib.for_range(0, terms // GROUP, "k") as k:
                for panel in range(panels):
                    ib.emit(extra.vstore([panel, 0], dot(extra.vload([panel, 0], _SUMS), zeros, right(panel, k))))
        with ib.for_range(0, ROWS // rows, "part") as part:
            sums = ib.allocate("int32", (rows, panels, LANES), "sums").buffer
            places = [(row, panel, 0) for row in range(rows) for panel in range(panels)]
            for place in places:
                ib.emit(sums.vstore(place, const(0, _SUMS)))
            with ib.for_range(0, terms // GROUP, "k") as k:
                columns = [ib.let("right", right(panel, k)) for panel in range(panels)]
                for place in places:
                    left = spread(a, [part * rows + place[0], k * GROUP], turned=turned)
                    ib.emit(sums.vstore(place, dot(sums.vload(place, _SUMS), left, columns[place[1]])))
            for row, panel, lane in places:
                total: Expr = sums.vload((row, panel, lane), _SUMS)
                if turned:
                    total = total - extra.vload([panel, 0], _SUMS)
                ib.emit(c.vstore([part * rows + row, some * panels + panel, 0], total))
    return ib.get()
