"""Chains of reductions over rows, softmax and norms: a block has whole rows, from the first reduction to the last element.

    for blockIdx.x:  for threadIdx.y: rows of a block
      x.local[..] = x[row, ..]                                   # once, 16 bytes at a time
      largest = max of x.local, then of all threads' together    # by shuffles, over several warps through shared memory
      power.local[..] = exp(x.local[..] - largest)
      total = sum of power.local, ..
      y[row, ..] = power.local[..] / total

A row that the registers of a block cannot hold is read again by each of its reductions, and what lies between is computed again.
Few long rows leave most of a GPU without work: then each reduction is a kernel, or two, whose blocks share its sums.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from math import prod
from typing import TYPE_CHECKING, TypeAlias

from ...codegen.gpus import Gpu, target_gpu
from ...ir.expr import IterVar
from ...te.operation import Operation
from ..accesses import tensor_bytes
from ..cost.estimate import Estimate
from ..cost.gpu import kernel_time
from ..forms.rows import RowChain, match_rows
from ..operations import fixed_extent, is_expensive, is_plain, is_shareable
from ..plan import Candidate
from .elements import element_a_thread, injective
from .row_blocks import Row, RowBlock, bytes_at_once, rows_read, shared_rows
from .sums import sums

if TYPE_CHECKING:
    from ...te.tensor import Tensor
    from ..groups import Group

__all__ = ["rows"]

Dims: TypeAlias = tuple[int, ...]
"""Places of dimensions of a tensor."""


def rows(group: Group) -> None:
    """A block has whole rows, from the first reduction to the last element. The chain is found by row_chain."""
    place = {op: at for at, op in enumerate((*group.parts, group.anchor))}
    chain, _ = match_rows(group.anchor, place, group.parts.__contains__)
    assert chain is not None, "the group was cut as a chain"
    known = all(fixed_extent(axis) for op in place for axis in (*op.axis, *op.reduce_axis))
    if not known or not all(map(is_shareable, place)):  # sizes that the call decides, or none
        element_a_thread(group)
        return
    group.inline_cheap_heads()
    gpu, row = target_gpu(group.target), _row(group, chain)
    candidates = shared_rows(gpu, row, partial(_apply, group, chain))
    if is_plain(group.output) and candidates:
        candidates.append(Candidate("each reduction apart", partial(_apart, group), _time_apart(group, row, gpu)))
        candidates.sort(key=lambda each: each.estimate.seconds if each.estimate is not None else 0)
    group.choose("rows", candidates)


def _time_apart(group: Group, row: Row, gpu: Gpu) -> Estimate:
    """Each reduction, and what is stored, reads all that the rows are read from; sums of several blocks take a second kernel."""
    count = sum(op.reduction is not None for op in (*group.parts, group.anchor))
    stored = tensor_bytes(group.output.output(0))
    moved = max(row.moved - stored, 0) * (count + 1) + stored
    return kernel_time(gpu, ("memory bandwidth", moved / gpu.memory_rate), launches=2 * count + 1)


def _apart(group: Group) -> None:
    """Each reduction by the rule of sums; what lies between is computed where it is read, if that costs little."""
    s = group.s
    for op in (*group.parts, group.anchor):
        last = op is group.anchor
        if not last and is_plain(op) and not is_expensive(op):
            s[op].compute_inline()
            continue
        own = replace(
            group,
            anchor=op,
            output=group.output if last else op,
            heads=group.heads if last else (),
            parts=(),
            between=group.between if last else (),
        )
        (injective if op.reduction is None else sums)(own)


def _row(group: Group, chain: RowChain) -> Row:
    """Describe the rows of a chain."""
    ops = [*group.parts, group.anchor]
    longest = max(
        ops, key=lambda op: (prod(map(fixed_extent, _inner(op, chain))), len(_inner(op, chain)))
    )  # rows may be of 1
    inner = _inner(longest, chain)
    extent = prod(map(fixed_extent, inner))
    count = max(prod(map(fixed_extent, op.axis)) // prod(map(fixed_extent, chain.inside.get(op, ()))) for op in ops)
    read = {
        tensor for op in ops for tensor in rows_read(group.s[op].op, _inner(op, chain)) if tensor.op not in group.parts
    }
    stored = group.output.output(0)
    vector, item = bytes_at_once((*read, stored), chain.along, fixed_extent(inner[-1]))
    moved = float(sum(map(tensor_bytes, (*read, stored))))
    return Row(count, extent, vector, chain.along, moved, sum(op.reduction is not None for op in ops), item, True)


def _inner(op: Operation, chain: RowChain) -> tuple[IterVar, ...]:
    """The axes over the elements of a row: those within it, or those that are reduced."""
    return tuple(op.reduce_axis) or chain.inside.get(op, ())


def _apply(group: Group, chain: RowChain, block: RowBlock) -> None:
    s, anchor, output = group.s, group.anchor, group.output
    inner = {op: _inner(op, chain) for op in (*group.parts, anchor)}
    within = [axis in inner[anchor] and anchor.reduction is None for axis in anchor.axis]
    if anchor.reduction is None:
        del inner[anchor]
        if output is not anchor:
            s[anchor].compute_inline()
    elif output is anchor:
        cached = s.cache_write(list(anchor.outputs), "local")[0].op
        del inner[anchor]
        inner[cached] = tuple(cached.reduce_axis)
    if not block.kept:
        for op, axes in list(inner.items()):
            if op.reduction is None and axes and is_plain(op):
                s[op].compute_inline()
                del inner[op]
    stage = s[output]
    own = list(stage.op.axis)
    elements = tuple(axis for axis, is_in in zip(own, within, strict=True) if is_in)
    read = _read(group, {**inner, output: elements} if elements else inner) if block.kept else {}
    at = block.bind_rows(stage, [axis for axis in own if axis not in elements], elements)
    for tensor, (readers, along) in read.items():
        copy = s[s.cache_read(tensor, "local", readers)]
        block.keep(copy, [dim for dim in range(tensor.ndim) if dim not in along], along)
        copy.compute_at(stage, at)
    for op, axes in inner.items():
        part = s[op]
        part.compute_at(stage, at)
        if op.reduction is not None:
            block.sum_up(s, op)
        elif axes:
            along = [place for place, axis in enumerate(part.op.axis) if axis in axes]
            block.keep(part, [place for place in range(len(part.op.axis)) if place not in along], along)
        else:
            part.set_scope("local")


def _read(group: Group, inner: Mapping[Operation, Sequence[IterVar]]) -> dict[Tensor, tuple[list[Operation], Dims]]:
    """The tensors whose rows are loaded for a sum, or for several operations, with these; and the dimensions within a row."""
    readers: dict[tuple[Tensor, Dims], list[Operation]] = {}
    for op, axes in inner.items():
        for tensor, along in rows_read(group.s[op].op, axes).items():
            if tensor.op not in inner:
                readers.setdefault((tensor, along), []).append(op)
    return {
        tensor: (ops, along)
        for (tensor, along), ops in readers.items()
        if len(ops) > 1 or any(op.reduction is not None for op in ops)
    }
