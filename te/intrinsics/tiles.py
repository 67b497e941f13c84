"""Shared parts of declarations of tensor cores' instructions: matrices in one of two orders, tiles of them, and the loops that
stand for a call where there is no such instruction."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import product
from typing import TypeAlias, TypeVar

from ...base.errors import user_source
from ...ir import Buffer, Expr, Stmt, Var
from ...ir.builder import ProgramBuilder, ir_builder
from ...ir.ops import cast, conjunction, const, floormod
from ...ir.pointers import READS, WRITES, pointer
from ..axis import var
from ..compute import compute, placeholder
from ..errors import BadTensorIntrin
from ..extern_calls import call_extern, target_has
from ..intrin_declaration import decl_buffer, decl_tensor_intrin
from ..tensor_intrin import TensorIntrin
from ..tf32 import tf32

__all__ = [
    "SUMS",
    "are_aligned",
    "convert_factor",
    "layout_dimensions",
    "element_copy",
    "known_dtype",
    "emit_tensor_core",
    "program",
    "sums_store",
    "term_added",
    "tile_origins",
    "tile_pointer",
]

T = TypeVar("T")

SUMS = {
    "float16": "float32",
    "bfloat16": "float32",
    "int8": "int32",
    "uint8": "int32",
    "float8_e4m3fn": "float32",
    "float8_e5m2": "float32",
    "float32": "float32",
}
"""By the dtype of what is multiplied; float32 is rounded to TF32."""


def layout_dimensions(layout: str, i: T, j: T, k: T) -> tuple[T, T]:
    """Return which two of the three a matrix of this layout has."""
    first, second = (dict(zip("mnk", (i, j, k), strict=True))[each] for each in layout)
    return first, second


def known_dtype(dtype: str, *allowed: str) -> str:
    if dtype not in allowed:
        raise BadTensorIntrin(
            f"a tensor core's tiles are not of {dtype!r}",
            called=user_source(),
            allowed=", ".join(allowed),
            reason="the instruction is for other elements",
            fix=f'te.intrinsics.get(..., "{allowed[0]}")',
        )
    return dtype


def tile_origins(shape: Sequence[int], tile: Sequence[int]) -> Iterator[tuple[int, ...]]:
    """Return where the tiles of a matrix, or of a box, begin."""
    return product(*(range(0, extent, size) for extent, size in zip(shape, tile, strict=True)))


def tile_pointer(buffer: Buffer, at: Sequence[int], mode: int) -> Expr:
    """A pointer to the tile of a matrix that begins at an element."""
    indices = tuple(const(index, extent.dtype) for index, extent in zip(at, buffer.shape, strict=True))
    return pointer(buffer, indices, const(0), mode)


def are_aligned(buffer: Buffer, elements: int) -> Expr:
    """Return whether all rows of a part of shared memory begin at a multiple of so many elements."""
    if buffer.scope != "shared" or buffer.elem_offset is None:
        return const(0)
    return conjunction(*(floormod(each, elements).equal(0) for each in (buffer.strides[0], buffer.elem_offset)))


def program(*parts: Callable[[ProgramBuilder], None]) -> Stmt:
    ib = ir_builder()
    for part in parts:
        part(ib)
    return ib.get()


Element: TypeAlias = "Callable[[Var, Var], Stmt] | Callable[[Var, Var, Var], Stmt]"


def emit_tensor_core(
    ib: ProgramBuilder,
    feature: str,
    calls: Sequence[tuple[str, *tuple[Expr, ...]]],
    element: Element,
    extents: Sequence[int],
) -> None:
    """Call of device functions; where the target lacks the feature, `element` for all points of a box."""
    with ib.if_scope(target_has(feature)):
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


def element_copy(to: Buffer, source: Buffer) -> Callable[[Var, Var], Stmt]:
    return lambda i, j: to.vstore([i, j], source.vload([i, j]))


def convert_factor(value: Expr, sums: str) -> Expr:
    """Return what is multiplied: an element converted to the dtype of the sums, or rounded to TF32 where it has that one."""
    return tf32(value) if value.dtype == sums == "float32" else cast(value, sums)


def term_added(
    ins: Sequence[Buffer], out: Buffer, layouts: Sequence[str], sums: str
) -> Callable[[Var, Var, Var], Stmt]:
    """Return what adds the product of one i, j and k to a sum of this dtype. layouts: of both factors."""

    def added(i: Var, j: Var, k: Var) -> Stmt:
        left, right = (
            each.vload([*layout_dimensions(layout, i, j, k)]) for each, layout in zip(ins, layouts, strict=True)
        )
        return out.vstore([i, j], out.vload([i, j]) + convert_factor(left, sums) * convert_factor(right, sums))

    return added


def sums_store(
    kind: str, feature: str, shape: Sequence[int], tile: Sequence[int], dtype: str, scope: str
) -> TensorIntrin:
    """The copy of whole tiles of sums from the scope `kind`_c to any memory, or to the scope that is said: to shared memory two
    elements at once, where rows have an even distance. feature: what the target must have."""
    c = placeholder(shape, dtype, "c")
    copied = compute(shape, lambda i, j: c[i, j], "made")
    binds = {
        c: decl_buffer(shape, dtype, "c", strides=[var("row"), 1], scope=f"{kind}_c"),
        copied: decl_buffer(shape, dtype, "made", strides=[var("stride"), 1], scope=scope),
    }

    def body(ins: list[Buffer], outs: list[Buffer]) -> Stmt:
        more = cast(outs[0].strides[0], "int32"), cast(are_aligned(outs[0], 2), "int32")
        calls = [
            (f"tw_{kind}_store", tile_pointer(outs[0], at, WRITES), tile_pointer(ins[0], at, READS), *more)
            for at in tile_origins(shape, tile)
        ]
        return program(lambda ib: emit_tensor_core(ib, feature, calls, element_copy(outs[0], ins[0]), shape))

    return decl_tensor_intrin(copied.op, body, f"{kind}_store_{dtype}{scope and '_'}{scope}", binds)
