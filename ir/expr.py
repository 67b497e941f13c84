"""Expressions of the loop IR and of tensor expressions, and what every operator means.

Semantics (a rewrite is right when it keeps these):

* Integers wrap in their own dtype, as numpy's do. One exception lets index arithmetic be simplified: an int32 or int64
  expression whose leaves are loop variables, shape symbols and constants alone does not overflow (lowering widens the
  loops where it could), so `(i * 4 + j) // 4` may become `i`. Values loaded from buffers always wrap.
* FloorDiv and FloorMod round towards minus infinity (Python's // and %), TruncDiv and TruncMod towards zero (C's).
  None ever traps: x // 0 = 0, x % 0 = 0, INT_MIN // -1 = INT_MIN, INT_MIN % -1 = 0, likewise for the truncating forms.
* What is derived from them means the same: `ceildiv(a, b)` rounds towards plus infinity, indexdiv and indexmod are FloorDiv and
  FloorMod, `x ** c` is a product of c factors, for all signs and widths. A result that does not fit wraps; an intermediate
  value of a quotient never does. abs of the least integer, and its negative, are itself.
* Div is the division of floats. On floats FloorMod and FloorDiv are Python's, TruncMod is C's fmod.
* Floats follow IEEE 754: every operation is rounded in its own precision, as it is written, and nothing is contracted or
  reassociated, so NaN, infinities and signed zeros survive. One operation is rounded as the target does it:
  `mul_add(a, b, c)`, a * b + c, once where the target fuses and twice where it does not. Min and Max of a NaN are NaN, and
  -0 is less than +0 to them, so that they are the same in any order.
* Comparisons give bool; And, Or and Not take bool. And and Or may evaluate both sides.
* `Select(c, a, b)` may evaluate both sides whatever c is; `IfThenElse(c, a, b)` evaluates the chosen side alone.
  A load that may be out of range therefore needs IfThenElse, or an If around its statement.
* Casting a float to an integer truncates towards zero and saturates (a NaN gives 0); between integers it wraps; to bool
  it compares with 0.
* Shifts by less than 0 or by the width or more are undefined in value but never trap.

Nodes are frozen and compared by identity; `ir.equal` compares their structure. The operators of Python build nodes
through `ir.ops`, where types are matched.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from ..base import dataclass, field, user_source, warn_user
from ..base.arguments import to_tuple
from .dtype import BOOL, FLOAT32, INT32, DType
from .errors import AmbiguousTruth, NotAKnownNumber

if TYPE_CHECKING:
    from .buffer import Buffer

__all__ = [
    "EQ",
    "GE",
    "GT",
    "LE",
    "LT",
    "NE",
    "Add",
    "And",
    "BinaryOp",
    "Broadcast",
    "BufferLoad",
    "Call",
    "Cast",
    "CommReducer",
    "CompareOp",
    "Div",
    "Expr",
    "FloatImm",
    "FloorDiv",
    "FloorMod",
    "IfThenElse",
    "IntImm",
    "IterKind",
    "IterVar",
    "Let",
    "LogicalOp",
    "Max",
    "Min",
    "Mul",
    "Node",
    "Not",
    "Or",
    "Producer",
    "ProducerLoad",
    "Ramp",
    "Range",
    "Reduce",
    "Select",
    "Shuffle",
    "SizeVar",
    "StringImm",
    "Sub",
    "TruncDiv",
    "TruncMod",
    "Var",
]

_BUILTIN = re.compile(r"(?<![\w.])(max|min)\(")
"""A call of one of Python's own, in a line of source."""

_set = object.__setattr__


class Node:
    """Anything in the IR. `_children` names the fields that hold nodes, or tuples of nodes, in evaluation order."""

    __slots__ = ()
    _children: ClassVar[tuple[str, ...]] = ()

    def same_as(self, other: object) -> bool:
        """Return whether it is this very node (TVM's spelling: `==` of expressions is a comparison)."""
        return self is other

    text_of: ClassVar[Callable[[Any], str]] = object.__repr__
    """The text of a node or a function: the printer, which knows every class of node, puts itself here."""

    def __str__(self) -> str:
        return Node.text_of(self)

    __repr__ = __str__


