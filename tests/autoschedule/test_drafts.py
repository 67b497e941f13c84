"""Drafts: what a candidate's primitives make of loops in numbers, against the loops that lowering makes of the same primitives."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from math import prod
from statistics import median
from typing import Any

import drawn
import numpy as np
import pytest
import tilewright as tw
from tilewright import te, topi
from tilewright.autoschedule import scheduler
from tilewright.autoschedule.cost.cpu import Lines
from tilewright.autoschedule.cost.estimate import soonest
from tilewright.autoschedule.drafts.draft import Draft, Drafts, Undrafted
from tilewright.autoschedule.drafts.nests import nest_of_draft
from tilewright.autoschedule.groups import Group
from tilewright.autoschedule.loop_nest import Body, Nest
from tilewright.autoschedule.lowered_nests import estimate_schedule
from tilewright.autoschedule.plan import Candidate, cheapest
from tilewright.codegen.machine import MACHINES, find_machine
from tilewright.codegen.target import Target

AVX2 = replace(next(row for row in MACHINES if row.name == "avx2" and not row.cpus), cores=1)


def maxima(m: int, n: int, k: int) -> te.Tensor:
    a, b = te.placeholder((m, k), name="a"), te.placeholder((n, k), name="b")
    r = te.reduce_axis((0, k), "r")
    return te.compute((m, n), lambda i, j: te.max(a[i, r] - b[j, r], axis=r), name="out")


def contracted(m: int, n: int, k: int) -> te.Tensor:
    a, b = te.placeholder((m, k, 3), name="a"), te.placeholder((3, k, n), name="b")
    r, q = te.reduce_axis((0, k), "r"), te.reduce_axis((0, 3), "q")
    return te.compute((m, n), lambda i, j: te.sum(a[i, r, q] * b[q, r, j], axis=[r, q]), name="out")


def product(m: int, n: int, k: int) -> te.Tensor:
    a, b = te.placeholder((m, k), name="a"), te.placeholder((k, n), name="b")
    r = te.reduce_axis((0, k), "r")
    return te.compute((m, n), lambda i, j: te.sum(a[i, r] * b[r, j], axis=r), name="out")


def with_vector(m: int, n: int, k: int) -> te.Tensor:
    return product(1, 9 * m, 9 * k)


def windows(m: int, n: int, k: int) -> te.Tensor:
    del k
    a = te.placeholder((5, m + 2, n + 2), name="a")
    y, x = te.reduce_axis((0, 3), "y"), te.reduce_axis((0, 3), "x")
    return te.compute((5, m, n), lambda c, i, j: te.sum(a[c, i + y, j + x], axis=[y, x]), name="out")


def distances(m: int, n: int, k: int) -> te.Tensor:
    a, b = te.placeholder((k, m), name="a"), te.placeholder((k, n), name="b")
    r = te.reduce_axis((0, k), "r")
    sums = te.compute((m, n), lambda i, j: te.sum(te.abs(a[r, i] - b[r, j]), axis=r), name="sums")
    return te.compute((m, n), lambda i, j: te.sqrt(sums[i, j]) + 1.0, name="out")


@pytest.mark.parametrize("cpu", ["haswell", "skylake-avx512"])
def test_drafts_are_estimated_as_the_loops_that_are_lowered(cpu: str) -> None:
    target = Target.parse(f"llvm -mcpu={cpu} -uncalibrated")
    machine = find_machine(target)
    ratios: list[float] = []
    for case in range(drawn.count(3, 60)):
        rng = drawn.rng(f"drafts {cpu}", case)
        for declare in (maxima, contracted, product, with_vector, windows, distances):
            m, n, k = (int(rng.integers(low, high)) for low, high in ((40, 130), (40, 130), (20, 90)))
            for candidate, lowered in of_candidates(lambda: declare(m, n, k), target, rng.integers):
                assert candidate.estimate is not None
                whole = estimate_schedule(lowered, machine).seconds
                ratios.append(candidate.estimate.seconds / whole)
    assert len(ratios) > 12
    assert 0.8 < median(ratios) < 1.25, ratios
    near = sum(0.5 < ratio < 2 for ratio in ratios)
    assert near >= 0.75 * len(ratios), ratios


def softmaxes(m: int, n: int, k: int) -> te.Tensor:
    del k
    return topi.nn.softmax(te.placeholder((m, n), name="x"))


def norms(m: int, n: int, k: int) -> te.Tensor:
    del k
    x, scale = te.placeholder((m, n), name="x"), te.placeholder((n,), name="scale")
    return topi.nn.layer_norm(x, scale, te.placeholder((n,), name="shift"))


def convolved(m: int, n: int, k: int) -> te.Tensor:
    x, w = te.placeholder((1, k, m, n), name="x"), te.placeholder((n, k, 3, 3), name="w")
    return topi.nn.conv2d(x, w, padding=1)


def columns(m: int, n: int, k: int) -> te.Tensor:
    return topi.sum(te.placeholder((m, n, k), name="x"), axis=1)


def resized(m: int, n: int, k: int) -> te.Tensor:
    return topi.image.resize(te.placeholder((1, k, m, n), name="x"), (2 * m, n + 7))


def accumulated(m: int, n: int, k: int) -> te.Tensor:
    del k
    return topi.cumsum(te.placeholder((m, n), name="x"), axis=0)


ANY = (maxima, contracted, product, with_vector, windows, distances)
ANY += (softmaxes, norms, convolved, columns, resized, accumulated)


@pytest.mark.parametrize("cpu", ["haswell", "skylake-avx512"])
def test_no_choice_is_estimated_slower_than_no_schedule(cpu: str) -> None:
    target = Target.parse(f"llvm -mcpu={cpu} -uncalibrated")
    machine = find_machine(target)
    rng = drawn.rng(f"as declared {cpu}")
    for declare in ANY:
        output = declare(*(int(rng.integers(2, 40)) for _ in range(3)))
        rows = scheduler.schedule(output, target).plan
        times = [row.seconds for row in rows if row.seconds is not None]
        declared = estimate_schedule(te.create_schedule(output.op), machine).seconds
        assert any(text.startswith("as declared") for row in rows for text, _ in row.candidates), (declare, rows)
        # estimates of drafts are near those of the lowered loops
        assert len(times) == len(rows) and sum(times) <= 1.1 * declared, (declare, rows, declared)


def of_candidates(
    declare: Callable[[], te.Tensor], target: Target, integers: Callable[[int], int]
) -> list[tuple[Candidate, tw.te.Schedule]]:
    """Two candidates of the first decision about a program, each with the schedule that it gives."""
    taken: list[tuple[Candidate, tw.te.Schedule]] = []
    for _ in range(2):
        first: list[Candidate] = []

        def choose(name: str, candidates: Sequence[Candidate], first: list[Candidate] = first) -> int:
            del name
            own = [at for at, one in enumerate(candidates) if not first and "any sum" not in one.description]
            at = own[int(integers(len(own)))] if own else 0
            first.append(candidates[at])
            return at

        s = scheduler.schedule(declare(), target, chooser=choose)
        if len(s.plan) == len(first) == 1:
            taken.append((first[0], s))
    return taken


def drafted(tensor: te.Tensor) -> tuple[Draft, te.Tensor]:
    draft = Draft(te.create_schedule(tensor.op), Drafts())
    return draft, tensor


def times(nest: Nest | Body, name: str, around: int = 1) -> float:
    """How often instructions of a class run."""
    if isinstance(nest, Body):
        return around * nest.instructions.get(name, 0)
    return sum(times(part, name, around * nest.trips) for part in nest.body)


@pytest.mark.parametrize("columns", [48, 50, 63])
def test_the_last_vectors_of_an_axis_are_as_many_as_there_are(columns: int) -> None:
    draft, out = drafted(maxima(7, columns, 9))
    stage = draft[out]
    i, j = stage.op.axis
    (r,) = stage.op.reduce_axis
    vectors, lane = stage.split(j, factor=32)
    stage.reorder(i, vectors, r, lane)
    stage.vectorize(lane)
    assert times(nest_of_draft(draft, AVX2), "add") == 7 * 9 * -(-columns // 8)


def test_a_cache_has_the_loops_that_were_split_before_it() -> None:
    """Tiles of 4 x 16 in registers: the same multiplications and stores, whenever the cache is made."""
    for order in ("split first", "cached first"):
        draft, out = drafted(contracted(24, 64, 20))
        stage = draft[out]
        i, j = stage.op.axis
        if order == "split first":
            parts = (*stage.split(i, factor=4), *stage.split(j, nparts=4))
            stage.reorder(parts[0], parts[2], parts[1], parts[3])
            cache = draft[draft.cache_write(out, "local")]
            rows, columns, row, lane = cache.op.axis
            i, j = stage.op.axis
        else:
            cache = draft[draft.cache_write(out, "local")]
            row, lane = cache.op.axis
        rows, inner = stage.split(i, factor=4)
        columns, wide = stage.split(j, factor=16)
        stage.reorder(rows, columns, inner, wide)
        stage.unroll(inner)
        stage.vectorize(wide)
        cache.compute_at(stage, columns)
        cache.reorder(*cache.op.reduce_axis, row, lane)
        cache.unroll(row)
        cache.vectorize(lane)
        nest = nest_of_draft(draft, AVX2)
        assert times(nest, "mul") + times(nest, "fma") == 24 * 64 // 8 * 60, order
        assert times(nest, "store") == 24 * 64 // 8, order


def test_sums_are_counted_where_what_copies_them_is_inlined() -> None:
    """A bias behind a convolution: the copy of the sums is inlined into it."""
    x, w = te.placeholder((1, 76, 28, 28), name="x"), te.constant(np.ones((38, 76, 1, 1), "float32"), "w")
    y = topi.nn.conv2d(x, w)
    z = topi.nn.bias_add(y, te.placeholder((38,), name="b"), 1)
    alone, biased = (
        scheduler.schedule(each, "llvm -mcpu=skylake-avx512 -uncalibrated").decisions[0] for each in (y, z)
    )
    assert [text for text, _ in alone.candidates] == [text for text, _ in biased.candidates]
    for (text, time), (_, longer) in zip(alone.candidates, biased.candidates, strict=True):
        assert time is not None and longer is not None and longer.seconds > 0.9 * time.seconds, text


def in_blocks(layout: str) -> te.Tensor:
    """A convolution of blocks of 16 channels; or of an image as it usually lies, whose weights have the channels of a vector last."""
    if layout == "NCHW16c":
        x, w = te.placeholder((1, 4, 14, 14, 16), name="x"), te.constant(np.ones((4, 4, 3, 3, 16, 16), "float32"), "w")
        return topi.nn.conv2d(x, w, 1, 1, layout=layout)
    x, w = te.placeholder((1, 64, 28, 28), name="x"), te.placeholder((4, 64, 1, 1, 16), name="w")
    c, p, q = (te.reduce_axis((0, extent), name) for extent, name in ((64, "c"), (1, "p"), (1, "q")))
    return te.compute(
        (1, 64, 28, 28),
        lambda n, o, i, j: te.sum(x[n, c, i + p, j + q] * w[o // 16, c, p, q, o % 16], axis=[c, p, q]),
        name="y",
        tag="conv2d_nchw",
    )


def of_grid() -> te.Tensor:
    """A sum whose factors are read from a coarse grid, one cell for 64 places, half a cell further on."""
    grid, x = te.placeholder((17, 8), name="grid"), te.placeholder((8, 64, 1024), name="x")
    k = te.reduce_axis((0, 8), "k")
    return te.compute((64, 1024), lambda i, j: te.sum(grid[(j + 32) // 64, k] * x[k, i, j], axis=k), name="y")


@pytest.mark.parametrize("declare", [partial(in_blocks, "NCHW16c"), partial(in_blocks, "NCHW"), of_grid])
def test_what_is_read_in_blocks_is_timed_by_its_draft_as_by_its_loops(declare: Callable[[], te.Tensor]) -> None:
    target = Target.parse("llvm -mcpu=skylake-avx512 -uncalibrated")
    s = scheduler.schedule_groups(te.create_schedule(declare().op), target, False, cheapest, {}, whole=True)
    decision = s.decisions[0]
    assert decision.seconds == pytest.approx(estimate_schedule(s, find_machine(target)).seconds, rel=0.2)


def test_places_some_steps_apart_share_no_elements() -> None:
    """A tile of 14 places by 2 vectors of channels loads 16 times in a step, two at a time, and keeps all of its sums in registers."""
    x, w = te.placeholder((1, 64, 56, 56), name="x"), te.placeholder((128, 64, 3, 3), name="w")
    target = Target.parse("llvm -mcpu=skylake-avx512 -cores=1 -uncalibrated")
    (row,) = tw.autoschedule.schedule(topi.nn.conv2d(x, w, 2, 1), target).plan
    assert row.description.startswith("channels, tile 2 x 1 x 14") and row.estimate is not None
    steps = 4 * 28 * 2 * 64 * 9
    assert dict(row.estimate.parts)["loads"] * find_machine(target).clock * 1e9 / steps < 10


def test_what_is_computed_at_a_loop_is_the_box_that_it_reads() -> None:
    a = te.placeholder((66, 66), name="a")
    image = te.compute((66, 66), lambda y, x: a[y, x] * 2.0, name="image")
    k = te.reduce_axis((0, 3), "k")
    out = te.compute((64, 64), lambda y, x: te.sum(image[y + k, x + 1], axis=k), name="out")
    draft, _ = drafted(out)
    stage = draft[out]
    rows, _ = stage.split(stage.op.axis[0], factor=16)
    draft[image].compute_at(stage, rows)
    assert times(nest_of_draft(draft, AVX2), "mul") == 4 * 18 * 64
    stored = [access for access in accesses(nest_of_draft(draft, AVX2)) if access.stored and access.array is image]
    assert [access.shape for access in stored] == [(18, 64)]


def test_what_only_the_loops_of_another_stage_read_is_computed_too() -> None:
    a = te.placeholder((64, 16), name="a")
    deep = te.compute((64, 16), lambda i, j: te.exp(a[i, j]), name="deep")
    inner = te.compute((64, 16), lambda i, j: deep[i, j] + 1.0, name="inner")
    middle = te.compute((64, 16), lambda i, j: inner[i, j] * 2.0, name="middle")
    draft, out = drafted(te.compute((64, 16), lambda i, j: middle[i, j] - 1.0, name="out"))
    block, _ = draft[out].split(draft[out].op.axis[0], factor=8)
    for stage, parent, loop in (
        (middle, out, block),
        (inner, middle, draft[middle].op.axis[0]),
        (deep, out, block),
    ):
        draft[stage].compute_at(draft[parent], loop)
    assert times(nest_of_draft(draft, AVX2), "call") == 64 * 16


def accesses(nest: Nest | Body) -> list[tw.ir.analysis.footprint.Access]:
    if isinstance(nest, Body):
        return list(nest.accesses)
    return [each for part in nest.body for each in accesses(part)]


def test_a_loop_over_several_axes_is_a_loop_over_each() -> None:
    a = te.placeholder((5, 19, 23), name="a")
    out = te.compute((5, 19, 23), lambda i, j, k: a[i, j, k] + 1.0, name="out")
    draft, _ = drafted(out)
    stage = draft[out]
    steps, inside = stage.split(stage.fuse(*stage.op.axis[:2]), factor=6)
    stage.unroll(inside)
    stage.reorder(steps, stage.op.axis[2], inside)
    nest = nest_of_draft(draft, AVX2)
    assert times(nest, "add") >= 5 * 19 * 23
    assert 16 <= prod(trips for _, trips in stage_loops(nest)[:2]) <= 18, "sixteen steps, in whole numbers of both axes"


def stage_loops(nest: Nest) -> list[tuple[object, int]]:
    loops: list[tuple[object, int]] = []
    part: Nest | Body = nest
    while isinstance(part, Nest):
        if part.axis is not None:
            loops.append((part.axis, part.trips))
        part = part.body[0]
    return loops


def test_what_drafts_do_not_know_is_refused() -> None:
    draft, out = drafted(maxima(7, 8, 9))
    with pytest.raises(Undrafted, match="split by anything but a factor"):
        draft[out].split(out.op.axis[0])
    i, _ = draft[out].split(out.op.axis[0], factor=2)
    with pytest.raises(Undrafted, match="loops that are scheduled"):
        draft[out].transform_layout(lambda i, j: [j, i])
    with pytest.raises(Undrafted, match="is not a loop"):
        draft[out].unroll(out.op.axis[0])
    draft[out].unroll(i)


def test_candidates_without_a_draft_are_taken_where_there_are_no_others() -> None:
    s = te.create_schedule(maxima(7, 8, 9).op)
    op = s.outputs[0]
    target = Target.parse("llvm -mcpu=haswell")
    group = Group(s, op, op, (), target, AVX2)
    times = [
        group.draft(lambda own: own.s[op].double_buffer(), Drafts(), Lines()),
        group.draft(lambda own: own.s[op].unroll(op.axis[1]), Drafts(), Lines()),
    ]
    assert soonest(times) == 1 and soonest(times[:1]) == 0
    assert times[0].binds == "not estimated" and times[1].seconds < 1


def test_results_of_known_values_take_time() -> None:
    """Though what else is computed of known values is computed when the kernel is built."""
    table = te.constant(np.ones((4, 4), "float32"), "table")
    values = te.compute((64, 4), lambda i, j: table[i % 4, j % 2] * 2)
    (decision,) = scheduler.schedule(values, Target.parse("cuda -arch=sm_80")).decisions
    assert decision.seconds and decision.seconds > 0, decision


def test_candidates_are_drafted_once_for_all_schedules_of_one_program(monkeypatch: pytest.MonkeyPatch) -> None:
    """As a tuner asks for them, trial by trial, whatever it takes."""
    x, w = te.placeholder((1, 16, 14, 14), name="x"), te.placeholder((16, 16, 3, 3), name="w")
    outputs = [topi.nn.conv2d(x, w, 1, 1)]
    drafted: list[str] = []
    draft = Group.draft

    def count(group: Group, *given: Any) -> Any:
        drafted.append(group.anchor.name)
        return draft(group, *given)

    monkeypatch.setattr(Group, "draft", count)
    known: dict[Any, Any] = {}
    plans = [scheduler.schedule(outputs, "llvm", known=known).plan for _ in range(2)]
    once = len(drafted)
    assert once and [row.seconds for row in plans[0]] == [row.seconds for row in plans[1]]
    scheduler.schedule(outputs, "llvm", known={})
    # drafts of alternatives, which are declared anew, are made again
    assert len(drafted) - once > once // 2
