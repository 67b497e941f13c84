"""Expressions as LLVM text: a table from node class to builder."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ...errors import InternalError
from ...ir.buffer import Buffer
from ...ir.dtype import BOOL, DType
from ...ir.expr import (
    EQ,
    GE,
    GT,
    LE,
    LT,
    NE,
    Add,
    And,
    BinaryOp,
    Broadcast,
    BufferLoad,
    Call,
    Cast,
    Div,
    Expr,
    FloatImm,
    FloorDiv,
    FloorMod,
    IfThenElse,
    IntImm,
    IterVar,
    Let,
    Max,
    Min,
    Mul,
    Not,
    Or,
    Ramp,
    Select,
    Shuffle,
    SizeVar,
    Sub,
    TruncDiv,
    TruncMod,
    Var,
)
from ...ir.ops import wrap_int
from ...ir.visit import walk
from . import memory
from .arithmetic import compare, convert, divide, float_floor_quotient, float_remainder, maximum_of, select
from .facts import IndexFacts
from .intrinsics import emit_call
from .maths_lanes import MathsOptions
from .memory import Place
from .text import FunctionText
from .types import computing_dtype, float_constant, int_constant, llvm_type, mangled, shuffle_mask, zero

__all__ = ["ExprEmitter"]


class ExprEmitter:
    """Writes expressions into one function. `variables` and `places` say where variables and buffers are."""

    def __init__(self, f: FunctionText, facts: IndexFacts, *, fast_math: bool, maths: MathsOptions) -> None:
        self.f, self.facts, self.maths = f, facts, maths
        self.variables: dict[Var, str] = {}
        self.places: dict[Buffer, Place] = {}
        self._memo: dict[int, str] = {}
        self._mask: tuple[str, int] | None = None
        self.leave_if: Callable[[str, str], None] = lambda condition, status: None
        """Leaves the function with a status where a condition holds; whoever writes statements says how."""
        self.streamed: Buffer | None = None
        """The buffer to which vectors are stored, aligned, past the caches."""
        self.streams = False
        """Whether anything was."""
        self.vector_accesses = 0
        """How many loads and stores of vectors were written."""
        self.scalar_calls = 0
        """How many calls that LLVM makes no vectors of."""
        # A product may be contracted into a sum by default. Never nnan or ninf: the identities of min and max are
        # infinite, and padding tests NaN.
        self.float_flags = "reassoc nsz arcp contract afn " if fast_math else "contract "

    def start_statement(self) -> None:
        """What was read so far may have changed."""
        self._memo.clear()

    def place(self, buffer: Buffer) -> Place:
        """Where a buffer lies."""
        found = self.places.get(buffer)
        if found is None:
            raise InternalError(f"buffer {buffer.name} is used outside of its allocation")
        return found

    def value(self, expr: Expr) -> str:
        """The text of an expression's value; what it needs is written before."""
        key = id(expr)
        found = self._memo.get(key)
        if found is None:
            builder = _BUILDERS.get(type(expr))
            if builder is None:
                raise InternalError(f"a {type(expr).__name__} reached code generation: {expr}")
            found = self._memo[key] = builder(self, expr)
        return found

    def constant_int(self, expr: Expr) -> int | None:
        """The value of a constant integer, the same in every lane; else None."""
        if isinstance(expr, Broadcast):
            expr = expr.value
        return expr.value if isinstance(expr, IntImm) else None

    def splat(self, scalar: str, dtype: DType) -> str:
        """A scalar value in every lane of `dtype`."""
        kind, element = llvm_type(dtype), llvm_type(dtype.element)
        first = self.f.op(f"insertelement {kind} poison, {element} {scalar}, i64 0")
        return self.f.op(f"shufflevector {kind} {first}, {kind} poison, <{dtype.lanes} x i32> zeroinitializer")

    def each_lane(self, operands: list[str], dtype: DType, result: DType, scalar: Callable[[list[str]], str]) -> str:
        """`scalar` applied to each lane of the operands, which are all of `dtype`."""
        if dtype.lanes == 1:
            return scalar(operands)
        made, kind = "poison", llvm_type(result)
        for lane in range(dtype.lanes):
            one = scalar([self.f.op(f"extractelement {llvm_type(dtype)} {v}, i64 {lane}") for v in operands])
            made = self.f.op(f"insertelement {kind} {made}, {llvm_type(result.element)} {one}, i64 {lane}")
        return made

    # Control flow within expressions

    def mask_of(self, predicate: Expr | None, lanes: int) -> str | None:
        """The lanes that an access touches: those of its predicate, in the arm of a vector IfThenElse that is being
        written. None for all."""
        mask = None
        if predicate is not None and self.constant_int(predicate) != 1:
            mask = self.value(predicate)
        if self._mask is None:
            return mask
        chosen, mask_lanes = self._mask
        if mask_lanes != lanes:  # a scalar among vectors: read once if any lane wants it
            chosen = self.f.op(f"call i1 @llvm.vector.reduce.or.v{mask_lanes}i1({_bools(mask_lanes)} {chosen})")
        return chosen if mask is None else self.f.op(f"and {_bools(lanes)} {chosen}, {mask}")

    def guarded(self, condition: str, dtype: DType, make: Callable[[], str]) -> str:
        """The value that `make` writes, evaluated only if the scalar condition holds; else 0."""
        return self._chosen(condition, dtype, make, lambda: zero(dtype))

    def when(self, condition: str, act: Callable[[], None]) -> None:
        """What `act` writes, executed only if the scalar condition holds."""
        then, after = self.f.fresh("then"), self.f.fresh("after")
        self.f.branch(condition, then, after)
        self.f.begin(then)
        with self.f.scope():
            self._in_branch(act)
        self.f.jump(after)
        self.f.begin(after)

    def _chosen(self, condition: str, dtype: DType, make_true: Callable[[], str], make_false: Callable[[], str]) -> str:
        then, otherwise, after = (self.f.fresh(stem) for stem in ("then", "else", "after"))
        self.f.branch(condition, then, otherwise)
        ends: list[str] = []
        for label, make in ((then, make_true), (otherwise, make_false)):
            self.f.begin(label)
            with self.f.scope():
                value = self._in_branch(make)
            ends.append(f"[ {value}, %{self.f.label} ]")
            self.f.jump(after)
        self.f.begin(after)
        return self.f.read(f"phi {llvm_type(dtype)} {', '.join(ends)}")

    def _in_branch(self, make: Callable[[], Any]) -> Any:
        """Values made within a branch must not be used after it."""
        before, self._memo = self._memo, dict(self._memo)
        result = make()
        self._memo = before
        return result

    def if_then_else(self, expr: IfThenElse) -> str:
        condition = self.value(expr.condition)
        if _is_speculatable(expr.true_value) and _is_speculatable(expr.false_value):
            return self.select(expr.condition, expr)
        if expr.condition.dtype.lanes == 1:
            return self._chosen(condition, expr.dtype, lambda: self.value(expr.true_value),
                                lambda: self.value(expr.false_value))
        lanes = expr.condition.dtype.lanes
        negated = self.f.op(f"xor {_bools(lanes)} {condition}, splat (i1 true)")
        a = self._under_mask(condition, lanes, expr.true_value)
        b = self._under_mask(negated, lanes, expr.false_value)
        return select(self.f, condition, a, b, expr.dtype)

    def _under_mask(self, mask: str, lanes: int, expr: Expr) -> str:
        """A vector whose loads touch only the lanes of `mask`."""
        before = self._mask
        if before is not None:
            mask = self.f.op(f"and {_bools(lanes)} {before[0]}, {mask}")
        self._mask = (mask, lanes)
        result = self._in_branch(lambda: self.value(expr))
        self._mask = before
        return result

    def select(self, condition: Expr, expr: Select | IfThenElse) -> str:
        chosen, kind = self.value(condition), llvm_type(expr.dtype)
        a, b = self.value(expr.true_value), self.value(expr.false_value)
        return self.f.op(f"select {llvm_type(condition.dtype)} {chosen}, {kind} {a}, {kind} {b}")