class Expr(Node):
    """A value. `dtype` is known when the node is made."""

    __slots__ = ()
    dtype: DType
    of_ufunc: ClassVar[Callable[[Any, str, Mapping[str, Any]], Callable[..., Any]]]
    """What a numpy function means: ufuncs, which knows them, puts itself here."""
    of_function: ClassVar[Callable[[Any], Any]]
    """The same of numpy's functions that are not ufuncs."""

    def __array_ufunc__(self, ufunc: Any, method: str, *operands: Any, **keywords: Any) -> Any:
        """numpy's functions of elements, and operators with a numpy scalar on the left."""
        return Expr.of_ufunc(ufunc, method, keywords)(*operands)

    def __array_function__(self, function: Any, *_: Any) -> Any:
        """numpy's other functions: np.where(x > 0, x, 0) would take an expression for a value."""
        return Expr.of_function(function)

    def __bool__(self) -> bool:
        called = user_source()
        builtin = _BUILTIN.search(called.text) if called is not None else None
        raise AmbiguousTruth(
            f"the truth of `{self}` is not known while the program is being built",
            reason=f"Python's {builtin[1]} compares its arguments now, and they are symbolic expressions"
            if builtin
            else "it is a symbolic expression: `if`, `and`, `or`, `not` and chained comparisons need a value now",
            called=called,
            fix=f"te.{builtin[1]}(a, b) in place of {builtin[1]}(a, b)"
            if builtin
            else "choose by value with te.if_then_else(condition, a, b) or te.select(condition, a, b), take te.min and "
            "te.max for min and max, and combine conditions with te.all(...), te.any(...), or &, | and ~ (each "
            "comparison in parentheses)",
        )

    def __index__(self) -> int:
        raise NotAKnownNumber(
            f"the value of `{self}` is not known while the program is being built",
            reason="it is a symbolic expression: range, int, float, math's functions and the indices of Python lists "
            "need a number now",
            called=user_source(),
            fix='compute with te\'s functions (te.exp(x), x.astype("int32")), loop with te.reduce_axis, and pass a table '
            "that is looked up as a te.placeholder",
        )

    __int__ = __index__

    def __float__(self) -> float:
        return float(self.__index__())

    def __round__(self, digits: int | None = None) -> int:
        return self.__index__()

    def __trunc__(self) -> int:
        return self.__index__()

    __ceil__ = __floor__ = __trunc__

    def __format__(self, spec: str) -> str:
        return str(self) if not spec else format(self.__index__(), spec)

    def __iter__(self) -> Iterator[Expr]:
        raise NotAKnownNumber(
            f"`{self}` cannot be iterated over",
            reason="it is one symbolic value, whose loops stand in the kernel",
            called=user_source(),
            fix='for a sum declare k = te.reduce_axis((0, n), "k") and write te.sum(A[i, k], axis=k)',
        )

    __hash__ = object.__hash__

    def astype(self, dtype: object) -> Expr:
        """This value converted to `dtype` (see the module's notes on casts)."""
        return _ops.cast(self, dtype)

    def equal(self, other: object) -> Expr:
        """The comparison `self == other` as an expression (TVM's spelling)."""
        return _ops.equal(self, other)

    def __add__(self, other: Any) -> Expr:
        return _ops.add(self, other)

    def __radd__(self, other: Any) -> Expr:
        return _ops.add(other, self)

    def __sub__(self, other: Any) -> Expr:
        return _ops.subtract(self, other)

    def __rsub__(self, other: Any) -> Expr:
        return _ops.subtract(other, self)

    def __mul__(self, other: Any) -> Expr:
        return _ops.multiply(self, other)

    def __rmul__(self, other: Any) -> Expr:
        return _ops.multiply(other, self)

    def __truediv__(self, other: Any) -> Expr:
        return _ops.divide(self, other)

    def __rtruediv__(self, other: Any) -> Expr:
        return _ops.divide(other, self)

    def __floordiv__(self, other: Any) -> Expr:
        return _ops.floordiv(self, other)

    def __rfloordiv__(self, other: Any) -> Expr:
        return _ops.floordiv(other, self)

    def __mod__(self, other: Any) -> Expr:
        return _ops.floormod(self, other)

    def __rmod__(self, other: Any) -> Expr:
        return _ops.floormod(other, self)

    def __divmod__(self, other: Any) -> tuple[Expr, Expr]:
        return self // other, self % other

    def __rdivmod__(self, other: Any) -> tuple[Expr, Expr]:
        return other // self, other % self

    def __matmul__(self, other: Any) -> Expr:
        return _ops.matrix_product(self, other)

    def __rmatmul__(self, other: Any) -> Expr:
        return _ops.matrix_product(other, self)

    def __pow__(self, other: Any) -> Expr:
        return _ops.power(self, other)

    def __rpow__(self, other: Any) -> Expr:
        return _ops.power(other, self)

    def __neg__(self) -> Expr:
        return _ops.negative(self)

    def __pos__(self) -> Expr:
        return self

    def __abs__(self) -> Expr:
        return _ops.absolute(self)

    def __lshift__(self, other: Any) -> Expr:
        return _ops.bitwise("shift_left", self, other)

    def __rlshift__(self, other: Any) -> Expr:
        return _ops.bitwise("shift_left", other, self)

    def __rshift__(self, other: Any) -> Expr:
        return _ops.bitwise("shift_right", self, other)

    def __rrshift__(self, other: Any) -> Expr:
        return _ops.bitwise("shift_right", other, self)

    def __and__(self, other: Any) -> Expr:
        return _ops.bitwise("bitwise_and", self, other)

    def __rand__(self, other: Any) -> Expr:
        return _ops.bitwise("bitwise_and", other, self)

    def __or__(self, other: Any) -> Expr:
        return _ops.bitwise("bitwise_or", self, other)

    def __ror__(self, other: Any) -> Expr:
        return _ops.bitwise("bitwise_or", other, self)

    def __xor__(self, other: Any) -> Expr:
        return _ops.bitwise("bitwise_xor", self, other)

    def __rxor__(self, other: Any) -> Expr:
        return _ops.bitwise("bitwise_xor", other, self)

    def __invert__(self) -> Expr:
        return _ops.invert(self)

    def __lt__(self, other: Any) -> Expr:
        return _ops.compare(LT, self, other)

    def __le__(self, other: Any) -> Expr:
        return _ops.compare(LE, self, other)

    def __gt__(self, other: Any) -> Expr:
        return _ops.compare(GT, self, other)

    def __ge__(self, other: Any) -> Expr:
        return _ops.compare(GE, self, other)

    def __eq__(self, other: object) -> Any:
        return _ops.identity_compare(EQ, self, other)

    def __ne__(self, other: object) -> Any:
        return _ops.identity_compare(NE, self, other)


