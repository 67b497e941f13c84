"""The arrays that candidates are measured on: given ones, or drawn."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ..errors import user_source
from ..ir.expr import IntImm, IterVar, ProducerLoad
from ..ir.visit import post_order
from ..runtime.array import numpy_dtype
from ..te import Tensor
from ..te.operation import producers_first
from .errors import WrongInputs
from .task import Task

__all__ = ["write_inputs"]


def write_inputs(task: Task, outputs: list[int], folder: Path, given: Sequence[Any] | None, seed: int) -> None:
    """The arrays of the tensors that are no outputs, as files of bytes."""
    rng = np.random.default_rng(seed)
    tensors = [(at, tensor) for at, tensor in enumerate(task.args) if at not in outputs]
    if given is not None and len(given) != len(tensors):
        raise WrongInputs(f"{len(given)} arrays for {len(tensors)} inputs", called=user_source(),
                          allowed=f"one for each of {', '.join(tensor.name for _, tensor in tensors)}")
    indices = set(_indices(task))
    for number, (at, tensor) in enumerate(tensors):
        shape = tuple(int(extent) for extent in tensor.shape)
        kind = numpy_dtype(str(tensor.dtype))
        if given is None:
            array = _drawn(shape, kind, rng, tensor in indices)
        else:
            array = np.asarray(given[number])
            if array.shape != shape or array.dtype != kind:
                raise WrongInputs(
                    f"the array for {tensor.name} is {array.dtype}{list(array.shape)}", declared=tensor.source,
                    called=user_source(), allowed=f"{kind}{list(shape)}")
        np.ascontiguousarray(array).tofile(folder / str(at))


def _drawn(shape: tuple[int, ...], kind: np.dtype[Any], rng: np.random.Generator, is_index: bool) -> np.ndarray[Any, Any]:
    """Floats from -1 to 1, small integers, anything of 8 bits; zeros where they are indices, to be in range."""
    if is_index:
        return np.zeros(shape, kind)
    if kind.kind == "b":
        return rng.random(shape) < 0.5
    if kind.kind in "iu":
        low, high = (np.iinfo(kind).min, np.iinfo(kind).max) if kind.itemsize == 1 else (0 if kind.kind == "u" else -100, 100)
        return rng.integers(low, high, shape, endpoint=True).astype(kind)
    return (rng.random(shape, np.float32) * 2 - 1).astype(kind)


def _indices(task: Task) -> Iterable[Tensor]:
    """The tensors whose values say where others are read."""
    for op in producers_first([tensor.op for tensor in task.outputs]):
        if op.data_indexed:
            yield from (tensor for tensor in op.input_tensors if tensor.dtype.is_integer)
        for value in op.values:
            for load in post_order(value):
                if isinstance(load, ProducerLoad):
                    for index in load.indices:
                        if not isinstance(index, (IterVar, IntImm)):
                            for inner in post_order(index):
                                if isinstance(inner, ProducerLoad) and isinstance(inner.producer, Tensor):
                                    yield inner.producer
