"""The derivative of every operator, against finite differences."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import tilewright as tw
from gradient_check import draw, evaluate, placeholder
from tilewright import te
from tilewright.ir.combine import mul_add
from tilewright.ir.expr import Call
from tilewright.ir.visit import post_order
from tilewright.te.autodiff.derivatives import CALLS, OPERATORS

ANY, POSITIVE, INSIDE, ABOVE_ONE = (-2.0, 2.0), (0.2, 3.0), (-0.9, 0.9), (1.1, 3.0)

UNARY: dict[str, tuple[Callable[[Any], Any], tuple[float, float]]] = {
    **{
        name: (getattr(te, name), ANY)
        for name in (
            "exp exp2 exp10 expm1 sin cos sinh cosh tanh atan asinh erf sigmoid abs floor ceil round trunc nearbyint"
        ).split()
    },
    **{name: (getattr(te, name), POSITIVE) for name in ("log", "log2", "log10", "log1p", "sqrt", "rsqrt")},
    **{name: (getattr(te, name), INSIDE) for name in ("asin", "acos", "atanh", "tan")},
    "acosh": (te.acosh, ABOVE_ONE),
    "negative": (lambda x: -x, ANY),
    "whole powers": (lambda x: x**2 + x**3 * 0.1, ANY),
    "fractional power": (lambda x: te.power(x, 2.5), POSITIVE),
    "negative power": (lambda x: te.power(x, -1.5), POSITIVE),
    "power by itself": (lambda x: te.power(x, x), POSITIVE),
    "exponent": (lambda x: te.power(1.7, x), ANY),
    "constants": (lambda x: 2.0 - x * 3.0 + 1.0 / x, POSITIVE),
    "through float32 and back": (lambda x: x.astype("float64") * 2.0, ANY),
    "through an integer": (lambda x: x.astype("int32").astype("float64") * x, ANY),
    "select": (lambda x: te.select(x > 0.3, x * x, te.exp(x)), ANY),
    "if_then_else": (lambda x: te.if_then_else(x > 0.3, te.log(x), te.sin(x)), ANY),
    "choice in a choice": (
        lambda x: te.select(x > 0, te.select(x > 1, x * 3.0, x * x), te.if_then_else(x < -1, x, x * 2.0)),
        ANY,
    ),
    "clip": (lambda x: te.min(te.max(x, -0.5), 0.7), ANY),
    "shared": (lambda x: (lambda y: y * y + y)(te.exp(x) * x), ANY),
    "a constant": (lambda x: te.const(2.0, "float64") + te.floor(x), ANY),
}

BINARY: dict[str, tuple[Callable[[Any, Any], Any], tuple[float, float]]] = {
    "add": (lambda x, y: x + y, ANY),
    "subtract": (lambda x, y: x - y, ANY),
    "multiply": (lambda x, y: x * y, ANY),
    "divide": (lambda x, y: x / y, POSITIVE),
    "min": (lambda x, y: te.min(x, y), ANY),
    "max": (lambda x, y: te.max(x, y), ANY),
    "power": (te.power, POSITIVE),
    "atan2": (te.atan2, ANY),
    "hypot": (te.hypot, ANY),
    "copysign": (te.copysign, ANY),
    "fma": (lambda x, y: te.fma(x, y, x), ANY),
    "mul_add": (lambda x, y: mul_add(x, y, x), ANY),
    "floormod": (lambda x, y: x % y, POSITIVE),
    "fmod": (te.fmod, POSITIVE),
    "floordiv": (lambda x, y: x // y + x, POSITIVE),
    "condition of the other": (
        lambda x, y: te.if_then_else(te.any(x > y, y > 1), x * y, te.select(te.all(y < 0, x < 0), y, x)),
        ANY,
    ),
}


@pytest.mark.parametrize("domain", [ANY, POSITIVE, INSIDE, ABOVE_ONE], ids=str)
def test_functions_of_one_operand(domain: tuple[float, float]) -> None:
    assert_slopes({name: function for name, (function, own) in UNARY.items() if own is domain}, 1, domain)


@pytest.mark.parametrize("domain", [ANY, POSITIVE], ids=str)
def test_functions_of_two_operands(domain: tuple[float, float]) -> None:
    assert_slopes({name: function for name, (function, own) in BINARY.items() if own is domain}, 2, domain)


def assert_slopes(functions: dict[str, Callable[..., Any]], operands: int, domain: tuple[float, float]) -> None:
    """Each function's derivatives are those of central differences, at 13 points; one kernel computes all."""
    x = [placeholder(f"x{at}", 13) for at in range(operands)]
    at = {tensor: draw(tensor, case, *domain) for case, tensor in enumerate(x)}
    head = te.placeholder((13,), "float64", "head")
    values = [
        te.compute((13,), lambda i, f=function: f(*(tensor[i] for tensor in x)), "y") for function in functions.values()
    ]
    slopes = [slope for value in values for slope in te.gradient(value, x, head)]
    made = evaluate([*values, *slopes], {**at, head: np.ones(13)})[len(values) :]
    sides = []
    f = tw.build(te.create_schedule([value.op for value in values]), [*x, *values])
    for step in (1e-5, -1e-5):
        for moved in x:
            out = [np.empty(13) for _ in values]
            f(*(known + step * (tensor is moved) for tensor, known in at.items()), *out)
            sides.append(out)
    for place, name in enumerate(functions):
        for one in range(operands):
            want = (sides[one][place] - sides[operands + one][place]) / 2e-5
            np.testing.assert_allclose(
                made[place * operands + one], want, rtol=1e-6, atol=1e-7, err_msg=f"{name} by x{one}"
            )