def _bools(lanes: int) -> str:
    return llvm_type(BOOL.with_lanes(lanes))


def _is_speculatable(expr: Expr) -> bool:
    """Whether evaluating it costs little and touches no memory."""
    for count, node in enumerate(walk(expr)):
        if count > 8 or isinstance(node, (BufferLoad, Call, IfThenElse)):
            return False
    return True


# Leaves


def _variable(em: ExprEmitter, expr: Var) -> str:
    found = em.variables.get(expr)
    if found is None:
        raise InternalError(f"variable {expr.name} is used where it is not bound")
    return found


def _integer(_: ExprEmitter, expr: IntImm) -> str:
    return int_constant(expr.value, expr.dtype)


def _float(_: ExprEmitter, expr: FloatImm) -> str:
    return float_constant(expr.value, expr.dtype)


# Operators


def _arithmetic(integer: str, floating: str) -> Callable[[ExprEmitter, BinaryOp], str]:
    def build(em: ExprEmitter, expr: BinaryOp) -> str:
        a, b, dtype = em.value(expr.a), em.value(expr.b), expr.dtype
        if not dtype.is_float:
            flags = " nsw" if em.facts.never_overflows(expr) else ""
            return em.f.op(f"{integer}{flags} {llvm_type(dtype)} {a}, {b}")
        wide = computing_dtype(dtype)
        a, b = convert(em.f, a, dtype, wide), convert(em.f, b, dtype, wide)
        # Of 16-bit floats every operation is rounded, so nothing can be contracted.
        flags = em.float_flags if wide is dtype else ""
        return convert(em.f, em.f.op(f"{floating} {flags}{llvm_type(wide)} {a}, {b}"), wide, dtype)

    return build


