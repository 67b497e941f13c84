"""torch's operators that look up places, and write to them."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce

import numpy as np

from ..boolean_masks import nonzero, unique
from ..conversion import Refused, broadcast, few, product
from ..types import Extent
from .call import Call, aten
from .movement import cut

__all__: list[str] = []


@aten("embedding.default")
def _convert_embedding(c: Call) -> str:
    table, places = c.tensor("weight"), c.tensor("indices")
    padding, rows = c.integer("padding_idx", -1), c.emit("take", table, places, axis=0)
    return _stop_padding_gradient(c, rows, places, padding) if padding >= 0 else rows


def _stop_padding_gradient(c: Call, rows: str, places: str, padding: int) -> str:
    """The rows, of which those at one place are none of the table's for the gradient."""
    is_padding = c.emit("equal", places, c.constant(padding, places))
    column = c.reshape(is_padding, (*c.type(places).shape, 1))
    return c.emit("where", column, c.emit("stop_gradient", rows), rows)


@aten(
    "embedding_bag.default",
    "embedding_bag.padding_idx",
    "_embedding_bag.default",
    "_embedding_bag_forward_only.default",
)
def _convert_embedding_bag(c: Call) -> Sequence[str]:
    """Sums, or means, of the rows of bags, which lie one after another from their offsets on; those of padding_idx do not count."""
    table, places, begins = c.tensor("weight"), c.tensor("indices"), c.tensor("offsets")
    mode, padding = (
        c.integer("mode", 0),
        c.integer("padding_idx", -1) if c.argument("padding_idx", None) is not None else -1,
    )
    if c.target == "embedding_bag.padding_idx" and c.gives("padding_idx"):  # the others have -1 for none
        padding = c.within(padding, c.extent(table, 0))
    if mode not in (0, 1):
        raise Refused("it takes the greatest of its rows")
    (count,), (bags,) = c.type(places).shape, c.type(begins).shape
    if bool(c.known("include_last_offset", False)):
        if not isinstance(bags, int):
            raise Refused("its number of bags is not known")
        bags, begins = bags - 1, c.emit("slice", begins, begin=(0,), end=(bags - 1,), step=(1,), axes=(0,))
    kind, width = c.type(begins).dtype, c.type(table).shape[1]
    numbers = c.cast(c.emit("arange", shape=(count,)), kind)
    bag = c.emit("subtract", c.emit("searchsorted", begins, numbers, right=True), c.scalar(1, "int64"))
    rows, counted = c.emit("take", table, places, axis=0), c.emit("broadcast_to", c.constant(1, table), shape=(count,))
    if c.argument("per_sample_weights", None) is not None:
        rows = c.emit("multiply", rows, c.reshape(c.tensor("per_sample_weights"), (count, 1)))
    if padding >= 0:
        counted = c.cast(c.emit("not_equal", places, c.constant(padding, places)), c.type(table).dtype)
        rows = c.emit("multiply", rows, c.reshape(counted, (count, 1)))
    bag = c.reshape(bag, (count, 1))
    zeros = c.emit("broadcast_to", c.constant(0, table), shape=(bags, width))
    sums = c.emit("scatter_nd", zeros, bag, rows, reduction="add")
    if mode == 1:
        zeros = c.emit("broadcast_to", c.constant(0, table), shape=(bags,))
        sizes = c.emit("maximum", c.emit("scatter_nd", zeros, bag, counted, reduction="add"), c.constant(1, table))
        sums = c.emit("divide", sums, c.reshape(sizes, (bags, 1)))
    return [sums, "", "", ""]


@aten("index_select.default")
def _index_select(c: Call) -> str:
    return c.emit("take", c.tensor(), c.tensor("index"), axis=c.axis())


@aten("gather.default")
def _gather(c: Call) -> str:
    axis, index, value = c.axis(), c.tensor("index"), c.tensor()
    c.argument("sparse_grad", None)
    for at, (size, most) in enumerate(zip(c.type(index).shape, c.type(value).shape, strict=True)):
        if at != axis and size != most:
            value = cut(c, value, at, 0, size)
    return c.emit("gather", value, index, axis=axis)


