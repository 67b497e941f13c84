"""The trials of a tuning task as `result.history`: a list, a table for pandas, and the tuning curve as a picture.

pandas.DataFrame(result.history.table)
result.history.plot("curve.svg")
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from ..codegen.export.files import write_text_file
from ..runtime.tables import html_table
from .progress import readable
from .trial import Trial
from .tuning_curve import Curve

__all__ = ["History"]


class History(list[Trial]):
    """Trials, oldest first. usual: the one of the rules' choice, None where it is not among them (a template has none). baseline: the
    seconds of a call of the unscheduled program, where that was measured."""

    def __init__(self, trials: Iterable[Trial], usual: Trial | None = None, baseline: float | None = None) -> None:
        super().__init__(trials)
        self.usual: Trial | None = usual
        self.baseline: float | None = baseline

    @property
    def table(self) -> dict[str, list[Any]]:
        """Columns by their names, as `pandas.DataFrame` takes them, a row a trial: its number from 1; the seconds of a call, None where it
        failed; the seconds when it was measured again beside its rivals; the least seconds so far; whether it is the rules' choice;
        the class of its failure and the message; what was chosen, as text; when (UTC)."""
        least: list[float | None] = []
        for trial in self:
            times = [time for time in (least[-1] if least else None, trial.seconds) if time is not None]
            least.append(min(times, default=None))
        return {
            "trial": [*range(1, len(self) + 1)],
            "seconds": [trial.seconds for trial in self],
            "confirmed": [trial.confirmed for trial in self],
            "best": least,
            "usual": [trial is self.usual for trial in self],
            "failure": [trial.failure for trial in self],
            "message": [trial.message for trial in self],
            "choices": [trial.choices for trial in self],
            "created": [datetime.fromtimestamp(trial.created, UTC) for trial in self],
        }

    def plot(self, path: str | Path | None = None) -> str:
        """The tuning curve as SVG, with the rules' choice marked: the text, which is written to `path` too where one is given. Empty
        where nothing succeeded. Raises NotWritten (TW0705)."""
        curve = Curve.of(self, self.baseline, self.usual)
        picture = curve.svg if curve is not None else ""
        if path is not None:
            write_text_file(path, picture)
        return picture

    def __repr__(self) -> str:
        failed = sum(trial.seconds is None for trial in self)
        times = [trial.seconds for trial in self if trial.seconds is not None]
        parts = [f"{len(self)} trials"]
        parts += [f"{failed} failed"] if failed else []
        parts += [f"best {readable(min(times))}"] if times else []
        parts += [f"rules' choice {readable(self.usual.seconds)}"] if self.usual and self.usual.seconds else []
        return f"<History: {', '.join(parts)}>"

    def _repr_html_(self) -> str:
        picture = self.plot()
        if picture:
            return picture
        rows = [(number, trial.failure, trial.message) for number, trial in enumerate(self, 1)]
        return html_table("trials", ("trial", "failure", "message"), rows)
