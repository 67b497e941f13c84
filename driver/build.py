"""From a schedule to a callable: lower, build."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from os import PathLike
from typing import TYPE_CHECKING, Any, cast

from ..codegen.errors import ArgumentNotBuildable, NameNotAllowed
from ..codegen.kernel import Compiled, build_kernels
from ..codegen.target import Target
from ..errors import user_source
from ..ir import Function, Var
from ..ir.passes.common.options import AS_USUAL, PassOptions
from ..ir.visit import deep_recursion
from ..runtime import Module
from ..schedule import Schedule, create_schedule
from ..schedule.lowering.lower import lower as lower_schedule
from ..schedule.model.serialise import to_json
from ..te import Tensor
from .bundle import bundling
from .cache.key import Program
from .cache.lookup import kept_or_built

if TYPE_CHECKING:
    from ..autotune.records import Database

__all__ = ["Module", "build", "lower", "outputs_of"]

Buildable = Schedule | Function | Sequence[Tensor]


def lower(s: Schedule, args: Sequence[Tensor | Var], name: str = "main") -> Function:
    """The loops that a schedule stands for, as a function of `args` (tensors and scalar te.vars, in call order).

    Raises LoweringError where the schedule is not whole, or where a tensor that is computed from is not passed.
    """
    with deep_recursion(), bundling(lambda: _evidence(s)):
        return _function(s, args, name)


def build(
    what: Buildable | Mapping[str, Buildable], args: Sequence[Tensor | Var] | None = None, target: str | Target = "llvm",
    name: str = "main", tuned: str | PathLike[str] | Database | None = None, bounds_check: bool = False,
    fast_math: bool = False,
) -> Any:
    """A kernel to call on arrays: `f(*args)` in the order of `args`; or a Module, for a dict of names.

    what: a schedule with its `args`; a list of tensors, inputs then outputs, which topi.schedule schedules; a lowered
    function; or a dict of name to any of these. target: "llvm" for this machine, "llvm -mcpu=... -mattr=..." for another
    CPU, "cuda -arch=sm_90" for an NVIDIA GPU, "cuda -emulate" for an emulated one, "c" for C11 text
    through the system's C compiler, "interpret" for the checking interpreter.
    tuned: a database of autotune's, from which lists of tensors take their schedules; those that it has no result for take
    topi.schedule's. bounds_check: also check data-dependent indices while running.
    fast_math: floats may be reassociated and divided by reciprocals, which changes last bits; NaN and infinity keep their
    meaning. The environment's TILEWRIGHT_INTERPRET=1 takes target="interpret" whatever is asked for.
    Raises LoweringError, CodegenError; RecordError for a database that cannot be read.
    """
    return build_with_options(what, args, target, name, AS_USUAL, tuned, bounds_check, fast_math)


def build_with_options(
    what: Buildable | Mapping[str, Buildable], args: Sequence[Tensor | Var] | None, target: str | Target, name: str,
    options: PassOptions, tuned: str | PathLike[str] | Database | None = None, bounds_check: bool = False, fast_math: bool = False,
) -> Any:
    """As build, with passes left out or doing more."""
    chosen = _chosen(target)
    with deep_recursion(), bundling(lambda: _evidence(what) | {"target.txt": f"{target}\n"}):
        several = isinstance(what, Mapping)
        given = list(what.items()) if isinstance(what, Mapping) else [(name, what)]
        programs: list[Program] = [(key, _tuned(each, chosen, tuned), None if several else args) for key, each in given]
        for key, *_ in programs:
            _check_name(key)

        def anew(programs: Sequence[Program], made: Callable[[Compiled], None] | None = None) -> Module:
            functions = [_function(each, own, key, chosen) for key, each, own in programs]
            if several:
                functions = [replace(one, name=key) for one, (key, *_) in zip(functions, programs, strict=True)]
            return build_kernels(functions, chosen, bounds_check=bounds_check, fast_math=fast_math, options=options, made=made)

        module = kept_or_built(programs, chosen, (bounds_check, fast_math, options), anew)
        return module if several else module[next(iter(module))]


def _chosen(target: str | Target) -> Target:
    """The target that is asked for, which has to exist even where the environment takes the interpreter instead."""
    asked = target if isinstance(target, Target) else Target.parse(target)
    return Target("interpret") if os.environ.get("TILEWRIGHT_INTERPRET", "0") not in ("", "0") else asked


def _evidence(what: Any) -> dict[str, str]:
    """What is built, as texts: a schedule as code and as records, a function as it is printed."""
    if isinstance(what, Schedule):
        return {"schedule.py": what.as_python(), "records.json": to_json(what.records)}
    if isinstance(what, Function):
        return {"function.ir": f"{what}\n"}
    parts = list(cast("Mapping[str, Any]", what).items()) if isinstance(what, Mapping) else \
        [(str(place), part) for place, part in enumerate(cast("Sequence[Any]", what))] if isinstance(what, (list, tuple)) else []
    return {f"{key}_{name}": text for key, part in parts for name, text in _evidence(part).items()}


def _function(what: Any, args: Sequence[Tensor | Var] | None, name: str, target: Target | None = None) -> Function:
    """The lowered function of anything that can be built. target: for which lists of tensors are scheduled."""
    _check_name(name)
    if isinstance(what, Function):
        return what
    if isinstance(what, Schedule) and isinstance(args, (list, tuple)):
        return lower_schedule(what, list(args), name)
    if isinstance(what, (list, tuple)):
        parts = list(cast("Sequence[Any]", what))
        if parts and all(isinstance(part, (Tensor, Var)) for part in parts):
            return lower_schedule(_scheduled(parts, target), parts, name)
        if len(parts) == 2 and isinstance(parts[0], Schedule):
            return lower_schedule(parts[0], list(cast("Sequence[Tensor | Var]", parts[1])), name)
    missing = f"got {type(cast(object, what)).__name__}"
    if isinstance(what, Schedule):
        given = "" if args is None else f", and got {type(args).__name__}"
        missing = f"a schedule needs the list of its arguments{given}"
    raise ArgumentNotBuildable(
        f"cannot build '{name}'", reason=missing, called=user_source(),
        allowed="a schedule with args, a list of tensors (inputs, then outputs), a lowered function, or a dict of these "
                "(a schedule inside a dict as (schedule, args))",
        fix="tw.build(s, [A, B, C]): the tensors in the order in which the kernel will be called",
    )


def _scheduled(parts: Sequence[Tensor | Var], target: Target | None) -> Schedule:
    """The schedule of a list of tensors: topi's, in which those that are passed are stored though others read them."""
    passed = [one for one in parts if isinstance(one, Tensor) and not one.op.is_given]
    if target is None or not passed:
        return create_schedule(outputs_of(parts))
    from ..autoschedule.scheduler import schedule  # what brings its own schedule need not load the rules

    return schedule(passed, target)


