"""Constants of kernels that are kept: what the program has is taken from it again, and what was computed from that is computed
again, by the code that computed it. So weights lie on the disk once, where the user keeps them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, cast

from ...codegen.abi.parallel import PARALLEL_FOR, parallel_for_address
from ...codegen.constants import addresses
from ...codegen.evaluate import Evaluation, run
from ...codegen.llvm.jit import CompiledModule, process_symbols
from ...codegen.result import NativeCode
from ...codegen.target import Target
from ...ir.constant import Constant, aligned_zeros
from ...ir.stmt import Function
from ...runtime.array import numpy_dtype
from ...schedule import Schedule
from ...te import Operation, Tensor
from ..compile import BuildItem

__all__ = ["about_constants", "bound_constants", "collect_constants", "resolve_symbols"]

Reference = list[int]
"""[0, n]: number n of the program's constants. [1, n]: number n of those that are computed."""


def collect_constants(programs: Sequence[BuildItem]) -> list[Constant]:
    """The constants that programs were declared with, in an order that the next process finds too."""
    roots = [op for program in programs for op in _operations((program.what, program.args))]
    constants = dict.fromkeys(
        held for program in programs if isinstance(program.what, Function) for held in program.what.constants
    )
    met: set[Operation] = set()
    while roots:
        op = roots.pop()
        if op not in met:  # a graph of operations shares its inputs
            met.add(op)
            roots.extend(tensor.op for tensor in op.input_tensors)
            if op.constant is not None:
                constants[op.constant] = None
    return list(constants)


def _operations(what: Any) -> Iterator[Operation]:
    if isinstance(what, Schedule):
        yield from what.outputs
        yield from (stage.op for stage in what.stages)
    elif isinstance(what, Tensor):
        yield what.op
    elif isinstance(what, (list, tuple)):
        for tensor in cast("Sequence[Any]", what):
            yield from _operations(tensor)


def about_constants(compiled: NativeCode, given: Sequence[Constant]) -> dict[str, Any] | None:
    """Return what is written down of the constants that code reads; None where one comes from elsewhere."""
    evaluation = compiled.evaluation
    computed = [] if evaluation is None else [held for _, results in evaluation.calls for held in results]
    places: dict[Constant, Reference] = {held: [0, at] for at, held in enumerate(given)}
    places |= {held: [1, at] for at, held in enumerate(computed)}
    # a constant that comes from elsewhere could not be found again
    if not places.keys() >= {*compiled.constants, *(evaluation.constants if evaluation else ())}:
        return None
    about: dict[str, Any] = {"constants": [[symbol, *places[held]] for held, symbol in compiled.constants.items()]}
    if evaluation is not None:
        about["evaluation"] = {
            "bytes": len(evaluation.module.object_bytes),
            "outside": list(evaluation.module.undefined_functions()),
            "parallel": evaluation.parallel,
            "constants": [[symbol, *places[held]] for held, symbol in evaluation.constants.items()],
            "calls": [
                [symbol, [[held.name, str(held.data.dtype), list(held.data.shape)] for held in results]]
                for symbol, results in evaluation.calls
            ],
        }
    return about


def bound_constants(
    about: Mapping[str, Any], code: bytes, target: Target, given: Sequence[Constant]
) -> dict[Constant, str]:
    """The constants of a kept kernel by their symbols. code: what computes some of them. Raises UnresolvedSymbol (TW0411)."""
    known: list[list[Constant]] = [list(given), []]

    def named(places: Iterable[tuple[str, int, int]]) -> dict[Constant, str]:
        return {known[kind][at]: symbol for symbol, kind, at in places}

    kept = about.get("evaluation")
    if kept is not None:
        calls = tuple((symbol, tuple(_memory(*result) for result in results)) for symbol, results in kept["calls"])
        known[1] = [held for _, results in calls for held in results]
        read = named(kept["constants"])
        symbols = resolve_symbols(kept["outside"], kept["parallel"]) | addresses(read)
        module = CompiledModule(target, "", code, {}, tuple(symbol for symbol, _ in calls), (), symbols)
        run(Evaluation(module, read, calls, kept["parallel"]))
    return named(about["constants"])


def _memory(name: str, dtype: str, shape: Sequence[int]) -> Constant:
    return Constant(name, aligned_zeros(tuple(shape), numpy_dtype(dtype)))


def resolve_symbols(names: Sequence[str], parallel: bool) -> dict[str, int]:
    """The addresses of what kept code calls. Raises UnresolvedSymbol (TW0411) where it is not in this process."""
    symbols = process_symbols(name for name in names if name != PARALLEL_FOR)
    if parallel:
        symbols[PARALLEL_FOR] = parallel_for_address()
    return symbols
