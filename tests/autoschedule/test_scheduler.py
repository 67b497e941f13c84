"""topi.schedule: how a graph is cut into groups, and what the schedules of any composition compute on every target."""

from __future__ import annotations

import re
import subprocess
import sys
from typing import Any

import numpy as np
import pytest
import tilewright as tw
from this_machine import runnable
from tilewright import te, topi
from tilewright.autoschedule.cpu.rules import RULES
from tilewright.autoschedule.group_partition import cut
from tilewright.codegen.machine import MACHINES, find_machine
from tilewright.codegen.target import Target
from tilewright.schedule import to_json
from tilewright.te.tag import AlgorithmTag
from topi_run import evaluate, floats, placeholders, run


def product(a: Any, b: Any, name: str = "C") -> Any:
    """A product of matrices that nobody tagged."""
    k = te.reduce_axis((0, a.shape[1]), "k")
    return te.compute((a.shape[0], b.shape[1]), lambda i, j: te.sum(a[i, k] * b[k, j], axis=k), name)


def matrices(count: int = 2, size: int = 16) -> list[Any]:
    return [te.placeholder((size, size), name="ABCDEF"[at]) for at in range(count)]


def pieces(*outputs: Any) -> dict[str, Any]:
    """What each anchor's group consists of, by names: (output, heads, between, inlined, parts)."""
    found = cut(te.create_schedule(list(outputs)), RULES)
    return {
        piece.anchor.name: (
            piece.output.name,
            *([op.name for op in ops] for ops in (piece.heads, piece.between, piece.inlined, piece.parts)),
        )
        for piece in found
    }


def test_a_tail_and_heads_join_their_anchor() -> None:
    a, b, c = matrices(3)
    head = te.compute(a.shape, lambda i, j: a[i, j] * 2, "head")
    d = product(head, b)
    out = te.compute(a.shape, lambda i, j: te.max(d[i, j] + c[0, j], 0), "out")
    assert pieces(out) == {"C": ("out", ["head"], [], [], [])}


def test_diamonds_stay_in_the_tail_and_side_inputs_are_inlined_into_it() -> None:
    a, b, c = matrices(3)
    d = product(a, b)
    gate = te.compute(a.shape, lambda i, j: te.sigmoid(d[i, j]), "gate")
    both = te.compute(a.shape, lambda i, j: gate[i, j] * d[i, j], "both")
    side = te.compute(a.shape, lambda i, j: c[i, j] + 1, "side")
    out = te.compute(a.shape, lambda i, j: both[i, j] + side[i, j], "out")
    assert pieces(out) == {"C": ("out", [], ["gate", "both"], ["side"], [])}


def test_what_others_read_too_ends_a_tail() -> None:
    a, b = matrices()
    d = product(a, b)
    e = te.compute(a.shape, lambda i, j: d[i, j] + 1, "E")
    turned = te.compute(a.shape, lambda i, j: d[j, i], "turned")
    assert pieces(e, turned) == {
        "C": ("C", [], [], [], []),
        "E": ("E", [], [], [], []),
        "turned": ("turned", [], [], [], []),
    }
    assert pieces(d, e)["C"][0] == "C"


def test_of_two_products_that_meet_the_later_one_has_the_tail() -> None:
    a, b, c = matrices(3)
    d, e = product(a, b, "D"), product(a, c, "E")
    out = te.compute(a.shape, lambda i, j: d[i, j] + e[i, j], "out")
    assert pieces(out) == {"D": ("D", [], [], [], []), "E": ("out", [], [], [], [])}


def test_a_producer_of_two_products_is_computed_once() -> None:
    a, b, c = matrices(3)
    shared = te.compute(a.shape, lambda i, j: te.exp(a[i, j]), "shared")
    found = pieces(product(shared, b, "D"), product(shared, c, "E"))
    assert found["shared"] == ("shared", [], [], [], []) and not found["D"][1]


def test_expensive_producers_are_not_computed_again_for_every_row() -> None:
    a = te.placeholder((64, 32), name="A")
    v = te.placeholder((32,), name="v")
    e = te.compute((32,), lambda j: te.exp(v[j]), "E")
    cheap = te.compute((32,), lambda j: v[j] + 1, "cheap")
    out = te.compute(a.shape, lambda i, j: a[i, j] * e[j] + cheap[j], "out")
    assert pieces(out) == {"out": ("out", [], [], ["cheap"], []), "E": ("E", [], [], [], [])}