@aten("scatter.src", "scatter.value", "scatter_add.default", "scatter_reduce.two", "scatter.reduce")
def _scatter(c: Call) -> str:
    index = c.tensor("index")
    shape = c.type(index).shape
    if c.gives("value"):
        updates = c.emit("broadcast_to", c.operand("value", c.dtype), shape=shape)
    else:
        updates = c.tensor("src")
        for at, size in enumerate(shape):
            updates = cut(c, updates, at, 0, size)
    kind = {"sum": "add", "add": "add", "prod": "mul", "multiply": "mul", "amax": "max", "amin": "min"}.get(
        str(c.known("reduce", "")), "add" if c.target.startswith("scatter_add") else "update"
    )
    alone, mean = not c.known("include_self", True), c.known("reduce", "") == "mean"
    if mean:
        return _scattered_mean(c, index, updates, alone)
    value = c.tensor()
    if alone:  # what is there counts where nothing comes
        neutral = c.emit("broadcast_to", c.scalar(_neutral(kind, c.dtype), c.dtype), shape=shape)
        value = c.emit("scatter_elements", value, index, neutral, axis=c.axis(), reduction="update")
    return c.emit("scatter_elements", value, index, updates, axis=c.axis(), reduction=kind)


def _neutral(kind: str, dtype: str) -> float:
    """Return the identity of a reduction."""
    if kind in ("add", "mul"):
        return int(kind == "mul")
    if "float" in dtype:
        return -np.inf if kind == "max" else np.inf
    limits = np.iinfo(dtype)
    return int(limits.min if kind == "max" else limits.max)


def _scattered_mean(c: Call, index: str, updates: str, alone: bool) -> str:
    """The sums divided by how many there are, whole numbers rounded down; what nothing comes to stays."""
    value, axis, one = c.tensor(), c.axis(), c.scalar(1, c.dtype)
    shape, start = c.type(value).shape, c.scalar(0 if alone else 1, c.dtype)
    ones = c.emit("broadcast_to", one, shape=c.type(index).shape)
    counts = c.emit("broadcast_to", start, shape=shape)
    counts = c.emit("scatter_elements", counts, index, ones, axis=axis, reduction="add")
    first = c.emit("broadcast_to", c.scalar(0, c.dtype), shape=shape) if alone else value
    total = c.emit("scatter_elements", first, index, updates, axis=axis, reduction="add")
    divide = "divide" if "float" in c.dtype else "floor_divide"
    mean = c.emit(divide, total, c.emit("maximum", counts, one))
    return c.emit("where", c.emit("equal", counts, c.scalar(0, c.dtype)), value, mean) if alone else mean


def _lookup_indices(c: Call) -> tuple[list[int], list[str], tuple[Extent, ...]]:
    """The axes that are looked up, the indices of each, and the shape in which they meet."""
    given = c.tensors("indices")
    axes: list[int] = []
    indices: list[str] = []
    axis = 0
    for one in given:
        if one and c.type(one).dtype == "bool":
            known = c.scope.graph.data(one)
            found = nonzero(c, one)[1] if known is None else [c.constant(part) for part in np.nonzero(known)]
            axes += range(axis, axis + len(found))
            indices += found
        elif one:
            axes.append(axis)
            indices.append(c.cast(one, "int64"))
        axis = axes[-1] + 1 if one else axis + 1
    return axes, indices, reduce(broadcast, (c.type(one).shape for one in indices), ())


@aten("index.Tensor")
def _index(c: Call) -> str:
    axes, indices, shape = _lookup_indices(c)
    value = c.tensor()
    if not axes:
        return value
    if len(axes) == 1:
        return c.emit("take", value, indices[0], axis=axes[0])
    rank = c.rank(value)
    order = [*axes, *(at for at in range(rank) if at not in axes)]
    result = c.emit("gather_nd", _permute(c, value, order), _stack_coordinates(c, indices, shape))
    if axes != list(range(axes[0], axes[0] + len(axes))) or not axes[0]:
        return result
    first = len(shape)
    return _permute(c, result, [*range(first, first + axes[0]), *range(first), *range(first + axes[0], c.rank(result))])


