"""torch's losses: what a training is to make small."""

from __future__ import annotations

from functools import reduce

from ..conversion import broadcast
from .call import Call, aten

__all__: list[str] = []

_MEAN, _SUM = 1, 2


def _reduce_loss(c: Call, value: str) -> str:
    """The value, its mean or its sum, as the call says."""
    kind = c.known("reduction", _MEAN)
    if kind not in (_MEAN, _SUM):
        return value
    return c.emit("mean" if kind == _MEAN else "sum", value, axes=tuple(range(c.rank(value))))


@aten("broadcast_tensors.default")
def _broadcast(c: Call) -> list[str]:
    """Broadcast two values, as torch does before losses."""
    values = c.tensors()
    shape = reduce(broadcast, (c.type(value).shape for value in values))
    return [c.broadcast(value, shape) for value in values]


@aten("mse_loss.default")
def _convert_mse(c: Call) -> str:
    return _reduce_loss(c, c.emit("square", c.emit("subtract", c.tensor(), c.tensor("target"))))


@aten("l1_loss.default")
def _convert_distances(c: Call) -> str:
    return _reduce_loss(c, c.emit("abs", c.emit("subtract", c.tensor(), c.tensor("target"))))


@aten("binary_cross_entropy_with_logits.default")
def _convert_bce_with_logits(c: Call) -> str:
    """(1 - target) x + softplus(-x), the latter with weights p of what is right (1 + (p - 1) target) times."""
    x, target = c.tensor(), c.tensor("target")
    right, weight, one = c.optional("pos_weight"), c.optional("weight"), c.scalar(1, c.dtype)
    rest = c.emit("softplus", c.emit("negative", x))
    if right:
        rest = c.emit("multiply", c.emit("add", one, c.emit("multiply", c.emit("subtract", right, one), target)), rest)
    value = c.emit("add", c.emit("multiply", c.emit("subtract", one, target), x), rest)
    return _reduce_loss(c, c.emit("multiply", value, weight) if weight else value)


def _pick_classes(c: Call, logarithms: str, smooth: float = 0.0) -> str:
    """The loss of each place: minus the logarithm of the class that is right, weighed by its class, and of those that count the
    weighed mean. smooth: the share of all classes in it."""
    target, weights = c.tensor("target"), c.optional("weight")
    axis = min(c.rank(logarithms) - 1, 1)
    shape = c.type(target).shape
    places = c.emit("reshape", target, shape=(*shape[:axis], 1, *shape[axis:]))
    picked = c.emit("reshape", c.emit("gather", logarithms, places, axis=axis), shape=shape)
    counted = c.emit("not_equal", target, c.scalar(int(c.known("ignore_index", -100)), c.type(target).dtype))
    zero = c.scalar(0, c.dtype)
    safe = c.emit("where", counted, target, c.scalar(0, c.type(target).dtype))
    shares = c.emit("take", weights, safe, axis=0) if weights else c.scalar(1, c.dtype)
    losses = c.emit("negative", c.emit("multiply", picked, shares) if weights else picked)
    if smooth:
        losses = c.emit(
            "add",
            c.emit("multiply", losses, c.scalar(1 - smooth, c.dtype)),
            c.emit("multiply", _average_classes(c, logarithms, axis, weights), c.scalar(smooth, c.dtype)),
        )
    losses = c.emit("where", counted, losses, zero)
    if c.known("reduction", _MEAN) != _MEAN:
        return _reduce_loss(c, losses)
    axes = tuple(range(len(shape)))
    return c.emit(
        "divide",
        c.emit("sum", losses, axes=axes),
        c.emit("sum", c.emit("where", counted, shares, zero) if weights else c.cast(counted, c.dtype), axes=axes),
    )


def _average_classes(c: Call, logarithms: str, axis: int, weights: str) -> str:
    """Minus the mean of the logarithms of all classes, each weighed by its class."""
    shape = c.type(logarithms).shape
    if weights:
        along = [shape[axis] if at == axis else 1 for at in range(len(shape))]
        logarithms = c.emit("multiply", logarithms, c.reshape(weights, along))
    return c.emit(
        "divide",
        c.emit("negative", c.emit("sum", logarithms, axes=(axis,))),
        c.cast(c.size_value(shape[axis]), c.dtype),
    )


