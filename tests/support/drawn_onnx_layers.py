"""Drawn models of ONNX with windows: pools, convolutions, norms."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from drawn_onnx import Drawn, Draws, Input, family, ordinary

__all__ = ["window"]


def window(d: Draws, rank: int, sizes: Sequence[int], named: bool = True) -> tuple[list[int], dict[str, Any]]:
    """Taps, and strides, paddings and dilations with which at least one window fits."""
    taps = [d.number(1, 3) for _ in range(rank)]
    far = [d.number(1, 2) for _ in range(rank)] if d.chance(0.4) else None
    reach = [(tap - 1) * (far[at] if far else 1) + 1 for at, tap in enumerate(taps)]
    more: dict[str, Any] = {
        "strides": [d.number(1, 3) for _ in range(rank)] if d.chance(0.6) else None,
        "dilations": far,
    }
    if named and d.chance(0.3):
        if more["strides"]:  # onnxruntime has a negative padding where windows leave elements out between them
            more["strides"] = [min(pair) for pair in zip(more["strides"], reach, strict=True)]
        more["auto_pad"] = d.pick("SAME_UPPER", "SAME_LOWER", "VALID", "NOTSET")
    elif d.chance(0.7):
        more["pads"] = [d.number(0, min(each - 1, 2)) if each > 1 else 0 for each in (*reach, *reach)]
    return taps, more


@family
def _pool(d: Draws) -> Drawn:
    kind, rank, opset = d.pick("MaxPool", "AveragePool", "LpPool", "MaxPool"), d.number(1, 3), d.opset()
    sizes = d.shape(rank, 5, 8)
    taps, more = window(d, rank, sizes)
    if opset < {"MaxPool": 10, "AveragePool": 19, "LpPool": 18}[kind]:
        more["dilations"] = None
        more["pads"] = (
            None
            if not more.get("pads")
            else [min(pad, tap - 1) for pad, tap in zip(more["pads"], taps * 2, strict=True)]
        )
    if opset >= {"MaxPool": 10, "AveragePool": 10, "LpPool": 18}[kind]:
        more["ceil_mode"] = d.pick(None, 0, 1)
    if kind == "AveragePool":
        more["count_include_pad"] = d.pick(None, 0, 1)
    if kind == "LpPool":
        more["p"] = d.pick(None, 1, 2, 3)
    if str(more.get("auto_pad", "")).startswith("SAME"):
        more["dilations"] = None  # onnxruntime and the reference leave them out where they pad
    dtype = d.pick("float32", "uint8", "int8") if kind == "MaxPool" and opset >= 12 else "float32"
    outputs = ("y", "i") if kind == "MaxPool" and opset >= 8 and d.chance(0.3) else ("y",)
    if len(outputs) > 1:
        more["storage_order"] = d.pick(None, 0, 1) if not more.get("dilations") else None
    return d.model(
        kind,
        {"x": d.input((d.size(), d.size(), *sizes), dtype)},
        opset,
        outputs,
        kernel_shape=taps,
        tolerance=1e-4,
        **more,
    )


@family
def _conv(d: Draws) -> Drawn:
    rank, group = d.number(1, 3), d.pick(1, 1, 2)
    inside, outside = d.number(1, 3), group * d.number(1, 2)
    sizes = d.shape(rank, 5, 7)
    taps, more = window(d, rank, sizes)
    if d.chance():
        more["kernel_shape"] = taps
    inputs = {"x": d.input((d.size(), inside * group, *sizes)), "w": d.weight((outside, inside, *taps))}
    if d.chance():
        inputs["b"] = d.weight((outside,))
    return d.model("Conv", inputs, d.opset(), group=d.pick(group, group) if group > 1 else None, tolerance=2e-4, **more)


@family
def _conv_transpose(d: Draws) -> Drawn:
    rank, group = d.number(1, 2), d.pick(1, 1, 2)
    inside, outside = d.number(1, 2), d.number(1, 2)
    sizes = d.shape(rank, 2, 5)
    taps, more = window(d, rank, sizes)
    strides, far = more["strides"] or [1] * rank, more["dilations"] or [1] * rank
    if d.chance(0.4):
        more["output_padding"] = [d.number(0, max(one, two) - 1) for one, two in zip(strides, far, strict=True)]
    if d.chance(0.25):
        more.pop("pads", None)
        more["output_shape"] = [
            d.number(-1, 2) + (size - 1) * step + (tap - 1) * each + 1
            for size, step, tap, each in zip(sizes, strides, taps, far, strict=True)
        ]
        more["output_shape"] = [max(one, 1) for one in more["output_shape"]]
    inputs = {
        "x": d.input((d.size(), inside * group, *sizes), is_open=False),
        "w": d.weight((inside * group, outside, *taps)),
    }
    if d.chance():
        inputs["b"] = d.weight((outside * group,))
    return d.model("ConvTranspose", inputs, d.opset(11), group=group, tolerance=2e-4, **more)


@family
def _global(d: Draws) -> Drawn:
    kind = d.pick("GlobalAveragePool", "GlobalMaxPool", "GlobalLpPool")
    more = {"p": d.pick(None, 1, 2, 3)} if kind == "GlobalLpPool" else {}
    return d.model(kind, {"x": d.input(d.shape(d.number(3, 5), 1))}, d.opset(), tolerance=1e-4, **more)


@family
def _norm(d: Draws) -> Drawn:
    kind = d.pick(
        "BatchNormalization",
        "InstanceNormalization",
        "LayerNormalization",
        "GroupNormalization",
        "LRN",
        "LpNormalization",
        "MeanVarianceNormalization",
        "RMSNormalization",
    )
    rank = d.number(3, 4)
    shape = d.shape(rank, 1)
    channel = shape[1]
    epsilon = d.pick(None, 1e-3)
    positive = ordinary("float32", 0.5, 2)
    if kind == "BatchNormalization":
        names = {name: d.weight((channel,), values=positive) for name in ("s", "b", "m", "v")}
        return d.model(kind, {"x": d.input(shape), **names}, d.opset(9), epsilon=epsilon, tolerance=1e-4)
    if kind == "InstanceNormalization":
        inputs = {"x": d.input(shape), "s": d.weight((channel,)), "b": d.weight((channel,))}
        return d.model(kind, inputs, d.opset(), epsilon=epsilon, tolerance=2e-3)
    if kind in ("LayerNormalization", "RMSNormalization"):
        axis = d.axis(rank)
        inputs = {"x": Input(shape, "float32", ordinary("float32")), "s": d.weight(shape[axis % rank :])}
        if kind[0] == "L" and d.chance():
            inputs["b"] = d.weight(shape[axis % rank :])
        outputs = ("y", "mean", "inv")[: d.number(1, 3)] if kind[0] == "L" else ("y",)
        return d.model(
            kind, inputs, d.opset(17 if kind[0] == "L" else 23), outputs, axis=axis, epsilon=epsilon, tolerance=2e-3
        )
    if kind == "GroupNormalization":
        groups, opset = d.number(1, 2), d.opset(21)
        shape = (shape[0], groups * channel, *shape[2:])
        inputs = {"x": d.input(shape), "s": d.weight((groups * channel,)), "b": d.weight((groups * channel,))}
        return d.model(kind, inputs, opset, num_groups=groups, epsilon=epsilon, tolerance=2e-3)
    if kind == "LRN":
        return d.model(
            kind,
            {"x": d.input(shape)},
            d.opset(),
            size=d.pick(1, 3, 5),
            alpha=d.pick(None, 0.5),
            beta=d.pick(None, 0.6),
            bias=d.pick(None, 2.0),
            tolerance=1e-4,
        )
    if kind == "LpNormalization":
        return d.model(
            kind,
            {"x": d.input(shape)},
            d.opset(),
            axis=d.pick(None, d.axis(rank)),
            p=d.pick(None, 1, 2),
            tolerance=1e-4,
        )
    shape = d.shape(4, 1)
    return d.model(
        kind, {"x": d.input(shape)}, d.opset(9), axes=d.pick(None, [0, 2, 3], [1], [0, 1, 2, 3]), tolerance=2e-3
    )
