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

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from math import prod
from typing import TYPE_CHECKING, TypeAlias

from ...ir.expr import IterVar
from ...te.operation import Operation
from ..drafts.draft import Draft
from ..forms.rows import RowChain, match_rows
from ..operations import fixed_extent, is_expensive, is_plain, is_shareable
from .elements import apply_elements, choose_or_declared, element_a_thread, injective
from .row_blocks import Row, RowBlock, bytes_at_once, describe_block, row_blocks, rows_read
from .sums import apply_usual, sums

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
    row = _row(group, chain)
    ways: list[tuple[str, Callable[[Group], None]]] = [
        (describe_block(way, row), partial(_apply, chain, way)) for way in row_blocks(row)
    ]
    if is_plain(group.output):
        ways.append(("each reduction apart", _apply_separate))
    choose_or_declared(group, "rows", group.draft_candidates(ways))


def _split_chain(group: Group) -> tuple[list[Operation], list[Group]]:
    """The operations that are computed where they are read, if that costs little, and a group of each other one."""
    inlined: list[Operation] = []
    alone: list[Group] = []
    for op in (*group.parts, group.anchor):
        last = op is group.anchor
        if not last and is_plain(op) and not is_expensive(op):
            inlined.append(op)
            continue
        heads, between = (group.heads, group.between) if last else ((), ())
        output = group.output if last else op
        alone.append(replace(group, anchor=op, output=output, heads=heads, parts=(), between=between))
    return inlined, alone


def _apply_separate(group: Group) -> None:
    """Each reduction by the rule of sums; what lies between is computed where it is read, if that costs little."""
    inlined, alone = _split_chain(group)
    for op in inlined:
        group.s[op].compute_inline()
    is_draft = isinstance(group.s, Draft)
    for own in alone:
        if own.anchor.reduction is None:
            (apply_elements if is_draft else injective)(own)
        else:
            (apply_usual if is_draft else sums)(own)


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
    return Row(count, extent, vector, chain.along, item, True)


def _inner(op: Operation, chain: RowChain) -> tuple[IterVar, ...]:
    """The axes over the elements of a row: those within it, or those that are reduced."""
    return tuple(op.reduce_axis) or chain.inside.get(op, ())


def _apply(chain: RowChain, block: RowBlock, group: Group) -> None:
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
