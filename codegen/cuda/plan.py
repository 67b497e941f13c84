"""The launches of a program as plain data."""

from __future__ import annotations

from collections.abc import Mapping

from ...base.errors import InternalError
from ...ir.arith.analyzer import simplify
from ...ir.buffer import Buffer
from ...ir.expr import (
    Add,
    BinaryOp,
    Cast,
    Expr,
    FloorDiv,
    FloorMod,
    IntImm,
    Max,
    Min,
    Mul,
    Sub,
    TruncDiv,
    TruncMod,
    Var,
)
from ...ir.passes.common.flatten import flat_buffer
from ...ir.passes.gpu.bulk_copies import BoxMap, tensor_strides
from ...ir.passes.gpu.hardware import BLOCK_TAGS, Hardware
from ...runtime.cuda_launch import KernelLaunch, Workspace
from ...runtime.signature import Extent
from ...runtime.tensor_map import TensorMap
from .module import CudaText
from .split import SplitFunction

__all__ = ["launches", "workspaces"]

_TOO_MANY = 2**31
"""Blocks along x."""

Names = Mapping[Buffer | Var, str]

_OPERATORS: dict[type[BinaryOp], str] = {
    Add: "+",
    Sub: "-",
    Mul: "*",
    FloorDiv: "//",
    FloorMod: "%",
    TruncDiv: "//",
    TruncMod: "%",
    Min: "min",
    Max: "max",
}


def launches(program: SplitFunction, text: CudaText, names: Names) -> tuple[KernelLaunch, ...]:
    """The launches, in order. names: of the function's parameters and symbols in its signature."""
    launches: list[KernelLaunch] = []
    for kernel, written in zip(program.kernels, text.kernels, strict=True):
        launches.append(
            KernelLaunch(
                written.name,
                _grid(kernel.hardware, names),
                kernel.hardware.block,
                written.dynamic_shared,
                (*(_tensor_map(of, place, names) for of, place in kernel.maps), *kernel.args),
                tuple(sorted(written.aligned)),
                (kernel.cluster, 1, 1),
                written.parts,
            )
        )
    return tuple(launches)


def _grid(hardware: Hardware, names: Names) -> tuple[Extent, Extent, Extent]:
    """The blocks of the launch: x, y, z."""
    x, y, z = (_extent(extent, names) for extent in hardware.grid)
    if BLOCK_TAGS[1] in hardware.folded:
        x, y = _both(x, y), 1
    if BLOCK_TAGS[2] in hardware.folded:
        x, z = _both(x, z), 1
    return x, y, z


def _both(x: Extent, other: Extent) -> Extent:
    """So many blocks along x for each of the others, as a number of 64 bits that tells when there are too many."""
    if isinstance(x, int) and isinstance(other, int):
        return min(x * other, _TOO_MANY)
    left, right = (("min", ("max", extent, 0), _TOO_MANY) for extent in (x, other))
    return ("*", left, right)


def _tensor_map(of: BoxMap, place: int, names: Names) -> TensorMap:
    source, size = of.source, of.source.dtype.bytes
    shape = tuple(_extent(extent, names) for extent in source.shape)
    strides = tuple(_extent(simplify(stride * size), names) for stride in tensor_strides(source))
    return TensorMap(place, str(source.dtype), shape, strides, of.box, of.swizzle)


def workspaces(program: SplitFunction, names: Names) -> tuple[Workspace, ...]:
    """The memory that the kernels pass on to each other."""
    return tuple(
        Workspace(buffer.name, str(buffer.dtype), _extent(flat_buffer(buffer).shape[0], names))
        for buffer in program.workspaces
    )


def _extent(extent: Expr, names: Names) -> Extent:
    if isinstance(extent, IntImm):
        return extent.value
    if isinstance(extent, Var):
        return names[extent]
    if isinstance(extent, Cast):
        return _extent(extent.value, names)
    if not isinstance(extent, BinaryOp) or type(extent) not in _OPERATORS:
        raise InternalError(f"the extent {extent} of a grid is not integer arithmetic")
    return (_OPERATORS[type(extent)], _extent(extent.a, names), _extent(extent.b, names))
