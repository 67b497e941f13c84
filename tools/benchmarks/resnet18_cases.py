"""ResNet-18 on a photograph, from end to end."""

from __future__ import annotations

from typing import Any

from .cases import Arrays, Builder, Case, Runner
from .peers import ort_peer


def _photograph(_: Any) -> Arrays:
    from .resnet18 import photograph

    return [photograph()]


def _ours(inputs: Arrays, outputs: Arrays) -> Runner:
    from .resnet18 import network

    return network(inputs, outputs)


def _torch(channels_last: bool) -> Builder:
    def builder(inputs: Arrays, _: Arrays) -> Runner:
        import torch

        from .resnet18 import torch_forward, weights

        image = torch.from_numpy(inputs[0])
        return torch_forward(image.contiguous(memory_format=torch.channels_last) if channels_last else image, weights())

    return builder


def _ort(inputs: Arrays, outputs: Arrays) -> Runner:
    from .resnet18 import ort_nodes

    nodes, constants = ort_nodes()
    return ort_peer.call(nodes, extra=constants)(inputs, outputs)


CASES = [
    Case(
        group="resnet18",
        name="1x3x224x224",
        inputs=_photograph,
        outputs=[((1, 1000), "float32")],
        ours=_ours,
        peers={"torch": _torch(False), "torch channels last": _torch(True), "ort": _ort},
        flops=3.63e9,
        bytes=4 * 11.7e6,
        ceiling="fma",
        tolerance=(1e-3, 1e-3),
    )
]
