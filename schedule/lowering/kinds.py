"""Lowering of operations by their kind: a row each, the `KIND` of a file `kind_*` in this folder.

Beside its row, a kind is a class of te (see te/operation.py), which says what its loops (`axis`, `reduce_axis`), the dimensions of
its outputs (`dimensions`), its inputs and its parts are, and answers what schedules ask of it. A kind is added by these two files.
"""

from __future__ import annotations

import os
from importlib import import_module
from pkgutil import iter_modules

from ...te.operation import Operation
from .kind import OperationKind

__all__ = ["KINDS", "find_kind"]


def _rows() -> dict[str, OperationKind]:
    # a kind is added by a file alone
    names = [module.name for module in iter_modules([os.path.dirname(__file__)]) if module.name.startswith("kind_")]
    rows: list[OperationKind] = [import_module(f".{name}", __package__).KIND for name in names]
    return {row.name: row for row in rows}


KINDS = _rows()
"""By Operation.kind: a row for every kind that is computed."""


def find_kind(op: Operation) -> OperationKind:
    """The row of an operation that is computed."""
    return KINDS[op.kind]
