"""torch's operators that look at memory in another way, and those that put parts together."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..conversion import Refused, open_extent, product
from ..types import Extent, is_below_zero
from .call import VIEWS, Call, Row, aten, widest
from .numbers import extent

__all__: list[str] = []

_END = 1 << 62
"""From here on a slice has no end."""


def _reshaped_back(c: Call, whole: str, part: str) -> str:
    return c.reshape(part, c.type(whole).shape)


def _view(*names: str, back: Any = _reshaped_back) -> Any:
    def register(row: Row) -> Row:
        VIEWS.update(dict.fromkeys(names, back))
        return aten(*names)(row)

    return register


def _same_back(_c: Call, _whole: str, part: str) -> str:
    return part


@_view("detach.default", back=_same_back)
def _convert_detach(c: Call) -> str:
    # of integers there are no gradients to stop
    return c.emit("stop_gradient", c.tensor()) if "float" in c.dtype else c.tensor()


@_view(
    "alias.default",
    "resolve_conj.default",
    "resolve_neg.default",
    "contiguous.default",
    "to.dtype",
    "to.dtype_layout",
    "to.device",
    "to.other",
    "type_as.default",
    "lift_fresh.default",
    back=_same_back,
)
@aten("clone.default", "lift_fresh_copy.default", "_to_copy.default")
def _convert_dtype(c: Call) -> str:
    c.argument("other", None)
    return c.cast(c.tensor(), c.dtype)


@_view("view.default", "reshape.default", "_unsafe_view.default", "_reshape_alias.default")
def _reshape(c: Call) -> str:
    name = "size" if c.gives("size") else "shape"
    shape, source = c.extents(name), c.type(c.tensor()).shape
    if -1 in shape:
        at = shape.index(-1)
        shape[at] = open_extent(source, [*shape[:at], *shape[at + 1 :]])
    c.argument("stride", None)
    return c.reshape(c.tensor(), shape)


@_view("view_as.default", "reshape_as.default")
def _convert_reshape_like(c: Call) -> str:
    return c.reshape(c.tensor(), c.type(c.tensor("other")).shape)


@_view("flatten.using_ints")
def _flatten(c: Call) -> str:
    shape = c.type(c.tensor()).shape
    first, last = c.axis("start_dim", 0), c.axis("end_dim", -1)
    return c.reshape(c.tensor(), (*shape[:first], product(shape[first : last + 1]), *shape[last + 1 :]))


@_view("unflatten.int")
def _convert_unflatten(c: Call) -> str:
    shape, axis, sizes = c.type(c.tensor()).shape, c.axis(), c.extents("sizes")
    if -1 in sizes:
        at = sizes.index(-1)
        sizes[at] = open_extent([shape[axis]], [*sizes[:at], *sizes[at + 1 :]])
    return c.reshape(c.tensor(), (*shape[:axis], *sizes, *shape[axis + 1 :]))


@_view("squeeze.default", "squeeze.dim", "squeeze.dims")
def _squeeze(c: Call) -> str:
    shape = c.type(c.tensor()).shape
    axes = c.axes() if c.argument("dim", None) is not None else range(len(shape))
    return c.reshape(
        c.not_one(c.tensor(), axes), [each for at, each in enumerate(shape) if not (at in axes and each == 1)]
    )


@_view("unsqueeze.default")
def _convert_unsqueeze(c: Call) -> str:
    shape = list(c.type(c.tensor()).shape)
    shape.insert(c.axis(rank=len(shape) + 1), 1)
    return c.reshape(c.tensor(), shape)


def _order(c: Call) -> list[int]:
    """Return the order of the axes of a transposition."""
    rank = c.rank(c.tensor())
    order = list(range(rank))
    kind = c.target.partition(".")[0]
    if kind == "permute":
        return [c.within(axis, rank) for axis in c.integers("dims")]
    if kind in ("movedim", "moveaxis"):
        source, to = ([c.within(axis, rank) for axis in c.integers(name)] for name in ("source", "destination"))
        # axes that are not named keep their order around those that are
        rest = iter([axis for axis in order if axis not in source])
        return [source[to.index(at)] if at in to else next(rest) for at in order]
    if kind == "numpy_T":
        return order[::-1]
    if kind in ("t", "mT", "mH", "matrix_H", "adjoint"):
        first, second = rank - 2, rank - 1
    else:
        names = ("axis0", "axis1") if kind == "swapaxes" else ("dim0", "dim1")
        first, second = (c.axis(name) for name in names)
    if rank > 1:
        order[first], order[second] = order[second], order[first]
    return order


def _transposed_back(c: Call, _whole: str, part: str) -> str:
    order = _order(c)
    return c.emit("transpose", part, axes=tuple(order.index(at) for at in range(len(order))))


@_view(
    "permute.default",
    "transpose.int",
    "transpose.default",
    "t.default",
    "numpy_T.default",
    "mT.default",
    "mH.default",
    "matrix_H.default",
    "adjoint.default",
    "movedim.intlist",
    "movedim.int",
    "moveaxis.intlist",
    "moveaxis.int",
    "swapaxes.default",
    "swapdims.default",
    back=_transposed_back,
)
def _transpose(c: Call) -> str:
    order = _order(c)
    return c.tensor() if order == sorted(order) else c.emit("transpose", c.tensor(), axes=tuple(order))


@_view("expand.default", "expand_as.default", "broadcast_to.default", back=None)
def _expand(c: Call) -> str:
    source = c.type(c.tensor()).shape
    shape = list(c.type(c.tensor("other")).shape) if c.gives("other") else c.extents("size")
    lead = len(shape) - len(source)
    whole = tuple(source[at - lead] if each == -1 else each for at, each in enumerate(shape))
    return c.broadcast(c.tensor(), whole)


def _range(c: Call, name: str, default: int, size: Extent) -> Extent:
    """An end of a slice, from the beginning and inside."""
    given = c.argument(name, None)
    value: Extent = default if given is None else given
    if isinstance(value, int) and isinstance(size, int):
        return min(max(value + size if value < 0 else value, 0), size)
    if isinstance(value, int) and value < 0:
        # a begin before the first element is the first, unless torch says that the result has all those rows
        far = f"({size}) - {-value}"
        return extent(far if name == "end" or _declared_extent(c, c.axis("dim", 0)) == -value else f"max({far}, 0)")
    if isinstance(value, str) and is_below_zero(value):
        far = f"({size}) + ({value})"
        return extent(
            far if name == "end" or _declared_extent(c, c.axis("dim", 0)) == extent(f"-({value})") else f"max({far}, 0)"
        )
    return size if value == size or isinstance(value, int) and value >= 1 << 30 else value


def _declared_extent(c: Call, axis: int) -> Extent | None:
    """Return the statement of torch on an extent of the result, if there is one."""
    return c.meta.shape[axis] if c.meta is not None and axis < len(c.meta.shape) else None


def _bounds(c: Call) -> tuple[int, Extent, Extent, int]:
    """The axis, begin, end and step of a slice."""
    axis = c.axis("dim", 0)
    size = c.type(c.tensor()).shape[axis]
    begin, end = _range(c, "start", 0, size), _range(c, "end", _END, size)
    return (
        axis,
        begin,
        max(begin, end) if isinstance(begin, int) and isinstance(end, int) else end,
        c.integer("step", 1),
    )


def cut(c: Call, value: str, axis: int, begin: Extent, end: Extent, step: int = 1) -> str:
    """A slice of a value."""
    if begin == 0 and step == 1 and end == c.type(value).shape[axis]:
        return value
    return c.emit("slice", value, begin=(begin,), end=(end,), step=(step,), axes=(axis,))


def pad_axis(c: Call, value: str, axis: int, length: Extent) -> str:
    """So many elements along an axis, zeros after the last."""
    shape = list(c.type(value).shape)
    if shape[axis] == length:
        return value
    shape[axis] = length
    block = c.emit("broadcast_to", c.scalar(0, c.type(value).dtype), shape=tuple(shape))
    return cut(c, c.emit("concat", value, block, axis=axis), axis, 0, length)


def _slice_back(c: Call, whole: str, part: str) -> str:
    axis, begin, end, step = _bounds(c)
    if step != 1:
        count = c.type(part).shape[axis]
        # written rows do not lie side by side: no concatenation gives them
        return c.emit("put", whole, c.steps_value(begin, step, count, "int64"), part, axis=axis)
    return put(c, whole, part, axis, begin, end)


def put(c: Call, whole: str, part: str, axis: int, begin: Extent, end: Extent) -> str:
    """A value with another part in the place of one."""
    size = c.type(whole).shape[axis]
    before = [] if begin == 0 else [cut(c, whole, axis, 0, begin)]
    after = [] if end == size else [cut(c, whole, axis, end, size)]
    if not before and not after:
        return part
    return c.reshape(c.emit("concat", *before, part, *after, axis=axis), c.type(whole).shape)


@_view("slice.Tensor", back=_slice_back)
def _slice(c: Call) -> str:
    axis, begin, end, step = _bounds(c)
    return cut(c, _check_bounds(c), axis, begin, end, step)


def _check_bounds(c: Call) -> str:
    """The tensor that is sliced, where no bound that counts from the end is -0, which would be the beginning."""
    given = [c.argument(name, None) for name in ("start", "end")]
    return c.asked(
        c.tensor(), [extent(f"-1 - ({one})") for one in given if isinstance(one, str) and is_below_zero(one)]
    )


@aten("slice_scatter.default")
def _slice_scatter(c: Call) -> str:
    return _slice_back(c, _check_bounds(c), c.tensor("src"))


def _narrow_back(c: Call, whole: str, part: str) -> str:
    return put(c, whole, part, *_narrow_range(c))


@_view("narrow.default", back=_narrow_back)
def _narrow(c: Call) -> str:
    return cut(c, c.tensor(), *_narrow_range(c))


def _narrow_range(c: Call) -> tuple[int, Extent, Extent]:
    axis = c.axis()
    begin = _range(c, "start", 0, c.type(c.tensor()).shape[axis])
    length: Extent = c.argument("length")
    if isinstance(begin, int) and isinstance(length, int):
        return axis, begin, begin + length
    return axis, begin, extent(f"({begin}) + ({length})")


def _select_index(c: Call) -> tuple[int, Extent]:
    axis, index = c.axis(), c.argument("index")
    size = c.type(c.tensor()).shape[axis]
    if not isinstance(index, (int, str)):
        raise Refused(f"its 'index' has to be known, and is {index!r}"[:200])
    if index < 0 if isinstance(index, int) else is_below_zero(index):
        index = index + size if isinstance(index, int) and isinstance(size, int) else extent(f"({size}) + ({index})")
    return axis, index


def _select_back(c: Call, whole: str, part: str) -> str:
    axis, index = _select_index(c)
    shape = list(c.type(whole).shape)
    shape[axis] = 1
    end = index + 1 if isinstance(index, int) else extent(f"({index}) + 1")
    return put(c, whole, c.reshape(part, shape), axis, index, end)


@aten("select_scatter.default")
def _select_scatter(c: Call) -> str:
    return _select_back(c, c.tensor(), c.tensor("src"))


@_view("select.int", back=_select_back)
def _select(c: Call) -> str:
    axis, index = _select_index(c)
    shape = c.type(c.tensor()).shape
    if not isinstance(shape[axis], int) or not isinstance(index, int):
        given = c.argument("index")
        # a place that depends on sizes is data for the kernel, not an attribute
        return c.emit("take", c.tensor(), c.size_value(index if isinstance(given, str) else given), axis=axis)
    return c.reshape(cut(c, c.tensor(), axis, index, index + 1), [*shape[:axis], *shape[axis + 1 :]])


def _unbound_back(c: Call, whole: str, part: str) -> str:
    axis, at = c.axis("dim", 0), c.integer("at")
    shape = list(c.type(whole).shape)
    shape[axis] = 1
    return put(c, whole, c.reshape(part, shape), axis, at, at + 1)


@_view("unbind.int", back=_unbound_back)
def _convert_unbind(c: Call) -> Sequence[str]:
    axis = c.axis("dim", 0)
    shape = c.type(c.tensor()).shape
    count = shape[axis]
    if not isinstance(count, int):
        raise Refused("its number of parts is not known")
    rest = [*shape[:axis], *shape[axis + 1 :]]
    return [c.reshape(cut(c, c.tensor(), axis, at, at + 1), rest) for at in range(count)]


def _sizes(c: Call) -> tuple[int, tuple[Extent, ...]]:
    """The axis and the parts of a split."""
    axis = c.axis("dim", 0)
    size = c.type(c.tensor()).shape[axis]
    kind = c.target.partition(".")[0]
    if kind == "tensor_split":
        return axis, _split_positions(c, size)
    if kind in _SPLITS:
        axis = min(_SPLITS[kind], c.rank(c.tensor()) - 1)
        return axis, _split_positions(c, c.type(c.tensor()).shape[axis])
    name = next((each for each in ("split_sizes", "split_size", "chunks") if c.gives(each)), "split_size")
    given = c.argument(name)
    if isinstance(given, list):
        return axis, tuple(c.extents(name))
    if not isinstance(size, int) and kind in ("chunk", "unsafe_chunk"):
        return axis, _equal_parts(size, c.integer(name))
    if not isinstance(size, int):
        raise Refused(f"its number of parts depends on {size}")
    each = -(-size // c.integer(name)) if kind in ("chunk", "unsafe_chunk") else c.integer(name)
    return axis, tuple(min(each, size - at) for at in range(0, size, max(each, 1))) or (0,)


def _equal_parts(size: str, count: int) -> tuple[Extent, ...]:
    """The parts of what is divided evenly whatever its symbols are, or in two, which torch does of no less than two."""
    if count == 2:
        more = f"(({size}) + 1) // 2"
        return extent(more), extent(f"({size}) - {more}")
    rest, each = extent(f"({size}) % {count}"), extent(f"({size}) // {count}")
    if rest != 0:
        raise Refused(f"its number of parts depends on {size}")
    return (each,) * count


_SPLITS = {"vsplit": 0, "hsplit": 1, "dsplit": 2}
"""Along which axis they split; of a vector the first alone."""


def _split_positions(c: Call, size: Extent) -> tuple[int, ...]:
    """The parts of a split before and behind these places, or into so many parts, the first ones longer by one."""
    if not isinstance(size, int):
        raise Refused(f"the length of its parts depends on {size}")
    if c.gives("sections"):
        count = c.integer("sections")
        return tuple(size // count + (at < size % count) for at in range(count))
    ends = [min(max(at + size if at < 0 else at, 0), size) for at in c.integers("indices")]
    return tuple(max(end - begin, 0) for begin, end in zip([0, *ends], [*ends, size], strict=True))


def _split_back(c: Call, whole: str, part: str) -> str:
    axis, sizes = _sizes(c)
    at = c.integer("at")
    return put(c, whole, part, axis, _total(sizes[:at]), _total(sizes[: at + 1]))


def _total(sizes: Sequence[Extent]) -> Extent:
    if all(isinstance(size, int) for size in sizes):
        return sum(int(size) for size in sizes)
    return extent(" + ".join(f"({size})" for size in sizes))


@_view(
    "split.Tensor",
    "split.sizes",
    "split_with_sizes.default",
    "chunk.default",
    "tensor_split.indices",
    "tensor_split.sections",
    *(f"{name}split.{kind}" for name in "hvd" for kind in ("int", "array")),
    back=_split_back,
)
@aten("unsafe_split.Tensor", "unsafe_chunk.default")
def _split(c: Call) -> Sequence[str]:
    axis, sizes = _sizes(c)
    return [c.tensor()] if len(sizes) == 1 else c.emit_all("split", c.tensor(), sizes=sizes, axis=axis)


@aten("cat.default", "concat.default", "concatenate.default")
def _convert_cat(c: Call) -> str:
    given = c.tensors()
    # torch skips empty vectors whatever the rank of the others, for old programs
    parts = [each for each in given if c.type(each).shape != (0,)] or given[:1]
    axis = c.axis("dim", 0, rank=c.rank(parts[0]))
    kind = widest([c.type(each).dtype for each in given])
    return (
        c.cast(parts[0], kind)
        if len(parts) == 1
        else c.emit("concat", *(c.cast(each, kind) for each in parts), axis=axis)
    )


@aten("stack.default")
def _stack(c: Call) -> str:
    parts = c.tensors()
    kind = widest([c.type(each).dtype for each in parts])
    return c.emit("stack", *(c.cast(each, kind) for each in parts), axis=c.axis("dim", 0, rank=c.rank(parts[0]) + 1))


@aten("repeat.default", "tile.default")
def _repeat(c: Call) -> str:
    repeats = c.extents("repeats" if c.gives("repeats") else "dims")
    shape = c.type(c.tensor()).shape
    value = c.reshape(c.tensor(), [*[1] * (len(repeats) - len(shape)), *shape])
    return c.tiled(value, [*[1] * (len(shape) - len(repeats)), *repeats])


@aten("repeat_interleave.self_int")
def _repeat_interleave(c: Call) -> str:
    count, value = c.integer("repeats"), c.tensor()
    if c.argument("dim", None) is None:
        value = c.reshape(value, (product(c.type(value).shape),))
    c.argument("output_size", None)
    return repeat_slices(c, value, c.axis(rank=c.rank(value)) if c.gives("dim") else 0, count)


def repeat_slices(c: Call, value: str, axis: int, count: int) -> str:
    """Each slice of an axis so many times."""
    shape = c.type(value).shape
    apart = c.emit(
        "broadcast_to",
        c.reshape(value, (*shape[: axis + 1], 1, *shape[axis + 1 :])),
        shape=(*shape[: axis + 1], count, *shape[axis + 1 :]),
    )
    return c.reshape(apart, (*shape[:axis], product((shape[axis], count)), *shape[axis + 1 :]))


@aten("flip.default")
def _flip(c: Call) -> str:
    value = c.tensor()
    for axis in c.integers("dims"):
        value = c.emit("flip", value, axis=c.within(axis, c.rank(value)))
    return value


def _turn(size: Extent, by: Extent) -> tuple[Extent, Extent]:
    """Return by how much an axis is rolled, 0 where it stays, and from where on it comes first."""
    if isinstance(by, str):
        far = extent(f"({by}) % max({size}, 1)")
        return far, extent(f"({size}) - ({far})")
    if isinstance(size, int):
        return by % max(size, 1), size - by % max(size, 1)
    return by, -by if by < 0 else extent(f"({size}) - {by}")


@aten("roll.default")
def _roll(c: Call) -> str:
    whole, dims = c.tensor(), c.integers("dims")
    value = whole if dims else c.reshape(whole, (product(c.type(whole).shape),))
    for by, axis in zip(c.extents("shifts"), dims or (0,), strict=True):
        at = c.within(axis, c.rank(value))
        size = c.type(value).shape[at]
        far, end = _turn(size, by)
        if far:
            value = c.emit("concat", cut(c, value, at, end, size), cut(c, value, at, 0, end), axis=at)
    return c.reshape(value, c.type(whole).shape)


@aten("fft_fftshift.default", "fft_ifftshift.default")
def _convert_fftshift(c: Call) -> str:
    """Each axis turned by half of its extent."""
    value = c.tensor()
    for axis in c.axes() if c.argument("dim", None) is not None else range(c.rank(value)):
        size = c.type(value).shape[axis]
        up = int("ifft" not in c.target)
        at: Extent = (size + up) // 2 if isinstance(size, int) else extent(f"(({size}) + {up}) // 2")
        if at not in (0, size):
            value = c.emit("concat", cut(c, value, axis, at, size), cut(c, value, axis, 0, at), axis=axis)
    return value


@aten("diff.default")
def _diff(c: Call) -> str:
    parts = [c.optional("prepend"), c.tensor(), c.optional("append")]
    axis = c.axis("dim", -1)
    whole = [each for each in parts if each]
    value = whole[0] if len(whole) == 1 else c.emit("concat", *whole, axis=axis)
    for _ in range(c.integer("n", 1)):
        size = c.type(value).shape[axis]
        last: Extent = size - 1 if isinstance(size, int) else extent(f"({size}) - 1")
        operator = "not_equal" if c.type(value).dtype == "bool" else "subtract"
        value = c.emit(operator, cut(c, value, axis, 1, size), cut(c, value, axis, 0, last))
    return value


@aten("pixel_shuffle.default")
def _convert_pixel_shuffle(c: Call) -> str:
    return c.emit("depth_to_space", c.tensor(), block=c.integer("upscale_factor"), mode="CRD")


@aten("pixel_unshuffle.default")
def _convert_pixel_unshuffle(c: Call) -> str:
    n, channels, *sizes = c.type(c.tensor()).shape
    block = c.integer("downscale_factor")
    high, wide = (open_extent((size,), (block,)) for size in sizes)
    parts = c.reshape(c.tensor(), (n, channels, high, block, wide, block))
    return c.reshape(
        c.emit("transpose", parts, axes=(0, 1, 3, 5, 2, 4)), (n, product((channels, block**2)), high, wide)
    )


@aten(
    "constant_pad_nd.default",
    "pad.default",
    "reflection_pad1d.default",
    "reflection_pad2d.default",
    "replication_pad1d.default",
    "replication_pad2d.default",
)
def _pad(c: Call) -> str:
    name = c.target.partition("_pad")[0]
    mode = {"reflection": "reflect", "replication": "edge"}.get(name) or {"replicate": "edge", "circular": "wrap"}.get(
        kind := str(c.known("mode", "constant")), kind
    )
    name = "pad" if c.gives("pad") else "padding"
    if mode == "constant" and not all(isinstance(each, int) for each in c.extents(name)):
        return _padded_by_symbols(c, c.extents(name))
    pads = c.integers(name)
    value, rank = c.tensor(), c.rank(c.tensor())
    before, after = [0] * rank, [0] * rank
    for at, (low, high) in enumerate(zip(pads[::2], pads[1::2], strict=True)):
        axis, size = rank - 1 - at, c.type(value).shape[rank - 1 - at]
        if min(low, high) < 0:
            first, last = max(-low, 0), max(-high, 0)
            if isinstance(size, int):
                value = cut(c, value, axis, first, size - last)
            else:  # which the call asks to be long enough
                value = c.asked(value, [extent(f"({size}) - {first + last}")])
                value = cut(c, value, axis, first, extent(f"({size}) - {last}"))
        before[axis], after[axis] = max(low, 0), max(high, 0)
    if mode == "constant":
        filling = c.known("value", 0)
        return c.emit("pad", value, before=tuple(before), after=tuple(after), value=0 if filling is None else filling)
    c.argument("value", None)
    return c.emit("pad_with", value, before=tuple(before), after=tuple(after), mode=mode)


def _padded_by_symbols(c: Call, pads: Sequence[Extent]) -> str:
    """Blocks of the filling before and behind, of widths that are known at the call and asked not to be below 0."""
    value, rank, filling = c.tensor(), c.rank(c.tensor()), c.known("value", 0)
    number = c.scalar(0 if filling is None else filling, c.dtype)
    for at, (low, high) in enumerate(zip(pads[::2], pads[1::2], strict=True)):
        axis, parts = rank - 1 - at, [value]
        for place, width in ((0, low), (2, high)):
            if isinstance(width, int) and width < 0:
                raise Refused("it cuts off one side, and adds to others what is not known")
            if width != 0:
                shape = list(c.type(value).shape)
                shape[axis] = width
                block = c.emit("broadcast_to", number, shape=tuple(shape))
                parts.insert(0 if place == 0 else len(parts), block)
        value = parts[0] if len(parts) == 1 else c.emit("concat", *parts, axis=axis)
    return value
