"""s.explain, s.options, and the costs and steps that the page shows."""

from __future__ import annotations

import warnings
from collections.abc import Callable

import pytest
import tilewright as tw
from tilewright import te
from tilewright.ir.analysis.work import Work, measure_work
from tilewright.ir.text.parser import parse
from tilewright.schedule.model.primitive import primitives
from tilewright.views.steps import Steps, difference


def matmul(n: int = 64) -> te.Schedule:
    A, B = te.placeholder((n, n), name="A"), te.placeholder((n, n), name="B")
    k = te.reduce_axis((0, n), "k")
    return te.create_schedule(te.compute((n, n), lambda i, j: te.sum(A[i, k] * B[k, j], axis=k), name="C"))


def loops(s: te.Schedule, args: list[te.Tensor]) -> dict[str, Work]:
    """The cost of the last loop of each name, and of all under ""."""
    return {
        "" if cost.loop is None else cost.loop.var.name: cost for cost in measure_work(tw.lower(s, args)).all_loops()
    }


# Costs


def test_costs_of_a_matmul_are_what_one_counts_by_hand() -> None:
    s = matmul()
    C = s.outputs[0].output(0)
    cost = loops(s, [*C.op.input_tensors, C])
    assert [cost[name].trips.value for name in "ijk"] == [64, 64, 64]
    assert [cost[name].iterations.value for name in "ijk"] == [64, 64 * 64, 64**3]
    assert cost[""].operations.value == cost["k"].operations.value == 2 * 64**3
    assert cost[""].bytes.value == 3 * 4 * 64 * 64
    assert cost["j"].bytes.value == 4 * (64 + 64 * 64 + 64)  # one run: a row of A, all of B, a row of C
    assert cost["k"].bytes.value == 4 * (64 + 64 + 1)
    assert cost["k"].intensity == pytest.approx(2 * 64 / (4 * 129))


def test_an_explanation_counts_operations_loads_and_stores() -> None:
    s = matmul()
    C = s.outputs[0].output(0)
    found = s.explain(C)
    sums, elements = 64**3, 64**2
    assert (found.operations.value, found.loads.value) == (2 * sums, 3 * sums)
    assert found.stores.value == sums + elements, "and the zeros that they begin with"
    assert f"  work: {2 * sums:,} operations, {3 * sums:,} loads, {sums + elements:,} stores" in str(found).splitlines()


def test_costs_in_symbols_are_sums_of_products() -> None:
    n, m = te.var("n"), te.var("m")
    A = te.placeholder((n, m), name="A")
    k = te.reduce_axis((0, m), "k")
    B = te.compute((n,), lambda i: te.sum(A[i, k], axis=k), name="B")
    cost = loops(te.create_schedule(B), [A, B])
    assert str(cost[""].operations) == "m·n" and str(cost[""].bytes) == "4·m·n + 4·n"
    assert str(cost["k"].bytes) == "4·m + 4" and cost["k"].intensity is None
    assert str(cost["i"].iterations) == "n"


def test_overlapping_reads_count_once_and_tails_are_bounds() -> None:
    A = te.placeholder((100,), name="A")
    B = te.compute((98,), lambda i: A[i] + A[i + 1] + A[i + 2], name="B")
    s = te.create_schedule(B)
    outer, _ = s[B].split(B.op.axis[0], 32)
    cost = loops(s, [A, B])
    assert cost["i.inner"].bytes.value == 4 * (34 + 32)
    assert cost[""].bytes.value == 4 * (100 + 98)
    assert str(cost["i.inner"].operations) == "≤ 256" and cost[outer.name].trips.value == 4


