"""topi.image: operators on images with TVM's arguments."""

from __future__ import annotations

from typing import Any

from ....te import Tensor
from ....topi import elementwise
from ....topi import image as _ours

__all__ = ["crop_and_resize", "resize1d", "resize2d", "resize3d"]


def __getattr__(name: str) -> Any:
    return getattr(_ours, name)


def resize2d(
    data: Tensor,
    roi: Any,
    size: Any,
    layout: str = "NCHW",
    method: str = "linear",
    coordinate_transformation_mode: str = "half_pixel",
    rounding_method: str = "",
    bicubic_alpha: float = -0.5,
    bicubic_exclude: int = 0,
    extrapolation_value: float = 0.0,
    out_dtype: Any = None,
    output_shape: Any = None,
) -> Tensor:
    """Images in another size. What TVM alone has (bicubic_exclude, and roi and extrapolation_value, which belong to cropping)
    is refused where it would say something."""
    del output_shape, extrapolation_value
    if bicubic_exclude:
        raise ValueError("resize2d takes pixels beyond the border as those on it: bicubic_exclude=0")
    rounding = rounding_method or ("round" if coordinate_transformation_mode == "align_corners" else "floor")
    result = _ours.resize2d(data, roi, size, layout, method, coordinate_transformation_mode, rounding, bicubic_alpha)
    return result if out_dtype is None else elementwise.cast(result, out_dtype)


def resize1d(
    data: Tensor,
    roi: Any,
    size: Any,
    layout: str = "NCW",
    method: str = "linear",
    coordinate_transformation_mode: str = "half_pixel",
    rounding_method: str = "",
    bicubic_alpha: float = -0.5,
    **rest: Any,
) -> Tensor:
    """Rows in another size."""
    how = layout, method, coordinate_transformation_mode, rounding_method, bicubic_alpha
    return _many(_ours.resize1d, data, roi, size, how, rest)


def resize3d(
    data: Tensor,
    roi: Any,
    size: Any,
    layout: str = "NCDHW",
    method: str = "linear",
    coordinate_transformation_mode: str = "half_pixel",
    rounding_method: str = "",
    bicubic_alpha: float = -0.5,
    **rest: Any,
) -> Tensor:
    """Volumes in another size."""
    how = layout, method, coordinate_transformation_mode, rounding_method, bicubic_alpha
    return _many(_ours.resize3d, data, roi, size, how, rest)


def _many(over: Any, data: Tensor, roi: Any, size: Any, how: tuple[Any, ...], rest: dict[str, Any]) -> Tensor:
    layout, method, where, rounding, alpha = how
    if rest.get("bicubic_exclude") or roi is not None and any(roi):
        raise ValueError(
            "whole images are resized, and pixels beyond the border are as those on it: roi=None, bicubic_exclude=0"
        )
    result = over(
        data, size, layout, method, where, rounding or ("round" if where == "align_corners" else "floor"), alpha
    )
    dtype = rest.get("out_dtype")
    return result if dtype is None else elementwise.cast(result, dtype)


def crop_and_resize(
    data: Tensor,
    boxes: Tensor,
    box_indices: Tensor,
    crop_size: Any,
    layout: str = "NCHW",
    method: str = "bilinear",
    extrapolation_value: float | None = None,
    out_dtype: Any = None,
) -> Tensor:
    """Boxes of images, each as crop_size elements."""
    result = _ours.crop_and_resize(data, boxes, box_indices, crop_size, layout, method, extrapolation_value or 0.0)
    return result if out_dtype is None else elementwise.cast(result, out_dtype)
