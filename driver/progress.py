"""The progress of a build that takes long, for terminals and notebooks: kernels that are done and left."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.progress import Progress as Bar
    from rich.progress import TaskID

__all__ = ["Progress"]

_PATIENCE = 2.0
"""Seconds before anything is shown."""


class Progress:
    """A line on the standard error output from two seconds on; nothing where that is neither a terminal nor a notebook."""

    def __init__(self, total: int) -> None:
        self.total, self._began = total, time.monotonic()
        self._shown: tuple[Bar, TaskID] | None = None
        self._told = 0

    def tell(self, done: int) -> None:
        """So many kernels are done."""
        if done == self._told:  # a bar that is drawn again for nothing flickers
            return
        self._told = done
        # a short build shows nothing
        if self._shown is None and time.monotonic() - self._began > _PATIENCE and _has_watcher():
            self._shown = _bar(self.total)
        if self._shown is not None:
            bar, task = self._shown
            bar.update(task, completed=done)

    def close(self) -> None:
        """Nothing more comes."""
        shown, self._shown = self._shown, None
        if shown is not None:
            shown[0].stop()


def _has_watcher() -> bool:
    return sys.stderr is not None and sys.stderr.isatty() or "ipykernel" in sys.modules


def _bar(total: int) -> tuple[Bar, TaskID]:  # rich is imported only where something is shown
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    bar = Progress(
        TextColumn("compiling kernels"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
        console=Console(stderr=True),
        transient=True,
        refresh_per_second=4,
    )
    bar.start()
    return bar, bar.add_task("", total=total)
