"""The dot product of 4 pairs of bytes added to a sum of 32 bits: dp4a of NVIDIA's GPUs. Elsewhere it is a loop.

c += a[0] * b[0] + a[1] * b[1] + a[2] * b[2] + a[3] * b[3]      a, b: int8, c: int32
"""

from __future__ import annotations

from ...ir import Buffer, Stmt
from ...ir.builder import ProgramBuilder, ir_builder
from ...ir.ops import cast, conjunction, const, floormod
from ..axis import reduce_axis
from ..compute import compute, placeholder
from ..extern_calls import call_extern, target_has
from ..intrin_declaration import decl_buffer, decl_tensor_intrin
from ..reduce import sum as reduce_sum
from ..tensor_intrin import TensorIntrin
from .registry import register_intrinsic

__all__ = ["dp4a"]

LENGTH = 4


@register_intrinsic("cuda.dp4a")
def dp4a() -> TensorIntrin:
    """Return the intrinsic for `te.sum(A[.., k].astype("int32") * B[.., k].astype("int32"), axis=k)` over 4 k, which lie side by side in
    both. One instruction where both begin at a multiple of 4 bytes."""
    a, b = placeholder((LENGTH,), "int8", "a"), placeholder((LENGTH,), "int8", "b")
    k = reduce_axis((0, LENGTH), "k")
    c = compute((1,), lambda i: reduce_sum(a[k].astype("int32") * b[k].astype("int32"), axis=k), "c")
    binds = {
        tensor: decl_buffer(tensor.shape, tensor.dtype, tensor.name, strides=[1], offset_factor=1)
        for tensor in (a, b, c)
    }

    def bodies(ins: list[Buffer], outs: list[Buffer]) -> tuple[Stmt, Stmt, Stmt]:
        (left, right), (out,) = ins, outs

        def begin(ib: ProgramBuilder) -> None:
            ib.emit(out.vstore([0], const(0, "int32")))

        def go_on(ib: ProgramBuilder) -> None:
            places = [each.elem_offset for each in ins]
            # the instruction reads registers of 32 bits: unaligned bytes are gathered one by one
            aligned = conjunction(*(floormod(place, LENGTH).equal(0) for place in places if place is not None))
            with ib.if_scope(target_has("cuda")):
                ib.emit(
                    call_extern(
                        "int32",
                        "tw_dp4a",
                        out.access_ptr("rw"),
                        left.access_ptr("r"),
                        right.access_ptr("r"),
                        cast(aligned, "int32"),
                    )
                )
            with ib.else_scope(), ib.for_range(0, LENGTH, name="k") as at:
                ib.emit(
                    out.vstore([0], out.vload([0]) + cast(left.vload([at]), "int32") * cast(right.vload([at]), "int32"))
                )

        def body(*parts: object) -> Stmt:
            ib = ir_builder()
            for part in parts:
                assert callable(part)
                part(ib)
            return ib.get()

        return body(begin, go_on), body(begin), body(go_on)

    return decl_tensor_intrin(c.op, bodies, "dp4a", binds)
