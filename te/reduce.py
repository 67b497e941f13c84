"""Reductions: te.sum, te.min, te.max, te.prod and te.comm_reducer."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, Protocol

from ..base import dataclass, user_source
from ..base.arguments import to_list
from ..ir import CommReducer, DType, Expr, IterVar, Mul, Reduce, Var, ops
from .elementwise import lift
from .errors import BadReducer, NotAReduceAxis
from .math import highest, lowest

__all__ = ["Reducer", "comm_reducer", "max", "min", "prod", "sum"]


@dataclass(frozen=True, eq=False)  # without slots: each has its own __doc__
class Reducer:
    """A combiner with its identity; called on a value and axes it makes a reduction.

    combine: (x, y) -> the combination; for tuples both are tuples. identity: dtype, ... -> the neutral element.
    elementwise: whether it is also called as `reducer(a, b, ...)`, on values alone. counts: whether bools are taken as
    int32, as they are by + and *. fuses: whether a term that is declared as a product of float32 or float64 is fused into
    what it is added to, on targets that fuse. help: what `help` says of it.
    """

    combine: Callable[[Any, Any], Any]
    identity: Callable[..., Any]
    name: str
    elementwise: bool = False
    counts: bool = False
    fuses: bool = False
    help: str = ""

    def __post_init__(self) -> None:
        object.__setattr__(self, "__doc__", self.help or type(self).__doc__)

    def __call__(self, expr: Any, *args: Any, axis: Any = None, where: Any = None, init: Any = None) -> Any:
        """The reduction of `expr` over `axis`: `reducer(expr, axis, where=None, init=None)`.

        expr: an expression, or a tuple of them, which gives a tuple of reductions for one compute to return. axis: one
        of te.reduce_axis, or a list or tuple. where: a condition; iterations where it is false contribute nothing.
        init: replaces the identity. The reduction has the dtype of expr. Raises NotAReduceAxis (TW0118) and BadReducer (TW0122).
        """
        if axis is None and args and self._means_values(args[0]):
            result = expr
            for other in args:
                result = self.combine(result, other)
            return result
        if args and axis is None:
            axis, *rest = args
        else:
            rest = list(args)
        if len(rest) > 2 or (rest and where is not None) or (len(rest) == 2 and init is not None):
            raise TypeError(f"{self.name}(expr, axis, where=None, init=None) got too many arguments")
        where = rest[0] if rest else where
        init = rest[1] if len(rest) == 2 else init
        return self._reduce(expr, self._axes(axis), where, init)

    def _means_values(self, second: Any) -> bool:
        return (
            self.elementwise
            and not isinstance(second, (list, tuple))
            and not (isinstance(second, IterVar) and second.kind == "reduce")
        )

    def _axes(self, axis: Any) -> tuple[IterVar, ...]:
        axes = tuple(to_list(axis))
        for at, candidate in enumerate(axes):
            if not isinstance(candidate, IterVar) or candidate.kind != "reduce":
                shown = f"the data axis '{candidate.name}'" if isinstance(candidate, IterVar) else repr(candidate)[:200]
                raise NotAReduceAxis(
                    f"{self.name} has no axis to reduce over"
                    if axis is None
                    else f"{self.name} cannot reduce over {shown}",
                    called=user_source(),
                    reason="only axes that te.reduce_axis made can be reduced over",
                    fix='k = te.reduce_axis((0, n), "k"), and use k as the index that runs',
                )
            if any(candidate is other for other in axes[:at]):
                raise NotAReduceAxis(
                    f"{self.name} lists the axis '{candidate.name}' twice",
                    called=user_source(),
                    fix="name each reduce axis once",
                )
        if not axes:
            raise NotAReduceAxis(
                f"{self.name} has no axis to reduce over",
                called=user_source(),
                fix='k = te.reduce_axis((0, n), "k"), then axis=k',
            )
        return axes

    def _reduce(self, expr: Any, axes: tuple[IterVar, ...], where: Any, init: Any) -> Any:
        is_tuple = isinstance(expr, (list, tuple))
        sources = tuple(map(ops.convert, to_list(expr)))
        if self.counts:
            sources = tuple(ops.cast(source, "int32") if source.dtype.is_bool else source for source in sources)
        combiner = self.combiner(tuple(source.dtype for source in sources), is_tuple)
        condition = ops.TRUE if where is None else ops.truth(where)
        first = [] if init is None else to_list(init)
        if init is not None and len(first) != len(sources):
            raise BadReducer(
                f"init= of {self.name} has {len(first)} elements for {len(sources)} values",
                called=user_source(),
                fix="give one init for each reduced value",
            )
        inits = tuple(self._fitting(value, sources[at].dtype, "init=") for at, value in enumerate(first))
        fused = tuple(
            isinstance(source, Mul) and source.dtype.is_float and source.dtype.bits >= 32 for source in sources
        )
        given = fused if self.fuses and any(fused) else ()
        elements = tuple(Reduce(combiner, sources, axes, condition, inits, at, given) for at in range(len(sources)))
        return elements if is_tuple else elements[0]

    def combiner(self, dtypes: tuple[DType, ...], is_tuple: bool) -> CommReducer:
        """The combiner over fresh variables of `dtypes`. Raises BadReducer (TW0122) where it gives something else for these."""
        names = _parameter_names(self.combine)
        lhs, rhs = (
            tuple(Var(f"{name}_{at}" if is_tuple else name, dtype) for at, dtype in enumerate(dtypes)) for name in names
        )
        combined = self.combine(lhs, rhs) if is_tuple else self.combine(lhs[0], rhs[0])
        result = self._require_tuple(combined, dtypes, "combiner")
        identity = self._require_tuple(self._identity(dtypes), dtypes, "identity")
        return CommReducer(lhs, rhs, result, identity, self.name)

    def _identity(self, dtypes: tuple[DType, ...]) -> Any:
        if not _takes(self.identity, len(dtypes)):
            raise BadReducer(
                f"the identity of {self.name} does not take {len(dtypes)} dtype{'s' if len(dtypes) > 1 else ''}",
                called=user_source(),
                reason="it gives the neutral element for the dtype of each reduced value",
                fix="fidentity=lambda t: te.const(0, t)"
                if len(dtypes) == 1
                else "fidentity=lambda t0, t1: (te.const(-1, t0), te.min_value(t1))",
            )
        return self.identity(*map(str, dtypes))

    def _require_tuple(self, values: Any, dtypes: tuple[DType, ...], what: str) -> tuple[Expr, ...]:
        given = to_list(values)
        if len(given) != len(dtypes):
            raise BadReducer(
                f"the {what} of {self.name} gives {len(given)} values for {len(dtypes)} reduced ones",
                called=user_source(),
                fix="fcombine and fidentity return as many values as are reduced",
            )
        return tuple(self._fitting(value, dtype, what) for value, dtype in zip(given, dtypes, strict=True))

    def _fitting(self, value: Any, dtype: DType, what: str) -> Expr:
        """`value` in the reduced value's own dtype."""
        expr = ops.convert(value)
        if (expr.dtype.is_float and not dtype.is_float) or expr.dtype.kind == "handle":
            raise BadReducer(
                f"the {what} of {self.name} is {expr.dtype}, but the reduced value is {dtype}",
                reason=f"got {expr}",
                called=user_source(),
                fix=f'convert it: (...).astype("{dtype}")',
            )
        return ops.cast(expr, dtype)