@aten("nll_loss_nd.default", "nll_loss.default", "nll_loss2d.default")
def _convert_nll(c: Call) -> str:
    return _pick_classes(c, c.tensor())


@aten("cross_entropy_loss.default")
def _cross_entropy(c: Call) -> str:
    smooth, value = float(c.known("label_smoothing", 0.0)), c.tensor()
    axis = min(c.rank(value) - 1, 1)
    logarithms = c.emit("log_softmax", value, axis=axis)
    if "float" in c.type(c.tensor("target")).dtype:
        return _weigh_classes(c, logarithms, axis, smooth)
    return _pick_classes(c, logarithms, smooth)


def _weigh_classes(c: Call, logarithms: str, axis: int, smooth: float) -> str:
    """Minus the logarithms, weighed by the chances of the classes; the mean is that over places."""
    target, weights = c.tensor("target"), c.optional("weight")
    c.argument("ignore_index", None)
    shape = c.type(logarithms).shape
    if smooth:
        share = c.emit("divide", c.scalar(smooth, c.dtype), c.cast(c.size_value(shape[axis]), c.dtype))
        target = c.emit("add", c.emit("multiply", target, c.scalar(1 - smooth, c.dtype)), share)
    each = c.emit("multiply", logarithms, target)
    if weights:
        each = c.emit(
            "multiply", each, c.reshape(weights, [shape[axis] if at == axis else 1 for at in range(len(shape))])
        )
    losses = c.emit("negative", c.emit("sum", each, axes=(axis,)))
    return _reduce_loss(c, losses)


@aten("smooth_l1_loss.default", "huber_loss.default")
def _convert_huber(c: Call) -> str:
    """A square near 0, a line from a width on; Huber's is that width times the smooth one."""
    huber = c.target.startswith("huber")
    width = float(c.known("delta" if huber else "beta", 1.0))
    far = c.emit("abs", c.emit("subtract", c.tensor(), c.tensor("target")))
    if not width:
        return _reduce_loss(c, far)
    square = c.emit("multiply", c.emit("square", far), c.scalar(0.5 / (1 if huber else width), c.dtype))
    line = c.emit("subtract", far, c.scalar(0.5 * width, c.dtype))
    line = c.emit("multiply", line, c.scalar(width, c.dtype)) if huber else line
    return _reduce_loss(c, c.emit("where", c.emit("less", far, c.scalar(width, c.dtype)), square, line))


@aten("kl_div.default")
def _convert_kl_divergence(c: Call) -> str:
    target, zero = c.tensor("target"), c.scalar(0, c.dtype)
    if c.known("log_target", False):
        each = c.emit("multiply", c.emit("exp", target), c.emit("subtract", target, c.tensor()))
    else:
        some = c.emit("greater", target, zero)
        logarithm = c.emit("log", c.emit("where", some, target, c.scalar(1, c.dtype)))
        each = c.emit(
            "where",
            some,
            c.emit("multiply", target, c.emit("subtract", logarithm, c.tensor())),
            c.emit("negative", c.emit("multiply", target, c.tensor())),
        )
    return _reduce_loss(c, each)


def _bounded_log(c: Call, chance: str, least: str) -> str:
    """The logarithm, at least a number, and flat at 0."""
    is_none = c.emit("equal", chance, c.scalar(0, c.dtype))
    logarithm = c.emit("log", c.emit("where", is_none, c.scalar(1, c.dtype), chance))
    return c.emit("where", is_none, least, c.emit("maximum", logarithm, least))


@aten("binary_cross_entropy.default")
def _convert_binary_cross_entropy(c: Call) -> str:
    """-(y log(p) + (1 - y) log(1 - p)), logarithms at least -100, as torch has them."""
    least, one = c.scalar(-100, c.dtype), c.scalar(1, c.dtype)
    p, y = c.tensor(), c.tensor("target")
    logs = [_bounded_log(c, chance, least) for chance in (p, c.emit("subtract", one, p))]
    total = c.emit("add", c.emit("multiply", y, logs[0]), c.emit("multiply", c.emit("subtract", one, y), logs[1]))
    value = c.emit("negative", total)
    weight = c.optional("weight")
    return _reduce_loss(c, c.emit("multiply", value, weight) if weight else value)
