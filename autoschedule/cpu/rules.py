"""The rules of CPUs: the operations that each one schedules.

A row: the tag of an anchor, the module below autoschedule/cpu and the function in it, `def rule(group: Group) -> None`. Modules are
imported when a program has an operation of theirs.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from types import ModuleType

from ...codegen.machine import Machine
from ...importing import import_on_thread
from ...te.operation import Operation
from ...te.sweep import SweepOp
from ..groups import Group
from ..partition import CHAIN, ROWS, SCAN, Fusion
from .chain_plan import find_chain
from .fusion import axes_shared, cheap, computed_again
from .online import online_sums

__all__ = ["BEFORE", "BY_FORM", "RULES", "fusion_rules", "load_row_module", "find_rule", "rule_in_order"]

RULES: dict[str, tuple[str, str]] = {
    "conv2d_winograd": ("winograd", "conv2d_winograd"),
    "conv2d_winograd_NCHWc": ("winograd_blocks", "conv2d_winograd_NCHWc"),
    "resize": ("resize", "resize"),
    "attention": ("attention", "attention"),
    "weight_only_dense": ("weight_only", "weight_only_dense"),
    "dense_dots": ("dot_products", "dense_dots"),
    "integer_depthwise": ("integer_dots", "integer_depthwise"),
    "integer_dots": ("integer_dots", "integer_dots"),
    "pack_dots": ("dot_products", "pack_dots"),
    "walk_trees": ("trees", "walk_trees"),
    "softmax_blocks": ("rows", "blocks"),
    "log_softmax_blocks": ("rows", "blocks"),
    ROWS: ("rows", "rows"),
    CHAIN: ("chain", "chain"),
    SCAN: ("scans", "scan"),
    "arg_blocks": ("reduce", "places"),
}
"""tag -> (module, function)."""

ONE_WAY = frozenset(
    {"resize", "attention", "weight_only_dense", "dense_dots", "integer_depthwise", "integer_dots", "pack_dots"}
    | {"walk_trees", "softmax_blocks", "log_softmax_blocks", SCAN, "arg_blocks"}
)
"""The tags whose rules know one way, which is chosen beside the loops as declared."""
REDUCTION = ("gemm", "gemm")
"""For reductions of no tag that has a rule: most are products; what is none, that rule leaves to reduction_dispatch.py."""
IN_ORDER = ("reduction_dispatch", "sums_in_order")
"""For reductions whose sums must not be reordered."""
INJECTIVE = ("injective", "injective")
"""For operations without a reduction."""
SCRIPT = (".scripts", "schedule_on_cores")
"""For operations that are loops already; its module stands beside this folder, since it serves GPUs too."""
SWEEP = ("sweeps", "sweep")
"""For scans and their readers as one script."""
SCRIPT_IN_ORDER = (".scripts", "schedule_in_order")
"""For those whose sums must not be reordered."""
BEFORE = (online_sums,)
"""What schedules operations before a program is cut; the first one reorders sums."""
BY_FORM = (
    (("online", "online_sums"), "sums that a softmax of a product's rows weighs, before all others"),
    (REDUCTION, "products of matrices, and any other reduction"),
    (("windows", "window_ways"), "windows, by what they read"),
    (("conv", "convolution"), "convolutions in any layout, by what they read"),
    (IN_ORDER, "sums in their order"),
    (INJECTIVE, "operations without a reduction"),
    (SWEEP, "scans and their readers, in one sweep over time"),
    (SCRIPT, "hybrid scripts"),
    (SCRIPT_IN_ORDER, "hybrid scripts whose sums keep their order"),
)
"""The rules that no tag asks for, and what they are for."""


def find_rule(tag: str, anchor: Operation) -> Callable[[Group], None]:
    """The rule of a tag; "" for what has none."""
    if tag in ONE_WAY:
        return partial(schedule_one_way, _rule(RULES[tag]))
    if tag:
        return _rule(RULES[tag])
    return _rule_of_loops(anchor, SCRIPT, REDUCTION)


def schedule_one_way(rule: Callable[[Group], None], group: Group) -> None:
    """Schedule a group by a rule that knows one way, or leave its loops as declared, as estimates say."""
    group.choose(rule.__name__, group.draft_candidates([("its one way", rule)], ordered=True))


def rule_in_order(anchor: Operation) -> Callable[[Group], None]:
    """The rule of an operation whose sums, if it has any, must not be reordered."""
    return _rule_of_loops(anchor, SCRIPT_IN_ORDER, IN_ORDER)


def _rule_of_loops(anchor: Operation, script: tuple[str, str], reduction: tuple[str, str]) -> Callable[[Group], None]:
    """The rule of an operation without a tag. script, reduction: those of the ones that there are several of."""
    if isinstance(anchor, SweepOp):
        return _rule(SWEEP)
    return _rule(script if not anchor.values else INJECTIVE if anchor.reduction is None else reduction)


def load_row_module(row: tuple[str, str]) -> ModuleType:
    """The module of a row of the table."""
    return import_on_thread(f".{row[0]}", __package__ or "")


def _rule(row: tuple[str, str]) -> Callable[[Group], None]:
    return getattr(load_row_module(row), row[1])


def fusion_rules(machine: Machine) -> Fusion:
    """Return the producers that these rules compute in their consumers."""
    return Fusion(
        partial(axes_shared, machine=machine),
        partial(cheap, machine=machine),
        partial(computed_again, machine=machine),
        partial(find_chain, machine=machine),
    )
