"""Measuring on a board by ssh: a program of that name runs the command in another folder, and can fail like a network."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import autotune_faults as faults
import drawn
import pytest
import tilewright as tw
from this_machine import PATIENCE
from tilewright import autotune, te
from tilewright.autotune.board import Address
from tilewright.autotune.errors import BadTuningOption, NoRecord, RunnerLost, TargetCannotBeTuned
from tilewright.autotune.outcome import Limits, Outcome
from tilewright.autotune.records import Database
from tilewright.autotune.ssh import BoardMeasurer, BoardPlace
from tilewright.autotune.task import Task
from tilewright.autotune.trial import Trial
from tilewright.autotune.trial_marks import make_mark
from tilewright.codegen.target import Target

LIMITS = Limits(timeout=5.0 * PATIENCE, budget=0.005, workers=1)

STAND_IN = f"""#!{sys.executable} -SE
import os, subprocess, sys
home = os.path.dirname(os.path.abspath(__file__))
def turn(name):
    # how a file of the folder says that this connection fails: after so many answers
    path = os.path.join(home, name)
    if os.path.exists(path) and "/runner" in sys.argv[-1] and "cat" not in sys.argv[-1]:
        after = int(open(path).read())
        os.unlink(path)
        return after
    return -1
if os.path.exists(os.path.join(home, "unreachable")):
    sys.exit("ssh: connect to host board port 22: No route to host")
drop, hang, garble = turn("drop"), turn("hang"), turn("garble")
board = subprocess.Popen(["/bin/sh", "-c", sys.argv[-1]], stdout=subprocess.PIPE, cwd=home, start_new_session=True,
                         env={{**os.environ, "TMPDIR": home}})
answers = 0
for line in board.stdout:
    answers += 1
    if answers == hang:
        sys.stdin.read()
    if answers == drop:
        sys.exit(255)
    sys.stdout.write("{{}} {{\\n" if answers == garble else line.decode())
    sys.stdout.flush()
sys.exit(board.wait())
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    home = tmp_path_factory.mktemp("board")
    (home / "ssh").write_text(STAND_IN)
    (home / "ssh").chmod(0o755)
    before = os.environ["PATH"]
    os.environ["PATH"] = f"{home}{os.pathsep}{before}"
    yield home
    os.environ["PATH"] = before
    stop = time.monotonic() + 5
    while any(path.name.startswith("tilewright-") for path in home.iterdir()) and time.monotonic() < stop:
        time.sleep(0.05)
    left = [path.name for path in home.iterdir() if path.name.startswith("tilewright-")]
    assert left == [], "a connection leaves its folder behind"


@pytest.fixture(scope="module")
def measurer(folder: Path) -> Iterator[BoardMeasurer]:
    with (
        BoardPlace(f"ssh://someone@board:2222?patience={0.5 * PATIENCE}&threads=3", Target()) as board,
        board.measurer(faults.task(), LIMITS, None) as measurer,
    ):
        assert board.machine.endswith(", 3 threads") and measurer.baseline > 0
        yield measurer


SLOW = ("eight gigabytes", "an endless loop", "garbage, and an end that looks orderly")
EVERYWHERE = [name for name in faults.FAULTS if name not in (*SLOW, "no program")]


@pytest.mark.parametrize("name", drawn.part(EVERYWHERE, 2))
def test_what_a_candidate_does_on_the_board_is_a_typed_failure(measurer: BoardMeasurer, name: str) -> None:
    kind, text = faults.FAULTS[name]
    measurer.losses.clear()
    broken, right = measurer.measure([text, faults.RIGHT])
    assert broken.failure is not None and broken.failure.kind == kind and broken.failure.message
    assert right.seconds is not None and right.seconds < 1e-2
    assert not measurer.losses, "the connection is none the worse"


@pytest.mark.parametrize(
    "how, at, loss", [("drop", 7, "connection"), ("hang", 6, "timeout"), ("garble", 7, "protocol")]
)
def test_a_connection_that_is_lost_is_made_again_and_the_candidate_measured_again(
    measurer: BoardMeasurer,
    folder: Path,
    how: str,
    at: int,
    loss: str,
) -> None:
    measurer.losses.clear()
    (folder / how).write_text(
        str(at)
    )  # machine, a file, arguments, the reference, its time; 6, the candidate, 7, its times
    measurer.board.connect()
    measurer._prepare_board(10.0)  # pyright: ignore[reportPrivateUsage]
    (outcome,) = measurer.measure([faults.RIGHT])
    assert outcome.failure is None and outcome.seconds is not None
    assert measurer.losses == {loss: 1}, "and it is counted"


