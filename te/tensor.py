"""Tensors: what operations give and tensor expressions read."""

from __future__ import annotations

from collections.abc import Iterator
from types import EllipsisType
from typing import TYPE_CHECKING, Any, NoReturn, Self, cast

from ..base.arguments import is_a, to_tuple
from ..base.errors import InternalError, SourceLine, user_source
from ..ir import Expr, IntImm, Producer, ProducerLoad, Var, ops
from ..ir.analysis.linear import is_index
from ..ir.dtype import INT32, INT64, DType
from ..ir.errors import NotAKnownNumber
from ..ir.ufuncs import meaning
from ..ir.widen import widen
from .errors import BadIndex, IndexOutOfRange, NoMatrixProduct, NoSuchName, TensorIsNotIterable, WrongNumberOfIndices
from .numpy_functions import WRITTEN, refuse
from .shape import extent_text, index_expr, shape_text
from .unknown_names import unknown_name

if TYPE_CHECKING:
    from .operation import Operation

__all__ = ["Tensor", "TensorOperators", "TensorRegion", "TensorSlice"]


class TensorOperators:
    """Python's operators on whole tensors: each makes a new tensor, element by element with numpy's broadcasting."""

    __slots__ = ()
    __hash__ = object.__hash__

    def __array_ufunc__(self, ufunc: Any, method: str, *operands: Any, **keywords: Any) -> Any:
        """numpy's functions of elements, and operators with a numpy scalar on the left."""
        if ufunc.__name__ == "divmod" and method == "__call__" and not keywords:
            return _divmod(*operands)
        return _elementwise.operate(ufunc.__name__, meaning(ufunc, method, keywords), *operands)

    def __array_function__(self, function: Any, *_: Any) -> Any:
        """numpy's functions of whole arrays: np.dot(A, B) would take a tensor for a number; np.shape and np.ndim are known."""
        if function.__name__ in ("shape", "ndim") and isinstance(self, Tensor):
            return getattr(self, function.__name__)
        raise refuse(function)

    def __matmul__(self, other: Any) -> Any:
        raise _no_matmul(self, other)

    def __rmatmul__(self, other: Any) -> Any:
        raise _no_matmul(other, self)

    def __add__(self, other: Any) -> Tensor:
        return _elementwise.operate("add", ops.add, self, other)

    def __radd__(self, other: Any) -> Tensor:
        return _elementwise.operate("add", ops.add, other, self)

    def __sub__(self, other: Any) -> Tensor:
        return _elementwise.operate("subtract", ops.subtract, self, other)

    def __rsub__(self, other: Any) -> Tensor:
        return _elementwise.operate("subtract", ops.subtract, other, self)

    def __mul__(self, other: Any) -> Tensor:
        return _elementwise.operate("multiply", ops.multiply, self, other)

    def __rmul__(self, other: Any) -> Tensor:
        return _elementwise.operate("multiply", ops.multiply, other, self)

    def __truediv__(self, other: Any) -> Tensor:
        return _elementwise.operate("divide", ops.divide, self, other)

    def __rtruediv__(self, other: Any) -> Tensor:
        return _elementwise.operate("divide", ops.divide, other, self)

    def __floordiv__(self, other: Any) -> Tensor:
        return _elementwise.operate("floordiv", ops.floordiv, self, other)

    def __rfloordiv__(self, other: Any) -> Tensor:
        return _elementwise.operate("floordiv", ops.floordiv, other, self)

    def __mod__(self, other: Any) -> Tensor:
        return _elementwise.operate("floormod", ops.floormod, self, other)

    def __rmod__(self, other: Any) -> Tensor:
        return _elementwise.operate("floormod", ops.floormod, other, self)

    def __divmod__(self, other: Any) -> tuple[Tensor, Tensor]:
        return _divmod(self, other)

    def __rdivmod__(self, other: Any) -> tuple[Tensor, Tensor]:
        return _divmod(other, self)

    def __pow__(self, other: Any) -> Tensor:
        return _elementwise.operate("power", ops.power, self, other)

    def __rpow__(self, other: Any) -> Tensor:
        return _elementwise.operate("power", ops.power, other, self)

    def __lshift__(self, other: Any) -> Tensor:
        return _elementwise.bitwise("shift_left", self, other)

    def __rlshift__(self, other: Any) -> Tensor:
        return _elementwise.bitwise("shift_left", other, self)

    def __rshift__(self, other: Any) -> Tensor:
        return _elementwise.bitwise("shift_right", self, other)

    def __rrshift__(self, other: Any) -> Tensor:
        return _elementwise.bitwise("shift_right", other, self)

    def __and__(self, other: Any) -> Tensor:
        return _elementwise.bitwise("bitwise_and", self, other)

    def __rand__(self, other: Any) -> Tensor:
        return _elementwise.bitwise("bitwise_and", other, self)

    def __or__(self, other: Any) -> Tensor:
        return _elementwise.bitwise("bitwise_or", self, other)

    def __ror__(self, other: Any) -> Tensor:
        return _elementwise.bitwise("bitwise_or", other, self)

    def __xor__(self, other: Any) -> Tensor:
        return _elementwise.bitwise("bitwise_xor", self, other)

    def __rxor__(self, other: Any) -> Tensor:
        return _elementwise.bitwise("bitwise_xor", other, self)

    def __neg__(self) -> Any:
        return _elementwise.operate("negative", ops.negative, self)

    def __pos__(self) -> Self:
        return self

    def __abs__(self) -> Tensor:
        return _elementwise.operate("abs", ops.absolute, self)

    def __invert__(self) -> Tensor:
        return _elementwise.operate("invert", ops.invert, self)

    def __lt__(self, other: Any) -> Tensor:
        return _elementwise.compare("<", self, other)

    def __le__(self, other: Any) -> Tensor:
        return _elementwise.compare("<=", self, other)

    def __gt__(self, other: Any) -> Tensor:
        return _elementwise.compare(">", self, other)

    def __ge__(self, other: Any) -> Tensor:
        return _elementwise.compare(">=", self, other)

    def __eq__(self, other: object) -> Any:
        return _elementwise.identity_compare("==", self, other)

    def __ne__(self, other: object) -> Any:
        return _elementwise.identity_compare("!=", self, other)


