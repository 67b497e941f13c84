"""A tensor core's product of 16 by k and k by 8 elements, and what moves its tiles: stages in the scopes "mma_a" (or "mma_at"),
"mma_b" (or "mma_bt") and "mma_c" lie in the registers of a warp.

    cuda.mma_m16n8k16   float16 or bfloat16, added up in float32
    cuda.mma_m16n8k32   int8 or uint8, each side as it is, added up in int32; float8_e4m3fn or float8_e5m2 in float32
    cuda.mma_m16n8k8    float32 rounded to TF32, or float16 or bfloat16 of the scopes "mma_a8" to "mma_bt8", added up in float32

    AF = s.cache_read(A_shared, "mma_a", [C])       s[AF].tensorize(i, te.intrinsics.get("cuda.mma_load_a"))
    CF = s.cache_write(C, "mma_c")                  s[CF].tensorize(i, te.intrinsics.get("cuda.mma_m16n8k16"))
                                                    s[C].tensorize(i, te.intrinsics.get("cuda.mma_store"))

Sums of float32: within an instruction the hardware adds k products and the sum so far in an order, and with roundings, of its own;
the instructions of one tile follow each other along k. Without a tensor core the same stages run as loops. Each takes several of
these tiles at once, in the sizes that it is asked for: te.intrinsics.get("cuda.mma_m16n8k16", "kn", 32, 16, 16) is four products.
"""

from __future__ import annotations

from ...base.errors import user_source
from ...ir import Buffer, DType, Expr, Stmt, Var
from ...ir.builder import ProgramBuilder
from ...ir.fragments import FRAGMENT_SCOPES, HALF_SCOPES, fragment_tile
from ...ir.ops import cast, const
from ...ir.pointers import READS, WRITES
from ...ir.rounding import FLOAT8
from ..axis import reduce_axis, var
from ..compute import compute, placeholder
from ..errors import BadTensorIntrin
from ..intrin_declaration import decl_buffer, decl_tensor_intrin
from ..reduce import sum as reduce_sum
from ..tensor_intrin import TensorIntrin
from .registry import register_intrinsic
from .tiles import (
    SUMS,
    are_aligned,
    convert_factor,
    element_copy,
    emit_tensor_core,
    known_dtype,
    layout_dimensions,
    program,
    sums_store,
    term_added,
    tile_origins,
    tile_pointer,
)

__all__ = ["mma_load_a", "mma_load_b", "mma_m16n8k8", "mma_m16n8k16", "mma_m16n8k32", "mma_store"]

_FEATURE = "mma_m16n8k16"
_KINDS = {"float32": "tf32"}
"""What an instruction takes elements of a dtype as."""
_BYTES = ("int8", "uint8", "float8_e4m3fn", "float8_e5m2")


@register_intrinsic("cuda.mma_load_a")
def mma_load_a(
    scope: str = "shared", rows: int = 0, columns: int = 0, layout: str = "mk", dtype: str = "float16", k: int = 0
) -> TensorIntrin:
    """Copies 16 by k elements [m, k] to the scope "mma_a"; with the layout "km" k by 16 [k, m] to the scope "mma_at". k: 16 of
    float16 and bfloat16, 32 of int8 and uint8, 8 of float32. scope: where they lie, "shared" (by ldmatrix where rows are aligned
    to 16 bytes) or "global", which takes any. rows, columns: multiples of the tile's, which 0 stands for; k: 8 of 16 bits copies to
    "mma_a8" or "mma_at8". Raises BadTensorIntrin (TW0132) for others."""
    return _load(_scope("a", layout, _is_half(dtype, k)), scope, (rows, columns), dtype)


@register_intrinsic("cuda.mma_load_b")
def mma_load_b(
    layout: str = "kn", scope: str = "shared", rows: int = 0, columns: int = 0, dtype: str = "float16", k: int = 0
) -> TensorIntrin:
    """Copies k by 8 elements [k, n] to the scope "mma_b"; with the layout "nk" 8 by k [n, k] to the scope "mma_bt". rows, columns:
    multiples of these, which 0 stands for; 8 k of 16 bits: to "mma_b8" or "mma_bt8". Raises BadTensorIntrin (TW0132) for other
    layouts, sizes and dtypes."""
    return _load(_scope("b", layout, _is_half(dtype, k)), scope, (rows, columns), dtype)


