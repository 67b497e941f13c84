"""Intrinsics of one's own: a name, and for each target a rule that says what it is there.

TVM applies a target's rules when it generates code. Here they are applied when the call is written, one beside the other
under te.target_has, which is decided when code is made.
"""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

from ...ir import ops as _ops
from ...ir.expr import Expr
from ...te import call_intrin as _call_intrin
from ...te import if_then_else, target_has
from . import wmma

__all__ = ["CallEffectKind", "call_intrin", "register_intrin_lowering", "register_op_attr"]

_RULES: dict[str, dict[str, tuple[int, Callable[[Any], Expr]]]] = {}
"""{intrinsic: {target: (level, rule)}}."""


class CallEffectKind:
    """tvm.tir.CallEffectKind."""

    ExprAnnotation, Pure, ReadState, UpdateState, SpecialCallArg, EmbedInfo, ControlJump = range(7)
    Opaque = UpdateState


def register_op_attr(op_name: str, attr_key: str, value: Any = None, level: int = 10) -> Any:
    """Make an operator's name known. What its effects are follows here from what its rules make of it."""
    del attr_key, level
    _RULES.setdefault(_plain(op_name), {})
    return value


def register_intrin_lowering(
    op_name: str, target: str, *, f: Callable[[Any], Expr] | None = None, level: int = 10
) -> Any:
    """The rule of a target ("llvm", "cuda", or "default" for all): from a call (.args, .dtype) to an expression. Of two
    the one of the higher level counts. Also a decorator."""

    def register(rule: Callable[[Any], Expr]) -> Callable[[Any], Expr]:
        rules = _RULES.setdefault(_plain(op_name), {})
        if target not in rules or rules[target][0] <= level:
            rules[target] = (level, rule)
        return rule

    return register if f is None else register(f)


def call_intrin(dtype: Any, func_name: Any, *args: Any, span: object = None) -> Expr:
    """A call of an intrinsic: of ours by name, or of one that rules were registered for."""
    del span
    name = _plain(getattr(func_name, "name", func_name))
    if name in wmma.CALLS:
        return wmma.call(name, *args)
    if name not in _RULES:
        return _call_intrin(dtype, name, *args)
    rules = {target: rule for target, (_, rule) in _RULES[name].items()}
    if not rules:
        raise ValueError(
            f"no rule says what {name!r} is: tvm.ir.register_intrin_lowering({name!r}, target='default', f=...)"
        )
    call = SimpleNamespace(args=[_ops.convert(arg) for arg in args], dtype=str(dtype), name=name)
    host = rules.get("llvm") or rules.get("default") or next(iter(rules.values()))
    device = rules.get("cuda") or rules.get("default") or host
    value = host(call)
    return value if device is host else if_then_else(target_has("cuda"), device(call), value)


def _plain(name: Any) -> str:
    return str(name).removeprefix("tir.")