class Tensor(TensorOperators, Producer):
    """One output of an operation: a name, a shape and a dtype; an element is `A[i, j]`.

    Made by te.placeholder and te.compute. Each output of an operation is one object, so tensors are compared, hashed
    and used as keys by identity, while `A == B` still builds the elementwise comparison.
    """

    __slots__ = ("dtype", "name", "op", "shape", "value_index")
    op: Operation
    value_index: int
    """Which output of `op` this is."""

    def __init__(self, op: Operation, value_index: int, name: str, shape: tuple[Expr, ...], dtype: DType) -> None:
        for field, value in zip(self.__slots__, (dtype, name, op, shape, value_index), strict=True):
            object.__setattr__(self, field, value)

    def __setstate__(self, state: tuple[None, dict[str, Any]]) -> None:
        """Return what copies and pickles hold of it, which they would assign."""
        for field, value in state[1].items():
            object.__setattr__(self, field, value)

    @property
    def ndim(self) -> int:
        """The number of dimensions."""
        return len(self.shape)

    def same_as(self, other: object) -> bool:
        """Return whether it is this very tensor (TVM's spelling: `==` compares the elements)."""
        return self is other

    @property
    def source(self) -> SourceLine | None:
        """The user's line that declared it."""
        return self.op.source

    def __getitem__(self, indices: Any) -> ProducerLoad:
        """The element at `indices`; with fewer indices than dimensions a TensorSlice that takes the rest, and with a range a
        TensorRegion. For a type checker it is the element that they lead to: it cannot count indices."""
        return cast("ProducerLoad", read(self, to_tuple(indices)))

    def __call__(self, *indices: Any) -> ProducerLoad:
        """The element at `indices` (TVM's spelling)."""
        return self[indices]

    def astype(self, dtype: object) -> Tensor:
        """A new tensor of the elements converted to `dtype` (itself where it has that dtype)."""
        target = DType(dtype)

        def converted(element: Expr) -> Expr:
            return ops.cast(element, target)

        return self if target == self.dtype else _elementwise.operate("cast", converted, self)

    def __bool__(self) -> bool:
        """Return whether there is a tensor at all: True. A comparison `A == B` answers for the identity of A and B."""
        return self.op.truth()

    def __iter__(self) -> Iterator[Any]:
        raise self._is_no_sequence(
            "cannot be iterated over",
            f"describe one element by its indices: te.compute({self.name}.shape, lambda *i: {self.name}[i])",
        )

    if not TYPE_CHECKING:

        def __contains__(self, value: Any) -> bool:
            raise self._is_no_sequence(
                "cannot be searched", f"reduce over it: topi.any(topi.equal({self.name}, value))"
            )

        def __float__(self) -> float:
            raise NotAKnownNumber(
                f"tensor {self.name} is not a number",
                declared=self.source,
                called=user_source(),
                reason="its elements are known when its kernel runs",
                allowed="te's functions, topi's operators and numpy's "
                'functions of elements: te.round(A), topi.cast(A, "int32"), np.exp(A)',
                fix=f"call one of these; for an array of it build a kernel: f = tw.build([..., {self.name}])",
            )

        __int__ = __trunc__ = __ceil__ = __floor__ = __float__

        def __round__(self, digits: int | None = None) -> int:
            return self.__int__()

        def __format__(self, spec: str) -> str:
            return format(self.__float__() if spec else str(self), spec)

        def __len__(self) -> int:
            raise self._is_no_sequence(
                "has no length", f"its extents are {self.name}.shape, of which there are {self.name}.ndim"
            )

        def __setitem__(self, indices: Any, value: Any) -> None:
            raise self._is_no_sequence(
                "cannot be assigned to",
                f"declare a new tensor: te.compute({self.name}.shape, lambda *i: "
                "te.if_then_else(condition, value, ...)); a te.hybrid.script assigns elements",
            )

        def __setattr__(self, name: str, value: Any) -> None:
            raise NoSuchName(
                f"tensor {self.name}'s {name} cannot be assigned"
                if name in self.__slots__
                else f"tensor {self.name} has no {name} that could be assigned",
                declared=self.source,
                called=user_source(),
                reason="operations that read it were declared with what it is",
                fix=f"declare another tensor: topi.reshape({self.name}, ...), {self.name}.astype(...), te.compute(shape, ...)",
            )

        def __getattr__(self, name: str) -> Any:
            raise unknown_name(
                NoSuchName, "Tensor", name, (each for each in dir(type(self)) if not each.startswith("_")), WRITTEN
            )

    def _is_no_sequence(self, what: str, fix: str) -> TensorIsNotIterable:
        return TensorIsNotIterable(
            f"tensor {self.name} {what}",
            declared=self.source,
            called=user_source(),
            fix=fix,
            reason="its elements are not known while the program is being built",
        )

    def __repr__(self) -> str:
        return f"Tensor({tensor_text(self)}, {self.op.kind})"

    __str__ = __repr__


