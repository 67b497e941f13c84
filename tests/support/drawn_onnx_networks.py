"""Drawn models of ONNX that resize, multiply, quantise, recur and sample."""

from __future__ import annotations

import numpy as np
from drawn_onnx import Drawn, Draws, Input, extreme, family, indices, ordinary
from drawn_onnx_layers import window

__all__: list[str] = []


@family
def _resize(d: Draws) -> Drawn:
    opset, mode = d.pick(10, 11, 13, 18, 19), d.pick("nearest", "linear", "cubic")
    shape = (1, d.size(), *d.shape(2, 2, 5))
    scales = [1.0, 1.0, *(d.pick(0.5, 0.6, 1.0, 1.5, 2.0, 2.5, 3.0) for _ in range(2))]
    x = d.input(shape, is_open=False)
    if opset == 10:
        return d.model("Resize", {"x": x, "s": d.held(scales, "float32")}, opset, mode=d.pick("nearest", "linear"))
    sizes = [*shape[:2], *(d.number(1, 8) for _ in range(2))]
    where = d.pick(
        None,
        "half_pixel",
        "pytorch_half_pixel",
        "align_corners",
        "asymmetric",
        "half_pixel_symmetric" if opset >= 19 else None,
    )
    by_sizes = d.chance(0.4)
    more = {
        "nearest_mode": d.pick(None, "round_prefer_floor", "round_prefer_ceil", "floor", "ceil")
        if mode == "nearest"
        else None,
        "cubic_coeff_a": d.pick(None, -0.5) if mode == "cubic" else None,
        "exclude_outside": d.pick(None, 0, 1) if mode == "cubic" else None,
        "antialias": d.pick(None, 1) if opset >= 18 and mode != "nearest" and d.chance(0.3) else None,
    }
    inputs = {"x": x, "z": d.held(sizes)} if by_sizes else {"x": x, "s": d.held(scales, "float32")}
    positions = ["x", "", "", "z"] if by_sizes else ["x", "", "s"]
    return d.model(
        "Resize",
        inputs,
        opset,
        mode=mode,
        coordinate_transformation_mode=where,
        positions=positions,
        tolerance=1e-3,
        **more,
    )


@family
def _product(d: Draws) -> Drawn:
    kind = d.pick("MatMul", "Gemm", "Einsum")
    m, k, n = d.size(0), d.size(0), d.size(0)
    if kind == "MatMul":
        lead = d.shape(d.number(0, 2), 1)
        left = d.pick((k,), (m, k), (*lead, m, k))
        right = d.pick((k,), (k, n), (*(1 if d.chance(0.3) else one for one in lead), k, n))
        dtype = d.pick("float32", "float64", "int32", "int64")
        return d.model(kind, {"a": d.input(left, dtype), "b": d.input(right, dtype)}, d.opset(9), tolerance=1e-4)
    if kind == "Gemm":
        ta, tb = d.pick(None, 0, 1), d.pick(None, 0, 1)
        inputs = {"a": d.input((k, m) if ta else (m, k)), "b": d.weight((n, k) if tb else (k, n))}
        if d.chance(0.7):
            inputs["c"] = d.weight(d.pick((), (n,), (1,), (m, 1), (1, n), (m, n)))
        return d.model(
            kind,
            inputs,
            d.opset(11 if len(inputs) < 3 else 7),
            transA=ta,
            transB=tb,
            alpha=d.pick(None, 0.5),
            beta=d.pick(None, 0.25, 0.0),
            tolerance=1e-4,
        )
    equation, ranks = d.pick(
        ("ij,jk->ik", ("mk", "kn")),
        ("ij->ji", ("mk",)),
        ("ij->", ("mk",)),
        ("ii->i", ("mm",)),
        ("bij,bjk->bik", ("xmk", "xkn")),
        ("...ij,...jk->...ik", ("xmk", "kn")),
        ("i,j", ("m", "n")),
        ("ij,ij->i", ("mk", "mk")),
    )
    sizes = {"m": max(m, 1), "k": max(k, 1), "n": max(n, 1), "x": 2}
    inputs = {f"x{at}": d.input([sizes[one] for one in letters]) for at, letters in enumerate(ranks)}
    return d.model(kind, inputs, d.opset(12), equation=equation, tolerance=1e-4)


