"""The operators of tilewright.topi.nn; written by docs/make_faces.py."""

from .activation import (
    batch_norm_inference as batch_norm_inference,
    bias_add as bias_add,
    celu as celu,
    elu as elu,
    flatten as flatten,
    gelu as gelu,
    hard_sigmoid as hard_sigmoid,
    hard_swish as hard_swish,
    leaky_relu as leaky_relu,
    mish as mish,
    pad as pad,
    prelu as prelu,
    relu as relu,
    relu6 as relu6,
    scale_shift_nchw as scale_shift_nchw,
    scale_shift_nhwc as scale_shift_nhwc,
    selu as selu,
    shrink as shrink,
    sigmoid as sigmoid,
    silu as silu,
    softplus as softplus,
    softsign as softsign,
    tanh as tanh,
    thresholded_relu as thresholded_relu,
)
from .any_conv import (
    conv1d as conv1d,
    conv1d_ncw as conv1d_ncw,
    conv1d_nwc as conv1d_nwc,
    conv1d_transpose_ncw as conv1d_transpose_ncw,
    conv2d_hwcn as conv2d_hwcn,
    conv3d_ncdhw as conv3d_ncdhw,
    conv3d_ndhwc as conv3d_ndhwc,
    conv3d_transpose_ncdhw as conv3d_transpose_ncdhw,
    group_conv1d_ncw as group_conv1d_ncw,
    group_conv1d_nwc as group_conv1d_nwc,
)
from .attention import attention as attention
from .bits import (
    binarize_pack as binarize_pack,
    binary_dense as binary_dense,
    bitpack as bitpack,
    bitserial_conv2d_nchw as bitserial_conv2d_nchw,
    bitserial_conv2d_nhwc as bitserial_conv2d_nhwc,
    bitserial_dense as bitserial_dense,
)
from .columns import col2im as col2im, im2col as im2col
from .conv2d import (
    conv2d as conv2d,
    conv2d_NCHWc as conv2d_NCHWc,
    conv2d_nchw as conv2d_nchw,
    conv2d_nhwc as conv2d_nhwc,
    conv2d_prepack as conv2d_prepack,
    conv2d_prepacked as conv2d_prepacked,
    conv2d_transpose as conv2d_transpose,
    group_conv2d_nchw as group_conv2d_nchw,
    group_conv2d_nhwc as group_conv2d_nhwc,
)
from .correlation import correlation_nchw as correlation_nchw
from .deformable import deformable_conv2d_nchw as deformable_conv2d_nchw, deformable_conv2d_nhwc as deformable_conv2d_nhwc
from .dense import dense as dense, packed_dense as packed_dense, prepack_dense as prepack_dense
from .depthwise import (
    depthwise_conv2d as depthwise_conv2d,
    depthwise_conv2d_nchw as depthwise_conv2d_nchw,
    depthwise_conv2d_nhwc as depthwise_conv2d_nhwc,
)
from .depthwise_grad import (
    depthwise_conv2d_backward_input_nhwc as depthwise_conv2d_backward_input_nhwc,
    depthwise_conv2d_backward_weight_nhwc as depthwise_conv2d_backward_weight_nhwc,
)
from .dilation import (
    batch_to_space_nd as batch_to_space_nd,
    depth_to_space as depth_to_space,
    dilate as dilate,
    fifo_buffer as fifo_buffer,
    mirror_pad as mirror_pad,
    space_to_batch_nd as space_to_batch_nd,
    space_to_depth as space_to_depth,
    upsampling as upsampling,
)
from .fake_quantization import simulated_dequantize as simulated_dequantize, simulated_quantize as simulated_quantize
from .integer_products import integer_conv as integer_conv, integer_matmul as integer_matmul
from .loss import nll_loss as nll_loss
from .lstm import lstm as lstm
from .norm import (
    instance_norm as instance_norm,
    l2_normalize as l2_normalize,
    layer_norm as layer_norm,
    lrn as lrn,
    rms_norm as rms_norm,
)
from .norm_groups import batch_norm as batch_norm, group_norm as group_norm
from .pool import (
    adaptive_pool as adaptive_pool,
    adaptive_pool1d as adaptive_pool1d,
    adaptive_pool3d as adaptive_pool3d,
    avg_pool2d as avg_pool2d,
    global_avg_pool2d as global_avg_pool2d,
    global_max_pool2d as global_max_pool2d,
    global_pool as global_pool,
    max_pool2d as max_pool2d,
    pool1d as pool1d,
    pool2d as pool2d,
    pool3d as pool3d,
)
from .pool_grad import global_pool_grad as global_pool_grad, pool_grad as pool_grad
from .pool_positions import max_pool_with_places as max_pool_with_places
from .quantization import (
    dense_bf16 as dense_bf16,
    dense_int8 as dense_int8,
    dequantize as dequantize,
    packed_dense_bf16 as packed_dense_bf16,
    packed_dense_int8 as packed_dense_int8,
    prepack_bf16 as prepack_bf16,
    prepack_int8 as prepack_int8,
    quantize as quantize,
    quantize_channels as quantize_channels,
    quantized_dense as quantized_dense,
    requantize as requantize,
)
from .softmax import log_softmax as log_softmax, softmax as softmax
from .sparse import (
    sparse_add as sparse_add,
    sparse_conv2d as sparse_conv2d,
    sparse_dense as sparse_dense,
    sparse_dense_sp_lhs as sparse_dense_sp_lhs,
    sparse_dense_sp_rhs as sparse_dense_sp_rhs,
    sparse_transpose as sparse_transpose,
)
from .weight_only import (
    dequantize_groups as dequantize_groups,
    quantize_groups as quantize_groups,
    weight_only_dense as weight_only_dense,
)
from .winograd import (
    conv2d_winograd as conv2d_winograd,
    conv2d_winograd_prepack as conv2d_winograd_prepack,
    conv2d_winograd_prepacked as conv2d_winograd_prepacked,
)
