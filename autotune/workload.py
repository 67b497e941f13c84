"""Description of a task for a machine that measures: all of it as plain data, without any schedule."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ..base import dataclass, field, user_source
from ..ir import IntImm, IterVar, ProducerLoad, post_order
from ..runtime.abi import PACKED_TYPES
from ..runtime.array import numpy_dtype
from ..te import Tensor
from ..te.operation import producers_first
from .errors import WrongInputs
from .task import Task

__all__ = ["Workload", "drawn_array"]


@dataclass(frozen=True, slots=True)
class Workload:
    """Program of a task, as workers get it.

    name: for people. args: the shape and the dtype of each argument. outputs: which of them are computed. indices: which of them
    say where others are read. unscheduled: the program as the text of its loops. constants: arrays that it holds. target: what
    candidates are compiled for. inputs: the arrays to measure on, as bytes, in the order of the arguments that are no outputs;
    drawn from `seed` where there are none.
    """

    name: str
    args: tuple[tuple[tuple[int, ...], str], ...]
    outputs: tuple[int, ...]
    indices: frozenset[int]
    unscheduled: str
    constants: tuple[np.ndarray[Any, Any], ...]
    target: str
    inputs: tuple[bytes, ...] = field(default=(), repr=False)
    seed: int = 0

    @classmethod
    def of(cls, task: Task, given: Sequence[Any] | None = None, seed: int = 0) -> Workload:
        """Workload of a task. given: arrays to measure on. Raises WrongInputs (TW0610)."""
        args = tuple((tuple(int(extent) for extent in tensor.shape), str(tensor.dtype)) for tensor in task.args)
        outputs = tuple(at for at, tensor in enumerate(task.args) if tensor in task.outputs)
        asked = set(_indices(task))
        constants = tuple(held.data for held in task.unscheduled.constants)
        inputs = (
            ()
            if given is None
            else tuple(_bytes([task.args[at] for at in range(len(args)) if at not in outputs], given))
        )
        return cls(
            task.name,
            args,
            outputs,
            frozenset(at for at, tensor in enumerate(task.args) if tensor in asked),
            str(task.unscheduled),
            constants,
            str(task.target),
            inputs,
            seed,
        )

    @property
    def shapes(self) -> list[tuple[Sequence[int], str]]:
        """The shape and the dtype of each argument, and then of each constant."""
        return [*self.args, *((array.shape, str(array.dtype)) for array in self.constants)]

    def write(self, folder: Path) -> None:
        """Its arrays but the outputs as files of bytes: of each argument and constant, by number."""
        rng = np.random.default_rng(self.seed)
        given = iter(self.inputs)
        for at, (shape, dtype) in enumerate(self.args):
            if at in self.outputs:
                continue
            if self.inputs:
                (folder / str(at)).write_bytes(next(given))
            else:
                drawn_array(shape, numpy_dtype(dtype), rng, at in self.indices).tofile(folder / str(at))
        for at, array in enumerate(self.constants, len(self.args)):
            array.tofile(folder / str(at))


def _bytes(tensors: Sequence[Tensor], given: Sequence[Any]) -> Iterable[bytes]:
    """Given arrays, which are of the tensors' shapes and dtypes."""
    if len(given) != len(tensors):
        raise WrongInputs(
            f"{len(given)} arrays for {len(tensors)} inputs",
            called=user_source(),
            allowed=f"one for each of {', '.join(tensor.name for tensor in tensors)}",
        )
    for tensor, one in zip(tensors, given, strict=True):
        array, shape, kind = (
            np.asarray(one),
            tuple(int(extent) for extent in tensor.shape),
            numpy_dtype(str(tensor.dtype)),
        )
        if array.shape != shape or array.dtype != kind:
            raise WrongInputs(
                f"the array for {tensor.name} is {array.dtype}{list(array.shape)}",
                declared=tensor.source,
                called=user_source(),
                allowed=f"{kind}{list(shape)}",
            )
        yield array.tobytes()


def drawn_array(
    shape: Sequence[int], kind: np.dtype[Any], rng: np.random.Generator, is_index: bool
) -> np.ndarray[Any, Any]:
    """Floats from -1 to 1, small integers, anything of 8 bits or 4; zeros where they are indices, to be in range."""
    if is_index:
        return np.zeros(shape, kind)
    if kind.kind == "b":
        return rng.random(shape) < 0.5
    if kind.name in PACKED_TYPES:
        return rng.integers(0, 16, shape, np.uint8).view(kind)
    if kind.kind in "iu":
        low, high = (
            (np.iinfo(kind).min, np.iinfo(kind).max) if kind.itemsize == 1 else (0 if kind.kind == "u" else -100, 100)
        )
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
