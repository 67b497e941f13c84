"""tilewright bench: what is measured, compared and written. No test here depends on how long anything takes."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tilewright as tw
from tilewright import te
from tilewright.cli import main
from tilewright.graph import Builder
from tilewright.tools.benchmarks import harness
from tilewright.tools.benchmarks.cases import (
    Case,
    Unsupported,
    align,
    draw_integers,
    empty,
    floats,
    groups,
    kernel,
    load_cases,
)
from tilewright.tools.benchmarks.ceiling import Ceilings
from tilewright.tools.benchmarks.compile import OPERATORS, _operator, _program
from tilewright.tools.benchmarks.compile_models import MODELS
from tilewright.tools.benchmarks.compile_steps import STEPS, time_kept, time_steps
from tilewright.tools.benchmarks.measure import measure
from tilewright.tools.benchmarks.page import render, roofline
from tilewright.tools.benchmarks.peers import numpy_peer
from tilewright.tools.benchmarks.peers.onnx_model import Node
from tilewright.tools.benchmarks.programs import PROGRAMS

SIZE = 64


class FixedCeilings:
    """A machine of 4 operations and 2 bytes a second."""

    def fma(self) -> float:
        return 4.0

    def read(self) -> float:
        return 2.0

    copy = read


def doubled() -> Any:
    a = te.placeholder((SIZE,), name="A")
    b = te.compute((SIZE,), lambda i: a[i] * 2, name="B")
    return tw.build([a, b])


def case(**changes: Any) -> Case:
    given: dict[str, Any] = {
        "group": "test",
        "name": "double",
        "inputs": floats((SIZE,)),
        "outputs": [((SIZE,), "float32")],
        "ours": kernel(doubled),
        "peers": {"numpy": numpy_peer.call(lambda x: x * 2)},
        "flops": SIZE,
        "bytes": 8 * SIZE,
    }
    return Case(**given | changes)


def row_of(one: Case, rounds: int = 3) -> dict[str, Any]:
    return measure(one, FixedCeilings(), rounds)  # pyright: ignore[reportArgumentType]


def test_a_row_says_how_we_stand_to_every_peer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    into = numpy_peer.call(lambda x, out: np.multiply(x, 2, out=out), out=True)
    row = row_of(case(peers={"numpy": numpy_peer.call(lambda x: x * 2), "into": into}))
    assert row["group"] == "test" and row["name"] == "double" and row["threads"] == 1 and row["rounds"] == 3
    assert set(row["peers"]) == {"numpy", "into"} and row["best"] in row["peers"] and not row["missing"]
    assert row["best"] == min(row["peers"], key=lambda name: row["peers"][name]["ms"])
    assert row["ratio"] == row["peers"][row["best"]]["ratio"] > 0 and 0 <= row["spread"] < 10
    assert row["share"] == pytest.approx(8 * SIZE / 2 / (row["ours_ms"] / 1e3))  # the memory is the lower roof
    assert json.loads(json.dumps(row)) == row


@pytest.mark.parametrize(
    "ceiling, seconds", [("fma", SIZE / 4), ("read", 4 * SIZE), ("copy", 4 * SIZE), ("roof", 4 * SIZE)]
)
def test_shares_are_of_the_ceiling_that_the_case_names(ceiling: str, seconds: float) -> None:
    row = row_of(case(ceiling=ceiling))
    assert row["share"] * row["ours_ms"] / 1e3 == pytest.approx(seconds)


def test_sides_run_in_turn_and_begin_in_turn() -> None:
    order: list[str] = []

    def side(name: str) -> Callable[..., Any]:
        def builder(inputs: Any, outputs: Any) -> Any:
            def run() -> None:
                order.append(name)
                outputs[0][...] = inputs[0] * 2

            return run

        return builder

    row_of(case(ours=side("ours"), peers={"a": side("a"), "b": side("b")}), rounds=4)
    turns = [name for name, before in zip(order, [None, *order], strict=False) if name != before]
    assert turns[-12:] == ["ours", "a", "b", "a", "b", "ours", "b", "ours", "a", "ours", "a", "b"]


WRONG: dict[str, tuple[Callable[..., Any], str]] = {
    "value": (
        numpy_peer.call(lambda x: x * np.float32(2.01)),
        r"output 0 differs from numpy's in \d+ of 64 elements, first at \(",
    ),
    "shape": (numpy_peer.call(lambda x: x[1:] * 2), r"output 0 has shape \(63,\), numpy's has \(64,\)"),
    "nan": (numpy_peer.call(lambda x: x * np.nan), "in 64 of 64 elements"),
    "count": (numpy_peer.call(lambda x: (x * 2, x)), "2 outputs, numpy has 1"),
}


@pytest.mark.parametrize("what", WRONG)
def test_a_side_with_other_results_is_not_timed(what: str) -> None:
    wrong, told = WRONG[what]
    good = numpy_peer.call(lambda x: x * 2)
    row = row_of(case(peers={"numpy": good, "wrong": wrong}))
    assert set(row["peers"]) == {"numpy"} and re.search(told, row["missing"]["wrong"])
    row = row_of(case(ours=wrong, peers={"numpy": good}))
    assert re.search(told, row["failed"]) and "ratio" not in row


def test_outputs_that_nobody_wrote_are_not_mistaken_for_results() -> None:
    row = row_of(case(ours=lambda inputs, outputs: lambda: None))
    assert "in 64 of 64 elements" in row["failed"]


def test_peers_that_are_missing_or_refuse_are_named_with_the_reason() -> None:
    def absent(inputs: Any, outputs: Any) -> Any:
        raise ModuleNotFoundError("No module named 'nobody'", name="nobody")

    def unable(inputs: Any, outputs: Any) -> Any:
        raise Unsupported("odd sizes")

    def failing(inputs: Any, outputs: Any) -> Any:
        return lambda: np.linalg.inv(np.zeros(3))

    row = row_of(
        case(peers={"absent": absent, "unable": unable, "failing": failing, "numpy": numpy_peer.call(lambda x: x * 2)})
    )
    assert row["missing"]["absent"] == "not installed (nobody)" and row["missing"]["unable"] == "odd sizes"
    assert row["missing"]["failing"].startswith("LinAlgError: ") and set(row["peers"]) == {"numpy"}


def test_the_cost_of_exact_results_is_shown_and_is_no_peer() -> None:
    row = row_of(case(exact=kernel(doubled)))
    assert row["exact"] > 0 and set(row["peers"]) == {"numpy"}
    assert f"×{row['exact']:.2f}" in render({}, [row]) and "exact" not in harness.peer_names([row])
    wrong = row_of(case(exact=numpy_peer.call(lambda x: x * 3)))
    assert wrong["failed"].startswith("exact: output 0 differs from numpy's in 64 of 64 elements")


def test_without_peers_a_row_has_no_ratio() -> None:
    row = row_of(case(peers={}))
    assert row["best"] is None and row["ratio"] is None and row["ours_ms"] > 0
    assert "nan" not in render({}, [row])


def test_bfloat16_inputs_and_outputs_are_ml_dtypes() -> None:
    made = empty((3, 5), "bfloat16")
    assert made.dtype.name == "bfloat16" and made.shape == (3, 5) and made.ctypes.data % 64 == 0
    assert align(np.arange(5)).tolist() == [0, 1, 2, 3, 4]
    (drawn,) = draw_integers(-3, 3, "int8", (100,))(np.random.default_rng(0))
    assert drawn.dtype == np.int8 and set(drawn) == set(range(-3, 3))


def test_a_ceiling_that_nobody_knows_is_refused() -> None:
    with pytest.raises(ValueError, match="test double: no ceiling 'sky'; there are fma, read, copy, roof"):
        case(ceiling="sky")


def test_the_ceilings_loops_run() -> None:
    found = Ceilings(2)
    assert min(found.fma(0.0005), found.read(), found.copy()) > 1e8


# Peers


def peer(name: str) -> Any:
    pytest.importorskip({"ort": "onnxruntime", "opencv": "cv2"}.get(name, name))
    return import_module(f"tilewright.tools.benchmarks.peers.{name}_peer")


def run_peer(builder: Any, inputs: list[Any], shape: tuple[int, ...], dtype: str = "float32") -> Any:
    out = empty(shape, dtype)
    given = builder(inputs, [out])()
    return out if given is None else np.asarray(given)


@pytest.mark.parametrize(
    "name, m, k, n",
    [("numpy", 5, 7, 9), ("torch", 5, 7, 9), ("jax", 5, 7, 9), ("halide", 13, 20, 130), ("halide", 30, 8, 16)],
)
def test_peers_products(name: str, m: int, k: int, n: int) -> None:
    a, b = floats((m, k), (k, n))(np.random.default_rng(0))
    np.testing.assert_allclose(run_peer(peer(name).matmul, [a, b], (m, n)), a @ b, rtol=1e-4, atol=1e-4)


def test_peers_softmax_by_halide() -> None:
    (x,) = floats((11, 128))(np.random.default_rng(0))
    wanted = np.exp(x) / np.exp(x).sum(1, keepdims=True)
    np.testing.assert_allclose(run_peer(peer("halide").softmax, [x], x.shape), wanted, rtol=1e-4)


@pytest.mark.parametrize("name", ["ort", "openvino"])
def test_peers_weights_may_be_part_of_a_model_of_onnx(name: str) -> None:
    a, b = floats((3, 4), (4, 5))(np.random.default_rng(0))
    nodes = [Node("MatMul", ["x0", "x1"], ["product"]), Node("Add", ["product", "one"])]
    got = run_peer(peer(name).call(nodes, constants=[1], extra={"one": np.ones(1, np.float32)}), [a, b], (3, 5))
    np.testing.assert_allclose(got, a @ b + 1, rtol=1e-5)


def test_peers_blur_by_halide_and_numba() -> None:
    x = np.random.default_rng(0).integers(0, 65536 // 3, (66, 130)).astype(np.uint16)
    rows = (x[:, :-2] + x[:, 1:-1] + x[:, 2:]) // 3
    wanted = (rows[:-2] + rows[1:-1] + rows[2:]) // 3
    np.testing.assert_array_equal(run_peer(peer("halide").box_blur, [x], wanted.shape, "uint16"), wanted)


def loops(x: Any, y: Any) -> None:
    for i in prange(x.shape[0]):  # noqa: F821  (numba_peer puts it here)
        y[i] = x[i] * 2


def test_peers_loops_by_numba_and_functions_of_opencv() -> None:
    (x,) = floats((50, 60))(np.random.default_rng(0))
    np.testing.assert_array_equal(run_peer(peer("numba").call(loops), [x], x.shape), x * 2)
    twice = peer("opencv").call(lambda cv2, inputs, outputs: cv2.add(inputs[0], inputs[0], dst=outputs[0]) is None)
    out = empty(x.shape, "float32")
    twice([x], [out])()
    np.testing.assert_array_equal(out, x * 2)


def test_the_network_gives_what_torch_gives_without_folding() -> None:
    torch = pytest.importorskip("torch")
    from tilewright.tools.benchmarks import resnet18

    image, logits = floats((1, 3, 224, 224))(np.random.default_rng(0))[0], np.empty((1, 1000), np.float32)
    network = resnet18.Network(image, resnet18.weights(), logits)
    network()
    wanted = resnet18.torch_forward(torch.from_numpy(image), resnet18.weights(), fold=False)().numpy()
    np.testing.assert_allclose(logits, wanted, rtol=1e-4, atol=1e-4 * np.abs(wanted).max())
    assert len(network.steps) == 23 and resnet18.flops() == pytest.approx(3.63e9, rel=1e-2)
    first = logits.copy()
    network()
    np.testing.assert_array_equal(logits, first)  # activations are written anew


# The cases that there are


def test_every_case_has_a_label_of_its_own_and_work_to_do() -> None:
    cases = load_cases()
    labels = [one.label for one in cases]
    assert len(set(labels)) == len(labels)
    assert all(one.bytes > 0 and callable(one.ours) and all(map(callable, one.peers.values())) for one in cases)
    assert {"demo"} <= set(groups(cases))
    assert {one.group for one in load_cases(["stencil", "gemm"])} >= {"box blur", "gemm"}
    assert load_cases(["demo unsharp mask"]) == [one for one in cases if one.label == "demo unsharp mask"]


# The harness


def fake_python(folder: Path, text: str) -> str:
    """A program in place of Python's interpreter."""
    path = folder / "python"
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return str(path)


