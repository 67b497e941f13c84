"""`make gpu`: what it says without a GPU, and that its work and its peers compute the same."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import drawn
import pytest
from tilewright.runtime import cuda_driver

ROOT = Path(__file__).resolve().parents[3]


def loaded(path: Path) -> Any:
    """A module of the tree that no package holds."""
    spec = importlib.util.spec_from_file_location(f"{path.parent.name}_{path.stem}", path)
    assert spec is not None and spec.loader is not None
    module = sys.modules[spec.name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


gpu = loaded(ROOT / "tools" / "benchmarks" / "gpu.py")
SMALL = {"vector add": 1024, "transpose": 64, "matmul float32": 64, "conv2d 3x3": 8, "softmax": 256,
         "matmul float16, tensor cores": 128}


def test_without_a_driver_it_says_what_is_missing_and_ends_well(
        monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(cuda_driver, "DRIVER_LIBRARY", "libno_such_driver.so.1")
    monkeypatch.chdir(tmp_path)
    assert gpu.main() == 0
    said = capsys.readouterr().out
    assert said.startswith("not run: CudaError TW0830: cannot run on a GPU: this machine has no NVIDIA driver\n")
    assert "libno_such_driver.so.1" in said and "install NVIDIA's driver" in said and "called at" not in said
    kept = json.loads((tmp_path / "out/gpu.json").read_text())
    assert kept["ran"] is False and "TW0830" in kept["why"]


def test_it_is_a_program_of_its_own(tmp_path: Path) -> None:
    """Started as the Makefile does. On a machine with a GPU it may take its time, so it is told that there is none."""
    environment = os.environ | {"CUDA_VISIBLE_DEVICES": "", "PYTHONPATH": str(ROOT)}
    done = subprocess.run([sys.executable, "-m", "tools.benchmarks.gpu"], cwd=tmp_path, env=environment,
                          capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("not run: CudaError TW083")
    assert "tools.benchmarks.gpu" in (ROOT / "Makefile").read_text()


@pytest.mark.parametrize("work", gpu.WORK, ids=lambda work: work.name)
def test_work_and_peer_agree(work: Any) -> None:
    """The way of `make gpu`, with torch on the host and the emulator for a GPU."""
    pytest.importorskip("torch")
    row = gpu.measure(work, SMALL[work.name], "cuda -emulate", gpu.Torch("cpu"))
    assert row["agrees"] is True and row["ms"] > 0 and row["peer_ms"] > 0


def test_a_wrong_kernel_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("torch")
    peer = gpu.Torch("cpu")
    assert gpu.check("vector_add", "cuda -emulate", peer) == {"kernel": "vector_add", "error": ""}
    right = gpu.PROGRAMS["vector_add"]()
    wrong = gpu.Program(right.schedule, right.args, lambda a, b: a - b)
    monkeypatch.setitem(gpu.PROGRAMS, "vector_add", lambda: wrong)
    assert "Not equal to tolerance" in gpu.check("vector_add", "cuda -emulate", peer)["error"]


@pytest.mark.parametrize("name", drawn.part([work.name for work in gpu.WORK], 3))
def test_the_sizes_that_are_timed_compile(name: str) -> None:
    work = next(one for one in gpu.WORK if one.name == name)
    program = work.make(work.size)
    code = gpu.tw.build(program.schedule, program.args, target="cuda -arch=sm_90").source("sass")
    assert ("HMMA" in code) == ("tensor cores" in name)
    assert "LDL" not in code, "nothing is spilled"