def _tuned(what: Any, target: Target, database: str | PathLike[str] | Database | None) -> Any:
    """A list of tensors with its best schedule, where the database has one; anything else as it is."""
    if database is None or not isinstance(what, (list, tuple)):
        return what
    given = cast("Sequence[Any]", what)
    tensors = list(given)
    if not tensors or not all(isinstance(one, Tensor) for one in tensors):
        return given
    from ..autotune.records import find_schedule  # what runs kernels need not load what chooses them

    schedule = find_schedule(tensors, target, database)
    return given if schedule is None else (schedule, tensors)


def _check_name(name: Any) -> None:
    """It is a symbol of machine code and of libraries, and stands in the texts that are read back."""
    if not isinstance(name, str) or not _IDENTIFIER.fullmatch(name):
        raise NameNotAllowed(f"no function can be called {name!r}", called=user_source(),
                             allowed="letters, digits and underscores, the first no digit", fix='name="my_kernel"')


_IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def outputs_of(tensors: Sequence[Tensor | Var]) -> list[Tensor]:
    """The tensors of a list that are computed and that no other of them reads."""
    computed = [t for t in tensors if isinstance(t, Tensor) and not t.op.is_given]
    read = {source for tensor in computed for source in tensor.op.input_tensors}
    return [tensor for tensor in computed if tensor not in read] or [t for t in tensors if isinstance(t, Tensor)][-1:]
