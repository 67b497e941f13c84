"""`make gpu`: what it says without a GPU, and that its way is a right one, gone dry on the emulator."""

from __future__ import annotations

import importlib
import json
import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import drawn
import numpy as np
import pytest
from tilewright.runtime import cuda_driver

ROOT = Path(__file__).resolve().parents[3]
gpu: Any = importlib.import_module("tilewright.tools.benchmarks.gpu")
works: Any = importlib.import_module("tilewright.tools.benchmarks.gpu_works")
HALF_A_COPY = 0.5 * works.COPY.amount(8192) / 1e6


def test_without_a_driver_it_says_what_is_missing(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(cuda_driver, "DRIVER_LIBRARY", "libno_such_driver.so.1")
    monkeypatch.chdir(tmp_path)
    assert gpu.main() == 3
    said = capsys.readouterr().out
    assert said.startswith("not run: CudaError TW0830: cannot run on a GPU: this machine has no NVIDIA driver\n")
    assert "libno_such_driver.so.1" in said and "install NVIDIA's driver" in said and "called at" not in said
    kept = json.loads((tmp_path / "out/gpu.json").read_text())
    assert kept["ran"] is False and "TW0830" in kept["why"]


def test_it_is_a_program_of_its_own(tmp_path: Path) -> None:
    """Started as the Makefile does. On a machine with a GPU it may take its time, so it is told that there is none."""
    environment = os.environ | {"CUDA_VISIBLE_DEVICES": "", "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [sys.executable, "-m", "tools.benchmarks.gpu"], cwd=tmp_path, env=environment, capture_output=True, text=True
    )
    assert done.returncode == 3, done.stderr
    assert done.stdout.startswith("not run: CudaError TW083")
    assert "tools.benchmarks.gpu" in (ROOT / "Makefile").read_text()


def test_a_dry_run_goes_all_the_way(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """But for the tuning, which has tests of its own."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(gpu, "tuned", lambda size, target, trials, folder: {"target": target})
    assert gpu.main(["--dry"]) == 0
    report = json.loads((tmp_path / "out/gpu.json").read_text())
    assert report["dry"] and report["tuning"] == {"target": "cuda -arch=sm_80"} and not report["left_out"]
    assert [row["agrees"] for row in report["rows"]] == [True, True] and not any(
        each["error"] for each in report["checks"]
    )
    assert "matmul float32" in (tmp_path / "out/gpu.html").read_text()


@pytest.mark.parametrize("name", drawn.part(gpu.HOPPER, 2))
def test_what_an_h100_has_alone_is_checked_on_the_same_way(name: str) -> None:
    assert {*gpu.SAMPLE_90A} <= {*gpu.HOPPER} and not {*gpu.HOPPER} & {*gpu.PROGRAMS}
    assert gpu.check(name, gpu.EMULATED.replace("sm_80", "sm_90a"), gpu.Numpy()) == {"kernel": name, "error": ""}


def test_a_wrong_kernel_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    peer = gpu.Numpy()
    right = gpu.PROGRAMS["vector_add"]()
    wrong = gpu.Program(right.schedule, right.args, lambda a, b: a - b)
    monkeypatch.setitem(gpu.PROGRAMS, "vector_add", lambda: wrong)
    assert "Not equal to tolerance" in gpu.check("vector_add", gpu.EMULATED, peer)["error"]


def test_what_is_judged_is_the_mean_of_ratios() -> None:
    names = ("work", "group", "asked", "ms", "rate", "peer_ms", "triton_ms")
    rows = [
        {"size": 8192, **dict(zip(names, values, strict=True))}
        for values in (
            ("copy", "bandwidth", None, 1.0, 500.0, 1.0, None),
            ("add", "bandwidth", 1.0, 1.0, HALF_A_COPY, 1.0, 2.0),
            ("a", "layers", 0.9, 2.0, 1.0, 1.0, None),
            ("b", "layers", 0.9, 1.0, 1.0, 2.0, None),
        )
    ]
    found = {line["what"]: (round(line["is"], 6), line["holds"]) for line in gpu.judge_rows(rows)}
    assert found == {
        "bandwidth, beside the peer": (1.0, True),
        "bandwidth, beside Triton": (2.0, True),
        "bandwidth, beside a copy's bandwidth": (0.5, False),
        "layers, beside the peer": (1.0, True),
    }


@pytest.mark.parametrize(
    ("capability", "target"),
    [((8, 0), "sm_80"), ((8, 9), "sm_89"), ((9, 0), "sm_90a"), ((10, 3), "sm_103"), ((12, 1), "sm_120")],
)
def test_the_target_is_the_best_that_runs(
    monkeypatch: pytest.MonkeyPatch, capability: tuple[int, int], target: str
) -> None:
    monkeypatch.setattr(gpu, "find_binding", lambda: None)
    monkeypatch.setattr(gpu, "find_driver", lambda: SimpleNamespace(capability=lambda _: capability))
    assert gpu.best_target() == f"cuda -arch={target}"


@pytest.mark.parametrize(
    "work", drawn.part([work for work in works.WORK if "conv" not in work.name], 2), ids=lambda work: work.name
)
def test_work_and_peer_mean_the_same(work: Any) -> None:
    """By numpy, where that has what the peer calls."""
    tensors = work.declare(7)
    _, inputs = gpu.draw_inputs(tensors)
    theirs = work.peer(np, *inputs)
    if theirs is not None:
        ours = np.empty([int(extent) for extent in tensors[-1].shape], str(tensors[-1].dtype))
        gpu.tw.build(tensors)(*inputs, ours)
        np.testing.assert_allclose(ours.astype("float64"), theirs.astype("float64"), rtol=1e-2, atol=1e-2)


@pytest.mark.parametrize("name", drawn.part([work.name for work in works.WORK], 1))
def test_the_sizes_that_are_timed_compile(name: str) -> None:
    work = next(one for one in works.WORK if one.name == name)
    code = gpu.tw.build(work.declare(work.size), target="cuda -arch=sm_90").source("sass")
    assert ("HMMA" in code) >= (name == "matmul float16")
    assert "LDL" not in code, "nothing is spilled"