class TensorSlice(TensorOperators, Producer):
    """A tensor with its first indices given, as in `A[i][j]`. It is not a value until it has all of them."""

    __slots__ = ("dtype", "indices", "name", "shape", "tensor")

    def __init__(self, tensor: Tensor, indices: tuple[Any, ...]) -> None:
        self.tensor, self.indices = tensor, indices
        self.name, self.dtype, self.shape = tensor.name, tensor.dtype, tensor.shape[len(indices) :]

    def __getitem__(self, indices: Any) -> ProducerLoad:
        more = to_tuple(indices)
        if not more:
            raise wrong_number(self.tensor, len(self.indices))
        return self.tensor[self.indices + more]

    def astype(self, dtype: object) -> NoReturn:
        """Refuse what only values have. Raises WrongNumberOfIndices (TW0112)."""
        raise wrong_number(self.tensor, len(self.indices))

    def equal(self, other: object) -> NoReturn:
        """Refuse what only values have. Raises WrongNumberOfIndices (TW0112)."""
        raise wrong_number(self.tensor, len(self.indices))

    def __iter__(self) -> Iterator[Any]:
        return iter(self.tensor)


class TensorRegion(TensorSlice):
    """A part of a tensor with ranges in it, as in `A[i, 0:16]`: what a tensor intrinsic is called with. It is no value.

    indices: an index or a slice of begin and end for each dimension that was given.
    """

    __slots__ = ()

    def __init__(self, tensor: Tensor, indices: tuple[Any, ...]) -> None:
        super().__init__(tensor, indices)
        self.shape = ()  # of no use before the intrinsic says what it takes

    def __repr__(self) -> str:
        told = (f"{each.start}:{each.stop}" if is_a(each, slice) else str(each) for each in self.indices)
        return f"TensorRegion({self.tensor.name}[{', '.join(told)}])"

    def __getitem__(self, indices: Any) -> Any:
        at = next(at for at, index in enumerate(self.indices) if isinstance(index, slice))
        raise _bad_index(self.tensor, at, self.indices[at], "range")