@family
def _quantised(d: Draws) -> Drawn:
    kind = d.pick(
        "QuantizeLinear",
        "DequantizeLinear",
        "DynamicQuantizeLinear",
        "MatMulInteger",
        "ConvInteger",
        "QLinearMatMul",
        "QLinearConv",
    )
    scale = ordinary("float32", 0.05, 0.5)
    if kind == "DynamicQuantizeLinear":
        values = d.pick(ordinary("float32"), lambda r, s: np.zeros(s, "float32"), ordinary("float32", 1, 2))
        return d.model(kind, {"x": d.input(d.shape(d.number(1, 3), 1), values=values)}, d.opset(11), ("y", "s", "z"))
    dtype = d.pick("int8", "uint8")
    whole = extreme(dtype)
    if kind in ("QuantizeLinear", "DequantizeLinear"):
        shape, opset = d.shape(d.number(1, 3), 1), d.opset(13)
        axis = d.axis(len(shape))
        along = d.chance() and (shape[axis],) or ()
        x = ordinary("float32", -20, 20) if kind[0] == "Q" else whole
        inputs = {"x": Input(shape, "float32" if kind[0] == "Q" else dtype, x), "s": d.weight(along, values=scale)}
        if kind[0] == "Q" and dtype == "int8" or d.chance(0.7):
            inputs["z"] = d.weight(along, dtype, ordinary(dtype))
        return d.model(kind, inputs, opset, axis=axis)
    if kind == "MatMulInteger":
        m, k, n = d.shape(3, 1)
        inputs = {
            "a": d.input((m, k), dtype, whole),
            "b": d.weight((k, n), "uint8" if dtype == "uint8" else d.pick("int8", "uint8")),
        }
        if d.chance(0.7):
            inputs["za"] = d.weight((), dtype)
            if d.chance():
                inputs["zb"] = d.weight(d.pick((), (n,)), inputs["b"].dtype)
        return d.model(kind, inputs, d.opset(10))
    rank = 2
    taps, more = window(d, rank, (5, 5))
    channels, outside = d.number(1, 2), d.number(1, 3)
    image, filters = (1, channels, 5, 6), (outside, channels, *taps)
    if kind == "ConvInteger":
        inputs = {
            "x": d.input(image, "uint8", extreme("uint8"), False),
            "w": d.weight(filters, d.pick("uint8", "int8")),
        }
        if d.chance(0.7):
            inputs["zx"] = d.weight((), "uint8")
        return d.model(kind, inputs, d.opset(10), **more)
    ones = lambda dtype: Input((), dtype, ordinary(dtype), True)
    step = lambda: Input((), "float32", scale, True)
    if kind == "QLinearMatMul":
        m, k, n = d.shape(3, 1)
        inputs = {
            "a": d.input((m, k), "uint8", is_open=False),
            "as": step(),
            "az": ones("uint8"),
            "b": d.weight((k, n), "uint8"),
            "bs": step(),
            "bz": ones("uint8"),
            "ys": step(),
            "yz": ones("uint8"),
        }
        return d.model(kind, inputs, d.opset(10), tolerance=-1)
    inputs = {
        "x": d.input(image, "uint8", is_open=False),
        "xs": step(),
        "xz": ones("uint8"),
        "w": d.weight(filters, "uint8"),
        "ws": step(),
        "wz": ones("uint8"),
        "ys": step(),
        "yz": ones("uint8"),
    }
    return d.model(kind, inputs, d.opset(10), tolerance=-1, **more)