def test_stencils_of_stencils_are_stored_in_between() -> None:
    a = te.placeholder((64,), name="A")
    previous, n = a, 64
    for at in range(5):
        n -= 4
        last = previous
        previous = te.compute((n,), lambda i, last=last: sum((last[i + d] for d in range(5)), te.const(0.0)), f"S{at}")
    assert len(pieces(previous)) >= 3
    x = floats((64,))
    np.testing.assert_allclose(evaluate([a], previous, [x]), _smoothed(x, 5), rtol=1e-5, atol=1e-4)


def _smoothed(x: Any, times: int) -> Any:
    for _ in range(times):
        x = np.convolve(x, np.ones(5), "valid")
    return x


def test_the_parts_of_an_operator_belong_to_it_unless_others_read_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(RULES, "rownorm", ("fallback", "reduction"))
    tag = AlgorithmTag("rownorm")
    a = te.placeholder((8, 16), name="A")
    k = te.reduce_axis((0, 16), "k")
    total = te.compute((8,), lambda i: te.sum(a[i, k], axis=k), "total", tag=tag.part("sum"))
    norm = te.compute(a.shape, lambda i, j: a[i, j] / total[i], "norm", tag=tag)
    assert pieces(norm) == {"norm": ("norm", [], [], [], ["total"])}
    assert pieces(norm, total) == {"total": ("total", [], [], [], []), "norm": ("norm", [], [], [], [])}


@pytest.mark.parametrize("tag", [*RULES, "attention.scores", "resize.rows"])
def test_a_tag_of_the_user_is_a_word_and_chooses_no_rule(tag: str) -> None:
    a = te.placeholder((6, 20), name="A")
    k = te.reduce_axis((0, 20), "k")

    def declared(tag: str) -> Any:
        double = te.compute(a.shape, lambda i, j: a[i, j] * 2, "double", tag=f"{tag}.part" if tag else "")
        total = te.compute((6,), lambda i: te.sum(double[i, k], axis=k), "total", tag=tag)
        with te.tag_scope(tag):
            return te.compute(a.shape, lambda i, j: a[i, j] - total[i], "rest")

    own, plain = declared(tag), declared("")
    assert own.op.tag == tag and not own.op.algorithm
    for target in ("llvm", "cuda -arch=sm_80"):
        chosen, usual = (tw.autoschedule.schedule([y], target).records for y in (own, plain))
        assert to_json(chosen) == to_json(usual)


def test_the_tag_of_an_operator_is_read_but_not_taken_over() -> None:
    parts = [te.placeholder((2, 16, 8), name=name) for name in "qkv"]
    y = topi.nn.attention(*parts)
    again = te.compute(y.shape, lambda *i: y[i] * 2, "again", tag=y.op.tag)
    assert (y.op.tag, y.op.algorithm, again.op.tag, again.op.algorithm) == ("attention", "attention", "attention", "")
    assert not isinstance(y.op.tag, AlgorithmTag) and set(pieces(again)) == {"attention"}


def test_scans_are_pieces_with_what_reads_them_and_scripts_by_themselves() -> None:
    x = te.placeholder((9, 5), name="X")
    state = te.placeholder((9, 5), name="S")
    double = topi.multiply(x, 2.0)
    first = te.compute((1, 5), lambda _, j: double[0, j], "first")
    step = te.compute((9, 5), lambda t, j: state[t - 1, j] + double[t, j], "step")
    sums = te.scan(first, step, state, inputs=[double], name="sums")
    out = topi.nn.relu(sums)
    found = pieces(out)
    assert set(found) == {"T_multiply", "sums"}
    assert found["sums"] == ("T_relu", [], [], [], ["first", "step"])
    values = floats((9, 5))
    np.testing.assert_allclose(
        evaluate([x], out, [values]), np.maximum(np.cumsum(values * 2, 0), 0), rtol=1e-5, atol=1e-6
    )

    @te.hybrid.script
    def halves(a):
        b = output_tensor(a.shape, a.dtype)  # noqa: F821
        for i in range(a.shape[0]):
            for j in range(a.shape[1]):
                b[i, j] = a[i, j] * 0.5
        return b

    got = run(lambda a: topi.add(halves(topi.add(a, 1.0)), 1.0), values)
    np.testing.assert_array_equal(got, (values + 1) * np.float32(0.5) + 1)