def test_triangular_loops_and_data_indices_are_bounded() -> None:
    A, I = te.placeholder((20, 30), name="A"), te.placeholder((20,), "int32", name="I")
    B = te.compute((20, 20), lambda i, j: A[I[i], j] * 2, name="B")
    cost = loops(te.create_schedule(B), [A, I, B])
    assert cost["j"].bytes.value == 4 * (20 + 1 + 20)  # one row of A, whichever, an index, a row of B
    assert str(cost[""].bytes) == "≤ 3,280"  # 20 rows, if the indices all differ
    triangle = parse(
        "def f(A: float32[10, 10], B: out float32[10, 10]):\n    for i in 10:\n        for j in i + 1:\n"
        "            B[i, j] = A[i, j] + 1.0"
    )
    inner = measure_work(triangle).all_loops()[-1]
    assert (str(inner.trips), str(inner.operations), str(inner.bytes)) == ("≤ 10", "≤ 100", "≤ 80")


# explain


def blur(at: int) -> tuple[te.Schedule, te.Tensor, te.Tensor]:
    A = te.placeholder((34, 64), name="A")
    X = te.compute((34, 64), lambda i, j: A[i, j] * 2, name="X")
    Y = te.compute((32, 64), lambda i, j: X[i, j] + X[i + 1, j] + X[i + 2, j], name="Y")
    s = te.create_schedule(Y)
    s[X].compute_at(s[Y], s[Y].split(Y.op.axis[0], at)[0])
    return s, X, Y


def test_explain_tells_regions_recomputation_storage_and_footprints() -> None:
    s, X, _ = blur(8)
    found = s.explain(X)
    assert [str(region) for region in found.regions] == ["i: 10 of 34, from i.outer * 8", "j: all 64"]
    assert found.runs.value == 4 and found.elements.value == 4 * 10 * 64 and found.domain.value == 34 * 64
    assert found.recompute == pytest.approx(40 / 34)
    assert found.storage is not None and found.storage.value == 10 * 64 * 4 and found.scope == "global"
    assert [(level.loop.strip(), level.stage, level.touched.value, level.own.value) for level in found.levels] == [
        ("for i.outer in 4", "Y", 4 * (34 * 64 + 10 * 64 + 32 * 64), 2560),
        ("for i in 10", "X", 2 * 2560, 2560),
        ("for j in 64", "X", 512, 256),
    ]
    assert found.warnings == []
    text = str(found)
    assert (
        "stage X: computed at 'i.outer' of Y" in text
        and "recompute factor: 1.18 (2,560 elements computed, 2,176 in X)" in text
    )


def test_overlapping_regions_that_blow_up_are_warned_of() -> None:
    s, X, _ = blur(1)
    (warning,) = s.explain(s[X]).warnings
    assert warning.startswith("every element of X is computed 2.82 times: the regions of different iterations overlap")


def test_loops_that_repeat_a_region_are_named_with_where_to_compute_it_instead() -> None:
    A = te.placeholder((16, 16), name="A")
    B = te.compute((16, 16), lambda i, j: te.exp(A[i, j]), name="B")
    C = te.compute((16, 5, 16), lambda i, c, j: B[i, j] + c, name="C")
    s = te.create_schedule(C)
    i, c, j = C.op.axis
    s[B].compute_at(s[C], c)
    assert s.explain(B).warnings == [
        "every element of B is computed 5 times: 'c' does not change its region, so each iteration computes it anew; "
        "s[B].compute_at(s[C], i) would not"
    ]
    s[B].compute_at(s[C], i)
    assert s.explain(B).warnings == [] and s.explain(B).recompute == 1
    s[C].reorder(c, i, j)
    assert "move c inside the loop that B is computed at (reorder)" in s.explain(B).warnings[0]


def test_inlined_stages_count_their_evaluations() -> None:
    A = te.placeholder((16,), name="A")
    B = te.compute((16,), lambda i: te.exp(A[i]), name="B")
    k = te.reduce_axis((0, 16), "k")
    C = te.compute((16,), lambda i: te.sum(B[k] * B[i], axis=k), name="C")
    s = te.create_schedule(C)
    s[B].compute_inline()
    found = s.explain(B)
    assert found.elements.value == 2 * 256 and found.recompute == 32
    assert "computed 32 times, once for each read" in found.warnings[0]


