"""Resizing over one dimension and over three, and regions of images brought to one size."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ...base.errors import user_source
from ...te import polymorphic as te
from ...te.indices import clipped_index
from ...te.shape import shape_text
from ...te.tensor import Tensor
from ..checks import tensor
from ..nn.window import Sizes, expand_numbers, pair
from ..transform import transpose
from .errors import BadImage
from .planes import Plane
from .resize import NAMES, interpolate, interpolation
from .sampling import weigh_neighbours
from .taps import find_taps

__all__ = ["crop_and_resize", "resize1d", "resize3d"]


def resize1d(
    data: Tensor,
    size: Sizes,
    layout: str = "NCW",
    method: str = "linear",
    coordinates: str = "half_pixel",
    rounding: str = "round",
    cubic_alpha: float = -0.75,
) -> Tensor:
    """resize along one dimension.

    Parameters
    ----------
    data : Tensor
        (N, C, W) or (N, W, C).
    size : int or sequence of int
        The extent along W.
    layout : str, default "NCW"
        "NCW" or "NWC".
    method : str, default "linear"
        "nearest_neighbor", "linear" or "cubic".
    coordinates : str, default "half_pixel"
        As of resize.
    rounding : str, default "round"
        As of resize.
    cubic_alpha : float, default -0.75
        The parameter of Keys' kernel.

    Returns
    -------
    Tensor
        The layout and the dtype of the data.

    Raises
    ------
    BadImage (TW0195)
        An image, or a size, that does not fit.
    BadWindow (TW0190)
        Windows, strides, dilations or paddings of a wrong size or number.
    """
    return _resize_volume(
        data, expand_numbers(size, 1, "size"), layout, "W", method, coordinates, rounding, cubic_alpha
    )


def resize3d(
    data: Tensor,
    size: Sizes,
    layout: str = "NCDHW",
    method: str = "linear",
    coordinates: str = "half_pixel",
    rounding: str = "round",
    cubic_alpha: float = -0.75,
) -> Tensor:
    """resize along three dimensions.

    Parameters
    ----------
    data : Tensor
        (N, C, D, H, W) or (N, D, H, W, C).
    size : int or sequence of int
        Depth, height and width.
    layout : str, default "NCDHW"
        "NCDHW" or "NDHWC".
    method : str, default "linear"
        "nearest_neighbor", "linear" or "cubic".
    coordinates : str, default "half_pixel"
        As of resize.
    rounding : str, default "round"
        As of resize.
    cubic_alpha : float, default -0.75
        The parameter of Keys' kernel.

    Returns
    -------
    Tensor
        The layout and the dtype of the data.

    Raises
    ------
    BadImage (TW0195)
        An image, or a size, that does not fit.
    BadWindow (TW0190)
        Windows, strides, dilations or paddings of a wrong size or number.
    """
    sizes = expand_numbers(size, 3, "size")
    return _resize_volume(data, sizes, layout, "DHW", method, coordinates, rounding, cubic_alpha)


def _resize_volume(
    data: Tensor,
    sizes: Sequence[int],
    layout: str,
    letters: str,
    method: str,
    coordinates: str,
    rounding: str,
    cubic_alpha: float,
) -> Tensor:
    whole, how = _first(data, layout, letters), interpolation(method, coordinates, rounding, cubic_alpha)
    taps = {at: find_taps(whole.shape[at], out, how) for at, out in enumerate(sizes, 2)}  # N and C stay
    return _restore_layout(
        interpolate(Plane(whole, whole.ndim - 2, 1, "edge"), taps, fixed_point=True), layout, letters
    )


def crop_and_resize(
    data: Tensor,
    boxes: Tensor,
    box_indices: Tensor,
    crop_size: Sizes,
    layout: str = "NCHW",
    method: str = "bilinear",
    extrapolation_value: float = 0.0,
) -> Tensor:
    """Boxes of images, brought to one size. Elements lie from corner to corner.

    Parameters
    ----------
    data : Tensor
        (N, C, H, W) or (N, H, W, C).
    boxes : Tensor
        (count, 4), of y0, x0, y1, x1 from 0 to 1.
    box_indices : Tensor
        Integers, (count,): the image of each box.
    crop_size : int or sequence of int
        Height and width of the result.
    layout : str, default "NCHW"
        "NCHW" or "NHWC".
    method : str, default "bilinear"
        "bilinear" or "nearest".
    extrapolation_value : float, default 0.0
        What lies outside of an image.

    Returns
    -------
    Tensor
        (count, C, height, width), or (count, height, width, C), in the dtype of the data.

    Raises
    ------
    BadImage (TW0195)
        An image, or a size, that does not fit.
    BadWindow (TW0190)
        Windows, strides, dilations or paddings of a wrong size or number.
    """
    out = pair(crop_size, "crop_size")
    if method not in ("bilinear", "nearest_neighbor", "nearest", "linear"):
        raise BadImage(
            f"crop_and_resize has no method {method!r}",
            called=user_source(),
            allowed='"bilinear", "nearest"',
            reason="a place is weighed from its neighbours",
            fix='method="bilinear"',
        )
    image = _first(data, layout, "HW")
    tensor(boxes, "the boxes of crop_and_resize", 2)
    tensor(box_indices, "the box indices of crop_and_resize", 1)  # indices of images, one for each box
    kind = "float64" if str(image.dtype) == "float64" else "float32"

    def element(b: Any, c: Any, *at: Any) -> Any:
        places: list[Any] = []
        inside: list[Any] = []
        for dim, index in enumerate(at):
            begin, end = boxes[b, dim].astype(kind), boxes[b, dim + 2].astype(kind)
            last = (image.shape[2 + dim] - 1).astype(kind)  # corners lie on the centres of the outermost elements
            place = (
                (begin + index.astype(kind) * ((end - begin) / te.const(out[dim] - 1, kind))) * last
                if out[dim] > 1
                else te.const(0.5, kind) * (begin + end) * last
            )
            inside += [place >= 0, place <= last]
            places.append(te.max(te.min(place, last), 0))
        # an index outside takes the nearest image, since memory may not be left
        batch = clipped_index(box_indices[b], image.shape[0])
        value = weigh_neighbours(
            image, (batch, c), places, 1 if NAMES.get(method, method) == "nearest" else 2, "border"
        )
        # outside is decided by the place, not by the clipped index
        return te.select(te.all(*inside), value.astype(image.dtype), te.const(extrapolation_value, image.dtype))

    return _restore_layout(
        te.compute((boxes.shape[0], image.shape[1], *out), element, name="crop_and_resize"), layout, "HW"
    )


def _first(data: Any, layout: str, letters: str) -> Tensor:
    """Data with the channels before the dimensions of these letters."""
    source = tensor(data, "a resize")
    if layout not in (f"NC{letters}", f"N{letters}C") or source.ndim != len(layout):
        raise BadImage(
            f"{source.name} is not {layout!r}",
            declared=source.source,
            called=user_source(),
            reason=f"its shape is {shape_text(source.shape)}",
            allowed=f'"NC{letters}", "N{letters}C"',
            fix=f'layout="NC{letters}"',
        )
    return source if layout.startswith("NC") else transpose(source, (0, source.ndim - 1, *range(1, source.ndim - 1)))


def _restore_layout(result: Tensor, layout: str, letters: Sequence[str]) -> Tensor:
    return result if layout.startswith("NC") else transpose(result, (0, *range(2, 2 + len(letters)), 1))
