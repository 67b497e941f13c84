"""A search for counterexamples to the laws of a combiner, among operands that folds of drawn terms reach."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ....base import TilewrightError, dataclass
from ....base.nibbles import holds_integers
from ...dtype import DType
from ...expr import CommReducer, Expr, FloatImm, IntImm
from ...interpret.scalars import numpy_dtype
from ...visit import post_order
from .application import Application, Values, is_closed

__all__ = ["Found", "search"]

TERMS = 256
SEED = 20
MAGNITUDE = 1e4
"""Floats beyond say more of rounding than of laws."""
FEW = 0.01
"""The part of float operands that may differ: where rounding moves a comparison."""


@dataclass(frozen=True)
class Found:
    """Counterexamples in words; empty where there are none."""

    association: str = ""
    repetition: str = ""
    idleness: str = ""


def search(part: CommReducer, constants: Sequence[Expr | None]) -> Found:
    """Counterexamples to associativity, and to an identity that may be taken up again. constants: of elements whose terms are all one
    value, that value."""
    if not is_closed(part):  # what reads other things cannot be run by itself
        return Found()
    rng = np.random.default_rng(SEED)
    numbers = {
        node.value
        for node in post_order(*part.result, *part.identity)
        if isinstance(node, (IntImm, FloatImm)) and not node.dtype.is_bool and abs(node.value) < MAGNITUDE
    }

    def terms() -> Values:
        return [
            np.full(TERMS, constant.value, numpy_dtype(var.dtype))
            if isinstance(constant, (IntImm, FloatImm))  # a term that is always 1 says nothing of other values
            else _draw_operands(rng, var.dtype, numbers)
            for var, constant in zip(part.lhs, constants, strict=True)
        ]

    try:
        with np.errstate(all="ignore"):
            apply = Application(part)

            def operands() -> Values:
                alone, folded = terms(), apply(terms(), terms())
                # a third of the operands are results of folds
                return [np.where(np.arange(TERMS) % 3 == 0, b, a) for a, b in zip(alone, folded, strict=True)]

            x, y, z = operands(), operands(), operands()
            left, right = apply(apply(x, y), z), apply(x, apply(y, z))
            at = _difference(part, left, right)
            association = "" if at is None else _association((x, y, z), left, right, at)
            first = [np.repeat(value, TERMS) for value in apply.identity()]
            reached = apply(first, operands())
            between, plain = apply(reached, apply(first, y)), apply(reached, y)
            again = _difference(part, between, plain)
            doubled = apply(first, first)
    except TilewrightError:
        return Found()  # what cannot be run is not refuted
    repetition = (
        ""
        if again is None
        else f"{_text(reached, again)} with {_text(y, again)} gives {_text(plain, again)}, and with the identity "
        f"{_text(first, again)} between them {_text(between, again)}"
    )
    with np.errstate(all="ignore"):
        same = all(np.allclose(a.astype(np.float64), b.astype(np.float64)) for a, b in zip(first, doubled, strict=True))
    idleness = "" if same else f"the identity {_text(first, 0)} with itself gives {_text(doubled, 0)}"
    return Found(association, repetition, idleness)


def _draw_operands(rng: np.random.Generator, dtype: DType, numbers: set[float]) -> np.ndarray[Any, Any]:
    """Terms of an element: small numbers, any numbers, and what lies at the ends of the dtype and at the combiner's constants."""
    held = numpy_dtype(dtype)
    if dtype.is_bool:
        return rng.integers(0, 2, TERMS).astype(bool)
    if dtype.is_float:
        scale = max(1.0, *map(abs, numbers)) if numbers else 1.0
        kinds, small = rng.integers(0, 3, TERMS), rng.integers(-4, 5, TERMS)
        drawn = np.where(kinds == 1, rng.uniform(-3, 3, TERMS), rng.uniform(-2, 2, TERMS) * scale)
        # float32 numbers of which each dtype has a neighbour
        return np.where(kinds == 0, small, drawn).astype(np.float32).astype(held)
    least, greatest = dtype.least, dtype.greatest
    # values next to the combiner's constants meet its edges
    near = (int(number) + step for number in numbers for step in (-1, 0, 1))
    edges = {least, least + 1, greatest, greatest - 1, *near}
    within = [edge for edge in sorted(edges) if least <= edge <= greatest]
    small = rng.integers(0 if least == 0 else -4, 5, TERMS)
    whole = rng.integers(least, greatest, TERMS, held, endpoint=True)
    kinds = rng.integers(0, 3, TERMS)
    chosen = np.array(within, held)[rng.integers(0, len(within), TERMS)]
    return np.where(kinds == 0, small.astype(held), np.where(kinds == 1, whole, chosen))


def _difference(part: CommReducer, left: Values, right: Values) -> int | None:
    """Return the place where two operands differ by more than rounding; None where they do not."""
    apart, counted = np.zeros(TERMS, bool), np.ones(TERMS, bool)
    for a, b in zip(left, right, strict=True):
        if holds_integers(a.dtype):
            apart |= a != b
            continue
        wide, other = a.astype(np.float64), b.astype(np.float64)
        # large values say more of rounding than of laws
        counted &= np.isfinite(wide) & np.isfinite(other) & (np.abs(wide) < MAGNITUDE) & (np.abs(other) < MAGNITUDE)
        slack = 1e-3 if a.dtype.itemsize > 2 else 0.03
        apart |= ~(np.abs(wide - other) <= slack * (1 + np.maximum(np.abs(wide), np.abs(other))))
    found = np.flatnonzero(apart & counted)
    rounds = any(var.dtype.is_float for var in part.lhs)
    # a few differences are rounding that moved a comparison
    if len(found) == 0 or (rounds and len(found) < FEW * counted.sum()):
        return None
    return int(found[0])


def _association(operands: Sequence[Values], left: Values, right: Values, at: int) -> str:
    x, y, z = (_text(values, at) for values in operands)
    return f"({x} with {y}) with {z} gives {_text(left, at)}, {x} with ({y} with {z}) gives {_text(right, at)}"


def _text(values: Values, at: int) -> str:
    parts = [str(value[at]) for value in values]
    return parts[0] if len(parts) == 1 else f"({', '.join(parts)})"
