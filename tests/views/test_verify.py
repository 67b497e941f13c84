"""s.verify(): schedules that hold, and schedules and compilers that do not."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import drawn
import numpy as np
import pytest
import tilewright as tw
from tilewright import te
from tilewright.te.operation import producers_first
from tilewright.te.shrink import iterations, shrunk
from tilewright.tools.fuzz.case import draw_case
from tilewright.tools.fuzz.choices import case_choices
from tilewright.tools.fuzz.control import draw_hybrid, draw_scan
from tilewright.tools.fuzz.derivatives import draw_gradient
from tilewright.tools.fuzz.extern_stages import draw_extern
from tilewright.tools.fuzz.programs import draw_program
from tilewright.tools.fuzz.schedules import draw_schedule
from tilewright.views.report import page


def matmul(n: int = 512, m: int = 512, k: int = 512) -> te.Schedule:
    A, B = te.placeholder((n, k), name="A"), te.placeholder((k, m), name="B")
    r = te.reduce_axis((0, k), "k")
    C = te.compute((n, m), lambda i, j: te.sum(A[i, r] * B[r, j], axis=r), name="C")
    s = te.create_schedule(C)
    cached = s.cache_write(C, "local")
    xo, yo, _, yi = s[C].tile(*s[C].op.axis, 16, 16)
    s[cached].compute_at(s[C], yo)
    ko, ki = s[cached].split(s[cached].op.reduce_axis[0], 8)
    s[cached].reorder(ko, s[cached].op.axis[0], ki, s[cached].op.axis[1])
    s[cached].vectorize(s[cached].op.axis[1])
    s[C].vectorize(yi)
    s[C].parallel(xo)
    return s


def padded_conv() -> te.Schedule:
    A, W = te.placeholder((3, 34, 41), name="A"), te.placeholder((8, 3, 3, 3), name="W")
    P = te.compute(
        (3, 36, 43),
        lambda c, y, x: te.if_then_else(
            te.all(y >= 1, y < 35, x >= 1, x < 42), A[c, y - 1, x - 1], te.const(0, "float32")
        ),
        name="P",
    )
    c, u, v = (te.reduce_axis((0, 3), name) for name in "cuv")
    C = te.compute((8, 34, 41), lambda o, y, x: te.sum(P[c, y + u, x + v] * W[o, c, u, v], axis=[c, u, v]), name="C")
    R = te.compute(C.shape, lambda *i: te.max(C(*i), te.const(0, "float32")), name="R")
    s = te.create_schedule(R)
    yo, _ = s[R].split(R.op.axis[1], 8)
    xo, xi = s[R].split(R.op.axis[2], 16)
    s[R].reorder(yo, R.op.axis[0], xo)
    s[R].vectorize(xi)
    s[C].compute_at(s[R], xo)
    s[P].compute_at(s[R], yo)
    return s


def factored_sum() -> te.Schedule:
    n, m = te.var("n"), te.var("m")
    A = te.placeholder((n, m), "int32", name="A")
    k = te.reduce_axis((0, m), "k")
    B = te.compute((n,), lambda i: te.sum(A[i, k], axis=k), name="B")
    s = te.create_schedule(B)
    _, inner = s[B].split(k, 4)
    s.rfactor(B, inner)
    s[B].parallel(s[B].op.axis[0])
    return s


def gather() -> te.Schedule:
    T, I = te.placeholder((500, 400), name="T"), te.placeholder((3000,), "int64", name="I")
    G = te.compute((3000, 400), lambda i, j: te.log(T[I[i], j]), name="G")
    s = te.create_schedule(G)
    s[G].vectorize(s[G].split(G.op.axis[1], 16)[1])
    return s


def argmax() -> te.Schedule:
    A = te.placeholder((300, 300), "float16", name="A")
    k = te.reduce_axis((0, 300), "k")
    both = te.comm_reducer(
        lambda a, b: (te.select(a[1] >= b[1], a[0], b[0]), te.select(a[1] >= b[1], a[1], b[1])),
        lambda i, v: (te.const(-1, i), te.min_value(v)),
        name="argmax",
    )
    at, best = te.compute((300,), lambda i: both((k.astype("int32"), A[i, k]), axis=k), name="M")
    s = te.create_schedule(at)
    s[at].split(k, 7)
    s[best].parallel(s[at].op.axis[0])
    return s


def on_threads() -> te.Schedule:
    A = te.placeholder((1000,), name="A")
    B = te.compute((1000,), lambda i: A[i] * 2, name="B")
    s = te.create_schedule(B)
    outer, inner = s[B].split(B.op.axis[0], 64)
    s[B].bind(outer, te.thread_axis("blockIdx.x"))
    s[B].bind(inner, te.thread_axis((0, 64), "threadIdx.x"))
    shared = s.cache_read(A, "shared", [B])
    s[shared].compute_at(s[B], outer)
    s[shared].bind(s[shared].split(s[shared].op.axis[0], 64)[1], te.thread_axis((0, 64), "threadIdx.x"))
    return s


@pytest.mark.parametrize("program", drawn.part([matmul, padded_conv, factored_sum, gather, argmax, on_threads], 4))
def test_schedules_that_hold_are_found_to_by_both(program: Callable[[], te.Schedule]) -> None:
    report = program().verify()
    assert {check.by for check in report.checks} == {"interpreter", "native code"} and not report.left_out
    assert all(check.elements > 0 for check in report.checks)
    assert str(report).startswith(f"the schedule of {report.name} holds (seed 0)")


def test_large_programs_are_cut_down_to_sizes_that_divide_and_sizes_that_do_not() -> None:
    interpreted = [check.sizes for check in matmul().verify().checks if check.by == "interpreter"]
    assert interpreted == ["C[32, 32]", "C[53, 47]"]


def test_a_difference_names_the_element_the_values_the_seed_and_the_primitive() -> None:
    s = matmul()
    C = s.outputs[0]
    s[C].set_store_predicate(s[C].op.axis[1] != 20)
    s[C].unroll(s[C].leaf_iter_vars[2])
    with pytest.raises(tw.ScheduleError, match="TW0258") as caught:
        s.verify(seed=7)
    text = str(caught.value)
    assert "the schedule changes C[0, 20]: expected" in text and ", got nan" in text
    assert "32 of 1024 elements of C[32, 32] differ" in text
    assert "by interpreter, inputs drawn with seed 7; they do since s[C].set_store_predicate(" in text
    assert "test_verify.py" in text and "s[C].set_store_predicate(s[C].op.axis[1] != 20)" in text


def test_what_only_shows_at_the_real_size_is_found_by_native_code() -> None:
    s = matmul(128, 128, 128)
    C = s.outputs[0]
    s[C].set_store_predicate(s[C].op.axis[0] < 127)
    with pytest.raises(tw.ScheduleError, match=r"changes C\[127, 0\].*\n.*128 of 16384 elements .* by native code"):
        s.verify()


def test_the_seed_decides_what_is_drawn() -> None:
    A = te.placeholder((5,), name="A")
    B = te.compute((5,), lambda i: A[i], name="B")

    def got(seed: int) -> str:
        s = te.create_schedule(B)
        s[B].set_store_predicate(B.op.axis[0] != 1)
        with pytest.raises(tw.ScheduleError, match="TW0258") as caught:
            s.verify(seed=seed)
        return str(caught.value).split("expected ")[1].split(",")[0]

    assert got(1) == got(1)
    assert len({got(seed) for seed in range(6)}) > 2


def test_a_dropped_guard_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    s = matmul(50, 53, 47)
    s.verify()
    monkeypatch.setattr("tilewright.schedule.lowering.predicates._divides", lambda *_: True)
    with pytest.raises(tw.LoweringError, match=r"TW0303: scheduled accesses .* out of bounds"):
        s.verify()


def test_a_wrong_rewrite_below_the_schedule_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    import tilewright.codegen.llvm.pipeline as pipeline
    from tilewright.ir.stmt import BufferStore
    from tilewright.ir.visit import rewrite

    def shifted(function, right=pipeline.flatten):
        flat = right(function)
        if function.name == "plain":
            return flat
        return flat.with_body(
            rewrite(
                flat.body,
                lambda node: (
                    BufferStore(node.buffer, node.value * 2, node.indices)
                    if isinstance(node, BufferStore) and node.buffer.name == "C"
                    else None
                ),
            )
        )

    monkeypatch.setattr(pipeline, "flatten", shifted)
    with pytest.raises(tw.ScheduleError, match=r"TW0258: the schedule changes C\[.*\n.* by native code"):
        matmul(64, 64, 64).verify()


def test_symbols_are_drawn_or_taken_as_given() -> None:
    drawn = factored_sum().verify()
    assert {check.sizes for check in drawn.checks} == {
        "B[13], n = 13, m = 11",
        "B[1], n = 1, m = 1",
        "B[32769], n = 32769, m = 11",
        "B[65537], n = 65537, m = 11",
    }
    n = te.var("n")
    A = te.placeholder((n, 3), name="A")
    B = te.compute((n, 3), lambda i, j: A[i, j] + 1, name="B")
    s = te.create_schedule(B)
    s[B].split(B.op.axis[0], 4)
    assert [check.sizes for check in s.verify({n: 6}).checks] == ["B[6, 3], n = 6"] * 2
    assert [check.elements for check in s.verify([{"n": 0}, {"n": 5}]).checks] == [0, 0, 15, 15]


@pytest.mark.parametrize(
    ("shapes", "reason"),
    [
        ({"m": 3, "n": 4}, "it has no symbol m"),
        ({}, "nothing is said of n"),
        ([{"n": 4}, {}], "nothing is said of n"),
    ],
)
def test_shapes_that_do_not_fit_are_refused(shapes: object, reason: str) -> None:
    n = te.var("n")
    A = te.placeholder((n,), name="A")
    s = te.create_schedule(te.compute((n,), lambda i: A[i], name="B"))
    with pytest.raises(tw.ScheduleError, match=rf"TW0259.*\n  {reason}(.*\n)*.*a number for each symbol: n"):
        s.verify(shapes)


def test_a_layout_of_arguments_that_was_changed_cannot_be_compared() -> None:
    A = te.placeholder((8, 6), name="A")
    B = te.compute((8, 6), lambda i, j: A[i, j], name="B")
    s = te.create_schedule(B)
    s[B].transform_layout(lambda i, j: [j, i])
    with pytest.raises(tw.ScheduleError, match=r"TW0259.*\n.*B: float32\[6, 8\] instead of"):
        s.verify()


def test_a_tail_that_was_vouched_for_is_not_cut_down() -> None:
    A = te.placeholder((4096, 64), name="A")
    B = te.compute((4096, 64), lambda i, j: A[i, j] + 1, name="B")
    s = te.create_schedule(B)
    s[B].split(B.op.axis[0], 128, disable_predication=True)
    report = s.verify()
    assert [check.sizes for check in report.checks] == ["B[4096, 64]"]
    assert report.left_out == ["the interpreter: the program is too large, and cannot be cut down with this schedule"]


def test_verifying_leaves_the_schedule_as_it_was() -> None:
    s = matmul()
    before = str(s), s.records
    s.verify()
    assert (str(s), s.records) == before


def test_drawn_schedules_hold_and_can_be_looked_at() -> None:
    """What the fuzzer's programs are under its schedules, verified, explained and shown."""
    count, held = drawn.count(4, 300), 0
    for case in range(count):
        numbers, choices, _ = draw_case(drawn.SEED, case, "llvm")
        program = draw_program(numbers)
        s = te.create_schedule(program.outputs)
        draw_schedule(choices, s, text=False)
        text = page(s)
        if "not whole yet" in text:
            continue
        report = s.verify(seed=case)
        assert report.checks, (case, report)
        assert all(str(s.explain(stage)).startswith(f"stage {stage.name}: ") for stage in s.stages)
        held += 1
    assert held * 4 >= count


