"""Models run with inputs that are set one by one: tvm.contrib.graph_executor, and tvm.runtime.create."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from ...runtime.timing import TimingResult
from . import nd

if TYPE_CHECKING:
    from .relay import ExecutorFactory

__all__ = ["GraphModule", "create"]


class GraphModule:
    """A model with inputs that are set before it runs and outputs that are got after it."""

    def __init__(self, module: ExecutorFactory) -> None:
        self._model = module.model
        self._given: dict[str, Any] = {}
        self._outputs: list[Any] = []

    def set_input(self, key: str | int | None = None, value: Any = None, **params: Any) -> None:
        """Sets an input by its name or number, and others by their names. What is none of them is a parameter, which the model
        holds since it was built."""
        names = list(self._model.inputs)
        if key is not None:
            params[names[key] if isinstance(key, int) else key] = value
        for name, given in params.items():
            if name in names:
                self._given[name] = np.array(given.numpy() if hasattr(given, "numpy") else given)

    def run(self, **input_dict: Any) -> None:
        """Runs the model, these inputs set before."""
        self.set_input(**input_dict)
        results = self._model(**self._given)
        self._outputs = results if isinstance(results, list) else [results]

    def time_evaluator(
        self, func_name: str, dev: object = None, number: int = 10, repeat: int = 1, min_repeat_ms: float = 0, **_: object,
    ) -> Callable[[], TimingResult]:
        """A function that times "run" on the inputs that were set: .mean, .median, .min, .max, .std, .results in seconds."""
        del dev
        if func_name != "run":
            raise ValueError(f"a model has no function {func_name!r} to time; there is run")
        return lambda: self._model.time(**self._given, number=number, repeat=repeat, min_repeat_ms=min_repeat_ms)

    def benchmark(
        self, device: object = None, func_name: str = "run", repeat: int = 5, number: int = 5, min_repeat_ms: float = 0,
        **input_dict: Any,
    ) -> TimingResult:
        """Seconds a run on the inputs that were set, these among them."""
        self.set_input(**input_dict)
        return self.time_evaluator(func_name, device, number, repeat, min_repeat_ms or 0)()

    @property
    def module(self) -> GraphModule:
        """What has `time_evaluator`, as TVM's modules do."""
        return self

    def get_num_inputs(self) -> int:
        """How many inputs there are."""
        return len(self._model.inputs)

    def get_num_outputs(self) -> int:
        """How many outputs there are."""
        return len(self._model.outputs)

    def get_input(self, index: str | int) -> nd.NDArray:
        """The input that was set, by its name or number."""
        return nd.array(self._given[list(self._model.inputs)[index] if isinstance(index, int) else index])

    def get_output(self, index: int, out: Any = None) -> nd.NDArray:
        """What the last run gave, by its number; copied to `out` too, where there is one."""
        result = nd.array(self._outputs[index])
        if out is not None:
            result.copyto(out)
        return result


def create(graph_json_str: str, libmod: ExecutorFactory, device: Any = None) -> GraphModule:
    """A GraphModule of what relay.build gave."""
    del graph_json_str, device
    return GraphModule(libmod)