def read(tensor: Tensor, indices: tuple[Any, ...]) -> ProducerLoad | TensorSlice:
    """`tensor[indices]`, checked. Raises WrongNumberOfIndices (TW0112), BadIndex (TW0113) and IndexOutOfRange (TW0114)."""
    if len(indices) > tensor.ndim or (not indices and tensor.ndim):
        raise wrong_number(tensor, len(indices))
    if any(isinstance(index, slice) for index in indices):
        return TensorRegion(tensor, tuple(_range(tensor, at, index) for at, index in enumerate(indices)))
    checked = tuple(_index(tensor, at, index) for at, index in enumerate(indices))
    return ProducerLoad(tensor, checked) if len(checked) == tensor.ndim else TensorSlice(tensor, checked)


def find_tensor(load: ProducerLoad) -> Tensor:
    """The tensor that a read is of."""
    if not isinstance(load.producer, Tensor):
        raise InternalError(f"a read of {load.producer!r}, which is not a tensor")
    return load.producer


def wrong_number(tensor: Tensor, given: int) -> WrongNumberOfIndices:
    """The error for `given` indices, which are too few or too many."""
    names = ", ".join("ijkl"[at] if tensor.ndim <= 4 else f"i{at}" for at in range(tensor.ndim))
    return WrongNumberOfIndices(
        f"tensor {tensor.name} has {_count(tensor.ndim, 'dimension')} and was read with "
        f"{_count(given, 'index', 'indices')}",
        reason=f"{tensor_text(tensor)}",
        declared=tensor.source,
        called=user_source(),
        fix=f"give one index for each dimension: {tensor.name}[{names or '()'}]",
    )


def _divmod(a: Any, b: Any) -> tuple[Tensor, Tensor]:
    """a // b and a % b."""
    return _elementwise.operate("floordiv", ops.floordiv, a, b), _elementwise.operate("floormod", ops.floormod, a, b)


def _no_matmul(a: Any, b: Any) -> NoMatrixProduct:
    names = [getattr(operand, "name", "...") for operand in (a, b)]
    return NoMatrixProduct(
        f"{names[0]} @ {names[1]} is not declared by an operator",
        called=user_source(),
        reason="te's operators work element by element; a product of matrices is a sum that says its axis",
        fix=f"write topi.matmul({names[0]}, {names[1]}), or te.compute((n, m), lambda i, j: "
        f"te.sum({names[0]}[i, k] * {names[1]}[k, j], axis=k))",
    )