def _division(*, floor: bool, want_remainder: bool) -> Callable[[ExprEmitter, BinaryOp], str]:
    def build(em: ExprEmitter, expr: BinaryOp) -> str:
        a, b, dtype = em.value(expr.a), em.value(expr.b), expr.dtype
        if dtype.is_float:
            return _float_division(em, a, b, dtype, floor, want_remainder)
        unsigned = em.facts.not_negative(expr.a) and em.facts.not_negative(expr.b)
        return divide(em.f, a, b, dtype, floor=floor, divisor=em.constant_int(expr.b), unsigned=unsigned,
                      want_remainder=want_remainder)

    return build


def _float_division(em: ExprEmitter, a: str, b: str, dtype: DType, floor: bool, want_remainder: bool) -> str:
    wide = computing_dtype(dtype)
    a, b = convert(em.f, a, dtype, wide), convert(em.f, b, dtype, wide)
    if want_remainder:
        result = float_remainder(em.f, a, b, wide, floor=floor)
    elif floor:
        result = float_floor_quotient(em.f, a, b, wide)
    else:
        kind = llvm_type(wide)
        quotient = em.f.op(f"fdiv {kind} {a}, {b}")
        result = em.f.op(f"call {kind} @llvm.trunc.{mangled(wide)}({kind} {quotient})")
    return convert(em.f, result, wide, dtype)


def _extremum(*, least: bool) -> Callable[[ExprEmitter, BinaryOp], str]:
    def build(em: ExprEmitter, expr: BinaryOp) -> str:
        dtype, wide = expr.dtype, computing_dtype(expr.dtype)
        x, y = convert(em.f, em.value(expr.a), dtype, wide), convert(em.f, em.value(expr.b), dtype, wide)
        return convert(em.f, maximum_of(em.f, x, y, wide, least=least), wide, dtype)

    return build


def _comparison(em: ExprEmitter, expr: BinaryOp) -> str:
    dtype = expr.a.dtype
    wide = computing_dtype(dtype)
    a, b = (convert(em.f, em.value(side), dtype, wide) for side in (expr.a, expr.b))
    return compare(em.f, expr.symbol, a, b, wide)


def _logical(operation: str) -> Callable[[ExprEmitter, BinaryOp], str]:
    def build(em: ExprEmitter, expr: BinaryOp) -> str:
        a, b = em.value(expr.a), em.value(expr.b)
        return em.f.op(f"{operation} {llvm_type(expr.dtype)} {a}, {b}")

    return build


def _not(em: ExprEmitter, expr: Not) -> str:
    return em.f.op(f"xor {llvm_type(expr.dtype)} {em.value(expr.value)}, {int_constant(1, expr.dtype)}")


def _cast(em: ExprEmitter, expr: Cast) -> str:
    not_negative = expr.value.dtype.kind == "int" and em.facts.not_negative(expr.value)
    return convert(em.f, em.value(expr.value), expr.value.dtype, expr.dtype, not_negative=not_negative)


def _let(em: ExprEmitter, expr: Let) -> str:
    em.variables[expr.var] = em.value(expr.value)
    em.facts.bind_value(expr.var, expr.value)
    return em.value(expr.body)


# Vectors


