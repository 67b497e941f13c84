"""tvm.autotvm.record: logs of results, a line of JSON each, as TVM writes them."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from os import PathLike
from pathlib import Path
from typing import Any, cast

from ....autotune.errors import BadRecordLine, BadTuningOption, NoRecord
from ....base.arguments import is_a
from ....base.errors import user_source, warn_user
from ..target import Target
from .measure import MeasureInput, MeasureResult
from .task.space import ConfigEntity
from .task.task import Task

__all__ = ["decode", "encode", "load_from_buffer", "load_from_file", "measure_str_key", "pick_best"]

_VERSION = 0.2


def encode(inp: MeasureInput, result: MeasureResult, protocol: str = "json") -> str:
    """The line of a result. protocol: "json"."""
    _check(protocol)
    return json.dumps(
        {
            "input": [str(inp.target), inp.task.name, inp.task.args, inp.task.kwargs],
            "config": inp.config.to_json_dict(),
            "result": list(result),
            "version": _VERSION,
            "tvm_version": "0.19.0",
        }
    )


def decode(row: str, protocol: str = "json") -> tuple[MeasureInput, MeasureResult]:
    """Read a line of a log. Raises BadRecordLine."""
    _check(protocol)
    try:
        plain = cast("dict[str, Any]", json.loads(row))
        target, name, args, *_ = plain["input"]
        costs, error_no, all_cost, timestamp = plain["result"]
        config = ConfigEntity.from_json_dict(plain["config"])
        if not isinstance(name, str) or not isinstance(target, str):
            raise TypeError("a text is missing")
        if not costs or (error_no == 0 and not all(isinstance(cost, (int, float)) and cost > 0 for cost in costs)):
            raise ValueError("a time is not a positive number")
        task = Task(name, _tuples(args))
        task.target = Target(target)
        result = MeasureResult(tuple(costs), int(error_no), float(all_cost), float(timestamp))
    except (ValueError, TypeError, KeyError, AttributeError, IndexError) as fault:
        raise BadRecordLine(
            "the line is not a record of a result",
            reason=f"{type(fault).__name__}: {fault}"[:300],
            called=user_source(),
            fix="read what autotvm.callback.log_to_file wrote",
        ) from None
    return MeasureInput(task.target, task, config), result


def load_from_buffer(file: Iterable[str]) -> Iterator[tuple[MeasureInput, MeasureResult]]:
    """The results in lines. Lines that are none are left out, with a warning each."""
    name = getattr(file, "name", "the log")
    for number, row in enumerate(file, 1):
        if not row.strip() or row.startswith("#"):
            continue
        try:
            yield decode(row)
        except BadRecordLine as error:
            warn_user(user_source(), f"{name}, line {number}, is not a record and is left out: {error.reason}")


def load_from_file(filepath: str | PathLike[str]) -> Iterator[tuple[MeasureInput, MeasureResult]]:
    """The results in a log. Raises NoRecord where there is no such file."""
    if not Path(filepath).is_file():
        raise NoRecord(
            f"there is no log {str(filepath)!r}",
            called=user_source(),
            fix=f"tune with callbacks=[autotvm.callback.log_to_file({str(filepath)!r})]",
        )
    with Path(filepath).open(encoding="utf-8", errors="replace") as file:
        yield from load_from_buffer(file)


def measure_str_key(inp: MeasureInput, include_config: bool = True) -> str:
    """A text that two inputs share if they are the same."""
    return f"{inp.target}{inp.task.name}{inp.task.args}{inp.task.kwargs}{inp.config if include_config else ''}"


def pick_best(in_file: str | PathLike[str], out_file: str | PathLike[str]) -> None:
    """Write the fastest result of each workload and target into another log. Raises NoRecord."""
    best: dict[str, tuple[MeasureInput, MeasureResult]] = {}
    for inp, result in load_from_file(in_file):
        key = measure_str_key(inp, include_config=False)
        if result.error_no == 0 and (key not in best or best[key][1].seconds > result.seconds):
            best[key] = (inp, result)
    Path(out_file).write_text("".join(f"{encode(*pair)}\n" for pair in best.values()), encoding="utf-8")


def _check(protocol: str) -> None:
    if protocol != "json":
        raise BadTuningOption(f"there is no protocol {protocol!r}", called=user_source(), allowed='"json"')


def _tuples(value: Any) -> Any:
    """Lists of JSON as the tuples that they were."""
    return tuple(map(_tuples, value)) if is_a(value, list) else value
