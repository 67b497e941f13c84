"""OpenVINO on the CPU: the models that onnxruntime gets, in float32 throughout, on the arrays' own memory."""

from __future__ import annotations

from collections.abc import Sequence
from io import BytesIO

import numpy as np

from ..cases import Arrays, Builder, Runner, Unsupported, threads
from .onnx_model import Node, model

__all__ = ["call"]


def call(nodes: Sequence[Node], constants: Sequence[int] = (), extra: dict[str, np.ndarray] | None = None) -> Builder:
    """A model of these nodes, with constants as for onnxruntime."""

    def builder(inputs: Arrays, outputs: Arrays) -> Runner:
        import openvino

        core = openvino.Core()
        try:
            network = core.read_model(BytesIO(model(nodes, inputs, outputs, constants, extra or {})))
        except RuntimeError as refused:
            raise Unsupported(f"no such operator: {str(refused).strip().splitlines()[-1]}") from None
        options = {
            "INFERENCE_NUM_THREADS": threads(),
            "NUM_STREAMS": 1,
            "INFERENCE_PRECISION_HINT": "f32",
            "PERFORMANCE_HINT": "LATENCY",
            "ENABLE_CPU_PINNING": False,
        }
        request = core.compile_model(network, "CPU", options).create_infer_request()
        given = [array for place, array in enumerate(inputs) if place not in constants]
        for place, array in enumerate(given):
            request.set_input_tensor(place, openvino.Tensor(array, shared_memory=True))
        for place, array in enumerate(outputs):
            request.set_output_tensor(place, openvino.Tensor(array, shared_memory=True))

        def run() -> None:
            request.infer()

        return run

    return builder
