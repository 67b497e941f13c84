"""Lowering from a schedule to its loops."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, cast

from ..base.arguments import is_a
from ..base.errors import user_source
from ..codegen.errors import ArgumentNotBuildable, NameNotAllowed
from ..codegen.target import Target
from ..ir import Function, Var, deep_recursion, verify
from ..schedule import Schedule, create_schedule, to_json
from ..schedule.errors import NotExact
from ..schedule.lowering.lower import lower as lower_schedule
from ..te import Tensor
from .reproduction_bundle import bundling
from .schedule import schedule

__all__ = [
    "Buildable",
    "check_name",
    "collect_evidence",
    "lower_program",
    "lower",
    "require_no_args",
    "require_use",
    "scheduled",
    "unread_tensors",
]

Buildable = Schedule | Function | Sequence[Tensor | Var] | tuple[Schedule, Sequence[Tensor | Var]]
"""What a kernel can be built from."""


def lower(s: Schedule, args: Sequence[Tensor | Var], name: str = "main") -> Function:
    """The loops that a schedule stands for, as a function of `args`.

    Parameters
    ----------
    s : Schedule
        A schedule.
    args : sequence of Tensor or Var
        Tensors and scalar te.vars, in the order of a call.
    name : str, default "main"
        Of the function.

    Raises
    ------
    LoweringError
        The schedule is not whole, or a tensor that is computed from is not passed.
    ArgumentNotBuildable (TW0420)
        `s` is no schedule, or `args` are not its arguments.
    NameNotAllowed (TW0422)
        No function can be called so.
    """
    require_no_args(s, args, name)
    require_use(s, name, None, False)
    with deep_recursion(), bundling(lambda: collect_evidence(s)):
        return lower_program(s, args, name)


def lower_program(
    what: Any, args: Sequence[Tensor | Var] | None, name: str, target: Target | None = None, exact: bool = False
) -> Function:
    """The lowered function of anything that can be built. target: for which lists of tensors are scheduled. exact: so that sums
    keep their declared order. Raises NotExact (TW0226) for a schedule in which they do not."""
    check_name(name)
    if isinstance(what, Function):
        verify(what)  # it may be from a text, or made by hand
        return what
    if isinstance(what, Schedule) and isinstance(args, (list, tuple)):
        _require_exact(what, exact)
        return lower_schedule(what, list(args), name)
    if isinstance(what, (list, tuple)):
        parts = list(cast("Sequence[Any]", what))
        if parts and all(isinstance(part, (Tensor, Var)) for part in parts):  # a list of tensors: topi schedules it
            _require_work(parts, name)
            return lower_schedule(scheduled(parts, target, exact), parts, name)
        if len(parts) == 2 and isinstance(parts[0], Schedule):
            _require_exact(parts[0], exact)
            return lower_schedule(parts[0], list(cast("Sequence[Tensor | Var]", parts[1])), name)
    missing = f"got {type(cast(object, what)).__name__}"
    if isinstance(what, Schedule):
        given = "" if args is None else f", and got {type(args).__name__}"
        missing = f"a schedule needs the list of its arguments{given}"
    meant = (
        f', target="{args}")'
        if isinstance(args, (str, Target))
        else "): the tensors in the order in which the kernel will be called"
    )
    raise ArgumentNotBuildable(
        f"cannot build '{name}'",
        reason=missing,
        called=user_source(),
        allowed="a schedule with args, a list of tensors (inputs, then outputs), a lowered function, or a dict of these "
        "(a schedule inside a dict as (schedule, args))",
        fix=f"tw.build(s, [A, B, C]{meant}",
    )


def require_no_args(what: object, args: object, name: str) -> None:
    """Raise ArgumentNotBuildable (TW0420) for arguments beside what has its own, most likely a target in their place."""
    if args is None or isinstance(what, Schedule):  # a schedule needs its arguments
        return
    meant = f'target="{args}"' if isinstance(args, (str, Target)) else ""
    raise ArgumentNotBuildable(
        f"cannot build '{name}'",
        reason=f"the second argument, {args!r}, is the list of a schedule's arguments, and a {type(what).__name__} has its own"[
            :300
        ],
        called=user_source(),
        allowed="tw.build(schedule, args, target), and for all else tw.build(what, target=...)",
        fix=meant or "leave out args",
    )


def require_use(what: object, name: str, tuned: object, exact: bool) -> None:
    """Raise ArgumentNotBuildable (TW0420) for options that could change nothing."""
    several, builds_itself = isinstance(what, Mapping), hasattr(type(what), "built")
    entries = list(cast("Mapping[str, object]", what).values()) if several else [what]
    if (several or builds_itself) and not (is_a(name, str) and name == "main"):
        owner = "the kernels of a dict have its keys as names" if several else "a graph has a name of its own"
        _refuse_option(f"name={name!r}", owner)
    if tuned is not None and not builds_itself and not any(_is_unscheduled(each) for each in entries):
        _refuse_option("tuned", "the schedule is given, and a database gives schedules to lists of tensors")
    if exact and any(isinstance(each, Function) for each in entries):
        _refuse_option(
            "exact=True", "a lowered function has its order of sums, and does not say whether it is the declared one"
        )


def _is_unscheduled(what: object) -> bool:
    return isinstance(what, (list, tuple)) and not any(
        isinstance(part, Schedule) for part in cast("Sequence[object]", what)
    )


def _refuse_option(option: str, reason: str) -> None:
    raise ArgumentNotBuildable(
        f"{option} has no use here", reason=reason, called=user_source(), fix=f"leave out {option.partition('=')[0]}"
    )


def _require_work(parts: Sequence[Tensor | Var], name: str) -> None:
    """Raise ArgumentNotBuildable (TW0420) for a list in which nothing is computed: most likely its result was forgotten."""
    if any(isinstance(part, Tensor) and not part.op.is_given for part in parts):  # the result was most likely forgotten
        return
    given = next((part for part in parts if isinstance(part, Tensor)), None)
    raise ArgumentNotBuildable(
        f"'{name}' would compute nothing",
        reason=f"every tensor of the list is given: {', '.join(part.name for part in parts)}",
        declared=None if given is None else given.source,
        called=user_source(),
        fix="tw.build([A, B, C]): the inputs, then what is computed from them",
    )


def _require_exact(schedule: Schedule, exact: bool) -> None:
    known = schedule.is_exact if exact else True
    if not known:
        raise NotExact(
            "cannot build the schedule exactly",
            reason=known.reason,
            called=known.source or user_source(),
            fix="leave out exact=True, or take back the primitive: print(s.is_exact)",
        )


def scheduled(parts: Sequence[Tensor | Var], target: Target | None, exact: bool) -> Schedule:
    """The schedule of a list of tensors: topi's, in which those that are passed are stored though others read them."""
    passed = [each for each in parts if isinstance(each, Tensor) and not each.op.is_given]
    if target is None or not passed:  # without a target there are no rules
        return create_schedule(unread_tensors(parts))
    return schedule(passed, target, exact=exact)


