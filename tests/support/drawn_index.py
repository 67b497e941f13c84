"""Drawn index expressions over variables of small ranges, and their values at every point."""

from __future__ import annotations

from typing import Any

import drawn
import numpy
from arith_cases import evaluate
from tilewright.ir import expr as E
from tilewright.ir.dtype import INT32, DType
from tilewright.ir.ops import const

CASES = range(drawn.count(150, 5000))
KINDS = (E.Add, E.Sub, E.Mul, E.FloorDiv, E.FloorMod, E.Min, E.Max, E.Add, E.Sub, E.Add)


class Drawn:
    """Variables of small ranges, 1- and 0-extents and odd widths among them, and an expression over them."""

    def __init__(self, name: str, case: int, dtype: DType = INT32, depth: int = 4) -> None:
        self.rng = drawn.rng(name, case)
        self.dtype = dtype
        self.variables = [E.Var(letter, dtype) for letter in "ijk"]
        self.extents = [int(self.rng.choice([1, 2, 3, 5, 8])) for _ in self.variables]
        low = -3 if dtype.kind == "int" else 0
        self.begins = [int(self.rng.integers(low, 4)) for _ in self.variables]
        self.expr = self.draw(depth)
        ranges = (numpy.arange(begin, begin + extent) for begin, extent in zip(self.begins, self.extents, strict=True))
        grids = numpy.meshgrid(*ranges)
        self.env = {var: values.reshape(-1) for var, values in zip(self.variables, grids, strict=True)}

    def draw(self, depth: int) -> E.Expr:
        if depth == 0 or self.rng.random() < 0.1:
            if self.rng.random() < 0.3:
                return const(int(self.rng.integers(0 if self.dtype.kind == "uint" else -5, 9)), self.dtype)
            return self.variables[int(self.rng.integers(3))]
        kind = KINDS[int(self.rng.integers(len(KINDS)))]
        by_number = kind in (E.FloorDiv, E.FloorMod) or kind is E.Mul and self.rng.random() < 0.8
        right = const(int(self.rng.integers(1, 7)), self.dtype) if by_number else self.draw(depth - 1)
        return kind(self.draw(depth - 1), right)

    def values(self, expr: E.Expr, wraps: bool = False) -> Any:
        return evaluate(expr, self.env, wraps)
