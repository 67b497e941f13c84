"""What was measured of a machine: how it is kept, when it counts, and what is no such file."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import tilewright as tw
from tilewright import te
from tilewright.autotune.task import Task
from tilewright.codegen import machine as codegen_machine
from tilewright.codegen.calibration import MEASURES, Calibration, calibration_file, keep, machine_text, read_calibration
from tilewright.codegen.errors import BadCalibration, UnknownTargetOption
from tilewright.codegen.machine import find_machine
from tilewright.codegen.target import Target
from tilewright.driver.cache.key import _target_text  # pyright: ignore[reportPrivateUsage]
from tilewright.runtime.hosts import linux

HERE = Target.parse("llvm")
SLOW = Calibration((("fma.latency", 8.4), ("fma.rate", 0.5), ("memory_rate", 0.25), ("fork", 77.0)))


@pytest.fixture
def kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A file that SLOW is kept in."""
    path = tmp_path / "folder" / "measured.json"
    monkeypatch.setenv("TILEWRIGHT_CALIBRATION", str(path))
    assert keep(SLOW) == path
    return path


def product() -> list[te.Tensor]:
    a, b = te.placeholder((96, 131), name="a"), te.placeholder((131, 160), name="b")
    k = te.reduce_axis((0, 131), "k")
    return [a, b, te.compute((96, 160), lambda i, j: te.max(a[i, k] + b[k, j], axis=k), name="c")]


def test_what_is_kept_takes_the_place_of_the_row(kept: Path) -> None:
    row, machine = find_machine(Target.parse("llvm -uncalibrated")), find_machine(HERE)
    assert (machine.fma_latency, machine.instructions.fma.rate, machine.memory_rate, machine.fork) == (
        8,
        0.5,
        0.25,
        77.0,
    )
    assert machine.fma_rate == 1, "less than one a cycle is not a reason to have no sums at all"
    instructions = replace(machine.instructions, fma=row.instructions.fma)
    assert replace(machine, instructions=instructions, memory_rate=row.memory_rate, fork=row.fork) == row, (
        "the rest stays"
    )
    assert oct(kept.stat().st_mode & 0o777) == "0o600" and not list(kept.parent.glob("*.part"))


def test_each_measure_is_a_value_of_a_machine_and_is_read_as_it_was_written(kept: Path) -> None:
    values = {name: min(max(1.2345678901, measure.least), measure.most) for name, measure in MEASURES.items()}
    keep(Calibration(tuple(values.items())))
    machine = find_machine(HERE)
    for name, value in values.items():
        unit, _, part = name.partition(".")
        found = getattr(getattr(machine.instructions, unit), part) if part else getattr(machine, name)
        assert found == (round(value) if part == "latency" else value)


def test_estimates_follow_what_was_measured(kept: Path) -> None:
    *_, out = product()
    measured, usual = (tw.autoschedule.schedule(out, calibration=which).plan[0] for which in ("kept", None))
    assert measured.machine.fork == 77.0 and usual.machine.fork != 77.0
    keep(Calibration((*SLOW.values, ("add.rate", 0.01), ("select.rate", 0.01))))
    slower = tw.autoschedule.schedule(out).plan[0]
    assert slower.seconds is not None and usual.seconds is not None and slower.seconds > 10 * usual.seconds
    others = dict(usual.candidates)
    same = [(estimate, others[text]) for text, estimate in slower.candidates if others.get(text) is not None]
    assert len(same) > 8 and all(one and other and one.seconds > 10 * other.seconds for one, other in same)


def test_builds_are_known_by_what_was_measured(kept: Path) -> None:
    def keys() -> tuple[str, str]:
        return _target_text(HERE), Task.of(product()).key.target

    before = keys()
    assert all(SLOW.digest in text for text in before)
    keep(Calibration((("fork", 78.0),)))
    assert all(new != old for new, old in zip(keys(), before, strict=True))
    assert " calibrated" not in _target_text(Target.parse("llvm -uncalibrated"))
    tw.build(product(), calibration=None)


@pytest.mark.parametrize(
    "target",
    [
        "llvm -uncalibrated",
        "llvm -mcpu=x86-64",
        "llvm -mtriple=riscv64-unknown-linux-gnu",
        "llvm -mattr=-fma" if HERE.architecture == "x86_64" else "llvm -mattr=-fullfp16",
        "c",
        "interpret",
        "cuda -arch=sm_90",
    ],
)
def test_other_targets_are_what_they_are_everywhere(kept: Path, target: str) -> None:
    assert read_calibration(Target.parse(target)) is None and read_calibration(HERE) == SLOW


