"""te.scan: recurrences, of one state and of several, and what schedules do to the stages of a step."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import tilewright as tw
from tilewright import te
from tilewright.ir.interpret.interpreter import run as interpret
from tilewright.ir.verify import verify
from tilewright.schedule.errors import AnnotationWouldBeLost, BadCacheWrite, BadEnvThreads, CannotInline, ScanLoopsStay
from tilewright.schedule.lowering.errors import ConsumerOutsideAttach, OutsideOfScan, PartOfScan, ReadsOtherSteps
from tilewright.te import errors as te_errors

BOTH = ("llvm", "interpret")


def agree(
    s: Any, args: list[Any], inputs: list[Any], wanted: list[np.ndarray], targets: tuple[str, ...] = BOTH
) -> None:
    """Every target computes `wanted` into the last arguments."""
    for target in targets:
        made = [np.full(one.shape, 77, one.dtype) for one in wanted]
        tw.build(s, args, target=target)(*inputs, *made)
        for got, one in zip(made, wanted, strict=True):
            np.testing.assert_allclose(got, one, rtol=1e-4, atol=1e-6, err_msg=target)


def same_again(s: Any, op: Any) -> None:
    """Replayed, and written as code, it is the same schedule."""
    assert str(te.Schedule.replay(s.records, op)) == str(s)
    space = {"te": te, "ops": op}
    exec(s.as_python(), space)
    assert str(space["s"]) == str(s) == str(s.copy())


def cumulative(time: Any, width: Any) -> tuple[te.Tensor, te.Tensor, te.Tensor, te.Tensor]:
    """(X, init, update, sums over time)."""
    X = te.placeholder((time, width), name="X")
    state = te.placeholder((time, width), name="state")
    init = te.compute((1, width), lambda _, i: X[0, i], name="init")
    update = te.compute((time, width), lambda t, i: state[t - 1, i] + X[t, i], name="update")
    return X, init, update, te.scan(init, update, state, inputs=[X], name="S")


def test_the_loops_of_a_scan() -> None:
    X, _, _, S = cumulative(te.size_var("m"), te.size_var("n"))
    R = te.compute(S.shape, lambda t, i: S[t, i] * 2, name="R")
    s = te.create_schedule(R.op)
    assert (
        str(s)
        == """\