def test_threads_that_share_a_region_do_not_recompute_it() -> None:
    A = te.placeholder((256,), name="A")
    B = te.compute((256,), lambda i: A[i] + 1, name="B")
    s = te.create_schedule(B)
    outer, inner = s[B].split(B.op.axis[0], 64)
    s[B].bind(outer, te.thread_axis("blockIdx.x"))
    s[B].bind(inner, te.thread_axis("threadIdx.x"))
    shared = s.cache_read(A, "shared", [B])
    s[shared].compute_at(s[B], inner)
    found = s.explain(shared)
    assert found.recompute == 1 and found.runs.value == 4 and found.scope == "shared" and found.warnings == []


def test_explain_of_what_is_passed_of_symbols_and_of_an_unfinished_schedule() -> None:
    s, X, Y = blur(8)
    assert "passed by the caller" in str(s.explain(X.op.input_tensors[0]))
    assert "an output" in str(s.explain(Y)) and s.explain(Y).storage is None
    n = te.var("n")
    A = te.placeholder((n,), name="A")
    P = te.compute((n,), lambda i: A[i] + 1, name="P")
    Q = te.compute((n,), lambda i: P[i] + 1, name="Q")
    s = te.create_schedule(Q)
    s[P].compute_at(s[Q], s[Q].split(Q.op.axis[0], 8)[0])
    assert "i: 8 of n, from i.outer * 8" in str(s.explain(P)) and s.explain(P).storage.value == 32
    R = te.compute((n,), lambda i: P[i] + Q[i], name="R")
    s = te.create_schedule(R)
    s[P].compute_at(s[Q], Q.op.axis[0])
    with pytest.raises(tw.LoweringError, match="R reads P too"):
        s.explain(P)


# options


def test_options_are_what_the_primitives_themselves_say() -> None:
    s = matmul()
    C = s.outputs[0]
    found = s.options(C)
    before = str(s), s.records
    legal = {(one.primitive, one.arguments) for one in found.legal}
    assert {
        ("split", "k"),
        ("vectorize", "j"),
        ("parallel", "i"),
        ("rfactor", "k"),
        ("cache_write", ""),
        ("fuse", "i, j"),
    } <= legal
    refused = {(one.primitive, one.arguments): one.error for one in found.refused}
    for primitive, code in (("vectorize", "TW0203"), ("parallel", "TW0204")):
        error = refused[primitive, "k"]
        assert error is not None and error.code == code
        with pytest.raises(tw.ScheduleError, match=code):
            getattr(s[C], primitive)(C.reduce_axis[0])
    assert "an output" in found.reason("compute_inline") and found.reason("split", "k") == ""
    assert (str(s), s.records) == before


def raised(action: Callable[[], object]) -> tw.TilewrightError | None:
    try:
        action()
    except tw.TilewrightError as error:
        return error
    return None


def test_every_option_that_is_called_legal_can_be_taken_and_the_others_cannot() -> None:
    s, X, Y = blur(8)
    s[Y].vectorize(Y.op.axis[1])
    args = [X.op.input_tensors[0], Y]
    for stage in s.stages:
        tried = {
            (option.primitive, option.arguments): option
            for option in s.options(stage, "llvm -mtriple=x86_64-linux-gnu").tried
        }
        # What x86-64 has none of.
        assert not [shown for name, shown in tried if name == "bind" or "cuda." in shown or "arm." in shown]
        tried |= {(option.primitive, option.arguments): option for option in s.options(stage, "cuda").tried}
        for primitive, row in primitives().items():
            for shown, call in row.tries(stage):
                option = tried.get((primitive, shown))
                if option is None:
                    assert "x86." in shown or "arm." in shown
                    continue
                copy = s.copy()
                if option.is_legal:
                    call(copy.stages[s.find_place(stage)])
                    assert str(copy).startswith("def Y("), (primitive, shown)
                else:
                    error = raised(
                        lambda call=call, copy=copy: (call(copy.stages[s.find_place(stage)]), tw.lower(copy, args))
                    )
                    assert error is not None and option.error is not None and error.code == option.error.code


