"""topi.image: operators on images with TVM's arguments."""

from __future__ import annotations

from typing import Any

from ....te import Tensor
from ....topi import elementwise
from ....topi import image as _ours

__all__ = ["resize2d"]


def __getattr__(name: str) -> Any:
    return getattr(_ours, name)


def resize2d(
    data: Tensor, roi: Any, size: Any, layout: str = "NCHW", method: str = "linear",
    coordinate_transformation_mode: str = "half_pixel", rounding_method: str = "", bicubic_alpha: float = -0.5,
    bicubic_exclude: int = 0, extrapolation_value: float = 0.0, out_dtype: Any = None, output_shape: Any = None,
) -> Tensor:
    """Images in another size. What TVM alone has (bicubic_exclude, and roi and extrapolation_value, which belong to cropping)
    is refused where it would say something."""
    del output_shape, extrapolation_value
    if bicubic_exclude:
        raise ValueError("resize2d takes pixels beyond the border as those on it: bicubic_exclude=0")
    rounding = rounding_method or ("round" if coordinate_transformation_mode == "align_corners" else "floor")
    result = _ours.resize2d(data, roi, size, layout, method, coordinate_transformation_mode, rounding, bicubic_alpha)
    return result if out_dtype is None else elementwise.cast(result, out_dtype)