# Symbols


def last_of_all(n: Any, m: Any) -> te.Schedule:
    """The last elements of a tensor that is as long as a product."""
    A = te.placeholder((n * m,), name="A")
    B = te.compute((9,), lambda i: A[n * m - 1 - i] * 2, name="B")
    s = te.create_schedule(B)
    s[B].vectorize(s[B].split(B.op.axis[0], 4)[1])
    return s


def test_symbols_are_large_where_little_is_read() -> None:
    """On memory that nobody has: 17 GB of which nine elements are drawn."""
    report = last_of_all(te.size_var("n"), te.size_var("m")).verify()
    sizes = [check.sizes for check in report.checks]
    assert [f"B[9], n = {n}, m = {n}" in sizes for n in (32769, 65537)] == [True, False]
    assert "B[9], n = 65537, m = 11" in sizes
    text = str(report)
    assert "not tried: n = 1, m = 1: " in text and "B reads outside A" in text
    assert "not tried: n = 1073741823, m = 1073741823: 4,611,686,009,837,453,352 bytes" in text


def test_a_fault_at_large_sizes_is_found() -> None:
    n = te.size_var("n")
    s = last_of_all(n, n)
    B = s.outputs[0]
    s[B].set_store_predicate(n < 40000)
    s.verify(shapes={n: 39999})
    s = last_of_all(n, te.const(1))
    B = s.outputs[0]
    s[B].set_store_predicate(n < 40000)
    with pytest.raises(tw.ScheduleError, match=r"TW0258.*\n.*9 of 9 elements of B\[9\].*n = 65537"):
        s.verify()
    report = last_of_all(te.var("n", "int64"), te.const(1)).verify()
    assert [check.sizes for check in report.checks if check.by == "native code"][-1] == "B[9], n = 2147483649"


