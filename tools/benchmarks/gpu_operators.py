"""The rest of topi's operators, each at one size that the emulator runs in a second (gpu_counts.py)."""

from __future__ import annotations

from typing import Any

from tilewright import te, topi

from .gpu_counted import MAPS, ROWS, Case, at, several

__all__ = ["NOT_COUNTED", "OTHERS"]

nn, image, vision = topi.nn, topi.image, topi.vision
BYTES = (64, 1024, "int8")
LINE, VOLUME = (2, 16, 100), (1, 8, 8, 14, 14)


def _adv_index(data: Any, *places: Any) -> Any:
    return topi.adv_index(data, places)


def _einsum(a: Any, b: Any) -> Any:
    return topi.einsum("bij,bjk->bik", a, b)


NOT_COUNTED = {
    "prepack_dense packed_dense prepack_bf16 dense_bf16 packed_dense_bf16 prepack_int8 dense_int8 packed_dense_int8 "
    "quantized_dense quantize_channels conv2d_prepack conv2d_prepacked conv2d_winograd_prepack conv2d_winograd_prepacked "
    "conv2d_NCHWc quantize_groups dequantize_groups weight_only_dense": "weights packed for the registers of CPUs",
    "det unique multibox_detection multibox_transform_loc non_max_suppression proposal get_valid_counts argwhere sparse_reshape "
    "sparse_to_dense": "one thread walks over what data decide",
    "schedule": "no operator",
    "shape ndarray_size full zeros full_like zeros_like ones ones_like arange": "a constant for every element",
}
"""The names of operators that have no row, and why."""

_UNARY = {
    "acos": topi.acos,
    "acosh": topi.acosh,
    "asin": topi.asin,
    "asinh": topi.asinh,
    "atan": topi.atan,
    "atanh": topi.atanh,
    "abs": topi.abs,
    "ceil": topi.ceil,
    "cos": topi.cos,
    "cosh": topi.cosh,
    "exp10": topi.exp10,
    "exp2": topi.exp2,
    "expm1": topi.expm1,
    "floor": topi.floor,
    "identity": topi.identity,
    "isfinite": topi.isfinite,
    "isinf": topi.isinf,
    "isnan": topi.isnan,
    "log": topi.log,
    "log10": topi.log10,
    "log1p": topi.log1p,
    "log2": topi.log2,
    "nearbyint": topi.nearbyint,
    "negative": topi.negative,
    "round": topi.round,
    "rsqrt": topi.rsqrt,
    "topi.sigmoid": topi.sigmoid,
    "sign": topi.sign,
    "sin": topi.sin,
    "sinh": topi.sinh,
    "sqrt": topi.sqrt,
    "square": topi.square,
    "tan": topi.tan,
    "topi.tanh": topi.tanh,
    "trunc": topi.trunc,
    "elu": nn.elu,
    "hard_sigmoid": nn.hard_sigmoid,
    "hard_swish": nn.hard_swish,
    "relu6": nn.relu6,
    "sigmoid": nn.sigmoid,
    "softplus": nn.softplus,
    "tanh": nn.tanh,
    "flatten": nn.flatten,
}
_BINARY = {
    "atan2": topi.atan2,
    "divide": topi.divide,
    "equal": topi.equal,
    "floor_divide": topi.floor_divide,
    "floor_mod": topi.floor_mod,
    "greater": topi.greater,
    "greater_equal": topi.greater_equal,
    "hypot": topi.hypot,
    "less": topi.less,
    "less_equal": topi.less_equal,
    "log_add_exp": topi.log_add_exp,
    "maximum": topi.maximum,
    "minimum": topi.minimum,
    "mod": topi.mod,
    "multiply": topi.multiply,
    "not_equal": topi.not_equal,
    "subtract": topi.subtract,
    "trunc_divide": topi.trunc_divide,
    "trunc_mod": topi.trunc_mod,
}
_OF_INTEGERS = {
    "bitwise_and": topi.bitwise_and,
    "bitwise_or": topi.bitwise_or,
    "bitwise_xor": topi.bitwise_xor,
    "left_shift": topi.left_shift,
    "right_shift": topi.right_shift,
}
_OF_BOOLS = {"logical_and": topi.logical_and, "logical_or": topi.logical_or, "logical_xor": topi.logical_xor}

