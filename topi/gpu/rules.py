"""Legal, simple schedules for NVIDIA GPUs: a thread for each element of what a group stores.

    for blockIdx.x:  for threadIdx.x in 256:                    # all axes fused, and guarded
        sum = 0;  for k:  sum += ...                            # the anchor, in a register
        B[..] = sum ...

What threads do together (shared memory, tensor cores) is left to schedules by hand and to tuning. The parts of an
operator are kernels of their own.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from ...te.axis import thread_axis
from ...te.operation import ComputeOp, Operation
from ..reading import is_expensive

if TYPE_CHECKING:
    from ..groups import Group

__all__ = ["RULES", "rule_for"]

RULES: dict[str, Callable[[Group], None]] = {}
"""tag -> rule. Tags that are no row here are of reductions and of operations without one, for which there is one rule."""

THREADS = 256


def rule_for(tag: str, anchor: ComputeOp) -> Callable[[Group], None]:  # noqa: ARG001
    """The rule of a tag."""
    return RULES.get(tag, element_a_thread)


def element_a_thread(group: Group) -> None:
    """The rule for everything."""
    s = group.s
    for head in group.heads:
        if isinstance(head, ComputeOp) and not is_expensive(head):
            s[head].compute_inline()
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
