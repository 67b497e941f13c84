"""Candidates for GPUs: their kernels against those that lowering makes of the same primitives."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from math import prod

import drawn
import pytest
from tilewright import te, topi
from tilewright.autoschedule import scheduler
from tilewright.autoschedule.cost.gpu import estimate_kernels
from tilewright.autoschedule.cost.kernels import KernelWork, count_kernel
from tilewright.autoschedule.drafts.draft import Draft, Drafts
from tilewright.autoschedule.drafts.kernels import kernels_of_draft
from tilewright.autoschedule.gpu import products, tensor_cores
from tilewright.autoschedule.gpu.elements import DECLARED
from tilewright.autoschedule.loop_nest import Nest
from tilewright.autoschedule.lowered_kernels import nest_of_kernel
from tilewright.autoschedule.plan import Candidate
from tilewright.codegen.gpus import GPUS
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


@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_products_have_the_work_that_is_lowered(dtype: str) -> None:
    """Blocks, threads, and what is moved, except by instructions of warps; where these do not multiply also memories and the
    multiply-adds."""
    for case in range(drawn.count(4, 40)):
        rng = drawn.rng(f"kernels of products of {dtype}", case)
        works: list[KernelWork] = []

        def choose(name: str, candidates: Sequence[Candidate]) -> int:
            del name
            assert candidates[-1].description == DECLARED and candidates[-1].estimate is not None
            least, drafted = candidates[-1].seconds, estimate_kernels(draft_of(candidates[-1]), GPUS["sm_80"]).seconds
            assert least == pytest.approx(drafted) or min(each.seconds for each in candidates) < least < drafted
            ways = [
                (at, *way.apply.args[1:3]) for at, way in enumerate(candidates[:-1]) if isinstance(way.apply, partial)
            ]
            if dtype == "float32":  # guards of threads that copy nothing are no loops
                ways = [
                    way for way in ways if min(way[2].rows, way[2].columns) * way[2].depth >= 4 * prod(way[2].threads)
                ]
            at, found, tile = ways[int(rng.integers(len(ways)))]
            gpu = GPUS["sm_80"]
            halves = dtype == "float16"
            works.extend(
                tensor_cores.count_work(found, tile, gpu) if halves else products.count_work(found, tile, gpu, 32)
            )
            return at

        declared = product(lambda low, high: int(rng.integers(low, high)), dtype)
        s = scheduler.schedule(declared, Target.parse("cuda -arch=sm_80"), chooser=choose)
        lowered = collect_kernels(lower_parts(s, all_arguments(s)).function)
        assert len(lowered) == len(works)
        for work, kernel in zip(works, lowered, strict=True):
            wanted = count_kernel(nest_of_kernel(kernel, s.decisions[0].machine))
            assert (work.blocks, work.threads) == (wanted.blocks, wanted.threads)
            if work is not works[0]:  # which adds up parts across rows
                continue
            if dtype == "float32" or len(works) == 1:
                assert work.loaded == pytest.approx(wanted.loaded, rel=0.2), s.decisions  # with what is loaded ahead
            if dtype == "float32":
                both = [(each.shared, each.phases[0].arithmetic, each.phases[0].accessed) for each in (work, wanted)]
                assert both[0] == pytest.approx(both[1], rel=0.1), s.decisions


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
