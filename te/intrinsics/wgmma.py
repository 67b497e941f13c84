"""A product by four warps together, of 64 by n sums (sm_90a): both matrices in the scope "swizzled", shared memory in the order in
which the instruction reads it, the sums in the registers of the warps, "wgmma_c". The first matrix may lie in their registers, too,
"wgmma_a", where threads computed it.

    s[A_shared].set_scope("swizzled")               CF = s.cache_write(C, "wgmma_c")
    s[CF].tensorize(i, te.intrinsics.get("cuda.wgmma", "kn", 64, 128, 64))
    s[C].tensorize(i, te.intrinsics.get("cuda.wgmma_store", 64, 128))

The instructions of one call are begun together and waited for at its end. Sums of float32: as of cuda.mma_m16n8k16. Without such
instructions the same stages run as loops.
"""

from __future__ import annotations

from ...base.errors import user_source
from ...ir import Buffer, DType, Expr, Stmt, Var
from ...ir.builder import ProgramBuilder
from ...ir.fragments import HELD, K_BYTES, WGMMA_COLUMNS, WGMMA_ROWS, fragment_tile
from ...ir.ops import const
from ...ir.pointers import READS, WRITES
from ..axis import reduce_axis, var
from ..compute import compute, placeholder
from ..errors import BadTensorIntrin
from ..intrin_declaration import decl_buffer, decl_tensor_intrin
from ..reduce import sum as reduce_sum
from ..tensor_intrin import TensorIntrin
from .registry import register_intrinsic
from .tiles import (
    SUMS,
    convert_factor,
    emit_tensor_core,
    known_dtype,
    layout_dimensions,
    program,
    sums_store,
    term_added,
    tile_origins,
    tile_pointer,
)

__all__ = ["wgmma", "wgmma_store"]

_FEATURE = "wgmma"
_PANEL_BYTES = 128


