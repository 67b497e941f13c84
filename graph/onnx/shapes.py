"""ONNX's operators that make shapes, move elements and look them up."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from ...ir import Expr, IntImm, Range, ops
from ...ir.arith.analyzer import Analyzer, simplify
from ..conversion import Conversion, Refused, few, open_extent, product
from ..types import Extent, convert_extent, extents
from .context import Context, converts
from .package import dtype_named

__all__ = ["backward"]

_LAST = 1 << 30
"""From here on an end of a slice is that of the dimension."""


@converts("Constant")
def _convert_constant(c: Context) -> str:
    for name in ("value", "value_float", "value_floats", "value_int", "value_ints"):
        if name in c.attributes:
            value = c.attribute(name)
            return c.constant(
                value if name == "value" else np.asarray(value, np.float32 if "float" in name else np.int64)
            )
    raise Refused("its value is sparse, or a text")


@converts("ConstantOfShape")
def _convert_constant_of_shape(c: Context) -> str:
    value = c.attribute("value", np.zeros(1, np.float32))
    return c.emit("broadcast_to", c.constant(value.reshape(())), shape=tuple(c.extents(0)))


@converts("Shape")
def _shape(c: Context) -> str:
    return c.shape_value(c[0], slice(c.attribute("start", 0), c.attribute("end")))


@converts("Identity")
def _convert_identity(c: Context) -> str:
    return c[0]


@converts("Size")
def _size(c: Context) -> str:
    return c.emit("prod", c.shape_value(c[0]), axes=(0,))


@converts("Range")
def _convert_range(c: Context) -> str:
    # bounds that are computed from extents stay symbolic, so that the graph serves every size
    if any(c[at] in c.scope.shapes for at in range(2)):
        return _range_of_extents(c)
    begin, end, step = (c.array(at).reshape(()) for at in range(3))
    far = (float(end) - float(begin)) / float(step) if step else math.nan
    if not math.isfinite(far):
        raise Refused(f"there are no numbers from {begin} to {end} by {step}")
    count = few(max(math.ceil(far), 0))
    return c.constant((begin + np.arange(count).astype(begin.dtype) * step).astype(begin.dtype))


def _range_of_extents(c: Context) -> str:
    """Return the range from an extent over symbols on, or up to one."""
    (begin,), (end,), (step,) = c.extents(0), c.extents(1), c.numbers(2)
    if not step:
        raise Refused("its step is 0")
    first, last = extents((begin, end))
    far = ops.subtract(last, first) if step > 0 else ops.subtract(first, last)
    count = convert_extent((far + (abs(step) - 1)) // abs(step))
    return c.steps_value(begin, step, count, c.type(0).dtype)


@converts("Reshape")
def _reshape(c: Context) -> str:
    # shapes became an input in version 5
    given = c.extents(1) if c.opset >= 5 else list(c.attribute("shape"))
    source = c.type(0).shape
    zeros = c.attribute("allowzero", 0)
    shape = [
        source[at] if extent == 0 and not zeros and at < len(source) else extent for at, extent in enumerate(given)
    ]
    if -1 in shape:
        at = shape.index(-1)
        shape[at] = open_extent(source, [*shape[:at], *shape[at + 1 :]])
    return c.reshape(c[0], shape)


@converts("Flatten")
def _flatten(c: Context) -> str:
    shape, axis = c.type(0).shape, int(c.attribute("axis", 1))
    axis = axis + len(shape) if axis < 0 else axis
    return c.reshape(c[0], (product(shape[:axis]), product(shape[axis:])))


@converts("Squeeze")
def _squeeze(c: Context) -> str:
    shape, axes = c.type(0).shape, c.axes(1)
    dropped = (
        [at for at, extent in enumerate(shape) if extent == 1]
        if axes is None
        else [c.within(at, len(shape)) for at in axes]
    )
    if any(isinstance(shape[at], int) and shape[at] != 1 for at in dropped):
        raise Refused(f"axes {dropped} of {c.type(0)} are not 1")
    # an open extent that is 1 at a call would be dropped, and the rank would change
    value = c[0] if axes is not None else c.not_one(c[0], range(len(shape)))
    return c.reshape(value, [extent for at, extent in enumerate(shape) if at not in dropped])


@converts("Unsqueeze")
def _convert_unsqueeze(c: Context) -> str:
    shape, axes = list(c.type(0).shape), c.axes(1) or []
    for axis in sorted(c.within(at, len(shape) + len(axes)) for at in axes):
        shape.insert(axis, 1)
    return c.reshape(c[0], shape)


@converts("Expand")
def _expand(c: Context) -> str:
    """An open extent that meets another than 1 is taken for it, which is asked at the call: it is no 1 that is repeated."""
    own, wanted = c.type(0).shape, tuple(c.extents(1))
    rank = max(len(own), len(wanted))
    pairs = zip((1,) * (rank - len(own)) + own, (1,) * (rank - len(wanted)) + wanted, strict=True)
    return c.broadcast(c[0], [one if other == 1 else other for one, other in pairs])


@converts("Tile")
def _tile(c: Context) -> str:
    return c.tiled(c[0], c.extents(1))


@converts("Transpose")
def _transpose(c: Context) -> str:
    order = c.attribute("perm")
    return c.emit("transpose", c[0], axes=tuple(order if order is not None else reversed(range(c.rank(0)))))


@converts("Split")
def _split(c: Context) -> Sequence[str]:
    axis = c.axis()
    sizes, value = c.numbers(1) if c.has(1) else c.attribute("split"), c[0]
    if sizes is not None:
        value = c.fix_extent(value, axis, sum(sizes))
    else:
        extent, shape = c.type(0).shape[axis], c.type(0).shape
        count = int(c.attribute("num_outputs", c.outputs))
        if not isinstance(extent, int):  # equal parts, which is asked at the call
            each, whole = (convert_extent(one) for one in _parts(extent, count))
            value = c.reshape(value, (*shape[:axis], whole, *shape[axis + 1 :]))
            return c.emit_all("split", value, sizes=(each,) * count, axis=axis)
        each = -(-extent // count)
        # num_outputs: equal parts rounded up, of which the last may be short or empty
        sizes = [max(min(each, extent - each * at), 0) for at in range(count)]
    return c.emit_all("split", value, sizes=tuple(sizes), axis=axis)


def _parts(extent: str, count: int) -> tuple[Any, Any]:
    """Return the length of each of equal parts of an open extent, and all of them."""
    (size,) = extents((extent,))
    each = ops.floordiv(size, count)
    return each, each * count


def _is_open_end(end: Extent) -> bool:
    """Return whether this is the end of any dimension."""
    return isinstance(end, int) and end >= _LAST


def _ends(c: Context, at: int) -> list[Extent]:
    """Return the begin or the end of a slice. Those over symbols count from the beginning; whether they may be negative for some sizes is
    asked when sizes are there. Raises NeedsValue for those that always are."""
    ends = c.extents(at)
    from_the_end = any(
        isinstance(end, Expr) and isinstance(answer := simplify(end <= 0), IntImm) and answer.value
        for end in extents(ends)
    )
    return [*c.numbers(at)] if from_the_end else ends


def _clamp_begin(begin: Extent, step: int, extent: Extent) -> Extent:
    """Return the begin of a slice. One that goes backwards from before the first element begins there in ONNX; in numpy, whose rule the
    operator slice has, nothing is left of it."""
    if step < 0 and isinstance(begin, int) and isinstance(extent, int):
        return max(begin, -extent)
    return begin


def _moving(c: Context) -> str | None:
    """A slice that moves with a loop's iterations, as long in each of them, and always within what it is a slice of; None for
    others."""
    known = [c.scope.steps.get(c[at]) for at in (1, 2)]
    if any(one is None or one.ndim != 1 for one in known) or c.has(4) and any(step != 1 for step in c.numbers(4)):
        return None
    begins, ends = (list(one) for one in known if one is not None)
    axes = [c.within(at, c.rank(0)) for at in (c.numbers(3) if c.has(3) else range(len(begins)))]
    analyzer = Analyzer()
    for number, trips in c.scope.trips.items():
        # the proofs below hold for every trip of the loops around
        analyzer.bind(number, Range(ops.const(0, "int64"), *map(ops.convert, extents([trips]))))
    value = c[0]
    for at, (begin, end, axis) in enumerate(zip(begins, ends, axes, strict=True)):
        length, (extent,) = simplify(ops.convert(end - begin)), extents([c.type(value).shape[axis]])
        if (
            not isinstance(length, IntImm)
            or length.value < 1
            or not analyzer.can_prove(ops.convert(begin) >= 0)
            or not analyzer.can_prove(ops.convert(end) <= extent)
        ):
            return None
        # the length is fixed, so a gather of consecutive rows has a static shape
        first = c.emit("take", c[1], c.constant(np.asarray([at])), axis=0)
        places = c.emit("add", first, c.constant(np.arange(length.value), like=first))
        value = c.emit("take", value, places, axis=axis)
    return value


@converts("Slice")
def _slice(c: Context) -> str:
    if c.opset < 10:
        begins, ends, axes, steps = list(c.attribute("starts")), list(c.attribute("ends")), c.attribute("axes"), None
    else:
        if (moving := _moving(c)) is not None:
            return moving
        begins, ends = (_ends(c, at) for at in (1, 2))
        axes, steps = (c.numbers(at) if c.has(at) else None for at in (3, 4))
    axes = [c.within(at, c.rank(0)) for at in (range(len(begins)) if axes is None else axes)]
    if len(set(axes)) != len(axes):
        raise Refused(f"it cuts an axis twice: {axes}")
    steps = steps or [1] * len(begins)
    if 0 in steps:
        raise Refused("it goes by steps of 0")
    value = c[0]
    cuts: list[tuple[Extent, Extent, int, int]] = []
    for begin, end, step, at in zip(begins, ends, steps, axes, strict=True):
        extent = c.type(value).shape[at]
        if isinstance(begin, int) and isinstance(end, int):
            turned = step < 0 and (isinstance(extent, str) or _turns(begin, end, step))
            if turned:  # place b from the beginning is place ~b from the end
                value = c.emit("flip", value, axis=at)
                begin, end, step = ~begin, ~end, -step
            if isinstance(extent, str):
                begin, end = _clamp_ends(begin, end, extent, turned)
        if not (begin == 0 and step == 1 and (end == extent or _is_open_end(end))):
            cuts.append((_clamp_begin(begin, step, extent), end, step, at))
    if not cuts:
        return value
    begins, ends, steps, axes = (list(part) for part in zip(*cuts, strict=True))
    return c.emit("slice", value, begin=begins, end=ends, step=steps, axes=axes)


def _turns(begin: int, end: int, step: int) -> bool:
    """Return whether a slice is an axis from its end to its beginning."""
    return step == -1 and (begin == -1 or _is_open_end(begin)) and end <= -_LAST


def _clamp_ends(begin: int, end: int, extent: Extent, turned: bool) -> tuple[Extent, Extent]:
    """The ends of a slice of an axis that is open, inside of it whatever its extent; but for one element that is cut off at an end,
    which is asked to be there: what n - 1 rows are said to be stays so simple. turned: it went backwards, and so begins no later
    than at the last element."""
    if not turned and begin in (0, 1) and (end == -1 or _is_open_end(end)):
        return begin, extent if _is_open_end(end) else end
    (size,) = extents((extent,))

    def place(number: int) -> Any:
        if number == 0 or number <= -_LAST:
            return ops.const(0, "int64")
        if number > 0:
            return size if number >= _LAST - 1 else ops.minimum(ops.const(number, "int64"), size)
        return ops.maximum(size + number, 0)

    low, high = place(begin), place(end)
    if turned and begin > 0:
        low = ops.maximum(ops.minimum(ops.const(min(begin, _LAST), "int64"), size - 1), 0)
    return convert_extent(low), convert_extent(high if begin == 0 else ops.maximum(low, high))


@converts("Pad")
def _pad(c: Context) -> str:
    rank = c.rank(0)
    pads = list(c.attribute("pads") or c.attribute("paddings")) if c.opset < 11 else c.numbers(1)
    axes = [c.within(at, rank) for at in c.numbers(3)] if c.has(3) else list(range(rank))
    before, after = [0] * rank, [0] * rank
    for at, low, high in zip(axes, pads[: len(axes)], pads[len(axes) :], strict=True):
        before[at], after[at] = low, high
    value = c[0]
    # negative pads crop: that is a slice, and the pad does the rest
    if min(*before, *after, 0) < 0:
        cut = [at for at in range(rank) if before[at] < 0 or after[at] < 0]
        value = c.emit(
            "slice",
            value,
            begin=[max(-before[at], 0) for at in cut],
            end=[min(after[at], 0) or _LAST for at in cut],
            step=[1] * len(cut),
            axes=cut,
        )
        before, after = ([max(number, 0) for number in numbers] for numbers in (before, after))
    mode, number = c.attribute("mode", "constant"), c.attribute("value", 0.0)
    if mode != "constant":
        return c.emit("pad_with", value, before=before, after=after, mode=mode)
    filling = number if c.opset < 11 else c.array(2).reshape(-1)[0].item() if c.has(2) else 0
    return c.emit("pad", value, before=before, after=after, value=filling)


_REDUCTIONS = {"none": "update"}


@converts("ScatterElements", "Scatter")
def _scatter_elements(c: Context) -> str:
    kind = c.attribute("reduction", "none")
    return c.emit("scatter_elements", c[0], c[1], c[2], axis=c.axis(), reduction=_REDUCTIONS.get(kind, kind))


@converts("ScatterND")
def _scatter_nd(c: Context) -> str:
    kind = c.attribute("reduction", "none")
    return c.emit("scatter_nd", c[0], c[1], c[2], reduction=_REDUCTIONS.get(kind, kind))


@converts("TensorScatter")
def _convert_tensor_scatter(c: Context) -> str:
    """Updates along an axis of a cache, from a place on that each sequence of the batch has."""
    axis = c.axis(-2)
    rank, updates = c.rank(0), c.type(1).shape
    places: str = c.emit("arange", shape=(updates[axis],))
    places = c.reshape(places, [updates[axis] if at == axis else 1 for at in range(rank)])
    if c.has(2):
        places = c.emit("add", places, c.reshape(c[2], (updates[0], *[1] * (rank - 1))))
    mode = c.attribute("mode", "linear")
    if mode == "circular":
        # a ring buffer: positions past its end go on at the beginning
        places = c.emit("floor_mod", places, c.constant(np.asarray(c.extent(0, axis), np.int64)))
    elif mode != "linear":
        raise Refused(f"there is no mode {mode!r}")
    return c.emit("scatter_elements", c[0], c.emit("broadcast_to", places, shape=updates), c[1], axis=axis)


@converts("OneHot")
def _convert_one_hot(c: Context) -> str:
    indices = c[0] if "float" not in c.type(0).dtype else c.cast(c[0], "int64")
    return c.emit("one_hot", indices, c[2], depth=c.numbers(1)[0], axis=c.axis(-1, c.rank(0) + 1))


@converts("TopK")
def _convert_topk(c: Context) -> Sequence[str]:
    if not c.attribute("sorted", 1):
        raise Refused("its results have no order")
    axis = c.axis(-1)
    extent = c.type(0).shape[axis]
    # all of an open axis, however long it is at a call
    whole = c.opset >= 10 and isinstance(extent, str) and c.extents(1) == [extent]
    count = -1 if whole else int(c.attribute("k")) if c.opset < 10 else c.numbers(1)[0]
    return c.emit_all("topk", c[0], k=count, axis=axis, largest=bool(c.attribute("largest", 1)))


@converts("Trilu")
def _convert_trilu(c: Context) -> str:
    return c.emit("trilu", c[0], k=c.numbers(1)[0] if c.has(1) else 0, upper=bool(c.attribute("upper", 1)))


@converts("EyeLike")
def _convert_eye(c: Context) -> str:
    kind = c.attribute("dtype")
    return c.emit(
        "eye_like", c[0], k=int(c.attribute("k", 0)), dtype=c.type(0).dtype if kind is None else dtype_named(kind)
    )


@converts("SpaceToDepth")
def _convert_space_to_depth(c: Context) -> str:
    block = int(c.attribute("blocksize"))
    if c.attribute("mode", "DCR") == "DCR":
        return c.emit("space_to_depth", c[0], block=block)
    n, channels, high, wide = c.static(0)
    parts = c.emit("reshape", c[0], shape=(n, channels, high // block, block, wide // block, block))
    return c.reshape(
        c.emit("transpose", parts, axes=(0, 1, 3, 5, 2, 4)), (n, channels * block**2, high // block, wide // block)
    )


@converts("Dropout")
def _convert_dropout(c: Context) -> Sequence[str]:
    training = c.has(2) and bool(c.array(2).reshape(-1)[0])
    ratio = float(c.array(1).reshape(-1)[0]) if c.has(1) and training else 0.0
    if training and ratio:
        raise Refused("it is in training")
    # the mask of what is kept: outside of training that is all
    everything = c.emit("broadcast_to", c.constant(np.asarray(True)), shape=c.type(0).shape) if c.outputs > 1 else ""
    return [c[0], everything][: c.outputs]


def backward(c: Conversion, value: str, axis: int) -> str:
    """A value with its slices along an axis in the other order."""
    return c.emit("flip", value, axis=axis)
