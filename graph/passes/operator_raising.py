"""Operators that were written out in smaller ones, found again: activations, norms, softmax.

    input x: float32[2, 8]
    param root: float32[] = (1.4142135381698608)
    param one: float32[] = (1.0)
    param half: float32[] = (0.5)
    a: float32[2, 8] = divide(x, root)
    b: float32[2, 8] = erf(a)
    c: float32[2, 8] = add(b, one)
    d: float32[2, 8] = multiply(x, c)
    y: float32[2, 8] = multiply(d, half)
    output y

becomes

    input x: float32[2, 8]
    y: float32[2, 8] = gelu(x, approximate="none")
    output y

What lies between is read by nobody else. Numbers of a pattern are met by parameters within a hundred-thousandth.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import cast

from .pattern import Match, Rule, has_float_result, rule_pass
from .rewriter import GraphPass

__all__ = ["RAISED", "RULES"]

_NEAR = 1e-5


def _rule(
    name: str,
    pattern: str,
    result: str | Callable[[Match], str | None],
    when: Callable[[Match], bool] = has_float_result,
) -> Rule:
    return Rule(name, pattern, result, when, whole=True, tolerance=_NEAR)


def _products(name: str, factor: str, result: str) -> list[Rule]:
    """x * factor / 2 in every order of the products."""
    return [
        _rule(name, pattern, result)
        for pattern in (
            f"multiply(multiply(x, {factor}), 0.5)",
            f"multiply(multiply(x, 0.5), {factor})",
            f"multiply(x, multiply({factor}, 0.5))",
        )
    ]


_SCALED = ("divide(x, 1.4142135)", "multiply(x, 0.70710678)")
_CUBES = ("power(x, 3)", "multiply(x, square(x))", "multiply(x, multiply(x, x))")
_INNER = (
    *(f"multiply(add(x, multiply({cube}, 0.044715)), 0.79788456)" for cube in _CUBES),
    *(
        f"multiply({x}, add(multiply({square}, 0.044715), 1))"
        for x in ("multiply(x, 0.79788456)",)
        for square in ("square(x)", "multiply(x, x)")
    ),
    "multiply(x, add(multiply(square(x), 0.0356774), 0.79788456))",
)
_GELU = [
    rule for scaled in _SCALED for rule in _products("gelu", f"add(erf({scaled}), 1)", 'gelu(x, approximate="none")')
]
_GELU_TANH = [
    rule for inner in _INNER for rule in _products("gelu-tanh", f"add(tanh({inner}), 1)", 'gelu(x, approximate="tanh")')
]


def _sixth(match: Match) -> bool:
    return math.isclose(match["A"], 1 / 6, rel_tol=_NEAR) and match["B"] == 0.5


_CLIPPED = "clip(add(x, 3), low=0, high=6)"
_ACTIVATIONS = [
    _rule("silu", "multiply(x, sigmoid(x))", "silu(x)"),
    _rule("mish", "multiply(x, tanh(softplus(x)))", "mish(x)"),
    _rule("hard-swish", f"divide(multiply(x, {_CLIPPED}), 6)", "hard_swish(x)"),
    _rule("hard-swish", f"multiply(multiply(x, {_CLIPPED}), 0.16666667)", "hard_swish(x)"),
    _rule("hard-swish", f"multiply(x, divide({_CLIPPED}, 6))", "hard_swish(x)"),
    _rule("hard-swish", f"multiply(x, multiply({_CLIPPED}, 0.16666667))", "hard_swish(x)"),
    _rule("hard-swish", "multiply(x, hard_sigmoid(x, alpha=A, beta=B))", "hard_swish(x)", _sixth),
    _rule("hard-sigmoid", f"divide({_CLIPPED}, 6)", "hard_sigmoid(x, alpha=0.16666666666666666, beta=0.5)"),
    _rule("hard-sigmoid", f"multiply({_CLIPPED}, 0.16666667)", "hard_sigmoid(x, alpha=0.16666666666666666, beta=0.5)"),
]


def _build_mean(match: Match) -> str | None:
    """Build the mean of a sum over axes of known extents, divided by (or times one over) how many elements there are."""
    axes = cast("tuple[int, ...]", match["A"])
    extents = [match.type("x").shape[axis] for axis in axes]
    divides = match.nodes[0].operator == "divide"
    c = match.known("c")
    if c.size != 1 or not all(isinstance(extent, int) for extent in extents):
        return None
    count = math.prod(cast("list[int]", extents))
    if not count or not math.isclose(float(c.reshape(-1)[0]), count if divides else 1 / count, rel_tol=1e-6):
        return None
    return match.r.node("mean", match["x"], axes=axes, keepdims=match["K"], outputs=match.nodes[0].outputs)


_DEVIATION = "subtract(x, mean(x, axes=A, keepdims=True))"
_VARIANCES = tuple(
    f"add(mean({square}, axes=A, keepdims=True), c)"
    for square in (f"square({_DEVIATION})", f"power({_DEVIATION}, 2)", f"multiply({_DEVIATION}, {_DEVIATION})")
)
_MEAN_SQUARES = tuple(
    f"add(mean({square}, axes=A, keepdims=True), c)" for square in ("square(x)", "power(x, 2)", "multiply(x, x)")
)


def _normal(operator: str) -> Callable[[Match], str | None]:
    """A norm over the last dimensions, with a number under its root."""

    def result(match: Match) -> str | None:
        rank = len(match.type("x").shape)
        axes = sorted(axis % rank for axis in cast("tuple[int, ...]", match["A"]))
        epsilon = match.known("c")
        if (
            not axes
            or axes != list(range(axes[0], rank))
            or epsilon.size != 1
            or not 0 <= float(epsilon.reshape(-1)[0]) < 1
        ):
            return None
        return match.r.node(
            operator,
            match["x"],
            axis=axes[0] - rank,
            epsilon=float(epsilon.reshape(-1)[0]),
            outputs=match.nodes[0].outputs,
        )

    return result


def _fits(match: Match, *names: str) -> bool:
    """Return whether values have the shape of the dimensions over which a norm runs."""
    axis = cast("int", match["A"])
    x = match.type("x")
    return all(
        match.type(name).shape == x.shape[axis % len(x.shape) :] and match.type(name).dtype == x.dtype for name in names
    )


_NORMS = [
    *(
        _rule("layer-norm", pattern, _normal("layer_norm"))
        for variance in _VARIANCES
        for pattern in (f"divide({_DEVIATION}, sqrt({variance}))", f"multiply({_DEVIATION}, rsqrt({variance}))")
    ),
    *(
        _rule("rms-norm", pattern, _normal("rms_norm"))
        for square in _MEAN_SQUARES
        for pattern in (f"divide(x, sqrt({square}))", f"multiply(x, rsqrt({square}))")
    ),
    _rule(
        "layer-norm-scale",
        "multiply(layer_norm(x, axis=A, epsilon=E), w)",
        "layer_norm(x, w, axis=A, epsilon=E)",
        lambda m: _fits(m, "w"),
    ),
    _rule(
        "layer-norm-shift",
        "add(layer_norm(x, w, axis=A, epsilon=E), b)",
        "layer_norm(x, w, b, axis=A, epsilon=E)",
        lambda m: _fits(m, "w", "b"),
    ),
    _rule(
        "rms-norm-scale",
        "multiply(rms_norm(x, axis=A, epsilon=E), w)",
        "rms_norm(x, w, axis=A, epsilon=E)",
        lambda m: _fits(m, "w"),
    ),
]

_EXP = "exp(subtract(x, max(x, axes=A, keepdims=True)))"


def _build_softmax(match: Match) -> str | None:
    axes = cast("tuple[int, ...]", match["A"])
    return match.r.node("softmax", match["x"], axis=axes[0], outputs=match.nodes[0].outputs) if len(axes) == 1 else None


RULES = (
    *_GELU,
    *_GELU_TANH,
    *_ACTIVATIONS,
    _rule("mean", "divide(sum(x, axes=A, keepdims=K), c)", _build_mean),
    _rule("mean", "multiply(sum(x, axes=A, keepdims=K), c)", _build_mean),
    *_NORMS,
    _rule("softmax", f"divide({_EXP}, sum({_EXP}, axes=A, keepdims=True))", _build_softmax),
)

RAISED = GraphPass(
    "raised",
    "activations, norms and softmax that were written out are one operator",
    "rounds",
    rule_pass(RULES),
    __doc__,
)
