"""te.hybrid.script: a Python function as an operation, and as itself."""

from __future__ import annotations

import functools
import inspect
import types
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Generic, ParamSpec, TypeVar, cast

import numpy as np

from ...base.errors import user_source
from ...ir import Expr, Var, deep_recursion
from ...ir.arith.analyzer import Analyzer
from ...ir.lazy_values import cached_property
from ..tensor import Tensor
from .errors import BadHybridCall
from .jumps import remove_jumps
from .liveness import written_elements
from .op import HybridOp
from .runtime import emulated
from .source import Source, read_source
from .statements import ScriptReader
from .values import LocalBuffer, ScalarTypes

__all__ = ["HybridScript", "script"]

P = ParamSpec("P")
R = TypeVar("R")


def script(function: Callable[P, R]) -> HybridScript[P, R]:
    """A function of loops, ifs and assignments as one operation (TVM's hybrid script).

        @te.hybrid.script
        def histogram(values, bins):
            counts = output_tensor((bins,), "int32")
            for i in range(values.shape[0]):
                counts[values[i]] += 1
            return counts

    Called with tensors it gives the output tensors of a HybridOp (one, or a list), whose loops are its axes; called with
    numpy arrays it runs as Python. Arguments: tensors, lists of tensors, integer expressions, numbers, dtypes.
    Outputs and what is allocated begin as zeros (memory of scope "shared" undefined). A script that assigns elements of an
    argument works on a copy of it.

    Loops: `while`, and `for` over range (or serial), parallel, vectorize, unroll, const_range (written out),
    bind("threadIdx.x", n). Storage: output_tensor(shape, dtype), allocate(shape, dtype, scope). Functions: those of te, under
    their own names. break, continue and an early return skip what they skip in Python; a loop that they leave is scheduled as
    one whose steps are done in order. Iterations of a parallel loop must have elements of their own; by
    atomic_add(buffer, index, value) they add to shared ones. parallel(n, independent=True) vouches for what is not proved, as of a
    permutation: s.verify() and the target "interpret" look for iterations that meet.
    Raises NotAHybridFunction (TW0150); the call raises the errors of te/hybrid/errors.py, at the script's line.
    """
    return HybridScript(function)


class HybridScript(Generic[P, R]):
    """Result of te.hybrid.script. To those who read types it is the function."""

    def __init__(self, function: Callable[P, R]) -> None:
        self.source: Source = read_source(function)
        self.function = cast(types.FunctionType, function)
        self.signature = inspect.signature(function)
        functools.update_wrapper(self, function)

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        """The outputs: tensors where tensors or expressions are given, else arrays."""
        bound = self._bound(args, kwargs)
        given = bound.arguments
        leaves = list(_leaves(given.values()))
        if not any(isinstance(leaf, (Tensor, Expr)) for leaf in leaves):
            for name in written_elements(self.source.tree) & given.keys():
                given[name] = np.array(given[name])
            return cast(R, emulated(self.function)(*bound.args, **bound.kwargs))
        array = next(
            (name for name, value in given.items() if any(isinstance(leaf, np.ndarray) for leaf in _leaves([value]))),
            None,
        )
        if array is not None:
            raise BadHybridCall(
                f"cannot call the script {self.source.name}",
                called=user_source(),
                reason=f"'{array}' is an array, and other arguments are tensors or expressions",
                fix="pass tensors to make an operation, or arrays and numbers to run the script as Python",
            )
        op = self.operation(given)
        return cast(R, op.output(0) if len(op.outputs) == 1 else list(op.outputs))

    def operation(self, arguments: Mapping[str, Any]) -> HybridOp:
        """The operation of the script for these arguments, by parameter."""
        types = ScalarTypes()
        while True:
            reader = self._reader(types, _analyzer(arguments), None)
            with deep_recursion():
                reader.run(arguments)
            if types.settle():
                break
        buffers = tuple(local.buffer for local in reader.returned)
        return HybridOp(
            name=self.source.name, tag="hybrid", source=user_source(), body=reader.block.close(), buffers=buffers
        )

    def read_inlined(self, caller: ScriptReader, values: Sequence[Any], named: Mapping[str, Any]) -> list[LocalBuffer]:
        """Write the script out in the block of another one; its outputs. For readers of scripts alone."""
        reader = self._reader(caller.types, caller.analyzer, caller)
        reader.run(self._bound(values, named).arguments)
        return reader.returned

    @cached_property
    def _plain(self) -> Source:
        """The source of loops and ifs alone."""
        return remove_jumps(self.source)

    def _reader(self, types: ScalarTypes, analyzer: Analyzer, caller: ScriptReader | None) -> ScriptReader:
        closure = _closure(self.function)
        reader = ScriptReader(self._plain, {**self.function.__globals__, **closure}, closure, types, analyzer, caller)
        reader.script = self
        return reader

    def _bound(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> inspect.BoundArguments:
        try:
            bound = self.signature.bind(*args, **kwargs)
        except TypeError as error:
            raise BadHybridCall(
                f"cannot call the script {self.source.name}",
                reason=str(error),
                called=user_source(),
                declared=self.source.line(self.source.tree),
                fix=f"{self.source.name}{self.signature}",
            ) from None
        bound.apply_defaults()
        return bound

    def __repr__(self) -> str:
        return f"hybrid script {self.source.name}{self.signature}"


def _leaves(values: Iterable[Any]) -> Iterable[Any]:
    for value in values:
        if isinstance(value, (tuple, list)):
            yield from _leaves(cast("list[Any]", value))
        else:
            yield value


def _closure(function: types.FunctionType) -> dict[str, Any]:
    """Return the closure of the function, save names that have no value yet."""
    names: dict[str, Any] = {}
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        try:
            names[name] = cell.cell_contents
        except ValueError:
            continue
    return names


def _analyzer(arguments: Mapping[str, Any]) -> Analyzer:
    """Knows that extents are not negative."""
    analyzer = Analyzer()
    for leaf in _leaves(arguments.values()):
        for extent in leaf.shape if isinstance(leaf, Tensor) else ():
            if isinstance(extent, Var):
                analyzer.bind(extent, (0, None))
    return analyzer
