"""The demo's kernels: a matrix product in the schedule of its last step, and a photograph sharpened."""

from __future__ import annotations

from typing import Any

import numpy as np
import tilewright as tw
from tilewright.demo import matmul, unsharp

from .cases import Arrays, Case, Runner, floats, kernel
from .peers import numpy_peer, torch_peer


def packed_matmul(size: int) -> Case:
    def build() -> Any:
        scheduled = matmul.parallel(size)
        return tw.build(scheduled.schedule, scheduled.args, name="matmul")

    return Case(
        group="demo",
        name=f"matmul {size}",
        inputs=floats((size, size), (size, size)),
        outputs=[((size, size), "float32")],
        ours=kernel(build),
        peers={"numpy": numpy_peer.matmul, "torch": torch_peer.matmul},
        flops=2 * size**3,
        bytes=12 * size**2,
        ceiling="fma",
        tolerance=(1e-3, 1e-3),
    )


def unsharp_mask() -> Case:
    def photograph(_: np.random.Generator) -> list[np.ndarray]:
        from skimage import data

        return [data.retina()]

    def build() -> Any:
        schedule, args = unsharp.scheduled(*SHAPE)
        return tw.build(schedule, args, name="unsharp")

    def in_numpy(inputs: Arrays, _: Arrays) -> Runner:
        return lambda: unsharp.reference(inputs[0])

    return Case(
        group="demo",
        name="unsharp mask",
        inputs=photograph,
        outputs=[(SHAPE, "uint8")],
        ours=kernel(build),
        peers={"numpy": in_numpy},
        bytes=2 * float(np.prod(SHAPE)),
        ceiling="copy",
        tolerance=(0, 0),
    )


SHAPE = (1411, 1411, 3)
"""Of scikit-image's photograph of a retina."""

CASES = [packed_matmul(512), packed_matmul(1024), unsharp_mask()]
