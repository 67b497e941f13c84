"""`tilewright doctor --calibrate`: what is measured, shown and kept. No test says how fast this machine is."""

from __future__ import annotations

from pathlib import Path

import pytest
from tilewright.cli import calibration, main
from tilewright.cli.doctor import examine
from tilewright.codegen.calibration import MEASURES, read_calibration
from tilewright.codegen.machine import find_machine
from tilewright.codegen.target import Target
from tilewright.runtime.threads import available_cpus, num_threads

ROW = find_machine(Target.parse("llvm -uncalibrated"))


def test_all_measures_come_out_of_kernels_that_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(calibration, "REPEAT", 1)
    monkeypatch.setattr(calibration, "LEAST", 1e-6)
    monkeypatch.setattr(calibration, "MOST_BYTES", 1 << 20)
    before = num_threads()
    values = {name: value for found in calibration.measured(ROW) for name, value in found.items()}
    wanted = MEASURES.keys() - ({"memory_shared", "fork"} if available_cpus() == 1 else set())
    assert values.keys() == wanted and all(value > 0 for value in values.values())
    assert num_threads() == before


def test_it_is_kept_and_its_difference_from_the_row_is_shown(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    path = tmp_path / "measured.json"
    monkeypatch.setenv("TILEWRIGHT_CALIBRATION", str(path))
    assert ("calibration", False) in [(finding.part, finding.found) for finding in examine()]
    monkeypatch.setattr(calibration, "measured", lambda row: iter([{"clock": 2.6049}, {"fork": 1e30, "write": 1.5}]))
    assert main(["doctor", "--calibrate"]) == 0
    told = capsys.readouterr().out
    lines = [line.split() for line in told.splitlines()]
    rows = [line[:3] for line in lines if line[:1] in (["clock"], ["fork"], ["write"])]
    assert sorted(rows) == [
        ["clock", f"{ROW.clock:.3g}", "2.6"],
        ["fork", f"{ROW.fork:.3g}", "1e+09"],
        ["write", f"{ROW.write:.3g}", "1.5"],
    ]
    assert str(path) in told
    kept = read_calibration(Target.parse("llvm"))
    assert kept is not None and dict(kept.values) == {"clock": 2.6, "fork": 1e9, "write": 1.5}
    assert ("calibration", True) in [(finding.part, finding.found) for finding in examine()]


@pytest.mark.parametrize("before", [None, "damaged"])
def test_what_cannot_be_used_is_measured_again(
    before: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "measured.json"
    if before is not None:
        path.write_text(before)
    monkeypatch.setenv("TILEWRIGHT_CALIBRATION", str(path))
    monkeypatch.setenv("TILEWRIGHT_CACHE_DIR", str(tmp_path / "cache"))  # whose keys say what was measured
    monkeypatch.setattr(calibration, "REPEAT", 1)
    monkeypatch.setattr(calibration, "measured", lambda row: iter([{"clock": calibration._clock()}]))
    assert main(["doctor", "--calibrate"]) == 0
    assert read_calibration(Target.parse("llvm")) is not None


def test_nothing_is_kept_where_nothing_may_be_or_can_be(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(calibration, "measured", lambda row: iter([{"clock": 2.6}]))
    monkeypatch.setenv("TILEWRIGHT_CALIBRATION", "0")
    assert main(["doctor", "--calibrate"]) == 0
    assert "not kept" in capsys.readouterr().out
    (tmp_path / "file").touch()
    monkeypatch.setenv("TILEWRIGHT_CALIBRATION", str(tmp_path / "file" / "measured.json"))
    assert main(["doctor", "--calibrate"]) == 1
    assert "cannot be kept" in capsys.readouterr().out