def _ramp(em: ExprEmitter, expr: Ramp) -> str:
    dtype, kind = expr.dtype, llvm_type(expr.dtype)
    flags = " nsw" if em.facts.never_overflows(expr) else ""
    stride = em.constant_int(expr.stride)
    base = _broadcast_value(em, expr.base, dtype)
    if stride is not None:
        element, scalar = dtype.element, llvm_type(dtype.element)
        steps = f"<{', '.join(f'{scalar} {wrap_int(lane * stride, element)}' for lane in range(dtype.lanes))}>"
    else:
        numbers = f"<{', '.join(f'{llvm_type(dtype.element)} {lane}' for lane in range(dtype.lanes))}>"
        steps = em.f.op(f"mul{flags} {kind} {_broadcast_value(em, expr.stride, dtype)}, {numbers}")
    return em.f.op(f"add{flags} {kind} {base}, {steps}")


def _broadcast(em: ExprEmitter, expr: Broadcast) -> str:
    return _broadcast_value(em, expr.value, expr.dtype)


def _broadcast_value(em: ExprEmitter, scalar: Expr, dtype: DType) -> str:
    if isinstance(scalar, IntImm):
        return int_constant(scalar.value, dtype)
    if isinstance(scalar, FloatImm):
        return float_constant(scalar.value, dtype)
    return em.splat(em.value(scalar), dtype)


def _shuffle(em: ExprEmitter, expr: Shuffle) -> str:
    joined, dtype = em.value(expr.vectors[0]), expr.vectors[0].dtype
    for vector in expr.vectors[1:]:
        joined, dtype = _concatenated(em, joined, dtype, em.value(vector), vector.dtype)
    if len(expr.indices) == 1:
        if dtype.lanes == 1:
            return joined
        return em.f.op(f"extractelement {llvm_type(dtype)} {joined}, i64 {expr.indices[0]}")
    if dtype.lanes == 1:
        return em.splat(joined, expr.dtype)
    kind = llvm_type(dtype)
    return em.f.op(f"shufflevector {kind} {joined}, {kind} poison, {shuffle_mask(expr.indices)}")


def _concatenated(em: ExprEmitter, a: str, a_dtype: DType, b: str, b_dtype: DType) -> tuple[str, DType]:
    """The lanes of a, then those of b."""
    lanes = a_dtype.lanes + b_dtype.lanes
    common = max(a_dtype.lanes, b_dtype.lanes, 2)
    padded = [_padded(em, v, d, common) for v, d in ((a, a_dtype), (b, b_dtype))]
    kind = llvm_type(a_dtype.with_lanes(common))
    mask = [*range(a_dtype.lanes), *range(common, common + b_dtype.lanes)]
    joined = em.f.op(f"shufflevector {kind} {padded[0]}, {kind} {padded[1]}, {shuffle_mask(mask)}")
    return joined, a_dtype.with_lanes(lanes)


def _padded(em: ExprEmitter, value: str, dtype: DType, lanes: int) -> str:
    if dtype.lanes == lanes:
        return value
    if dtype.lanes == 1:
        return em.f.op(f"insertelement {llvm_type(dtype.with_lanes(lanes))} poison, {llvm_type(dtype)} {value}, i64 0")
    kind = llvm_type(dtype)
    mask = [*range(dtype.lanes), *[0] * (lanes - dtype.lanes)]
    return em.f.op(f"shufflevector {kind} {value}, {kind} poison, {shuffle_mask(mask)}")


# Memory


def _load(em: ExprEmitter, expr: BufferLoad) -> str:
    index = expr.indices[-1] if expr.indices else IntImm(0)
    return memory.load(em, expr.buffer, index, expr.predicate)


_BUILDERS: dict[type[Expr], Callable[[ExprEmitter, Any], str]] = {
    Var: _variable, SizeVar: _variable, IterVar: _variable, IntImm: _integer, FloatImm: _float,
    Add: _arithmetic("add", "fadd"), Sub: _arithmetic("sub", "fsub"), Mul: _arithmetic("mul", "fmul"),
    Div: _arithmetic("div", "fdiv"),
    FloorDiv: _division(floor=True, want_remainder=False), FloorMod: _division(floor=True, want_remainder=True),
    TruncDiv: _division(floor=False, want_remainder=False), TruncMod: _division(floor=False, want_remainder=True),
    Min: _extremum(least=True), Max: _extremum(least=False),
    **dict.fromkeys((LT, LE, GT, GE, EQ, NE), _comparison),
    And: _logical("and"), Or: _logical("or"), Not: _not, Cast: _cast, Let: _let,
    Select: lambda em, expr: em.select(expr.condition, expr), IfThenElse: ExprEmitter.if_then_else,
    Ramp: _ramp, Broadcast: _broadcast, Shuffle: _shuffle, BufferLoad: _load, Call: emit_call,
}
