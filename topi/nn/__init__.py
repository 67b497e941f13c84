"""Operators of neural networks."""

from __future__ import annotations

from ..lazy import check_on_use, lazily

_HOMES: dict[str, str] = {
    "attention": "attention",
    **dict.fromkeys(("integer_conv", "integer_matmul"), "integer_products"),
    "col2im": "columns",
    "deformable_conv2d_nchw": "deformable",
    "deformable_conv2d_nhwc": "deformable",
    "depthwise_conv2d_backward_input_nhwc": "depthwise_grad",
    "depthwise_conv2d_backward_weight_nhwc": "depthwise_grad",
    "correlation_nchw": "correlation",
    "global_pool_grad": "pool_grad",
    "im2col": "columns",
    "max_pool_with_places": "pool_places",
    "pool_grad": "pool_grad",
    **dict.fromkeys(("dequantize_groups", "quantize_groups", "weight_only_dense"), "weight_only"),
    **dict.fromkeys(
        (
            "dense_bf16 dense_int8 dequantize packed_dense_bf16 packed_dense_int8 prepack_bf16 prepack_int8 quantize "
            "quantize_channels quantized_dense requantize"
        ).split(),
        "quantized",
    ),
    **dict.fromkeys(
        (
            "batch_norm_inference bias_add elu flatten gelu hard_sigmoid hard_swish leaky_relu pad prelu relu relu6 "
            "scale_shift_nchw scale_shift_nhwc sigmoid silu softplus tanh"
        ).split(),
        "activation",
    ),
    **dict.fromkeys(
        (
            "conv1d conv1d_ncw conv1d_nwc conv1d_transpose_ncw conv2d_hwcn conv3d_ncdhw conv3d_ndhwc conv3d_transpose_ncdhw "
            "group_conv1d_ncw group_conv1d_nwc"
        ).split(),
        "any_conv",
    ),
    **dict.fromkeys("adaptive_pool1d adaptive_pool3d pool1d pool3d".split(), "any_pool"),
    **dict.fromkeys(
        (
            "batch_to_space_nd depth_to_space dilate fifo_buffer mirror_pad space_to_batch_nd space_to_depth upsampling"
        ).split(),
        "dilation",
    ),
    "adaptive_pool": "pool",
    "avg_pool2d": "pool",
    "global_avg_pool2d": "pool",
    "global_max_pool2d": "pool",
    "global_pool": "pool",
    "max_pool2d": "pool",
    "pool2d": "pool",
    "depthwise_conv2d": "depthwise",
    "depthwise_conv2d_nchw": "depthwise",
    "depthwise_conv2d_nhwc": "depthwise",
    "dense": "dense",
    "packed_dense": "dense",
    "prepack_dense": "dense",
    "conv2d": "conv2d",
    "conv2d_NCHWc": "conv2d",
    "conv2d_nchw": "conv2d",
    "conv2d_nhwc": "conv2d",
    "conv2d_prepack": "conv2d",
    "conv2d_prepacked": "conv2d",
    "conv2d_transpose": "conv2d",
    "conv2d_winograd": "winograd",
    "conv2d_winograd_prepack": "winograd",
    "conv2d_winograd_prepacked": "winograd",
    "group_conv2d_nchw": "conv2d",
    "group_conv2d_nhwc": "conv2d",
    "softmax": "softmax",
    "log_softmax": "softmax",
    "layer_norm": "norm",
    "instance_norm": "norm",
    "rms_norm": "norm",
    "l2_normalize": "norm",
    "lrn": "norm",
    "batch_norm": "norm_groups",
    "group_norm": "norm_groups",
    "nll_loss": "loss",
    "lstm": "lstm",
    "simulated_dequantize": "simulated",
    "simulated_quantize": "simulated",
    **dict.fromkeys(
        ("sparse_add sparse_conv2d sparse_dense sparse_dense_sp_lhs sparse_dense_sp_rhs sparse_transpose").split(),
        "sparse",
    ),
    **dict.fromkeys(
        ("binarize_pack binary_dense bitpack bitserial_conv2d_nchw bitserial_conv2d_nhwc bitserial_dense").split(),
        "bits",
    ),
}
"""Where each name lives: the module below this package."""

__getattr__, __dir__ = lazily(__name__, _HOMES, decorate=check_on_use("topi.nn"))
