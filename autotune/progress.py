"""The live display of a tuning run: trials, the best so far, speed, and failures by class with the first message of each."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Sequence
from types import TracebackType

from rich.console import Console, Group
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from ..untrusted import printable
from .comparison import Comparison
from .trial import Trial

__all__ = ["Progress", "readable"]


def readable(seconds: float) -> str:
    """A time with its unit."""
    for unit, scale in (("s", 1.0), ("ms", 1e-3), ("µs", 1e-6)):
        if seconds >= scale:
            return f"{seconds / scale:.3g} {unit}"
    return f"{seconds * 1e9:.3g} ns"


class Progress:
    """Shown on the standard error output while the run lasts; where it is not `shown`, nothing is printed."""

    def __init__(self, name: str, trials: int, shown: bool, console: Console | None = None) -> None:
        self.name, self.trials = printable(name), trials
        self.console = console or Console(stderr=True)
        self.live = Live(console=self.console, refresh_per_second=4, transient=False) if shown else None
        self.done = self.new = 0
        self.best = float("inf")
        self.baseline = 0.0
        self.failures: Counter[str] = Counter()
        self.first: dict[str, str] = {}
        self.doing, self.told, self.is_noisy = "starting", "", False
        self.started = time.monotonic()

    def __enter__(self) -> Progress:
        if self.live is not None:
            self.live.start()
            self._refresh()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if self.live is not None:
            stopped = "interrupted: every trial so far is kept" if kind is KeyboardInterrupt else "failed"
            self.doing = "done" if error is None else stopped
            self._refresh()
            self.live.stop()

    def begin(self, history: Sequence[Trial], baseline: float) -> None:
        """What the database held before, and how long the unscheduled program takes."""
        self.baseline, self.started = baseline, time.monotonic()
        for trial in history:
            self._count(trial)
        self.new = 0
        self._refresh()

    def say(self, doing: str) -> None:
        """What is going on."""
        self.doing = doing
        self._refresh()

    def add(self, trial: Trial) -> None:
        """One more trial."""
        self._count(trial)
        self._refresh()

    def compare(self, comparison: Comparison | None) -> None:
        """How the fastest and the rules' choice compare, where they were run in turn."""
        if comparison is not None:
            self.told, self.is_noisy = str(comparison), comparison.is_noisy
        self._refresh()

    def _count(self, trial: Trial) -> None:
        self.done += 1
        self.new += 1
        if trial.time is not None:
            self.best = min(self.best, trial.time)
        else:
            self.failures[trial.failure] += 1
            self.first.setdefault(trial.failure, printable(trial.message.partition("\n")[0]))

    def _refresh(self) -> None:
        if self.live is not None:
            self.live.update(self.render(), refresh=True)

    def render(self) -> Group:
        """The display as it stands."""
        table = Table.grid(padding=(0, 2))
        spent = time.monotonic() - self.started
        table.add_row(Text(f"tuning {self.name}", style="bold"), ProgressBar(self.trials, self.done, width=30),
                      f"{self.done}/{self.trials} trials", f"{self.new / spent:.1f}/s" if spent > 1 else "", self.doing)
        lines: list[Table | Text] = [table]
        if self.best < float("inf"):
            gain = self.baseline / self.best
            against = f", {gain:.1f} x the unscheduled program ({readable(self.baseline)})" if gain else ""
            lines.append(Text(f"  best {readable(self.best)}{against}"))
        if self.told:
            lines.append(Text(f"  {self.told}", style="yellow" if self.is_noisy else ""))
        for kind, count in self.failures.most_common():
            said = f"  {count} {printable(kind)}: {self.first[kind]}"
            lines.append(Text(said, style="yellow", overflow="ellipsis", no_wrap=True))
        return Group(*lines)
