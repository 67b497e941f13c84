"""A 4 by 4 microkernel of matrix multiplication: outer products added up in four vector registers.

    c[i, j] += a[0, i] * b[0, j] + ... + a[depth - 1, i] * b[depth - 1, j]      a, b: [depth, 4], c: [4, 4]

Written in vectors of our own IR, so it runs on every target: for each k a row of b is loaded once, and each element of
a's row, broadcast, multiplies it into a row of c (Goto and van de Geijn, Anatomy of High-Performance Matrix
Multiplication, section 4). A is packed with k outermost:

    packed = te.compute((n // 4, k, 4), lambda io, k, ii: A[io * 4 + ii, k])
"""

from __future__ import annotations

from collections.abc import Sequence

from ...ir import Buffer, DType, Expr, Stmt
from ...ir.builder import ir_builder
from ...ir.combine import mul_add
from ...ir.ops import cast, const
from ..axis import reduce_axis, var
from ..compute import compute, placeholder
from ..intrin_declaration import decl_buffer, decl_tensor_intrin
from ..reduce import sum as reduce_sum
from ..tensor_intrin import TensorIntrin
from .registry import register_intrinsic

__all__ = ["outer_product"]

SIZE = 4


@register_intrinsic("vector.outer_product_4x4")
def outer_product(depth: int = 1, dtype: str = "float32") -> TensorIntrin:
    """The intrinsic. For `te.sum(A[..., k, i] * B[..., k, j], axis=k)` over 4 i, 4 j and `depth` k, i and j running along
    memory; the rows may lie any number of elements apart. dtype: of all three."""
    kind = DType(dtype)
    a, b = placeholder((depth, SIZE), kind, "a"), placeholder((depth, SIZE), kind, "b")
    k = reduce_axis((0, depth), "k")
    c = compute((SIZE, SIZE), lambda i, j: reduce_sum(a[k, i] * b[k, j], axis=k), "c")
    binds = {
        tensor: decl_buffer(tensor.shape, kind, tensor.name, strides=[var(f"{tensor.name}_row"), 1], offset_factor=1)
        for tensor in (a, b, c)
    }
    row = kind.with_lanes(SIZE)

    def bodies(ins: list[Buffer], outs: list[Buffer]) -> tuple[Stmt, Stmt, Stmt]:
        zeros = [const(0, row)] * SIZE
        begin = ir_builder()
        for i in range(SIZE):
            begin.emit(outs[0].vstore([i, 0], zeros[i]))
        there: list[Expr] = [outs[0].vload([i, 0], row) for i in range(SIZE)]
        return (
            _add_products(ins, outs[0], zeros, depth, row),
            begin.get(),
            _add_products(ins, outs[0], there, depth, row),
        )

    return decl_tensor_intrin(c.op, bodies, f"outer_product_4x4_{depth}", binds)


def _add_products(ins: Sequence[Buffer], out: Buffer, begin: Sequence[Expr], depth: int, row: DType) -> Stmt:
    """The outer products added to `begin`, the rows of a tile, which stays in registers meanwhile."""
    ib = ir_builder()
    tile = ib.allocate(row.element, (SIZE, SIZE), "tile").buffer
    for i in range(SIZE):
        ib.emit(tile.vstore([i, 0], begin[i]))
    with ib.for_range(0, depth, "k") as k:
        right = ib.let("right", ins[1].vload([k, 0], row))
        for i in range(SIZE):
            ib.emit(tile.vstore([i, 0], mul_add(cast(ins[0].vload([k, i]), row), right, tile.vload([i, 0], row))))
    for i in range(SIZE):
        ib.emit(out.vstore([i, 0], tile.vload([i, 0], row)))
    return ib.get()
