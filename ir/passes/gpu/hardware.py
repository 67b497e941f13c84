"""The thread indices of one kernel: a variable and an extent for each tag that its loops are bound to."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypeGuard

from ....base.dataclass import dataclass
from ...arith.analyzer import Analyzer
from ...dtype import INT32
from ...expr import Expr, IntImm, Node, Var
from ...fragments import lanes_together
from ...ops import cast, const, integer_value, is_const
from ...stmt import For, LoopKind, Stmt
from ...visit import walk
from .errors import BlockExtentNotConstant, ThreadExtentsDisagree, TooManyThreads, UnknownThreadTag

__all__ = [
    "BLOCK_TAGS",
    "MAX_THREADS",
    "RESIDENT",
    "THREAD_TAGS",
    "Hardware",
    "is_hardware",
    "is_virtual",
    "thread_loops",
]

BLOCK_TAGS = ("blockIdx.x", "blockIdx.y", "blockIdx.z")
THREAD_TAGS = ("threadIdx.x", "threadIdx.y", "threadIdx.z")
RESIDENT = "resident_blocks"
"""The pragma of a loop around blocks, of which as many as the GPU holds take all iterations of both loops."""
MAX_THREADS = 1024
MAX_BLOCKS = 65535
"""Along y and z; along x there may be 2^31 - 1."""
_MAX_EXTENT = {"threadIdx.x": 1024, "threadIdx.y": 1024, "threadIdx.z": 64}


def is_virtual(tag: str) -> bool:
    """Return whether a tag names virtual threads, which one thread interleaves."""
    return tag.startswith(("vthread", "cthread"))


def thread_loops(body: Stmt) -> Iterator[For]:
    """The loops bound to hardware threads and blocks."""
    return (node for node in walk(body) if is_hardware(node))


def is_hardware(node: Node) -> TypeGuard[For]:
    """Return whether this is a loop bound to hardware threads or blocks."""
    return isinstance(node, For) and node.kind is LoopKind.THREAD and not is_virtual(node.thread)


@dataclass(frozen=True, slots=True)
class Hardware:
    """Thread axes of a kernel.

    variables: int32, by tag, those of blocks first and slowest first. extents: how many there are of each; of
    threads an IntImm. folded: tags of blocks that may be more than a grid has along their axis, and lie along x beside its own,
    the fastest first.
    """

    variables: dict[str, Var]
    extents: dict[str, Expr]
    folded: tuple[str, ...] = ()

    @staticmethod
    def of(body: Stmt, name: str, analyzer: Analyzer) -> Hardware:
        """The indices that the loops of one kernel are bound to, each as long as the longest of its loops.
        The lanes of a warp that works together need no loop.

        Raises UnknownThreadTag, BlockExtentNotConstant, ThreadExtentsDisagree, TooManyThreads.
        """
        extents: dict[str, Expr] = {}
        for loop in thread_loops(body):
            tag = loop.thread
            if tag not in (*BLOCK_TAGS, *THREAD_TAGS):
                raise UnknownThreadTag(
                    f"cannot lower {name}: '{loop.var.name}' is bound to {tag!r}",
                    reason="a GPU has no such thread axis",
                    allowed=", ".join((*BLOCK_TAGS, *THREAD_TAGS, "vthread")),
                )
            # launch bounds and shared sizes are compiled in
            if tag in THREAD_TAGS and not isinstance(loop.extent, IntImm):
                raise BlockExtentNotConstant(
                    f"cannot lower {name}: '{loop.var.name}', bound to {tag}, has the extent {loop.extent}",
                    reason="the number of threads of a block is fixed when the kernel is built",
                    fix="split the loop by a constant factor, bind the inner loop to the thread and the outer to a block",
                )
            extent = cast(loop.extent, INT32)
            # one launch has one extent for a tag: shorter loops are guarded
            extents[tag] = extent if tag not in extents else _longer(extents[tag], extent, tag, name, analyzer)
        together = 0 if "threadIdx.x" in extents else max(map(lanes_together, walk(body)), default=0)
        if together:
            extents["threadIdx.x"] = const(together)  # nothing else says how many lanes there are
        _check_size(extents, name)
        tags = [tag for tag in (*reversed(BLOCK_TAGS), *reversed(THREAD_TAGS)) if tag in extents]
        folded = tuple(  # more blocks than y or z may have are numbered along x
            tag for tag in BLOCK_TAGS[1:] if tag in extents and not analyzer.can_prove(extents[tag] <= MAX_BLOCKS)
        )
        # where a loop has no iterations, there is still one thread: it does what stands around the loop
        return Hardware(
            {tag: Var(tag, INT32) for tag in tags},
            # an empty grid cannot be launched
            {tag: const(1) if is_const(extents[tag], 0) else extents[tag] for tag in tags},
            folded,
        )

    def extent(self, tag: str) -> int:
        """The number of threads of a tag; 1 where no loop is bound to it."""
        return integer_value(self.extents.get(tag), 1)

    def lane_tags(self, lanes: int) -> tuple[str, ...]:
        """The tags in which threads of one group differ: of a warp (32 lanes) or of four (128), which are numbered one after the
        other, threadIdx.x fastest."""
        tags: list[str] = []
        below = 1
        for tag in THREAD_TAGS:
            if below % lanes:  # a tag differs within a group only while the faster ones do not fill it
                tags.append(tag)
            below *= self.extent(tag)
        return tuple(tags)

    @property
    def block(self) -> tuple[int, int, int]:
        """The threads of a block: x, y, z."""
        x, y, z = (self.extent(tag) for tag in THREAD_TAGS)
        return x, y, z

    @property
    def threads(self) -> int:
        """The number of threads of a block."""
        x, y, z = self.block
        return x * y * z

    @property
    def grid(self) -> tuple[Expr, Expr, Expr]:
        """The blocks that loops are bound to: x, y, z."""
        x, y, z = (self.extents.get(tag, const(1)) for tag in BLOCK_TAGS)
        return x, y, z


def _longer(a: Expr, b: Expr, tag: str, name: str, analyzer: Analyzer) -> Expr:
    if analyzer.can_prove(a >= b):  # the longer of the two covers both loops
        return a
    if analyzer.can_prove(b >= a):
        return b
    raise ThreadExtentsDisagree(
        f"cannot lower {name}: two loops of one kernel are bound to {tag}, with the extents {a} and {b}",
        reason="a kernel has one extent a thread tag, and which of these is the greater is not known",
        fix="split both loops by the same factor, or by the same number of parts",
    )


def _check_size(extents: dict[str, Expr], name: str) -> None:
    total = 1
    for tag in THREAD_TAGS:
        extent = extents.get(tag)
        count = integer_value(extent, 1)
        total *= count
        if count > _MAX_EXTENT[tag]:
            raise TooManyThreads(
                f"cannot lower {name}: {count} threads along {tag}",
                reason=f"a block has at most {_MAX_EXTENT[tag]} there",
                fix="split the loop and bind the outer part to a block or a virtual thread",
            )
    if total > MAX_THREADS:
        raise TooManyThreads(
            f"cannot lower {name}: a block of {total} threads",
            reason=f"a GPU runs at most {MAX_THREADS} in one block",
            fix="split a thread loop and bind its outer part to a block or a virtual thread",
        )
