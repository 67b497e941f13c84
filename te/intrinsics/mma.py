"""A tensor core's product of 16 by 16 and 16 by 8 elements, float16 added up in float32 (mma.sync.m16n8k16), and what
moves its tiles: stages in the scopes "mma_a", "mma_b" (or "mma_bt") and "mma_c" lie in the registers of a warp.

    AF = s.cache_read(A_shared, "mma_a", [C])       s[AF].tensorize(i, te.intrinsics.get("cuda.mma_load_a"))
    CF = s.cache_write(C, "mma_c")                  s[CF].tensorize(i, te.intrinsics.get("cuda.mma_m16n8k16"))
                                                    s[C].tensorize(i, te.intrinsics.get("cuda.mma_store"))

Without a tensor core the same stages run as loops. Each takes several of these tiles at once, in the sizes that it is asked for:
te.intrinsics.get("cuda.mma_m16n8k16", "kn", 32, 16, 16) is four products.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import product
from typing import TypeAlias

from ...errors import user_source
from ...ir.buffer import Buffer
from ...ir.builder import ProgramBuilder, ir_builder
from ...ir.expr import Expr, Var
from ...ir.fragments import FRAGMENT_TILES
from ...ir.ops import all_of, cast, const, floormod
from ...ir.pointers import READS, WRITES, pointer
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
def mma_load_a(scope: str = "shared", rows: int = M, columns: int = K) -> TensorIntrin:
    """Copies 16 by 16 float16 [m, k] to the scope "mma_a". scope: where they lie, "shared" (by ldmatrix where rows are
    aligned to 16 bytes) or "global", which takes any. rows, columns: multiples of 16. Raises BadTensorIntrin (TW0132)
    for others."""
    return _load("mma_a", scope, (rows, columns))


@shipped("cuda.mma_load_b")
def mma_load_b(layout: str = "kn", scope: str = "shared", rows: int = 0, columns: int = 0) -> TensorIntrin:
    """Copies 16 by 8 float16 [k, n] to the scope "mma_b"; with the layout "nk" 8 by 16 [n, k] to the scope "mma_bt". rows, columns:
    multiples of these, which 0 stands for. Raises BadTensorIntrin (TW0132) for other layouts and sizes."""
    fragment = _b_scope(layout)
    tile = FRAGMENT_TILES[fragment]
    return _load(fragment, scope, (rows or tile[0], columns or tile[1]))


@shipped("cuda.mma_m16n8k16")
def mma_m16n8k16(layout: str = "kn", m: int = M, n: int = N, k: int = K) -> TensorIntrin:
    """For `te.sum(A[i, k].astype("float32") * B[k, j].astype("float32"), axis=k)` over 16 i, 8 j and 16 k, A in the scope
    "mma_a", B in "mma_b" (with the layout "nk": B[j, k] in "mma_bt"), the sums in "mma_c". m, n, k: multiples of 16, 8 and 16.
    Raises BadTensorIntrin (TW0132) for other layouts and sizes."""
    right_shape = (k, n) if layout == "kn" else (n, k)
    for shape, scope in (((m, k), "mma_a"), (right_shape, _b_scope(layout))):
        _check_tiles(shape, scope)
    extents, depth = (m, n, k), k
    a, b = placeholder((m, k), "float16", "a"), placeholder(right_shape, "float16", "b")
    k_axis = reduce_axis((0, depth), "k")

    def element(i: Var, j: Var) -> Expr:
        right = b[k_axis, j] if layout == "kn" else b[j, k_axis]
        return reduce_sum(a[i, k_axis].astype("float32") * right.astype("float32"), axis=k_axis)

    c = compute((m, n), element, "c")
    binds = {tensor: decl_buffer(tensor.shape, tensor.dtype, tensor.name, strides=[var("row"), 1], scope=scope)
             for tensor, scope in ((a, "mma_a"), (b, _b_scope(layout)), (c, "mma_c"))}

    def bodies(ins: list[Buffer], outs: list[Buffer]) -> tuple[Stmt, Stmt, Stmt]:
        def begin(ib: ProgramBuilder) -> None:
            calls = [("tw_mma_fill", _tile(outs[0], at, WRITES)) for at in _tiles((m, n), (M, N))]
            _on_tensor_core(ib, calls, lambda i, j: outs[0].vstore([i, j], const(0.0, "float32")), (m, n))

        def go_on(ib: ProgramBuilder) -> None:
            calls = [("tw_mma_m16n8k16", _tile(outs[0], (i, j), READS | WRITES), _tile(ins[0], (i, at), READS),
                      _tile(ins[1], (at, j) if layout == "kn" else (j, at), READS)) for i, j, at in _tiles(extents, (M, N, K))]
            _on_tensor_core(ib, calls, lambda i, j, k: _added(outs[0], ins[0], ins[1], (i, j, k), layout), extents)

        return _program(begin, go_on), _program(begin), _program(go_on)

    return decl_tensor_intrin(c.op, bodies, f"mma_m{m}n{n}k{depth}_{layout}", binds)


@shipped("cuda.mma_store")
def mma_store(rows: int = M, columns: int = N) -> TensorIntrin:
    """Copies 16 by 8 float32 [m, n] from the scope "mma_c" to any memory. rows, columns: multiples of these. Raises
    BadTensorIntrin (TW0132) for others."""
    shape = (rows, columns)
    _check_tiles(shape, "mma_c")
    c = placeholder(shape, "float32", "c")
    copied = compute(shape, lambda i, j: c[i, j], "made")
    binds = {c: decl_buffer(shape, "float32", "c", strides=[var("row"), 1], scope="mma_c"),
             copied: decl_buffer(shape, "float32", "made", strides=[var("stride"), 1])}

    def body(ins: list[Buffer], outs: list[Buffer]) -> Stmt:
        stride = cast(outs[0].strides[0], "int32")
        calls = [("tw_mma_store", _tile(outs[0], at, WRITES), _tile(ins[0], at, READS), stride) for at in _tiles(shape, (M, N))]
        return _program(lambda ib: _on_tensor_core(ib, calls, _copied(outs[0], ins[0]), shape))

    return decl_tensor_intrin(copied.op, body, "mma_store", binds)


def _b_scope(layout: str) -> str:
    if layout not in _LAYOUTS:
        raise BadTensorIntrin(f"a tensor core takes no B of layout {layout!r}", called=user_source(), allowed=", ".join(_LAYOUTS),
                              reason="it is [k, n] or [n, k]", fix='te.intrinsics.get("cuda.mma_load_b", "nk")')
    return _LAYOUTS[layout]


def _check_tiles(shape: tuple[int, int], scope: str) -> None:
    rows, columns = FRAGMENT_TILES[scope]
    if not all(size > 0 and size % of == 0 for size, of in zip(shape, (rows, columns), strict=True)):
        raise BadTensorIntrin(f"a tensor core takes no {shape[0]} by {shape[1]} elements in {scope}", called=user_source(),
                              reason=f"its tiles are {rows} by {columns}", fix=f"multiples of {rows} and {columns}")


def _tiles(shape: Sequence[int], tile: Sequence[int]) -> Iterator[tuple[int, ...]]:
    """Where the tiles of a matrix, or of a box, begin."""
    return product(*(range(0, extent, size) for extent, size in zip(shape, tile, strict=True)))


def _tile(buffer: Buffer, at: Sequence[int], mode: int) -> Expr:
    """A pointer to the tile of a matrix that begins at an element."""
    indices = tuple(const(index, extent.dtype) for index, extent in zip(at, buffer.shape, strict=True))
    return pointer(buffer, indices, const(0), mode)


def _load(fragment: str, scope: str, shape: tuple[int, int]) -> TensorIntrin:
    _check_tiles(shape, fragment)
    source = placeholder(shape, "float16", "source")
    copied = compute(shape, lambda i, j: source[i, j], "made")
    binds = {source: decl_buffer(shape, "float16", "source", strides=[var("stride"), 1], scope=scope),
             copied: decl_buffer(shape, "float16", "made", strides=[var("row"), 1], scope=fragment)}

    def body(ins: list[Buffer], outs: list[Buffer]) -> Stmt:
        stride, offset = ins[0].strides[0], ins[0].elem_offset
        assert offset is not None
        aligned = all_of(floormod(stride, 8).equal(0), floormod(offset, 8).equal(0)) if scope == "shared" else const(0)
        name, more = f"tw_mma_load_{fragment.removeprefix('mma_')}", (cast(stride, "int32"), cast(aligned, "int32"))
        calls = [(name, _tile(outs[0], at, WRITES), _tile(ins[0], at, READS), *more)
                 for at in _tiles(shape, FRAGMENT_TILES[fragment])]
        return _program(lambda ib: _on_tensor_core(ib, calls, _copied(outs[0], ins[0]), shape))

    return decl_tensor_intrin(copied.op, body, f"mma_load_{fragment.removeprefix('mma_')}_{scope}", binds)


def _program(*parts: Callable[[ProgramBuilder], None]) -> Stmt:
    ib = ir_builder()
    for part in parts:
        part(ib)
    return ib.get()


Element: TypeAlias = "Callable[[Var, Var], Stmt] | Callable[[Var, Var, Var], Stmt]"


def _on_tensor_core(ib: ProgramBuilder, calls: Sequence[tuple[str, *tuple[Expr, ...]]], element: Element,
                    extents: Sequence[int]) -> None:
    """Calls of device functions; where there is no tensor core, `element` for all points of a box."""
    with ib.if_scope(target_has(_FEATURE)):
        for call in calls:
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
