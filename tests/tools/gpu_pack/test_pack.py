"""The pack for a machine with a GPU: made here, and its program run against a driver that computes nothing."""

from __future__ import annotations

import importlib
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fake_gpu import fake_library

pack: Any = importlib.import_module("tilewright.tools.gpu_pack.pack")
probe: Any = importlib.import_module("tilewright.tools.gpu_pack.probe")
ONLY = ("p_vector_add_half", "p_two_kernels", "p_wgmma_by_narrow_boxes")


@pytest.fixture(scope="module")
def packed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a few cases."""
    folder = tmp_path_factory.mktemp("pack") / "gpu"
    made = {each.case.name: each for each in pack.cases(pack.ARCHITECTURES)}
    folder.mkdir()
    built = [pack.asdict(pack.build(made[name], folder)) for name in ONLY]
    (folder / "cases.json").write_text(json.dumps(built))
    (folder / "probe.py").write_text(Path(probe.__file__).read_text())
    return folder


def run(folder: Path, *options: str, driver: bool = True) -> tuple[int, list[dict[str, Any]], str]:
    """The exit status of the program, the lines that it wrote, and what it said."""
    out = folder / "found.jsonl"
    out.unlink(missing_ok=True)
    environment = {**os.environ, "LD_LIBRARY_PATH": str(fake_library()) if driver else "", "PYTHONPATH": ""}
    command = [sys.executable, folder / "probe.py", "--out", out, *options]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120)
    lines = [json.loads(line) for line in out.read_text().splitlines()] if out.exists() else []
    return done.returncode, lines, done.stdout + done.stderr


def test_all_that_is_timed_is_among_the_cases_and_has_a_peer() -> None:
    made = pack.cases(pack.ARCHITECTURES)
    names = [each.case.name for each in made]
    assert len(set(names)) == len(names) and len(names) > 60
    assert {each.case.reference for each in made} == {*probe.PEERS, "file"}
    assert all(bool(each.case.unit) == (each.case.reference != "file") for each in made)


def test_a_driver_that_computes_nothing_is_found_wrong(packed: Path) -> None:
    status, lines, said = run(packed)
    assert status == 1, said
    machine, *found, last = lines
    assert machine["machine"] | {"gpu": "Fake 0", "capability": 90, "processors": 3} == machine["machine"]
    assert [line["name"] for line in found] == [*ONLY] and last["wrong"] == len(ONLY)
    for line in found:
        assert line["status"] == 0 and line["right"] is False and line["off"] > 0
        assert [kernel["registers"] for kernel in line["kernels"]] == [40] * len(line["kernels"])
    assert [len(line["kernels"]) for line in found] == [1, 2, 1] or [len(line["kernels"]) for line in found] == [
        0,
        0,
        1,
    ]


def test_what_is_right_is_told(packed: Path) -> None:
    """Memory that nobody writes holds 77, of which a file says that it is expected."""
    name = ONLY[0]
    held = dict(np.load(packed / f"{name}.npz"))
    np.savez(packed / f"{name}.npz", **{**held, "expected": np.full_like(held["expected"], 77)})
    status, lines, said = run(packed, "--only", name)
    assert status == 0 and lines[1]["right"] is True and lines[1]["off"] == 0, said
    np.savez(packed / f"{name}.npz", **held)


def test_a_case_that_takes_too_long_costs_no_other_and_late_ones_are_left(packed: Path) -> None:
    status, lines, _ = run(packed, "--limit", "0.001")
    assert status == 1 and [line["ended"] for line in lines[1:-1]] == ["time"] * len(ONLY)
    status, lines, _ = run(packed, "--seconds", "0")
    assert status == 0 and [line["left"] for line in lines[1:-1]] == [True] * len(ONLY)


def test_where_nothing_can_run_it_says_why(packed: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(probe, "DRIVER", "libno_such_driver.so.1")
    assert "this machine has no NVIDIA driver" in probe.missing()
    monkeypatch.setattr(probe, "FOLDER", packed)
    assert probe.main([]) == 3