def test_files_are_named_by_their_machine_and_switched_off(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TILEWRIGHT_CALIBRATION", raising=False)
    monkeypatch.setenv("TILEWRIGHT_CACHE_DIR", str(tmp_path))
    assert calibration_file() is None, "the suite leaves nothing in folders"
    monkeypatch.setenv("TILEWRIGHT_CACHE", "1")
    path = calibration_file()
    assert path is not None and path.parent == tmp_path and read_calibration(HERE) is None, "nothing was measured yet"
    keep(SLOW)
    assert read_calibration(HERE) == SLOW and json.loads(path.read_text())["machine"] == machine_text()
    monkeypatch.setattr("tilewright.codegen.calibration.machine_text", lambda: "another")
    assert calibration_file() != path and read_calibration(HERE) is None
    monkeypatch.setenv("TILEWRIGHT_CALIBRATION", "0")
    assert calibration_file() is None and keep(SLOW) is None


def damaged(**changes: Any) -> str:
    whole = {"tilewright": "calibration 1", "machine": machine_text(), "values": {"fork": 77.0}}
    return json.dumps({**whole, **changes})


@pytest.mark.parametrize(
    "content, reason",
    [
        ("", "it is damaged"),
        ("\x00\xff", "it is damaged"),
        ('{"tilewright": ', "it is damaged"),
        ("[" * 9999, "nested deeper"),
        ("[]", "does not hold what was measured"),
        ('{"values": {}}', "does not hold what was measured"),
        (" " * 99999, "longer than"),
        (damaged(tilewright="calibration 9"), "its form is 'calibration 9'"),
        (damaged(machine="a toaster"), "another machine's: 'a toaster'"),
        (damaged(values=[1]), "values are not table"),
        (damaged(values={"luck": 1}), "nothing is known by 'luck'"),
        (damaged(values={"fork": "7"}), "fork is '7'"),
        (damaged(values={"fork": True}), "fork is True"),
        (damaged(values={"fma.rate": 0}), r"fma.rate is 0; it lies between 0.0001 and 16 \(a cycle\)"),
        (damaged(values={"clock": -3.4}), "clock is -3.4"),
        ('{"tilewright": NaN}', "it is damaged"),
    ],
)
def test_what_is_no_such_file_is_refused_and_says_what_to_do(kept: Path, content: str, reason: str) -> None:
    kept.write_text(content, encoding="latin-1")
    with pytest.raises(BadCalibration, match=reason) as refused:
        tw.build(product(), name="product")
    assert refused.value.code == "TW0407" and "tilewright doctor --calibrate" in str(refused.value)
    tw.build(product(), calibration=None)


def test_a_file_that_is_named_has_to_be_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, reason in (("none.json", "there is no such file"), ("", "cannot be read")):
        monkeypatch.setenv("TILEWRIGHT_CALIBRATION", str(tmp_path / name))
        with pytest.raises(BadCalibration, match=reason):
            find_machine(HERE)


def test_calibrations_are_kept_or_none() -> None:
    with pytest.raises(UnknownTargetOption, match="unknown calibration 'fast'"):
        tw.build(product(), calibration="fast")  # pyright: ignore[reportArgumentType, reportCallIssue]


def test_caches_of_this_machine_are_those_that_the_kernel_tells(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for at, (kind, level, size) in enumerate(
        (("Data", 1, "20K"), ("Instruction", 1, "64K"), ("Unified", 2, "777K"), ("Unified", 3, "480M"))
    ):
        entry = tmp_path / f"index{at}"
        entry.mkdir()
        for name, text in (("type", kind), ("level", level), ("size", size)):
            (entry / name).write_text(f"{text}\n")
    monkeypatch.setattr(linux, "CACHES", tmp_path)
    codegen_machine._row.cache_clear()
    try:
        here = find_machine(Target.parse("llvm -uncalibrated"))
        assert (here.l1, here.l2) == (20 << 10, 777 << 10)
        monkeypatch.setattr(linux, "CACHES", tmp_path / "nothing")
        codegen_machine._row.cache_clear()
        usual = find_machine(Target.parse("llvm -uncalibrated"))
        assert usual.l2 != here.l2 and usual.l3 == here.l3
    finally:
        codegen_machine._row.cache_clear()