@register_intrinsic("cuda.mma_m16n8k16")
def mma_m16n8k16(
    layout: str = "kn",
    m: int = 16,
    n: int = 8,
    k: int = 16,
    dtype: str = "float16",
    a_layout: str = "mk",
) -> TensorIntrin:
    """Return the intrinsic for `te.sum(A[i, k].astype("float32") * B[k, j].astype("float32"), axis=k)` over 16 i, 8 j and 16 k of float16
    or bfloat16, A in the scope "mma_a" (with a_layout "km": A[k, i] in "mma_at"), B in "mma_b" (with the layout "nk": B[j, k] in
    "mma_bt"), the sums in "mma_c". m, n, k: multiples of 16, 8 and 16. Raises BadTensorIntrin (TW0132) for other layouts, sizes and
    dtypes."""
    return _product(layout, a_layout, (m, n, k), (known_dtype(dtype, "float16", "bfloat16"), dtype))


@register_intrinsic("cuda.mma_m16n8k32")
def mma_m16n8k32(
    layout: str = "nk",
    m: int = 16,
    n: int = 8,
    k: int = 32,
    a_layout: str = "mk",
    dtype: str = "int8",
    b_dtype: str = "int8",
) -> TensorIntrin:
    """Return an intrinsic like cuda.mma_m16n8k16, for 32 k of int8 or uint8, A of dtype and B of b_dtype, and sums of int32; or of
    float8_e4m3fn or float8_e5m2 (from sm_89 on), and sums of float32. Neighbours along k come by ldmatrix; others one by one. Raises
    BadTensorIntrin (TW0132) for other layouts, sizes and dtypes."""
    alike = [each for each in _BYTES if SUMS[each] == SUMS[known_dtype(dtype, *_BYTES)]]
    return _product(layout, a_layout, (m, n, k), (dtype, known_dtype(b_dtype, *alike)))


@register_intrinsic("cuda.mma_m16n8k8")
def mma_m16n8k8(
    layout: str = "kn",
    m: int = 16,
    n: int = 8,
    k: int = 8,
    a_layout: str = "mk",
    dtype: str = "float32",
) -> TensorIntrin:
    """Return an intrinsic like cuda.mma_m16n8k16, for `te.sum(te.tf32(A[i, k]) * te.tf32(B[k, j]), axis=k)` over 8 k of float32, which
    are rounded in registers; neighbours along k come by ldmatrix, others one by one. Of float16 and bfloat16 the same as that one, A in
    "mma_a8" or "mma_at8", B in "mma_b8" or "mma_bt8". Raises BadTensorIntrin (TW0132) for others."""
    kind = known_dtype(dtype, "float32", "float16", "bfloat16")
    return _product(layout, a_layout, (m, n, k), (kind, kind), kind != "float32")


@register_intrinsic("cuda.mma_store")
def mma_store(rows: int = 16, columns: int = 8, dtype: str = "float32", scope: str = "") -> TensorIntrin:
    """Copies 16 by 8 elements [m, n], float32 or int32, from the scope "mma_c" to any memory, or to the scope that is said: to
    "shared" memory two at once, where rows have an even distance. rows, columns: multiples of these. Raises BadTensorIntrin
    (TW0132) for others."""
    shape, tile = (rows, columns), _full_tile((rows, columns), "mma_c", known_dtype(dtype, *SUMS.values()))
    return sums_store("mma", _FEATURE, shape, tile, dtype, scope)


def _product(
    layout: str,
    a_layout: str,
    extents: tuple[int, int, int],
    dtypes: tuple[str, str],
    half: bool = False,
) -> TensorIntrin:
    """c += a b of some instructions. dtypes: of a and of b; half: of those whose k is 16 bytes."""
    sums, scopes = SUMS[dtypes[0]], (_scope("a", a_layout, half), _scope("b", layout, half))
    m, n, depth = extents
    shapes = [layout_dimensions(each, *extents) for each in (a_layout, layout)]
    tiles = [_full_tile(shape, scope, dtype) for shape, scope, dtype in zip(shapes, scopes, dtypes, strict=True)]
    tile = _full_tile((m, n), "mma_c", sums)
    each = (*tile, tiles[0][a_layout.index("k")])
    a, b = (placeholder(shape, dtype, which) for which, shape, dtype in zip("ab", shapes, dtypes, strict=True))
    kind = _KINDS.get(dtypes[0], dtypes[0]) if dtypes[0] == dtypes[1] else "_".join(dtypes)
    kind += "_k8" if half else ""
    k_axis = reduce_axis((0, depth), "k")

    def element(i: Var, j: Var) -> Expr:
        left, right = a[layout_dimensions(a_layout, i, j, k_axis)], b[layout_dimensions(layout, i, j, k_axis)]
        return reduce_sum(convert_factor(left, sums) * convert_factor(right, sums), axis=k_axis)

    c = compute((m, n), element, "c")
    feature = "mma_float8" if a.dtype.kind in FLOAT8 else _FEATURE
    binds = {
        tensor: decl_buffer(tensor.shape, tensor.dtype, tensor.name, strides=[var("row"), 1], scope=scope)
        for tensor, scope in ((a, scopes[0]), (b, scopes[1]), (c, "mma_c"))
    }

    def bodies(ins: list[Buffer], outs: list[Buffer]) -> tuple[Stmt, Stmt, Stmt]:
        def begin(ib: ProgramBuilder) -> None:
            calls = [("tw_mma_fill", tile_pointer(outs[0], at, WRITES)) for at in tile_origins((m, n), tile)]
            emit_tensor_core(ib, feature, calls, lambda i, j: outs[0].vstore([i, j], const(0, sums)), (m, n))

        def go_on(ib: ProgramBuilder) -> None:
            calls = [
                (
                    f"tw_mma_{kind}",
                    tile_pointer(outs[0], (i, j), READS | WRITES),
                    tile_pointer(ins[0], layout_dimensions(a_layout, i, j, k), READS),
                    tile_pointer(ins[1], layout_dimensions(layout, i, j, k), READS),
                )
                for i, j, k in tile_origins(extents, each)
            ]
            emit_tensor_core(ib, feature, calls, term_added(ins, outs[0], (a_layout, layout), sums), extents)

        return program(begin, go_on), program(begin), program(go_on)

    return decl_tensor_intrin(c.op, bodies, f"mma_m{m}n{n}k{depth}_{a_layout}_{layout}_{kind}", binds)