def R[m: size, n: size](X: float32[m, n], R: out float32[m, n]):
    if int64(m) < 1:
        if int64(n) > 0:
            assert 0 < int64(m), "init reads outside X: index 0, 0, leaves dimension 0 of X: float32[m, n]"
    assert 1 <= m, "S takes m steps, fewer than the 1 that it begins with"
    S: float32[m, n]
    for i in n:
        S[0, i] = X[0, i]
    for S.idx in m - 1:
        for i in n:
            S[S.idx + 1, i] = S[S.idx, i] + X[S.idx + 1, i]
    for t in m:
        for i in n:
            R[t, i] = S[t, i] * 2.0"""
    )
    verify(tw.lower(s, [X, R]), "loops")
    assert (S.op.scan_axis.kind, [axis.name for axis in S.op.spatial_axis_]) == ("ordered", ["S.ax1"])
    for target in BOTH:
        f = tw.build(s, [X, R], target=target)
        for shape in ((5, 7), (1, 3), (2, 1), (3, 0), (13, 2)):
            x = np.random.default_rng(0).random(shape, np.float32)
            made = np.zeros_like(x)
            f(x, made)
            np.testing.assert_allclose(made, 2 * np.cumsum(x, 0), rtol=1e-5)


def test_several_first_steps_of_a_state_that_is_a_vector() -> None:
    state = te.placeholder((10,), "int32", name="state")
    init = te.compute((2,), lambda i: i.astype("int32"), name="init")
    update = te.compute((10,), lambda t: state[t - 1] + state[t - 2], name="update")
    S = te.scan(init, update, state, name="fibonacci")
    s = te.create_schedule(S.op)
    wanted = np.array([0, 1, 1, 2, 3, 5, 8, 13, 21, 34], "int32")
    agree(s, [S], [], [wanted])
    outer, _ = s[S].split(S.op.scan_axis, 3)
    s[S].unroll(outer)
    agree(s, [S], [], [wanted])
    same_again(s, S.op)
    all_given = te.scan(te.compute((10,), lambda i: i.astype("int32")), update, state)
    agree(te.create_schedule(all_given.op), [all_given], [], [np.arange(10, dtype="int32")])


def two_states(X: te.Tensor, l: Any) -> list[te.Tensor]:
    m, n = X.shape
    a, b = te.placeholder((m, n), name="a"), te.placeholder((m, l), name="b")
    first = (
        te.compute((1, n), lambda _, i: X[0, i], name="first_a"),
        te.compute((1, l), lambda _, i: 0.0, name="first_b"),
    )
    next_a = te.compute((m, n), lambda t, i: a[t - 1, i] * 0.5 + X[t, i], name="next_a")
    next_b = te.compute((m, l), lambda t, i: b[t - 1, i] + a[t - 1, 0] * 0.5 + next_a[t, 0], name="next_b")
    made: list[te.Tensor] = te.scan(list(first), [next_a, next_b], [a, b], inputs=[X], name="two")
    return made


def test_several_states_of_several_shapes() -> None:
    m, n, l = te.size_var("m"), te.size_var("n"), te.size_var("l")
    X = te.placeholder((m, n), name="X")
    A, B = two_states(X, l)
    assert (A.name, B.name, A.op) == ("two.v0", "two.v1", B.op)
    x = np.random.default_rng(1).random((6, 3), np.float32)
    a, b = x.copy(), np.zeros((6, 2), np.float32)
    for t in range(1, 6):
        a[t] = a[t - 1] * 0.5 + x[t]
        b[t] = b[t - 1] + a[t - 1, 0] * 0.5 + a[t, 0]
    s = te.create_schedule([A.op])
    agree(s, [X, A, B], [x], [a, b])
    C = te.compute((l,), lambda i: B[m - 1, i] + A[0, 0], name="C")
    agree(te.create_schedule(C.op), [X, C], [x], [b[-1] + a[0, 0]])


def test_initial_tensors_are_copied_where_they_are_not_computed() -> None:
    X = te.placeholder((1, 4), name="X")
    a, b = te.placeholder((5, 4), name="a"), te.placeholder((5, 4), name="b")
    up = [te.compute((5, 4), lambda t, i: one[t - 1, i] + by, name=f"{one.name}_next") for one, by in ((a, 1), (b, 2))]
    A, B = te.scan([X, X], up, [a, b], name="S")
    x = np.arange(4, dtype="float32")[None]
    steps = np.arange(5, dtype="float32")[:, None]
    agree(te.create_schedule(A.op), [X, A, B], [x], [x + steps, x + 2 * steps])


# Schedules


def staged(m: Any, n: Any) -> tuple[te.Tensor, ...]:
    """(X, init, doubled, update, S): state = 2 * state + X, in two stages."""
    X, state = te.placeholder((m, n), name="X"), te.placeholder((m, n), name="state")
    init = te.compute((1, n), lambda _, i: X[0, i], name="init")
    doubled = te.compute((m, n), lambda t, i: state[t - 1, i] * 2, name="doubled")
    update = te.compute((m, n), lambda t, i: doubled[t, i] + X[t, i], name="update")
    return X, init, doubled, update, te.scan(init, update, state, inputs=[X], name="S"), state


def double_sums(x: np.ndarray) -> np.ndarray:
    made = x.copy()
    for t in range(1, len(x)):
        made[t] = made[t - 1] * 2 + x[t]
    return made


def _cached(s: Any, init: Any, doubled: Any, update: Any, state: Any, X: Any) -> None:
    read, written = s.cache_read(state, "local", [doubled]), s.cache_write(update, "local")
    s[written].compute_at(s[update], s[update].op.axis[1])
    s[read].compute_at(s[doubled], s[doubled].op.axis[1])


def _tiled(s: Any, init: Any, doubled: Any, update: Any, state: Any, X: Any) -> None:
    outer, inner = s[update].split(update.op.axis[1], 4)
    s[doubled].compute_at(s[update], outer)
    s[doubled].vectorize(s[doubled].op.axis[1])
    s[update].vectorize(inner)


def _at_time(s: Any, init: Any, doubled: Any, update: Any, state: Any, X: Any) -> None:
    scan = s.stages[-1]
    for T in (doubled, update):
        s[T].compute_at(scan, scan.op.scan_axis)


SCHEDULES: dict[str, Callable[..., Any]] = {
    "as declared": lambda s, *_: None,
    "inlined": lambda s, init, doubled, update, state, X: s[doubled].compute_inline(),
    "tiled": _tiled,
    "cached": _cached,
    "at the loop over time": _at_time,
    "time split": lambda s, *_: s.stages[-1].split(s.stages[-1].op.scan_axis, 3),
    "updates in parallel": lambda s, init, doubled, update, state, X: s[update].parallel(update.op.axis[1]),
    "reordered": lambda s, init, doubled, update, state, X: s[update].reorder(*reversed(update.op.axis)),
    "inputs cached": lambda s, init, doubled, update, state, X: s.cache_read(X, "local", [update, init]),
    "initial tiled": lambda s, init, doubled, update, state, X: s[init].split(init.op.axis[1], 3),
}


@pytest.mark.parametrize("name", SCHEDULES)
def test_schedules_of_a_step(name: str) -> None:
    X, init, doubled, update, S, state = (
        staged(te.size_var("m"), te.size_var("n")) if name != "tiled" else staged(7, 10)
    )
    s = te.create_schedule(S.op)
    SCHEDULES[name](s, init, doubled, update, state, X)
    function = tw.lower(s, [X, S])
    for shape in ((7, 10), (1, 1), (2, 5)) if name != "tiled" else ((7, 10),):
        x = np.random.default_rng(2).random(shape, np.float32)
        made = np.full_like(x, 77)
        interpret(function, [x, made])
        np.testing.assert_allclose(made, double_sums(x), rtol=1e-5)
    if name in ("tiled", "cached", "time split", "updates in parallel"):
        x = np.random.default_rng(3).random((7, 10), np.float32)
        agree(s, [X, S], [x], [double_sums(x)], ("llvm",))
    same_again(s, S.op)


def test_what_does_not_depend_on_states_is_computed_before() -> None:
    """A stage that reads neither states nor inputs stands outside the loop; one that reads inputs within it."""
    X = te.placeholder((6, 4), name="X")
    Y = te.compute((6, 4), lambda t, i: X[t, i] * 3, name="Y")
    for inputs, inside in (([Y], False), ([X], True)):
        state = te.placeholder((6, 4), name="state")
        init = te.compute((1, 4), lambda _, i: 3 * X[0, i], name="init")
        update = te.compute((6, 4), lambda t, i: state[t - 1, i] + Y[t, i], name="update")
        S = te.scan(init, update, state, inputs=inputs, name="S")
        s = te.create_schedule(S.op)
        x = np.random.default_rng(4).random((6, 4), np.float32)
        agree(s, [X, S], [x], [np.cumsum(3 * x, 0)], ("interpret",))
        text = str(s)
        assert (text.rindex("Y[t, i] =" if not inside else "Y[0, i] =") > text.index("for S.idx")) == inside


@pytest.mark.parametrize("own", [False, True])
def test_what_is_the_same_in_every_step_is_computed_once(own: bool) -> None:
    """A stage of which every step reads the same stands before the loop, though it reads an input; one whose readers ask for the
    part of their step stays in it."""
    X, W = te.placeholder((6, 4), name="X"), te.placeholder((6, 4), name="W")
    scaled = te.compute((6, 4), lambda t, i: W[t, i] * 3, name="scaled")
    state = te.placeholder((6, 4), name="state")
    init = te.compute((1, 4), lambda _, i: X[0, i], name="init")
    update = te.compute((6, 4), lambda t, i: state[t - 1, i] + X[t, i] * scaled[t // 2 if own else 5, i], name="update")
    S = te.scan(init, update, state, inputs=[X, W], name="S")
    s = te.create_schedule(S.op)
    x, w = np.random.default_rng(4).random((2, 6, 4), np.float32)
    terms = x * 3 * (w[np.arange(6) // 2] if own else w[5])
    agree(s, [X, W, S], [x, w], [np.cumsum(np.concatenate([x[:1], terms[1:]]), 0)])
    text = str(s)
    assert (text.index("scaled[") > text.index("for S.idx")) == own


def test_a_reduction_in_a_step_and_rfactor() -> None:
    """h[t] = tanh(W h[t - 1] + x[t])."""
    m, n = 5, 6
    X, W, state = (
        te.placeholder((m, n), name="X"),
        te.placeholder((n, n), name="W"),
        te.placeholder((m, n), name="state"),
    )
    k = te.reduce_axis((0, n), "k")
    init = te.compute((1, n), lambda _, i: 0.0, name="init")
    product = te.compute((m, n), lambda t, i: te.sum(W[i, k] * state[t - 1, k], axis=k), name="product")
    update = te.compute((m, n), lambda t, i: te.tanh(product[t, i] + X[t, i]), name="update")
    S = te.scan(init, update, state, inputs=[X], name="S")
    rng = np.random.default_rng(5)
    x, w = rng.random((m, n), np.float32), rng.random((n, n), np.float32)
    wanted = np.zeros_like(x)
    for t in range(1, m):
        wanted[t] = np.tanh(w @ wanted[t - 1] + x[t])
    s = te.create_schedule(S.op)
    agree(s, [X, W, S], [x, w], [wanted])
    outer, _ = s[product].split(product.op.reduce_axis[0], nparts=3)
    partial = s.rfactor(product, outer)
    s[partial].compute_at(s[product], s[product].op.axis[1])
    agree(s, [X, W, S], [x, w], [wanted])
    same_again(s, S.op)


def lstm(time: int, batch: int, width: int) -> tuple[Any, ...]:
    """An LSTM without biases: X holds the inputs' share of the gates; the hidden state's is computed in the step."""
    X, W = te.placeholder((time, batch, 4, width), name="X"), te.placeholder((4, width, width), name="W")
    h, c = (te.placeholder((time, batch, width), name=name) for name in "hc")
    init = [te.compute((1, batch, width), lambda *i: 0.0, name=f"{name}0") for name in "hc"]
    k = te.reduce_axis((0, width), "k")
    gates = te.compute(
        (time, batch, 4, width), lambda t, b, g, i: te.sum(h[t - 1, b, k] * W[g, i, k], axis=k), name="hidden"
    )
    total = te.compute(gates.shape, lambda *i: gates[i] + X[i], name="gates")
    gate = lambda g, f: te.compute(h.shape, lambda t, b, i: f(total[t, b, g, i]), name=f"gate{g}")
    entry, change, forget, out = gate(0, te.sigmoid), gate(1, te.tanh), gate(2, te.sigmoid), gate(3, te.sigmoid)
    next_c = te.compute(c.shape, lambda *i: forget[i] * c[(i[0] - 1, *i[1:])] + entry[i] * change[i], name="next_c")
    next_h = te.compute(h.shape, lambda *i: out[i] * te.tanh(next_c[i]), name="next_h")
    H, C = te.scan(init, [next_h, next_c], [h, c], inputs=[X], name="lstm")
    return X, W, H, C, gates, (total, entry, change, forget, out), (next_h, next_c)


def lstm_in_numpy(x: np.ndarray, w: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    sigmoid = lambda v: 1 / (1 + np.exp(-v))
    h, c = np.zeros((2, x.shape[0], x.shape[1], x.shape[3]))
    for t in range(1, len(x)):
        g = np.einsum("bk,gik->bgi", h[t - 1], w) + x[t]
        c[t] = sigmoid(g[:, 2]) * c[t - 1] + sigmoid(g[:, 0]) * np.tanh(g[:, 1])
        h[t] = sigmoid(g[:, 3]) * np.tanh(c[t])
    return h.astype("float32"), c.astype("float32")


def test_an_lstm() -> None:
    X, W, H, C, gates, inlined, updates = lstm(4, 3, 5)
    rng = np.random.default_rng(6)
    x, w = rng.standard_normal((4, 3, 4, 5)).astype("float32"), rng.standard_normal((4, 5, 5)).astype("float32")
    wanted = list(lstm_in_numpy(x, w))
    s = te.create_schedule(H.op)
    agree(s, [X, W, H, C], [x, w], wanted)
    for T in inlined:
        s[T].compute_inline()
    s[gates].reorder(gates.op.axis[1], gates.op.axis[2], gates.op.reduce_axis[0], gates.op.axis[3])
    s[gates].vectorize(gates.op.axis[3])
    for T in updates:
        s[T].parallel(T.op.axis[1])
    agree(s, [X, W, H, C], [x, w], wanted)
    same_again(s, H.op)


def test_a_scan_within_the_steps_of_another() -> None:
    """outer[t] = sums over i of (outer[t - 1] + X[t])."""
    m, n = te.size_var("m"), 5
    X, outer = te.placeholder((m, n), name="X"), te.placeholder((m, n), name="outer")
    init = te.compute((1, n), lambda _, i: X[0, i], name="init")
    given = te.compute((m, n), lambda t, i: outer[t - 1, i] + X[t, i], name="given")
    moved = te.compute((n, m), lambda i, t: given[t, i], name="moved")
    inner = te.placeholder((n, m), name="inner")
    inner_init = te.compute((1, m), lambda _, t: moved[0, t], name="inner_init")
    inner_update = te.compute((n, m), lambda i, t: inner[i - 1, t] + moved[i, t], name="inner_update")
    I = te.scan(inner_init, inner_update, inner, inputs=[moved], name="I")
    update = te.compute((m, n), lambda t, i: I[i, t], name="update")
    S = te.scan(init, update, outer, inputs=[X], name="S")
    s = te.create_schedule(S.op)
    x = np.random.default_rng(7).random((4, 5), np.float32)
    wanted = x.copy()
    for t in range(1, 4):
        wanted[t] = np.cumsum(wanted[t - 1] + x[t])
    agree(s, [X, S], [x], [wanted])
    same_again(s, S.op)


def test_an_extern_in_a_step() -> None:
    """What Python makes of the whole state, each step."""

    @tw.register_func("test_scan.turn", override=True)
    def turn(x: Any, y: Any) -> None:
        y[...] = x[::-1]

    X, state = te.placeholder((5, 3), name="X"), te.placeholder((5, 3), name="state")
    init = te.compute((1, 3), lambda _, i: X[0, i], name="init")
    row = te.compute((5, 3), lambda t, i: state[t - 1, i] + X[t, i], name="row")
    turned = te.extern((3,), [row], lambda ins, outs: te.call_packed("test_scan.turn", ins[0], outs[0]), name="turned")
    update = te.compute((5, 3), lambda t, i: turned[i], name="update")
    S = te.scan(init, update, state, inputs=[X], name="S")
    with pytest.raises(
        ReadsOtherSteps, match=r"(?s)TW0348: cannot compute row in a step.*it reads steps -1 to 3 of state"
    ):
        tw.build([X, S])  # the extern reads all rows, also those to come


def test_reads_of_steps_that_are_not_there() -> None:
    def steps(index: Callable[[Any], Any], first: int = 1) -> tuple[te.Tensor, te.Tensor]:
        X, state = te.placeholder((6,), name="X"), te.placeholder((6,), name="state")
        init = te.compute((first,), lambda t: X[t], name="init")
        return X, te.scan(init, te.compute((6,), lambda t: index(t)(state) + X[t], name="update"), state, name="S")

    x = np.arange(1, 7, dtype="float32")
    for index in (lambda t: lambda s: s[t - 2], lambda t: lambda s: s[t + 1 - t % 2], lambda t: lambda s: s[5 - t]):
        with pytest.raises(
            ReadsOtherSteps, match=r"(?s)TW0348: cannot compute update in a step of the scan S.*it reads step"
        ):
            tw.build(list(steps(index)))
    X, S = steps(lambda t: lambda s: s[t - 2], 2)
    agree(te.create_schedule(S.op), [X, S], [x], [np.array([1, 2, 4, 6, 9, 12], "float32")])
    X, S = steps(lambda t: lambda s: te.if_then_else(t > 1, s[t - 2], 0))
    agree(te.create_schedule(S.op), [X, S], [x], [np.array([1, 2, 4, 6, 9, 12], "float32")])


# Regions


def test_a_part_of_the_states_where_no_step_mixes_them() -> None:
    """A consumer's loop computes the columns that it reads, with all their steps."""
    X, _, doubled, _, S, _ = staged(te.size_var("m"), te.size_var("n"))
    R = te.compute((S.shape[1],), lambda i: S[S.shape[0] - 1, i] + 1, name="R")
    x = np.random.default_rng(9).random((5, 11), np.float32)
    wanted = double_sums(x)[-1] + 1
    for attach in (lambda s: R.op.axis[0], lambda s: s[R].split(R.op.axis[0], 4)[0]):
        s = te.create_schedule(R.op)
        s[S].compute_at(s[R], attach(s))
        agree(s, [X, R], [x], [wanted])
        assert "float32[m, n]" not in "".join(line for line in str(s).splitlines() if line.strip().startswith("S:"))
        same_again(s, R.op)
    outer = s[R].leaf_iter_vars[0]
    s[R].parallel(outer)
    agree(s, [X, R], [x], [wanted], ("llvm",))