# Leaves


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Var(Expr):
    """A symbol: a loop variable, a shape symbol, a scalar argument or a let binding. The object is its identity."""

    name: str
    dtype: DType = INT32

    @property
    def var(self) -> Var:
        """Itself, so that `axis.var` reads as it did in TVM."""
        return self


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class SizeVar(Var):
    """A symbol that is known not to be negative."""


IterKind = Literal["data", "reduce", "thread", "ordered", "opaque"]


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Range:
    """The integers from `begin` on, `extent` of them."""

    begin: Expr
    extent: Expr

    @property
    def min(self) -> Expr:
        """TVM's name for `begin`."""
        return self.begin

    def __repr__(self) -> str:
        return f"Range({self.begin}, {self.extent})"


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class IterVar(Var):
    """An iteration variable: an expression like any Var, with the domain that it runs over.

    kind: "data" (a dimension of a tensor), "reduce", "thread" (`thread_tag` names it; `dom` may be open), "ordered"
    (the time axis of a scan) or "opaque" (made by a primitive, may not be split).
    """

    dom: Range | None = None
    kind: IterKind = "data"
    thread_tag: str = ""


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class IntImm(Expr):
    """An integer or bool constant, in the range of its dtype."""

    value: int
    dtype: DType = INT32

    def __bool__(self) -> bool:
        return self.value != 0

    def __int__(self) -> int:
        return self.value

    __index__ = __int__


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class FloatImm(Expr):
    """A float constant. `value` is already rounded to the precision of its dtype."""

    value: float
    dtype: DType = FLOAT32

    def __float__(self) -> float:
        return self.value


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class StringImm(Expr):
    """A string, as an argument of a call or the value of a pragma."""

    value: str
    dtype: DType = field(init=False, default=DType("handle"))


# Operators


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Cast(Expr):
    """`value` converted to `dtype`, lane by lane."""

    value: Expr
    dtype: DType
    _children: ClassVar[tuple[str, ...]] = ("value",)


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class BinaryOp(Expr):
    """Two operands of one dtype. Arithmetic gives that dtype, comparisons and logic give bool."""

    a: Expr
    b: Expr
    dtype: DType = field(init=False)
    _children: ClassVar[tuple[str, ...]] = ("a", "b")
    symbol: ClassVar[str] = ""

    def __post_init__(self) -> None:
        _set(self, "dtype", self.a.dtype)


