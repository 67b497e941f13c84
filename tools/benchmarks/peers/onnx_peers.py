"""All peers that run ONNX models: one list of nodes for onnxruntime and OpenVINO."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ..cases import Builder
from . import openvino_peer, ort_peer
from .onnx_model import Node

__all__ = ["call", "matmul"]


def call(
    nodes: Sequence[Node], constants: Sequence[int] = (), extra: dict[str, np.ndarray] | None = None
) -> dict[str, Builder]:
    """The builders by peer. constants: places of inputs that are weights: they become part of the model, so that a library can
    pack them beforehand. extra: constants that are no inputs of the case, by name."""
    return {"ort": ort_peer.call(nodes, constants, extra), "openvino": openvino_peer.call(nodes, constants, extra)}


matmul = call([Node("MatMul", ["x0", "x1"])])
"""C = A @ B, both given at run time."""