def test_all_of_the_states_where_a_step_mixes_them() -> None:
    X, state = te.placeholder((4, 6), name="X"), te.placeholder((4, 6), name="state")
    init = te.compute((1, 6), lambda _, i: X[0, i], name="init")
    update = te.compute((4, 6), lambda t, i: state[t - 1, 5 - i] + X[t, i], name="update")
    S = te.scan(init, update, state, inputs=[X], name="S")
    R = te.compute((6,), lambda i: S[3, i], name="R")
    s = te.create_schedule(R.op)
    s[S].compute_at(s[R], R.op.axis[0])
    assert "S: float32[2, 6]" in str(s)
    x = np.random.default_rng(10).random((4, 6), np.float32)
    wanted = x[0]
    for t in range(1, 4):
        wanted = wanted[::-1] + x[t]
    agree(s, [X, R], [x], [wanted])


def test_dimensions_of_several_states_that_go_together() -> None:
    """One state is read at the index of the other: the parts that are computed of both are those that either needs."""
    X = te.placeholder((4, 9), name="X")
    a, b = te.placeholder((4, 9), name="a"), te.placeholder((4, 9), name="b")
    init = [te.compute((1, 9), lambda _, i: X[0, i], name=f"{name}0") for name in "ab"]
    up_a = te.compute((4, 9), lambda t, i: a[t - 1, i] + b[t - 1, i], name="up_a")
    up_b = te.compute((4, 9), lambda t, i: b[t - 1, i] * 0.5 + X[t, i], name="up_b")
    A, B = te.scan(init, [up_a, up_b], [a, b], inputs=[X], name="S")
    R = te.compute((8,), lambda i: A[3, i] + B[2, i + 1], name="R")
    s = te.create_schedule(R.op)
    s[A].compute_at(s[R], R.op.axis[0])
    assert "S.v0: float32[2, 2]" in str(s) and "S.v1: float32[2, 2]" in str(s)
    x = np.random.default_rng(11).random((4, 9), np.float32)
    va, vb = x.copy(), x.copy()
    for t in range(1, 4):
        va[t], vb[t] = va[t - 1] + vb[t - 1], vb[t - 1] * np.float32(0.5) + x[t]
    agree(s, [X, R], [x], [va[3, :8] + vb[2, 1:]])