def test_what_is_too_much_work_at_large_sizes_is_told() -> None:
    report = factored_sum().verify()
    assert [line.split(": ")[0] for line in report.not_tried] == ["n = 1073741823, m = 1073741823"]
    assert "n = 32769, m = 11" in str(report.checks)


# Cutting down


def test_only_axes_become_shorter_and_reads_stay_in_shape() -> None:
    C = padded_conv().outputs[0]
    (small,) = shrunk([C], lambda number, extent: min(extent, 5 + number)) or [C]
    assert [int(extent) for extent in small.output_shape] == [5, 6, 7]
    conv = small.input_tensors[0].op
    padded, weights = (tensor.op for tensor in conv.input_tensors)
    assert [axis.dom.extent.value for axis in conv.reduce_axis] == [3, 3, 3]
    assert [extent.value for extent in padded.output_shape] == [3, 8, 9]
    assert [extent.value for extent in weights.output_shape] == [5, 3, 3, 3]
    assert [extent.value for extent in padded.input_tensors[0].shape] == [3, 7, 8]
    assert iterations([small], {}) == 5 * 6 * 7 * 27 + 3 * 8 * 9 + 5 * 6 * 7


def test_a_cut_program_computes_the_corner_of_the_whole() -> None:
    A = te.placeholder((20, 30), name="A")
    B = te.compute((30, 20), lambda i, j: A[j, i] * 2, name="B")
    C = te.compute((15, 20), lambda i, j: B[i * 2, j] + B[i * 2 + 1, j], name="C")
    (small,) = shrunk([C.op], lambda number, extent: 4) or [C.op]
    source = small.input_tensors[0].op.input_tensors[0]
    assert [extent.value for extent in source.shape] == [4, 8]
    whole, part = np.empty((15, 20), "float32"), np.empty((4, 4), "float32")
    a = np.random.default_rng(0).random((20, 30), "float32")
    tw.build([A, C])(a, whole)
    tw.build([source, small.output(0)])(np.ascontiguousarray(a[:4, :8]), part)
    np.testing.assert_array_equal(part, whole[:4, :4])