def _count(number: int, singular: str, plural: str = "") -> str:
    return f"{number} {singular if number == 1 else plural or singular + 's'}"


def _range(tensor: Tensor, at: int, index: Expr | slice[Any, Any, Any]) -> Expr | slice[Expr, Expr]:
    """An index, or a slice whose begin and end are expressions."""
    if not isinstance(index, slice):
        return _index(tensor, at, index)
    if index.step is not None:
        raise _bad_index(tensor, at, index, "slice with a step")
    begin = _index(tensor, at, 0 if index.start is None else index.start)
    end = tensor.shape[at] if index.stop is None else ops.convert(index.stop)
    if not end.dtype.is_integer or end.dtype.lanes != 1:
        raise _bad_index(tensor, at, end, end.dtype)
    return slice(begin, index_expr(end))


def checked_index(tensor: Tensor, at: int, index: Any) -> Expr:
    """Return what is given as an index, wherever it points, as an integer expression. Raises BadIndex (TW0113)."""
    if is_a(index, (slice, str, bool, type(None), type(...))):
        raise _bad_index(tensor, at, index, type(index).__name__)
    expr = ops.convert(index)
    if not expr.dtype.is_integer or expr.dtype.lanes != 1:
        raise _bad_index(tensor, at, index, expr.dtype)
    expr = index_expr(expr)
    wide = (
        tensor.shape[at].dtype == INT64
        and expr.dtype == INT32
        and not isinstance(expr, (Var, IntImm))
        and is_index(expr)
    )
    return widen(expr) if wide else expr


def _index(tensor: Tensor, at: int, index: Any) -> Expr:
    expr, extent = checked_index(tensor, at, index), tensor.shape[at]
    if isinstance(expr, IntImm) and (expr.value < 0 or (isinstance(extent, IntImm) and expr.value >= extent.value)):
        if expr.value < 0:
            fix = f"write the position itself, {tensor.name}.shape[{at}] - {-expr.value}: nothing counts from the end"
        else:
            fix = f"read within the shape {shape_text(tensor.shape)}"
        raise IndexOutOfRange(
            f"index {at} of {tensor.name} is out of range",
            declared=tensor.source,
            called=user_source(),
            reason=f"got {expr.value}; dimension {at} of {tensor_text(tensor)} has indices from 0 to "
            f"{extent_text(extent)} - 1",
            fix=fix,
        )
    return expr


def _bad_index(
    tensor: Tensor, at: int, index: slice[Any, Any, Any] | Expr | str | EllipsisType, kind: object
) -> BadIndex:
    shown = str(index) if isinstance(index, Expr) else repr(index)
    if isinstance(index, slice):
        shown = f"{tensor.name}[{index.start}:{index.stop}]"
        fix = (
            f"compute a part by its elements: te.compute((n,), lambda i: {tensor.name}[begin + i]); ranges are what a "
            "tensor intrinsic is called with"
        )
    elif index is ...:
        shown, fix = "...", "write an index for each dimension"
    else:
        fix = 'convert it: index.astype("int32"), and use // instead of / between integers'
    return BadIndex(
        f"index {at} of {tensor.name} is not an integer",
        declared=tensor.source,
        called=user_source(),
        reason=f"got {shown[:200]}" if index is ... else f"got {shown[:200]}, a {kind}",
        allowed="integer expressions, constants and numpy integers",
        fix=fix,
    )


def tensor_text(tensor: Tensor) -> str:
    """A tensor as messages show it: C: float32[1024, n]."""
    return f"{tensor.name}: {tensor.dtype}[{', '.join(map(extent_text, tensor.shape))}]"


from . import elementwise as _elementwise  # noqa: E402  (the operators make computes, which make tensors)
