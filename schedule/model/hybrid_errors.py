"""Errors of scheduling the loops of a hybrid script: TW0280 to TW0284."""

from __future__ import annotations

from ...base.errors import ScheduleError


class HybridLoopCarries(ScheduleError):
    """Iterations of a script's loop that may meet in an element, and would meet in another order, or at once."""

    code = "TW0280"


class HybridLoopsApart(ScheduleError):
    """Loops of a script with something between them, which no primitive moves past."""

    code = "TW0281"


class NotOfHybridStages(ScheduleError):
    """A primitive that needs an expression element by element, asked of a hybrid script."""

    code = "TW0282"
