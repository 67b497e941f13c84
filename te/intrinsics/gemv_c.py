"""A matrix times a vector by a C function, for kernels that exist already.

    c[i] = sum(b[i, k] * a[k])      a: float32[columns], b: float32[rows, columns] with any row stride, c: float32[rows]

The C function is the application's: `int symbol(float *c, const float *a, const float *b, int rows, int columns, int
stride)` adds to c. SOURCE is one such, in standard C.
"""

from __future__ import annotations

from ...ir import Buffer, Expr, Stmt
from ...ir.builder import ir_builder
from ...ir.ops import const
from ...ir.visit import seq
from ..axis import reduce_axis, var
from ..compute import compute, placeholder
from ..extern_calls import call_extern
from ..intrin_declaration import decl_buffer, decl_tensor_intrin
from ..reduce import sum as reduce_sum
from ..tensor_intrin import TensorIntrin
from .registry import register_intrinsic

__all__ = ["SOURCE", "gemv_c"]

SOURCE = """
int tw_gemv_f32(float *c, const float *a, const float *b, int rows, int columns, int stride) {
  for (int i = 0; i < rows; ++i) {
    float sum = c[i];
    for (int k = 0; k < columns; ++k) sum += a[k] * b[i * stride + k];
    c[i] = sum;
  }
  return 0;
}
"""


@register_intrinsic("c.gemv_f32")
def gemv_c(rows: int, columns: int, symbol: str = "tw_gemv_f32") -> TensorIntrin:
    """The intrinsic for a part of `rows` by `columns`; symbol: the C function, which must be loaded when the kernel is
    built."""
    a = placeholder((columns,), "float32", "a")
    b = placeholder((rows, columns), "float32", "b")
    k = reduce_axis((0, columns), "k")
    c = compute((rows,), lambda i: reduce_sum(a[k] * b[i, k], axis=k), "c")
    binds = {
        a: decl_buffer(a.shape, a.dtype, "a", strides=[1], offset_factor=1),
        b: decl_buffer(b.shape, b.dtype, "b", strides=[var("stride"), 1], offset_factor=1),
        c: decl_buffer(c.shape, c.dtype, "c", strides=[1], offset_factor=1),
    }

    def bodies(ins: list[Buffer], outs: list[Buffer]) -> tuple[Stmt, Stmt, Stmt]:
        (vector, matrix), (result,) = ins, outs
        ib = ir_builder()
        with ib.for_range(0, rows, name="i") as i:
            ib.emit(result.vstore([i], const(0.0, "float32")))
        zero = ib.get()
        ib.emit(_call(symbol, result, vector, matrix, rows, columns))
        update = ib.get()
        return seq(zero, update), zero, update

    return decl_tensor_intrin(c.op, bodies, "gemv_c", binds)


def _call(symbol: str, c: Buffer, a: Buffer, b: Buffer, rows: int, columns: int) -> Expr:
    return call_extern(
        "int32", symbol, c.access_ptr("rw"), a.access_ptr("r"), b.access_ptr("r"), rows, columns, b.strides[0]
    )
