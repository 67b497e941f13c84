"""A pass over graphs: a function from a graph to one with the same outputs, and whether it rounds as the graph did."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

from ...base.dataclass import dataclass
from ..node import Parts

__all__ = ["GraphPass", "Rounding"]

Rounding = Literal["exact", "rounds", "fast", "asked"]
"""exact: outputs keep their bits: signed zeros and the wrap of integers too; any NaN is any NaN. rounds: values are rounded at
other places, within what the operators state of their errors. fast: what holds of real numbers, and not where floats overflow, or
are zeros with a sign; NaN stays NaN. asked: values change by more than rounding, which only those who name the pass want."""


@dataclass(frozen=True, eq=False)
class GraphPass:
    """A row of the pipeline. what: in a line what it does. apply: gives the same graph back where it finds nothing. page: more of
    it, with a graph before and after, as its file begins. late: whether it comes when the others change nothing any more."""

    name: str
    what: str
    rounding: Rounding
    apply: Callable[[Parts], Parts]
    page: str | None
    late: bool = False

    @property
    def changes_rounding(self) -> bool:
        """Return whether values may come out with other last bits."""
        return self.rounding != "exact"

    def __str__(self) -> str:
        told = {
            "exact": "keeps every bit",
            "rounds": "rounds at other places",
            "fast": "only under fast_math",
            "asked": "only where it is named: values change",
        }
        return f"{self.what} ({told[self.rounding]})"
