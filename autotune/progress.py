"""The live display of a tuning run: trials, the incumbent, the rules' choice, failures by class with the first message of each, how
noisy the machine is."""

from __future__ import annotations

import time
from collections import Counter, deque
from collections.abc import Sequence
from statistics import median
from types import TracebackType

from rich.console import Console, Group
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from ..base.untrusted_input import printable
from .comparison import NOISY, Comparison
from .trial import Trial

__all__ = ["Progress", "readable"]


_RECENT = 16
"""Trials of which the noise is told."""


def readable(seconds: float) -> str:
    """A time with its unit."""
    for unit, scale in (("s", 1.0), ("ms", 1e-3), ("µs", 1e-6)):  # the largest unit that leaves a number of at least 1
        if seconds >= scale:
            return f"{seconds / scale:.3g} {unit}"
    return f"{seconds * 1e9:.3g} ns"


class Progress:
    """Shown on the standard error output while the run lasts; where it is not `shown`, nothing is printed."""

    def __init__(self, name: str, trials: int, shown: bool, console: Console | None = None) -> None:
        self.name, self.trials = printable(name), trials
        self.console = console or Console(stderr=True)  # standard error, since standard output may be piped
        self.live = Live(console=self.console, refresh_per_second=4, transient=False) if shown else None
        self.done = self.new = 0
        self.best, self.best_at = float("inf"), 0
        self.baseline = 0.0
        self.usual_records = ""
        self.usual: float | None = None
        self.spreads: deque[float] = deque(maxlen=_RECENT)
        self.losses: Counter[str] = Counter()
        self.failures: Counter[str] = Counter()
        self.first: dict[str, str] = {}
        self.dropped: Counter[str] = Counter()
        self.dropped_first: dict[str, str] = {}
        self.doing, self.told, self.is_noisy, self.is_exhausted = "starting", "", False, False
        self.started = time.monotonic()

    def __enter__(self) -> Progress:
        if self.live is not None:
            self.live.start()
            self._refresh()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.live is not None:
            stopped = "interrupted: every trial so far is kept" if kind is KeyboardInterrupt else "failed"
            self.doing = "done" if error is None else stopped
            self._refresh()
            self.live.stop()

    def dropping(self, counts: Counter[str], first: dict[str, str]) -> None:
        """Return how many candidates are given up before they run, by class, as they are counted, and the first message of each."""
        self.dropped, self.dropped_first = counts, first

    def begin(
        self, history: Sequence[Trial], baseline: float, usual: str = "", losses: Counter[str] | None = None
    ) -> None:
        """Return what the database held before, and how long the unscheduled program takes. usual: the records of the rules' choice.
        losses: how often the way to the machine that measures was lost, as it is counted."""
        self.baseline, self.started, self.usual_records = baseline, time.monotonic(), usual
        self.losses = losses if losses is not None else self.losses
        for trial in history:
            self._count(trial)
        self.new = 0  # trials of before count to the total, not to the speed
        self._refresh()

    def say(self, doing: str) -> None:
        """Return what is going on."""
        self.doing = doing
        self._refresh()

    def add(self, trial: Trial, spread: float | None = None) -> None:
        """One more trial. spread: by how much of the least time its repeats differ, where there were several."""
        self._count(trial)
        if spread is not None:
            self.spreads.append(spread)
        self._refresh()

    def show_exhaustion(self, is_exhausted: bool) -> None:
        """Return whether there are no more candidates than those that were measured."""
        self.is_exhausted = is_exhausted
        self._refresh()

    def compare(self, comparison: Comparison | None) -> None:
        """Return how the fastest and the rules' choice compare, where they were run in turn."""
        if comparison is not None:
            self.told, self.is_noisy = str(comparison), comparison.is_noisy
        self._refresh()

    def _count(self, trial: Trial) -> None:
        self.done += 1
        self.new += 1
        if trial.time is not None:
            # the rules' choice is known by its records
            self.usual = trial.time if trial.records == self.usual_records else self.usual
            if trial.time < self.best:
                self.best, self.best_at = trial.time, self.done
        else:
            self.failures[trial.failure] += 1
            # the first line alone; messages may be long
            self.first.setdefault(trial.failure, printable(trial.message.partition("\n")[0]))

    def _refresh(self) -> None:
        if self.live is not None:
            self.live.update(self.render(), refresh=True)

    def render(self) -> Group:
        """The display as it stands."""
        table = Table.grid(padding=(0, 2))
        spent = time.monotonic() - self.started
        table.add_row(
            Text(f"tuning {self.name}", style="bold"),
            ProgressBar(self.trials, self.done, width=30),
            f"{self.done}/{self.trials} trials",
            f"{self.new / spent:.1f}/s" if spent > 1 else "",  # a rate of the first second says little
            self.doing,
        )
        lines: list[Table | Text] = [table]
        if self.best < float("inf"):
            gain = self.baseline / self.best
            against = f", {gain:.1f} x the unscheduled program ({readable(self.baseline)})" if gain else ""
            lines.append(Text(f"  best {readable(self.best)} (trial {self.best_at}){against}"))
        if self.usual is not None:
            lines.append(Text(f"  rules' choice {readable(self.usual)}, {self.usual / self.best:.2f} x the best"))
        if self.spreads:
            noise = median(self.spreads)
            told = f"  noise: repeats differ by {noise:.0%}{', the machine does something else too' if noise > NOISY else ''}"
            lines.append(Text(told, style="yellow" if noise > NOISY else ""))  # yellow: times are to be taken with care
        for kind, count in self.losses.most_common():
            told = f"  the machine that measures was lost and found again: {printable(kind)}, {count} x"
            lines.append(Text(told, style="yellow"))
        if self.is_exhausted:
            lines.append(Text(f"  {self.done} of {self.trials} trials: no other candidate was found"))
        if self.told:
            lines.append(Text(f"  {self.told}", style="yellow" if self.is_noisy else ""))
        for kind, count in self.failures.most_common():
            lines.append(_failure(f"{count} {printable(kind)}: {self.first[kind]}"))
        for kind, count in self.dropped.most_common():
            lines.append(
                _failure(f"{count} given up before running, {printable(kind)}: {printable(self.dropped_first[kind])}")
            )
        return Group(*lines)


def _failure(said: str) -> Text:
    return Text(f"  {said}", style="yellow", overflow="ellipsis", no_wrap=True)