def test_triangular_loops_and_indices_that_are_data_keep_what_they_need() -> None:
    A, I = te.placeholder((50, 50), name="A"), te.placeholder((50,), "int32", name="I")
    k = te.reduce_axis((0, 50), "k")
    B = te.compute(
        (50,), lambda i: te.sum(te.if_then_else(k <= i, A[I[i], k], te.const(0, "float32")), axis=k), name="B"
    )
    (small,) = shrunk([B.op], lambda number, extent: 6) or [B.op]
    shapes = {tensor.name: [extent.value for extent in tensor.shape] for tensor in small.input_tensors}
    assert shapes == {"A": [50, 6], "I": [6]}


def recurrence(time: int, width: int, back: bool = False) -> tuple[te.Tensor, te.Tensor, te.Tensor]:
    """(X, update, S): each step adds what the one before had, back to front or not."""
    X, state = te.placeholder((time, width), name="X"), te.placeholder((time, width), name="state")
    init = te.compute((1, width), lambda _, i: X[0, i], name="init")
    half = te.compute((time, width), lambda t, i: state[t - 1, width - 1 - i if back else i] * 0.5, name="half")
    update = te.compute((time, width), lambda t, i: half[t, i] + X[t, i], name="update")
    return X, update, te.scan(init, update, state, inputs=[X], name="S")


def test_a_scan_takes_fewer_steps_of_fewer_elements() -> None:
    _, _, S = recurrence(1000, 2000)
    R = te.compute((500, 2000), lambda t, i: S[t * 2, i] + 1, name="R")
    (small,) = shrunk([R.op], lambda number, extent: 5 + number) or [R.op]
    (states,) = small.input_tensors
    assert [int(extent) for extent in (*small.output_shape, *states.shape)] == [5, 6, 9, 6]
    assert states.op.axis[0].dom.extent.value == 8
    x = np.random.default_rng(0).random((9, 6), "float32")
    part, whole = np.empty((5, 6), "float32"), np.zeros((9, 6), "float32")
    (source,) = (op.output(0) for op in producers_first([small]) if op.name == "X")
    tw.build([source, small.output(0)])(x, part)
    for t in range(9):
        whole[t] = whole[t - 1] * np.float32(0.5) + x[t] if t else x[0]
    np.testing.assert_allclose(part, whole[::2] + 1, rtol=1e-6)
    _, _, S = recurrence(1000, 2000, back=True)
    (small,) = shrunk([S.op], lambda number, extent: 5) or [S.op]
    assert [int(extent) for extent in small.output_shape] == [5, 2000], "each step reads the last elements first"