@family
def _recurrent(d: Draws) -> Drawn:
    kind = d.pick("RNN", "GRU", "LSTM")
    direction = d.pick(None, "forward", "reverse", "bidirectional")
    both, gates = 2 if direction == "bidirectional" else 1, {"RNN": 1, "GRU": 3, "LSTM": 4}[kind]
    steps, batch, width, hidden = d.number(1, 4), d.number(1, 3), d.number(1, 3), d.number(1, 3)
    inputs = {
        "x": d.input((steps, batch, width)),
        "w": d.weight((both, gates * hidden, width)),
        "r": d.weight((both, gates * hidden, hidden)),
        "b": d.weight((both, 2 * gates * hidden)),
        "l": d.weight((batch,), "int32", lambda r, s: r.integers(1, steps + 1, s).astype("int32")),
        "h": d.input((both, batch, hidden), is_open=False),
    }
    if kind == "LSTM":
        inputs |= {"c": d.input((both, batch, hidden), is_open=False), "p": d.weight((both, 3 * hidden))}
    kept = {name for name in inputs if name in "xwr" or d.chance()}
    if "l" in kept or "h" in kept:
        inputs["x"] = Input((steps, batch, width), "float32", ordinary("float32"))
    positions = [name if name in kept else "" for name in inputs]
    while not positions[-1]:
        positions.pop()
    more = {"linear_before_reset": d.pick(None, 0, 1)} if kind == "GRU" else {}
    outputs = ("y", "yh", "yc")[: 3 if kind == "LSTM" else 2]
    return d.model(
        kind,
        {name: inputs[name] for name in inputs if name in kept},
        d.opset(7),
        outputs,
        hidden_size=hidden,
        direction=direction,
        positions=positions,
        tolerance=1e-3,
        least=1,  # onnxruntime ends the process where there is no row
        **more,
    )


@family
def _sampled(d: Draws) -> Drawn:
    kind = d.pick("GridSample", "RoiAlign", "Det", "Col2Im", "NonMaxSuppression")
    if kind == "Det":
        size = d.number(1, 3)
        return d.model(kind, {"x": d.input((*d.shape(d.number(0, 2), 1), size, size))}, d.opset(11), tolerance=1e-3)
    if kind == "GridSample":
        opset = d.pick(16, 20)
        modes = ("bilinear", "nearest", "bicubic") if opset < 20 else ("linear", "nearest", "cubic")
        inputs = {"x": d.input(d.shape(4, 2, 4), is_open=False)}
        batch = inputs["x"].dims[0]
        inputs["g"] = Input((batch, *d.shape(2, 1, 4), 2), "float32", ordinary("float32", -1.3, 1.3))
        return d.model(
            kind,
            inputs,
            opset,
            mode=d.pick(None, *modes),
            padding_mode=d.pick(None, "zeros", "border" if opset > 16 else None, "reflection"),
            align_corners=d.pick(None, 0, 1),
            tolerance=2e-3,
        )
    if kind == "RoiAlign":
        count = d.number(1, 3)
        boxes = lambda r, s: np.sort(r.uniform(0, 6, (s[0], 2, 2)), 1).reshape(s).astype("float32")
        inputs = {
            "x": d.input((2, 2, 6, 7), is_open=False),
            "r": Input((count, 4), "float32", boxes),
            "b": Input((count,), "int64", indices(2, "int64", False)),
        }
        opset = d.opset(16)
        return d.model(
            kind,
            inputs,
            opset,
            output_height=d.pick(None, 2),
            output_width=d.pick(None, 3),
            sampling_ratio=d.pick(None, 0, 2),
            spatial_scale=d.pick(None, 0.5),
            coordinate_transformation_mode=d.pick(None, "half_pixel", "output_half_pixel"),
            tolerance=1e-3,
        )
    if kind == "Col2Im":
        image, block = d.shape(2, 3, 6), d.shape(2, 1, 3)
        count = int(np.prod([size - tap + 1 for size, tap in zip(image, block, strict=True)]))
        inputs = {
            "x": d.input((d.size(), d.size() * int(np.prod(block)), count), is_open=False),
            "i": d.held(image),
            "b": d.held(block),
        }
        return d.model(kind, inputs, d.opset(18))
    count, classes = d.number(1, 5), d.number(1, 2)
    corners = lambda r, s: np.concatenate(
        [low := r.uniform(0, 1, (*s[:2], 2)), low + r.uniform(0.1, 1, (*s[:2], 2))], -1
    ).astype("float32")
    inputs = {
        "x": Input((1, count, 4), "float32", corners),
        "s": Input((1, classes, count), "float32", ordinary("float32", 0, 1)),
        "m": d.held([d.number(0, 3)]),
        "o": d.held([0.4], "float32"),
        "t": d.held([0.2], "float32"),
    }
    keep = list(inputs)[: d.pick(3, 4, 5)]
    return d.model(kind, {name: inputs[name] for name in keep}, d.opset(11), center_point_box=d.pick(None, 0))
