"""A legal call of every operator: what tests change one argument of. Of those that have rows it is the first of their samples."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import ml_dtypes  # noqa: F401  (numpy's bfloat16)
import numpy as np
from tilewright import te, topi
from tilewright.topi.row import Operator, load_rows

__all__ = ["CALLED", "arguments_of", "operator_named"]

_ROWS = {row.face: row for row in load_rows().values() if row.face}

CALLS: dict[str, str] = {
    "topi.adv_index": 'T(5, dtype="int32"), [T(4, dtype="uint16")]',
    "topi.arange": "5",
    "topi.argmax": "T(1, 1), 0, True",
    "topi.argmin": "T(1, 1), 0, True",
    "topi.argsort": 'T(4, 100), dtype="int32"',
    "topi.argwhere": "(7,), T(9)",
    "topi.batch_matmul": "T(2, 3, 4), T(2, 5, 4)",
    "topi.collapse_sum": "T(3, 1, 4), (1, 4)",
    "topi.dft": "T(4, 8), T(4, 8)",
    "topi.einsum": '"ii->i", T(3, 3)',
    "topi.elemwise_sum": "(T(4, 9), T(4, 9), T(4, 9))",
    "topi.expand_dims": "T(4, 6, 5), 0",
    "topi.expand_like": "T(4), T(3, 1, 4), (0, 1)",
    "topi.fixed_point_multiply": 'T(9, dtype="int32"), 1395864371, 2',
    "topi.full": '(3, 5), "int16", 7',
    "topi.full_like": "T(3, 4), 2",
    "topi.gather": 'T(4, 3), 0, T(2, 3, dtype="int32")',
    "topi.gather_nd": 'T(4, 3), T(2, 2, dtype="int32"), 0',
    "topi.invert_permutation": 'T(4, dtype="int64")',
    "topi.layout_transform": 'T(2, 13, 3, 5), "NCHW", "NHWC"',
    "topi.matmul": "T(1, 1), T(1, 1), True, True",
    "topi.matrix_set_diag": "T(2, 3, 5), T(2, 3), 1",
    "topi.meshgrid": '[T(3), T(4)], "ij"',
    "topi.mod": "T(0, 3), T(3)",
    "topi.ndarray_size": 'T(3, 1, 4), "int64"',
    "topi.one_hot": 'T(2, 2, dtype="int32"), 1, 0, 4, -1, "int32"',
    "topi.ones": "(3, 4)",
    "topi.ones_like": "T(3, 0)",
    "topi.repeat": "T(6, 8), 3, 1",
    "topi.scatter_nd": 'T(1, dtype="int32"), T(1, 8, dtype="int64"), T(8, dtype="int32"), "max"',
    "topi.searchsorted": "T(60), T(60), False",
    "topi.sequence_mask": 'T(5, 3), T(3, dtype="int32"), 7',
    "topi.shape": "T(3, 1, 4)",
    "topi.sliding_window": "T(3, 1, 4), 1, (1, 2), (1, 2)",
    "topi.sort": "T(3, 5), 0",
    "topi.sparse_reshape": 'T(3, 3, dtype="int64"), T(3, dtype="int64"), T(2, dtype="int64")',
    "topi.sparse_to_dense": 'T(2, dtype="int64"), (7,), T(2), T()',
    "topi.split": "T(6, 8), 2, 0",
    "topi.squeeze": "T(1, 5, 1)",
    "topi.stft": "T(2, 25), 8, 3, 8, T(8), True",
    "topi.strided_set": "T(6, 2), T(6, 2), [0], [6], [1]",
    "topi.strided_slice": "T(8, 9), [1], [5], None",
    "topi.take": 'T(15, 32), T(dtype="int8"), 1',
    "topi.tensordot": "T(5), T(2), 0",
    "topi.topk": 'T(2, 1), 1, dtype="int32"',
    "topi.unique": "T(1), True, True",
    "topi.unravel_index": 'T(3, dtype="int32"), (3, 4)',
    "topi.zeros": '(), "float64"',
    "topi.zeros_like": "T(3)",
    "topi.nn.adaptive_pool": 'T(2, 3, 7, 9), 1, "max"',
    "topi.nn.adaptive_pool1d": 'T(1, 2, 7), 3, "avg"',
    "topi.nn.adaptive_pool3d": 'T(1, 2, 5, 4, 7), 1, "max"',
    "topi.nn.attention": "T(1, 5, 1), T(1, 1, 1), T(1, 1, 1), None, True",
    "topi.nn.avg_pool2d": "T(2, 3, 17, 20), 3, 2, 1, True, True",
    "topi.nn.batch_norm": "T(3, 6, 5), T(6), T(6), T(6), T(6), 1",
    "topi.nn.batch_norm_inference": "T(2, 5, 3, 4), T(5), T(5), T(5), T(5)",
    "topi.nn.batch_to_space_nd": "T(12, 2, 2, 1), (2, 3), (1, 0), (0, 2)",
    "topi.nn.bias_add": "T(2, 5, 3, 4), T(5)",
    "topi.nn.binarize_pack": "T(3, 64)",
    "topi.nn.binary_dense": 'T(3, 2, dtype="uint32"), T(5, 2, dtype="uint32")',
    "topi.nn.bitpack": 'T(4, 32, dtype="int32"), 2, 1, 1',
    "topi.nn.bitserial_conv2d_nchw": 'T(1, 32, 7, 6, dtype="int32"), T(5, 32, 3, 3, dtype="int32"), 1, 0, 2, 1, "uint8", "int32", True',
    "topi.nn.bitserial_conv2d_nhwc": 'T(1, 7, 6, 32, dtype="int32"), T(3, 3, 32, 5, dtype="int32"), 1, 0, 2, 1, "uint8", "int32", True',
    "topi.nn.bitserial_dense": 'T(3, 64, dtype="int32"), T(5, 64, dtype="int32"), 2, 3, "uint8", "int16", True',
    "topi.nn.col2im": "T(1, 8, 6), [3, 4], (2, 2), (1, 1), (0, 0, 0, 0), (1, 1)",
    "topi.nn.conv1d": "T(2, 3, 1), T(4, 3, 1), 1, 0, 1",
    "topi.nn.conv1d_ncw": "T(1, 4, 9), T(2, 4, 3)",
    "topi.nn.conv1d_nwc": "T(2, 9, 3), T(3, 3, 4), 1, 0",
    "topi.nn.conv1d_transpose_ncw": 'T(2, 3, 7), T(3, 4, 3), 2, 1, "float32", 0',
    "topi.nn.conv2d": "T(1, 1, 1, 1), T(1, 1, 1, 1), (1, 1), (0, 0, 0, 0), (1, 1), 1",
    "topi.nn.conv2d_NCHWc": "T(1, 2, 5, 7, 4), T(3, 2, 3, 1, 4, 8), (2, 1), (1, 0, 0, 2), (1, 1)",
    "topi.nn.conv2d_hwcn": 'T(7, 6, 3, 2), T(3, 3, 3, 4), (2, 1), (1, 1, 1, 1), 1, "float32"',
    "topi.nn.conv2d_nchw": "T(1, 4, 6, 6), T(8, 4, 3, 3), 1, 1",
    "topi.nn.conv2d_nhwc": "T(1, 8, 8, 4), T(3, 3, 4, 2), 1, 0",
    "topi.nn.conv2d_prepack": 'np.ones((9, 5, 1, 5), "float32"), 1',
    "topi.nn.conv2d_prepacked": "T(1, 1, 1, 1), T(1, 1, 1, 1, 16), 1, (1, 1), (0, 0, 0, 0), (1, 1), 1",
    "topi.nn.conv2d_transpose": "T(1, 2, 5, 6), T(2, 3, 3, 2), 2, 1, (1, 0)",
    "topi.nn.conv2d_winograd": "T(2, 3, 15, 13), T(20, 3, 3, 3), (1, 1, 1, 1), 2",
    "topi.nn.conv2d_winograd_prepack": 'np.ones((1, 1, 3, 3), "float32"), 2',
    "topi.nn.conv2d_winograd_prepacked": "T(1, 16, 12, 12), T(4, 4, 1, 16, 16), 16",
    "topi.nn.conv3d_ncdhw": "T(1, 6, 3, 4, 5), T(4, 3, 2, 2, 3), 1, 0, 1, 2",
    "topi.nn.conv3d_ndhwc": "T(1, 3, 4, 5, 6), T(2, 2, 3, 3, 4), 1, 0, 1, 2",
    "topi.nn.conv3d_transpose_ncdhw": "T(1, 2, 3, 3, 3), T(2, 3, 2, 2, 2), 1, 0",
    "topi.nn.correlation_nchw": "T(1, 3, 6, 7), T(1, 3, 6, 7), 3, 2, 1, 2, 2",
    "topi.nn.deformable_conv2d_nchw": "T(1, 3, 5, 4), T(1, 2, 5, 4), T(2, 3, 1, 1), partial=True",
    "topi.nn.deformable_conv2d_nhwc": "T(1, 5, 4, 3), T(1, 5, 4, 2), T(1, 1, 3, 2), partial=True",
    "topi.nn.dense": "T(1, 90), T(75, 90), T(75)",
    "topi.nn.dense_bf16": 'T(1, 1, dtype="bfloat16"), T(1, 1, dtype="bfloat16")',
    "topi.nn.dense_int8": 'T(5, 70, dtype="int8"), T(19, 70, dtype="int8")',
    "topi.nn.depthwise_conv2d": 'T(1, 4, 9, 9), T(8, 1, 3, 3), 1, "SAME"',
    "topi.nn.depthwise_conv2d_backward_input_nhwc": "T(3, 2, 3, 2), T(2, 7, 5, 6), (2, 7, 5, 6), (2, 7, 6, 3), 1, (1, 0)",
    "topi.nn.depthwise_conv2d_backward_weight_nhwc": "T(2, 7, 6, 3), T(2, 7, 5, 6), (2, 7, 5, 6), (3, 2, 3, 2), 1, (1, 0)",
    "topi.nn.depthwise_conv2d_nchw": "T(1, 4, 6, 5), T(4, 2, 3, 3), (1, 2), 0, 1, None",
    "topi.nn.depthwise_conv2d_nhwc": "T(1, 8, 8, 4), T(3, 3, 4, 1), 1, 0",
    "topi.nn.dequantize": 'T(9, 21, dtype="int8"), 0.05, 3',
    "topi.nn.dequantize_groups": 'np.ones((3, 2, 4, 16, 4), "uint8"), np.ones((3, 2, 16), "float16"), 33, 64',
    "topi.nn.dilate": "T(3, 4), (2, 3), 5.0",
    "topi.nn.fifo_buffer": "T(4, 2, 3), T(4, 5, 3), 1",
    "topi.nn.flatten": "T(2, 5, 3, 4)",
    "topi.nn.global_avg_pool2d": 'T(1, 5, 1, 1), "NCHW"',
    "topi.nn.global_max_pool2d": 'T(3, 4, 33, 19), "NCHW"',
    "topi.nn.global_pool": 'T(1, 4, 5, 5), "max"',
    "topi.nn.global_pool_grad": 'T(1, 4, 1, 1), T(1, 4, 5, 5), "avg"',
    "topi.nn.group_conv1d_ncw": "T(1, 6, 5), T(4, 3, 3), 1, 0, 1, 2",
    "topi.nn.group_conv1d_nwc": "T(1, 9, 4), T(3, 2, 2), 1, 0, 1, 2",
    "topi.nn.group_conv2d_nchw": "T(1, 4, 6, 6), T(8, 4, 3, 3), 1, 1, 1, 1",
    "topi.nn.group_conv2d_nhwc": "T(1, 8, 8, 4), T(3, 3, 2, 4), 1, 0, 1, 2",
    "topi.nn.im2col": "T(1, 2, 9), (3,), (1,), (0, 0), (1,)",
    "topi.nn.instance_norm": "T(2, 3, 9, 11), T(3), T(3)",
    "topi.nn.integer_conv": 'T(1, 5, 7, 6, dtype="uint8"), T(6, 1, 3, 3, dtype="int8"), padding=1, groups=6',
    "topi.nn.integer_matmul": 'T(2, 3, 5, 67, dtype="uint8"), T(2, 3, 67, 17, dtype="int8"), T(dtype="uint8")',
    "topi.nn.l2_normalize": "T(13, 21), 1e-12",
    "topi.nn.layer_norm": "T(1, 1), T(1), T(1), 1",
    "topi.nn.max_pool2d": 'T(9, 3, 12), 2, layout="HCW"',
    "topi.nn.max_pool_with_places": "T(1, 2, 7, 8), (3, 2), (2, 3), (1, 1), (1, 0, 1, 1)",
    "topi.nn.mirror_pad": 'T(3, 5), (2, 0), (1, 4), "REFLECT"',
    "topi.nn.nll_loss": 'T(4, 3), T(4, dtype="int32"), T(3), "sum"',
    "topi.nn.packed_dense": "T(1, 50), T(1, 50, 24), 1, T(1)",
    "topi.nn.packed_dense_bf16": 'T(8, 64, dtype="bfloat16"), T(4, 32, 16, 2, dtype="bfloat16"), 64',
    "topi.nn.packed_dense_int8": 'T(1, 1, dtype="int8"), T(1, 1, 16, 4, dtype="int8"), T(1, dtype="int32")',
    "topi.nn.pad": "T(6, 8), (2, 1)",
    "topi.nn.pool1d": 'T(1, 2, 7), 3, 2, 2, (1, 1), "max"',
    "topi.nn.pool2d": 'T(1, 2, 6, 6), [2, 2], [1, 1], [1, 1], [1, 1, 1, 1], "max"',
    "topi.nn.pool3d": 'T(1, 2, 5, 4, 7), (2, 3, 2), (2, 1, 3), 1, 0, "max"',
    "topi.nn.pool_grad": 'T(1, 1, 2, 2), T(1, 1, 5, 4), 2, 2, 0, "max"',
    "topi.nn.prelu": "T(2, 5, 3, 4), T(5)",
    "topi.nn.prepack_bf16": 'np.ones((64, 64), "bfloat16")',
    "topi.nn.prepack_dense": "T(1, 50)",
    "topi.nn.prepack_int8": 'np.ones((1, 1), "int8")',
    "topi.nn.quantize": 'T(9, 21), 0.05, 3, "int8"',
    "topi.nn.quantize_channels": "T(10, 33)",
    "topi.nn.quantize_groups": "T(21, 70), 4",
    "topi.nn.quantized_dense": 'T(9, 30, dtype="int8"), T(3, 8, 16, 4, dtype="int8"), T(37, dtype="int32"), 0.05, T(37), 11, 0, T(37)',
    "topi.nn.relu6": "T(3, 37)",
    "topi.nn.requantize": 'T(6, 11, dtype="int32"), T(11), -3, "int8"',
    "topi.nn.rms_norm": "T(5, 17), T(17), -1",
    "topi.nn.scale_shift_nchw": "T(2, 5, 3, 4), T(5), T(5)",
    "topi.nn.scale_shift_nhwc": "T(2, 3, 4, 5), T(5), T(5)",
    "topi.nn.sigmoid": "T(3, 5)",
    "topi.nn.simulated_dequantize": 'T(3, 4), 0, T(4), T(4, dtype="int32")',
    "topi.nn.simulated_quantize": 'T(3, 4), 0, T(4), T(4, dtype="int32")',
    "topi.nn.space_to_batch_nd": "T(2, 3, 4, 1), (2, 3), (1, 0), (0, 2)",
    "topi.nn.sparse_add": 'T(12, 12), T(52), T(52, dtype="int32"), T(13, dtype="int32")',
    "topi.nn.sparse_conv2d": 'T(2, 3, 5, 24), T(9, 4), T(9, dtype="int32"), T(3, dtype="int32"), "NHWC"',
    "topi.nn.sparse_dense": 'T(7, 30), T(117), T(117, dtype="int32"), T(13, dtype="int32")',
    "topi.nn.sparse_dense_sp_lhs": 'T(6), T(6, dtype="int32"), T(4, dtype="int32"), T(5, 7)',
    "topi.nn.sparse_dense_sp_rhs": 'T(3, 7), T(6), T(6, dtype="int32"), T(6, dtype="int32")',
    "topi.nn.sparse_transpose": 'T(52), T(52, dtype="int32"), T(13, dtype="int32")',
    "topi.nn.tanh": "T(3, 37)",
    "topi.nn.upsampling": "T(1, 2, 4, 4), 2, 2",
    "topi.nn.weight_only_dense": 'T(1, 64), T(1, 2, 4, 16, 4, dtype="uint8"), T(1, 2, 16, dtype="float16"), 4',
    "topi.image.affine_grid": "T(2, 2, 3), (4, 5)",
    "topi.image.bilateral_slice": "T(1, 1, 1, 1, 2), T(1, 1), T(1, 1, 1)",
    "topi.image.box_blur": 'T(9, 13, dtype="uint8")',
    "topi.image.crop_and_resize": 'T(1, 1, 7, 9), T(2, 4), T(2, dtype="int32"), (3, 3), "NCHW", "bilinear", -7.0',
    "topi.image.dilation2d_nchw": "T(2, 3, 9, 8), T(3, 3, 2), 1, 0, 1",
    "topi.image.dilation2d_nhwc": "T(2, 9, 8, 3), T(3, 2, 3), 1, 0, 1",
    "topi.image.gaussian_blur": 'T(9, 40, dtype="uint8"), 5, None',
    "topi.image.grid_sample": "T(1, 2, 4, 4), T(1, 2, 3, 3)",
    "topi.image.resize": 'T(9, 13, dtype="uint8"), (18, 26), "nearest"',
    "topi.image.resize1d": "T(1, 2, 4), 8",
    "topi.image.resize2d": 'T(1, 1, 3, 2), None, (6, 4), "NCHW", "linear", "asymmetric", "floor", -0.5',
    "topi.image.resize3d": 'T(1, 2, 2, 3, 1), (4, 6, 2), "NCDHW", "nearest_neighbor", "asymmetric", "floor", -0.5',
    "topi.image.unsharp_mask": 'T(18, 37), amount=0, border="edge"',
    "topi.vision.get_valid_counts": "T(2, 9, 6), 0.3",
    "topi.vision.multibox_detection": "T(1, 2, 6), T(1, 24), T(1, 6, 4)",
    "topi.vision.multibox_prior": "T(1, 3, 5, 7), (0.5, 0.25), (1, 4), offsets=(0.5, 0.25)",
    "topi.vision.multibox_transform_loc": "T(2, 4, 9), T(2, 36), T(1, 9, 4), True, 0.7",
    "topi.vision.non_max_suppression": 'T(2, 9, 6), T(2, dtype="int32"), T(2, 9, dtype="int32"), -1, 0.3, False, -1, 2, 1, 0, True, False',
    "topi.vision.proposal": "T(2, 4, 3, 4), T(2, 8, 3, 4), T(2, 3), (1, 2), (1,), 16, 0.3, 20, 6, 8",
    "topi.vision.roi_align": 'T(1, 1, 7, 9), T(1, 5), 2, 1.0, "avg", 2',
    "topi.random.normal": 'T(10, dtype="uint64"), 1.0, 2.0, (100, 99), "float32"',
    "topi.random.threefry_generate": 'T(10, dtype="uint64"), (4,)',
    "topi.random.threefry_key": "0",
    "topi.random.threefry_split": 'T(10, dtype="uint64")',
    "topi.random.uniform": 'T(10, dtype="uint64"), T(), T(), (100, 99), "float32"',
}
"""By name the arguments, in which T(2, 3) is a tensor, of those that have no rows."""
CALLED = sorted({*CALLS, *_ROWS})


def operator_named(name: str) -> Callable[..., Any]:
    """The operator of a name such as "topi.nn.relu", as its package hands it on."""
    found: Any = topi
    for part in name.split(".")[1:]:
        found = getattr(found, part)
    return found


def _tensor(*shape: int, dtype: str = "float32") -> te.Tensor:
    return te.placeholder(shape, dtype, "X")


def arguments_of(name: str) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """The arguments of the legal call of an operator, by position and by name."""
    if name in _ROWS:
        return _sample_of(_ROWS[name], inspect.signature(operator_named(name)))
    names = {"T": _tensor, "np": np, "inf": np.inf, "given": lambda *args, **named: (args, named)}
    return eval(f"given({CALLS[name]})", names)


def _sample_of(row: Operator, signature: inspect.Signature) -> tuple[tuple[Any, ...], dict[str, Any]]:
    one, random = row.samples[0], np.random.default_rng(0)
    tensors = [None if array is None else _tensor(*array.shape, dtype=str(array.dtype)) for array in one.arrays(random)]
    several = str(signature.parameters[row.tensors[0]].annotation).startswith("Sequence") if row.tensors else False
    given = {row.tensors[0]: tensors} if several else dict(zip(row.tensors, tensors, strict=False))
    bound = signature.bind(**given, **{row.names[name]: value for name, value in one.attributes.items()})
    return bound.args, bound.kwargs
