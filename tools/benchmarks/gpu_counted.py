"""Operators of topi at sizes that the emulator runs in a second, whose counts on GPUs are tabled (gpu_counts.py)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from tilewright import te, topi

__all__ = ["CASES", "MAPS", "ROWS", "Case", "at", "several"]

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


nn, image, vision = topi.nn, topi.image, topi.vision
ROWS, ODD, MAPS = (64, 1024), (64, 1001), (2, 32, 28, 28)

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
}
"""By what is printed."""