@register_intrinsic("cuda.wgmma")
def wgmma(
    layout: str = "kn",
    m: int = 64,
    n: int = 128,
    k: int = 64,
    dtype: str = "float16",
    a_layout: str = "mk",
    a_scope: str = "swizzled",
) -> TensorIntrin:
    """Return the intrinsic for `te.sum(A[i, k].astype("float32") * B[k, j].astype("float32"), axis=k)` of float16, bfloat16,
    float8_e4m3fn or float8_e5m2, of int8 or uint8 added up in int32, or of float32 rounded by te.tf32: A (with a_layout "km": A[k, i])
    and B (with the layout "nk": B[j, k]) in the scope "swizzled", the sums in "wgmma_c"; A of "mk" may lie in registers, with the a_scope
    "wgmma_a". m: a multiple of 64; n: of 8 up to 256, of 64 where B lies [k, j] and is wider than that; k: of 32 bytes. Bytes and float32
    lie along k; float32 is rounded where threads store it, which the copy engine does not. Of 8-bit floats the hardware keeps some 14
    bits of a sum within an instruction. Raises BadTensorIntrin (TW0132) for other layouts, scopes, sizes and dtypes."""
    sums, size = SUMS[known_dtype(dtype, *SUMS)], DType(dtype).bytes
    _check((m, n, k), (a_layout, layout), size, a_scope)
    shapes = [layout_dimensions(each, m, n, k) for each in (a_layout, layout)]
    a, b = (placeholder(shape, dtype, which) for which, shape in zip("ab", shapes, strict=True))
    k_axis = reduce_axis((0, k), "k")

    def element(i: Var, j: Var) -> Expr:
        left, right = a[layout_dimensions(a_layout, i, j, k_axis)], b[layout_dimensions(layout, i, j, k_axis)]
        return reduce_sum(convert_factor(left, sums) * convert_factor(right, sums), axis=k_axis)

    c = compute((m, n), element, "c")
    binds = {
        tensor: decl_buffer(tensor.shape, tensor.dtype, tensor.name, strides=[var("row"), 1], scope=scope)
        for tensor, scope in ((a, a_scope), (b, "swizzled"), (c, "wgmma_c"))
    }
    # bits of the instruction that transpose 16-bit operands; others have none, so _check refuses them
    held = a_scope == "wgmma_a"
    turned = (*([] if held else [const(int(a_layout == "km"))]), const(int(layout == "kn")))

    def bodies(ins: list[Buffer], outs: list[Buffer]) -> tuple[Stmt, Stmt, Stmt]:
        def begin(ib: ProgramBuilder) -> None:
            calls = [
                ("tw_wgmma_fill", const(n // 2), tile_pointer(outs[0], (i, 0), WRITES)) for i in range(0, m, WGMMA_ROWS)
            ]
            emit_tensor_core(ib, _FEATURE, calls, lambda i, j: outs[0].vstore([i, j], const(0, sums)), (m, n))

        def go_on(ib: ProgramBuilder) -> None:
            products = [
                (
                    f"tw_wgmma_{HELD if held else ''}{dtype}_{n}",
                    *turned,
                    tile_pointer(outs[0], (i, 0), READS | WRITES),
                    tile_pointer(ins[0], layout_dimensions(a_layout, i, 0, term), READS),
                    tile_pointer(ins[1], layout_dimensions(layout, 0, 0, term), READS),
                )
                for term, i in tile_origins((k, m), (K_BYTES // size, WGMMA_ROWS))
            ]
            # PTX: nothing else may touch the registers of sums between the fence and the wait
            calls = [("tw_wgmma_fence",), *products, ("tw_wgmma_commit",), ("tw_wgmma_wait", const(0))]
            emit_tensor_core(ib, _FEATURE, calls, term_added(ins, outs[0], (a_layout, layout), sums), (m, n, k))

        return program(begin, go_on), program(begin), program(go_on)

    return decl_tensor_intrin(
        c.op, bodies, f"wgmma_m{m}n{n}k{k}_{a_layout}_{layout}_{dtype}{'_held' if held else ''}", binds
    )


@register_intrinsic("cuda.wgmma_store")
def wgmma_store(rows: int = 64, columns: int = 8, dtype: str = "float32", scope: str = "") -> TensorIntrin:
    """Copies 64 by 8 elements [m, n], float32 or int32, from the scope "wgmma_c" to any memory, or to the scope that is said: to
    "shared" memory two at once, where rows have an even distance. rows, columns: multiples of these. Raises BadTensorIntrin
    (TW0132) for others."""
    shape, tile = (rows, columns), fragment_tile("wgmma_c", DType(known_dtype(dtype, *SUMS.values())))
    if rows < 1 or columns < 1 or rows % tile[0] or columns % tile[1]:
        raise _refusal(f"stores no {rows} by {columns} elements", f"multiples of {tile[0]} and {tile[1]}")
    return sums_store("wgmma", _FEATURE, shape, tile, dtype, scope)


def _check(extents: tuple[int, int, int], layouts: tuple[str, str], size: int, a_scope: str) -> None:
    m, n, k = extents
    panel = _PANEL_BYTES // size
    # B of "kn" lies in panels of 128 bytes, of which the last one has to be full if there are several
    if a_scope not in ("swizzled", "wgmma_a") or (a_scope == "wgmma_a" and layouts[0] != "mk"):
        raise _refusal(f"takes no A of {layouts[0]!r} from {a_scope!r}", '"swizzled", or "wgmma_a" where A lies [m, k]')
    if layouts[0] not in ("mk", "km") or layouts[1] not in ("kn", "nk") or (size != 2 and layouts != ("mk", "nk")):
        raise _refusal(
            f"takes no layouts {layouts}", 'A of "mk" or "km", B of "kn" or "nk"; of bytes and float32 "mk" and "nk"'
        )
    whole = m > 0 and k > 0 and not m % WGMMA_ROWS and not k % (K_BYTES // size) and n in WGMMA_COLUMNS[size]
    if not whole or (layouts[1] == "kn" and n > panel and n % panel):
        raise _refusal(
            f"is not a {m} by {n} by {k} one",
            f"m: multiples of {WGMMA_ROWS}; n: {', '.join(map(str, WGMMA_COLUMNS[size]))}, of B in rows of n to {panel} or "
            f"multiples of it; k: multiples of {K_BYTES // size}",
        )


def _refusal(what: str, allowed: str) -> BadTensorIntrin:
    return BadTensorIntrin(
        f"a product by four warps {what}",
        called=user_source(),
        allowed=allowed,
        reason="the instructions are m64n8 to m64n256, of 32 bytes of terms",
        fix='te.intrinsics.get("cuda.wgmma", "kn", 64, 128, 64)',
    )
