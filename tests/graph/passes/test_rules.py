"""Every rule is met by its own pattern, and gives what the pattern gives."""

from __future__ import annotations

import ast
from typing import Any

import drawn
import numpy as np
import pytest
import tilewright as tw
from tilewright.graph import PASSES, Builder
from tilewright.graph.comparison import difference
from tilewright.graph.passes import algebra, fast_algebra, operator_raising, powers
from tilewright.graph.passes.pattern import Rule

TABLES = {
    "algebra": algebra.RULES,
    "powers": powers.RULES,
    "fast_algebra": fast_algebra.RULES,
    "raised": operator_raising.RULES,
}
RULES = [(name, rule) for name, rules in TABLES.items() for rule in rules]
ATTRIBUTES: dict[str, dict[str, Any]] = {
    "cast-to-itself": {"A": "float32"},
    "cast-cast": {"A": "float64", "B": "float32"},
    "hard-swish": {"A": 1 / 6, "B": 0.5},
    "layer-norm-scale": {"A": -1, "E": 1e-3},
    "layer-norm-shift": {"A": -1, "E": 1e-3},
    "rms-norm-scale": {"A": -1, "E": 1e-3},
}
NUMBERS = {
    "divide(sum(x, axes=A, keepdims=K), c)": 3.0,
    "multiply(sum(x, axes=A, keepdims=K), c)": 1 / 3,
    "divide(x, c)": 0.25,
}
"""What c has to be for a rule."""


class _Instance:
    """The graph of a rule's pattern: its names inputs of a dtype, its numbers parameters. own: the dtypes of some names.
    attributes: in place of those above."""

    def __init__(
        self, rule: Rule, dtype: str, own: dict[str, str] | None = None, attributes: dict[str, Any] | None = None
    ) -> None:
        self.rule, self.dtype, self.own, self.b = rule, dtype, own or {}, Builder()
        self.attributes = attributes or ATTRIBUTES.get(rule.name, {"A": (1,), "K": True})
        self.b.output("y", self.value(ast.parse(rule.pattern, mode="eval").body))

    def value(self, pattern: ast.expr) -> str:
        if isinstance(pattern, ast.Name):
            return self.name(pattern.id)
        if not isinstance(pattern, ast.Call):
            return self.b.param(f"p{len(self.b.types)}", np.asarray(ast.literal_eval(pattern)).astype(self.dtype))
        asked = {str(one.arg): one.value for one in pattern.keywords}
        attributes = {
            name: self.attributes[value.id] if isinstance(value, ast.Name) else ast.literal_eval(value)
            for name, value in asked.items()
        }
        return self.b.node(pattern.func.id, *map(self.value, pattern.args), **attributes)  # type: ignore[attr-defined]

    def name(self, name: str) -> str:
        if name in self.b.types:
            return name
        if name.startswith("c"):
            return self.b.param(
                name, np.asarray(NUMBERS.get(self.rule.pattern, 0.125 if "float" in self.dtype else 3), self.dtype)
            )
        small = name in ("w", "b") and "norm" in self.rule.name
        dtype = "bool" if name == "b" and self.rule.name.startswith("where") else self.own.get(name, self.dtype)
        return self.b.input(name, (3,) if small else (2, 3), dtype)


@pytest.mark.parametrize("name, rule", RULES, ids=[f"{rule.name}-{at}" for at, (_, rule) in enumerate(RULES)])
def test_a_rule_is_met_by_its_pattern_and_computes_the_same(name: str, rule: Rule) -> None:
    random = np.random.default_rng(0)
    fired = 0
    for dtype in ("float32", "int32", "bool"):
        try:
            g = _Instance(rule, dtype).b.graph()
        except tw.GraphError:
            continue  # the operators are not of this dtype
        after = g.transform(name)
        arrays = [
            random.uniform(0.5, 2, kind.shape).astype(kind.dtype)
            if "float" in kind.dtype
            else random.integers(0, 2 if kind.dtype == "bool" else 9, kind.shape).astype(kind.dtype)
            for kind in g.inputs.values()
        ]
        kept = [array for input_name, array in zip(g.inputs, arrays, strict=True) if input_name in after.inputs]
        try:
            theirs = g.run(*arrays)[0]
        except TypeError:
            continue  # nor numpy's
        ours = after.run(*kept)[0]
        assert ours.dtype == theirs.dtype and ours.shape == theirs.shape
        assert difference(ours, theirs) <= (1e-6 if PASSES[name].changes_rounding else 0)
        fired += after is not g
    assert fired, f"{rule.pattern} stays as it is"