def test_a_candidate_that_takes_the_runner_with_it_has_failed_and_the_next_one_is_measured(
    measurer: BoardMeasurer,
) -> None:
    measurer.losses.clear()
    kills = faults.candidate('call_extern(int32, "kill", call_extern(int32, "getppid"), 9)')
    broken, right = measurer.measure([kills, faults.RIGHT])
    assert broken.failure is not None and broken.failure.kind == "lost" and "3 times" in broken.failure.message
    assert right.seconds is not None
    assert measurer.losses == {"connection": 3}


def test_what_is_no_library_is_refused(measurer: BoardMeasurer) -> None:
    answer = measurer._ran("run", [b"no library"], 2.0, 0.01)  # pyright: ignore[reportPrivateUsage]
    assert answer["failure"] == "refused" and "0.so" in answer["message"]


def test_rivals_run_in_turn_on_the_board(measurer: BoardMeasurer) -> None:
    times = measurer.rivals([faults.RIGHT, faults.candidate("for j in 3:", "    B[j] = 1.0")], 0.01)
    assert times is not None and len(times) == 2 and len(times[0]) == len(times[1]) >= 5


def test_a_board_that_cannot_be_reached_ends_the_tuning_and_loses_nothing(
    folder: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("tilewright.autotune.board.time.sleep", lambda seconds: None)
    args, database = faults.doubling(), tmp_path / "tune.sqlite"
    run = BoardMeasurer._run  # pyright: ignore[reportPrivateUsage]

    def runs_twice(
        self: BoardMeasurer, at: int, number: int, paths: list[str], built: float, best: float | None
    ) -> Outcome:
        if number == 2:
            (folder / "unreachable").touch()
            assert self.board.connection is not None
            self.board.connection.process.kill()
        return run(self, at, number, paths, built, best)

    monkeypatch.setattr(BoardMeasurer, "_run", runs_twice)
    with pytest.raises(RunnerLost, match=r"TW0613: cannot measure on board: connection\n(.*\n)*.*No route to host"):
        autotune.tune(args, trials=4, database=database, limits=LIMITS, runner="ssh://board?threads=3&patience=1")
    monkeypatch.undo()
    (folder / "unreachable").unlink()
    result = autotune.tune(args, trials=3, database=database, limits=LIMITS, runner="ssh://board?threads=3")
    assert len(result.history) == 3 and len({trial.uid for trial in result.history}) == 3, "two of before, and one"
    assert result.task.key.machine.endswith(", 3 threads") and result.schedule.trace
    with pytest.raises(NoRecord, match="3 threads"):
        autotune.best(args, database=database)


def test_a_record_of_a_board_is_found_when_one_builds_for_it(tmp_path: Path) -> None:
    target = "llvm -mtriple=aarch64-unknown-linux-gnu -mcpu=cortex-a72"
    i = (args := faults.doubling())[1].op.axis[0]
    s = te.create_schedule(args[1].op)
    s[args[1]].unroll(s[args[1]].split(i, 4)[1])
    records = tw.schedule.to_json(s.records)
    key = replace(Task.of(args, target).key, machine="Cortex-A72, 4 threads")
    foreign = Trial(records, 1e-6, mark="")
    with Database(tmp_path / "tune.sqlite") as database:
        database.add(key, "double", foreign)
        with pytest.raises(NoRecord, match="Cortex-A72"):  # nobody whom this machine asked has measured it
            autotune.best(args, target, database)
        database.add(key, "double", Trial(records, 1e-6, mark=make_mark(key, records)))
        assert "unroll" in autotune.best(args, target, database).as_python()


@pytest.mark.parametrize(
    "text",
    [
        "ssh://-oProxyCommand=x",
        "ssh://board/a b",
        "ssh://",
        "ssh://board?threads=-1",
        "ssh://board:99999",
        "ssh://board?nice=1",
        "ssh://bo;ard",
        "ssh://board/$(x)",
    ],
)
def test_an_address_that_a_shell_would_misread_is_refused(text: str) -> None:
    with pytest.raises(BadTuningOption, match=r"TW0604.*not an address of a board"):
        Address.parse(text)


def test_targets_of_other_machines_ask_for_a_runner() -> None:
    with pytest.raises(TargetCannotBeTuned, match=r'TW0603(.*\n)*.*runner="ssh://board"'):
        autotune.tune(faults.doubling(), "llvm -mtriple=riscv64-unknown-linux-gnu")
    with pytest.raises(BadTuningOption, match="TW0604: there is no runner 'board'"):
        autotune.tune(faults.doubling(), runner="board")