@pytest.mark.parametrize("target", ["llvm", "cuda -emulate"])
def test_a_loop_whose_neighbours_are_of_the_step_before_stays_inside(target: str) -> None:
    """Iterations of j never meet within a step: but j outside of t would read what is not there yet."""

    @te.hybrid.script
    def turned(a):
        b = output_tensor(a.shape, a.dtype)  # noqa: F821
        for t in range(a.shape[0]):
            for j in range(a.shape[1]):
                b[t, j] = a[t, j] + (b[t - 1, (j + 1) % a.shape[1]] if t > 0 else 0.0)
        return b

    values = floats((5, 3))
    expected = values.copy()
    for t in range(1, 5):
        expected[t] += np.roll(expected[t - 1], -1)
    (a,) = placeholders(values)
    np.testing.assert_array_equal(evaluate([a], turned(a), [values], target), expected)


def test_threads_of_a_gpu_share_the_outer_loop_of_a_triangle() -> None:
    """Its iterations and those of the inner one never meet, but they form no rectangle."""

    @te.hybrid.script
    def doubled_below(a):
        b = output_tensor(a.shape, a.dtype)  # noqa: F821
        for i in range(a.shape[0]):
            for j in range(a.shape[1]):
                b[i, j] = a[i, j]
        for i in range(a.shape[0]):
            for j in range(i):
                b[i, j] = b[i, j] * 2.0
        return b

    values = floats((7, 7))
    (a,) = placeholders(values)
    result = evaluate([a], doubled_below(a), [values], "cuda -emulate")
    np.testing.assert_array_equal(result, np.tril(values, -1) + values)