# Threads


def bound(threads: int) -> tuple[Any, te.Tensor, te.Tensor]:
    X, init, doubled, update, S, _ = staged(te.size_var("m"), te.size_var("n"))
    s = te.create_schedule(S.op)
    block, thread = te.thread_axis((0, 1), "blockIdx.x"), te.thread_axis((0, threads), "threadIdx.x")
    s[S].env_threads([block, thread])
    for T in (init, update):
        _, inner = s[T].split(T.op.axis[1], factor=threads)
        s[T].bind(inner, thread)
    s[doubled].compute_inline()
    return s, X, S


def test_env_threads_put_all_steps_in_one_kernel() -> None:
    s, X, S = bound(4)
    lines = [line for line in str(s).splitlines() if " in thread(" in line]
    assert [line.strip() for line in lines[:2]] == [
        'for blockIdx.x in thread("blockIdx.x", 1):',
        'for threadIdx.x in thread("threadIdx.x", 4):',
    ]
    same_again(s, S.op)
    x = np.random.default_rng(8).random((6, 11), np.float32)
    agree(s, [X, S], [x], [double_sums(x)], (*BOTH, "cuda -emulate"))
    f = tw.build(s, [X, S], target="cuda -emulate")
    assert len(f.kernels) == 1 and f.kernels[0].block == (4, 1, 1)


