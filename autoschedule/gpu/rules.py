"""Legal, simple schedules for NVIDIA GPUs: a thread for each element of what a group stores.

    for blockIdx.x:  for threadIdx.x in 256:                    # all axes fused, and guarded
        sum = 0;  for k:  sum += ...                            # the anchor, in a register
        B[..] = sum ...

What threads do together (shared memory, tensor cores) is left to schedules by hand and to tuning. The parts of an
operator are kernels of their own. A scan is one kernel of one block, whose threads share the elements of each step.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from math import prod
from typing import TYPE_CHECKING

from ...te.axis import thread_axis
from ...te.operation import Operation
from ...te.shape import constant_extent
from ..operations import is_plain
from ..scripts import on_gpu

if TYPE_CHECKING:
    from ...schedule import Schedule
    from ..groups import Group

__all__ = ["RULES", "rule_for", "share_scan"]

RULES: dict[str, Callable[[Group], None]] = {}
"""tag -> rule. Tags that are no row here are of reductions and of operations without one, for which there is one rule."""

THREADS = 256


def rule_for(tag: str, anchor: Operation) -> Callable[[Group], None]:
    """The rule of a tag."""
    return RULES.get(tag, element_a_thread if anchor.values else on_gpu)


def element_a_thread(group: Group) -> None:
    """The rule for everything."""
    s = group.s
    group.inline_cheap_heads()
    for part in group.parts:
        _bind(group, part)
    _bind(group, group.output)
    if group.anchor is not group.output:
        stage = s[group.output]
        s[group.anchor].compute_at(stage, stage.leaf_iter_vars[-1])


def _bind(group: Group, op: Operation) -> None:
    """A thread for each element of a stage."""
    stage = group.s[op]
    block, thread = stage.split(stage.fuse(*stage.op.axis), factor=THREADS)
    stage.reorder(block, thread, *stage.op.reduce_axis)
    stage.bind(block, thread_axis("blockIdx.x"))
    stage.bind(thread, thread_axis("threadIdx.x"))


def share_scan(s: Schedule, scan: Operation, between: Iterable[Operation]) -> None:
    """Schedules a scan. between: what is computed step by step on the way to its updates."""
    steps = [tensor.op for tensor in scan.input_tensors]
    threads = max(_useful_threads(op) for op in steps)
    block, thread = thread_axis((0, 1), "blockIdx.x"), thread_axis((0, threads), "threadIdx.x")
    for op in between:
        if op not in steps and is_plain(op):
            s[op].compute_inline()
    s[scan].env_threads([block, thread])
    for op in dict.fromkeys(steps):
        stage = s[op]
        if len(op.axis) > 1:
            _, inner = stage.split(stage.fuse(*op.axis[1:]), factor=threads)
            stage.bind(inner, thread)


def _useful_threads(op: Operation) -> int:
    """As many threads as an operation of a scan has elements in a step, up to a block's."""
    known = [constant_extent(axis) for axis in op.axis[1:]]
    return max(min(prod(extent for extent in known if extent is not None), THREADS), 1) if None not in known else THREADS
