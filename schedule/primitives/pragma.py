"""pragma: what passes and code generation are told about a loop, or with a loop about the program."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from ...errors import user_source
from ...ir.expr import Expr, IntImm, StringImm
from ...ir.ops import const
from ...ir.passes.cpu.nontemporal import NONTEMPORAL
from ..errors import UnknownPragma
from ..model.axes import find_leaf, outline

if TYPE_CHECKING:
    from ...ir.expr import IterVar
    from ..model.stage import Stage

__all__ = ["IMPORTS", "IMPORT_C", "IMPORT_LLVM", "SKIP", "loop_pragmas", "pragma"]

IMPORT_LLVM, IMPORT_C = "import_llvm", "import_c"
IMPORTS = (IMPORT_LLVM, IMPORT_C)
"""The keys of text that defines functions: they say something about the program, not about the loop."""
SKIP = "debug_skip_region"
"""The key of a loop that is left out, with all that it holds."""


@dataclass(frozen=True, slots=True)
class _Key:
    """What values a key takes: a test, and the value of an example."""

    takes: Callable[[object], bool]
    example: object


_SWITCH = _Key(lambda value: value is None or isinstance(value, (bool, int)), None)
_COUNT = _Key(lambda value: isinstance(value, int) and value >= 0, 16)
_TEXT = _Key(lambda value: isinstance(value, str) and bool(value.strip()), "the text that defines the functions")

_KEYS = {
    "auto_unroll_max_step": _COUNT, "unroll_explicit": _Key(_COUNT.takes, True),
    "parallel_launch_point": _SWITCH, "parallel_stride_pattern": _SWITCH, "parallel_barrier_when_finish": _SWITCH,
    NONTEMPORAL: _SWITCH, SKIP: _SWITCH, IMPORT_LLVM: _TEXT, IMPORT_C: _TEXT,
}


def pragma(stage: Stage, axis: IterVar, key: str, value: Any) -> None:
    """See Stage.pragma."""
    find_leaf(stage, axis, "cannot put a pragma on")
    headline = f"cannot put the pragma {key!r} on '{axis.name}' of stage {stage.name}"

    def bad(reason: str, fix: str) -> UnknownPragma:
        return UnknownPragma(headline, reason=reason, declared=stage.op.source, called=user_source(),
                             loops=outline(stage, [axis]), allowed=", ".join(_KEYS), fix=fix)

    known = _KEYS.get(key) if isinstance(key, str) else None
    if known is None:
        raise bad("no pass reads this key", f's[{stage.name}].pragma({axis.name}, "auto_unroll_max_step", 16)')
    plain = value.value if isinstance(value, (IntImm, StringImm)) else value
    if not isinstance(plain, (int, str, type(None))):
        raise bad(f"its value is {value!r}, no constant"[:200], "give an integer, a bool or a string")
    if not known.takes(plain):
        example = "" if known.example is None else f", {known.example!r}"
        raise bad(f"its value is {plain!r}"[:200], f"s[{stage.name}].pragma({axis.name}, {key!r}{example})")
    stage.schedule.record("pragma", stage, axis=axis, pragma_type=key, pragma_value=plain)
    made: Expr = StringImm(plain) if isinstance(plain, str) else const(1 if plain is None else int(plain))
    attr = stage.attr(axis)
    others = tuple(pair for pair in attr.pragmas if pair[0] != key)
    stage.iter_attrs[axis] = replace(attr, pragmas=(*others, (key, made)))


def loop_pragmas(pragmas: tuple[tuple[str, Expr | None], ...]) -> tuple[tuple[str, Expr], ...]:
    """Those that say something about the loop."""
    return tuple((key, value if value is not None else const(1)) for key, value in pragmas if key not in IMPORTS)


def skips(pragmas: tuple[tuple[str, Expr | None], ...]) -> bool:
    """Whether a loop is left out."""
    return any(key == SKIP and not (isinstance(value, IntImm) and value.value == 0) for key, value in pragmas)