def test_env_threads_that_do_not_fit() -> None:
    _, init, _, update, S, _ = staged(4, 4)
    s = te.create_schedule(S.op)
    thread = te.thread_axis((0, 4), "threadIdx.x")
    for stage, given, match in (
        (init, thread, "init is not a scan"),
        (S, update.op.axis[0], "is not a thread axis"),
        (S, 3, "3 is not a thread axis"),
        (S, te.thread_axis("threadIdx.x"), "threadIdx.x has no extent"),
        (S, [thread, thread], "threadIdx.x is given twice"),
    ):
        with pytest.raises(BadEnvThreads, match=f"(?s)TW0260: cannot put threads around stage.*{match}"):
            s[stage].env_threads(given)
    assert not s.records
    s[S].env_threads(thread)
    with pytest.raises(BadEnvThreads, match="it has its threads already"):
        s[S].env_threads(te.thread_axis((0, 4), "threadIdx.y"))
    for call in (
        lambda: s[S].reorder(S.op.scan_axis, thread),
        lambda: s[S].unroll(thread),
        lambda: s[S].parallel(thread),
    ):
        with pytest.raises(ScanLoopsStay, match=r"(?s)TW0261.*(it stands around all steps|each step is computed from)"):
            call()
    for call in (lambda: s[S].split(thread, 2), lambda: s[S].fuse(thread, S.op.scan_axis)):
        with pytest.raises(AnnotationWouldBeLost, match=r"threadIdx\.x is bound to threadIdx\.x"):
            call()
    assert len(s.records) == 1


