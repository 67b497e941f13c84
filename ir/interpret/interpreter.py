"""Run any function of the loop IR, slowly and exactly as ir/expr.py says: the oracle for everything that is fast.

    run(function, [a, b, c])        # writes the outputs in place

Every kind of loop runs serially. Found on the way, each with an error of its own: accesses outside a buffer, reads of
elements that nothing was written to (of outputs and of what the program allocates), two iterations of a parallel loop
touching one element of which one writes it, assertions that do not hold.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Any

import numpy as np

from ...base.errors import user_source
from ..buffer import Buffer
from ..errors import AssertionFailed, OutOfBounds, ParallelRace, UninitializedRead
from ..expr import Var
from ..externs import EXTERNS
from ..stmt import Function
from ..visit import deep_recursion
from .faults import MANY, Fault
from .generate import GeneratedProgram, generate
from .memory import find_symbols, list_elements, scalar_value, write_back
from .source import SOURCE_NAME

__all__ = ["EXTERNS", "Interpreter", "run"]


class Interpreter:
    """A function made ready to be run often; what is generated is kept for each set of shapes.

    check: whether reads of unwritten elements and races are looked for. Accesses out of bounds and assertions always
    are. declared: the parameters as they were before flattening, where it took the shapes that symbols are read from. addresses:
    of C functions that it calls, by name; others are looked for in the process.
    """

    def __init__(
        self,
        function: Function,
        check: bool = True,
        declared: Sequence[Buffer | Var] | None = None,
        addresses: Mapping[str, int] | None = None,
    ) -> None:
        self.function, self.check = function, check
        self.addresses = dict(addresses or {})
        self.declared = tuple(function.params if declared is None else declared)
        self.programs: dict[object, GeneratedProgram] = {}

    def __call__(self, *args: Any) -> None:
        """Run on arrays and scalars in call order; outputs are written in place, as far as the program writes them."""
        function = self.function
        args = (*args, *(held.data for held in function.constants))
        symbols, strides = find_symbols(function, self.declared, args)
        scalars = set(function.scalars)
        shapes = {symbol: value for symbol, value in symbols.items() if symbol not in scalars}
        key = (tuple(shapes.values()), tuple(strides.values()))
        with deep_recursion(), np.errstate(all="ignore"):
            program = self.programs.get(key)
            if program is None:
                program = self.programs[key] = generate(
                    function, symbols, {**EXTERNS, **self.addresses}, self.check, strides
                )
            values: list[Any] = []
            for parameter, declared, argument in zip(function.params, self.declared, args, strict=True):
                if isinstance(parameter, Buffer) and isinstance(declared, Buffer):
                    values.append(
                        list_elements(declared, argument, self.check and parameter in function.outputs, symbols)
                    )
                elif isinstance(parameter, Var):
                    values.append(scalar_value(parameter, argument))
            try:
                program.space["run"](*values)
            except Fault as fault:
                raise _explain(function, program, fault) from None
        for parameter, declared, argument, value in zip(function.params, self.declared, args, values, strict=True):
            if isinstance(declared, Buffer) and parameter in function.outputs:
                write_back(declared, argument, value, symbols)


def run(
    function: Function,
    args: Sequence[Any],
    *,
    check: bool = True,
    declared: Sequence[Buffer | Var] | None = None,
) -> None:
    """Run `function` on numpy arrays and scalars in call order; outputs are written in place.

    Raises OutOfBounds, AssertionFailed, ArgumentsDoNotFit, UnknownOutsideCode, and with `check` UninitializedRead and
    ParallelRace (TW0303 to TW0308). declared: see `Interpreter`.
    """
    Interpreter(function, check, declared)(*args)


def _loop_values(program: GeneratedProgram, trace: TracebackType | None) -> str:
    """`i = 3, j = 0`: where the loops around the fault stood, from the frames of the running source."""
    lines = program.source.splitlines()
    texts: list[str] = []
    while trace is not None:
        if trace.tb_frame.f_code.co_filename == SOURCE_NAME:
            values = trace.tb_frame.f_locals
            texts += [
                f"{program.variables[name].name} = {values[name]}" for name in _find_loops(lines, trace.tb_lineno)
            ]
        trace = trace.tb_next
    return ", ".join(texts)


def _find_loops(lines: list[str], number: int) -> list[str]:
    """The variables of the loops of the source around a line, outermost first."""
    loops: list[str] = []
    depth = len(lines[number - 1]) - len(lines[number - 1].lstrip())
    for line in reversed(lines[: number - 1]):
        here = len(line) - len(line.lstrip())
        if here < depth:
            depth = here
            words = line.split(maxsplit=2)
            if words[0] == "for":
                loops.insert(0, words[1])
        if not here:
            break
    return loops


def _explain(function: Function, program: GeneratedProgram, fault: Fault) -> Exception:
    """The typed error for a check that failed."""
    where = _loop_values(program, fault.__traceback__)
    at = f", at {where}" if where else ""
    if fault.kind == "assert":
        return AssertionFailed(
            f"{function.name}: {fault.details[0]}",
            reason=f"the assertion does not hold{at}",
            called=user_source(),
            fix="call it with arguments for which the condition holds",
        )
    number: int = fault.details[0]
    buffer = program.buffers[number]
    if fault.kind == "bounds":
        _, index, extents = fault.details
        wrong = next(d for d, (i, e) in enumerate(zip(index, extents, strict=True)) if not 0 <= i < e)
        return OutOfBounds(
            f"{function.name} accesses {buffer.name}[{', '.join(map(str, index))}], out of bounds",
            reason=f"index {wrong} is {index[wrong]}, and the extent there is {extents[wrong]}{at}",
            called=user_source(),
            fix=_advise(extents[wrong] - 1),
        )
    if fault.kind == "unwritten":
        return UninitializedRead(
            f"{function.name} reads {program.element(*fault.details)}, to which nothing has been written",
            reason=f"its memory is not initialised{at}",
            called=user_source(),
            fix=f"store to all of {buffer.name} that is read: a set_store_predicate, a guard or a loop leaves this element out",
        )
    _, place, former, latter, action = fault.details
    several = "several iterations" if former == MANY else f"iteration {former}"
    return ParallelRace(
        f"iterations of a parallel loop of {function.name} race on {buffer.name}",
        reason=f"{program.element(number, place)} is touched by {several} and by iteration {latter}, "
        f"which {action}{at}",
        called=user_source(),
        fix="make the loop serial (`for i in n`), or give every iteration elements of its own",
    )


def _advise(last: int) -> str:
    """The advice for an index of a dimension whose last element is `last`."""
    if last < 0:
        return "leave the access out where the extent is 0"
    return f"te.max(0, te.min(index, {last})) keeps it within; te.if_then_else chooses what lies outside"
