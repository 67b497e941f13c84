"""Which rule schedules what on NVIDIA's GPUs.

    products    sums of products with rows and columns: tiles in shared memory and in registers
    rows        softmax, norms: a block a row
    sums        other reductions: threads share a sum where there are few sums
    injective   all else: 16 bytes a thread, tiles in shared memory for what is read across

A scan is one kernel of one block, whose threads share the elements of each step. Where sums are to keep their order, a thread
computes each from its first term to its last.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from math import prod
from typing import TYPE_CHECKING

from ...te.axis import thread_axis
from ...te.operation import Operation
from ...te.shape import constant_extent
from ..operations import is_plain
from ..pieces import ROWS
from ..scripts import on_gpu
from .elements import element_a_thread, injective
from .products import product
from .rows import rows
from .sums import sums
from .threads import THREADS

if TYPE_CHECKING:
    from ...schedule import Schedule
    from ..groups import Group

__all__ = ["BY_FORM", "RULES", "rule_for", "rule_in_order", "share_scan"]

RULES: dict[str, Callable[[Group], None]] = {ROWS: rows}
"""tag -> rule. Operations of no tag that is here have a rule by their form."""


def rule_for(tag: str, anchor: Operation) -> Callable[[Group], None]:
    """The rule of a tag; "" for what has none."""
    if not anchor.values:
        return on_gpu
    return RULES.get(tag, injective if anchor.reduction is None else reduction)


def rule_in_order(anchor: Operation) -> Callable[[Group], None]:
    """The rule of an operation whose sums, if it has any, must not be reordered."""
    return on_gpu if not anchor.values else injective if anchor.reduction is None else element_a_thread


def reduction(group: Group) -> None:
    """The rule of reductions."""
    if not product(group):
        sums(group)


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


BY_FORM: tuple[tuple[Callable[..., object], str], ...] = (
    (product, "sums of products with rows and columns"), (rows, "chains of reductions over rows"), (sums, "any reduction"),
    (injective, "operations without a reduction"), (element_a_thread, "sums in their order, sizes that the call decides"),
    (on_gpu, "hybrid scripts"), (share_scan, "scans"))
"""All rules, and what they are for."""