# Refusals


def test_time_keeps_its_order() -> None:
    _, _, _, S = cumulative(6, 4)
    s = te.create_schedule(S.op)
    t = S.op.scan_axis
    for call in (
        lambda: s[S].parallel(t),
        lambda: s[S].vectorize(t),
        lambda: s[S].bind(t, te.thread_axis("threadIdx.x")),
    ):
        with pytest.raises(
            ScanLoopsStay, match=r"(?s)TW0261.*'S.idx' of stage S.*each step is computed from earlier ones"
        ):
            call()
    outer, inner = s[S].split(t, 2)
    for axis in (outer, inner):
        with pytest.raises(ScanLoopsStay, match="TW0261"):
            s[S].parallel(axis)
    with pytest.raises(
        ScanLoopsStay, match=r"(?s)TW0261.*update reads state\[.*\], 1 step before its own, which would come later"
    ):
        s[S].reorder(inner, outer)
    assert [record.primitive for record in s.records] == ["split"]


def test_primitives_that_a_scan_does_not_take() -> None:
    _, init, update, S = cumulative(6, 4)
    s = te.create_schedule(S.op)
    for T in (init, update):
        with pytest.raises(CannotInline, match="S, which reads it, is a scan"):
            s[T].compute_inline()
    refused: list[tuple[Any, Any]] = [
        (lambda: s[S].compute_inline(), CannotInline),
        (lambda: s.cache_write(S, "local"), BadCacheWrite),
        (lambda: s.rfactor(S, S.op.scan_axis), tw.ScheduleError),
        (lambda: s[S].set_store_predicate(True), tw.ScheduleError),
        (lambda: s[S].storage_align(S.op.scan_axis, 8, 0), tw.ScheduleError),
    ]
    for call, error in refused:
        with pytest.raises(error, match=r"TW02\d\d"):
            call()
    assert not s.records


def test_what_is_a_part_of_a_scan_stays_in_it() -> None:
    X, init, update, S = cumulative(6, 4)
    s = te.create_schedule(S.op)
    with pytest.raises(
        PartOfScan, match=r"(?s)TW0347: cannot lower: update is a part of the scan S.*is computed step by step"
    ):
        tw.lower(s, [X, S, update])
    with pytest.raises(PartOfScan, match="init is the beginning of its state"):
        tw.lower(s, [X, S, init])
    copied = te.create_schedule(S.op)
    copied.cache_read(update, "local", [S])
    s[update].set_scope("local")
    with pytest.raises(PartOfScan, match=r"(?s)update\.local lies in its memory, not in local.*s\[S\]\.set_scope"):
        tw.lower(copied, [X, S])
    with pytest.raises(PartOfScan, match="lies in its memory, not in local"):
        tw.lower(s, [X, S])
    R = te.compute((6, 4), lambda t, i: S[t, i] + update[t, i], name="R")
    with pytest.raises(ConsumerOutsideAttach, match="R reads update too, but does not lie under that loop"):
        tw.lower(te.create_schedule(R.op), [X, R])


def test_a_state_is_read_in_steps_alone() -> None:
    X, state = te.placeholder((6, 4), name="X"), te.placeholder((6, 4), name="state")
    init = te.compute((1, 4), lambda _, i: X[0, i], name="init")
    before = te.compute((6, 4), lambda t, i: state[t - 1, i] * 2, name="before")
    update = te.compute((6, 4), lambda t, i: before[t, i] + X[t, i], name="update")
    S = te.scan(init, update, state, inputs=[X], name="S")
    R = te.compute((6, 4), lambda t, i: S[t, i] + state[t, i], name="R")
    with pytest.raises(
        OutsideOfScan, match=r"(?s)TW0346: cannot lower: R lies outside the steps of the scan S.*reads the state"
    ):
        tw.lower(te.create_schedule(R.op), [X, R])
    s = te.create_schedule(S.op)
    outer, _ = s[S].split(S.op.scan_axis, 2)
    s[before].compute_at(s[S], outer)
    with pytest.raises(
        ReadsOtherSteps, match=r"it reads steps .* of state by `t - 1`: at step S\.idx\.outer \* 2 \+ 1 only those"
    ):
        tw.lower(s, [X, S])
    with pytest.raises(tw.LoweringError, match="the output S is not among the arguments"):
        tw.lower(te.create_schedule(S.op), [X, state])


def test_a_read_before_the_begin_is_found_where_no_scan_is() -> None:
    A = te.placeholder((8, 2), name="A")
    B = te.compute((8, 2), lambda t, i: A[t - 1, i], name="B")
    with pytest.raises(te_errors.IndexOutOfRange, match="B reads outside A"):
        tw.lower(te.create_schedule(B.op), [A, B])
    C = te.compute((8, 2), lambda t, i: A[t - 1, i] + A[t, i], name="C")
    with pytest.raises(te_errors.IndexOutOfRange, match="C reads outside A"):
        tw.lower(te.create_schedule(C.op), [A, C])


