"""Doubts: by how much an estimate has to be better before it is believed, and what is added to one for what it does not foresee.

Each is what timings of candidates beside their estimates left, of drawn programs and of operators on AVX2 and AVX-512.
"""

from __future__ import annotations

__all__ = [
    "ALIKE",
    "BY_LLVM",
    "COPIED",
    "CUT",
    "ENOUGH",
    "FACTORED",
    "FACTORED_IN_TILES",
    "GUARDED",
    "SUMS",
    "TILED",
    "TILED_WINDOWS",
    "UNFORESEEN",
    "WINDOWS_APART",
    "WINDOWS_BEGUN",
    "WINDOWS_FAR",
    "WITHIN",
    "WORSE",
]

ALIKE = 1.02
"""Estimates are no finer than that: of those that are so close the first is taken."""
WORSE = 2.0
"""How many times what the best takes, by counts of operations, a plan may take that is estimated at all."""
TILED = 0.9
"""What a tile of sums has to cost of what plain lanes cost, by counts of operations."""
SUMS = 0.3
"""By which part sums of any form are slower than estimated, beside products of matrices. Of 24 drawn programs whose choice it decides,
0.1 and 0.3 are the same in the mean; with 0.1 the worst take 1.6 times as long, with 0.3 1.2."""
UNFORESEEN = 0.1
"""By which part loops of several stages together, or rules that are asked later, are slower than estimated: they push each other out of
caches."""
GUARDED = 1.0
"""By which part sums of windows are slower than estimated where windows are no tiles: guards stay around every tap."""
WINDOWS_FAR, WINDOWS_APART, WINDOWS_BEGUN = 0.1, 0.3, 0.15
"""The same of tiles of windows that do not lie one after the other in memory, of lanes that guards tell apart where machines have no
masks, and of what begins and ends a tile, shared among its places."""
TILED_WINDOWS = 0.5
"""The same of chains with windows, which are computed tile by tile."""
WITHIN, COPIED = 0.5, 0.2
"""The same of channels or rows that end within a vector, so that each step of their sums is masked, and of products of matrices that copy
what windows of a convolution read."""
BY_LLVM = 0.5
"""The part of the time of elements one by one that LLVM's vectors take, as measured of loops over rows of 3 (poses, cross products, lookups
by bytes: 0.3 to 0.55)."""
CUT = 1.05
"""What an axis costs that is not whole in a tile: conditions on it are not known where its loop is written out."""
FACTORED, FACTORED_IN_TILES = 1.2, 0.8
"""Times as many multiply-adds as a tree of sums has, from which on a sum of products is looked at; and of three elements of tensors and
more, of which trees make products that keep a tile of results in registers."""
ENOUGH = 0.75
"""Part of the terms that a condition leaves at most, so that it is worth leaving out the others; and of the threads that a
multiprocessor can hold, below which that is said."""
