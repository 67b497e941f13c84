"""The CPU pipeline: from what a schedule lowers to, to what LLVM code generation takes. Order is explained here, what
each pass does in its own file."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from ...ir.passes.common.bound_checks import bound_checks as check_bounds
from ...ir.passes.common.cse import share_subexpressions
from ...ir.passes.common.early_exit import leave_loops
from ...ir.passes.common.flatten import flatten
from ...ir.passes.common.float8 import widen_float8
from ...ir.passes.common.fused_sums import round_sums
from ...ir.passes.common.hoist import hoist_invariants
from ...ir.passes.common.int4 import pack_int4
from ...ir.passes.common.loop_partition import loop_partition
from ...ir.passes.common.narrow import narrow_offsets
from ...ir.passes.common.options import AS_USUAL, PassOptions
from ...ir.passes.common.remove_likely import remove_likely
from ...ir.passes.common.runner import Pass
from ...ir.passes.common.simplify import simplify
from ...ir.passes.common.solved_loops import solve_loops
from ...ir.passes.common.storage import plan_storage
from ...ir.passes.common.target_facts import resolve_facts
from ...ir.passes.common.trim_loops import trim_loops
from ...ir.passes.common.unroll import unroll
from ...ir.passes.common.unsafe_select import unsafe_select
from ...ir.passes.cpu.carried_extrema import order_extrema
from ...ir.passes.cpu.full_vectors import widen_rows
from ...ir.passes.cpu.interleaved_stores import interleaved_stores
from ...ir.passes.cpu.lane_races import serialize_racing_lanes
from ...ir.passes.cpu.nontemporal import stream_stores
from ...ir.passes.cpu.parallel_launch import launch_once
from ...ir.passes.cpu.reassociation import cut_sums
from ...ir.passes.cpu.scalar_promotion import promote_scalars
from ...ir.passes.cpu.shared_windows import shared_windows
from ...ir.passes.cpu.small_parallel import run_small_serially
from ...ir.passes.cpu.transposed_loads import transposed_loads
from ...ir.passes.cpu.unroll_and_jam import unroll_and_jam
from ...ir.passes.cpu.vectorize import MAX_LANES, vectorize
from ...ir.passes.gpu.lower_threads import lower_threads
from ..target import Target
from .features import target_has

__all__ = ["cpu_pipeline", "build_pipeline"]


def build_pipeline(
    target: Target,
    bounds_check: bool = False,
    options: PassOptions = AS_USUAL,
    *,
    fuses: bool | None = None,
) -> tuple[Pass, ...]:
    """The passes of a build for a target, in order. fuses: whether sums take up products with one rounding; by default where
    the target has that instruction."""
    return cpu_pipeline(
        target.vector_bits,
        bounds_check,
        partial(target_has, target),
        options,
        masks=target.masks_vectors,
        fuses=target.fuses if fuses is None else fuses,
    )


def cpu_pipeline(
    vector_bits: int = 512,
    bounds_check: bool = False,
    has: Callable[[str], bool] = lambda _: False,
    options: PassOptions = AS_USUAL,
    *,
    masks: bool | None = None,
    fuses: bool = True,
) -> tuple[Pass, ...]:
    """The passes of a CPU build, in order. vector_bits: width of the target's vector registers. bounds_check: assert
    that accesses which are not proved to be in range are. has: whether the target has a feature, by LLVM's name. options: what is
    left out. masks: whether the machine masks whole vectors at no cost; by default those of 512 bits do. fuses: whether sums take
    up products with one rounding."""
    checks = (Pass("bound_checks", check_bounds),) if bounds_check else ()
    masks = vector_bits >= 512 if masks is None else masks
    masked_lanes = MAX_LANES if masks else 0  # others mask by slow instructions, or none
    passes = (
        # n-d indices: what reasons about dimensions, guards and whole expressions
        Pass("target_facts", lambda function: resolve_facts(function, has)),  # first: what is not chosen costs nothing
        Pass("lower_threads", lower_threads),  # early: three loop kinds are left for all the others
        Pass("fused_sums", lambda function: round_sums(function, fuses)),  # what rounds how is plain from here on
        Pass("float8", widen_float8),  # after sums, which are rounded once
        Pass("int4", pack_int4),  # before what reasons about memory
        Pass("parallel_launch", launch_once),  # while indices are sums of loop variables, and guards innermost
        Pass("simplify", simplify),  # few forms for the rest to match
        Pass("cse", share_subexpressions),  # before shared values are walked, or copied with their statements
        *checks,  # before anything drops a guard that an access relies on
        Pass("unsafe_select", unsafe_select),  # ranges are proved a dimension at a time
        Pass("trim_loops", trim_loops),  # before partition: what no guard lets through is no part
        # guards out of what will be lanes and copies
        Pass("loop_partition", lambda function: loop_partition(function, masked_lanes)),
        Pass("hoist", hoist_invariants),  # the guards that partition left, out of the loops they ignore
        Pass("solved_loops", solve_loops),  # after hoist: what is left in a loop is its own
        Pass("simplify_pieces", simplify),  # decides the guards and bounds of the pieces
        Pass("lane_races", serialize_racing_lanes),  # after the last change of n-d indices, before they are gone
        Pass("unroll_and_jam", unroll_and_jam),  # before promotion, which looks at what is left
        Pass("scalar_promotion", promote_scalars),  # of loops that partition left, while dimensions tell accesses apart
        # after promotion, since a sum that other parts of its buffer are read beside is none for LLVM
        Pass("reassociation", lambda function: cut_sums(function, vector_bits)),
        Pass("carried_extrema", order_extrema),  # distances show while indices are n-d
        # after partition, whose remainders are the rows that end within a vector
        Pass("whole_vectors", lambda function: widen_rows(function, vector_bits, masks)),
        # one offset an access
        Pass("flatten", flatten, stage_after="flat"),
        Pass("nontemporal", lambda function: stream_stores(function, vector_bits)),  # cuts what will be vectors
        Pass("vectorize", lambda function: vectorize(function, vector_bits, masks)),
        Pass("unroll", unroll),  # after vectorize, whose chunks are unrolled loops
        Pass("interleaved_stores", interleaved_stores),  # of components, which are copies of an unrolled loop
        Pass("shared_windows", shared_windows),  # what an unrolled loop reads is one run of statements now
        Pass("transposed_loads", transposed_loads),  # of the columns that are left
        # after all that changes how much a loop does
        Pass("small_parallel", lambda function: run_small_serially(function, vector_bits)),
        Pass("narrow", narrow_offsets),  # every gather is there now
        Pass("early_exit", leave_loops),  # every loop's range has been used; before its counter is placed
        # every allocation is there, of one known size
        Pass("storage", lambda function: plan_storage(function, options.share_memory)),
        Pass("remove_likely", remove_likely, stage_after="final"),  # last: any pass may read the hint
    )
    return tuple(step for step in passes if step.name not in options.without)
