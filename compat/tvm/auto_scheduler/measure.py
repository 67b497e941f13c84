"""tvm.auto_scheduler.measure: what was measured, as logs tell it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice
from os import PathLike
from pathlib import Path
from typing import NamedTuple

from ....autotune.json_lines import Line, parse_line, write_line
from ..autotvm.measure import MeasureErrorNo
from .measure_record import logged

__all__ = [
    "MeasureErrorNo",
    "MeasureInput",
    "MeasureResult",
    "RecordReader",
    "load_best_record",
    "load_records",
    "save_records",
]


class MeasureInput(NamedTuple):
    """A candidate to measure. line: the record; task: its workload's name; state: its schedule, as JSON."""

    line: Line

    @property
    def task(self) -> str:
        """The name of what was tuned."""
        return self.line.name

    @property
    def state(self) -> str:
        """The schedule."""
        return self.line.trial.records


class MeasureResult(NamedTuple):
    """Result of measuring a candidate. costs: seconds of a call, none for a failure; error_msg says what failed; timestamp: since 1970."""

    costs: tuple[float, ...]
    error_no: int
    error_msg: str
    all_cost: float
    timestamp: float


Record = tuple[MeasureInput, MeasureResult]


class RecordReader:
    """The trials of a log: all of them by iterating, or some of them as two lists."""

    def __init__(self, filename: str | PathLike[str]) -> None:
        self.filename = filename

    def __iter__(self) -> Iterator[Record]:
        for number, text in logged(self.filename):
            yield _record(parse_line(number, text))

    def read_lines(
        self, max_lines: int | None = None, skip_lines: int = 0
    ) -> tuple[list[MeasureInput], list[MeasureResult]]:
        """Return at most max_lines trials behind the first skip_lines: inputs and results."""
        records = list(islice(self, skip_lines, None if max_lines is None or max_lines < 0 else skip_lines + max_lines))
        return [each for each, _ in records], [result for _, result in records]

    def check_workload(self) -> list[str]:
        """The names of what the log's trials are of."""
        return list(dict.fromkeys(given.task for given, _ in self))


def _record(line: Line) -> Record:
    trial = line.trial
    costs = () if trial.time is None else (trial.time,)
    error = MeasureErrorNo.NO_ERROR if costs else MeasureErrorNo.UNKNOWN_ERROR
    return MeasureInput(line), MeasureResult(costs, error, trial.message, sum(costs), trial.created)


def load_records(filename: str | PathLike[str]) -> Iterator[Record]:
    """The trials of a log. Raises NoRecord where there is none, BadRecordLine."""
    return iter(RecordReader(filename))


def load_best_record(
    filename: str | PathLike[str],
    workload_key: str | None = None,
    target: object = None,
    include_compatible: bool = False,
) -> tuple[MeasureInput | None, MeasureResult | None]:
    """The fastest trial of a log, which is of one task; (None, None) where none ran. workload_key, target and include_compatible
    told workloads of one log apart: `task.apply_best(filename)` does so."""
    del workload_key, target, include_compatible
    ran = [record for record in load_records(filename) if record[1].costs]
    return min(ran, key=lambda record: record[1].costs[0]) if ran else (None, None)


def save_records(
    filename: str | PathLike[str], inputs: Iterable[MeasureInput], results: Iterable[MeasureResult]
) -> None:
    """Appends trials to a log, as they were read from one."""
    del results
    with Path(filename).open("a", encoding="utf-8") as file:
        file.writelines(f"{write_line(given.line)}\n" for given in inputs)
