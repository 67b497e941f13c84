"""Loops that stay as they were declared, as a candidate: LLVM makes vectors of some that ours would gather for.

for i in parallel:
    c[i, 0] = a[i, 1] * b[i, 2] - a[i, 2] * b[i, 1];    c[i, 1] = ...;    c[i, 2] = ...
"""

from __future__ import annotations

from collections.abc import Sequence

from ...codegen.machine import Machine
from ...ir import Expr, IfThenElse, IterVar, Node, ProducerLoad, Select, post_order
from ...ir.analysis.linear import is_index
from ...te.shape import constant_extent
from ..accesses import find_axes
from ..cost.doubts import BY_LLVM
from ..cost.instructions import instruction_class
from ..loops import MOST_BODIES

__all__ = ["calls_functions", "functions_at_once", "part_left_by_llvm"]


def calls_functions(*values: Expr) -> bool:
    """Return whether values take functions such as exp, of which LLVM makes no vectors."""
    return any(instruction_class(node) == "call" for node in post_order(*values))


def functions_at_once(machine: Machine) -> int:
    """Vectors of a function to compute side by side, whose constants take most of the registers: two where the core begins enough
    instructions to look ahead to the next two, else four, which cover each other's latencies though some of them are stored between.

    By llvm-mca two take 0.97 of the time of four on Neoverse N2, 1.1 on Cortex-A72 and 1.2 on Cortex-A55, exp to erf, and one takes 1.4
    on A64FX; eight sums of exponentials on AVX2 take 1.35 times as long as two."""
    return 2 if machine.width >= 4 and not machine.is_latency_bound else 4


def part_left_by_llvm(value: Expr, loops: Sequence[IterVar]) -> float:
    """Return the part of the instructions on elements that are left where LLVM makes vectors of loops within the first of which the last
    is written out: of what has an instruction alone, at places that are no data, or conditions on loops that are written out, which
    settle these. Of longer ones, of which it would gather, it makes none."""
    short = [axis for axis in loops[1:] if (constant_extent(axis) or MOST_BODIES + 1) <= MOST_BODIES]
    plain = loops[-1] in short and all(_is_plain(node, short) for node in post_order(value))
    return BY_LLVM if plain else 1.0


def _is_plain(node: Node, inner: Sequence[IterVar]) -> bool:
    if isinstance(node, (Select, IfThenElse)):
        return find_axes(node.condition).issubset(inner) and not any(
            isinstance(each, ProducerLoad) for each in post_order(node.condition)
        )
    if isinstance(node, ProducerLoad):
        return all(map(is_index, node.indices))
    return instruction_class(node) != "call"
