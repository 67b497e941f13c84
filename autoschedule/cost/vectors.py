"""Moves of vectors by operations on vectors in whose time they are done: what counts of operations weigh plans of sums by.

Measured of sums with AVX2 and AVX-512, beside multiply-adds of whole vectors in the first cache.
"""

from __future__ import annotations

from typing import NamedTuple

from ...codegen.machine import Machine

__all__ = ["APART", "CACHED", "GATHERED", "PACKED", "PARTIAL", "SCATTERED", "SECOND", "STORED"]


class Move(NamedTuple):
    """Operations on vectors, for what the second cache holds, and for what it does not."""

    near: float
    far: float

    def of(self, size: float, machine: Machine) -> float:
        """Return the operations for an array of so many bytes."""
        return self.near if size <= machine.l2 else self.far


PACKED = Move(18, 40)
"""Of a vector of a tensor that is loaded and stored in another order."""
APART = Move(2.7, 10)
"""Of a step whose vectors lie a row away from those of the step before."""
PARTIAL = Move(3, 10)
"""Of each line of which a step takes only what its rows need."""
SCATTERED = Move(3, 16)
"""Of a result that is stored not beside the others of its vector."""
SECOND = 0.5
"""Of a vector that is loaded and the first cache does not hold."""
STORED, CACHED = 6, 4
"""Of an element that is stored to memory and loaded from there again; and of a vector, in the cache."""
GATHERED = 4
"""Bytes of elements that an instruction gathers."""
