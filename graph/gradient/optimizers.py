"""Optimizers, as formulas of what a step makes of a weight and of its moments.

w is the weight, g the gradient of the loss by it, t the number of the step from 1 on; other names are moments, as they were or as
the formulas above have made them, and options, log1 and log2 the logarithms of the betas. They compute what torch.optim computes;
1 - beta^t is -expm1(t log(beta)), which loses nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ...base import dataclass, field

__all__ = ["OPTIMIZERS", "Optimizer"]


@dataclass(frozen=True)
class Optimizer:
    """Update rule of a weight.

    options: their defaults. moments: what is kept beside each weight, which begins as zeros. steps: what is computed, in order,
    by name: "w" is the weight that follows. counts: whether the number of the step is needed, which begins as 0.
    """

    options: Mapping[str, float | tuple[float, ...]]
    moments: Sequence[str]
    steps: Mapping[str, str]
    counts: bool = False
    further: Mapping[str, Optimizer] = field(default_factory=lambda: dict[str, Optimizer]())
    """Options that need moments of their own where they are not 0: the optimizer with them."""


_DECAY = {"g": "g + w * weight_decay"}
_ADAM = {
    "m": "m * beta1 + g * (1.0 - beta1)",
    "v": "v * beta2 + g * g * (1.0 - beta2)",
    "w": "w - m * (lr / -expm1(t * log1)) / (sqrt(v) / sqrt(-expm1(t * log2)) + eps)",
}

_RMSPROP = {"lr": 1e-2, "alpha": 0.99, "eps": 1e-8, "weight_decay": 0.0, "momentum": 0.0}
_SQUARES = "v * alpha + g * g * (1.0 - alpha)"

OPTIMIZERS: dict[str, Optimizer] = {
    "sgd": Optimizer({"lr": 1e-3, "weight_decay": 0.0}, (), {**_DECAY, "w": "w - g * lr"}),
    "momentum": Optimizer(
        {"lr": 1e-3, "momentum": 0.9, "weight_decay": 0.0},
        ("m",),
        {**_DECAY, "m": "m * momentum + g", "w": "w - m * lr"},
    ),
    "nesterov": Optimizer(
        {"lr": 1e-3, "momentum": 0.9, "weight_decay": 0.0},
        ("m",),
        {**_DECAY, "m": "m * momentum + g", "w": "w - (g + m * momentum) * lr"},
    ),
    "rmsprop": Optimizer(
        _RMSPROP,
        ("v",),
        {**_DECAY, "v": _SQUARES, "w": "w - g / (sqrt(v) + eps) * lr"},
        further={
            "momentum": Optimizer(
                _RMSPROP,
                ("v", "m"),
                {**_DECAY, "v": _SQUARES, "m": "m * momentum + g / (sqrt(v) + eps)", "w": "w - m * lr"},
            )
        },
    ),
    "adagrad": Optimizer(
        {"lr": 1e-2, "eps": 1e-10, "weight_decay": 0.0},
        ("v",),
        {**_DECAY, "v": "v + g * g", "w": "w - g / (sqrt(v) + eps) * lr"},
    ),
    "adam": Optimizer(
        {"lr": 1e-3, "betas": (0.9, 0.999), "eps": 1e-8, "weight_decay": 0.0}, ("m", "v"), {**_DECAY, **_ADAM}, True
    ),
    "adamw": Optimizer(
        {"lr": 1e-3, "betas": (0.9, 0.999), "eps": 1e-8, "weight_decay": 1e-2},
        ("m", "v"),
        {"decayed": "w - w * (lr * weight_decay)", **_ADAM, "w": _ADAM["w"].replace("w -", "decayed -")},
        True,
    ),
}
"""By name."""
