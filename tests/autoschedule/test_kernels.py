"""Candidates for GPUs: their kernels against those that lowering makes of the same primitives."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from math import prod
from typing import Any, cast

import drawn
import pytest
from tilewright import te, topi
from tilewright.autoschedule import scheduler
from tilewright.autoschedule.cost.gpu import OF_COPIES, estimate_kernels
from tilewright.autoschedule.cost.kernels import KernelWork, count_kernel
from tilewright.autoschedule.cost.tiles import DESCRIPTORS
from tilewright.autoschedule.drafts.draft import Draft, Drafts
from tilewright.autoschedule.drafts.kernels import kernels_of_draft
from tilewright.autoschedule.gpu import hopper, online, online_fragments, products, scans, tensor_cores
from tilewright.autoschedule.gpu.elements import DECLARED
from tilewright.autoschedule.loop_nest import Nest
from tilewright.autoschedule.lowered_kernels import nest_of_kernel
from tilewright.autoschedule.plan import Candidate
from tilewright.codegen.gpus import GPUS, Gpu
from tilewright.codegen.target import Target
from tilewright.ir.analysis.warps import collect_kernels
from tilewright.schedule.lowering.lower import lower_parts
from tilewright.schedule.lowering.text import all_arguments

Integers = Callable[[int, int], int]


def elements(some: Integers) -> te.Tensor:
    A = te.placeholder((16 * some(1, 20), 64 * some(1, 10)), name="A")
    return te.compute(A.shape, lambda i, j: te.exp(A[i, j]) * 2.0 + A[i, j], name="out")


def transposes(some: Integers) -> te.Tensor:
    A = te.placeholder((32 * some(1, 9), 32 * some(1, 9)), name="A")
    return te.compute((A.shape[1], A.shape[0]), lambda i, j: A[j, i] + 1.0, name="out")


def rows(some: Integers) -> te.Tensor:
    return topi.sum(te.placeholder((256 * some(1, 5), 128 * some(1, 9)), name="A"), axis=1)


def columns(some: Integers) -> te.Tensor:
    return topi.max(te.placeholder((32 * some(1, 30), 256 * some(1, 5)), name="A"), axis=0)


def softmaxes(some: Integers) -> te.Tensor:
    return topi.nn.softmax(te.placeholder((256 * some(1, 5), 128 * some(1, 6)), name="A"), axis=1)


def norms(some: Integers) -> te.Tensor:
    columns = 128 * some(1, 6)
    A = te.placeholder((256 * some(1, 3), columns), name="A")
    return topi.nn.rms_norm(A, te.placeholder((columns,), name="g"), [1])


def windows(some: Integers) -> te.Tensor:
    size = 64 * some(1, 3)
    A, w = te.placeholder((4, size + 4, size + 4), name="A"), te.placeholder((4, 3, 3), name="w")
    r, q = te.reduce_axis((0, 3), "r"), te.reduce_axis((0, 3), "q")
    return te.compute((4, size, size), lambda c, y, x: te.sum(A[c, y + r, x + q] * w[c, r, q], axis=[r, q]), name="out")


def stencils(some: Integers) -> te.Tensor:
    size = 64 * some(2, 6)
    A = te.placeholder((size + 4, size + 4), name="A")
    across = te.compute((size + 4, size), lambda y, x: A[y, x] + A[y, x + 1] + A[y, x + 4], name="across")
    return te.compute((size, size), lambda y, x: across[y, x] + across[y + 2, x] + across[y + 4, x], name="out")


PROGRAMS = (elements, transposes, rows, columns, softmaxes, norms, windows, stencils)

SHIFTED = (transposes, windows, stencils)


@pytest.mark.parametrize("declare", PROGRAMS, ids=lambda declare: declare.__name__)
def test_drafts_have_the_kernels_that_are_lowered(declare: Callable[[Integers], te.Tensor]) -> None:
    """Blocks, threads, memories and what is moved, of candidates that are drawn."""
    compared = 0
    for case in range(drawn.count(4, 40)):
        rng = drawn.rng(f"kernels {declare.__name__}", case)
        drafts: list[tuple[Nest, ...]] = []

        def choose(name: str, candidates: Sequence[Candidate]) -> int:
            del name
            assert drafts or any(each.description.startswith((DECLARED, "each ")) for each in candidates)
            at = int(rng.integers(len(candidates)))
            drafts.append(draft_of(candidates[at]))
            return at

        s = scheduler.schedule(
            declare(lambda low, high: int(rng.integers(low, high))),
            Target.parse("cuda -arch=sm_80"),
            chooser=choose,
        )
        if len(s.decisions) > 1 or not drafts[0]:  # "each apart" is scheduled by other rules
            continue
        lowered = collect_kernels(lower_parts(s, all_arguments(s)).function)
        assert len(lowered) == len(drafts[0])
        for draft, kernel in zip(drafts[0], lowered, strict=True):
            found, wanted = count_kernel(draft), count_kernel(nest_of_kernel(kernel, s.decisions[0].machine))
            exactly = declare not in SHIFTED and s.decisions[0].description != DECLARED
            assert features(found, exactly) == pytest.approx(features(wanted, exactly), rel=0.1), s.decisions
            compared += 1
    assert compared


def product(some: Integers, dtype: str) -> te.Tensor:
    """A product with sums so long that what a pipeline loads before its first step counts little."""
    rows, columns = 64 * some(2, 9), 64 * some(2, 9)
    A, B = te.placeholder((rows, 8192), dtype, name="A"), te.placeholder((8192, columns), dtype, name="B")
    k = te.reduce_axis((0, 8192), "k")
    return te.compute(
        (rows, columns),
        lambda i, j: te.sum(A[i, k].astype("float32") * B[k, j].astype("float32"), axis=k),
        name="C",
    )


def attention(some: Integers, dtype: str) -> te.Tensor:
    """Keys so many that what a pipeline loads before its first step counts little."""
    heads, rows = some(1, 4), 128 * some(8, 12)
    return topi.nn.attention(
        *(
            te.placeholder((heads, extent, 64), dtype, name=name)
            for name, extent in (("q", rows), ("k", 4096), ("v", 4096))
        )
    )


def cumulative(some: Integers, dtype: str) -> te.Tensor:
    return topi.cumsum(te.placeholder((31 * 15 * some(1, 4), 32 * some(2, 8)), dtype, name="x"), axis=1)


def counted_work(candidate: Candidate, gpu: Gpu) -> Sequence[KernelWork]:
    """The work of a candidate that is counted from its tile; nothing of others."""
    if not isinstance(candidate.apply, partial):
        return ()
    apply, (_, *others) = candidate.apply.func, candidate.apply.args
    if apply in (hopper._apply, tensor_cores._apply):
        return (hopper._count if apply is hopper._apply else tensor_cores.count_work)(*others[:2], gpu)
    if apply is products._apply:
        return products.count_work(*others[:2], gpu, 32)
    if apply is scans._apply_rows:
        return [scans._count(*others)]
    count = {online._apply: online._count, online.apply_on_cores: online.count_on_cores}
    return count[apply](*others) if apply in count else ()


BESIDE = {tensor_cores.Tile: 2 * OF_COPIES, hopper.Tile: DESCRIPTORS, online_fragments.FragmentTile: 0}
"""Registers of a thread beside its fragments; where scores and weights take turns these are among them."""


@pytest.mark.parametrize(
    ("declare", "dtype", "arch"),
    [
        (product, "float32", "sm_80"),
        (product, "float16", "sm_80"),
        (product, "float16", "sm_90a"),
        (attention, "float32", "sm_80"),
        (attention, "float16", "sm_80"),
        (cumulative, "float32", "sm_80"),
    ],
    ids=lambda each: getattr(each, "__name__", each),
)
def test_work_counted_from_tiles_is_that_of_lowered_kernels(
    declare: Callable[[Integers, str], te.Tensor], dtype: str, arch: str
) -> None:
    """Blocks, threads, what is moved and multiplied, and registers where fragments are most of them."""
    gpu = GPUS[arch]
    for case in range(drawn.count(3, 40)):
        rng = drawn.rng(f"work of {declare.__name__} of {dtype} on {arch}", case)
        works, tiles = list[KernelWork](), list[Any]()

        def choose(name: str, candidates: Sequence[Candidate]) -> int:
            del name
            if declare is product:  # the program as declared is among them, and estimated
                *_, declared = candidates
                assert declared.description == DECLARED
                drafted = estimate_kernels(draft_of(declared), gpu).seconds
                quickest = min(each.seconds for each in candidates)
                assert declared.seconds == pytest.approx(drafted) or quickest < declared.seconds < drafted
            ways = [(at, counted_work(each, gpu)) for at, each in enumerate(candidates) if is_compared(each, dtype)]
            at, counted = ways[int(rng.integers(len(ways)))]
            works.extend(counted)
            tiles.append(cast("partial[None]", candidates[at].apply).args[2])
            return at

        declared = declare(lambda low, high: int(rng.integers(low, high)), dtype)
        s = scheduler.schedule(declared, Target.parse(f"cuda -arch={arch}"), chooser=choose)
        lowered = collect_kernels(lower_parts(s, all_arguments(s)).function)
        assert len(lowered) == len(works)
        for work, kernel in zip(works, lowered, strict=True):
            wanted = count_kernel(nest_of_kernel(kernel, s.decisions[0].machine))
            assert (work.blocks, work.threads) == (wanted.blocks, wanted.threads), s.decisions
            if work is works[0] and len(works) == 1:  # others add up parts across rows
                found, expected = moved_work(work, declare), moved_work(wanted, declare)
                assert found == pytest.approx(expected, rel=0.1), s.decisions
                if dtype == "float16":
                    assert work.registers - BESIDE[type(tiles[0])] == pytest.approx(wanted.registers, rel=0.1), (
                        s.decisions
                    )


def is_compared(candidate: Candidate, dtype: str) -> bool:
    """Return whether a lowered kernel tells the work of a candidate: all threads copy as much, since guards of those that copy nothing
    are no loops, no block reads what another one has fetched, and threads beside those that compute are in some loop."""
    if not counted_work(candidate, GPUS["sm_90a"]) or not isinstance(candidate.apply, partial):
        return False
    tile = candidate.apply.args[2]
    if isinstance(tile, products.Tile):
        return min(tile.rows, tile.columns) * tile.depth >= 4 * prod(tile.threads)
    if isinstance(tile, hopper.Tile):
        return tile.cluster == 1 and not (tile.roles and tile.stored)
    return tile > 7 if isinstance(tile, int) else isinstance(tile, online.Tile) == (dtype == "float32")


def moved_work(work: KernelWork, declare: Callable[[Integers, str], te.Tensor]) -> dict[str, float]:
    """What is moved and multiplied; of scans, whose steps one warp takes, what is moved and kept."""
    if declare is cumulative:
        return {"loaded": work.loaded, "shared": work.shared}
    names = ("arithmetic", "mma", "wgmma")
    return {"loaded": work.loaded, **{name: sum(getattr(phase, name) for phase in work.phases) for name in names}}


def draft_of(candidate: Candidate) -> tuple[Nest, ...]:
    """The kernels of a candidate; none of one that does nothing by itself."""
    if not isinstance(candidate.apply, partial):
        return ()
    *arguments, group = candidate.apply.args
    draft = Draft(group.s, Drafts())
    candidate.apply.func(*arguments, replace(group, s=draft, decisions=[]))
    draft[group.output].touched = True
    return kernels_of_draft(draft, group.machine)


def features(work: KernelWork, exactly: bool) -> dict[str, float]:
    """What must agree. exactly: also what is moved, which lowering counts otherwise where quotients are indices and guards are no
    loops."""
    alike: dict[str, float] = {
        "blocks": work.blocks,
        "threads": work.threads,
        "shared": work.shared,
        "registers": work.registers,
        "arithmetic": work.phases[0].arithmetic,
    }
    return {**alike, "moved": work.moved, "loads": work.phases[0].loads} if exactly else alike