class Add(BinaryOp):
    __slots__ = ()
    symbol = "+"


class Sub(BinaryOp):
    __slots__ = ()
    symbol = "-"


class Mul(BinaryOp):
    __slots__ = ()
    symbol = "*"


class Div(BinaryOp):
    """Division of floats."""

    __slots__ = ()
    symbol = "/"


class FloorDiv(BinaryOp):
    __slots__ = ()
    symbol = "//"


class FloorMod(BinaryOp):
    __slots__ = ()
    symbol = "%"


class TruncDiv(BinaryOp):
    __slots__ = ()
    symbol = "truncdiv"


class TruncMod(BinaryOp):
    __slots__ = ()
    symbol = "truncmod"


class Min(BinaryOp):
    __slots__ = ()
    symbol = "min"


class Max(BinaryOp):
    __slots__ = ()
    symbol = "max"


class CompareOp(BinaryOp):
    """A comparison: bool, with the operands' lanes."""

    __slots__ = ()

    def __post_init__(self) -> None:
        _set(self, "dtype", BOOL.with_lanes(self.a.dtype.lanes))


class LT(CompareOp):
    __slots__ = ()
    symbol = "<"


class LE(CompareOp):
    __slots__ = ()
    symbol = "<="


class GT(CompareOp):
    __slots__ = ()
    symbol = ">"


class GE(CompareOp):
    __slots__ = ()
    symbol = ">="


class EQ(CompareOp):
    """`a == b`. Its truth value is whether a and b are the same object, so tensors and axes work in `if` and `in`."""

    __slots__ = ()
    symbol = "=="

    def __bool__(self) -> bool:
        _tell_of_identity(self)
        return self.a is self.b


class NE(CompareOp):
    """`a != b`. Its truth value is whether a and b are different objects."""

    __slots__ = ()
    symbol = "!="

    def __bool__(self) -> bool:
        _tell_of_identity(self)
        return self.a is not self.b


def _tell_of_identity(compared: CompareOp) -> None:
    """Warn of the truth of `i == 0` in a user's line, which no value of i decides: of an axis, or of what is computed from one."""
    if isinstance(compared.b, IntImm) and isinstance(compared.a, (IterVar, BinaryOp)):
        source = user_source(("ir.expr",))
        if source is not None:
            warn_user(
                source,
                f"the truth of `{compared}` is whether both sides are one object, which they are not, whatever {compared.a} is: "
                "te.if_then_else chooses by value",
            )


class LogicalOp(BinaryOp):
    """And, Or of bool."""

    __slots__ = ()


class And(LogicalOp):
    __slots__ = ()
    symbol = "and"


class Or(LogicalOp):
    __slots__ = ()
    symbol = "or"


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Not(Expr):
    """Logical negation of bool."""

    value: Expr
    dtype: DType = field(init=False)
    _children: ClassVar[tuple[str, ...]] = ("value",)

    def __post_init__(self) -> None:
        _set(self, "dtype", self.value.dtype)


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Select(Expr):
    """One of two values; both may be evaluated. The condition is bool, scalar or of the values' lanes."""

    condition: Expr
    true_value: Expr
    false_value: Expr
    dtype: DType = field(init=False)
    _children: ClassVar[tuple[str, ...]] = ("condition", "true_value", "false_value")

    def __post_init__(self) -> None:
        _set(self, "dtype", self.true_value.dtype)


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class IfThenElse(Expr):
    """One of two values; only the chosen one is evaluated."""

    condition: Expr
    true_value: Expr
    false_value: Expr
    dtype: DType = field(init=False)
    _children: ClassVar[tuple[str, ...]] = ("condition", "true_value", "false_value")

    def __post_init__(self) -> None:
        _set(self, "dtype", self.true_value.dtype)


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Let(Expr):
    """`value` bound to `var` within `body`."""

    var: Var
    value: Expr
    body: Expr
    dtype: DType = field(init=False)
    _children: ClassVar[tuple[str, ...]] = ("value", "body")

    def __post_init__(self) -> None:
        _set(self, "dtype", self.body.dtype)


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Call(Expr):
    """An intrinsic (a row of `ir.intrinsics`) or, by `call_extern` and its siblings, outside code."""

    name: str
    args: tuple[Expr, ...]
    dtype: DType
    _children: ClassVar[tuple[str, ...]] = ("args",)


