"""torch's losses: what a training is to make small."""

from __future__ import annotations

from functools import reduce

from ..conversion import Refused, broadcast
from .call import Call, aten

__all__: list[str] = []

_MEAN, _SUM = 1, 2


def _reduced(c: Call, value: str) -> str:
    """The value, its mean or its sum, as the call says."""
    kind = c.known("reduction", _MEAN)
    if kind not in (_MEAN, _SUM):
        return value
    return c.emit("mean" if kind == _MEAN else "sum", value, axes=tuple(range(c.rank(value))))


@aten("broadcast_tensors.default")
def _broadcast(c: Call) -> list[str]:
    """What torch writes before losses of two values."""
    values = c.tensors()
    shape = reduce(broadcast, (c.type(value).shape for value in values))
    return [value if c.type(value).shape == shape else c.emit("broadcast_to", value, shape=shape) for value in values]


@aten("mse_loss.default")
def _squares(c: Call) -> str:
    return _reduced(c, c.emit("square", c.emit("subtract", c.tensor(), c.tensor("target"))))


@aten("l1_loss.default")
def _distances(c: Call) -> str:
    return _reduced(c, c.emit("abs", c.emit("subtract", c.tensor(), c.tensor("target"))))


@aten("binary_cross_entropy_with_logits.default")
def _with_logits(c: Call) -> str:
    """softplus(x) - x * target."""
    if c.given("weight", None) is not None or c.given("pos_weight", None) is not None:
        raise Refused("it weighs its elements")
    x = c.tensor()
    return _reduced(c, c.emit("subtract", c.emit("softplus", x), c.emit("multiply", x, c.tensor("target"))))


def _picked(c: Call, logarithms: str) -> str:
    """The loss of each place: minus the logarithm of the class that is right, and of those that count the mean."""
    if c.given("weight", None) is not None:
        raise Refused("it weighs its classes")
    target = c.tensor("target")
    axis = min(c.rank(logarithms) - 1, 1)
    shape = c.type(target).shape
    places = c.emit("reshape", target, shape=(*shape[:axis], 1, *shape[axis:]))
    picked = c.emit("reshape", c.emit("gather", logarithms, places, axis=axis), shape=shape)
    counted = c.emit("not_equal", target, c.filled(int(c.known("ignore_index", -100)), c.type(target).dtype))
    losses = c.emit("where", counted, c.emit("negative", picked), c.filled(0, c.dtype))
    if c.known("reduction", _MEAN) != _MEAN:
        return _reduced(c, losses)
    axes = tuple(range(len(shape)))
    return c.emit(
        "divide", c.emit("sum", losses, axes=axes), c.emit("sum", c.emit("cast", counted, dtype=c.dtype), axes=axes)
    )


@aten("nll_loss_nd.default", "nll_loss.default", "nll_loss2d.default")
def _of_logarithms(c: Call) -> str:
    return _picked(c, c.tensor())


@aten("cross_entropy_loss.default")
def _cross_entropy(c: Call) -> str:
    if c.known("label_smoothing", 0.0) or c.type(c.tensor("target")).dtype.startswith("float"):
        raise Refused("its labels are smooth, or probabilities")
    value = c.tensor()
    return _picked(c, c.emit("log_softmax", value, axis=min(c.rank(value) - 1, 1)))


@aten("smooth_l1_loss.default", "huber_loss.default")
def _bent(c: Call) -> str:
    """A square near 0, a line from a width on; Huber's is that width times the smooth one."""
    huber = c.target.startswith("huber")
    width = float(c.known("delta" if huber else "beta", 1.0))
    far = c.emit("abs", c.emit("subtract", c.tensor(), c.tensor("target")))
    if not width:
        return _reduced(c, far)
    square = c.emit("multiply", c.emit("square", far), c.filled(0.5 / (1 if huber else width), c.dtype))
    line = c.emit("subtract", far, c.filled(0.5 * width, c.dtype))
    line = c.emit("multiply", line, c.filled(width, c.dtype)) if huber else line
    return _reduced(c, c.emit("where", c.emit("less", far, c.filled(width, c.dtype)), square, line))


@aten("kl_div.default")
def _divergence(c: Call) -> str:
    target, zero = c.tensor("target"), c.filled(0, c.dtype)
    if c.known("log_target", False):
        each = c.emit("multiply", c.emit("exp", target), c.emit("subtract", target, c.tensor()))
    else:
        some = c.emit("greater", target, zero)
        logarithm = c.emit("log", c.emit("where", some, target, c.filled(1, c.dtype)))
        each = c.emit(
            "where",
            some,
            c.emit("multiply", target, c.emit("subtract", logarithm, c.tensor())),
            c.emit("negative", c.emit("multiply", target, c.tensor())),
        )
    return _reduced(c, each)


def _bounded_log(c: Call, chance: str, least: str) -> str:
    """The logarithm, at least a number, and flat at 0."""
    is_none = c.emit("equal", chance, c.filled(0, c.dtype))
    logarithm = c.emit("log", c.emit("where", is_none, c.filled(1, c.dtype), chance))
    return c.emit("where", is_none, least, c.emit("maximum", logarithm, least))


@aten("binary_cross_entropy.default")
def _of_chances(c: Call) -> str:
    """-(y log(p) + (1 - y) log(1 - p)), logarithms at least -100, as torch has them."""
    least, one = c.filled(-100, c.dtype), c.filled(1, c.dtype)
    p, y = c.tensor(), c.tensor("target")
    logs = [_bounded_log(c, chance, least) for chance in (p, c.emit("subtract", one, p))]
    total = c.emit("add", c.emit("multiply", y, logs[0]), c.emit("multiply", c.emit("subtract", one, y), logs[1]))
    value = c.emit("negative", total)
    weight = c.optional("weight")
    return _reduced(c, c.emit("multiply", value, weight) if weight else value)
