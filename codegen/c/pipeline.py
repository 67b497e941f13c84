"""Passes that turn what a schedule lowers to into what C is written of. What each pass does stands in its own file, and why in this order
in codegen/llvm/pipeline.py: lanes stay loops here, and there is nothing to be known of a machine."""

from __future__ import annotations

from ...ir.passes.common.bound_checks import bound_checks
from ...ir.passes.common.cse import share_subexpressions
from ...ir.passes.common.flatten import flatten
from ...ir.passes.common.float8 import widen_float8
from ...ir.passes.common.fused_sums import round_sums
from ...ir.passes.common.hoist import hoist_invariants
from ...ir.passes.common.int4 import pack_int4
from ...ir.passes.common.loop_partition import loop_partition
from ...ir.passes.common.narrow import narrow_offsets
from ...ir.passes.common.options import PassOptions
from ...ir.passes.common.remove_likely import remove_likely
from ...ir.passes.common.runner import Pass
from ...ir.passes.common.simplify import simplify
from ...ir.passes.common.solved_loops import solve_loops
from ...ir.passes.common.storage import plan_storage
from ...ir.passes.common.target_facts import resolve_facts
from ...ir.passes.common.trim_loops import trim_loops
from ...ir.passes.common.unroll import unroll
from ...ir.passes.common.unsafe_select import unsafe_select
from ...ir.passes.cpu.lane_races import serialize_racing_lanes
from ...ir.passes.cpu.parallel_launch import launch_once
from ...ir.passes.cpu.small_parallel import run_small_serially
from ...ir.passes.gpu.lower_threads import lower_threads
from .loops import lanes_as_loops

__all__ = ["c_pipeline"]

_USUAL_BITS = 128
"""Of a vector register, to tell how much a loop does."""


def c_pipeline(bounds_check: bool, options: PassOptions, fuses: bool = True) -> tuple[Pass, ...]:
    """The passes of a build for C, in order. fuses: whether sums take up products with one rounding."""
    passes = (
        # no fact of a machine holds, so that portable bodies are taken
        Pass("target_facts", lambda function: resolve_facts(function, lambda _: False)),
        Pass("lower_threads", lower_threads),
        Pass("fused_sums", lambda function: round_sums(function, fuses)),
        Pass("float8", widen_float8),
        Pass("int4", pack_int4),
        Pass("parallel_launch", launch_once),
        Pass("simplify", simplify),
        Pass("cse", share_subexpressions),
        *((Pass("bound_checks", bound_checks),) if bounds_check else ()),
        Pass("unsafe_select", unsafe_select),
        Pass("trim_loops", trim_loops),
        # 0 lanes: there is no vector loop whose rest would be split off
        Pass("loop_partition", lambda function: loop_partition(function, 0)),
        Pass("hoist", hoist_invariants),
        Pass("solved_loops", solve_loops),
        Pass("simplify_pieces", simplify),
        Pass("lane_races", serialize_racing_lanes),
        Pass("flatten", flatten, stage_after="flat"),  # from here on every buffer has one dimension
        Pass("lanes_as_loops", lanes_as_loops),
        Pass("unroll", unroll),  # after lanes_as_loops, whose loops are not to be unrolled
        Pass("small_parallel", lambda function: run_small_serially(function, _USUAL_BITS)),
        Pass("narrow", narrow_offsets),
        Pass("storage", lambda function: plan_storage(function, options.share_memory)),
        Pass("remove_likely", remove_likely, stage_after="final"),
    )
    return tuple(step for step in passes if step.name not in options.without)
