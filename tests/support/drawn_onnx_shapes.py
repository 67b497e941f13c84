"""Drawn models of ONNX that make shapes, move elements and look them up."""

from __future__ import annotations

from typing import Any

import numpy as np
from drawn_onnx import Drawn, Draws, Input, family, indices, kind_of, ordinary
from numpy.random import Generator
from numpy.typing import NDArray
from onnx import numpy_helper

__all__: list[str] = []

_ENDS = (0, 1, 2, 3, 5, 7, 100, 2**31 - 1, 2**63 - 1, -1, -2, -3, -5, -7, -100, -(2**31), -(2**63) + 1)


@family
def _slice(d: Draws) -> Drawn:
    rank, opset = d.number(1, 3), d.opset()
    count = d.number(1, rank)
    axes = d.random.permutation(rank)[:count].tolist()
    begins, ends = ([d.pick(*_ENDS) for _ in axes] for _ in range(2))
    dtype = d.pick("float32", "int64", "uint8", "bool", "float64")
    x = d.input(d.shape(rank), dtype)
    if opset < 10:
        return d.model("Slice", {"x": x}, opset, starts=begins, ends=ends, axes=axes)
    kind = d.pick("int64", "int64", "int32")
    if kind == "int32":
        begins, ends = ([max(min(one, 2**31 - 1), -(2**31)) for one in part] for part in (begins, ends))
    inputs = {"x": x, "b": d.held(begins, kind), "e": d.held(ends, kind)}
    if d.chance(0.7) or count < rank:
        inputs["a"] = d.held([axis - (rank if d.chance(0.4) else 0) for axis in axes], kind)
        if d.chance(0.7):
            steps = [d.pick(1, 1, 2, 3, -1, -1, -2, 100, -100) for _ in axes]
            inputs["s"] = d.held(steps, kind)
            # onnxruntime takes the greatest end of a slice that goes backwards for its beginning
            ends = [100 if end >= 2**31 - 1 and step < 0 else end for end, step in zip(ends, steps, strict=True)]
            inputs["e"] = d.held(ends, kind)
    elif count == rank:
        inputs["b"], inputs["e"] = d.held(begins, kind), d.held(ends, kind)
    return d.model("Slice", inputs, opset)


@family
def _pad(d: Draws) -> Drawn:
    rank, opset = d.number(1, 4), d.opset()
    shape = d.shape(rank, 2, 5)
    mode = d.pick("constant", "constant", "reflect", "edge", "wrap" if opset >= 19 else "edge")
    low = -1 if mode == "constant" and d.chance(0.3) else 0
    pads = [d.number(low, min(3, extent - 1)) if d.chance(0.6) else 0 for extent in (*shape, *shape)]
    dtype = "float32" if opset < 13 else d.pick("float32", "int32", "int64", "float64", "uint8")
    x = d.input(shape, dtype)
    if opset < 11:
        return d.model("Pad", {"x": x}, opset, pads=pads, mode=mode, value=d.pick(None, 1.5))
    inputs = {"x": x, "p": d.held(pads), "v": d.held(d.pick(0, 2, 7), dtype), "a": d.held(list(range(rank)))}
    positions = ["x", "p"]
    if mode == "constant" and d.chance():
        positions.append("v")
    if opset >= 18 and d.chance(0.4):
        axes = d.axes(rank, 1)
        inputs["a"] = d.held(axes)
        inputs["p"] = d.held([pads[axis] for axis in axes] + [pads[rank + axis % rank] for axis in axes])
        positions = [*positions, *[""] * (3 - len(positions)), "a"]
    return d.model(
        "Pad", {name: inputs[name] for name in positions if name}, opset, mode=d.pick(mode, mode), positions=positions
    )


@family
def _gather(d: Draws) -> Drawn:
    rank, opset = d.number(1, 3), d.opset(11)
    shape = d.shape(rank, 1)
    axis = d.axis(rank)
    dtype, kind = d.pick("float32", "int64", "uint8", "bool"), d.pick("int32", "int64")
    x = Input(shape, dtype, ordinary(dtype))
    extent = shape[axis]
    if d.chance():
        at = d.shape(d.number(0, 2))
        return d.model(
            "Gather", {"x": x, "i": d.input(at, kind, indices(extent, kind))}, opset, axis=d.pick(axis, axis)
        )
    at = tuple(d.number(1, one) if place != axis % rank else d.number(1, 4) for place, one in enumerate(shape))
    return d.model("GatherElements", {"x": x, "i": d.weight(at, kind, indices(extent, kind))}, opset, axis=axis)


