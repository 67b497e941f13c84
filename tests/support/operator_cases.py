"""The samples of every row of the table of operators, each with the operator's name."""

from __future__ import annotations

from typing import Any

from tilewright.graph import OPERATORS

__all__ = ["CASES"]

CASES: list[tuple[str, Any]] = [(name, one) for name, row in OPERATORS.items() for one in row.samples]
