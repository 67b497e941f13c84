"""The product of the accelerator as a tensor intrinsic: int8 tiles, added up in int32.

    c[i, j] += a[i * step, k] * b[j, k]        a: (rows - 1) * step + 1 by depth, b: lanes by depth, c: rows by lanes

The three tiles may lie any way round, since instructions have a stride for each loop. step: between the rows of the inputs, for
convolutions that skip pixels. On other targets the same stages run as loops.
"""

from __future__ import annotations

from ...ir import Buffer, Expr, Stmt
from ...ir.builder import ProgramBuilder, ir_builder
from ...ir.ops import cast, const
from ...te.axis import reduce_axis, var
from ...te.compute import compute, placeholder
from ...te.extern_calls import call_extern, target_has
from ...te.intrin_declaration import decl_buffer, decl_tensor_intrin
from ...te.intrinsics.registry import get, register_intrinsic
from ...te.reduce import sum as reduce_sum
from ...te.tensor import Tensor
from ...te.tensor_intrin import TensorIntrin
from .machine import acc_buffer

__all__ = ["FEATURE", "GEMM", "gemm", "gemm8x8", "gemm16x16"]

FEATURE = GEMM = "vdla.gemm"
"""What te.target_has asks for; and the function that the intrinsic calls."""


@register_intrinsic("vdla.gemm", listed=False)
def _gemm(rows: int, lanes: int, depth: int, step: int = 1) -> TensorIntrin:
    a = placeholder(((rows - 1) * step + 1, depth), "int8", "a")
    b = placeholder((lanes, depth), "int8", "b")
    k = reduce_axis((0, depth), "k")
    c = compute(
        (rows, lanes), lambda i, j: reduce_sum(a[i * step, k].astype("int32") * b[j, k].astype("int32"), axis=k), "c"
    )
    binds = {tensor: _declare(tensor, acc_buffer if tensor is c else "") for tensor in (a, b, c)}

    def bodies(ins: list[Buffer], outs: list[Buffer]) -> tuple[Stmt, Stmt, Stmt]:
        left, right = ins
        out = outs[0]

        def begin(ib: ProgramBuilder) -> None:
            with ib.for_range(0, rows, name="i") as i, ib.for_range(0, lanes, name="j") as j:
                ib.emit(out.vstore([i, j], const(0, "int32")))

        def go_on(ib: ProgramBuilder) -> None:
            with ib.if_scope(target_has(FEATURE)):
                (c0, c1), (a0, a1), (b0, b1) = (map(_number, each.strides) for each in (out, left, right))
                ib.emit(
                    call_extern(
                        "int32",
                        GEMM,
                        out.access_ptr("rw"),
                        left.access_ptr("r"),
                        right.access_ptr("r"),
                        rows,
                        lanes,
                        depth,
                        c0,
                        c1,
                        a0 * step,
                        a1,
                        b0,
                        b1,
                    )
                )
            with (
                ib.else_scope(),
                ib.for_range(0, rows, name="i") as i,
                ib.for_range(0, lanes, name="j") as j,
                ib.for_range(0, depth, name="k") as at,
            ):
                product = cast(left.vload([i * step, at]), "int32") * cast(right.vload([j, at]), "int32")
                ib.emit(out.vstore([i, j], out.vload([i, j]) + product))

        return _program(begin, go_on), _program(begin), _program(go_on)

    return decl_tensor_intrin(c.op, bodies, f"vdla.gemm{rows}x{lanes}x{depth}", binds)


def _declare(tensor: Tensor, scope: str) -> Buffer:
    return decl_buffer(
        tensor.shape, tensor.dtype, tensor.name, strides=[var("row"), var("column")], offset_factor=1, scope=scope
    )


def _number(stride: Expr) -> Expr:
    return cast(stride, "int32")


def _program(*parts: object) -> Stmt:
    ib = ir_builder()
    for part in parts:
        assert callable(part)
        part(ib)
    return ib.get()


def gemm(rows: int, lanes: int = 16, depth: int = 16, step: int = 1) -> TensorIntrin:
    """The product of `rows` by `depth` int8 inputs and `lanes` by `depth` int8 weights, added to `rows` by `lanes` int32 sums in
    the scope acc_buffer. lanes, depth: up to 16 each. step: between the rows of the inputs."""
    return get(GEMM, rows, lanes, depth, step)


gemm8x8, gemm16x16 = gemm(8, 8, 8), gemm(16, 16, 16)
"""The products of 8 by 8 by 8, and of 16 by 16 by 16."""
