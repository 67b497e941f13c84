"""The passes over graphs in their order, run until nothing changes."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Sequence
from pathlib import Path

from ...base.arguments import is_a
from ...base.environment import dump_folder, dumps
from ...base.errors import FAULTS, TilewrightError, internal_error, is_interruption, user_source
from ...codegen.target import Target
from ..errors import UnknownPass
from ..node import Parts
from ..printer import graph_text
from ..rewrite import map_bodies
from .algebra import ALGEBRA, STOPS
from .attention import ATTENTION
from .blocks import BLOCKS, target_blocks
from .byte_zeros import BYTE_ZEROS, target_byte_zeros
from .common import COMMON
from .constant_folding import FOLDED
from .constants import CONSTANTS
from .dead import DEAD
from .fast_algebra import FAST_ALGEBRA
from .groups import GROUPS
from .moves import MOVES
from .operator_raising import RAISED
from .pads import PADS
from .powers import POWERS
from .quantization import QUANTIZED
from .rewriter import GraphPass
from .scales import SCALES
from .siblings import SIBLINGS
from .sinks import SINKS
from .splits import SPLITS
from .taps import TAPS
from .weight_only import WEIGHTS_INT4, WEIGHTS_INT8

__all__ = ["PASSES", "default_passes", "difference_text", "grouped", "passes_named", "transformed"]

PIPELINE: tuple[GraphPass, ...] = (
    DEAD,
    QUANTIZED,  # before weights are folded into floats
    COMMON,
    CONSTANTS,
    FOLDED,  # what it folds is there for the rules to see
    STOPS,
    ALGEBRA,
    POWERS,
    FAST_ALGEBRA,
    MOVES,
    RAISED,  # before factors go into weights: a gelu's half would too
    ATTENTION,
    SCALES,
    PADS,
    TAPS,  # of all the padding
    SINKS,  # what it moves cancels in the next round's moves
    SIBLINGS,
    SPLITS,  # behind what looks for them
    BYTE_ZEROS,  # behind what looks for sums and their zeros
    BLOCKS,  # when nothing else changes any more: rules know convolutions in the usual order
    GROUPS,  # once, at the end: what is grouped, the passes before do not look into
)
"""Every pass that a build may run, in their order."""

PASSES: dict[str, GraphPass] = {one.name: one for one in (*PIPELINE, WEIGHTS_INT8, WEIGHTS_INT4)}
"""What the passes do, by name, in their order; at last those that run only where they are named."""

_MOST_ROUNDS = 8


def default_passes(
    fast_math: bool = False, exact: bool = False, built: bool = True, target: Target | None = None
) -> list[GraphPass]:
    """The pipeline of a build, which groups nodes itself: with fast_math the passes that hold of real numbers too, with exact none
    that round otherwise. built: whether nobody asks the result for its gradient any more. target: the processor that layouts are
    chosen for, without it this one."""
    allowed = ("exact",) if exact else ("exact", "rounds", "fast") if fast_math else ("exact", "rounds")
    chosen = [one for one in PIPELINE if one.rounding in allowed and one is not GROUPS and (built or one is not STOPS)]
    own = {BLOCKS: target_blocks, BYTE_ZEROS: target_byte_zeros}
    return [own[one](target or Target()) if one in own else one for one in chosen]


def grouped(g: Parts) -> Parts:
    """The graph after the default pipeline, with a node for each kernel."""
    return transformed(transformed(g, default_passes(built=False)), [GROUPS])


def passes_named(names: Sequence[str]) -> list[GraphPass]:
    """The passes of these names, in this order. Raises UnknownPass (TW0914)."""
    unknown = [name for name in names if not is_a(name, str) or name not in PASSES]
    if unknown:
        raise UnknownPass(
            f"there is no pass {unknown[0]!r}"[:200],
            called=user_source(),
            allowed=", ".join(PASSES),
            fix="g.transform() runs the default pipeline",
        )
    return [PASSES[name] for name in names]


def transformed(
    g: Parts, passes: Sequence[GraphPass], changed: Callable[[str, Parts, Parts], None] | None = None
) -> Parts:
    """The graph after these passes, in rounds until nothing changes; the graphs inside of nodes first. changed: is told of each
    change, by the pass's name and the graph before and after. TILEWRIGHT_DUMP=folder writes what each pass changed there."""
    g = map_bodies(g, lambda body: transformed(body, passes, changed))
    asked = dump_folder()
    folder = _empty_folder(asked / f"graph.{_file_name(g.name)}") if asked is not None else None
    count = 0
    first = g
    early, late = [one for one in passes if not one.late], [one for one in passes if one.late]
    for some in (early, late, early) if late else (early,):
        for _ in range(_MOST_ROUNDS):
            before = g
            for one in some:
                after = _apply_pass(one, g)
                if after is not g and changed is not None:
                    changed(one.name, g, after)
                if folder is not None and after is not g:
                    with dumps():
                        (folder / f"{count:02}_{one.name}.diff").write_text(difference_text(g, after))
                    count += 1
                g = after
            if g is before:
                break
    for param in (*first.constants.values(), *g.constants.values()):
        param.release()
    return g


def _apply_pass(one: GraphPass, g: Parts) -> Parts:
    """Apply the pass. Whatever it raises is a fault of ours, with the graph as evidence."""
    try:
        return one.apply(g)
    except (TilewrightError, *FAULTS) as error:
        if is_interruption(error):
            raise
        raise internal_error(
            error, f"pass '{one.name}' failed on graph '{g.name}'", {"before.graph": graph_text(g)}
        ) from error


def difference_text(before: Parts, after: Parts) -> str:
    """The lines that a pass took away and those that it put there."""
    old, new = graph_text(before).splitlines(), graph_text(after).splitlines()
    return "\n".join(difflib.unified_diff(old, new, "before", "after", lineterm="", n=1)) + "\n"


def _empty_folder(folder: Path) -> Path:
    with dumps():
        folder.mkdir(parents=True, exist_ok=True)
        for old in folder.glob("[0-9][0-9]_*.diff"):
            old.unlink()
    return folder


def _file_name(name: str) -> str:
    return "".join(letter if letter.isalnum() or letter in "._-" else "_" for letter in name)[:100]
