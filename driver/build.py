"""Builder from a schedule to a callable: looked up among the kernels that are kept, else compiled and saved."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from os import PathLike
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeVar, cast, overload

from ..base.environment import is_enabled
from ..base.errors import user_source
from ..codegen.errors import ArgumentNotBuildable
from ..codegen.result import BuildOptions, require_switch
from ..codegen.target import Target
from ..ir import Function, Var, deep_recursion
from ..runtime import Kernel, Module
from ..schedule import Schedule
from ..schedule.errors import NotExact
from ..schedule.model.exactness import Exactness
from ..te import Tensor
from .cache.kernels import find_place
from .compile import BuildItem, Request, compile_programs
from .frameworks.origin import tell_origin
from .lower import Buildable, check_name, collect_evidence, lower, require_no_args, require_use, scheduled
from .reproduction_bundle import bundling
from .schedule import apply_calibration, tuned_schedule

if TYPE_CHECKING:
    from ..autotune.records import Database

__all__ = ["Module", "build", "build_with_options", "lower", "tuned_program"]


T_co = TypeVar("T_co", covariant=True)


class BuildsItself(Protocol[T_co]):
    """Interface of what is built of kernels by higher layers: a graph."""

    def built(
        self,
        target: str | Target,
        tuned: str | PathLike[str] | Database | None,
        options: BuildOptions,
        exact: bool,
        buckets: Sequence[Mapping[str, int | Sequence[int]]] | None,
    ) -> T_co: ...


@overload
def build(
    what: BuildsItself[T_co],
    args: None = None,
    target: str | Target = "llvm",
    name: str = "main",
    tuned: str | PathLike[str] | Database | None = None,
    bounds_check: bool = False,
    fast_math: bool = False,
    fp_contract: bool = False,
    exact: bool = False,
    calibration: Literal["kept"] | None = "kept",
    buckets: Sequence[Mapping[str, int | Sequence[int]]] | None = None,
) -> T_co: ...
@overload
def build(
    what: Buildable,
    args: Sequence[Tensor | Var] | None = None,
    target: str | Target = "llvm",
    name: str = "main",
    tuned: str | PathLike[str] | Database | None = None,
    bounds_check: bool = False,
    fast_math: bool = False,
    fp_contract: bool = False,
    exact: bool = False,
    calibration: Literal["kept"] | None = "kept",
) -> Kernel: ...
@overload
def build(
    what: Mapping[str, Buildable],
    args: None = None,
    target: str | Target = "llvm",
    name: str = "main",
    tuned: str | PathLike[str] | Database | None = None,
    bounds_check: bool = False,
    fast_math: bool = False,
    fp_contract: bool = False,
    exact: bool = False,
    calibration: Literal["kept"] | None = "kept",
) -> Module: ...


def build(
    what: BuildsItself[Any] | Buildable | Mapping[str, Buildable],
    args: Sequence[Tensor | Var] | None = None,
    target: str | Target = "llvm",
    name: str = "main",
    tuned: str | PathLike[str] | Database | None = None,
    bounds_check: bool = False,
    fast_math: bool = False,
    fp_contract: bool = False,
    exact: bool = False,
    calibration: Literal["kept"] | None = "kept",
    buckets: Sequence[Mapping[str, int | Sequence[int]]] | None = None,
) -> Any:
    """A kernel to call on arrays: `f(*args)` in the order of `args`; or a Module, for a dict of names.

    The environment's TILEWRIGHT_INTERPRET=1 takes target="interpret" whatever is asked for.

    Parameters
    ----------
    what : Schedule, sequence of Tensor, Function, dict or Graph
        A schedule with its `args`; a list of tensors, inputs then outputs, which topi.schedule schedules; a lowered function; a
        dict of name to any of these; or a graph (tw.graph), which gives a Model.
    args : sequence of Tensor or Var, optional
        Of a schedule: tensors and scalars in the order of a call.
    target : str or Target, default "llvm"
        "llvm" for this machine, "llvm -mcpu=... -mattr=..." for another CPU, "cuda -arch=sm_90" for an NVIDIA GPU, "cuda -emulate"
        for an emulated one, "c" for C11 text through the system's C compiler, "interpret" for the checking interpreter.
    name : str, default "main"
        Of the function.
    tuned : str, PathLike or Database, optional
        A database of autotune's, from which lists of tensors take their schedules; those that it has no result for take
        topi.schedule's.
    bounds_check : bool, default False
        Whether data-dependent indices are also checked while running.
    fast_math : bool, default False
        Whether floats may be reassociated and divided by reciprocals, which changes last bits; NaN and infinity keep their meaning.
    fp_contract : bool, default False
        Whether any product may be contracted into a sum, one rounding less. Without it every operator is rounded as it is written,
        but for the declared product under a te.sum (docs/numerics.md).
    exact : bool, default False
        Whether schedules that are chosen here keep the declared order of sums, so that results have the bits of the program without
        a schedule; one that is given and does not is refused.
    calibration : "kept" or None, default "kept"
        None schedules as for any machine with this processor, whatever `tilewright doctor --calibrate` measured of this one (the
        target's flag -uncalibrated, which holds for graphs too).
    buckets : sequence of dict, optional
        Of a graph whose shapes have symbols: sizes that get code of their own, `[{"n": 1}, {"n": range(2, 9)}]`. One native function
        then takes every size, and chooses; without it, code is made when a size is first met.

    Returns
    -------
    Kernel, Module or Model
        By the kind of `what`: a dict gives a Module, a graph a Model, all else a Kernel.

    Raises
    ------
    ArgumentNotBuildable (TW0420)
        `what` is none of these, `args`, `name`, `tuned` or `exact` stand beside what has them already or cannot follow them, or a
        switch is neither True nor False.
    NameNotAllowed (TW0422)
        No function can be called so.
    NotExact (TW0226)
        A schedule that is given reorders sums, and `exact` is set.
    UnknownTargetKind (TW0401), UnknownTargetOption (TW0402), UnknownProcessor (TW0403), UnknownFeature (TW0404)
        The target's text names something that is not there.
    UnknownTriple (TW0405), UnknownArchitecture (TW0406)
        The target's system or the GPU's architecture is not known.
    LoweringError, CodegenError, CudaError
        The program cannot be lowered, or made for the target.
    CorruptDatabase (TW0631), ForeignDatabase (TW0632), DatabaseBusy (TW0635)
        The database cannot be read.
    """
    options = BuildOptions(bounds_check=bounds_check, fast_math=fast_math, fp_contract=fp_contract)
    require_no_args(what, args, name)
    require_switch("exact", exact)
    require_use(what, name, tuned, exact)
    if isinstance(what, Function) and name != "main":  # the name is a symbol of the machine code
        what = replace(what, name=name)
    if hasattr(type(what), "built"):  # a graph knows itself how it is built
        return cast("BuildsItself[Any]", what).built(
            apply_calibration(target, calibration), tuned, options, exact, buckets
        )
    if buckets is not None:
        raise ArgumentNotBuildable(
            "buckets are sizes of a graph's symbols",
            reason=f"got a {type(what).__name__}",
            called=user_source(),
            fix="leave out buckets; te.var extents take any size",
        )
    chosen = apply_calibration(target, calibration)
    return build_with_options(
        cast("Buildable | Mapping[str, Buildable]", what), args, chosen, name, options, tuned, exact
    )


def build_with_options(
    what: Buildable | Mapping[str, Buildable],
    args: Sequence[Tensor | Var] | None,
    target: str | Target,
    name: str,
    options: BuildOptions,
    tuned: str | PathLike[str] | Database | None = None,
    exact: bool = False,
) -> Any:
    """Build as `build` does, with passes left out or doing more."""
    chosen = _check_target(target)
    if exact and options.contracts:  # contraction rounds otherwise than the program is written
        raise NotExact(
            "cannot build exactly",
            called=user_source(),
            fix="leave out exact=True, or what allows other roundings",
            reason=f"{'fast_math' if options.fast_math else 'fp_contract'}=True allows other roundings than are written",
        )
    # a fault from here on leaves a bundle with the program
    with deep_recursion(), bundling(lambda: collect_evidence(what) | {"target.txt": f"{target}\n"}):
        several = isinstance(what, Mapping)
        given = list(what.items()) if isinstance(what, Mapping) else [(name, what)]
        programs = tuple(
            BuildItem(key, tuned_program(each, chosen, tuned, exact), None if several else args) for key, each in given
        )
        for program in programs:
            check_name(program.name)
        request = Request(programs, chosen, options, renamed=several, exact=exact)
        module = _module(request)
        tell_exactness(module, request)
        tell_origin(module, request, built_again)
        return module if several else module[next(iter(module))]


def built_again(request: Request) -> Module:
    """The kernels of a request, which may come from another process."""
    with deep_recursion():
        module = _module(request)
        tell_exactness(module, request)
        tell_origin(module, request, built_again)
        return module


def _module(request: Request) -> Module:
    """The kernels that are asked for: looked up, else compiled and saved."""
    place = find_place(request)
    kept = None if place is None else place.load()
    if kept is not None:
        return kept
    result = compile_programs(request)
    if place is not None and result.native is not None:
        place.save(result.native)  # only native code is kept
    return result.module


def _check_target(target: str | Target) -> Target:
    """The target that is asked for, which has to exist even where the environment takes the interpreter instead."""
    asked = Target.parse(target)  # an unknown target is an error even where it is not used
    return Target("interpret") if is_enabled("TILEWRIGHT_INTERPRET") else asked


def tuned_program(what: Any, target: Target, database: str | PathLike[str] | Database | None, exact: bool) -> Any:
    """A list of tensors with its best schedule, where the database has one; anything else as it is."""
    if database is None or not isinstance(what, (list, tuple)):  # a schedule that is given is the user's decision
        return what
    tensors = list(cast("Sequence[Any]", what))
    if not tensors or not all(isinstance(each, Tensor) for each in tensors):
        return cast("Any", what)
    schedule = tuned_schedule(tensors, target, database, exact)
    return cast("Any", what) if schedule is None else (schedule, tensors)


# The bits of what was built, beside those of the program without a schedule.


def tell_exactness(module: Module, request: Request) -> None:
    """Let each kernel of a module answer `is_exact`; what is asked for now is remembered, and looked at when somebody asks."""
    for name, program in zip(module, request.programs, strict=True):
        module[name].exactness = _answer(program, request)


def _answer(program: BuildItem, request: Request) -> Callable[[], Exactness]:
    if request.options.contracts:
        word = "fast_math" if request.options.fast_math else "fp_contract"
        known = Exactness(
            f"{word} allows the compiler other roundings than are written", code=f"tw.build(..., {word}=True)"
        )
        return lambda: known
    what = program.what
    if isinstance(what, Function):
        return lambda: Exactness("nothing tells how a function that was lowered before was scheduled")
    parts: Sequence[Any] = [what] if isinstance(what, Schedule) else list(cast("Sequence[Any]", what))
    given = parts[0]
    if isinstance(given, Schedule):  # records are copied now: the user may go on scheduling
        records, outputs = list(given.records), list(given.outputs)
        return lambda: Schedule.replay(records, outputs).is_exact
    target, exact = request.target, request.exact
    return lambda: scheduled(parts, target, exact).is_exact
