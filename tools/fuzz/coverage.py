"""Coverage of the cases: a table of operation × dtype × primitive, and which of its cells cannot be reached."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any

from .boundaries import BOUNDARY_TYPES
from .schedules import PRIMITIVES
from .terms import DTYPES, FLOATS, NUMBERS

__all__ = ["OPERATIONS", "Coverage", "illegal"]

Cell = tuple[str, str, str]

OPERATIONS: dict[str, tuple[str, ...]] = {
    "elementwise": DTYPES,
    "sum": NUMBERS,
    "prod": NUMBERS,
    "min": DTYPES,
    "max": DTYPES,
    "matmul": NUMBERS,
    "conv2d": NUMBERS,
    "pool": DTYPES,
    "softmax": FLOATS,
    "argmax": NUMBERS,
    "blur": NUMBERS,
    "layout": DTYPES,
    "gather": DTYPES,
    "triangle": NUMBERS,
    "tuples": NUMBERS,
    "scan": DTYPES,
    "hybrid": NUMBERS,
    "product": NUMBERS,
    "extern": DTYPES,
    "gradient": FLOATS,
    "boundaries": BOUNDARY_TYPES,
}
"""Every kind of operation, with the dtypes in which its stages may be."""

_NO_DTYPE = {
    "softmax": "exponentials and divisions are of floats",
    "gradient": "derivatives are of floats",
    "boundaries": "sums over a chain of stencils are kept to whole numbers that their dtype holds",
}
_REDUCTIONS = ("sum", "prod", "min", "max")
_OF_REDUCTIONS = {"rfactor": "only a reduction has an axis to factor"}
_OF_OTHERS = {"compute_inline": "a reduction cannot be inlined"}
_NOT_OF_STAGES = {"auto_inline": "it is called on a whole schedule"}
_OF_PRODUCTS = {"tensorize": "the intrinsic computes products of packed matrices"}
_OF_SCRIPTS = dict.fromkeys(
    ("cache_write", "storage_align", "set_store_predicate", "prefetch", "transform_layout", "rolling_buffer"),
    "a script has loops, and no expression of an element that could be computed elsewhere or otherwise",
) | {
    "clone_in": "a script is not written twice",
    "compute_with": "the loops of a script are its own",
    "factor": "a script has no sum of products that is one expression",
    "fast_fourier": "a script is not a transform of topi",
    "redeclare": "a script is not an operator of topi",
    "polyphase": "a script has no element to write for a part of its places",
    "compute_inline": "a script has no expression to put into its readers",
    "rfactor": "a script reduces in its own words",
}
_OF_SCANS = {"env_threads": "only a recurrence has steps for threads to stay around"}
_OF_EXTERNS = dict.fromkeys(
    ("split", "fuse", "reorder", "tile", "parallel", "vectorize", "unroll", "bind", "pragma", "prefetch"),
    "an extern is a statement, of whose loops a schedule knows nothing",
) | dict.fromkeys(
    (
        "cache_write",
        "clone_in",
        "compute_inline",
        "compute_with",
        "factor",
        "fast_fourier",
        "polyphase",
        "redeclare",
        "rfactor",
        "storage_align",
        "transform_layout",
        "rolling_buffer",
    ),
    "an extern has no expression of an element, and says itself how its memory lies",
)


def illegal(operation: str, dtype: str, primitive: str) -> str:
    """The rule by which no schedule has this cell; empty where one may."""
    if dtype not in OPERATIONS[operation]:
        return _NO_DTYPE.get(operation, "bool has no arithmetic")
    if primitive in _NOT_OF_STAGES:
        return _NOT_OF_STAGES[primitive]
    if operation in ("elementwise", "layout") and primitive in _OF_REDUCTIONS:
        return _OF_REDUCTIONS[primitive]
    if operation in _REDUCTIONS and primitive in _OF_OTHERS:
        return _OF_OTHERS[primitive]
    if (operation, dtype, primitive) == ("gather", "bool", "rfactor"):
        return "what is looked up is summed, which bools are not"
    if operation == "hybrid" and primitive in _OF_SCRIPTS:
        return _OF_SCRIPTS[primitive]
    if operation == "extern" and primitive in _OF_EXTERNS:
        return _OF_EXTERNS[primitive]
    if operation != "scan" and primitive in _OF_SCANS:
        return _OF_SCANS[primitive]
    if operation != "product" and primitive in _OF_PRODUCTS:
        return _OF_PRODUCTS[primitive]
    return ""


class Coverage:
    """Counts cells: how often a primitive was taken on a stage of an operation whose result has a dtype."""

    def __init__(self) -> None:
        self.cells: Counter[Cell] = Counter()

    def add(self, cells: Iterable[Any]) -> None:
        self.cells.update((str(operation), str(dtype), str(primitive)) for operation, dtype, primitive in cells)

    @staticmethod
    def all_cells() -> Iterator[Cell]:
        for operation in OPERATIONS:
            for dtype in DTYPES:
                for primitive in PRIMITIVES:
                    yield operation, dtype, primitive

    @property
    def empty(self) -> list[Cell]:
        """The cells that are legal and were never reached."""
        return [cell for cell in self.all_cells() if not self.cells[cell] and not illegal(*cell)]

    def plain(self) -> dict[str, Any]:
        """The table as plain data: reached cells with their counts, empty ones, and the illegal ones by rule."""
        rules: dict[str, list[str]] = {}
        for cell in self.all_cells():
            if illegal(*cell):
                rules.setdefault(illegal(*cell), []).append("/".join(cell))
        return {
            "cells": {"/".join(cell): count for cell, count in sorted(self.cells.items())},
            "empty": ["/".join(cell) for cell in self.empty],
            "illegal": rules,
        }

    def __str__(self) -> str:
        """One row for each operation, one column for each primitive: in how many of the legal dtypes it was taken."""
        width = max(map(len, OPERATIONS))
        heads = [primitive[:9] for primitive in PRIMITIVES]
        lines = [" " * width + " " + " ".join(f"{head:>9}" for head in heads)]
        for operation in OPERATIONS:
            row = [f"{operation:<{width}}"]
            for primitive in PRIMITIVES:
                legal = [dtype for dtype in DTYPES if not illegal(operation, dtype, primitive)]
                reached = sum(1 for dtype in legal if self.cells[operation, dtype, primitive])
                row.append(f"{f'{reached}/{len(legal)}' if legal else '-':>9}")
            lines.append(" ".join(row))
        count = sum(1 for cell in self.all_cells() if not illegal(*cell))
        lines.append(
            f"{count - len(self.empty)} of {count} legal cells reached (in how many dtypes of the operation's stages the "
            "primitive was taken / may be; -: illegal by rule)"
        )
        return "\n".join(lines)
