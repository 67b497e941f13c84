"""Reference results of the unscheduled program, with which candidates are compared."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..base.nibbles import holds_integers

__all__ = ["Reference"]


class Reference:
    """One output of the unscheduled program. Integers must agree exactly. Floats may differ as sums in another order and
    fused products do: relative to the element, and to the typical size of all."""

    def __init__(self, array: np.ndarray[Any, Any]) -> None:
        self.exact = holds_integers(array.dtype)
        self.wanted = array if self.exact else _wide(array)
        relative = {8: 1e-9, 4: 3e-4, 2: 3e-2}.get(array.dtype.itemsize, 0.3)
        finite = self.wanted[np.isfinite(self.wanted)].astype(np.float64)
        typical = float(np.sqrt(np.mean(finite * finite))) if finite.size else 0.0
        self.allowed = relative * (np.abs(self.wanted) + typical) if not self.exact else None

    def difference(self, array: np.ndarray[Any, Any]) -> str:
        """Return how `array` differs; "" where it does not."""
        result = array if self.exact else _wide(array)
        right = result == self.wanted
        if self.allowed is not None:
            with np.errstate(invalid="ignore"):
                right |= (np.abs(result - self.wanted) <= self.allowed) | (np.isnan(result) & np.isnan(self.wanted))
        count = int(right.size - np.count_nonzero(right))
        if not count:
            return ""
        place = tuple(int(index) for index in np.argwhere(~right)[0])
        return (
            f"{count} of {result.size} elements differ, the first at {list(place)}: "
            f"{result[place]} instead of {self.wanted[place]}"
        )


def _wide(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Floats that numpy computes with: 16 bits and less as float32."""
    return array if array.dtype.itemsize >= 4 else array.astype(np.float32)