# Vectors


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Ramp(Expr):
    """The vector base, base + stride, ... of `lanes` lanes."""

    base: Expr
    stride: Expr
    lanes: int
    dtype: DType = field(init=False)
    _children: ClassVar[tuple[str, ...]] = ("base", "stride")

    def __post_init__(self) -> None:
        _set(self, "dtype", self.base.dtype.with_lanes(self.lanes))


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Broadcast(Expr):
    """A scalar in each of `lanes` lanes."""

    value: Expr
    lanes: int
    dtype: DType = field(init=False)
    _children: ClassVar[tuple[str, ...]] = ("value",)

    def __post_init__(self) -> None:
        _set(self, "dtype", self.value.dtype.with_lanes(self.lanes))


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Shuffle(Expr):
    """Lanes picked by constant `indices` from the concatenation of `vectors`. One index gives a scalar."""

    vectors: tuple[Expr, ...]
    indices: tuple[int, ...]
    dtype: DType = field(init=False)
    _children: ClassVar[tuple[str, ...]] = ("vectors",)

    def __post_init__(self) -> None:
        _set(self, "dtype", self.vectors[0].dtype.with_lanes(len(self.indices)))


# Memory


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class BufferLoad(Expr):
    """An element of a buffer, or a vector of elements where the last index is a vector.

    `predicate`, a bool of the same lanes, says which lanes are read; the others are zero and touch no memory.
    """

    buffer: Buffer
    indices: tuple[Expr, ...]
    predicate: Expr | None = None
    dtype: DType = field(init=False)
    _children: ClassVar[tuple[str, ...]] = ("indices", "predicate")

    def __post_init__(self) -> None:
        lanes = self.indices[-1].dtype.lanes if self.indices else 1
        _set(self, "dtype", self.buffer.dtype.with_lanes(lanes))


class Producer:
    """Source that tensor expressions read from: a tensor, known here by its name, shape and dtype alone."""

    name: str
    shape: tuple[Expr, ...]
    dtype: DType

    def __getitem__(self, indices: Any) -> Any:
        """The element at `indices`."""
        raise NotImplementedError


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class ProducerLoad(Expr):
    """An element of a tensor. Occurs in tensor expressions only; lowering turns it into a BufferLoad."""

    producer: Producer
    indices: tuple[Expr, ...]
    dtype: DType = field(init=False)
    _children: ClassVar[tuple[str, ...]] = ("indices",)

    def __post_init__(self) -> None:
        _set(self, "dtype", self.producer.dtype)

    def __getitem__(self, indices: Any) -> ProducerLoad:
        """Index as with `A[i][j]`, where all indices were given before: the producer refuses more."""
        return self.producer[(*self.indices, *to_tuple(indices))]


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class CommReducer:
    """A combiner of tuples: result[i] over lhs and rhs, with the identity that a fold begins with. Its laws: analysis/combiners."""

    lhs: tuple[Var, ...]
    rhs: tuple[Var, ...]
    result: tuple[Expr, ...]
    identity: tuple[Expr, ...]
    name: str = "reduce"


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Reduce(Expr):
    """A reduction; the whole body of a compute, never part of a larger expression.

    sources: one value each tuple element. condition: iterations where it is false contribute nothing. init: replaces
    the identity (empty for none). value_index: which element of the tuple this expression stands for. fused: which of the
    sources are products that the sum takes up with one rounding, where the target fuses; empty for none. That was decided
    where the reduction was declared, and no rewriting of sources changes it.
    """

    combiner: CommReducer
    sources: tuple[Expr, ...]
    axes: tuple[IterVar, ...]
    condition: Expr
    init: tuple[Expr, ...] = ()
    value_index: int = 0
    fused: tuple[bool, ...] = ()
    dtype: DType = field(init=False)
    _children: ClassVar[tuple[str, ...]] = ("sources", "condition", "init")

    def __post_init__(self) -> None:
        _set(self, "dtype", self.sources[self.value_index].dtype)

    @property
    def axis(self) -> tuple[IterVar, ...]:
        """TVM's name for `axes`."""
        return self.axes

    @property
    def source(self) -> tuple[Expr, ...]:
        """TVM's name for `sources`."""
        return self.sources


from . import ops as _ops  # noqa: E402  (the operators above build nodes through it; it needs the nodes)