def test_a_script_reaches_as_far_as_its_loops() -> None:
    @te.hybrid.script
    def sums(a, b):  # type: ignore[no-untyped-def]
        c = output_tensor((a.shape[0], b.shape[0]), a.dtype)  # type: ignore[name-defined]  # noqa: F821
        for i in range(a.shape[0]):
            for j in range(b.shape[0] - 1):
                c[i, j + 1] = c[i, j] + a[i] * b[j + 1]
        return c

    a, b = te.placeholder((900,), name="a"), te.placeholder((800,), name="b")
    twice = te.compute((900,), lambda i: a[i] * 2, name="twice")
    (small,) = shrunk([sums(twice, b).op], lambda number, extent: 6 + number) or [a.op]
    assert [int(extent) for extent in small.output_shape] == [6, 8]
    assert [[int(extent) for extent in tensor.shape] for tensor in small.input_tensors] == [[6], [8]]
    part, x, y = np.empty((6, 8), "float32"), np.arange(6, dtype="float32"), np.arange(8, dtype="float32")
    (source,) = small.input_tensors[0].op.input_tensors
    tw.build([source, small.input_tensors[1], small.output(0)])(x, y, part)
    np.testing.assert_array_equal(part, 2 * np.outer(x, np.cumsum(y)))


def large_programs() -> dict[str, Any]:
    """Programs that are too large for the interpreter, each with a schedule."""
    X, update, S = recurrence(900, 1000)
    scan = te.create_schedule(S.op)
    scan[update].vectorize(scan[update].split(update.op.axis[1], 16)[1])

    def turned(ins: Any, outs: Any) -> Any:
        ib = tw.ir_builder()
        with ib.for_range(0, 64, "i") as i, ib.for_range(0, 48, "j") as j:
            ib.emit(outs[0].vstore([i, j], ins[0].vload([63 - i, j])))
        return ib.get()

    A, W, k = te.placeholder((64, 48), name="A"), te.placeholder((48, 3000), name="W"), te.reduce_axis((0, 48), "k")
    E = te.extern((64, 48), [te.compute((64, 48), lambda i, j: A[i, j] + 1, name="B")], turned, name="E")
    C = te.compute((64, 3000), lambda i, j: te.sum(E[i, k] * W[k, j], axis=k), name="C")
    extern = te.create_schedule(C.op)
    extern[C].vectorize(extern[C].split(C.op.axis[1], 16)[1])
    table, at, head = (
        te.placeholder((500, 64), name="T"),
        te.placeholder((3000,), "int32", name="I"),
        te.placeholder((3000, 64), name="H"),
    )
    read = te.compute((3000, 64), lambda i, j: table[at[i], j], name="read")
    (scattered,) = te.gradient(read, [table], head)
    return {"scan": scan, "extern": extern, "scatter": te.create_schedule(scattered.op)}


@pytest.mark.parametrize("name", ["scan", "extern", "scatter"])
def test_programs_of_every_kind_are_cut_down(name: str) -> None:
    report = large_programs()[name].verify()
    assert [check.by for check in report.checks][:2] == ["interpreter"] * 2 and not report.left_out, report


def test_a_wrong_schedule_of_a_large_scan_is_told() -> None:
    """Steps of threads that leave some elements to nobody, by a predicate."""
    _, update, S = recurrence(900, 1000)
    s = te.create_schedule(S.op)
    s[update].set_store_predicate(update.op.axis[1] != 1)
    with pytest.raises(tw.TilewrightError, match=r"update|S\["):
        s.verify()


def test_drawn_programs_stay_whole_when_they_are_cut_down() -> None:
    """By the interpreter, which finds reads out of shape and elements that nobody writes."""
    kinds = (draw_scan, draw_hybrid, draw_extern, draw_gradient)
    for case in range(drawn.count(4, 100)):
        for draw in kinds:
            choices = case_choices(drawn.SEED, case, 300)
            with np.errstate(all="ignore"):
                outputs = draw(choices).outputs
            small = shrunk(outputs, lambda number, extent: min(extent, 2 + number % 3))
            assert small is not None
            assert te.create_schedule(small).verify(seed=case).checks, (draw.__name__, case)
