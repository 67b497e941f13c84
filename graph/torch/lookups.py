"""torch's operators that look up places, and write to them."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce

import numpy as np

from ..conversion import Refused, broadcast, product
from ..types import Extent
from .call import Call, aten
from .movement import cut

__all__: list[str] = []


@aten("embedding.default")
def _embedding(c: Call) -> str:
    return c.emit("take", c.tensor("weight"), c.tensor("indices"), axis=0)


@aten("index_select.default")
def _index_select(c: Call) -> str:
    return c.emit("take", c.tensor(), c.tensor("index"), axis=c.axis())


@aten("gather.default")
def _gather(c: Call) -> str:
    axis, index, value = c.axis(), c.tensor("index"), c.tensor()
    c.given("sparse_grad", None)
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
        str(c.known("reduce", "")), "add" if c.target.startswith("scatter_add") else "update")
    if not c.known("include_self", True) or c.gives("reduce") and kind == "update":
        raise Refused("it reduces without what is there, or to a mean")
    return c.emit("scatter_elements", c.tensor(), index, updates, axis=c.axis(), reduction=kind)


def _places(c: Call) -> tuple[list[int], list[str], tuple[Extent, ...]]:
    """The axes that are looked up, the indices of each, and the shape in which they meet."""
    given = c.tensors("indices")
    axes: list[int] = []
    indices: list[str] = []
    axis = 0
    for one in given:
        if one and c.type(one).dtype == "bool":
            known = c.scope.graph.data(one)
            if known is None:
                raise Refused("how many elements a mask chooses is not known")
            found = np.nonzero(known)
            axes += range(axis, axis + len(found))
            indices += [c.constant(part) for part in found]
        elif one:
            axes.append(axis)
            indices.append(c.cast(one, "int64"))
        axis = axes[-1] + 1 if one else axis + 1
    return axes, indices, reduce(broadcast, (c.type(one).shape for one in indices), ())


@aten("index.Tensor")
def _index(c: Call) -> str:
    axes, indices, shape = _places(c)
    value = c.tensor()
    if not axes:
        return value
    if len(axes) == 1:
        return c.emit("take", value, indices[0], axis=axes[0])
    rank = c.rank(value)
    order = [*axes, *(at for at in range(rank) if at not in axes)]
    result = c.emit("gather_nd", _ordered(c, value, order), _together(c, indices, shape))
    if axes != list(range(axes[0], axes[0] + len(axes))) or not axes[0]:
        return result
    first = len(shape)
    return _ordered(c, result, [*range(first, first + axes[0]), *range(first), *range(first + axes[0], c.rank(result))])


def _ordered(c: Call, value: str, order: Sequence[int]) -> str:
    return value if list(order) == sorted(order) else c.emit("transpose", value, axes=tuple(order))


def _together(c: Call, indices: Sequence[str], shape: tuple[Extent, ...]) -> str:
    """Indices as coordinates: a last axis with one of each."""
    whole = [one if c.type(one).shape == shape else c.emit("broadcast_to", one, shape=shape) for one in indices]
    return c.emit("stack", *whole, axis=len(shape))


@aten("index_put.default")
def _index_put(c: Call) -> str:
    axes, indices, shape = _places(c)
    value = c.tensor()
    c.given("unsafe", None)
    if axes != list(range(axes[0], axes[0] + len(axes))):
        raise Refused("it writes along axes with others between them")
    rest = [at for at in range(c.rank(value)) if at not in axes]
    order = [*axes, *rest]
    sizes = c.type(value).shape
    target = (*(sizes[at] for at in rest[:axes[0]]), *shape, *(sizes[at] for at in rest[axes[0]:]))
    updates = c.operand("values", c.dtype)
    if c.type(updates).is_static and product(c.type(updates).shape) == product(target):
        updates = c.reshape(updates, target)                # extents of 1 alone may stand, or not, before the others
    updates = updates if c.type(updates).shape == target else c.emit("broadcast_to", updates, shape=target)
    if len(axes) == 1 and len(shape) <= 1 and not c.known("accumulate", False):
        rows = (*target[:axes[0]], *(shape or (1,)), *target[axes[0] + len(shape):])
        return c.emit("put", value, c.reshape(indices[0], shape or (1,)), c.reshape(updates, rows), axis=axes[0])
    lead = axes[0]
    moved = [*range(lead, lead + len(shape)), *range(lead), *range(lead + len(shape), len(target))]
    result = c.emit("scatter_nd", _ordered(c, value, order), _together(c, indices, shape), _ordered(c, updates, moved),
                    reduction="add" if c.known("accumulate", False) else "update")
    return _ordered(c, result, [order.index(at) for at in range(len(order))])


@aten("index_copy.default", "index_add.default")
def _index_copy(c: Call) -> str:
    axis, index = c.axis(), c.tensor("index")
    order = [axis, *(at for at in range(c.rank(c.tensor())) if at != axis)]
    updates = c.tensor("source")
    if c.known("alpha", 1) != 1:
        raise Refused("what it adds is scaled")
    if c.target.startswith("index_copy") and c.rank(c.tensor()) and c.rank(index) == 1:
        return c.emit("put", c.tensor(), index, updates, axis=axis)
    places = c.reshape(index, (*c.type(index).shape, 1))
    result = c.emit("scatter_nd", _ordered(c, c.tensor(), order), places, _ordered(c, updates, order),
                    reduction="add" if "add" in c.target else "update")
    return _ordered(c, result, [order.index(at) for at in range(len(order))])


@aten("one_hot.default")
def _one_hot(c: Call) -> str:
    depth = c.integer("num_classes", -1)
    if depth < 0:
        raise Refused("how many classes there are is not known")
    return c.emit("one_hot", c.tensor(), c.constant(np.asarray([0, 1])), depth=depth, axis=-1)
