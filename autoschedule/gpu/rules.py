"""The rules of NVIDIA's GPUs: the operations that each one schedules.

    online      products whose rows a softmax weighs another product with: one kernel, before all others are asked
    stencils    chains of what is read around each result: tiles in shared memory, before all others, too
    products    sums of products with rows and columns: tiles in shared memory and in registers
    rows        softmax, norms: a block a row
    sums        other reductions: threads share a sum where there are few sums
    windows     what is read around each result: tiles in shared memory
    injective   all else: 16 bytes a thread, tiles in shared memory for what is read across
    scans       rows of whole blocks in shared memory; else one kernel whose threads share each step

Where sums are to keep their order, a thread computes each from its first term to its last.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from ...te.operation import Operation
from ..partition import ROWS, SCAN
from ..scripts import schedule_on_gpu
from .elements import element_a_thread, injective
from .online import online, online_sums
from .products import product
from .rows import rows
from .scans import scan, share_scan
from .stencil_chains import stencil_chains
from .sums import sums
from .windows import windows

if TYPE_CHECKING:
    from ..groups import Group

__all__ = ["BEFORE", "BY_FORM", "RULES", "find_rule", "rule_in_order", "share_scan"]

RULES: dict[str, Callable[[Group], None]] = {ROWS: rows, SCAN: scan}
"""tag -> rule. Operations of no tag that is here have a rule by their form."""
BEFORE = (online_sums, stencil_chains)
"""What schedules operations before a program is cut; the first one reorders sums."""


def find_rule(tag: str, anchor: Operation) -> Callable[[Group], None]:
    """The rule of a tag; "" for what has none."""
    if not anchor.values and tag not in RULES:
        return schedule_on_gpu
    return RULES.get(tag, elementwise if anchor.reduction is None else reduction)


def rule_in_order(anchor: Operation) -> Callable[[Group], None]:
    """The rule of an operation whose sums, if it has any, must not be reordered."""
    return schedule_on_gpu if not anchor.values else elementwise if anchor.reduction is None else reduction_in_order


def reduction(group: Group) -> None:
    """The rule of reductions."""
    if not product(group) and not windows(group):
        sums(group)


def reduction_in_order(group: Group) -> None:
    """The rule of reductions whose sums take up their terms in their order."""
    if not product(group, in_order=True) and not windows(group):
        element_a_thread(group)


def elementwise(group: Group) -> None:
    """The rule of operations without a reduction."""
    if not windows(group):
        injective(group)


BY_FORM: tuple[tuple[Callable[..., object], str], ...] = (
    (online, "products weighted by a softmax of a product's rows"),
    (stencil_chains, "chains of stencils"),
    (product, "sums of products with rows and columns"),
    (rows, "chains of reductions over rows"),
    (windows, "what is read around each result"),
    (sums, "any reduction"),
    (injective, "operations without a reduction"),
    (element_a_thread, "sums in their order, sizes that the call decides"),
    (schedule_on_gpu, "hybrid scripts"),
    (scan, "scans"),
)
"""All rules, and what they are for."""
