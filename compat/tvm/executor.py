"""Models run with inputs that are set one by one: tvm.contrib.graph_executor, and tvm.runtime.create."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Protocol

import numpy as np

from ...graph.node import Param
from ...runtime.loaded_model import LoadedModel
from ...runtime.timing import TimingResult
from . import nd
from .error import TVMError

__all__ = ["GraphModule", "OfLibrary", "create"]


class Runnable(Protocol):
    """A model that was built, or one of a library, ready to run."""

    @property
    def inputs(self) -> Mapping[str, Any]:
        """(shape, dtype) by name, in order."""
        ...

    @property
    def outputs(self) -> Mapping[str, Any]:
        """(shape, dtype) by name, in order."""
        ...

    def __call__(self, **named: Any) -> Any:
        """The outputs for these inputs: an array for a single one, else a list."""
        ...

    def time(self, **named: Any) -> TimingResult:
        """Seconds a call."""
        ...


class Executable(Protocol):
    """Argument of GraphModule. held: the digests of the parameters that the model was built with, by name."""

    @property
    def model(self) -> Runnable:
        """The model that runs."""
        ...

    @property
    def held(self) -> Mapping[str, str]:
        """Return what is held by the names of parameters."""
        ...


class OfLibrary:
    """The model of a library, which holds its parameters: `loaded["default"](dev)`."""

    held: Mapping[str, str] = {}

    def __init__(self, model: LoadedModel) -> None:
        self.model = model

    def on(self, device: object = None) -> OfLibrary:
        """Return the argument of GraphModule for a device: there is one."""
        del device
        return self


class GraphModule:
    """A model with inputs that are set before it runs and outputs that are got after it."""

    def __init__(self, module: Executable) -> None:
        self._model, self._held = module.model, module.held
        self._given: dict[str, Any] = {}
        self._outputs: list[Any] = []

    def set_input(self, key: str | int | None = None, value: Any = None, **params: Any) -> None:
        """Sets an input by its name or number, and others by their names. A parameter may be given too, with the values that the
        model was built with. Raises TVMError for other values of one, and for what is neither."""
        if key is not None:
            params[self._name(key)] = value
        for name, given in params.items():
            array = np.array(given.numpy() if hasattr(given, "numpy") else given)
            if name in self._model.inputs:
                self._given[name] = array
            elif name not in self._held:
                raise TVMError(f"could not find {name!r} in the model's inputs, {', '.join(self._model.inputs)}")
            elif Param.of(array).digest != self._held[name]:
                raise TVMError(
                    f"{name!r} was compiled with other values: relay.build(module, target, params=params) takes these"
                )

    def _name(self, key: str | int) -> str:
        """An input's name, given that or its number."""
        names = list(self._model.inputs)
        if isinstance(key, int) and not 0 <= key < len(names):
            raise TVMError(f"there is no input {key}; there are {len(names)}")
        return names[key] if isinstance(key, int) else key

    def run(self, **input_dict: Any) -> None:
        """Run the model, these inputs set before."""
        self.set_input(**input_dict)
        results = self._model(**self._given)
        self._outputs = results if isinstance(results, list) else [results]

    def time_evaluator(
        self,
        func_name: str,
        dev: object = None,
        number: int = 10,
        repeat: int = 1,
        min_repeat_ms: float = 0,
        **_: object,
    ) -> Callable[[], TimingResult]:
        """A function that times "run" on the inputs that were set: .mean, .median, .min, .max, .std, .results in seconds."""
        del dev
        if func_name != "run":
            raise ValueError(f"a model has no function {func_name!r} to time; there is run")
        return lambda: self._model.time(**self._given, number=number, repeat=repeat, min_repeat_ms=min_repeat_ms)

    def benchmark(
        self,
        device: object = None,
        func_name: str = "run",
        repeat: int = 5,
        number: int = 5,
        min_repeat_ms: float = 0,
        **input_dict: Any,
    ) -> TimingResult:
        """Seconds a run on the inputs that were set, these among them."""
        self.set_input(**input_dict)
        return self.time_evaluator(func_name, device, number, repeat, min_repeat_ms or 0)()

    @property
    def module(self) -> GraphModule:
        """Object with `time_evaluator`, as TVM's modules have it."""
        return self

    def get_num_inputs(self) -> int:
        """Return the number of inputs."""
        return len(self._model.inputs)

    def get_num_outputs(self) -> int:
        """Return the number of outputs."""
        return len(self._model.outputs)

    def get_input(self, index: str | int) -> nd.NDArray:
        """The input that was set, by its name or number."""
        name = self._name(index)
        if name not in self._given:
            raise TVMError(f"input {name!r} was not set")
        return nd.array(self._given[name])

    def get_output(self, index: int, out: Any = None) -> nd.NDArray:
        """Return an output of the last run, by its number; copied to `out` too, where there is one."""
        if not 0 <= index < len(self._outputs):
            raise TVMError(f"there is no output {index}; there are {len(self._model.outputs)}, once it has run")
        result = nd.array(self._outputs[index])
        if out is not None:
            result.copyto(out)
        return result


def create(graph_json_str: str, libmod: Executable, device: Any = None) -> GraphModule:
    """A GraphModule of what relay.build gave."""
    del graph_json_str, device
    return GraphModule(libmod)