def unread_tensors(tensors: Sequence[Tensor | Var]) -> list[Tensor]:
    """The tensors of a list that are computed and that no other of them reads; its last tensor where there are none."""
    computed = [t for t in tensors if isinstance(t, Tensor) and not t.op.is_given]
    read = {source for tensor in computed for source in tensor.op.input_tensors}
    # an output that another one reads is stored on the way
    return [tensor for tensor in computed if tensor not in read] or [t for t in tensors if isinstance(t, Tensor)][-1:]


def check_name(name: Any) -> None:
    """A function's name is a symbol of machine code and of libraries, and stands in texts that are read back. Raises
    NameNotAllowed (TW0422)."""
    if not isinstance(name, str) or not _IDENTIFIER.fullmatch(name):
        raise NameNotAllowed(
            f"no function can be called {name!r}",
            called=user_source(),
            allowed="letters, digits and underscores, the first no digit",
            fix='name="my_kernel"',
        )


_IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def collect_evidence(what: Any) -> dict[str, str]:
    """Return what is built, as texts by file name: a schedule as code and as records, a function as it is printed."""
    if isinstance(what, Schedule):
        return {"schedule.py": what.as_python(), "records.json": to_json(what.records)}
    if isinstance(what, Function):
        return {"function.ir": f"{what}\n"}
    parts = (
        list(cast("Mapping[str, Any]", what).items())
        if isinstance(what, Mapping)
        else [(str(place), part) for place, part in enumerate(cast("Sequence[Any]", what))]
        if isinstance(what, (list, tuple))
        else []
    )
    return {f"{key}_{name}": text for key, part in parts for name, text in collect_evidence(part).items()}
