"""Clusters (sm_90a): blocks, neighbours along blockIdx.x, that copy together what all of them need.

    blockIdx.x = 2 c + rank:  A[t, i] for rows of blockIdx.x // 2, B[t, j] for columns of blockIdx.x
      A is the same for both: tw_bulk_copy_2_to_all(&A_shared[.., rank * 64], A_box, .., rank * 64)     each asks for half, for both
      B differs:              tw_bulk_copy_2(&B_shared[..], B_box, ..)

An index is the same for all blocks of a cluster where it does not depend on the rank once blockIdx.x is written so.
"""

from __future__ import annotations

from collections.abc import Sequence

from ....base import dataclass, user_source
from ...arith.analyzer import Analyzer
from ...copies import BULK_COPY, CLUSTER
from ...dtype import INT32
from ...expr import Expr, IntImm, Range, Var
from ...ops import const, floordiv, floormod, is_const
from ...stmt import Attr, For, If, LetStmt, LoopKind, Stmt
from ...visit import statements, substitute, walk
from .errors import CannotCopyInBulk
from .hardware import Hardware

__all__ = ["Alike", "blocks_together"]

ALONG = "blockIdx.x"


def blocks_together(body: Stmt) -> int:
    """The blocks of a cluster of a kernel; 1 where each runs by itself."""
    return max(
        (
            node.value.value
            for node in statements(body)
            if isinstance(node, Attr) and node.key == CLUSTER and isinstance(node.value, IntImm)
        ),
        default=1,
    )


@dataclass(frozen=True, slots=True)
class Alike:
    """Values that are the same for all blocks of a cluster. blocks: how many these are. split: variables of the index of a block, as a
    cluster and a rank in it; apart: others that may depend on these."""

    analyzer: Analyzer
    blocks: int
    split: dict[Var, Expr]
    rank: Var
    apart: frozenset[Var]

    @staticmethod
    def of(body: Stmt, hardware: Hardware, analyzer: Analyzer) -> Alike:
        """Clusters of a kernel. Raises CannotCopyInBulk (TW0841) where its blocks make no clusters, or these do not copy alike."""
        blocks, rank, number = blocks_together(body), Var("rank", INT32), Var("cluster", INT32)
        if blocks == 1:
            return Alike(analyzer, 1, {}, rank, frozenset())
        known = analyzer.copy()
        extent = hardware.extents.get(ALONG, const(1))
        # a cluster that is cut off at the grid's edge would wait for blocks that do not exist
        if not known.can_prove_equal(floormod(extent, blocks), 0):
            raise _refusal(f"there are {extent} blocks along {ALONG}, no whole clusters of {blocks}")
        known.bind(rank, Range(const(0), const(blocks)))
        known.bind(number, Range(const(0), known.simplify(floordiv(extent, blocks))))
        loops = [node for node in statements(body) if isinstance(node, For)]
        # blockIdx.x as cluster and rank: what depends on the rank differs within a cluster
        split: dict[Var, Expr] = {node.var: number * blocks + rank for node in loops if node.thread == ALONG}
        for node in loops:
            if node.var not in split:
                known.bind(node.var, Range(node.begin, node.extent))
        lets = frozenset(node.var for node in statements(body) if isinstance(node, LetStmt))
        found = Alike(known, blocks, split, rank, lets)
        found.check(loops, [node for node in statements(body) if isinstance(node, If)], hardware)
        return found

    def are(self, values: Sequence[Expr]) -> bool:
        """Return whether each of these is the same in all blocks of a cluster."""
        for value in values:
            # a bound value may hide the rank
            if any(node in self.apart for node in walk(value) if isinstance(node, Var)):
                return False
            ranked = self.analyzer.simplify(substitute(value, self.split))
            if any(node is self.rank for node in walk(ranked)):
                return False
        return True

    def check(self, loops: Sequence[For], conditions: Sequence[If], hardware: Hardware) -> None:
        """Check that all blocks of a cluster ask for copies equally often."""
        for loop in loops:
            if loop.thread == ALONG and not self.analyzer.can_prove_equal(loop.extent, hardware.extents[ALONG]):
                raise _refusal(
                    f"some of its loops over {ALONG} have {loop.extent} iterations, others {hardware.extents[ALONG]}"
                )
            # a block that asks less often would keep the others waiting for ever
            if loop.kind is not LoopKind.THREAD and _copies(loop.body) and not self.are((loop.begin, loop.extent)):
                raise _refusal(f"the loop over {loop.var.name} is longer in one block than in another")
        for node in conditions:
            if _copies(node) and not is_const(node.condition, 1) and not self.are((node.condition,)):
                raise _refusal(f"`{node.condition}` may hold in one block and not in another")


def _copies(body: Stmt) -> bool:
    return any(isinstance(node, Attr) and node.key == BULK_COPY for node in statements(body))


def _refusal(reason: str) -> CannotCopyInBulk:
    return CannotCopyInBulk(
        "cannot build: blocks of a cluster are to copy together",
        reason=reason,
        called=user_source(),
        allowed="whole clusters along blockIdx.x, whose blocks go through the same loops and conditions around their copies",
        fix='pipeline(stages, by="tma", warp_specialize=True), without cluster',
    )
