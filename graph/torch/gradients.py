"""torch's operators that stand in backward programs alone."""

from __future__ import annotations

from .call import Call, aten

__all__: list[str] = []


def _without(c: Call, value: str) -> str:
    """1 - value."""
    return c.emit("subtract", c.filled(1, c.dtype), value)


@aten("tanh_backward.default")
def _tanh(c: Call) -> str:
    return c.emit("multiply", c.tensor("grad_output"), _without(c, c.emit("square", c.tensor("output"))))


@aten("sigmoid_backward.default")
def _sigmoid(c: Call) -> str:
    output = c.tensor("output")
    return c.emit("multiply", c.tensor("grad_output"), c.emit("multiply", output, _without(c, output)))


@aten("threshold_backward.default")
def _threshold(c: Call) -> str:
    above = c.emit("greater", c.tensor(), c.operand("threshold", c.dtype))
    return c.emit("where", above, c.tensor("grad_output"), c.filled(0, c.dtype))


@aten("silu_backward.default")
def _silu(c: Call) -> str:
    share = c.emit("sigmoid", c.tensor())
    slope = c.emit("add", c.filled(1, c.dtype), c.emit("multiply", c.tensor(), _without(c, share)))
    return c.emit("multiply", c.tensor("grad_output"), c.emit("multiply", share, slope))


@aten("_softmax_backward_data.default", "_log_softmax_backward_data.default")
def _softmax(c: Call) -> str:
    grad, output, axis = c.tensor("grad_output"), c.tensor("output"), c.axis(of="output")
    c.given("input_dtype")
    if "log" in c.target:
        total = c.emit("sum", grad, axes=(axis,), keepdims=True)
        return c.emit("subtract", grad, c.emit("multiply", c.emit("exp", output), total))
    total = c.emit("sum", c.emit("multiply", grad, output), axes=(axis,), keepdims=True)
    return c.emit("multiply", output, c.emit("subtract", grad, total))
