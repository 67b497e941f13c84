"""Images and volumes looked up at places between their elements, which are data: grids of places, and grids that affine maps give.

A place is weighed from its neighbours, of each dimension one ("nearest"), two ("bilinear") or four ("bicubic", by Keys' kernel
with a = -0.75). Neighbours outside are zeros, the nearest element ("border"), or mirrored ("reflection"), at the centres of the
outermost elements where corners are aligned, else at their edges.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any

from ...base.errors import user_source
from ...ir import Expr, ops
from ...te import polymorphic as te
from ...te.shape import Extent
from ...te.tensor import Tensor, tensor_text
from ..checks import BadOperand, BadParameter, check_count, tensor
from ..weighted_sums import keys_weights
from .resize import NAMES

__all__ = ["affine_grid", "grid_sample"]

TAPS = {"nearest": 1, "bilinear": 2, "bicubic": 4}
PADDINGS = ("zeros", "border", "reflection")
_FAR = 1 << 22
"""Places are brought as near as this before they become integers."""


def grid_sample(
    data: Tensor,
    grid: Tensor,
    method: str = "bilinear",
    layout: str = "NCHW",
    padding_mode: str = "zeros",
    align_corners: bool = True,
) -> Tensor:
    """Data looked up at the places of a grid, between elements.

    Of a place the coordinates are x, y (and z), from -1 to 1: the centres of the outermost elements where corners are
    aligned, else their outer edges.

    Parameters
    ----------
    data : Tensor
        (N, C, H, W) or (N, C, D, H, W).
    grid : Tensor
        (N, 2, ...) or (N, 3, ...).
    method : str, default "bilinear"
        "nearest" (halves to even), "bilinear", or, of images, "bicubic".
    layout : str, default "NCHW"
        "NCHW" or "NCDHW".
    padding_mode : str, default "zeros"
        What lies outside: "zeros", "border" or "reflection".
    align_corners : bool, default True
        Whether -1 and 1 are the centres of the outermost elements.

    Returns
    -------
    Tensor
        (N, C, ...), in the dtype of the data.

    Raises
    ------
    BadOperand (TW0181)
        An operand that is not a tensor, or of another shape or dtype.
    BadParameter (TW0182)
        A parameter of another kind, or out of range.
    """
    source, places = tensor(data, "grid_sample"), tensor(grid, "the grid of grid_sample")
    rank = source.ndim - 2
    # a coordinate for each spatial dimension
    if layout not in ("NCHW", "NCDHW") or len(layout) != source.ndim or places.ndim != rank + 2:
        raise BadOperand(
            f"grid_sample: {tensor_text(source)} and {tensor_text(places)} are not data and grid of {layout!r}",
            declared=source.source,
            called=user_source(),
            fix="data (N, C, H, W), a grid (N, 2, height, width)",
        )

    def coordinate(n: Any, at: Any, *i: Any) -> Any:
        return places[(n, rank - 1 - at, *i)]  # the grid has x first, tensors have it last

    shape = (*source.shape[:2], *places.shape[2:])
    return sample_grid(source, shape, coordinate, places.dtype, NAMES.get(method, method), padding_mode, align_corners)


def sample_grid(
    source: Tensor,
    shape: Sequence[Any],
    coordinate: Callable[..., Any],
    dtype: Any,
    method: str,
    padding: str,
    align: bool,
) -> Tensor:
    """The elements of `shape`, (N, C, ...): coordinate(n, dimension, ...) gives the place, from -1 to 1. dtype: of the coordinates.
    Raises BadParameter (TW0182)."""
    rank = source.ndim - 2
    if method not in TAPS or padding not in PADDINGS or (method == "bicubic" and rank > 2):
        raise BadParameter(
            f"grid_sample of {rank} dimensions has no method {method!r} with padding {padding!r}",
            called=user_source(),
            allowed=f"{', '.join(TAPS)} (bicubic of images alone); {', '.join(PADDINGS)}",
            fix='method="bilinear"',
        )
    extents = source.shape[2:]  # float32 places of images have 24 bits, enough but for float64 data
    wide = "float64" if "float64" in (str(source.dtype), str(dtype)) else "float32"

    def place(n: Any, at: Any, *i: Any) -> Any:
        """The index, between those of the elements."""
        size: Any = ops.cast(extents[-1], wide)
        for dim in reversed(range(rank - 1)):
            size = te.select(at.equal(dim), ops.cast(extents[dim], wide), size)
        x = coordinate(n, at, *i).astype(wide)
        # from -1 to 1: centres of the outermost pixels, or their edges
        exact = (x + 1) / 2 * (size - 1) if align else ((x + 1) * size - 1) / 2
        # a NaN or huge place must not overflow the integer
        return te.max(te.min(exact, te.const(_FAR, wide)), te.const(-_FAR, wide))

    # places of all dimensions as one tensor, computed once for all channels
    each = te.compute((shape[0], rank, *shape[2:]), place, name="sample_places")

    def element(n: Any, c: Any, *i: Any) -> Any:
        value = weigh_neighbours(
            source, (n, c), [each[(n, at, *i)] for at in range(rank)], TAPS[method], padding, align
        )
        return _round(value, source.dtype)

    return te.compute(tuple(shape), element, name="grid_sample")


def weigh_neighbours(
    source: Tensor, lead: tuple[Any, ...], places: Sequence[Any], taps: int, padding: str, align: bool = False
) -> Any:
    """The element of `source` at lead and then at these places, weighed from `taps` neighbours along each dimension."""
    found: list[list[tuple[Any, Any, list[Any]]]] = [
        _neighbours(place, extent, taps, padding, align)
        for place, extent in zip(places, source.shape[len(lead) :], strict=True)
    ]
    total: Any = None
    for chosen in itertools.product(*found):
        # the index is clipped: reading is safe even where a zero is chosen
        value: Any = source[(*lead, *(index for index, _, _ in chosen))]
        inside = [one for _, _, conditions in chosen for one in conditions]
        if taps > 1:
            value = value.astype(places[0].dtype)
        if inside:
            value = te.select(te.all(*inside), value, te.const(0, value.dtype))  # a select, as both sides are cheap
        for _, weight, _ in chosen:
            value = value if weight is None else value * weight
        total = value if total is None else total + value
    return total


def _neighbours(place: Any, extent: Expr, taps: int, padding: str, align: bool) -> list[tuple[Any, Any, list[Any]]]:
    """The neighbours along a dimension: for each the index, the weight (None for 1), and what has to hold for it to be inside."""
    first = te.nearbyint(place) if taps == 1 else te.floor(place)
    part, whole = place - first, first.astype("int32")
    # bicubic by default
    weights: Sequence[Any] = {1: (None,), 2: (1 - part, part)}.get(taps) or keys_weights(part, -0.75)
    result: list[tuple[Any, Any, list[Any]]] = []
    for at, weight in enumerate(weights):
        index: Any = whole + (at - (1 if taps == 4 else 0))
        inside = [index >= 0, index < extent] if padding == "zeros" else []
        if padding == "reflection":
            index = _mirror(index, extent, align)
        result.append((te.max(te.min(index, extent - 1), 0), weight, inside))
    return result


def _mirror(index: Any, extent: Expr, align: bool) -> Any:
    period = te.max(2 * extent - 2, 1) if align else 2 * extent  # an image of one element has a period of 1
    there = index % period
    return te.min(there, period - there if align else period - 1 - there)


def _round(value: Any, dtype: Any) -> Any:
    # integers are rounded to the nearest
    return value.astype(dtype) if dtype.is_float or value.dtype == dtype else te.nearbyint(value).astype(dtype)


def affine_grid(data: Tensor, target_shape: Sequence[Extent]) -> Tensor:
    """The places to which affine maps (N, 2, 3) take the points of an image of target_shape (height, width), whose coordinates run
    from -1 to 1, corners aligned: (N, 2, height, width), x before y, in the maps' dtype. Raises BadOperand (TW0181)."""
    source = tensor(data, "affine_grid", 3)
    high, wide = check_count(target_shape, "target_shape of affine_grid", 2)
    kind = source.dtype

    def along(index: Any, extent: Any) -> Any:
        # an image of one row has only the coordinate -1
        return te.const(2, kind) * index.astype(kind) / te.max(ops.convert(extent) - 1, 1).astype(kind) - 1

    def element(n: Any, d: Any, y: Any, x: Any) -> Any:
        return source[n, d, 0] * along(x, wide) + source[n, d, 1] * along(y, high) + source[n, d, 2]

    return te.compute((source.shape[0], 2, high, wide), element, name="affine_grid", tag="injective")