@family
def _gather_nd(d: Draws) -> Drawn:
    rank = d.number(1, 4)
    shape = d.shape(rank, 1, 4)
    batch = d.number(0, min(rank - 1, 2))
    depth = d.number(1, rank - batch)
    lead = (*shape[:batch], *d.shape(d.number(0, 2), 1, 3))
    bounds = shape[batch : batch + depth]

    def values(random: Generator, _shape: tuple[int, ...]) -> NDArray[Any]:
        return np.stack([random.integers(-one, one, lead) for one in bounds], -1)

    x = Input(shape, "float32", ordinary("float32"))
    return d.model(
        "GatherND", {"x": x, "i": Input((*lead, depth), "int64", values, d.chance(0.3))}, d.opset(12), batch_dims=batch
    )


@family
def _scatter(d: Draws) -> Drawn:
    rank, opset = d.number(1, 3), d.opset(11)
    shape, axis = d.shape(rank, 1), d.axis(rank)
    extent = shape[axis]
    kinds = (
        (None,)
        if opset < 16
        else (None, "none", "add", "mul")
        if opset < 18
        else (None, "none", "add", "mul", "max", "min")
    )
    reduction = d.pick(*kinds)
    dtype = d.pick("float32", "int32", "int64")
    if d.chance():
        count = d.number(1, extent)
        at = tuple(d.number(1, one) if place != axis % rank else count for place, one in enumerate(shape))

        def places(random: Generator, _shape: tuple[int, ...]) -> NDArray[Any]:
            """None twice along the axis, so that it does not matter which comes last."""
            whole = random.permuted(
                np.broadcast_to(
                    np.moveaxis(np.arange(extent).reshape(-1, *[1] * (rank - 1)), 0, axis),
                    [extent if place == axis % rank else one for place, one in enumerate(at)],
                ).copy(),
                axis=axis,
            )
            whole = np.take(whole, range(count), axis)
            return np.where(random.random(whole.shape) < 0.4, whole - extent, whole)

        inputs = {"x": Input(shape, dtype, ordinary(dtype)), "i": Input(at, "int64", places), "u": d.weight(at, dtype)}
        return d.model("ScatterElements", inputs, opset, axis=axis, reduction=reduction)
    depth = d.number(1, rank)
    count = min(int(np.prod(shape[:depth])), 3)

    def rows(random: Generator, _shape: tuple[int, ...]) -> NDArray[Any]:
        flat = random.permutation(int(np.prod(shape[:depth])))[:count]
        return np.stack(np.unravel_index(flat, shape[:depth]), -1).astype("int64")

    inputs = {
        "x": Input(shape, dtype, ordinary(dtype)),
        "i": Input((count, depth), "int64", rows, d.chance(0.4)),
        "u": d.weight((count, *shape[depth:]), dtype),
    }
    return d.model("ScatterND", inputs, opset, reduction=reduction)


@family
def _concat(d: Draws) -> Drawn:
    rank = d.number(1, 3)
    shape, axis = d.shape(rank), d.axis(rank)
    dtype = d.pick("float32", "int64", "bool", "uint8")
    inputs = {
        f"x{at}": d.input([d.size(0) if place == axis % rank else one for place, one in enumerate(shape)], dtype)
        for at in range(d.number(1, 3))
    }
    opset = d.opset(11)
    return d.model("Concat", inputs, opset, axis=axis)