def _permute(c: Call, value: str, order: Sequence[int]) -> str:
    return value if list(order) == sorted(order) else c.emit("transpose", value, axes=tuple(order))


def _stack_coordinates(c: Call, indices: Sequence[str], shape: tuple[Extent, ...]) -> str:
    """Indices as coordinates: a last axis with one of each."""
    whole = [c.broadcast(one, shape) for one in indices]
    return c.emit("stack", *whole, axis=len(shape))


@aten("index_put.default")
def _index_put(c: Call) -> str:
    value, chosen = c.tensor(), _where_masked(c)
    if chosen:
        return chosen
    axes, indices, shape = _lookup_indices(c)
    c.argument("unsafe", None)
    if axes != list(range(axes[0], axes[0] + len(axes))):
        raise Refused("it writes along axes with others between them")
    rest = [at for at in range(c.rank(value)) if at not in axes]
    order = [*axes, *rest]
    sizes = c.type(value).shape
    target = (*(sizes[at] for at in rest[: axes[0]]), *shape, *(sizes[at] for at in rest[axes[0] :]))
    updates = c.operand("values", c.dtype)
    if c.type(updates).is_static and product(c.type(updates).shape) == product(target):
        updates = c.reshape(updates, target)  # extents of 1 alone may stand, or not, before the others
    updates = c.broadcast(updates, target)
    if len(axes) == 1 and len(shape) <= 1 and not c.known("accumulate", False):
        rows = (*target[: axes[0]], *(shape or (1,)), *target[axes[0] + len(shape) :])
        return c.emit("put", value, c.reshape(indices[0], shape or (1,)), c.reshape(updates, rows), axis=axes[0])
    lead = axes[0]
    moved = [*range(lead, lead + len(shape)), *range(lead), *range(lead + len(shape), len(target))]
    result = c.emit(
        "scatter_nd",
        _permute(c, value, order),
        _stack_coordinates(c, indices, shape),
        _permute(c, updates, moved),
        reduction="add" if c.known("accumulate", False) else "update",
    )
    return _permute(c, result, [order.index(at) for at in range(len(order))])


def _where_masked(c: Call) -> str:
    """Return the value written where a mask is true, if it is the same for all elements that this chooses; "" where it is not so."""
    given, values = c.tensors("indices"), c.operand("values", c.dtype)
    if len(given) != 1 or not given[0] or c.type(given[0]).dtype != "bool" or c.known("accumulate", False):
        return ""
    rest = c.rank(c.tensor()) - c.rank(given[0])
    shape = c.type(values).shape
    if len(shape) > rest and (shape[: len(shape) - rest] != (1,) * (len(shape) - rest)):
        return ""
    c.argument("unsafe", None)
    mask = c.reshape(given[0], (*c.type(given[0]).shape, *[1] * rest))
    return c.emit("where", mask, c.reshape(values, shape[max(len(shape) - rest, 0) :]), c.tensor())


@aten("nonzero.default")
def _convert_nonzero(c: Call) -> str:
    _, coordinates = nonzero(c, c.tensor())
    return c.emit("stack", *coordinates, axis=1)


@aten("nonzero_numpy.default", "where.default")
def _convert_nonzero_numpy(c: Call) -> list[str]:
    return nonzero(c, c.tensor("condition" if c.gives("condition") else "self"))[1]


@aten("masked_select.default")
def _convert_masked_select(c: Call) -> str:
    value, mask = c.tensor(), c.tensor("mask")
    shape = broadcast(c.type(value).shape, c.type(mask).shape)
    value, mask = (c.broadcast(each, shape) for each in (value, mask))
    return c.emit("take", c.reshape(value, (product(shape),)), nonzero(c, mask)[0], axis=0)


@aten("_unique2.default")
def _convert_unique(c: Call) -> Sequence[str]:
    value = c.tensor()
    values, _, inverse, counts = unique(c, c.reshape(value, (product(c.type(value).shape),)), True)
    inverse = c.reshape(inverse, c.type(value).shape) if c.known("return_inverse", False) else ""
    return [values, inverse, counts if c.known("return_counts", False) else ""]


