"""Context of a row of torch's operators: one call with arguments by name, and the graph to which it adds nodes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, cast

import numpy as np

from ...ir.dtype import DType
from ...ir.ops import common_dtype
from ..conversion import Conversion, Refused, Scope
from ..types import Extent, array_dtype
from .numbers import Formula, Ratio
from .schema import Odd, Symbol, TensorMeta, TensorName

__all__ = ["ROWS", "SYNONYMS", "VIEWS", "Call", "Row", "aten"]

_WITHOUT_MEANING = {
    "copy",
    "cudnn_enabled",
    "device",
    "dtype",
    "generator",
    "implicit",
    "layout",
    "memory_format",
    "momentum",
    "non_blocking",
    "path",
    "pin_memory",
    "scale_grad_by_freq",
    "sorted",
    "sparse",
    "stable",
}
"""Arguments that change nothing where a row does not ask for them: a dtype is that of the result, which is checked."""

_NEVER = object()


class Call(Conversion):
    """A call of one of torch's operators. target: its row's name. meta: what the program says of its first result. tensors: our
    value of a tensor of the program; numbers: what symbols of the program are."""

    def __init__(
        self,
        scope: Scope,
        target: str,
        arguments: Mapping[str, Any],
        meta: TensorMeta | None,
        source: str,
        tensors: Callable[[str], str],
        numbers: Callable[[str], Any],
    ) -> None:
        super().__init__(scope, (), source)
        self.target, self.arguments, self.meta = target, dict(arguments), meta
        self._tensors, self._numbers = tensors, numbers

    @property
    def tensors_of_program(self) -> Callable[[str], str]:
        """Our value of a tensor of the program, by name."""
        return self._tensors

    @property
    def numbers_of_program(self) -> Callable[[str], Any]:
        """Symbols of the program, by their numbers."""
        return self._numbers

    def over(self, name: str, value: str) -> Call:
        """The same call with another value of ours for an argument."""
        call = Call(self.scope, self.target, self.arguments, self.meta, self.source, self._tensors, self._numbers)
        mark = call.arguments[name] = TensorName(value)

        def tensors(each: str) -> str:
            return value if each is mark else self._tensors(each)

        call._tensors = tensors
        return call

    def gives(self, name: str) -> bool:
        """Return whether an argument is there, and not None."""
        return self.arguments.get(name) is not None

    def argument(self, name: str, default: Any = _NEVER) -> Any:
        """An argument as the program has it, symbols as what they are."""
        self.read.add(name)
        value = self.arguments.get(name, default)
        if value is _NEVER:
            raise Refused(f"it has no argument {name!r}")
        if isinstance(value, list):
            return [self._number(each) for each in cast("list[Any]", value)]
        return self._number(value)

    def _number(self, value: Any) -> Any:
        if isinstance(value, Odd):
            raise Refused(f"an argument of it is {value}")
        return self._numbers(value) if isinstance(value, Symbol) else value

    def tensor(self, name: str = "self") -> str:
        """Our value of a tensor."""
        value = self.argument(name)
        if not isinstance(value, TensorName):
            raise Refused(f"its {name!r} is not a tensor")
        return self._tensors(value)

    def optional(self, name: str) -> str:
        """Our value of a tensor, "" where it is absent."""
        return self.tensor(name) if self.argument(name, None) is not None else ""

    def tensors(self, name: str = "tensors") -> list[str]:
        """Our values of a list of tensors, "" where one is absent."""
        return ["" if each is None else self._tensors(each) for each in self._list(name, ())]

    def known(self, name: str, default: Any = _NEVER) -> Any:
        """A number, a truth or a text that has to be known."""
        value = self.argument(name, default)
        if isinstance(value, (TensorName, list, Ratio, Formula)) or isinstance(value, str) and name not in self._texts:
            raise Refused(f"its {name!r} has to be known, and is {value!r}"[:200])
        return cast("Any", value)

    _texts = ("mode", "equation", "rounding_mode", "approximate", "reduce")

    def integer(self, name: str, default: Any = _NEVER) -> int:
        """An integer that has to be known."""
        return int(self.known(name, default))

    def integers(self, name: str, default: Sequence[int] = ()) -> list[int]:
        """Integers that have to be known."""
        values = self._list(name, default)
        if not all(isinstance(value, int) for value in values):
            raise Refused(f"its {name!r} have to be known, and are {values}"[:200])
        return [int(value) for value in values]

    def extents(self, name: str, default: Sequence[Extent] = ()) -> list[Extent]:
        """Extents, numbers or texts over symbols; -1 stays."""
        values = self._list(name, default)
        if any(isinstance(value, (TensorName, float, Ratio, Formula)) for value in values):
            raise Refused(f"its {name!r} are not extents")
        return values

    def _list(self, name: str, default: Sequence[Any]) -> list[Any]:
        value = self.argument(name, default)
        return (
            list(cast("Sequence[Any]", value)) if isinstance(value, (list, tuple)) else [] if value is None else [value]
        )

    def axis(self, name: str = "dim", default: Any = _NEVER, rank: int | None = None, of: str = "self") -> int:
        """An axis of a tensor, counted from the beginning."""
        known = self.rank(self.tensor(of)) if rank is None else rank
        return self.within(self.integer(name, default), max(known, 1))

    def axes(self, name: str = "dim", of: str = "self") -> tuple[int, ...]:
        """Axes of a tensor, in order; all of them where none are given."""
        rank = self.rank(self.tensor(of))
        chosen = self.integers(name) if self.argument(name, None) is not None else []
        return (
            tuple(sorted({self.within(axis, max(rank, 1)) for axis in chosen}))
            if chosen and rank
            else tuple(range(rank))
        )

    @property
    def dtype(self) -> str:
        """The dtype of the result."""
        if self.meta is None or self.meta.dtype is None:
            raise Refused("its result is of a dtype that values here cannot have")
        return self.meta.dtype

    def promote_dtypes(self, *names: str) -> str:
        """The dtype in which torch computes on these arguments: the widest of the highest kind (bools, integers, floats), where
        tensors without dimensions, and numbers still less, count by their kind alone."""
        groups: list[list[str]] = [[], [], []]
        for name in names:
            value = self.argument(name)
            if isinstance(value, TensorName):
                kind = self.type(self._tensors(value))
                groups[0 if kind.shape else 1].append(kind.dtype)
            else:
                groups[2].append(
                    "bool" if isinstance(value, bool) else "float32" if isinstance(value, float) else "int64"
                )
        chosen = ""
        for group in groups:
            best = widest(group)
            if best and (not chosen or _rank(best) > _rank(chosen)):
                chosen = best
        return chosen

    def operand(self, name: str, dtype: str) -> str:
        """An argument, a tensor or a number, as a value of this dtype."""
        value = self.argument(name)
        if isinstance(value, TensorName):
            return self.cast(self._tensors(value), dtype)
        if isinstance(value, str):
            return self.cast(self.size_value(value), dtype)
        if isinstance(value, Ratio):
            kind = dtype if "float" in dtype else "float32"
            return self.cast(
                self.emit("divide", *(self.cast(self.size_value(one), kind) for one in (value.above, value.below))),
                dtype,
            )
        if isinstance(value, Formula):
            return self.cast(self._emit_number(value), dtype)
        return self.scalar(value, dtype)

    def _emit_number(self, value: Any) -> str:
        """A number that is computed at the call, as a value of float64."""
        if isinstance(value, Formula):
            given = [self._emit_number(one) for one in value.operands]
            name = _FORMULA_OPERATORS.get(value.name)
            return given[0] if name is None else self.emit(name, *given)
        if isinstance(value, Ratio):
            return self.emit("divide", self._emit_number(value.above), self._emit_number(value.below))
        return self.cast(self.size_value(value), "float64") if isinstance(value, str) else self.scalar(value, "float64")

    def scalar(self, value: Any, dtype: str) -> str:
        """A number as a value without dimensions."""
        return self.scope.constant(np.asarray(value).astype(array_dtype(dtype)))

    def refuse_unread_arguments(self) -> None:
        """Raise Refused where a row left an argument out."""
        given = (name for name, value in self.arguments.items() if value is not None and not isinstance(value, Odd))
        self.refuse_unread(given, _WITHOUT_MEANING, "argument")


_FORMULA_OPERATORS = {
    "add": "add",
    "mul": "multiply",
    "neg": "negative",
    "pow": "power",
    "sqrt": "sqrt",
    "sub": "subtract",
    "truediv": "divide",
}
"""What computes a number of a program; nothing does what leaves it as it is."""


def _rank(dtype: str) -> int:
    return 0 if dtype == "bool" else 2 if "float" in dtype else 1


def widest(dtypes: Sequence[str]) -> str:
    """The dtype that holds several, of the highest kind; "" for none."""
    best = ""
    for dtype in dtypes:
        if not best or _rank(dtype) > _rank(best):
            best = dtype
        elif _rank(dtype) == _rank(best) and dtype != best:
            best = (
                str(common_dtype(DType(dtype), DType(best))) if "float" in dtype else str(np.promote_types(dtype, best))
            )
    return best


Row = Callable[[Call], "str | Sequence[str]"]
SYNONYMS = {
    "absolute": "abs",
    "arccos": "acos",
    "arccosh": "acosh",
    "arcsin": "asin",
    "arcsinh": "asinh",
    "arctan": "atan",
    "arctan2": "atan2",
    "arctanh": "atanh",
    "clip": "clamp",
    "concat": "cat",
    "concatenate": "cat",
    "divide": "div",
    "fix": "trunc",
    "ger": "outer",
    "greater": "gt",
    "greater_equal": "ge",
    "less": "lt",
    "less_equal": "le",
    "linalg_matmul": "matmul",
    "multiply": "mul",
    "negative": "neg",
    "not_equal": "ne",
    "special_erf": "erf",
    "special_erfc": "erfc",
    "special_exp2": "exp2",
    "special_expit": "sigmoid",
    "special_expm1": "expm1",
    "special_log1p": "log1p",
    "special_logit": "logit",
    "special_logsumexp": "logsumexp",
    "special_round": "round",
    "special_sinc": "sinc",
    "special_xlogy": "xlogy",
    "subtract": "sub",
    "true_divide": "div",
}
"""Operators that torch has under two names, by the second one. Exported programs have that which the user wrote."""

ROWS: dict[str, Row] = {}
"""How a call of each operator becomes nodes of ours: its values, in order. In-place operators have the row of their namesakes."""

VIEWS: dict[str, Callable[[Call, str, str], str] | None] = {}
"""Of operators whose result is memory of their first argument: how that argument becomes another one when the result does, from
the call, the argument, and the new result; None where that is not known."""


def aten(*names: str) -> Callable[[Row], Row]:
    """Make a row for these operators, overloads after a point."""

    def register(row: Row) -> Row:
        ROWS.update(dict.fromkeys(names, row))
        return row

    return register
