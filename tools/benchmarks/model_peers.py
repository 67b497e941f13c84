"""Other runtimes for the models of `python -m tools.benchmarks.models`: each takes a model's file or module, and gives what runs it
in so many threads."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["PEERS", "Model", "Run", "list_results", "optimised_nodes"]

Run = Callable[[], "list[NDArray[Any]]"]


@dataclass(frozen=True)
class Model:
    """Model for other runtimes.

    file: of ONNX. inputs: by name, in order. module: of torch, where there is one, and its inputs. threads: that runtimes may
    use.
    """

    name: str
    file: Path
    inputs: Mapping[str, NDArray[Any]]
    module: Any = None
    tensors: tuple[Any, ...] = ()
    threads: int = 1


def list_results(results: Any) -> list[NDArray[Any]]:
    """The results of a call, one or several, as a list."""
    return [np.asarray(one) for one in (results if isinstance(results, (list, tuple)) else [results])]


def torch_run(model: Model) -> Run:
    import torch

    if model.module is None:
        raise LookupError("a file is not a module of torch")
    torch.set_num_threads(model.threads)

    def run() -> list[NDArray[Any]]:
        with torch.inference_mode():
            return list_results(model.module(*model.tensors))

    return run


def compiled_run(model: Model) -> Run:
    import torch

    if model.module is None:
        raise LookupError("a file is not a module of torch")
    return torch_run(replace(model, module=torch.compile(model.module)))


def onnxruntime_run(model: Model) -> Run:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.inter_op_num_threads = model.threads, 1
    options.log_severity_level = 4
    session = onnxruntime.InferenceSession(str(model.file), options, providers=["CPUExecutionProvider"])
    given = dict(model.inputs)
    return lambda: list_results(session.run(None, given))


def openvino_run(model: Model) -> Run:
    import openvino

    options = {
        "INFERENCE_NUM_THREADS": model.threads,
        "NUM_STREAMS": 1,
        "INFERENCE_PRECISION_HINT": "f32",
        "PERFORMANCE_HINT": "LATENCY",
    }
    shapes = [(name, list(array.shape)) for name, array in model.inputs.items()]
    compiled = openvino.Core().compile_model(openvino.convert_model(str(model.file), input=shapes), "CPU", options)
    given = dict(model.inputs)
    return lambda: [np.array(value) for value in compiled(given).values()]


PEERS: dict[str, Callable[[Model], Run]] = {
    "onnxruntime": onnxruntime_run,
    "torch": torch_run,
    "torch.compile": compiled_run,
    "openvino": openvino_run,
}
"""What runs a model, by the runtime's name. They raise what they like."""


def optimised_nodes(file: Path, folder: Path) -> int:
    """Return the number of nodes that onnxruntime leaves of a file, at its highest level."""
    import onnx
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.optimized_model_filepath = str(folder / "optimised.onnx")
    onnxruntime.InferenceSession(str(file), options, providers=["CPUExecutionProvider"])
    return len(onnx.load(folder / "optimised.onnx", load_external_data=False).graph.node)
