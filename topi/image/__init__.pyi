"""The operators of tilewright.topi.image; written by docs/make_faces.py."""

from .bilateral import bilateral_slice as bilateral_slice
from .blur import box_blur as box_blur, gaussian_blur as gaussian_blur
from .morphology import dilation2d_nchw as dilation2d_nchw, dilation2d_nhwc as dilation2d_nhwc
from .resize import resize as resize, resize2d as resize2d
from .sampling import affine_grid as affine_grid, grid_sample as grid_sample
from .unsharp import unsharp_mask as unsharp_mask
from .volumes import crop_and_resize as crop_and_resize, resize1d as resize1d, resize3d as resize3d