@family
def _split(d: Draws) -> Drawn:
    rank, opset = d.number(1, 3), d.opset()
    shape, axis = list(d.shape(rank)), d.number(0, rank - 1)
    count = d.number(1, 3)
    sizes = [d.size(0, 3) for _ in range(count)]
    outputs = [f"y{at}" for at in range(count)]
    even = d.chance(0.4)
    shape[axis] = count * d.number(1, 3) if even else sum(sizes)
    if even and opset >= 18 and d.chance():
        shape[axis] = max(shape[axis] - d.number(0, 1), count)
    x = d.input(shape)
    shown = axis - rank if opset >= 11 and d.chance(0.4) else axis
    if even:
        return d.model("Split", {"x": x}, opset, outputs, axis=shown, num_outputs=count if opset >= 18 else None)
    if opset < 13:
        return d.model("Split", {"x": x}, opset, outputs, axis=shown, split=sizes)
    return d.model("Split", {"x": x, "s": d.held(sizes)}, opset, outputs, axis=shown)


@family
def _squeeze(d: Draws) -> Drawn:
    rank, opset = d.number(0, 4), d.opset(11)
    shape = tuple(1 if d.chance() else extent for extent in d.shape(rank, 0))
    if d.chance():
        axes = None if d.chance(0.3) else [at - (rank if d.chance() else 0) for at, one in enumerate(shape) if one == 1]
        inputs = {"x": d.input(shape, is_open=axes is not None)}
        if opset < 13:
            return d.model("Squeeze", inputs, opset, axes=axes or None)
        return d.model("Squeeze", inputs if axes is None else {**inputs, "a": d.held(axes)}, opset)
    count = d.number(1, 3)
    axes = d.random.permutation(rank + count)[:count].tolist()
    axes = [int(at) - (rank + count if d.chance(0.4) else 0) for at in axes]
    if opset < 13:
        return d.model("Unsqueeze", {"x": d.input(shape)}, opset, axes=axes)
    return d.model("Unsqueeze", {"x": d.input(shape), "a": d.held(axes)}, opset)


@family
def _reshape(d: Draws) -> Drawn:
    shape, opset = d.shape(d.number(1, 4)), d.opset()
    total = int(np.prod(shape))
    wanted: list[int] = d.pick([total], [-1], [1, -1], [0, -1], list(reversed(shape)), [*shape, 1], [-1, shape[-1]])
    more = {"allowzero": d.pick(None, 0, 1) if -1 not in wanted else None} if opset >= 14 else {}
    if d.chance(0.2):
        axis = d.number(0, len(shape)) if opset < 11 else d.number(-len(shape), len(shape))
        return d.model("Flatten", {"x": d.input(shape)}, d.opset(max(opset, 9)), axis=axis)
    return d.model("Reshape", {"x": d.input(shape), "s": d.held(wanted)}, opset, **more)


@family
def _spread(d: Draws) -> Drawn:
    shape = d.shape(d.number(0, 3))
    if d.chance():
        source = tuple(1 if d.chance(0.4) else extent for extent in shape)
        wanted = [1 if d.chance(0.3) else extent for extent in shape]
        lead = list(d.shape(d.number(0, 1)))
        return d.model("Expand", {"x": d.input(source), "s": d.held([*lead, *wanted])}, d.opset(8))
    return d.model("Tile", {"x": d.input(shape), "r": d.held([d.number(0, 3) for _ in shape])}, d.opset(7))


@family
def _transpose(d: Draws) -> Drawn:
    rank = d.number(0, 4)
    order = d.random.permutation(rank).tolist() if d.chance(0.8) and rank else None
    return d.model("Transpose", {"x": d.input(d.shape(rank), d.pick("float32", "int8", "bool"))}, d.opset(), perm=order)


@family
def _shapes(d: Draws) -> Drawn:
    shape = d.shape(d.number(0, 4))
    if d.chance(0.2):
        return d.model("Size", {"x": d.input(shape)}, d.opset())
    opset = d.opset()
    ends = {} if opset < 15 else {"start": d.pick(None, 0, 1, -1, -9, 9), "end": d.pick(None, 0, 1, -1, -9, 9)}
    return d.model("Shape", {"x": d.input(shape)}, opset, **ends)