@pytest.mark.parametrize("target", runnable("llvm", "llvm -mattr=-avx512f", "cuda -emulate", "interpret"))
def test_compositions_compute_the_same_on_every_target(target: str) -> None:
    a, b, c = floats((13, 37)), floats((37, 21), seed=1), floats((21,), seed=2)

    def composed(x: Any, y: Any, z: Any) -> list[Any]:
        hidden = topi.nn.gelu(topi.add(product(x, y), z))
        norm = topi.divide(hidden, topi.sqrt(topi.add(topi.mean(topi.square(hidden), -1, keepdims=True), 1e-5)))
        return [
            norm,
            topi.argmax(norm, 1),
            topi.concatenate([topi.transpose(norm), topi.transpose(hidden)], 1),
            topi.sum(x),
        ]

    tensors = placeholders(a, b, c)
    got = evaluate(tensors, composed(*tensors), [a, b, c], target)
    h = a.astype("float64") @ b + c
    from scipy.special import erf

    h = h * 0.5 * (1 + erf(h / np.sqrt(2)))
    norm = h / np.sqrt((h**2).mean(-1, keepdims=True) + 1e-5)
    np.testing.assert_allclose(got[0], norm, rtol=1e-4, atol=1e-5)
    np.testing.assert_array_equal(got[1], norm.argmax(1))
    np.testing.assert_allclose(got[2], np.concatenate([norm.T, h.T], 1), rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(got[3], a.astype("float64").sum(), rtol=1e-5, atol=1e-4)


def test_lists_of_tensors_are_scheduled_and_schedules_are_left_alone() -> None:
    a = te.placeholder((512, 512), name="A")
    b = topi.add(topi.exp(a), 1.0)
    assert "parallel" in tw.build([a, b]).source("ir") and "T_exp" not in tw.build([a, b]).source("ir")
    plain = tw.build(te.create_schedule(b.op), [a, b]).source("ir")
    assert "parallel" not in plain and "T_exp" in plain
    assert "parallel" not in tw.build([a, b], target="interpret").source("ir")
    module = tw.build({"one": [a, b], "two": (te.create_schedule(b.op), [a, b])})
    assert "parallel" in module["one"].source("ir") and "parallel" not in module["two"].source("ir")


def test_tensors_between_that_are_passed_are_stored() -> None:
    a = te.placeholder((5, 70), name="A")
    b = topi.exp(a)
    c = topi.add(b, 1.0)
    x = floats((5, 70))
    y, z = np.zeros_like(x), np.zeros_like(x)
    tw.build([a, b, c])(x, y, z)
    np.testing.assert_allclose(y, np.exp(x), rtol=1e-6)
    np.testing.assert_array_equal(z, y + 1)


def test_small_programs_stay_on_one_thread_and_schedules_are_code() -> None:
    a = te.placeholder((8, 8), name="A")
    s = topi.schedule(topi.add(a, 1.0))
    assert "parallel" not in str(s)
    big = te.placeholder((1024, 1024), name="A")
    out = topi.nn.relu(product(big, topi.transpose(big)))
    s = topi.schedule(out)
    scope: dict[str, Any] = {"te": te, "ops": [out.op]}
    exec(s.as_python(), scope)
    assert str(scope["s"]) == str(s) and "parallel" in str(s) and "vectorized" in str(s)


def test_tuned_schedules_come_from_the_database_where_it_has_them(tmp_path: Any) -> None:
    from tilewright import autotune

    a = te.placeholder((64,), name="A")
    b = te.compute((64,), lambda i: a[i] * 2, "B")
    with pytest.warns(tw.PerformanceWarning, match="there is no database"):
        assert "vectorized" in str(topi.schedule(b, tuned=tmp_path / "none.sqlite"))
    task = autotune.Task.of([a, b])
    s = te.create_schedule(b)
    s[b].unroll(s[b].op.axis[0])
    from tilewright.schedule import to_json

    with autotune.Database(tmp_path / "db.sqlite") as database:
        database.add(task.key, "B", autotune.Trial(to_json(s.records), 1e-3))
        assert "unrolled" in str(topi.schedule(b, tuned=database))


@pytest.mark.parametrize(
    "target, name",
    [
        ("llvm -mcpu=x86-64", "sse2"),
        ("llvm -mcpu=haswell", "avx2"),
        ("llvm -mcpu=sandybridge", "avx"),
        ("llvm -mcpu=znver4", "avx512"),
        ("llvm -mcpu=cortex-a57", "neon"),
        ("llvm -mtriple=aarch64-unknown-linux-gnu -mattr=+sve", "sve"),
        ("llvm -mtriple=riscv64-unknown-linux-gnu", "scalar"),
        ("llvm -mtriple=riscv64-unknown-linux-gnu -mattr=+v", "rvv"),
        ("llvm -mtriple=wasm32-unknown-unknown", "generic"),
        ("cuda -emulate", "generic"),
    ],
)
def test_machines_are_told_by_their_features(target: str, name: str) -> None:
    machine = find_machine(Target.parse(target))
    assert machine.name == name
    assert (
        machine.lanes(32) == machine.vector_bytes // 4
        and machine.accumulators == machine.fma_latency * machine.fma_rate
    )


def test_the_table_of_machines_is_ordered_from_the_most_demanding() -> None:
    for architecture in ("x86_64", "aarch64", "riscv64"):
        rows = [row for row in MACHINES if row.architecture == architecture]
        assert not rows[-1].features and all(row.features or row.cpus for row in rows[:-1])
    here = find_machine(Target("llvm"))
    assert here.l1 >= 8 * 1024 and here.l2 > here.l1


def test_names_are_functions_though_modules_are_called_like_them() -> None:
    code = (
        "import tilewright.topi.matmul, tilewright.topi.nn.conv2d\nfrom tilewright import topi\n"
        "assert callable(topi.matmul) and callable(topi.nn.conv2d), topi.matmul\n"
        "from tilewright.topi import relu_of_nothing"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert "cannot import name 'relu_of_nothing'" in done.stderr, done.stderr
    assert {"matmul", "sum", "nn", "schedule"} <= set(dir(topi))


def test_importing_topi_loads_no_operators() -> None:
    code = "import sys\nfrom tilewright import topi\nprint(sorted(m for m in sys.modules if m.startswith('tilewright.topi.')))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "['tilewright.topi.homes', 'tilewright.topi.lazy']"


def test_cutting_long_chains_takes_little_time() -> None:
    import time

    a, b = matrices(2, 8)
    x = a
    for at in range(150):
        x = topi.nn.relu(product(x, b, f"P{at}")) if at % 3 == 0 else topi.add(x, 1.0)
    began = time.process_time()
    s = topi.schedule(x)
    assert time.process_time() - began < 5
    assert len(s.stages) > 150


@pytest.mark.parametrize(
    "options, vector",
    [
        ("-mtriple=aarch64-unknown-linux-gnu", r"v\d+\.4s"),
        ("-mtriple=aarch64-unknown-linux-gnu -mattr=+sve", r"v\d+\.4s|z\d+\.s"),
        ("-mcpu=x86-64", "xmm"),
        ("-mcpu=haswell", "ymm"),
        ("-mtriple=riscv64-unknown-linux-gnu", r"fmul\.s|fadd\.s|fmax\.s|fl[tw]\b"),
        ("-mtriple=riscv64-unknown-linux-gnu -mattr=+v", r"\bvf\w+\.v"),
    ],
)
def test_other_machines_get_their_vectors(options: str, vector: str) -> None:
    a = te.placeholder((48, 300), name="A")
    out = topi.nn.relu(topi.add(topi.transpose(a), topi.exp(topi.sum(a, 1))))
    assert len(re.findall(vector, tw.build([a, out], target=f"llvm {options}").source("asm"))) > 8
