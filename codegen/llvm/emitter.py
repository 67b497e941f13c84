"""Emitter of expressions into a function: values by identity, places of variables and buffers, control flow within them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from ...base import InternalError, dataclass
from ...ir import BinaryOp, Broadcast, Buffer, BufferLoad, Call, Expr, IfThenElse, Select, Var, walk
from ...ir.dtype import BOOL, DType
from ...ir.ops import integer_value
from .arithmetic import select
from .facts import IndexFacts
from .maths_options import PORTABLE, MathsOptions
from .text import FunctionText
from .types import llvm_type, zero
from .workarounds.scalar_masks import emit_mask

__all__ = ["Builder", "ExprEmitter", "Place"]

Builder = Callable[["ExprEmitter", Any], str]
"""Writes what a node needs, and gives its value's text."""


@dataclass(frozen=True, slots=True)
class Place:
    """Place of a buffer: its pointer, and what the address is a multiple of, in bytes. own: elements on the function's stack,
    which nobody else sees; 0 for memory of any other kind."""

    pointer: str
    alignment: int
    own: int = 0


class ExprEmitter:
    """Write expressions into one function. builders: what writes each kind of node. `variables` and `places` say where variables
    and buffers are."""

    def __init__(
        self,
        f: FunctionText,
        facts: IndexFacts,
        builders: Mapping[type[Expr], Builder],
        *,
        fast_math: bool,
        fp_contract: bool = False,
        maths: MathsOptions = PORTABLE,
    ) -> None:
        self.f, self.facts, self.maths = f, facts, maths
        self._builders = builders
        self.variables: dict[Var, str] = {}
        self.places: dict[Buffer, Place] = {}
        self._memo: dict[int, tuple[Expr, str]] = {}  # with the expression, so that its id is not given to another
        self._mask: tuple[str, int] | None = None  # the lanes of the vector condition whose arm is being written
        self.leave_if: Callable[[str, str], None] = lambda condition, status: None
        """Leaves the function with a status where a condition holds; whoever writes statements says how."""
        self.streamed: Buffer | None = None
        """The buffer to which vectors are stored, aligned, past the caches."""
        self.streams = False
        """Whether anything was."""
        self.vector_accesses = 0
        """How many loads and stores of vectors were written."""
        self.serial = True
        """Whether LLVM shall make no vectors of the loop that is being written."""
        # Never nnan or ninf: the identities of min and max are infinite, and padding tests NaN.
        self.float_flags = "reassoc nsz arcp contract afn " if fast_math else "contract " if fp_contract else ""
        self.signless = "nsz " if fast_math else ""
        """On what may give either zero."""

    def start_statement(self) -> None:
        """Forget values that were loaded before: memory may have changed."""
        self._memo.clear()

    def place(self, buffer: Buffer) -> Place:
        """Return the place of a buffer."""
        place = self.places.get(buffer)
        if place is None:
            raise InternalError(f"buffer {buffer.name} is used outside of its allocation")
        return place

    def value(self, expr: Expr) -> str:
        """The text of an expression's value; what it needs is written before."""
        known = self._memo.get(id(expr))
        if known is None:
            builder = self._builders.get(type(expr))
            if builder is None:
                raise InternalError(f"a {type(expr).__name__} reached code generation: {expr}")
            known = self._memo[id(expr)] = expr, builder(self, expr)
        return known[1]

    def reassociable(self, expr: BinaryOp) -> str:
        """The text of a value that may be added to others in any order; its operands are rounded as they are written."""
        self.value(expr.a)
        self.value(expr.b)
        before, self.float_flags = self.float_flags, self.float_flags or "reassoc "
        text = self.value(expr)
        self.float_flags = before
        return text

    def constant_int(self, expr: Expr) -> int | None:
        """The value of a constant integer, the same in every lane; else None."""
        # a vector of one value counts as that value
        return integer_value(expr.value if isinstance(expr, Broadcast) else expr)

    def splat(self, scalar: str, dtype: DType) -> str:
        """A scalar value in every lane of `dtype`."""
        kind, element = llvm_type(dtype), llvm_type(dtype.element)
        # LLVM's idiom of a splat, which instruction selection knows
        first = self.f.op(f"insertelement {kind} poison, {element} {scalar}, i64 0")
        return self.f.op(f"shufflevector {kind} {first}, {kind} poison, <{dtype.lanes} x i32> zeroinitializer")

    # Control flow within expressions

    def access_mask(self, predicate: Expr | None, lanes: int) -> str | None:
        """The lanes that an access touches: those of its predicate, in the arm of a vector IfThenElse that is being
        written. None for all."""
        mask = None
        if predicate is not None and self.constant_int(predicate) != 1:
            mask = emit_mask(self, predicate)
        if self._mask is None:
            return mask
        chosen, mask_lanes = self._mask
        if mask_lanes != lanes:  # a scalar among vectors: read once if any lane wants it
            chosen = self.f.op(f"call i1 @llvm.vector.reduce.or.v{mask_lanes}i1({_bools(mask_lanes)} {chosen})")
        # scalars under a mask of one lane
        return chosen if mask is None else self.f.op(f"and {_bools(lanes)} {chosen}, {mask}")

    def emit_guarded(self, condition: str, dtype: DType, make: Callable[[], str]) -> str:
        """The value that `make` writes, evaluated only if the scalar condition holds; else 0."""
        return self._emit_choice(condition, dtype, make, lambda: zero(dtype))

    def when(self, condition: str, act: Callable[[], None]) -> None:
        """Write the code of `act`, executed only if the scalar condition holds."""
        then, after = self.f.fresh("then"), self.f.fresh("after")
        self.f.branch(condition, then, after)
        self.f.begin(then)
        with self.f.scope():  # the scope drops values of the branch from those that are reused
            self._emit_branch(act)
        self.f.jump(after)
        self.f.begin(after)

    def _emit_choice(
        self, condition: str, dtype: DType, make_true: Callable[[], str], make_false: Callable[[], str]
    ) -> str:
        then, otherwise, after = (self.f.fresh(stem) for stem in ("then", "else", "after"))
        self.f.branch(condition, then, otherwise)
        ends: list[str] = []
        for label, make in ((then, make_true), (otherwise, make_false)):
            self.f.begin(label)
            with self.f.scope():
                value = self._emit_branch(make)
            # the label may have changed: the arm may hold branches of its own
            ends.append(f"[ {value}, %{self.f.label} ]")
            self.f.jump(after)
        self.f.begin(after)
        return self.f.read(f"phi {llvm_type(dtype)} {', '.join(ends)}")

    def _emit_branch(self, make: Callable[[], Any]) -> Any:
        """Values made within a branch must not be used after it."""
        before, self._memo = self._memo, dict(self._memo)
        result = make()
        self._memo = before
        return result

    def if_then_else(self, expr: IfThenElse) -> str:
        # cheap and free of memory: a select needs no branch
        if _is_speculatable(expr.true_value) and _is_speculatable(expr.false_value):
            return self.select(expr.condition, expr)
        if expr.condition.dtype.lanes == 1:
            return self._emit_choice(
                self.value(expr.condition),
                expr.dtype,
                lambda: self.value(expr.true_value),
                lambda: self.value(expr.false_value),
            )
        lanes, condition = expr.condition.dtype.lanes, emit_mask(self, expr.condition)
        # the other arm reads where the condition does not hold
        negated = self.f.op(f"xor {_bools(lanes)} {condition}, splat (i1 true)")
        a = self._emit_masked(condition, lanes, expr.true_value)
        b = self._emit_masked(negated, lanes, expr.false_value)
        return select(self.f, condition, a, b, expr.dtype)

    def _emit_masked(self, mask: str, lanes: int, expr: Expr) -> str:
        """A vector whose loads touch only the lanes of `mask`."""
        before = self._mask
        if before is not None:
            mask = self.f.op(f"and {_bools(lanes)} {before[0]}, {mask}")  # an arm within an arm
        self._mask = (mask, lanes)
        result = self._emit_branch(lambda: self.value(expr))
        self._mask = before
        return result

    def select(self, condition: Expr, expr: Select | IfThenElse) -> str:
        chosen, kind = self.value(condition), llvm_type(expr.dtype)
        a, b = self.value(expr.true_value), self.value(expr.false_value)
        return self.f.op(f"select {llvm_type(condition.dtype)} {chosen}, {kind} {a}, {kind} {b}")


def _bools(lanes: int) -> str:
    return llvm_type(BOOL.with_lanes(lanes))


def _is_speculatable(expr: Expr) -> bool:
    """Return whether evaluating it costs little and touches no memory."""
    for count, node in enumerate(walk(expr)):  # few nodes: a select computes both arms
        if count > 8 or isinstance(node, (BufferLoad, Call, IfThenElse)):
            return False
    return True
