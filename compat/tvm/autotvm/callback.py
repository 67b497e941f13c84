"""tvm.autotvm.callback: what is called after each batch of measurements with (tuner, inputs, results)."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Sequence
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ....base.arguments import is_a
from . import record
from .measure import MeasureInput, MeasureResult

if TYPE_CHECKING:
    from .tuner import Tuner

__all__ = ["Monitor", "log_to_database", "log_to_file", "progress_bar"]

Callback = Callable[["Tuner", Sequence[MeasureInput], Sequence[MeasureResult]], None]
_PREFIXES = {"": 1.0, "k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12}


def log_to_file(file_out: Any, protocol: str = "json") -> Callback:
    """Appends each result to a log, as a line. file_out: its path, or an open file."""

    def callback(_: Tuner, inputs: Sequence[MeasureInput], results: Sequence[MeasureResult]) -> None:
        lines = "".join(f"{record.encode(*pair, protocol)}\n" for pair in zip(inputs, results, strict=True))
        if is_a(file_out, (str, PathLike)):
            path = Path(file_out)
            path.parent.mkdir(parents=True, exist_ok=True)
            with path.open("a", encoding="utf-8") as file:
                file.write(lines)
        else:
            file_out.write(lines)

    return callback


def log_to_database(db: Any) -> Callback:
    """Call db.save(input, result) for each result."""

    def callback(_: Tuner, inputs: Sequence[MeasureInput], results: Sequence[MeasureResult]) -> None:
        for pair in zip(inputs, results, strict=True):
            db.save(*pair)

    return callback


class Monitor:
    """Keep the speed of every trial, in operations a second."""

    def __init__(self) -> None:
        self.scores: list[float] = []
        self.timestamps: list[float] = []

    def __call__(self, tuner: Tuner, inputs: Sequence[MeasureInput], results: Sequence[MeasureResult]) -> None:
        self.scores += [inp.task.flop / result.seconds for inp, result in zip(inputs, results, strict=True)]
        self.timestamps += [result.timestamp for result in results]

    def reset(self) -> None:
        """Forgets what there was."""
        self.scores, self.timestamps = [], []

    def trial_scores(self) -> list[float]:
        """The speed of each trial; 0 for one that failed."""
        return self.scores

    def trial_timestamps(self) -> list[float]:
        """Return the times at which trials ended."""
        return self.timestamps


def progress_bar(total: int, prefix: str = "", si_prefix: str = "G") -> Callback:
    """A line on the standard output with the speed of the last batch, the best so far, and the trials done."""
    scale, begin = _PREFIXES[si_prefix], time.monotonic()
    done, best = 0, 0.0

    def callback(_: Tuner, inputs: Sequence[MeasureInput], results: Sequence[MeasureResult]) -> None:
        nonlocal done, best
        speeds = [inp.task.flop / result.seconds for inp, result in zip(inputs, results, strict=True)]
        done, best = done + len(results), max([best, *speeds])
        sys.stdout.write(
            f"\r{prefix} Current/Best: {max(speeds, default=0.0) / scale:7.2f}/{best / scale:7.2f} {si_prefix}FLOPS | "
            f"Progress: ({done}/{total}) | {time.monotonic() - begin:.2f} s{' Done.' * (done >= total)}"
        )
        sys.stdout.write("\n" if done >= total else "")
        sys.stdout.flush()

    return callback
