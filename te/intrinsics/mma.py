"""A tensor core's product of 16 by 16 and 16 by 8 elements, float16 added up in float32 (mma.sync.m16n8k16), and what
moves its tiles: stages in the scopes "mma_a", "mma_b" (or "mma_bt") and "mma_c" lie in the registers of a warp.

    AF = s.cache_read(A_shared, "mma_a", [C])       s[AF].tensorize(i, te.intrinsics.get("cuda.mma_load_a"))
    CF = s.cache_write(C, "mma_c")                  s[CF].tensorize(i, te.intrinsics.get("cuda.mma_m16n8k16"))
                                                    s[C].tensorize(i, te.intrinsics.get("cuda.mma_store"))

Without a tensor core the same stages run as loops.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

from ...errors import user_source
from ...ir.buffer import Buffer
from ...ir.builder import ProgramBuilder, ir_builder
from ...ir.expr import Expr, Var
from ...ir.fragments import FRAGMENT_TILES
from ...ir.ops import all_of, cast, const, floormod
from ...ir.stmt import Stmt
from ..axis import reduce_axis, var
from ..compute import compute, placeholder
from ..errors import BadTensorIntrin
from ..extern_calls import call_extern, target_has
from ..intrin_declaration import decl_buffer, decl_tensor_intrin
from ..reduce import sum as reduce_sum
from ..tensor_intrin import TensorIntrin
from .registry import shipped

__all__ = ["mma_load_a", "mma_load_b", "mma_m16n8k16", "mma_store"]

M, N, K = 16, 8, 16
_FEATURE = "mma_m16n8k16"
_LAYOUTS = {"kn": "mma_b", "nk": "mma_bt"}


@shipped("cuda.mma_load_a")
def mma_load_a(scope: str = "shared") -> TensorIntrin:
    """Copies 16 by 16 float16 [m, k] to the scope "mma_a". scope: where they lie, "shared" (by ldmatrix where rows are
    aligned to 16 bytes) or "global", which takes any."""
    return _load("mma_a", scope)


@shipped("cuda.mma_load_b")
def mma_load_b(layout: str = "kn", scope: str = "shared") -> TensorIntrin:
    """Copies 16 by 8 float16 [k, n] to the scope "mma_b"; with the layout "nk" 8 by 16 [n, k] to the scope "mma_bt". Raises
    BadTensorIntrin (TW0132) for other layouts."""
    return _load(_b_scope(layout), scope)


@shipped("cuda.mma_m16n8k16")
def mma_m16n8k16(layout: str = "kn") -> TensorIntrin:
    """For `te.sum(A[i, k].astype("float32") * B[k, j].astype("float32"), axis=k)` over 16 i, 8 j and 16 k, A in the scope
    "mma_a", B in "mma_b" (with the layout "nk": B[j, k] in "mma_bt"), the sums in "mma_c". Raises BadTensorIntrin (TW0132) for
    other layouts."""
    a, b = placeholder((M, K), "float16", "a"), placeholder(FRAGMENT_TILES[_b_scope(layout)], "float16", "b")
    k = reduce_axis((0, K), "k")

    def product(i: Var, j: Var) -> Expr:
        right = b[k, j] if layout == "kn" else b[j, k]
        return reduce_sum(a[i, k].astype("float32") * right.astype("float32"), axis=k)

    c = compute((M, N), product, "c")
    binds = {tensor: decl_buffer(tensor.shape, tensor.dtype, tensor.name, strides=[var("row"), 1], scope=scope)
             for tensor, scope in ((a, "mma_a"), (b, _b_scope(layout)), (c, "mma_c"))}

    def bodies(ins: list[Buffer], outs: list[Buffer]) -> tuple[Stmt, Stmt, Stmt]:
        def begin(ib: ProgramBuilder) -> None:
            _on_tensor_core(ib, ("tw_mma_fill", outs[0].access_ptr("w")),
                            lambda i, j: outs[0].vstore([i, j], const(0.0, "float32")), (M, N))

        def go_on(ib: ProgramBuilder) -> None:
            call = ("tw_mma_m16n8k16", outs[0].access_ptr("rw"), ins[0].access_ptr("r"), ins[1].access_ptr("r"))
            _on_tensor_core(ib, call, lambda i, j, k: _added(outs[0], ins[0], ins[1], (i, j, k), layout), (M, N, K))

        return _program(begin, go_on), _program(begin), _program(go_on)

    return decl_tensor_intrin(c.op, bodies, f"mma_m16n8k16_{layout}", binds)


@shipped("cuda.mma_store")
def mma_store() -> TensorIntrin:
    """Copies 16 by 8 float32 [m, n] from the scope "mma_c" to any memory."""
    c = placeholder((M, N), "float32", "c")
    copied = compute((M, N), lambda i, j: c[i, j], "made")
    binds = {c: decl_buffer((M, N), "float32", "c", strides=[var("row"), 1], scope="mma_c"),
             copied: decl_buffer((M, N), "float32", "made", strides=[var("stride"), 1])}

    def body(ins: list[Buffer], outs: list[Buffer]) -> Stmt:
        call = ("tw_mma_store", outs[0].access_ptr("w"), ins[0].access_ptr("r"), cast(outs[0].strides[0], "int32"))
        return _program(lambda ib: _on_tensor_core(ib, call, _copied(outs[0], ins[0]), (M, N)))

    return decl_tensor_intrin(copied.op, body, "mma_store", binds)


def _b_scope(layout: str) -> str:
    if layout not in _LAYOUTS:
        raise BadTensorIntrin(f"a tensor core takes no B of layout {layout!r}", called=user_source(), allowed=", ".join(_LAYOUTS),
                              reason="it is [k, n] or [n, k]", fix='te.intrinsics.get("cuda.mma_load_b", "nk")')
    return _LAYOUTS[layout]


def _load(fragment: str, scope: str) -> TensorIntrin:
    shape = FRAGMENT_TILES[fragment]
    source = placeholder(shape, "float16", "source")
    copied = compute(shape, lambda i, j: source[i, j], "made")
    binds = {source: decl_buffer(shape, "float16", "source", strides=[var("stride"), 1], scope=scope),
             copied: decl_buffer(shape, "float16", "made", strides=[var("row"), 1], scope=fragment)}

    def body(ins: list[Buffer], outs: list[Buffer]) -> Stmt:
        stride, offset = ins[0].strides[0], ins[0].elem_offset
        assert offset is not None
        aligned = all_of(floormod(stride, 8).equal(0), floormod(offset, 8).equal(0)) if scope == "shared" else const(0)
        call = (f"tw_mma_load_{fragment.removeprefix('mma_')}", outs[0].access_ptr("w"), ins[0].access_ptr("r"),
                cast(stride, "int32"), cast(aligned, "int32"))
        return _program(lambda ib: _on_tensor_core(ib, call, _copied(outs[0], ins[0]), shape))

    return decl_tensor_intrin(copied.op, body, f"mma_load_{fragment.removeprefix('mma_')}_{scope}", binds)


def _program(*parts: Callable[[ProgramBuilder], None]) -> Stmt:
    ib = ir_builder()
    for part in parts:
        part(ib)
    return ib.get()


Element: TypeAlias = "Callable[[Var, Var], Stmt] | Callable[[Var, Var, Var], Stmt]"


def _on_tensor_core(ib: ProgramBuilder, call: tuple[str, *tuple[Expr, ...]], element: Element,
                    extents: Sequence[int]) -> None:
    """The call of a device function; where there is no tensor core, `element` for all points of a box."""
    with ib.if_scope(target_has(_FEATURE)):
        ib.emit(call_extern("int32", *call))
    with ib.else_scope():
        _loops(ib, element, extents, ())


def _loops(ib: ProgramBuilder, element: Element, extents: Sequence[int], indices: tuple[Var, ...]) -> None:
    if not extents:
        ib.emit(element(*indices))
        return
    with ib.for_range(0, extents[0], name="ijk"[len(indices)]) as index:
        _loops(ib, element, extents[1:], (*indices, index))


def _copied(to: Buffer, source: Buffer) -> Callable[[Var, Var], Stmt]:
    return lambda i, j: to.vstore([i, j], source.vload([i, j]))


def _added(c: Buffer, a: Buffer, b: Buffer, point: tuple[Var, Var, Var], layout: str) -> Stmt:
    i, j, k = point
    right = b.vload([k, j] if layout == "kn" else [j, k])
    return c.vstore([i, j], c.vload([i, j]) + cast(a.vload([i, k]), "float32") * cast(right, "float32"))