def _scan(m: int = 6, first: Any = (1, 4), steps: Any = (6, 4), dtype: str = "float32", back: int = 1) -> Any:
    state = te.placeholder((m, 4), name="state")
    init = te.compute(first, lambda *i: te.const(0, dtype), name="init")
    update = te.compute(
        steps, lambda t, *i: state[(t - back, *i)] if len(i) == 1 else te.const(0, "float32"), name="update"
    )
    return te.scan(init, update, state, name="S")


REFUSED: dict[str, tuple[Callable[[], Any], str]] = {
    "the step itself": (lambda: _scan(back=0), r"the update update reads state\[t, i0\], the step that it computes"),
    "init's shape": (
        lambda: _scan(first=(1, 5)),
        r"the init is init: float32\[1, 5\], the state state: float32\[6, 4\]",
    ),
    "update's shape": (lambda: _scan(steps=(6,)), r"the update is update: float32\[6\]"),
    "dtype": (lambda: _scan(dtype="int32"), r"the init is init: int32\[1, 4\]"),
    "too many first steps": (lambda: _scan(first=(7, 4)), "7 first steps are more than the 6 that there are"),
    "no tensor": (lambda: te.scan(1, 2, 3, name="S"), "init has 1, not a tensor"),
    "numbers": (
        lambda: te.scan([], [], [te.placeholder((3,))], name="S"),
        "it has 0 initial tensors, 0 updates and 1 states",
    ),
    "no placeholder": (
        lambda: te.scan(*[te.compute((3,), lambda i: 0.0)] * 3, name="S"),
        "no placeholder with a first axis",
    ),
    "placeholder as update": (
        lambda: te.scan(*[te.placeholder((3,), name="P")] * 3, name="S"),
        "the update P is a placeholder",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_declarations_that_do_not_fit(name: str) -> None:
    made, match = REFUSED[name]
    with pytest.raises(te_errors.BadScan, match=f"(?s)TW0141.*cannot declare the scan S.*{match}"):
        made()


# Blocks


def blocks_of(update: Callable[[Any, Any, Any, Any], Any], fused: bool = False) -> tuple[Any, te.Tensor, te.Tensor]:
    """A scan whose stages run on blocks of four threads, without env_threads."""
    X, state = te.placeholder((6, 12), name="X"), te.placeholder((6, 12), name="state")
    init = te.compute((1, 12), lambda _, i: X[0, i], name="init")
    following = te.compute((6, 12), lambda t, i: update(state, X, t, i), name="update")
    S = te.scan(init, following, state, inputs=[X], name="S")
    s = te.create_schedule(S.op)
    for T in (init, following):
        outer, inner = s[T].split(T.op.axis[1], 4)
        s[T].bind(outer, te.thread_axis("blockIdx.x"))
        s[T].bind(inner, te.thread_axis("threadIdx.x"))
    return s, X, S


def test_steps_in_blocks_that_go_on_with_their_own() -> None:
    x = np.random.default_rng(12).random((6, 12), np.float32)
    s, X, S = blocks_of(lambda state, X, t, i: state[t - 1, i] + X[t, i])
    agree(s, [X, S], [x], [np.cumsum(x, 0)], ("cuda -emulate",))
    s, X, S = blocks_of(lambda state, X, t, i: state[t - 1, i // 4 * 4 + 3 - i % 4] + X[t, i])  # a block's own, turned
    wanted = x.copy()
    for t in range(1, 6):
        wanted[t] = wanted[t - 1].reshape(3, 4)[:, ::-1].reshape(-1) + x[t]
    agree(s, [X, S], [x], [wanted], ("interpret", "cuda -emulate"))


@pytest.mark.parametrize(
    "read",
    [
        lambda state, X, t, i: state[t - 1, 11 - i] + X[t, i],
        lambda state, X, t, i: state[t - 1, 0] + X[t, i],
        lambda state, X, t, i: state[t - 1, (i + 1) % 12] + X[t, i],
    ],
)
def test_steps_that_need_other_blocks_are_refused(read: Callable[..., Any]) -> None:
    """Nothing orders blocks: a kernel would read what another block has yet to store."""
    s, X, S = blocks_of(read)
    with pytest.raises(
        tw.CudaError, match=r"(?s)TW0817.*an iteration of 'S.idx' depends on other blocks.*blocks store S"
    ):
        tw.build(s, [X, S], target="cuda -emulate")


def test_the_beginning_of_a_state_is_not_computed_anew_at_each_step() -> None:
    X, init, _, S = cumulative(3, 2)
    s = te.create_schedule(S.op)
    s[init].compute_at(s[S], s[S].op.scan_axis)
    with pytest.raises(PartOfScan, match="the beginning of its state, and computed once, before the loop over time"):
        tw.lower(s, [X, S])


def test_a_stage_in_the_memory_of_a_scan_has_no_buffer_of_its_own() -> None:
    X, _, update, S = cumulative(3, 2)
    s = te.create_schedule(S.op)
    s[update].compute_at(s[S], s[S].op.scan_axis)
    s[update].double_buffer()
    with pytest.raises(PartOfScan, match="which holds all steps: no double buffer stands for it"):
        tw.lower(s, [X, S])


def test_a_choice_does_not_make_steps_that_a_cache_mixes_with_time() -> None:
    """The choice is by the column: which steps the box holds is not up to it."""
    X, state = te.placeholder((2, 5), name="X"), te.placeholder((2, 5), name="state")
    init = te.compute((1, 5), lambda _, i: X[0, i], "init")
    k = te.reduce_axis((0, 5), "k")
    update = te.compute(
        (2, 5), lambda t, i: te.max(te.if_then_else((k + i) % 2 == 0, state[t - 1, k], X[t, i]), axis=k), "update"
    )
    S = te.scan(init, update, state, inputs=[X], name="S")
    s = te.create_schedule(S.op)
    _, i_outer, t_inner, _ = s[update].tile(*update.op.axis, 8, 4)
    s[update].fuse(i_outer, t_inner)
    s.cache_write(update, "global")
    with pytest.raises(ReadsOtherSteps, match=r"(?s)cannot compute \S+global in a step of the scan.*reads steps"):
        tw.lower(s, [X, S])


def test_a_cache_that_mixes_time_with_other_axes_is_refused() -> None:
    """Its box would hold steps that are there before the scan begins; the guard of its layout bounds it above only."""
    X, _, update, S = cumulative(2, 5)
    s = te.create_schedule(S.op)
    s[update].split(s[update].fuse(*update.op.axis), factor=8)
    s.cache_write(update, "shared")
    with pytest.raises(ReadsOtherSteps, match=r"(?s)cannot compute \S+shared in a step of the scan.*reads steps"):
        tw.lower(s, [X, S])


@pytest.mark.parametrize("bound", [(), ("first",), ("step",), ("first", "step")], ids="+".join)
@pytest.mark.parametrize("width", [1, 3, 8])
def test_a_stage_without_loops_for_the_threads_around_it_is_computed_by_the_first(
    bound: tuple[str, ...], width: int
) -> None:
    X = te.placeholder((7, width), "int64", name="X")
    state = te.placeholder((7, width), "int64", name="state")
    stages = {
        "first": te.compute((1, width), lambda _, i: X[0, i], "first"),
        "step": te.compute((7, width), lambda t, i: te.max(state[t - 1, i], X[t, i]), "step"),
    }
    greatest = te.scan(stages["first"], stages["step"], state, inputs=[X])
    s = te.create_schedule(greatest.op)
    thread = te.thread_axis((0, 4), "threadIdx.x")
    for name in bound:
        s[stages[name]].bind(s[stages[name]].split(stages[name].op.axis[1], factor=4)[1], thread)
    s[greatest].env_threads([te.thread_axis((0, 1), "blockIdx.x"), thread])
    x = np.random.default_rng(width).integers(-9, 9, (7, width))
    agree(s, [X, greatest], [x], [np.maximum.accumulate(x, 0)], (*BOTH, "cuda -emulate"))


def test_a_first_step_outside_of_the_threads_of_the_others_begins_no_reduction() -> None:
    X, state = te.placeholder((5, 1), "int64", name="X"), te.placeholder((5, 1), "int64", name="state")
    first = te.compute((1, 1), lambda _, i: X[0, i], "first")
    greatest = te.scan(
        first, te.compute((5, 1), lambda t, i: te.max(state[t - 1, i], X[t, i]), "step"), state, inputs=[X]
    )
    s = te.create_schedule(greatest.op)
    block, thread = te.thread_axis((0, 1), "blockIdx.x"), te.thread_axis((0, 4), "threadIdx.x")
    s[greatest].env_threads([block, thread])
    s[first].compute_at(s[greatest], block)
    x = np.array([[3], [5], [-1], [8], [7]])
    agree(s, [X, greatest], [x], [np.maximum.accumulate(x, 0)], (*BOTH, "cuda -emulate"))


@pytest.mark.parametrize("factor", [1, 2, 5, 32])
@pytest.mark.parametrize("columns", [2, 7])
def test_a_stage_of_a_step_reads_no_more_of_the_states_than_there_is(factor: int, columns: int) -> None:
    """Of the states one column is computed, and a loop of the step that is bound runs beyond it."""
    X, state = te.placeholder((3, columns), name="X"), te.placeholder((3, columns), name="state")
    worked = te.compute((3, columns), lambda t, i: state[t - 1, i] * 2, name="worked")
    step = te.compute((3, columns), lambda t, i: worked[t, i] + X[t, i], name="step")
    scan = te.scan(te.compute((1, columns), lambda _, i: X[0, i], name="first"), step, state, inputs=[X], name="scan")
    R = te.compute((columns,), lambda i: scan[2, i], name="R")
    s = te.create_schedule(R.op)
    s[scan].compute_at(s[R], R.op.axis[0])
    _, inner = s[step].split(step.op.axis[1], factor=factor)
    s[step].bind(inner, te.thread_axis("vthread"))
    s[worked].compute_at(s[step], inner)
    x = np.random.default_rng(factor).random((3, columns), np.float32)
    agree(s, [X, R], [x], [(x[0] * 2 + x[1]) * 2 + x[2]])