@aten("bincount.default")
def _convert_bincount(c: Call) -> str:
    """The count of each number from 0 to the greatest, or the sum of its weights."""
    value, least = c.cast(c.tensor(), "int64"), c.integer("minlength", 0)
    (size,) = c.type(value).shape
    weights = c.optional("weights") or c.broadcast(c.scalar(1, "int64"), (size,))
    count = max(c.measured("count", lambda: c.emit("max", value, axes=(0,))) + 1, least) if size != 0 else least
    zeros = c.broadcast(c.scalar(0, c.dtype), (count,))
    return c.emit("scatter_nd", zeros, c.reshape(value, (size, 1)), c.cast(weights, c.dtype), reduction="add")


@aten("index_copy.default", "index_add.default")
def _index_copy(c: Call) -> str:
    axis, index = c.axis(), c.tensor("index")
    order = [axis, *(at for at in range(c.rank(c.tensor())) if at != axis)]
    updates = c.tensor("source")
    if c.known("alpha", 1) != 1:
        updates = c.emit("multiply", updates, c.operand("alpha", c.type(updates).dtype))
    if c.target.startswith("index_copy") and c.rank(c.tensor()) and c.rank(index) == 1:
        return c.emit("put", c.tensor(), index, updates, axis=axis)
    places = c.reshape(index, (*c.type(index).shape, 1))
    result = c.emit(
        "scatter_nd",
        _permute(c, c.tensor(), order),
        places,
        _permute(c, updates, order),
        reduction="add" if "add" in c.target else "update",
    )
    return _permute(c, result, [order.index(at) for at in range(len(order))])


@aten("one_hot.default")
def _convert_one_hot(c: Call) -> str:
    depth = c.integer("num_classes", -1)
    if depth < 0:
        raise Refused("the number of classes is not known")
    return c.emit("one_hot", c.tensor(), c.constant(np.asarray([0, 1])), depth=depth, axis=-1)


@aten("histc.default")
def _convert_histc(c: Call) -> str:
    """Return the number of elements that lie in each of bins of one width; those outside are not counted, the greatest is in the last."""
    bins, low, high = c.integer("bins", 100), float(c.known("min", 0)), float(c.known("max", 0))
    if low >= high:
        raise Refused("its bins are from the least to the greatest of what it is given")
    value = c.reshape(c.tensor(), (product(c.type(c.tensor()).shape), 1))
    place = c.emit(
        "divide",
        c.emit("multiply", c.emit("subtract", value, c.constant(low, value)), c.constant(bins, value)),
        c.constant(high - low, value),
    )
    last = c.emit("minimum", c.emit("floor", place), c.constant(bins - 1, place))
    inside = c.emit(
        "logical_and",
        c.emit("greater_equal", value, c.constant(low, value)),
        c.emit("less_equal", value, c.constant(high, value)),
    )
    hit = c.emit("logical_and", inside, c.emit("equal", last, c.constant(np.arange(few(bins)), place)))
    return c.emit("sum", c.cast(hit, c.dtype), axes=(0,))


@aten("torch.ops.transformers.grouped_mm_fallback.default", "_grouped_mm.default")
def _convert_grouped_product(c: Call) -> str:
    """Rows that lie sorted by groups, each group as far as its end, times the group's matrix; rows behind all of them give 0."""
    names = ("input", "weight") if c.gives("weight") else ("self", "mat2")
    x, w, ends = c.tensor(names[0]), c.tensor(names[1]), c.tensor("offs")
    if c.rank(x) != 2 or c.rank(w) != 3 or c.type(x).dtype != c.type(w).dtype:
        raise Refused("its matrices are not rows of groups, and a matrix for each")
    rows = c.type(x).shape[0]
    place = c.reshape(c.emit("arange", shape=(rows,)), (rows, 1))
    groups = c.emit("sum", c.cast(c.emit("less_equal", c.cast(ends, "int64"), place), "int64"), axes=(1,))
    there = c.emit("less", groups, c.constant(c.extent(w, 0), groups))
    product_of = c.emit("grouped_matmul", x, w, groups)
    return c.emit("where", c.reshape(there, (rows, 1)), product_of, c.constant(0, product_of))