@family
def _makers(d: Draws) -> Drawn:
    kind = d.pick("Range", "ConstantOfShape", "EyeLike", "OneHot")
    if kind == "Range":
        dtype = d.pick("float32", "int64", "int32", "float64")
        begin, end, step = d.number(-5, 5), d.number(-5, 9), d.pick(1, 2, 3, -1, -2)
        scale = 0.5 if "float" in dtype else 1
        parts = {"b": begin, "e": end, "d": step * scale}
        return d.model("Range", {name: d.held(value, dtype) for name, value in parts.items()}, d.opset(11))
    if kind == "ConstantOfShape":
        value = numpy_helper.from_array(np.asarray([d.number(0, 3)], d.pick("float32", "int64", "bool")), "value")
        return d.model(kind, {"s": d.held(list(d.shape(d.number(0, 3))))}, d.opset(9), value=d.pick(None, value))
    if kind == "EyeLike":
        dtype = d.pick("float32", "int32", "float64")
        to = d.pick(None, kind_of("float32"), kind_of("int64"))
        return d.model(kind, {"x": d.input(d.shape(2), dtype)}, d.opset(9), k=d.pick(None, -1, 2, 0, -7), dtype=to)
    rank, depth, opset = d.number(1, 2), d.number(1, 4), d.opset(11)
    inputs = {
        "i": d.input(
            d.shape(rank), d.pick("int64", "int32", "float32"), lambda r, s: r.integers(-depth - 1, depth + 2, s)
        ),
        "d": d.held(d.pick(depth, [depth])),
        "v": d.held([2, 5], d.pick("float32", "int64", "int32")),
    }
    kind_of_indices = inputs["i"].dtype
    inputs["i"].values = lambda r, s: r.integers(-depth, depth, s).astype(kind_of_indices)
    return d.model(kind, inputs, opset, axis=d.pick(None, d.axis(rank + 1)))


@family
def _moves(d: Draws) -> Drawn:
    kind = d.pick("Trilu", "DepthToSpace", "SpaceToDepth", "ReverseSequence", "NonZero", "Compress", "Unique")
    if kind == "Trilu":
        inputs = {
            "x": d.input(d.shape(d.number(2, 4)), d.pick("float32", "int64", "bool")),
            "k": d.held(d.number(-4, 4)),
        }
        return d.model(kind, inputs if d.chance(0.7) else {"x": inputs["x"]}, d.opset(14), upper=d.pick(None, 0, 1))
    if kind == "DepthToSpace":
        block = d.number(1, 3)
        shape = (d.size(), block * block * d.number(1, 2), *d.shape(2, 1, 3))
        mode = d.pick(None, "DCR", "CRD")
        return d.model(kind, {"x": d.input(shape)}, d.opset(11), blocksize=block, mode=mode)
    if kind == "SpaceToDepth":
        block = d.number(1, 3)
        return d.model(
            kind, {"x": d.input((d.size(), d.size(), block * d.size(), block * d.size()))}, d.opset(7), blocksize=block
        )
    if kind == "ReverseSequence":
        shape = d.shape(d.number(2, 3), 1)
        time = d.number(0, 1)
        lengths = lambda r, s: r.integers(1, shape[time] + 1, s)
        inputs = {
            "x": Input(shape, "float32", ordinary("float32")),
            "l": d.weight((shape[1 - time],), "int64", lengths),
        }
        return d.model(kind, inputs, d.opset(10), time_axis=time, batch_axis=1 - time)
    if kind == "NonZero":
        dtype = d.pick("float32", "int64", "bool")
        values = lambda r, s, dtype=dtype: r.integers(0, 2, s).astype(dtype)
        return d.model(kind, {"x": Input(d.shape(d.number(1, 3)), dtype, values)}, d.opset(9))
    rank = d.number(1, 3)
    shape = d.shape(rank, 1)
    axis = d.pick(None, d.axis(rank))
    if kind == "Compress":
        count = d.number(1, int(np.prod(shape)) if axis is None else shape[axis])
        inputs = {"x": Input(shape, "float32", ordinary("float32")), "c": d.weight((count,), "bool")}
        return d.model(kind, inputs, d.opset(11), axis=axis)
    values = lambda r, s: r.integers(0, 3, s).astype("float32")
    outputs = ("y", "first", "inverse", "counts")[: d.number(1, 4)]
    return d.model(
        kind, {"x": Input(shape, "float32", values)}, d.opset(11), outputs, axis=axis, sorted=d.pick(None, 1)
    )