def _is_half(dtype: str, k: int) -> bool:
    """Return whether so many terms are 8 of 16 bits; 0 stands for 32 bytes."""
    size = DType(known_dtype(dtype, *SUMS)).bytes
    if k not in (0, 32 // size, *((8,) if size == 2 else ())):
        raise BadTensorIntrin(
            f"a tensor core's tiles of {dtype} have no {k} terms",
            called=user_source(),
            reason="the instruction is for another number",
            allowed="16 or 8" if size == 2 else f"{32 // size}",
            fix="leave k out",
        )
    return size == 2 and k == 8


def _scope(side: str, layout: str, half: bool = False) -> str:
    scopes = {
        each: scope
        for scope, each in FRAGMENT_SCOPES.items()
        if scope.startswith(f"mma_{side}") and (scope in HALF_SCOPES) == half
    }
    if layout not in scopes:
        shapes = " or ".join(f"[{rows}, {columns}]" for rows, columns in scopes)
        raise BadTensorIntrin(
            f"a tensor core takes no {side.upper()} of layout {layout!r}",
            called=user_source(),
            allowed=", ".join(scopes),
            reason=f"it is {shapes}",
            fix=f'te.intrinsics.get("cuda.mma_load_{side}", ...) with the layout "{next(iter(scopes))}"',
        )
    return scopes[layout]


def _full_tile(shape: tuple[int, int], scope: str, dtype: str) -> tuple[int, int]:
    """The tile that a matrix in the scope consists of."""
    rows, columns = fragment_tile(scope, DType(dtype))
    if not all(size > 0 and size % of == 0 for size, of in zip(shape, (rows, columns), strict=True)):
        raise BadTensorIntrin(
            f"a tensor core takes no {shape[0]} by {shape[1]} elements in {scope}",
            called=user_source(),
            reason=f"its tiles are {rows} by {columns}",
            fix=f"multiples of {rows} and {columns}",
        )
    return rows, columns


def _load(fragment: str, scope: str, asked: tuple[int, int], dtype: str) -> TensorIntrin:
    tile, each = fragment_tile(fragment, DType(known_dtype(dtype, *SUMS))), 16 // DType(dtype).bytes
    shape = (asked[0] or tile[0], asked[1] or tile[1])
    _full_tile(shape, fragment, dtype)
    source = placeholder(shape, dtype, "source")
    copied = compute(shape, lambda i, j: source[i, j], "made")
    binds = {
        source: decl_buffer(shape, dtype, "source", strides=[var("stride"), 1], scope=scope),
        copied: decl_buffer(shape, dtype, "made", strides=[var("row"), 1], scope=fragment),
    }

    def body(ins: list[Buffer], outs: list[Buffer]) -> Stmt:
        name = f"tw_mma_load_{fragment.removeprefix('mma_')}"
        # ldmatrix takes rows that begin at multiples of 16 bytes alone
        more = cast(ins[0].strides[0], "int32"), cast(are_aligned(ins[0], each), "int32")
        calls = [
            (name, tile_pointer(outs[0], at, WRITES), tile_pointer(ins[0], at, READS), *more)
            for at in tile_origins(shape, tile)
        ]
        return program(lambda ib: emit_tensor_core(ib, _FEATURE, calls, element_copy(outs[0], ins[0]), shape))

    return decl_tensor_intrin(copied.op, body, f"mma_load_{fragment.removeprefix('mma_')}_{scope}_{dtype}", binds)
