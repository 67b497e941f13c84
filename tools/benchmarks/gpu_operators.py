"""Operators of topi at sizes that the emulator runs in a second, whose counts on GPUs are tabled (gpu_counts.py)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from tilewright import te, topi

__all__ = ["ALIKE", "CASES", "NOT_COUNTED", "Case"]

Case = Callable[[], Any]
"""Declares an operator on placeholders: its result, or several."""


def at(operator: Callable[..., Any], *operands: Sequence[Any], **options: Any) -> Case:
    """An operator of placeholders of these shapes; a dtype may stand behind the extents."""

    def declared() -> Any:
        inputs: list[Any] = []
        for number, operand in enumerate(operands):
            kind = operand[-1] if operand and isinstance(operand[-1], str) else "float32"
            inputs.append(
                te.placeholder([each for each in operand if not isinstance(each, str)], kind, name=f"input{number}")
            )
        return operator(*inputs, **options)

    return declared


def several(operator: Callable[..., Any]) -> Callable[..., Any]:
    return lambda *inputs, **options: operator(list(inputs), **options)


def _gather(data: Any, places: Any) -> Any:
    return topi.gather(data, 1, places)


def _adv_index(data: Any, *places: Any) -> Any:
    return topi.adv_index(data, places)


def _einsum(a: Any, b: Any) -> Any:
    return topi.einsum("bij,bjk->bik", a, b)


nn, image, vision = topi.nn, topi.image, topi.vision
ROWS, ODD, MAPS = (64, 1024), (64, 1001), (2, 32, 28, 28)
BYTES, LINE, VOLUME = (64, 1024, "int8"), (2, 16, 100), (1, 8, 8, 14, 14)

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

ALIKE: tuple[tuple[str, Any, tuple[Sequence[Any], ...]], ...] = (
    (
        "acos acosh asin asinh atan atanh abs ceil cos cosh exp10 exp2 expm1 floor identity isfinite isinf isnan log log10 log1p "
        "log2 nearbyint negative round rsqrt topi.sigmoid sign sin sinh sqrt square tan topi.tanh trunc",
        topi,
        (ROWS,),
    ),
    ("celu elu hard_sigmoid hard_swish mish relu6 selu sigmoid softplus softsign tanh flatten", nn, (ROWS,)),
    (
        "atan2 divide equal floor_divide floor_mod greater greater_equal hypot less less_equal log_add_exp maximum minimum mod "
        "multiply not_equal subtract trunc_divide trunc_mod",
        topi,
        (ROWS, ROWS),
    ),
    ("bitwise_and bitwise_or bitwise_xor left_shift right_shift", topi, ((*ROWS, "int32"), (*ROWS, "int32"))),
    ("logical_and logical_or logical_xor", topi, ((*ROWS, "bool"), (*ROWS, "bool"))),
)
"""Names of operators of one room that take operands alike; the room stands before a name that two rooms have."""

CASES: dict[str, Case] = {
    # element by element
    "add": at(topi.add, ROWS, ROWS),
    "add a row": at(topi.add, ROWS, (1024,)),
    "add a column": at(topi.add, ROWS, (64, 1)),
    "add, odd rows": at(topi.add, ODD, (1001,)),
    "add, float16": at(topi.add, (*ROWS, "float16"), (*ROWS, "float16")),
    "exp": at(topi.exp, ROWS),
    "erf": at(topi.erf, ROWS),
    "gelu": at(nn.gelu, ROWS),
    "relu": at(nn.relu, ROWS),
    "silu": at(nn.silu, ROWS),
    "power": at(topi.power, ROWS, ROWS),
    "where": at(topi.where, (*ROWS, "bool"), ROWS, ROWS),
    "cast to int8": at(topi.cast, ROWS, dtype="int8"),
    "clip": at(topi.clip, ROWS, a_min=-1.0, a_max=1.0),
    "batch_norm_inference": at(nn.batch_norm_inference, MAPS, (32,), (32,), (32,), (32,)),
    # moves
    "transpose": at(topi.transpose, (256, 320)),
    "transpose, odd": at(topi.transpose, (251, 317)),
    "transpose of float16": at(topi.transpose, (256, 320, "float16")),
    "transpose NCHW to NHWC": at(topi.transpose, MAPS, axes=(0, 2, 3, 1)),
    "reshape": at(topi.reshape, ROWS, newshape=(128, 512)),
    "concatenate": at(several(topi.concatenate), (64, 512), (64, 256), axis=1),
    "stack": at(several(topi.stack), ROWS, ROWS, axis=1),
    "strided_slice": at(topi.strided_slice, ROWS, begin=[0, 256], end=[64, 768]),
    "strided_slice by 2": at(topi.strided_slice, ROWS, begin=[0, 0], end=[64, 1024], strides=[1, 2]),
    "flip": at(topi.flip, ROWS, axis=1),
    "repeat": at(topi.repeat, ROWS, repeats=2, axis=0),
    "tile": at(topi.tile, ROWS, reps=(2, 1)),
    "pad": at(nn.pad, MAPS, pad_before=(0, 0, 1, 1), pad_after=(0, 0, 1, 1)),
    "take rows": at(topi.take, ROWS, (128, "int32"), axis=0),
    "gather": at(_gather, ROWS, (64, 256, "int32")),
    "one_hot": at(topi.one_hot, (256, "int32"), on_value=1.0, off_value=0.0, depth=100, axis=-1, dtype="float32"),
    "depth_to_space": at(nn.depth_to_space, MAPS, block_size=2),
    "space_to_depth": at(nn.space_to_depth, MAPS, block_size=2),
    "im2col": at(nn.im2col, (1, 8, 28, 28), kernel=(3, 3)),
    # reductions and rows
    "sum of rows": at(topi.sum, ROWS, axis=1),
    "sum of odd rows": at(topi.sum, ODD, axis=1),
    "sum of columns": at(topi.sum, (1024, 256), axis=0),
    "sum of all": at(topi.sum, (1 << 19,)),
    "mean of maps": at(topi.mean, MAPS, axis=[2, 3]),
    "max of rows": at(topi.max, ROWS, axis=1),
    "argmax": at(topi.argmax, ROWS, axis=1),
    "all": at(topi.all, (*ROWS, "bool"), axis=1),
    "softmax": at(nn.softmax, ROWS),
    "softmax, odd rows": at(nn.softmax, ODD),
    "softmax of columns": at(nn.softmax, (1024, 256), axis=0),
    "softmax of long rows": at(nn.softmax, (2, 40000)),
    "softmax, float16": at(nn.softmax, (*ROWS, "float16")),
    "log_softmax": at(nn.log_softmax, ROWS),
    "layer_norm": at(nn.layer_norm, ROWS, (1024,), (1024,), axis=[1]),
    "rms_norm": at(nn.rms_norm, ROWS, (1024,)),
    "instance_norm": at(nn.instance_norm, MAPS, (32,), (32,)),
    "group_norm": at(nn.group_norm, MAPS, (32,), (32,), num_groups=4),
    "l2_normalize": at(nn.l2_normalize, ROWS, eps=1e-6, axis=[1]),
    # scans and orders
    "cumsum of columns": at(topi.cumsum, (64, 1024), axis=0),
    "cumsum of rows": at(topi.cumsum, (64, 256), axis=1),
    "sort": at(topi.sort, (64, 128)),
    "argsort": at(topi.argsort, (64, 128)),
    "topk": at(topi.topk, (64, 256), k=5),
    # products
    "matmul": at(topi.matmul, (256, 256), (256, 256)),
    "matmul, odd": at(topi.matmul, (127, 129), (129, 131)),
    "matmul, A B'": at(topi.matmul, (256, 256), (256, 256), transpose_b=True),
    "matmul, float16": at(topi.matmul, (128, 128, "float16"), (128, 128, "float16"), out_dtype="float32"),
    "dense": at(nn.dense, (64, 256), (128, 256), (128,)),
    "dense, one row": at(nn.dense, (1, 1024), (256, 1024)),
    "batch_matmul": at(topi.batch_matmul, (4, 64, 64), (4, 64, 64)),
    "attention": at(nn.attention, (2, 64, 32), (2, 64, 32), (2, 64, 32)),
    "attention, causal": at(nn.attention, (2, 64, 32), (2, 64, 32), (2, 64, 32), causal=True),
    "conv2d 3x3": at(nn.conv2d, (1, 16, 28, 28), (32, 16, 3, 3), stride=1, padding=1),
    "conv2d 1x1": at(nn.conv2d, (1, 64, 28, 28), (64, 64, 1, 1), stride=1, padding=0),
    "depthwise_conv2d": at(nn.depthwise_conv2d, MAPS, (32, 1, 3, 3), stride=1, padding=1),
    # windows and images
    "max_pool2d 2x2": at(nn.max_pool2d, MAPS, kernel=(2, 2), stride=(2, 2), padding=(0, 0, 0, 0)),
    "max_pool2d 3x3": at(nn.max_pool2d, MAPS, kernel=(3, 3), stride=(2, 2), padding=(1, 1, 1, 1)),
    "avg_pool2d 2x2": at(nn.avg_pool2d, MAPS, kernel=(2, 2), stride=(2, 2), padding=(0, 0, 0, 0)),
    "global_avg_pool2d": at(nn.global_avg_pool2d, MAPS),
    "lrn": at(nn.lrn, MAPS, size=5, axis=1, alpha=1e-4, beta=0.75, bias=2.0),
    "upsampling": at(nn.upsampling, MAPS, scale_h=2, scale_w=2),
    "resize": at(image.resize, MAPS, size=(56, 56)),
    "box_blur": at(image.box_blur, (128, 128)),
    "gaussian_blur": at(image.gaussian_blur, (128, 128)),
    "grid_sample": at(image.grid_sample, (1, 8, 28, 28), (1, 2, 28, 28)),
    "roi_align": at(vision.roi_align, (1, 8, 28, 28), (4, 5), pooled_size=7, spatial_scale=1.0),
    # the rest
    **{
        name: at(getattr(room, name.rpartition(".")[2]), *operands)
        for names, room, operands in ALIKE
        for name in names.split()
    },
    "bitwise_not": at(topi.bitwise_not, (*ROWS, "int32")),
    "ceil_log2": at(topi.ceil_log2, (*ROWS, "int32")),
    "logical_not": at(topi.logical_not, (*ROWS, "bool")),
    "reinterpret": at(topi.reinterpret, ROWS, dtype="int32"),
    "elemwise_sum": at(several(topi.elemwise_sum), ROWS, ROWS, ROWS),
    "leaky_relu": at(nn.leaky_relu, ROWS, alpha=0.1),
    "thresholded_relu": at(nn.thresholded_relu, ROWS, alpha=1.0),
    "shrink": at(nn.shrink, ROWS, lambd=0.5, bias=0.1),
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
