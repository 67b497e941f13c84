"""onnxruntime on the CPU: models of a few nodes, whose inputs and outputs stand on the arrays' own memory."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ..cases import Arrays, Builder, Runner, threads
from .onnx_model import Node, kind, model

__all__ = ["call"]


def call(nodes: Sequence[Node], constants: Sequence[int] = (), extra: dict[str, np.ndarray] | None = None) -> Builder:
    """A model of these nodes. constants: places of inputs that are weights: they become part of the model, so that
    onnxruntime packs them beforehand. extra: constants that are not inputs of the case, by name."""

    def builder(inputs: Arrays, outputs: Arrays) -> Runner:
        import onnxruntime as ort

        ort.set_default_logger_severity(3)
        options = ort.SessionOptions()
        options.intra_op_num_threads, options.inter_op_num_threads = threads(), 1
        options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_ENABLE_ALL
        text = model(nodes, inputs, outputs, constants, extra or {})
        session = ort.InferenceSession(text, options, providers=["CPUExecutionProvider"])
        binding = session.io_binding()
        kept = {f"x{i}": array for i, array in enumerate(inputs) if i not in constants}
        for name, array in kept.items():
            binding.bind_input(name, "cpu", 0, kind(array), array.shape, array.ctypes.data)
        for i, array in enumerate(outputs):
            binding.bind_output(f"y{i}", "cpu", 0, kind(array), array.shape, array.ctypes.data)
        return lambda: session.run_with_iobinding(binding)

    return builder
