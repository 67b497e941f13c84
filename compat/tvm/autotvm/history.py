"""The fastest configurations of logs, as a context that templates ask."""

from __future__ import annotations

from os import PathLike
from typing import Any

from ....base.arguments import is_a
from ..target import Target
from .measure import MeasureInput, MeasureResult
from .record import load_from_file
from .task.dispatcher import DispatchContext, Workload
from .task.space import ConfigSpace

__all__ = ["ApplyHistoryBest", "apply_history_best"]


class ApplyHistoryBest(DispatchContext):
    """The fastest configurations of logs. records: a file of them or several, or pairs of input and result.

    Raises NoRecord for a file that does not exist; lines that are not records are warned of.
    """

    def __init__(self, records: Any = None) -> None:
        super().__init__()
        self.best_by_targetkey: dict[tuple[str, Workload], tuple[MeasureInput, MeasureResult]] = {}
        self._updated: dict[tuple[str, Workload], ConfigSpace] = {}
        if records is not None:
            self.load(records)

    def load(self, records: Any) -> None:
        """Take over what is faster in these logs or records."""
        if is_a(records, (str, PathLike)):
            records = load_from_file(records)
        for record in records:
            if is_a(record, (str, PathLike)):
                self.load(record)
                continue
            inp, result = record
            if result.error_no:
                continue
            for key in inp.target.keys:
                known = self.best_by_targetkey.get((key, inp.task.workload))
                if known is None or known[1].seconds > result.seconds:
                    self.best_by_targetkey[key, inp.task.workload] = (inp, result)

    def _query_inside(self, target: Target | None, workload: Workload | None) -> ConfigSpace | None:
        if workload is None:
            return None
        for key in (target or Target("llvm")).keys:
            if (key, workload) in self._updated:
                return self._updated[key, workload]
            if (key, workload) in self.best_by_targetkey:
                return self.best_by_targetkey[key, workload][0].config
        return None

    def update(self, target: Target, workload: Workload, cfg: ConfigSpace) -> None:
        """Answer with `cfg` from now on."""
        self._updated.update({(key, workload): cfg for key in target.keys})


def apply_history_best(records: Any = None) -> ApplyHistoryBest:
    """The context of the fastest configurations of logs: `with autotvm.apply_history_best("x.log"):`."""
    return ApplyHistoryBest(records)
