"""The estimate: nests whose times can be counted by hand, on machines of round numbers."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import tilewright as tw
from tilewright import te
from tilewright.autoschedule.accesses import contiguous_axes
from tilewright.autoschedule.cost.cpu import BEGUN, LEAVE, STEP, estimate
from tilewright.autoschedule.cost.estimate import Estimate
from tilewright.autoschedule.cost.instructions import count_instructions, list_work
from tilewright.autoschedule.loop_nest import Body, Nest
from tilewright.autoschedule.lowered_nests import estimate_schedule
from tilewright.codegen.machine import MACHINES, Instruction, Machine, find_machine
from tilewright.codegen.target import Target
from tilewright.ir.analysis.footprint import Access, line_bytes
from tilewright.ir.expr import ProducerLoad, Var

ROW = next(row for row in MACHINES if row.name == "avx2" and not row.cpus)
PLAIN = replace(
    ROW,
    clock=1.0,
    cores=4,
    fork=1000.0,
    window=1,
    l1=32 << 10,
    l2=256 << 10,
    l3=0,
    l2_rate=32.0,
    memory_rate=4.0,
    memory_shared=8.0,
    instructions=replace(ROW.instructions, fma=Instruction(4, 2), load=Instruction(5, 2)),
)
"""Cycles are nanoseconds; short loops do not overlap."""


def nanoseconds(found: Estimate) -> dict[str, float]:
    return {name: round(seconds * 1e9, 3) for name, seconds in found.parts}


def access(array: Any, *indices: Any) -> Access:
    return Access(array, indices, array.shape and tuple(extent.value for extent in array.shape))


@pytest.mark.parametrize(
    "sums, bound, cycles", [(1, "latency of the sum", 4.0), (7, "latency of the sum", 4.0), (9, "fma throughput", 4.5)]
)
def test_few_sums_wait_for_each_other_and_many_for_the_units(sums: int, bound: str, cycles: float) -> None:
    k = Var("k")
    nest = Nest(k, 1000, (Body({"fma": sums, "load": 1}, chain=("fma", 1)),))
    found = estimate(nest, PLAIN)
    assert found.binds == bound and nanoseconds(found) == {"loops": LEAVE, bound: 1000 * (cycles + STEP)}


def test_short_sums_overlap_as_far_as_is_looked_ahead() -> None:
    k, i = Var("k"), Var("i")
    nest = Nest(i, 100, (Nest(k, 4, (Body({"fma": 1, "load": 1}, chain=("fma", 1)),)),))
    assert estimate(nest, replace(PLAIN, window=256)).seconds < estimate(nest, PLAIN).seconds * 0.6


def test_tasks_are_shared_evenly_or_not_and_a_fork_costs() -> None:
    i, j = Var("i"), Var("j")
    body = Nest(j, 1000, (Body({"add": 2}),))
    times = {tasks: nanoseconds(estimate(Nest(i, tasks, (body,), parallel=True), PLAIN)) for tasks in (4, 5, 8)}
    assert times[4]["fork-join"] == 1000 and times[4]["add throughput"] == 1000
    assert times[5]["add throughput"] == times[8]["add throughput"] == 2000, (
        "five tasks take four threads as long as eight"
    )


def test_what_is_read_again_comes_from_the_smallest_cache_that_holds_it() -> None:
    i, j = Var("i"), Var("j")

    def times(elements: int) -> dict[str, float]:
        a = te.placeholder((elements,), name="a")
        vectors = elements // 8
        read = Nest(j, vectors, (Body({"load": 1, "add": 1}, (access(a, j * 8),), ((j, 8),)),))
        return nanoseconds(estimate(Nest(i, 10, (read,)), PLAIN))

    assert not any("bandwidth" in name for name in times(2048))
    assert times(16384)["L2 bandwidth"] == pytest.approx(10 * 65536 / 32)
    large = times(1 << 20)
    assert large["memory bandwidth"] == pytest.approx(10 * (4 << 20) / 4)
    assert large["L2 bandwidth"] == pytest.approx(10 * (4 << 20) / 32)


def test_a_panel_that_stays_is_fetched_once_for_all_rows() -> None:
    i, j, k = Var("i"), Var("j"), Var("k")
    b = te.placeholder((128, 128), name="b")
    body = Body({"load": 1, "fma": 1}, (access(b, k, j),), ((j, 8),))
    inner = Nest(k, 128, (body,))
    by_panels = Nest(j, 16, (Nest(i, 50, (inner,)),))
    by_rows = Nest(i, 50, (Nest(j, 16, (inner,)),))
    panels, rows = (nanoseconds(estimate(nest, PLAIN)) for nest in (by_panels, by_rows))
    assert rows["L2 bandwidth"] == 50 * 65536 / 32, "64 KB do not stay in the first cache"
    assert "L2 bandwidth" not in panels, "a panel does, so that arithmetic hides what it takes to fetch each once"


def test_an_array_that_is_read_in_several_ways_comes_from_memory_once() -> None:
    n, i, j = 1 << 10, Var("i"), Var("j")
    a = te.placeholder((n, n), name="a")
    times: list[float] = []
    for reads in ((access(a, i, j * 8),), (access(a, i, j * 8), access(a, n - 1 - i, j * 8))):
        row = Nest(j, n // 8, (Body({"load": len(reads)}, reads, ((j, 8),)),))
        times.append(nanoseconds(estimate(Nest(i, n, (row,)), PLAIN))["memory bandwidth"])
    assert times == [4 * n * n / 4] * 2


def test_borders_that_are_likely_not_crossed_leave_neighbours_side_by_side() -> None:
    a, i = te.placeholder((100,), name="a"), te.compute((96,), lambda i: i, name="c").op.axis[0]
    mirrored = te.if_then_else(te.likely(i >= 2), i - 2, 2 - i)
    assert contiguous_axes(ProducerLoad(a, (mirrored,))) == {i}
    assert not contiguous_axes(ProducerLoad(a, (te.if_then_else(i >= 2, i - 2, 2 - i),)))
    assert contiguous_axes(ProducerLoad(a, ((i + 1) % 96,))) == {i}, "all vectors but one are whole"
    assert not contiguous_axes(ProducerLoad(a, ((i + 1) % 48,)))
    j = te.compute((96, 3), lambda i, j: a[j] + i, name="b").op.axis[1]
    assert not contiguous_axes(ProducerLoad(a, ((j + 1) % 3,))), "no vector of rows of three is whole"


def test_rows_that_a_box_has_in_whole_are_neighbours() -> None:
    assert line_bytes((5, 3), 4) == 5 * 64 and line_bytes((5, 3), 4, shape=(9, 3)) == 64
    assert line_bytes((2, 5, 3), 4, shape=(7, 9, 3)) == 2 * 64 and line_bytes((2, 9, 3), 4, shape=(7, 9, 3)) == 216


def test_instructions_are_of_whole_vectors_and_what_stays_is_not_counted() -> None:
    a, b = te.placeholder((6, 100), name="a"), te.placeholder((100, 16), name="b")
    i, j, k = Var("i"), Var("j"), Var("k")
    value = a[i, k] * b[k, j] + te.exp(b[k, j])
    counted = count_instructions(
        list_work([value], PLAIN), PLAIN, {i: 6}, {j: 16}, (k,), lambda load: access(load.producer, *load.indices)
    )
    assert counted == {"load": 6 + 2, "mul": 12, "add": 12, "call": 2}, "what occurs twice is computed once"
    still = count_instructions(
        list_work([a[i, 0] * b[0, j]], PLAIN),
        PLAIN,
        {},
        {j: 16},
        (k,),
        lambda load: access(load.producer, *load.indices),
    )
    assert not still, "k changes nothing of it"
    across = count_instructions(
        list_work([b[j, k]], PLAIN), PLAIN, {}, {j: 16}, (k,), lambda load: access(load.producer, *load.indices)
    )
    assert across == {"gather": 2}
    thirds = count_instructions(
        list_work([b[k, j // 3]], PLAIN), PLAIN, {}, {j: 16}, (k,), lambda load: access(load.producer, *load.indices)
    )
    assert thirds == {"load": 2, "shuffle": 2}, "three lanes read one element, and the next three another"
    digits = count_instructions(
        list_work([b[j // 16, j % 16]], PLAIN),
        PLAIN,
        {},
        {j: 16},
        (j,),
        lambda load: access(load.producer, *load.indices),
    )
    assert digits == {"load": 2}, "digits of one place lie side by side"
    alone = count_instructions(
        list_work([b[j // 16, j % 16 + j // 16]], PLAIN),
        PLAIN,
        {},
        {},
        (j,),
        lambda load: access(load.producer, *load.indices),
    )
    assert alone == {"picked": 1, "logic": 8}, "of an element alone each takes instructions, equal ones once"


def test_elements_alone_are_widened_as_they_are_loaded_and_divided_by_a_part_of_a_unit() -> None:
    table, c, k = te.placeholder((256,), name="table"), te.placeholder((64,), "uint8", name="c"), Var("k")
    value = te.sqrt(table[c[k].astype("int32")])

    def count(machine: Machine, lanes: dict[Var, int]) -> dict[str, float]:
        works = list_work([value], machine)
        return count_instructions(works, machine, {}, lanes, (k,), lambda load: access(load.producer, *load.indices))

    wide = replace(PLAIN, vector_bytes=64, table=128)
    assert count(wide, {}) == {"picked": 2, "sqrt": 0.25}
    assert count(wide, {k: 16})["shuffle"] == 1, "of a vector each place is widened"
    bytes_of = te.placeholder((256,), "uint8", name="bytes")
    value = bytes_of[c[k].astype("int32")]
    assert count(wide, {k: 64}) == {"load": 1, "shuffle": 4 + 2, "logic": 2}, "256 bytes in four registers"


def test_terms_that_are_all_written_out_for_one_sum_are_loaded_once() -> None:
    a, I = te.placeholder((5000,), name="a"), te.placeholder((300, 26), "int32", name="I")
    k = te.reduce_axis((0, 26), "k")
    s = te.create_schedule(te.compute((300,), lambda i: te.sum(a[I[i, k]], axis=k), "sums").op)
    s[s.outputs[0]].unroll(k)
    assert estimate_schedule(s, PLAIN).seconds < 300 * 26 * 2 * 1.5e-9


def product(tile: int, vectors: int) -> te.Schedule:
    a, b = te.placeholder((240, 240), name="a"), te.placeholder((240, 240), name="b")
    k = te.reduce_axis((0, 240), "k")
    c = te.compute((240, 240), lambda i, j: te.sum(a[i, k] * b[k, j], axis=k), "c")
    s = te.create_schedule(c.op)
    sums = s.cache_write(c, "local")
    i, j = c.op.axis
    io, ii = s[c].split(i, factor=tile)
    jo, ji = s[c].split(j, factor=8 * vectors)
    s[c].reorder(jo, io, ii, ji)
    s[c].unroll(ii)
    s[c].vectorize(ji)
    s[sums].compute_at(s[c], io)
    s[sums].reorder(s[sums].op.reduce_axis[0], *s[sums].op.axis)
    s[sums].unroll(s[sums].op.axis[0])
    s[sums].vectorize(s[sums].op.axis[1])
    return s


def test_tiles_of_lowered_loops_are_ordered_as_registers_and_units_ask_for() -> None:
    machine = replace(PLAIN, l2=1 << 20)
    times = {tile: estimate_schedule(product(*tile), machine) for tile in ((1, 1), (4, 1), (6, 2), (12, 3))}
    assert times[1, 1].binds == "latency of the sum" and times[6, 2].binds == "fma throughput"
    assert times[6, 2].seconds < times[4, 1].seconds < times[1, 1].seconds
    assert times[12, 3].seconds > times[6, 2].seconds, "36 sums are more than there are registers"
    least = 240**3 / 16 * 1e-9
    assert least < times[6, 2].seconds < 1.5 * least


def test_every_row_of_the_table_estimates() -> None:
    s = product(4, 2)
    times = [estimate_schedule(s, row).seconds for row in MACHINES]
    assert all(1e-6 < seconds < 1e-1 for seconds in times)


@pytest.mark.parametrize(
    "target, has",
    [
        ("llvm -mcpu=znver4", {"fma_rate": 1, "l2": 1 << 20}),
        ("llvm -mcpu=haswell", {"fma_latency": 5, "l2": 256 << 10}),
        ("llvm -mcpu=sapphirerapids", {"l1": 48 << 10, "l2": 2 << 20}),
        ("llvm -mcpu=cascadelake", {"l2": 1 << 20}),
        ("llvm -mcpu=znver4 -mattr=-avx512f", {"name": "avx2", "cpus": ()}),
    ],
)
def test_processors_have_the_row_of_their_design(target: str, has: dict[str, Any]) -> None:
    machine = find_machine(Target.parse(target))
    assert {name: getattr(machine, name) for name in has} == has


def test_levels_are_ordered_and_memory_comes_last() -> None:
    for row in MACHINES:
        sizes, rates = [level.size for level in row.levels], [level.rate for level in row.levels]
        assert sizes == sorted(sizes) and rates == sorted(rates, reverse=True) and row.levels[-1].name == "memory"
        assert isinstance(row, Machine) and row.memory_shared >= row.memory_rate


def test_the_parts_of_an_estimate_are_its_time() -> None:
    found = Estimate((("loads", 2.0), ("fork-join", 3.0)))
    assert (found.seconds, found.binds) == (5.0, "fork-join") and Estimate(()).binds == ""
    assert tw.autoschedule.Estimate is Estimate


def test_sums_that_are_not_in_registers_wait_for_memory() -> None:
    k = Var("k")
    kept, spilled = (
        estimate(Nest(k, 1000, (Body({"fma": 12, "load": 5}, chain=("fma", 1), spilled=times),)), PLAIN).seconds
        for times in (0, 1)
    )
    load, store = PLAIN.instructions.load.latency, PLAIN.instructions.store.latency
    assert (spilled - kept) * 1e9 == pytest.approx(1000 * (load + store))


def test_pages_that_the_core_does_not_know_are_looked_up_each_time() -> None:
    i, j = Var("i"), Var("j")

    def pages(columns: int) -> float:
        a = te.placeholder((200, columns), name="a")
        column = Nest(i, 200, (Body({"load": 1}, (access(a, i, j),)),))
        return nanoseconds(estimate(Nest(j, 10, (column,)), PLAIN)).get("pages", 0.0)

    assert pages(1024) == pytest.approx(10 * 200 * PLAIN.page_miss), (
        "each row is on a page of its own, of more than are known"
    )
    assert not pages(128), "eight rows share a page"


@pytest.mark.parametrize(("rows", "visits"), [(200, 64 * 200), (20, 20 * 4)])
def test_memory_is_read_ahead_in_few_pages_at_once(rows: int, visits: int) -> None:
    i, j = Var("i"), Var("j")
    a = te.placeholder((rows, 64 * 64 * 200 // rows), name="a")
    column = Nest(i, rows, (Body({"load": 4}, (access(a, i, j),), ((j, 64),)),))
    machine = replace(PLAIN, l2=64 << 10)

    def begun(nest: Nest) -> float:
        return nanoseconds(estimate(nest, machine)).get("runs of memory", 0.0)

    assert begun(Nest(j, 64, (column,))) == pytest.approx(visits * BEGUN), "as many rows as that are followed, or none"
    kept = replace(machine, l2=64 << 20)
    assert "runs of memory" not in nanoseconds(estimate(Nest(j, 64, (column,)), kept)), "a cache has all of it"


def test_parts_of_vectors_are_read_in_pieces_unless_there_are_masks() -> None:
    a, j = te.placeholder((4, 16), name="a"), Var("j")
    counts = {}
    for machine in (PLAIN, replace(PLAIN, padded=True)):
        counted = count_instructions(
            list_work([a[0, j]], machine), machine, {}, {j: 15}, (), lambda load: access(load.producer, *load.indices)
        )
        counts[machine.masks] = counted["load"]
    assert counts == {False: 4, True: 2}


def test_small_rows_share_lines_and_pages() -> None:
    assert line_bytes((100, 8), 4, shape=(100, 150), line=4096) == 99 * 600 + 32, "fifteen pages"
    assert line_bytes((100, 8), 4, shape=(100, 2000), line=4096) == 100 * 4096


@pytest.mark.parametrize(
    ("cpu", "adds", "cycles"),
    [("znver3", 2, 1), ("znver4", 2, 2), ("haswell", 1, 1.5), ("skylake", 2, 2), ("sapphirerapids", 2, 2)],
)
def test_classes_with_units_of_their_own_run_beside_the_others(cpu: str, adds: int, cycles: float) -> None:
    machine = replace(next(row for row in MACHINES if cpu in row.cpus), clock=1.0, cores=1)
    found = dict(estimate(Nest(Var("k"), 1000, (Body({"fma": 2, "add": adds}),)), machine).parts)
    assert max(found.values()) * 1e6 == pytest.approx(cycles), (
        "on haswell one of the two units of multiply-adds does additions"
    )


def test_gathers_keep_all_units_from_the_others_and_comparisons_those_that_make_masks() -> None:
    zen4 = replace(next(row for row in MACHINES if "znver4" in row.cpus), clock=1.0, cores=1)

    def cycles(**count: int) -> float:
        return max(seconds for _, seconds in estimate(Nest(Var("k"), 1000, (Body(count),)), zen4).parts) * 1e6

    assert cycles(gather=1, add=4) == pytest.approx(1 / zen4.instructions.gather.rate + 4)
    assert cycles(select=3, fma=3) == cycles(compare=3, add=3) == pytest.approx(3) and cycles(
        compare=3, fma=3
    ) == pytest.approx(6)
    assert cycles(put=8) == pytest.approx(8) and cycles(store=8) == pytest.approx(16), (
        "vectors move by halves, elements do not"
    )