def test_what_only_the_whole_schedule_decides_is_looked_at_too() -> None:
    A = te.placeholder((8,), name="A")
    B = te.compute((8,), lambda i: A[i] + 1, name="B")
    C = te.compute((8,), lambda i: B[i] * 2, name="C")
    D = te.compute((8,), lambda i: B[i] + C[i], name="D")
    s = te.create_schedule(D)
    found = s.options(B)
    assert found.holds and "D reads B too" in found.reason("compute_at", "C, i")
    assert ("compute_at", "D, i") not in {(one.primitive, one.arguments) for one in found.legal}
    s[B].compute_at(s[C], C.op.axis[0])
    unfinished = s.options(C)
    assert not unfinished.holds and "does not hold together" in str(unfinished)


def test_the_text_joins_what_shares_a_reason() -> None:
    s = matmul()
    C = s.outputs[0]
    s[C].parallel(C.axis[0])
    lines = str(s.options(C)).splitlines()
    assert lines[0] == "stage C can take" and "and not" in lines
    assert next(line for line in lines if line.split()[0] == "vectorize") == f"  {'vectorize':<19}  i; j"
    assert any(
        line.split()[0] == "set_scope" and "local: C is an output" in line for line in lines[lines.index("and not") :]
    )


def test_lanes_that_lie_apart_are_told_of() -> None:
    A = te.placeholder((64, 48), name="A")
    B = te.compute((64, 48), lambda i, j: A[i, j] + 1, name="B")

    def vectorized(along: int) -> te.Schedule:
        s = te.create_schedule(B.op)
        loop = s[B].split(s[B].op.axis[along], factor=16)[1]
        s[B].reorder(*(leaf for leaf in s[B].leaf_iter_vars if leaf is not loop), loop)
        s[B].vectorize(loop)
        return s

    told = "lanes of i.inner store elements of B that lie 48 apart"
    assert vectorized(0).explain(B).warnings == [f"{told}, one by one"]
    with pytest.warns(tw.PerformanceWarning, match=told) as caught:
        tw.build(vectorized(0), [A, B], name="apart")
    assert [each.filename for each in caught] == [__file__]
    assert vectorized(1).explain(B).warnings == []
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        tw.build(vectorized(1), [A, B], name="beside")


# steps


def test_steps_know_the_records_about_a_loop() -> None:
    s = matmul()
    C = s.outputs[0]
    _, _, _, yi = s[C].tile(*C.axis, 8, 16)
    s[C].split(C.reduce_axis[0], 4)
    s[C].vectorize(yi)
    steps = Steps(s)
    stage = steps.schedule[C]
    assert [step.code[-1].split(" = ")[-1].split("(")[0] for step in steps.steps] == [
        "s[C].tile",
        "s[C].split",
        "s[C].vectorize",
    ]
    assert steps.about(stage, stage.leaf_iter_vars[3]) == ([1, 3], [])
    assert steps.about(stage, stage.leaf_iter_vars[-1]) == ([2], [])
    inner, _ = s[C].split(s[C].leaf_iter_vars[0], 2)
    steps = Steps(s)
    stage = steps.schedule[C]
    assert inner.name == stage.leaf_iter_vars[0].name and steps.about(stage, stage.leaf_iter_vars[0]) == ([4], [1])
    assert str(steps.schedule) == str(s) and steps.steps[-1].text == str(s)


def test_differences_leave_out_what_is_far_from_a_change() -> None:
    before = "\n".join(str(at) for at in range(20))
    after = before.replace("10", "ten")
    assert difference(before, after, 2) == [
        ("@", "8 lines stay as they are"),
        (" ", "8"),
        (" ", "9"),
        ("-", "10"),
        ("+", "ten"),
        (" ", "11"),
        (" ", "12"),
        ("@", "7 lines stay as they are"),
    ]
    assert difference("a\nb\nc", "a\nb\nc", 2) == [("@", "3 lines stay as they are")]
    assert [sign for sign, _ in difference(before, before)] == [" "] * 20