def _parameter_names(combine: Callable[[Any, Any], Any]) -> tuple[str, str]:
    try:
        names = list(inspect.signature(combine).parameters)
    except ValueError:
        names = []
    return (names[0], names[1]) if len(names) == 2 else ("x", "y")


def _takes(function: Any, count: int) -> bool:
    """Return whether this is a function of `count` arguments; some builtins do not say, and may be."""
    try:
        inspect.signature(function).bind(*[None] * count)
    except TypeError:
        return False
    except ValueError:
        return True
    return True


class OfKinds(Protocol):
    """A function of the dtypes of all that is reduced."""

    def __call__(self, *kinds: Any) -> Any: ...


def comm_reducer(
    fcombine: Callable[[Any, Any], Any],
    fidentity: Callable[[Any], Any] | Callable[[Any, Any], Any] | Callable[[Any, Any, Any], Any] | OfKinds,
    name: str = "reduce",
) -> Reducer:
    """A reduction by a combiner of one's own.

    What it means is a left fold, in the order of the axes, that begins with the identity. Schedules split and reorder it where the laws
    that this takes are proved; docs/numerics.md says how.

    Parameters
    ----------
    fcombine : callable
        (x, y) -> the combination; over tuples, x and y are tuples and so is the result.
    fidentity : callable
        Takes the dtype of each reduced value, returns the neutral element (a tuple over tuples).
    name : str, default "reduce"
        Of the reduction.

    Raises
    ------
    BadReducer (TW0122)
        fcombine does not take two values. The values that both return are checked when the reduction is made.
    """
    if not _takes(fcombine, 2):
        raise BadReducer(
            f"the combiner of {name} does not take two values", called=user_source(), fix="fcombine=lambda x, y: ..."
        )
    return Reducer(fcombine, fidentity, name)


@lift
def minimum(x: Any, y: Any) -> Any:
    """The lesser of two values."""
    return ops.minimum(x, y)


@lift
def maximum(x: Any, y: Any) -> Any:
    """The greater of two values."""
    return ops.maximum(x, y)


def _zero(dtype: str) -> Expr:
    return ops.const(0, dtype)


def _one(dtype: str) -> Expr:
    return ops.const(1, dtype)


sum = Reducer(
    lambda x, y: x + y,
    _zero,
    "sum",
    counts=True,
    fuses=True,
    help="""The sum of `expr` over one or several axes.

    te.sum(expr, axis, where=None, init=None), in the dtype of expr: integers wrap, and bools are counted in int32. Where the
    outermost operator of expr is a product of float32 or float64, the product is fused into the sum (one rounding) on targets that
    fuse; a product that comes in by inlining is not. axis, where, init: as Reducer's. Raises NotAReduceAxis (TW0118).""",
)

prod = Reducer(
    lambda x, y: x * y,
    _one,
    "prod",
    counts=True,
    help="""The product of `expr` over one or several axes.

    te.prod(expr, axis, where=None, init=None), in the dtype of expr (int32 for bools): integers wrap.""",
)

min = Reducer(
    minimum,
    highest,
    "min",
    elementwise=True,
    help="""The least of `expr` over one or several axes, or of values.

    te.min(expr, axis, where=None, init=None), or te.min(a, b, ...) of values. Of NaNs it is NaN.""",
)

max = Reducer(
    maximum,
    lowest,
    "max",
    elementwise=True,
    help="""The greatest of `expr` over one or several axes, or of values.

    te.max(expr, axis, where=None, init=None), or te.max(a, b, ...) of values. Of NaNs it is NaN.""",
)
