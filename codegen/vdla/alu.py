"""Expressions as steps of the ALU: what is begun with, then one operation after another.

max((C[i] + bias[i]) >> 4, 0)        →        mov C[i]; add bias[i]; shr 4; max 0
"""

from __future__ import annotations

from ...base.dataclass import dataclass
from ...ir.expr import Add, BinaryOp, BufferLoad, Call, Cast, Expr, FloorDiv, IntImm, Max, Min, Mul, Sub
from .machine import acc_buffer

__all__ = ["Refusal", "Step", "chain"]


@dataclass(frozen=True, slots=True)
class Refusal:
    """Reason for which there is no instruction, and what to write instead."""

    reason: str
    fix: str


@dataclass(frozen=True, slots=True)
class Step:
    """An operation with what it reads, or with numbers."""

    op: str
    load: BufferLoad | None = None
    numbers: tuple[int, ...] = ()


_OPS: dict[type[BinaryOp], str] = {Add: "add", Max: "max", Min: "min"}


def chain(value: Expr) -> list[Step] | Refusal:
    """The steps of a value, of which the first is a mov or a fill."""
    steps: list[Step] = []
    while True:
        leaf = _leaf(value)
        if isinstance(leaf, Refusal):
            return leaf
        if leaf is not None:
            begin = Step("fill", None, leaf.numbers) if leaf.load is None else Step("mov", leaf.load)
            return _merge_clips([begin, *reversed(steps)])
        taken = _last(value)
        if isinstance(taken, Refusal):
            return taken
        value, step = taken
        steps.append(step)


def _leaf(value: Expr) -> Step | Refusal | None:
    """Return a value that is read or known at once; None for one that is computed."""
    if isinstance(value, Cast) and value.dtype == value.value.dtype:
        value = value.value
    if isinstance(value, IntImm):
        return Step("", None, (value.value,))
    if not isinstance(value, BufferLoad):
        return None
    if value.buffer.scope != acc_buffer:
        where = "DRAM" if "." not in value.buffer.scope else value.buffer.scope
        return Refusal(
            f"the ALU reads {value.buffer.name}, which lies in {where}",
            f"s.cache_read({value.buffer.name}, vdla.acc_buffer), a copy that is int32 like everything there",
        )
    return Step("", value)


def _last(value: Expr) -> tuple[Expr, Step] | Refusal:
    """A value as what comes before and the last step."""
    shift = _shift(value)
    if shift is not None:
        return shift
    if isinstance(value, Sub) and isinstance(value.b, IntImm):
        return value.a, Step("add", None, (-value.b.value,))
    op = _OPS.get(type(value)) if isinstance(value, BinaryOp) else None
    if op is None or not isinstance(value, BinaryOp):
        return _refusal(value)
    for rest, other in ((value.a, value.b), (value.b, value.a)):
        leaf = _leaf(other)
        if isinstance(leaf, Refusal):
            return leaf
        if leaf is not None:
            return rest, Step(op, leaf.load, leaf.numbers)
    return Refusal(f"both sides of `{op}` are computed", "compute one side in a stage of its own, in vdla.acc_buffer")


def _shift(value: Expr) -> tuple[Expr, Step] | None:
    """A shift to the right by a number, which may have become a quotient."""
    if isinstance(value, Call) and value.name == "shift_right" and isinstance(value.args[1], IntImm):
        return value.args[0], Step("shr", None, (value.args[1].value,))
    divisor = value.b.value if isinstance(value, FloorDiv) and isinstance(value.b, IntImm) else 0
    if isinstance(value, FloorDiv) and divisor > 0 and not divisor & (divisor - 1):
        return value.a, Step("shr", None, (divisor.bit_length() - 1,))
    return None


def _refusal(value: Expr) -> Refusal:
    if isinstance(value, Mul):
        return Refusal(
            "a product is the array's work, not the ALU's",
            "cache_write before splitting, and s[CL].tensorize(axis, vdla.gemm8x8) for sums of products of int8; a "
            "factor is a power of two: x >> n",
        )
    if isinstance(value, Cast) and str(value.dtype) == "int32":
        return Refusal(
            f"vdla.acc_buffer holds int32, and what it widens is {value.value.dtype}",
            'widen it in a stage of its own in vdla.acc_buffer, `R.astype("int32")`, whose copy converts',
        )
    if isinstance(value, Cast):
        return Refusal(
            f"vdla.acc_buffer holds int32, not {value.dtype}",
            'leave `.astype("int8")` to the output, whose copy converts, and compute what comes before as a stage',
        )
    return Refusal(
        f"there is no instruction for `{type(value).__name__}`", "the ALU has + max min, x >> n and clip, on int32"
    )


def _merge_clips(steps: list[Step]) -> list[Step]:
    """A max and a min, both of numbers, as one clip."""
    short: list[Step] = []
    for step in steps:
        before = short[-1] if short else step
        ends = {each.op: each.numbers[0] for each in (before, step) if each.op in ("max", "min") and each.load is None}
        if before is not step and len(ends) == 2 and ends["max"] <= ends["min"]:
            short[-1] = Step("clip", None, (ends["max"], ends["min"]))
        else:
            short.append(step)
    return short
