"""Operators of topi at sizes that the emulator runs in a second, whose counts on GPUs are tabled (gpu_counts.py)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from tilewright import te, topi

__all__ = ["CASES", "Case"]

Case = Callable[[], Any]
"""Declares an operator on placeholders: its result, or several."""


def _at(operator: Callable[..., Any], *operands: Sequence[Any], **options: Any) -> Case:
    """An operator of placeholders of these shapes; a dtype may stand behind the extents."""

    def declared() -> Any:
        inputs: list[Any] = []
        for number, operand in enumerate(operands):
            kind = operand[-1] if operand and isinstance(operand[-1], str) else "float32"
            inputs.append(te.placeholder([each for each in operand if not isinstance(each, str)], kind, name=f"input{number}"))
        return operator(*inputs, **options)

    return declared


def _several(operator: Callable[..., Any]) -> Callable[..., Any]:
    return lambda *inputs, **options: operator(list(inputs), **options)


nn, image, vision = topi.nn, topi.image, topi.vision
ROWS, ODD, MAPS = (64, 1024), (64, 1001), (2, 32, 28, 28)

CASES: dict[str, Case] = {
    # element by element
    "add": _at(topi.add, ROWS, ROWS),
    "add a row": _at(topi.add, ROWS, (1024,)),
    "add a column": _at(topi.add, ROWS, (64, 1)),
    "add, odd rows": _at(topi.add, ODD, (1001,)),
    "add, float16": _at(topi.add, (*ROWS, "float16"), (*ROWS, "float16")),
    "exp": _at(topi.exp, ROWS),
    "erf": _at(topi.erf, ROWS),
    "gelu": _at(nn.gelu, ROWS),
    "relu": _at(nn.relu, ROWS),
    "silu": _at(nn.silu, ROWS),
    "power": _at(topi.power, ROWS, ROWS),
    "where": _at(topi.where, (*ROWS, "bool"), ROWS, ROWS),
    "cast to int8": _at(topi.cast, ROWS, dtype="int8"),
    "clip": _at(topi.clip, ROWS, a_min=-1.0, a_max=1.0),
    "batch_norm_inference": _at(nn.batch_norm_inference, MAPS, (32,), (32,), (32,), (32,)),
    # moves
    "transpose": _at(topi.transpose, (256, 320)),
    "transpose, odd": _at(topi.transpose, (251, 317)),
    "transpose of float16": _at(topi.transpose, (256, 320, "float16")),
    "transpose NCHW to NHWC": _at(topi.transpose, MAPS, axes=(0, 2, 3, 1)),
    "reshape": _at(topi.reshape, ROWS, newshape=(128, 512)),
    "concatenate": _at(_several(topi.concatenate), (64, 512), (64, 256), axis=1),
    "stack": _at(_several(topi.stack), ROWS, ROWS, axis=1),
    "strided_slice": _at(topi.strided_slice, ROWS, begin=[0, 256], end=[64, 768]),
    "strided_slice by 2": _at(topi.strided_slice, ROWS, begin=[0, 0], end=[64, 1024], strides=[1, 2]),
    "flip": _at(topi.flip, ROWS, axis=1),
    "repeat": _at(topi.repeat, ROWS, repeats=2, axis=0),
    "tile": _at(topi.tile, ROWS, reps=(2, 1)),
    "pad": _at(nn.pad, MAPS, pad_before=(0, 0, 1, 1), pad_after=(0, 0, 1, 1)),
    "take rows": _at(topi.take, ROWS, (128, "int32"), axis=0),
    "gather": _at(lambda data, places: topi.gather(data, 1, places), ROWS, (64, 256, "int32")),
    "one_hot": _at(topi.one_hot, (256, "int32"), on_value=1.0, off_value=0.0, depth=100, axis=-1, dtype="float32"),
    "depth_to_space": _at(nn.depth_to_space, MAPS, block_size=2),
    "space_to_depth": _at(nn.space_to_depth, MAPS, block_size=2),
    "im2col": _at(nn.im2col, (1, 8, 28, 28), kernel=(3, 3)),
    # reductions and rows
    "sum of rows": _at(topi.sum, ROWS, axis=1),
    "sum of odd rows": _at(topi.sum, ODD, axis=1),
    "sum of columns": _at(topi.sum, (1024, 256), axis=0),
    "sum of all": _at(topi.sum, (1 << 19,)),
    "mean of maps": _at(topi.mean, MAPS, axis=[2, 3]),
    "max of rows": _at(topi.max, ROWS, axis=1),
    "argmax": _at(topi.argmax, ROWS, axis=1),
    "all": _at(topi.all, (*ROWS, "bool"), axis=1),
    "softmax": _at(nn.softmax, ROWS),
    "softmax, odd rows": _at(nn.softmax, ODD),
    "softmax of columns": _at(nn.softmax, (1024, 256), axis=0),
    "softmax of long rows": _at(nn.softmax, (2, 40000)),
    "softmax, float16": _at(nn.softmax, (*ROWS, "float16")),
    "log_softmax": _at(nn.log_softmax, ROWS),
    "layer_norm": _at(nn.layer_norm, ROWS, (1024,), (1024,), axis=[1]),
    "rms_norm": _at(nn.rms_norm, ROWS, (1024,)),
    "instance_norm": _at(nn.instance_norm, MAPS, (32,), (32,)),
    "group_norm": _at(nn.group_norm, MAPS, (32,), (32,), num_groups=4),
    "l2_normalize": _at(nn.l2_normalize, ROWS, eps=1e-6, axis=[1]),
    # scans and orders
    "cumsum of columns": _at(topi.cumsum, (64, 1024), axis=0),
    "cumsum of rows": _at(topi.cumsum, (64, 256), axis=1),
    "sort": _at(topi.sort, (64, 128)),
    "argsort": _at(topi.argsort, (64, 128)),
    "topk": _at(topi.topk, (64, 256), k=5),
    # products
    "matmul": _at(topi.matmul, (256, 256), (256, 256)),
    "matmul, odd": _at(topi.matmul, (127, 129), (129, 131)),
    "matmul, A B'": _at(topi.matmul, (256, 256), (256, 256), transpose_b=True),
    "matmul, float16": _at(topi.matmul, (128, 128, "float16"), (128, 128, "float16"), out_dtype="float32"),
    "dense": _at(nn.dense, (64, 256), (128, 256), (128,)),
    "dense, one row": _at(nn.dense, (1, 1024), (256, 1024)),
    "batch_matmul": _at(topi.batch_matmul, (4, 64, 64), (4, 64, 64)),
    "attention": _at(nn.attention, (2, 64, 32), (2, 64, 32), (2, 64, 32)),
    "attention, causal": _at(nn.attention, (2, 64, 32), (2, 64, 32), (2, 64, 32), causal=True),
    "conv2d 3x3": _at(nn.conv2d, (1, 16, 28, 28), (32, 16, 3, 3), stride=1, padding=1),
    "conv2d 1x1": _at(nn.conv2d, (1, 64, 28, 28), (64, 64, 1, 1), stride=1, padding=0),
    "depthwise_conv2d": _at(nn.depthwise_conv2d, MAPS, (32, 1, 3, 3), stride=1, padding=1),
    # windows and images
    "max_pool2d 2x2": _at(nn.max_pool2d, MAPS, kernel=(2, 2), stride=(2, 2), padding=(0, 0, 0, 0)),
    "max_pool2d 3x3": _at(nn.max_pool2d, MAPS, kernel=(3, 3), stride=(2, 2), padding=(1, 1, 1, 1)),
    "avg_pool2d 2x2": _at(nn.avg_pool2d, MAPS, kernel=(2, 2), stride=(2, 2), padding=(0, 0, 0, 0)),
    "global_avg_pool2d": _at(nn.global_avg_pool2d, MAPS),
    "lrn": _at(nn.lrn, MAPS, size=5, axis=1, alpha=1e-4, beta=0.75, bias=2.0),
    "upsampling": _at(nn.upsampling, MAPS, scale_h=2, scale_w=2),
    "resize": _at(image.resize, MAPS, size=(56, 56)),
    "box_blur": _at(image.box_blur, (128, 128)),
    "gaussian_blur": _at(image.gaussian_blur, (128, 128)),
    "grid_sample": _at(image.grid_sample, (1, 8, 28, 28), (1, 2, 28, 28)),
    "roi_align": _at(vision.roi_align, (1, 8, 28, 28), (4, 5), pooled_size=7, spatial_scale=1.0),
}
"""By what is printed."""
