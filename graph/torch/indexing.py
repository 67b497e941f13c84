"""torch's operators that look up, write to, or count parts: diagonals, slices, sorted rows, masks."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from ..conversion import Refused, broadcast, few, product
from ..types import Extent
from .call import VIEWS, Call, aten
from .movement import cut
from .numbers import extent

__all__: list[str] = []


@aten("searchsorted.Tensor", "bucketize.Tensor")
def _convert_searchsorted(c: Call) -> str:
    rows = c.tensor("sorted_sequence" if c.gives("sorted_sequence") else "boundaries")
    if c.gives("sorter"):
        raise Refused("its rows are in another order")
    right = bool(c.known("right", False)) or c.known("side", None) == "right"
    c.argument("side", None)
    c.argument("out_int32", None)
    return c.cast(c.emit("searchsorted", rows, c.tensor(), right=right), c.dtype)


@aten("isin.Tensor_Tensor")
def _convert_among(c: Call) -> str:
    elements, others = c.tensor("elements"), c.tensor("test_elements")
    c.argument("assume_unique", None)
    shape, count = c.type(elements).shape, int(np.prod(c.static(others)))
    equal = c.emit("equal", c.reshape(elements, (*shape, 1)), c.reshape(others, (count,)))
    found = c.emit("any", equal, axes=(len(shape),))
    return c.emit("logical_not", found) if c.known("invert", False) else found


@aten("take_along_dim.default")
def _convert_take_along_dim(c: Call) -> str:
    index = c.tensor("indices")
    sides = [c.tensor(), index]
    if not c.gives("dim"):
        sides = [c.reshape(value, (product(c.type(value).shape),)) for value in sides]
    axis = c.axis(default=0, rank=c.rank(sides[0]))
    shapes = [[*c.type(value).shape] for value in sides]
    for shape in shapes:
        shape[axis] = 1
    whole = broadcast(*shapes)
    values = [c.broadcast(value, (*whole[:axis], c.type(value).shape[axis], *whole[axis + 1 :])) for value in sides]
    return c.emit("gather", *values, axis=axis)


@aten("take.default")
def _convert_take(c: Call) -> str:
    return c.emit("take", c.reshape(c.tensor(), (product(c.type(c.tensor()).shape),)), c.tensor("index"), axis=0)


def _diagonal_coordinates(rows: int, columns: int, offset: int) -> NDArray[np.int64]:
    """Return the positions of a diagonal in a matrix."""
    count = max(min(rows + min(offset, 0), columns - max(offset, 0)), 0)
    at = np.arange(few(count))
    return (at + max(-offset, 0)) * columns + at + max(offset, 0)


@aten("diagonal.default", "diagonal_copy.default", "diag.default", "trace.default")
def _convert_diagonal(c: Call) -> str:
    value, offset = c.tensor(), int(c.known("diagonal" if c.target.startswith("diag.") else "offset", 0))
    if c.target.startswith("diag.") and c.rank(value) == 1:
        return _embed_diagonal(c, value, offset)
    flat, places, _, rest = _matrices(c, value, offset)
    found = c.emit("take", flat, places, axis=rest)
    return c.emit("sum", c.cast(found, c.dtype), axes=(0,)) if c.target.startswith("trace") else found


def _matrices(c: Call, value: str, offset: int) -> tuple[str, str, list[int], int]:
    """The elements of each matrix in a row, where its diagonal lies in it, the order of axes in which matrices are last, and how many
    axes are before them."""
    shape, first, second = c.type(value).shape, c.axis("dim1", 0), c.axis("dim2", 1)
    rest = [at for at in range(len(shape)) if at not in (first, second)]
    order = [*rest, first, second]
    moved = c.emit("transpose", value, axes=tuple(order))
    flat = c.reshape(moved, (*(shape[at] for at in rest), product([shape[first], shape[second]])))
    return flat, _diagonal_positions(c, shape[first], shape[second], offset), order, len(rest)


def _diagonal_back(c: Call, whole: str, part: str) -> str:
    flat, places, order, rest = _matrices(c, whole, int(c.known("offset", 0)))
    shape = c.type(whole).shape
    moved = c.reshape(c.emit("put", flat, places, part, axis=rest), [shape[at] for at in order])
    return c.emit("transpose", moved, axes=tuple(order.index(at) for at in range(len(order))))


VIEWS["diagonal.default"] = _diagonal_back


@aten("diagonal_scatter.default")
def _convert_diagonal_scatter(c: Call) -> str:
    return _diagonal_back(c, c.tensor(), c.tensor("src"))


def _diagonal_positions(c: Call, rows: Extent, columns: Extent, offset: int) -> str:
    """Return the positions of a diagonal in a matrix whose rows follow each other."""
    if isinstance(rows, int) and isinstance(columns, int):
        return c.constant(_diagonal_coordinates(rows, columns, offset))
    left, right = f"({rows}) - {max(-offset, 0)}", f"({columns}) - {max(offset, 0)}"
    count = extent(left if rows == columns and not offset else f"max(min({left}, {right}), 0)")
    numbers = c.cast(c.emit("arange", shape=(count,)), "int64")
    step = c.size_value(extent(f"({columns}) + 1"))
    begin = c.size_value(extent(f"{max(-offset, 0)} * ({columns}) + {max(offset, 0)}"))
    return c.emit("add", c.emit("multiply", numbers, step), begin)


def _embed_diagonal(c: Call, value: str, offset: int) -> str:
    """A vector as the diagonal of a matrix."""
    lead, far = c.rank(value) - 1, abs(offset)
    padded = c.emit("pad", value, before=(0,) * (lead + 1), after=(*(0,) * lead, far), value=0) if far else value
    *rest, size = c.type(padded).shape
    numbers = c.emit("arange", shape=(size,))
    column = c.reshape(numbers, (size, 1))
    on_diagonal = c.emit("equal", numbers, c.emit("add", column, c.constant(offset, numbers)))
    shape = (*rest, 1, size) if offset < 0 else (*rest, size, 1)  # its columns below the main one
    return c.emit("where", on_diagonal, c.reshape(padded, shape), c.scalar(0, c.dtype))


@aten("diag_embed.default")
def _convert_diag_embed(c: Call) -> str:
    rank = c.rank(c.tensor()) + 1
    first, second = c.axis("dim1", -2, rank), c.axis("dim2", -1, rank)
    order = [at for at in range(rank) if at not in (first, second)] + [first, second]
    whole = _embed_diagonal(c, c.tensor(), int(c.known("offset", 0)))
    return c.emit("transpose", whole, axes=tuple(map(order.index, range(rank))))


@aten("index_fill.int_Scalar", "index_fill.int_Tensor")
def _convert_index_fill(c: Call) -> str:
    axis, shape, count = c.axis(), c.type(c.tensor()).shape, product(c.type(c.tensor("index")).shape)
    rows = c.emit("broadcast_to", c.operand("value", c.dtype), shape=(*shape[:axis], count, *shape[axis + 1 :]))
    return c.emit("put", c.tensor(), c.reshape(c.tensor("index"), (count,)), rows, axis=axis)


@aten("meshgrid.default", "meshgrid.indexing")
def _convert_grids(c: Call) -> Sequence[str]:
    given = c.tensors("tensors")
    sizes = [product(c.type(one).shape) for one in given]
    order = list(range(len(given)))
    if len(order) > 1 and c.arguments.get("indexing") == "xy":
        order[:2] = 1, 0
    c.argument("indexing", None)
    shape = tuple(sizes[at] for at in order)
    return [
        c.emit("broadcast_to", c.reshape(one, [size if place == at else 1 for place in order]), shape=shape)
        for at, (one, size) in enumerate(zip(given, sizes, strict=True))
    ]


@aten("tril_indices.default", "triu_indices.default")
def _convert_indices(c: Call) -> str:
    rows, columns, offset = c.integer("row"), c.integer("col"), c.integer("offset", 0)
    if rows * columns > 1 << 24:
        raise Refused("it has too many numbers")
    made = (
        np.tril_indices(rows, offset, columns)
        if c.target.startswith("tril")
        else np.triu_indices(rows, offset, columns)
    )
    return c.cast(c.constant(np.stack(made)), c.dtype)


@aten("linalg_cross.default", "cross.default")
def _cross(c: Call) -> str:
    axis = c.axis("dim", -1)
    order = [
        c.emit("take", c.tensor(name), c.constant(np.asarray(places)), axis=axis)
        for name in ("self", "other")
        for places in ((1, 2, 0), (2, 0, 1))
    ]
    return c.emit("subtract", c.emit("multiply", order[0], order[3]), c.emit("multiply", order[1], order[2]))


@aten("aminmax.default")
def _convert_extremes(c: Call) -> Sequence[str]:
    axes = (c.axis(),) if c.gives("dim") else tuple(range(c.rank(c.tensor())))
    keep = bool(c.known("keepdim", False))
    return [c.emit(kind, c.tensor(), axes=axes, keepdims=keep) for kind in ("min", "max")]


@aten("count_nonzero.default", "count_nonzero.dim_IntList")
def _convert_count_nonzero(c: Call) -> str:
    value = c.tensor()
    some = value if c.type(value).dtype == "bool" else c.emit("not_equal", value, c.scalar(0, c.type(value).dtype))
    return c.emit("sum", c.cast(some, "int64"), axes=c.axes())


@aten("median.default")
def _convert_median(c: Call) -> str:
    return _convert_kthvalue(c.over("self", c.reshape(c.tensor(), (product(c.type(c.tensor()).shape),))))[0]


@aten("median.dim", "kthvalue.default")
def _convert_kthvalue(c: Call) -> Sequence[str]:
    """The element that so many others of a row come before, and its place."""
    axis, value = c.axis("dim", -1), c.tensor()
    count = c.type(value).shape[axis]
    if isinstance(count, int) or c.target.startswith("kth"):
        rank = c.integer("k") if c.target.startswith("kth") else (c.extent(value, axis) - 1) // 2 + 1
        first = c.emit_all("topk", value, k=rank, axis=axis, largest=False)
        results = [cut(c, one, axis, rank - 1, rank) for one in first]
    else:
        begin, end = extent(f"(({count}) - 1) // 2"), extent(f"(({count}) - 1) // 2 + 1")
        results = [cut(c, one, axis, begin, end) for one in c.emit_all("topk", value, k=-1, axis=axis, largest=False)]
    if c.target.startswith("median") and "float" in c.dtype:  # NaN, where there is one
        isnan = c.emit("isnan", value)
        has = c.emit("any", isnan, axes=(axis,), keepdims=True)
        first = c.emit("argmax", c.cast(isnan, "int32"), axis=axis, keepdims=True)
        results = [
            c.emit("where", has, one, other)
            for one, other in zip((c.scalar(np.nan, c.dtype), first), results, strict=True)
        ]
    if c.known("keepdim", False):
        return results
    return [c.reshape(one, (*c.type(value).shape[:axis], *c.type(value).shape[axis + 1 :])) for one in results]


@aten("linalg_det.default", "det.default")
def _convert_det(c: Call) -> str:
    return c.emit("det", c.tensor("A" if c.gives("A") else "self"))


@aten("cdist.default", "pairwise_distance.default")
def _convert_distance(c: Call) -> str:
    """The norm of differences: of all rows of two matrices, or of rows beside each other."""
    pairs = c.target.startswith("cdist")
    one, other, p = c.tensor("x1"), c.tensor("x2"), float(c.known("p", 2.0))
    if p <= 0:
        raise Refused(f"its norm is that of p = {p}")
    if pairs:
        shapes = [c.type(value).shape for value in (one, other)]
        one = c.reshape(one, (*shapes[0][:-1], 1, shapes[0][-1]))
        other = c.reshape(other, (*shapes[1][:-2], 1, *shapes[1][-2:]))
        c.argument("compute_mode", None)
    far = c.emit("subtract", one, other)
    if not pairs:
        far = c.emit("add", far, c.scalar(float(c.known("eps", 1e-6)), c.dtype))
    return c.norm(far, p, (c.rank(far) - 1,), bool(c.known("keepdim", False)))