def a_row(name: str, **changes: Any) -> dict[str, Any]:
    return {
        "group": "demo",
        "name": name,
        "threads": 1,
        "flops": 2e9,
        "bytes": 1e7,
        "ceiling": "fma",
        "ours_ms": 20.0,
        "rounds": 11,
        "ours_fastest_ms": 19.0,
        "peers": {"numpy": {"ms": 21.0, "ratio": 1.05, "busy": 1.0}},
        "best": "numpy",
        "ratio": 1.05,
        "share": 0.9,
        "best_share": 0.85,
        "limits": {"fma": 116.0},
        "busy": 1.0,
        "missing": {"torch": "not installed (torch)"},
    } | changes


def test_a_process_that_dies_costs_one_row(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first process does one case and dies of the next; the second does what is left."""
    cases = [case(name=name) for name in ("one", "two", "three")]
    done = {name: json.dumps(a_row(name, group="test")) for name in ("one", "three")}
    monkeypatch.setattr(
        harness.sys,
        "executable",
        fake_python(
            tmp_path,
            f"""case "$*" in *one*) echo noise; echo '{done["one"]}'; kill -9 $$;; *) echo '{done["three"]}';; esac""",
        ),
    )
    rows = list(harness.run_cases(cases, [1]))
    assert [row["name"] for row in rows] == ["one", "two", "three"]
    assert rows[1]["failed"] == "the process ended with status -9" and "failed" not in rows[0] | rows[2]


def test_everyone_gets_as_many_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", "7")
    given = harness._environment(2)
    assert {given[f"{name}_NUM_THREADS"] for name in ("OMP", "OPENBLAS", "MKL", "NUMBA", "HL")} == {"2"}


def test_what_is_printed_and_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    busy = {"numpy": {"ms": 16.0, "ratio": 0.8, "busy": 2.9}}
    rows = [a_row("unsharp mask", spread=0.031), a_row("unsharp mask", threads=2, ratio=0.8, peers=busy)]
    monkeypatch.setattr(harness, "run_cases", lambda cases, threads, realtime, seed: iter(rows))
    assert main(["bench", "demo unsharp mask", "--out", str(tmp_path)]) == 0
    told = capsys.readouterr().out
    assert (
        "[1/2] demo unsharp mask, 1 threads: 20 ms; best peer numpy 21 ms, ratio 1.050 ±3%, 90% fma of the ceiling"
        in told
    )
    assert "16*" in told and "n/a" in told
    kept = json.loads((tmp_path / "bench-demo.json").read_text())
    assert kept["rows"] == rows and {"machine", "numpy", "tilewright"} <= set(kept["about"])
    assert "1.050 ±3 %" in (tmp_path / "bench-demo.html").read_text(), (
        "how far the turns differ stands beside the ratio"
    )


def test_a_failed_row_fails_the_command(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    failed = {"group": "demo", "name": "unsharp mask", "threads": 1, "ceiling": "copy", "failed": "output 0 differs"}
    monkeypatch.setattr(harness, "run_cases", lambda cases, threads, realtime, seed: iter([failed]))
    assert main(["bench", "demo unsharp mask", "--out", str(tmp_path)]) == 1
    assert "output 0 differs" in capsys.readouterr().out
    assert "output 0 differs" in (tmp_path / "bench-demo.html").read_text()


def test_names_are_listed_and_unknown_ones_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bench"]) == 0
    assert "unsharp mask" in capsys.readouterr().out
    assert main(["bench", "no such group"]) == 2
    assert "no case or group 'no such group'" in capsys.readouterr().out
    with pytest.raises(SystemExit, match=r"^2$"):
        main(["bench", "demo", "--threads", "0"])


def test_a_real_case_is_measured_in_a_process_of_its_own(tmp_path: Path) -> None:
    pytest.importorskip("skimage")
    command = [
        sys.executable,
        "-m",
        "tilewright",
        "bench",
        "demo unsharp mask",
        "--threads",
        "1",
        "--out",
        str(tmp_path),
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr
    (row,) = json.loads((tmp_path / "bench-demo.json").read_text())["rows"]
    assert row["rounds"] == 11 and row["best"] == "numpy" and row["share"] > 0


# The page


def test_the_page_needs_nothing_else_and_escapes_names() -> None:
    text = render({"machine": "<b>&co"}, [a_row("<script>alert(1)</script>")])
    assert "<script>" not in text and "&lt;script&gt;" in text and "&lt;b&gt;&amp;co" in text
    assert not re.search(r"(src|href)=|url\(|https?:|@import", text)
    assert "prefers-color-scheme: dark" in text and "<svg" in text


def test_the_roofline_holds_every_point_inside_its_frame() -> None:
    rows = [
        a_row("a", limits={"fma": 116.0, "copy": 40.0}),
        a_row("b", flops=1e3, bytes=4e9, threads=2, limits={"fma": 230.0}),
        a_row("c", flops=0),
    ]
    picture = roofline(rows)
    assert picture is not None
    assert len(picture.marks) == 4 and sum(mark.ours for mark in picture.marks) == 2 and len(picture.roofs) == 2
    assert all(60 <= mark.x <= 880 and 20 <= mark.y <= 380 for mark in picture.marks)
    ours = next(mark for mark in picture.marks if mark.ours)
    assert ours.title == "demo a, 1 threads: ours 100 GFLOP/s"
    corners = [tuple(map(float, corner.split(","))) for corner in picture.roofs[0][0].split()]
    assert corners[0][1] > corners[1][1] == corners[2][1]  # up, then level
    assert roofline([a_row("c", flops=0)]) is None


def test_a_build_is_timed_step_by_step_and_pass_by_pass() -> None:
    steps, passes = time_steps(_program(PROGRAMS["vector_add"]))
    assert set(steps) == {*STEPS, "whole"} and steps["lower"] > 0 and steps["graph"] == 0
    assert {"simplify", "vectorize"} <= set(passes)
    relu = _operator(*OPERATORS["relu"])
    assert time_steps(relu)[0]["choose"] > 0 and time_kept(relu) > 0
    assert len(PROGRAMS) + len(OPERATORS) == 40


def test_the_build_of_a_model_is_timed_step_by_step() -> None:
    b = Builder("net")
    b.output("y", b.node("matmul", b.input("x", (2, 3)), b.param("w", np.ones((3, 4), "float32"))))
    g = b.graph()
    steps, _ = time_steps(lambda: tw.build(g))
    assert min(steps.values()) > 0
    assert sum(steps[step] for step in STEPS) < steps["whole"]
    assert len(MODELS) == 12
    assert all(make().nodes for make in MODELS.values())
