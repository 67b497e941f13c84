"""Whether te.gradient is right: against central finite differences in float64, and by the interpreter."""

from __future__ import annotations

import zlib
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import tilewright as tw
from tilewright import te
from tilewright.ir.arith.analyzer import simplify
from tilewright.ir.expr import Add, FloatImm, IntImm, Mul
from tilewright.ir.stmt import BufferStore, For
from tilewright.ir.visit import children, post_order, substitute

__all__ = ["check_gradient", "draw", "evaluate", "head_of", "multiply_adds", "placeholder"]

_STEP = 1e-5


def placeholder(name: str, *shape: Any, dtype: str = "float64") -> te.Tensor:
    return te.placeholder(shape, dtype, name)


def draw(tensor: te.Tensor, case: int = 0, least: float = -2.0, most: float = 2.0, **symbols: int) -> np.ndarray:
    """Values for a placeholder, none of them near another or near a whole number, where kinks lie."""
    shape = shape_of(tensor, symbols)
    rng = np.random.default_rng([zlib.crc32(tensor.name.encode()), case])  # the same each run: kinks stay away
    if not tensor.dtype.is_float:
        return rng.integers(0, 3, shape).astype(tensor.dtype)
    count = int(np.prod(shape))
    steps = least + (most - least) * (np.arange(count) + 0.25 + 0.5 * rng.random(count)) / max(count, 1)
    near = np.abs(steps - np.round(steps)) < 1e-3
    return rng.permutation(steps + 2e-3 * near).reshape(shape).astype(tensor.dtype)


def shape_of(tensor: te.Tensor, symbols: Mapping[str, int] | None = None) -> tuple[int, ...]:
    named = symbols or {}
    found = []
    for extent in tensor.shape:
        values = {
            node: te.const(named[node.name], node.dtype) for node in post_order(extent) if isinstance(node, te.Var)
        }
        found.append(int(simplify(substitute(extent, values))))
    return tuple(found)


def head_of(output: te.Tensor, *leading: int) -> te.Tensor:
    return te.placeholder((*leading, *output.shape), output.dtype, "head")


def evaluate(
    outputs: Sequence[te.Tensor],
    inputs: Mapping[te.Tensor, np.ndarray],
    target: str = "llvm",
    **symbols: int,
) -> list[np.ndarray]:
    """The values of tensors, by the default schedule."""
    f = tw.build(te.create_schedule([tensor.op for tensor in outputs]), [*inputs, *outputs], target=target)
    found = [np.full(shape_of(tensor, symbols), 77, tensor.dtype) for tensor in outputs]
    f(*inputs.values(), *found)
    return found


def differences(
    output: te.Tensor, inputs: Mapping[te.Tensor, np.ndarray], wanted: Sequence[te.Tensor], **symbols: int
) -> list[np.ndarray]:
    """The Jacobian by each of `wanted`, by central differences: (*output.shape, *input.shape)."""
    f = tw.build(te.create_schedule(output.op), [*inputs, output])
    found = []
    out = np.empty(shape_of(output, symbols), output.dtype)
    for tensor in wanted:
        value = inputs[tensor]
        jacobian = np.empty((*out.shape, *value.shape))
        for place in np.ndindex(*value.shape):
            sides = []
            for step in (_STEP, -_STEP):
                moved = value.copy()
                moved[place] += step
                f(*[moved if one is tensor else known for one, known in inputs.items()], out)
                sides.append(out.copy())
            jacobian[(..., *place)] = (sides[0] - sides[1]) / (2 * _STEP)
        found.append(jacobian)
    return found


def check_gradient(
    output: te.Tensor,
    inputs: Mapping[te.Tensor, np.ndarray],
    wanted: Sequence[te.Tensor] | None = None,
    tolerance: float = 1e-6,
    interpret: bool = True,
    jacobian: bool = True,
    **symbols: int,
) -> list[te.Tensor]:
    """Assert that the gradient with a head, and the Jacobian, are those of finite differences; returns the gradients
    with the head."""
    wanted = list(wanted if wanted is not None else (t for t in inputs if t.dtype.is_float))
    expected = differences(output, inputs, wanted, **symbols)
    head = head_of(output)
    weights = draw(head, 7, **symbols)
    made = te.gradient(output, wanted, head)
    expected_products = [np.tensordot(weights, dense, weights.ndim) for dense in expected]
    dense_too = te.gradient(output, wanted) if jacobian else []
    outputs = [*made, *dense_too]
    for target in ("llvm", "interpret") if interpret else ("llvm",):
        found = evaluate(outputs, {**inputs, head: weights}, target, **symbols)
        for tensor, got, want in zip([*wanted, *wanted], found, [*expected_products, *expected], strict=False):
            scale = max(1.0, float(np.abs(want).max(initial=0)))
            np.testing.assert_allclose(got, want, rtol=0, atol=tolerance * scale, err_msg=f"{tensor.name} by {target}")
    return made


def multiply_adds(function: Any) -> int:
    """How often the loops of a lowered program run a statement that multiplies and adds floats, guards not counted."""
    total = 0
    stack: list[tuple[Any, int]] = [(function.body, 1)]
    while stack:
        node, trips = stack.pop()
        if isinstance(node, For):
            assert isinstance(node.extent, IntImm)
            trips *= node.extent.value
        if isinstance(node, BufferStore) and not isinstance(node.value, FloatImm):
            kinds = {type(inner) for inner in post_order(node.value) if inner.dtype.is_float}
            total += trips if {Add, Mul} <= kinds else 0
        else:
            stack.extend((child, trips) for child in children(node))
    return total
