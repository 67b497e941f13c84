"""Trials as lines of JSON, with their whole keys: how they go from one machine to another."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, BinaryIO, TypeGuard, cast

from ..autoschedule.search.space import Config
from ..base import ScheduleError, dataclass, user_source
from ..base.untrusted_input import plain_json, printable
from ..schedule import from_json
from .errors import BadRecordLine
from .layout import trial_space
from .task import Key
from .trial import Trial

__all__ = ["Line", "parse_line", "is_time", "read_lines", "write_line"]

FORMAT = 1
"""Version of the lines. Lines without it are of version 1."""
_MOST_BYTES = 16 << 20
"""Of a line: programs written out may be long."""


@dataclass(frozen=True, slots=True)
class Line:
    """Contents of a line. name, baseline: of the task, see Database.tasks."""

    key: Key
    name: str
    baseline: float | None
    trial: Trial


def write_line(line: Line) -> str:
    """One line of JSON. Raises ValueError where the trial's records are none."""
    key, trial = line.key, line.trial
    return json.dumps(
        {
            "format": FORMAT,
            "workload": key.workload,
            "target": key.target,
            "machine": key.machine,
            "versions": key.versions,
            "space": key.space,
            "name": line.name,
            "baseline": line.baseline,
            "uid": trial.uid,
            "records": plain_json(trial.records, _MOST_BYTES),
            "config": None if trial.config is None else trial.config.plain(),
            "seconds": trial.seconds,
            "confirmed": trial.confirmed,
            "failure": trial.failure,
            "message": trial.message,
            "created": trial.created,
            "mark": trial.mark,
        }
    )


def read_lines(file: BinaryIO) -> Iterator[str]:
    """The lines of a file, of which none is much longer than a line may be, and which may hold any bytes."""
    while line := file.readline(_MOST_BYTES + 1):
        yield line.decode(errors="surrogateescape")


def parse_line(number: int, text: str) -> Line:
    """Return what line `number` of a file holds. Raises BadRecordLine (TW0634)."""
    try:
        plain = plain_json(text, _MOST_BYTES)
        if not isinstance(plain, dict):
            raise TypeError("it is not an object")
        return _line(cast("dict[str, Any]", plain))
    except (ValueError, TypeError, KeyError, OverflowError, ScheduleError) as fault:
        reason = fault.reason if isinstance(fault, ScheduleError) else f"{type(fault).__name__}: {fault}"
        raise BadRecordLine(
            f"line {number} is not a record",
            reason=printable(reason[:300]),
            called=user_source(),
            fix="import what `tilewright db export` wrote; nothing was imported",
        ) from None


def _line(plain: dict[str, Any]) -> Line:
    if "input" in plain and "result" in plain:
        raise ValueError(
            "it is of a log of AutoTVM's, which names a template and no program: import it beside the program "
            "that has the template, `tilewright db import LOG --program FILE.py`"
        )
    if "i" in plain and "r" in plain:
        raise ValueError(
            "it is of a log of TVM's auto_scheduler, which names a workload and no program: import it beside the "
            "program that registers the workload, `tilewright db import LOG --program FILE.py`"
        )
    if (version := plain.get("format", FORMAT)) != FORMAT:
        raise ValueError(f"its format has version {version!r}, and this release reads version {FORMAT}")
    texts = {
        name: plain[name] for name in ("workload", "target", "machine", "versions", "name", "uid", "failure", "message")
    }
    mark = plain.get("mark", "")
    space = (
        plain["space"] if "space" in plain else trial_space(json.dumps(plain["config"]))
    )  # earlier versions wrote none
    if not all(isinstance(text, str) for text in (*texts.values(), mark, space)):
        raise TypeError("a text is missing")
    seconds, confirmed, baseline = (plain[name] for name in ("seconds", "confirmed", "baseline"))
    if not all(time is None or is_time(time) for time in (seconds, confirmed, baseline)):
        raise ValueError("a time is not a positive number of seconds")
    if (seconds is None) == (texts["failure"] == ""):
        raise ValueError("a trial either has a time or has failed")
    if not is_time(plain["created"]):
        raise ValueError("its creation time is missing")
    records = json.dumps(plain["records"])
    from_json(records, foreign=True)
    trial = Trial(
        records,
        seconds,
        Config.of(plain["config"]),
        texts["failure"],
        texts["message"],
        confirmed,
        float(plain["created"]),
        texts["uid"],
        mark,
    )
    key = Key(texts["workload"], texts["target"], texts["machine"], texts["versions"], space)
    return Line(key, texts["name"], baseline, trial)


def is_time(value: object) -> TypeGuard[float]:
    """Return whether it is a positive number of seconds, which something may take or be old."""
    return type(value) in (int, float) and 0 < cast("float", value) < 1e11
