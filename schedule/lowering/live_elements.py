"""Elements of an argument that a stage within loops leaves, of which the caller wants every one."""

from __future__ import annotations

from collections.abc import Mapping

from ...ir.analysis.iterators import detect
from ...ir.analysis.mixed_radix import IterSum
from ...ir.arith.analyzer import Analyzer
from ...ir.expr import IterVar, Range, Var
from ...ir.ops import cast, const
from .computation import Loop

__all__ = ["fill_together"]


def fill_together(
    region: Mapping[IterVar, Range],
    declared: Mapping[IterVar, Range],
    enclosing: tuple[Loop, ...],
    analyzer: Analyzer,
) -> bool:
    """Return whether what the iterations of the loops around compute is, together, all that was declared.

        for o in 3:             # of B: float32[10]
            B[o * 4 : o * 4 + 4]

    The dimensions begin at steps of iterators of their own, which are no longer than the region.
    """
    moving = [axis for axis in region if region[axis] is not declared[axis]]
    ranges: dict[Var, Range] = {}
    for loop in enclosing:
        if loop.var is not None:
            ranges[loop.var] = Range(const(0, loop.var.dtype), cast(loop.extent, loop.var.dtype))
    begins = detect([analyzer.simplify(region[axis].begin) for axis in moving], ranges)
    return len(begins) == len(moving) and all(  # each region must begin at a multiple of its own length
        _fills(begin, region[axis], declared[axis], analyzer) for axis, begin in zip(moving, begins, strict=True)
    )


def _fills(begin: IterSum, within: Range, domain: Range, analyzer: Analyzer) -> bool:
    """Return whether ranges of one length that begin there reach from the first element of a dimension to its last."""
    end = begin.base + within.extent
    for step in begin.args:
        # steps longer than the region would leave elements out
        if not analyzer.can_prove(step.scale > 0) or not analyzer.can_prove(step.scale <= within.extent):
            return False
        end = end + step.scale * (step.extent - 1)
    return analyzer.can_prove(begin.base <= domain.begin) and analyzer.can_prove(end >= domain.begin + domain.extent)