OTHERS: dict[str, Case] = {
    **{name: at(operator, ROWS) for name, operator in _UNARY.items()},
    **{name: at(operator, ROWS, ROWS) for name, operator in _BINARY.items()},
    **{name: at(operator, (*ROWS, "int32"), (*ROWS, "int32")) for name, operator in _OF_INTEGERS.items()},
    **{name: at(operator, (*ROWS, "bool"), (*ROWS, "bool")) for name, operator in _OF_BOOLS.items()},
    "bitwise_not": at(topi.bitwise_not, (*ROWS, "int32")),
    "ceil_log2": at(topi.ceil_log2, (*ROWS, "int32")),
    "logical_not": at(topi.logical_not, (*ROWS, "bool")),
    "reinterpret": at(topi.reinterpret, ROWS, dtype="int32"),
    "elemwise_sum": at(several(topi.elemwise_sum), ROWS, ROWS, ROWS),
    "leaky_relu": at(nn.leaky_relu, ROWS, alpha=0.1),
    "prelu": at(nn.prelu, MAPS, (32,)),
    "bias_add": at(nn.bias_add, MAPS, (32,)),
    "scale_shift_nchw": at(nn.scale_shift_nchw, MAPS, (32,), (32,)),
    "scale_shift_nhwc": at(nn.scale_shift_nhwc, (2, 28, 28, 32), (32,), (32,)),
    "batch_norm": at(nn.batch_norm, MAPS, (32,), (32,), (32,), (32,), training=True),
    "dequantize": at(nn.dequantize, BYTES, scale=0.1),
    "quantize": at(nn.quantize, ROWS, scale=0.1),
    "requantize": at(nn.requantize, (*ROWS, "int32"), scale=0.1),
    # bits, states and what is sparse
    "binarize_pack": at(nn.binarize_pack, (256, 1024)),
    "binary_dense": at(nn.binary_dense, (128, 32, "uint32"), (256, 32, "uint32")),
    "bitpack": at(nn.bitpack, (256, 1024, "int32"), bits=2, pack_axis=1, bit_axis=1),
    "bitserial_conv2d_nchw": at(
        nn.bitserial_conv2d_nchw,
        (1, 64, 14, 14, "uint32"),
        (64, 64, 3, 3, "uint32"),
        stride=1,
        padding=1,
        activation_bits=2,
        weight_bits=1,
    ),
    "bitserial_conv2d_nhwc": at(
        nn.bitserial_conv2d_nhwc,
        (1, 14, 14, 64, "uint32"),
        (3, 3, 64, 64, "uint32"),
        stride=1,
        padding=1,
        activation_bits=2,
        weight_bits=1,
    ),
    "bitserial_dense": at(nn.bitserial_dense, (64, 512, "uint32"), (64, 512, "uint32"), data_bits=2, weight_bits=1),
    "deformable_conv2d_nhwc": at(
        nn.deformable_conv2d_nhwc, (1, 14, 14, 16), (1, 14, 14, 18), (3, 3, 16, 32), padding=1
    ),
    "depthwise_conv2d_backward_input_nhwc": at(
        nn.depthwise_conv2d_backward_input_nhwc,
        (3, 3, 32, 1),
        (1, 28, 28, 32),
        oshape=(1, 28, 28, 32),
        ishape=(1, 28, 28, 32),
        stride=1,
        padding=1,
    ),
    "depthwise_conv2d_backward_weight_nhwc": at(
        nn.depthwise_conv2d_backward_weight_nhwc,
        (1, 28, 28, 32),
        (1, 28, 28, 32),
        oshape=(1, 28, 28, 32),
        fshape=(3, 3, 32, 1),
        stride=1,
        padding=1,
    ),
    "dilation2d_nchw": at(topi.image.dilation2d_nchw, MAPS, (32, 3, 3), stride=1, padding=1),
    "dilation2d_nhwc": at(topi.image.dilation2d_nhwc, (2, 28, 28, 32), (3, 3, 32), stride=1, padding=1),
    "fifo_buffer": at(nn.fifo_buffer, (4, 1024), ROWS, axis=0),
    "lstm": at(nn.lstm, (8, 4, 64), (256, 64), (256, 64)),
    "simulated_quantize": at(
        nn.simulated_quantize,
        ROWS,
        out_dtype=1,
        output_scale=te.placeholder((1,), name="scale"),
        output_zero_point=te.placeholder((1,), "int32", name="zero"),
    ),
    "simulated_dequantize": at(
        nn.simulated_dequantize,
        ROWS,
        in_dtype=1,
        input_scale=te.placeholder((1,), name="scale"),
        input_zero_point=te.placeholder((1,), "int32", name="zero"),
    ),
    "sparse_add": at(nn.sparse_add, (64, 64), (500,), (500, "int32"), (65, "int32")),
    "sparse_conv2d": at(nn.sparse_conv2d, (1, 14, 14, 64), (500,), (500, "int32"), (65, "int32")),
    "sparse_dense": at(nn.sparse_dense, (64, 64), (500,), (500, "int32"), (65, "int32")),
    "sparse_dense_sp_lhs": at(nn.sparse_dense_sp_lhs, (500,), (500, "int32"), (65, "int32"), (64, 64)),
    "sparse_dense_sp_rhs": at(nn.sparse_dense_sp_rhs, (64, 64), (500,), (500, "int32"), (65, "int32")),
    "sparse_transpose": at(nn.sparse_transpose, (500,), (500, "int32"), (65, "int32")),
    # moves
    "adv_index": at(_adv_index, (64, 32, 16), (48, "int32"), (48, "int32")),
    "broadcast_to": at(topi.broadcast_to, (1024,), shape=ROWS),
    "dilate": at(nn.dilate, MAPS, strides=(1, 1, 2, 2)),
    "expand_dims": at(topi.expand_dims, ROWS, axis=1),
    "expand_like": at(topi.expand_like, (1024,), ROWS, axis=[0]),
    "gather_nd": at(topi.gather_nd, ROWS, (2, 500, "int32")),
    "invert_permutation": at(topi.invert_permutation, (500, "int32")),
    "layout_transform": at(topi.layout_transform, MAPS, src_layout="NCHW", dst_layout="NHWC"),
    "matrix_set_diag": at(topi.matrix_set_diag, (4, 64, 64), (4, 64)),
    "meshgrid": at(several(topi.meshgrid), (64,), (96,)),
    "mirror_pad": at(nn.mirror_pad, MAPS, pad_before=(0, 0, 1, 1), pad_after=(0, 0, 1, 1)),
    "reverse_sequence": at(topi.reverse_sequence, ROWS, (64, "int32")),
    "scatter_elements": at(topi.scatter_elements, ROWS, (16, 1024, "int32"), (16, 1024)),
    "scatter_elements, added": at(topi.scatter_elements, ROWS, (16, 1024, "int32"), (16, 1024), reduction="add"),
    "scatter_nd": at(topi.scatter_nd, ROWS, (1, 16, "int32"), (16, 1024)),
    "sequence_mask": at(topi.sequence_mask, ROWS, (1024, "int32")),
    "sliding_window": at(topi.sliding_window, ROWS, axis=1, window_shape=[8], strides=[4]),
    "split": at(topi.split, ROWS, indices_or_sections=2, axis=1),
    "squeeze": at(topi.squeeze, (64, 1, 1024)),
    "strided_set": at(topi.strided_set, ROWS, (64, 512), begin=[0, 0], end=[64, 1024], strides=[1, 2]),
    "trilu": at(topi.trilu, (256, 256), k=0, upper=True),
    "unravel_index": at(topi.unravel_index, (500, "int32"), shape=(64, 1024)),
    "space_to_batch_nd": at(
        nn.space_to_batch_nd, (2, 28, 28, 32), block_shape=[2, 2], pad_before=[0, 0], pad_after=[0, 0]
    ),
    "batch_to_space_nd": at(
        nn.batch_to_space_nd, (8, 14, 14, 32), block_shape=[2, 2], crop_begin_list=[0, 0], crop_end_list=[0, 0]
    ),
    "col2im": at(nn.col2im, (1, 72, 784), image=(28, 28), kernel=(3, 3), padding=1),
    "searchsorted": at(topi.searchsorted, (1024,), (500,)),
    # reductions and scans
    "min": at(topi.min, ROWS, axis=1),
    "prod": at(topi.prod, ROWS, axis=1),
    "any": at(topi.any, (*ROWS, "bool"), axis=1),
    "argmin": at(topi.argmin, ROWS, axis=1),
    "collapse_sum": at(topi.collapse_sum, ROWS, target_shape=(1, 1024)),
    "nll_loss": at(nn.nll_loss, (256, 10), (256, "int32"), (10,)),
    "cumprod": at(topi.cumprod, (64, 256), axis=1),
    "dft": at(topi.dft, (64, 64), (64, 64)),
    "stft": lambda: topi.stft(te.placeholder((4, 512), name="data"), 64, 16, 64, te.placeholder((64,), name="window")),
    "fixed_point_multiply": lambda: topi.fixed_point_multiply(te.placeholder((64, 512), "int32"), 1 << 30, -3),
    # products
    "einsum": at(_einsum, (4, 64, 64), (4, 64, 64)),
    "tensordot": at(topi.tensordot, (64, 8, 16), (8, 16, 64), axes=2),
    "integer_matmul": at(nn.integer_matmul, (64, 128, "uint8"), (128, 64, "int8")),
    "integer_conv": at(nn.integer_conv, (1, 14, 14, 16, "uint8"), (16, 16, 3, 3, "int8"), padding=1),
    "conv1d": at(nn.conv1d, LINE, (32, 16, 3)),
    "conv1d_ncw": at(nn.conv1d_ncw, LINE, (32, 16, 3)),
    "conv1d_nwc": at(nn.conv1d_nwc, (2, 100, 16), (3, 16, 32)),
    "conv1d_transpose_ncw": at(nn.conv1d_transpose_ncw, LINE, (16, 32, 3), stride=2, padding=1),
    "group_conv1d_ncw": at(nn.group_conv1d_ncw, LINE, (32, 4, 3), groups=4),
    "group_conv1d_nwc": at(nn.group_conv1d_nwc, (2, 100, 16), (3, 4, 32), groups=4),
    "conv2d_nchw": at(nn.conv2d_nchw, (1, 16, 28, 28), (32, 16, 3, 3), stride=2, padding=1),
    "conv2d_nhwc": at(nn.conv2d_nhwc, (1, 28, 28, 16), (3, 3, 16, 32), stride=1, padding=1),
    "conv2d_hwcn": at(nn.conv2d_hwcn, (14, 14, 16, 4), (3, 3, 16, 32), stride=1, padding=1),
    "conv2d_transpose": at(nn.conv2d_transpose, (1, 16, 14, 14), (16, 16, 4, 4), stride=2, padding=1),
    "conv2d_winograd": at(nn.conv2d_winograd, (1, 16, 28, 28), (32, 16, 3, 3)),
    "group_conv2d_nchw": at(
        nn.group_conv2d_nchw, (1, 16, 28, 28), (32, 4, 3, 3), stride=1, padding=1, dilation=1, groups=4
    ),
    "group_conv2d_nhwc": at(
        nn.group_conv2d_nhwc, (1, 28, 28, 16), (3, 3, 4, 32), stride=1, padding=1, dilation=1, groups=4
    ),
    "depthwise_conv2d_nchw": at(nn.depthwise_conv2d_nchw, MAPS, (32, 1, 3, 3), stride=2, padding=1),
    "depthwise_conv2d_nhwc": at(nn.depthwise_conv2d_nhwc, (2, 28, 28, 32), (3, 3, 32, 1), stride=1, padding=1),
    "conv3d_ncdhw": at(nn.conv3d_ncdhw, VOLUME, (8, 8, 3, 3, 3), stride=1, padding=1),
    "conv3d_ndhwc": at(nn.conv3d_ndhwc, (1, 8, 14, 14, 8), (3, 3, 3, 8, 8), stride=1, padding=1),
    "conv3d_transpose_ncdhw": at(nn.conv3d_transpose_ncdhw, (1, 8, 4, 7, 7), (8, 8, 2, 2, 2), strides=2, padding=0),
    "correlation_nchw": at(
        nn.correlation_nchw,
        (1, 8, 16, 16),
        (1, 8, 16, 16),
        kernel_size=1,
        max_displacement=2,
        stride1=1,
        stride2=1,
        padding=2,
    ),
    "deformable_conv2d_nchw": at(nn.deformable_conv2d_nchw, (1, 8, 14, 14), (1, 18, 14, 14), (8, 8, 3, 3), padding=1),
    # windows and images
    "max_pool_with_places": at(nn.max_pool_with_places, MAPS, kernel=2, stride=2),
    "pool1d": at(nn.pool1d, LINE, kernel=2, stride=2, dilation=1, padding=0, pool_type="max"),
    "pool2d": at(nn.pool2d, MAPS, kernel=3, stride=1, dilation=1, padding=1, pool_type="avg"),
    "pool3d": at(nn.pool3d, VOLUME, kernel=2, stride=2, dilation=1, padding=0, pool_type="max"),
    "pool_grad": at(nn.pool_grad, (2, 32, 14, 14), MAPS, kernel=2, stride=2, padding=0, pool_type="avg"),
    "adaptive_pool": at(nn.adaptive_pool, MAPS, output_size=7, pool_type="avg"),
    "adaptive_pool1d": at(nn.adaptive_pool1d, LINE, output_size=10, pool_type="avg"),
    "adaptive_pool3d": at(nn.adaptive_pool3d, VOLUME, output_size=2, pool_type="max"),
    "global_pool": at(nn.global_pool, MAPS, pool_type="max"),
    "global_max_pool2d": at(nn.global_max_pool2d, MAPS),
    "global_pool_grad": at(nn.global_pool_grad, (2, 32, 1, 1), MAPS, pool_type="avg"),
    "affine_grid": at(image.affine_grid, (4, 2, 3), target_shape=(64, 64)),
    "bilateral_slice": at(image.bilateral_slice, (8, 8, 8, 3, 4), (64, 64), (3, 64, 64)),
    "crop_and_resize": at(image.crop_and_resize, (2, 8, 28, 28), (4, 4), (4, "int32"), crop_size=(14, 14)),
    "resize1d": at(image.resize1d, LINE, size=200),
    "resize2d": at(image.resize2d, MAPS, roi=None, size=(56, 56)),
    "resize3d": at(image.resize3d, VOLUME, size=(8, 28, 28)),
    "unsharp_mask": at(image.unsharp_mask, (128, 128)),
    "multibox_prior": at(vision.multibox_prior, (1, 8, 32, 32), sizes=(0.5, 0.25), ratios=(1, 2)),
    "roi_pool": at(vision.roi_pool, (1, 8, 28, 28), (4, 5), pooled_size=7, spatial_scale=1.0),
}
"""By what is printed."""