def test_every_row_of_the_table_is_checked() -> None:
    x = te.var("x", "float64")
    y = te.var("y", "float64")
    made = [function(x) for function, _ in UNARY.values()] + [function(x, y) for function, _ in BINARY.values()]
    met = {node.name if isinstance(node, Call) else type(node) for value in made for node in post_order(value)}
    assert {*CALLS, *OPERATORS} - met == set(), "a row of the table that no case here reaches"


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32"])
def test_gradients_are_of_the_inputs_own_dtype(dtype: str) -> None:
    x = te.placeholder((5,), dtype, "x")
    y = te.compute((5,), lambda i: x[i].astype("float64") * x[i].astype("float64"), "y")
    (made,) = te.gradient(y, x, te.placeholder((5,), "float32", "head"))
    assert made.dtype == dtype
    values = np.array([-2, -0.5, 0, 1, 3]).astype(evaluate([x * x], {x: np.zeros(5, _numpy(dtype))})[0].dtype)
    (got,) = evaluate([made], {x: values, made_head(made): np.full(5, 0.5, "float32")})
    np.testing.assert_array_equal(got.astype("float64"), values.astype("float64"))


def _numpy(dtype: str) -> Any:
    import ml_dtypes

    return ml_dtypes.bfloat16 if dtype == "bfloat16" else dtype


def made_head(made: te.Tensor) -> te.Tensor:
    return next(tensor for tensor in made.op.input_tensors if tensor.name == "head")


def test_at_a_kink_the_first_operand_counts_and_relu_and_abs_are_flat() -> None:
    x = placeholder("x", 3)
    zero, ones = np.zeros(3), np.ones(3)
    for function, slope in (
        (lambda v: te.max(v, 0.0), 0),
        (lambda v: te.max(0.0, v), 0),
        (lambda v: te.min(v, 0.0), 1),
        (te.abs, 0),
        (lambda v: te.max(v, v), 1),
    ):
        y = te.compute((3,), lambda i, function=function: function(x[i]), "y")
        head = te.placeholder((3,), "float64", "head")
        made = te.gradient(y, x, head)
        (got,) = evaluate(made, {x: zero, head: ones} if slope or made[0].op.input_tensors else {x: zero})
        np.testing.assert_array_equal(got, slope * ones)


def test_a_zero_exponent_and_a_zero_base_give_no_nan() -> None:
    x, y = placeholder("x", 3), placeholder("y", 3)
    z = te.compute((3,), lambda i: te.power(x[i], y[i]), "z")
    head = te.placeholder((3,), "float64", "head")
    by_x, by_y = evaluate(
        te.gradient(z, [x, y], head), {x: np.array([0.0, 0.0, 2.0]), y: np.array([0.0, 2.0, 0.0]), head: np.ones(3)}
    )
    np.testing.assert_allclose(by_x, [0, 0, 0])
    np.testing.assert_allclose(by_y, [0, 0, np.log(2)])


def test_the_branch_that_is_not_taken_leaves_no_nan_behind() -> None:
    x = placeholder("x", 4)
    y = te.compute((4,), lambda i: te.select(x[i] > 0, te.sqrt(x[i]), 0.0), "y")
    head = te.placeholder((4,), "float64", "head")
    (got,) = evaluate(te.gradient(y, x, head), {x: np.array([-1.0, 0.0, 1.0, 4.0]), head: np.ones(4)})
    np.testing.assert_allclose(got, [0, 0, 0.5, 0.25])