DTYPES = ("bool", "int8", "uint8", "int16", "int32", "uint32", "int64", "uint64", "float16", "float32", "float64")


def extremes(random: np.random.Generator, shape: Any, dtype: str) -> Any:
    """The least and the greatest of integers, and what of floats is special, among small numbers that any dtype has."""
    small = random.integers(0, 5, shape).astype(dtype)
    special = (
        [-0.0, np.nan, np.inf, -1.5]
        if "float" in dtype
        else [0, 1]
        if dtype == "bool"
        else [np.iinfo(dtype).min, np.iinfo(dtype).max, np.iinfo(dtype).max - 1]
    )
    return np.where(random.random(shape) < 0.6, random.choice(np.asarray(special, dtype), shape), small)


@pytest.mark.parametrize("rule", algebra.RULES, ids=[f"{rule.name}-{at}" for at, rule in enumerate(algebra.RULES)])
def test_rules_hold_to_the_bit_for_operands_of_any_dtypes(rule: Rule) -> None:
    for at in range(drawn.count(30, 1000)):
        random = drawn.rng(f"{rule.name} {rule.pattern}", at)
        a, b, c, d, e = (str(dtype) for dtype in random.choice(DTYPES, 5))
        try:
            g = _Instance(rule, c, {"x": a, "y": b}, {"A": d, "B": e}).b.graph()
        except tw.GraphError:
            continue
        arrays = [extremes(random, kind.shape, kind.dtype) for kind in g.inputs.values()]
        with np.errstate(all="ignore"):
            if "int" in e and "float" in f"{a}{d}":  # what is out of range has no one value
                arrays = [
                    array if array.dtype == bool else np.nan_to_num(array, posinf=3, neginf=3) % 100 for array in arrays
                ]
            before, after = g.run(*arrays)[0], g.transform("algebra").run(*arrays)[0]
        assert before.dtype == after.dtype, str(g)
        np.testing.assert_array_equal(after, before, err_msg=str(g))
        if before.dtype.kind == "f":
            assert (np.signbit(after) == np.signbit(before))[~np.isnan(before)].all(), str(g)


@pytest.mark.parametrize(
    "text, name",
    [
        ("y: float32[2] = add(x, zero)", "algebra"),  # -0.0 + 0 is 0
        ("y: float32[2] = multiply(x, zero)", "algebra"),  # infinity * 0 is NaN
        ("y: float32[2] = subtract(x, x)", "fast_algebra"),  # so is infinity - infinity
        ("y: float32[2] = divide(x, three)", "algebra"),  # a third is no float
        ("y: float32[2, 2] = multiply(x, ones)", "algebra"),  # of another shape than x
        ("y: float32[2] = add(add(x, three), three)", "algebra"),
    ],
)
def test_what_is_not_the_same_for_every_float_stays(text: str, name: str) -> None:
    lines = ["a: float32[2] = add(x, three)", "y: float32[2] = add(a, three)"] if "add(add" in text else [text]
    g = tw.graph.parse(
        "graph g {\n input x: float32[2]\n param zero: float32[] = (0.0)\n param three: float32[] = (3.0)\n"
        " param ones: float32[2, 2] = (1.0, 1.0, 1.0, 1.0)\n" + "\n".join(lines) + "\n output y\n}"
    )
    assert g.transform(name).nodes == g.nodes


def test_what_others_read_is_not_raised() -> None:
    g = tw.graph.parse("""graph g {
      input x: float32[4]
      a: float32[4] = sigmoid(x)
      y: float32[4] = multiply(x, a)
      output y
      output a
    }""")
    assert g.transform("raised") is g
