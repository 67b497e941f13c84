"""torch's operators that stand in backward programs alone."""

from __future__ import annotations

from typing import Any

from ..gradient import RULES
from ..gradient.rule import Pullback
from ..node import Node
from ..operators import row_of, whole_attributes
from .call import Call, aten
from .layers import many

__all__: list[str] = []


def _derive_node(c: Call, operator: str, inputs: list[str], **attributes: Any) -> list[str | None]:
    """The gradients by the inputs of a node of ours whose value has the gradient "grad_output"."""
    head = c.tensor("grad_output")
    whole = whole_attributes(row_of(operator), attributes)
    node = Node(
        operator, tuple(inputs), whole, (head,), (c.type(head),), c.source
    )  # its value is of the type of its gradient
    return list(RULES[operator](Pullback(c.scope.graph, node, [head], inputs)))


@aten("convolution_backward.default")
def _convert_convolution(c: Call) -> list[str]:
    weight = c.tensor("weight")
    rank = c.rank(weight) - 2
    stride, padding, dilation, more = (
        many(c.integers(name), rank) for name in ("stride", "padding", "dilation", "output_padding")
    )
    how: dict[str, Any] = {
        "stride": stride,
        "padding": (*padding, *padding),
        "dilation": dilation,
        "groups": c.integer("groups"),
    }
    wanted = [bool(each) for each in c.argument("output_mask")]
    if c.known("transposed"):
        found = _derive_node(c, "conv_transpose", [c.tensor("input"), weight], **how, output_padding=more)
    else:
        found = _derive_node(c, "conv", [c.tensor("input"), weight], **how)
    c.argument("bias_sizes", None)
    by_bias = (
        c.emit("sum", c.tensor("grad_output"), axes=(0, *range(2, rank + 2)), keepdims=False) if wanted[2] else None
    )
    return [(each or "") if want else "" for want, each in zip(wanted, [*found, by_bias], strict=True)]


def _one_minus(c: Call, value: str) -> str:
    """1 - value."""
    return c.emit("subtract", c.scalar(1, c.dtype), value)


@aten("tanh_backward.default")
def _convert_tanh(c: Call) -> str:
    return c.emit("multiply", c.tensor("grad_output"), _one_minus(c, c.emit("square", c.tensor("output"))))


@aten("sigmoid_backward.default")
def _convert_sigmoid(c: Call) -> str:
    output = c.tensor("output")
    return c.emit("multiply", c.tensor("grad_output"), c.emit("multiply", output, _one_minus(c, output)))


@aten("threshold_backward.default")
def _convert_threshold(c: Call) -> str:
    above = c.emit("greater", c.tensor(), c.operand("threshold", c.dtype))
    return c.emit("where", above, c.tensor("grad_output"), c.scalar(0, c.dtype))


@aten("silu_backward.default")
def _convert_silu(c: Call) -> str:
    share = c.emit("sigmoid", c.tensor())
    slope = c.emit("add", c.scalar(1, c.dtype), c.emit("multiply", c.tensor(), _one_minus(c, share)))
    return c.emit("multiply", c.tensor("grad_output"), c.emit("multiply", share, slope))


@aten("_softmax_backward_data.default", "_log_softmax_backward_data.default")
def _convert_softmax(c: Call) -> str:
    grad, output, axis = c.tensor("grad_output"), c.tensor("output"), c.axis(of="output")
    c.argument("input_dtype")
    if "log" in c.target:
        total = c.emit("sum", grad, axes=(axis,), keepdims=True)
        return c.emit("subtract", grad, c.emit("multiply", c.emit("exp", output), total))
    total = c.emit("sum", c.emit("multiply", grad, output), axes=(axis,), keepdims=True)
    return c.emit("multiply", output, c.emit("subtract", grad, total))
