"""Models of libraries: what tvm.runtime.load_module gives of one, for graph_executor.GraphModule."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...graph.arena import ALIGNMENT
from ...graph.types import array_dtype
from ...ir.constant import aligned_empty
from ...runtime import Kernel
from ...runtime.signature import BufferParam, evaluate_extent
from ...runtime.timing import TimingResult
from .error import TVMError

__all__ = ["LoadedModel"]


class LoadedModel:
    """A model of a library, which holds its parameters: `loaded["default"](dev)`."""

    held: Mapping[str, str] = {}

    def __init__(self, kernel: Kernel) -> None:
        self._kernel = kernel
        *params, self._arena = (param for _, param in kernel.signature.buffers)
        self.inputs = {param.name: param for param in params if not param.is_output}
        self.outputs = {param.name: param for param in params if param.is_output}

    @staticmethod
    def is_one(kernel: Kernel) -> bool:
        """Whether a kernel is a whole model: its last argument is the memory that it works in."""
        params = kernel.signature.params
        last = params[-1] if params else None
        return isinstance(last, BufferParam) and (last.dtype, len(last.shape), last.alignment) == ("uint8", 1, ALIGNMENT)

    @property
    def model(self) -> LoadedModel:
        """What runs."""
        return self

    def on(self, device: object = None) -> LoadedModel:
        """What graph_executor takes, for a device: there is one."""
        del device
        return self

    def _arguments(self, named: Mapping[str, Any]) -> tuple[list[NDArray[Any]], list[NDArray[Any]]]:
        """What the kernel takes, and of that the outputs."""
        missing = [name for name in self.inputs if name not in named]
        if missing:
            raise TVMError(f"the model is not given {', '.join(missing)}")
        signature = self._kernel.signature
        given = {name: np.ascontiguousarray(named[name]).reshape(np.shape(named[name])) for name in self.inputs}
        sizes: dict[str, int] = {}
        for name, where in signature.bindings.items():
            array = given[signature.params[where.param].name]
            sizes[name] = array.shape[where.dim] if where.dim < array.ndim else 0
            for operator, number in where.steps:
                sizes[name] = evaluate_extent((operator, sizes[name], number), {})
        results = [np.empty([evaluate_extent(extent, sizes) for extent in param.shape], array_dtype(param.dtype))
                   for param in self.outputs.values()]
        arena = aligned_empty((evaluate_extent(self._arena.shape[0], sizes),), np.dtype(np.uint8))
        return [*given.values(), *results, arena], results

    def __call__(self, **named: Any) -> Any:
        """The outputs for these inputs: an array for a single one, else a list."""
        arguments, results = self._arguments(named)
        self._kernel(*arguments)
        return results[0] if len(results) == 1 else results

    def time(self, number: int = 1, repeat: int = 9, min_repeat_ms: float = 10.0, **named: Any) -> TimingResult:
        """Seconds a call."""
        return self._kernel.time(*self._arguments(named)[0], number=number, repeat=repeat, min_repeat_ms=min_repeat_ms)
