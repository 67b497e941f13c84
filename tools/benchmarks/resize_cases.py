"""Resizing of images, and pooling: what neural networks do between their convolutions, and cameras before."""

from __future__ import annotations

from typing import Any

import numpy as np
from tilewright import topi

from .cases import Case, draw_integers, floats, scheduled
from .peers import onnx_peers, opencv_peer, torch_peer
from .peers.onnx_model import Node

__all__ = ["CASES"]

ORT_MODES = {"nearest": "nearest", "bilinear": "linear", "bicubic": "cubic"}


def photograph(high: int, wide: int, out: tuple[int, int]) -> Case:
    """Bytes with three channels side by side, bilinear."""
    shape, result_shape = (high, wide, 3), (*out, 3)

    def of_opencv(cv2: Any, inputs: Any, outputs: Any) -> None:
        cv2.resize(inputs[0], out[::-1], dst=outputs[0], interpolation=cv2.INTER_LINEAR)

    def of_torch(torch: Any, x: Any) -> Any:
        batch = x.permute(2, 0, 1)[None]  # channels last, without a copy
        return torch.nn.functional.interpolate(batch, out, mode="bilinear")[0].permute(1, 2, 0)

    return Case(
        group="resize",
        name=f"bilinear {wide}x{high} RGB to {out[1]}x{out[0]}",
        inputs=draw_integers(0, 256, np.uint8, shape),
        outputs=[(result_shape, "uint8")],
        ours=scheduled(lambda x: topi.image.resize(x, out, "bilinear", "HWC"), shape, dtype="uint8"),
        ceiling="copy",
        bytes=3 * (high * wide + out[0] * out[1]),
        tolerance=(2, 0),
        peers={"opencv": opencv_peer.call(of_opencv), "torch": torch_peer.call(of_torch)},
    )


def planes(method: str, channels: int, size: int, out: int) -> Case:
    """Floats, each channel a plane of its own."""
    shape, result_shape = (1, channels, size, size), (1, channels, out, out)

    def of_opencv(cv2: Any, inputs: Any, outputs: Any) -> None:
        how = {"nearest": cv2.INTER_NEAREST, "bilinear": cv2.INTER_LINEAR, "bicubic": cv2.INTER_CUBIC}[method]
        for plane, into in zip(inputs[0][0], outputs[0][0], strict=True):
            cv2.resize(plane, (out, out), dst=into, interpolation=how)

    where = {"coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"} if method == "nearest" else {}
    node = Node("Resize", ["x0", "", "", "sizes"], attributes={"mode": ORT_MODES[method], **where})
    return Case(
        group="resize",
        name=f"{method} {channels}x{size}^2 to {out}^2",
        inputs=floats(shape),
        outputs=[(result_shape, "float32")],
        ours=scheduled(lambda x: topi.image.resize(x, (out, out), method), shape),
        ceiling="copy",
        bytes=4 * channels * (size**2 + out**2),
        tolerance=(1e-3, 1e-3),
        peers={
            "opencv": opencv_peer.call(of_opencv),
            "torch": torch_peer.call(lambda torch, x: torch.nn.functional.interpolate(x, (out, out), mode=method)),
            **onnx_peers.call([node], extra={"sizes": np.array(result_shape, np.int64)}),
        },
    )


def pool(kind: str, channels: int, size: int, window: int, stride: int, padding: int) -> Case:
    out = (size + 2 * padding - window) // stride + 1
    shape = (1, channels, size, size)

    make = topi.nn.max_pool2d if kind == "max" else topi.nn.avg_pool2d

    def of_torch(torch: Any, x: Any) -> Any:
        if kind == "max":
            return torch.nn.functional.max_pool2d(x, window, stride, padding)
        return torch.nn.functional.avg_pool2d(x, window, stride, padding)

    attributes = {"kernel_shape": [window] * 2, "strides": [stride] * 2, "pads": [padding] * 4}
    attributes |= {"count_include_pad": 1} if kind == "avg" else {}
    return Case(
        group="pool",
        name=f"{kind} {window}x{window} s{stride} {channels} @{size}",
        inputs=floats(shape),
        outputs=[((1, channels, out, out), "float32")],
        ours=scheduled(lambda x: make(x, window, stride, padding), shape),
        ceiling="copy",
        bytes=4 * channels * (size**2 + out**2),
        peers={
            "torch": torch_peer.call(of_torch),
            **onnx_peers.call([Node("MaxPool" if kind == "max" else "AveragePool", ["x0"], attributes=attributes)]),
        },
    )


def global_pool(channels: int, size: int) -> Case:
    shape = (1, channels, size, size)

    return Case(
        group="pool",
        name=f"global avg {channels} @{size}",
        inputs=floats(shape),
        outputs=[((1, channels, 1, 1), "float32")],
        ours=scheduled(topi.nn.global_avg_pool2d, shape),
        ceiling="read",
        bytes=4 * channels * size**2,
        peers={
            "torch": torch_peer.call(lambda torch, x: torch.nn.functional.adaptive_avg_pool2d(x, 1)),
            **onnx_peers.call([Node("GlobalAveragePool", ["x0"])]),
        },
    )


CASES = [
    photograph(3000, 4000, (1500, 2000)),
    photograph(3000, 4000, (1080, 1440)),
    planes("bilinear", 3, 224, 299),
    planes("bilinear", 64, 56, 112),
    planes("nearest", 64, 56, 112),
    planes("bicubic", 3, 512, 768),
    pool("max", 64, 112, 3, 2, 1),
    pool("avg", 64, 112, 3, 1, 1),
    pool("max", 128, 56, 2, 2, 0),
    global_pool(2048, 7),
    global_pool(64, 112),
]
