"""te.placeholder and te.compute: tensors that are passed in, and tensors that are computed."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from copy import copy
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias, overload

from ..base.arguments import is_a, to_list
from ..base.errors import SourceLine, user_source
from ..ir.dtype import SCALAR_TYPES
from ..ir.errors import NotAKnownNumber, NotAnExpression
from ..ir.expr import Expr, IterVar
from ..ir.ops import convert
from .body import check_body, join_reductions
from .errors import BadBody, WrongNumberOfIndices, WrongParameters
from .operation import ComputeOp, PlaceholderOp
from .shape import Shape, convert_shape, scalar_dtype, shape_text, zero_based
from .tag import AlgorithmTag, current_tag
from .tensor import Tensor, TensorSlice
from .tensor_compute import tensor_compute
from .tensor_intrin import IntrinsicCall
from .wraparound import wrapping

if TYPE_CHECKING:
    import numpy as np

    Body: TypeAlias = Expr | Tensor | TensorSlice | IntrinsicCall | float | np.generic
    """An element, or what stands for one."""

    class OfAll(Protocol):
        """A function of all indices, as `lambda *i: ...`."""

        def __call__(self, *indices: IterVar) -> Body: ...

    class SeveralOfAll(Protocol):
        """The same for several outputs."""

        def __call__(self, *indices: IterVar) -> Sequence[Body]: ...

    Ax: TypeAlias = IterVar
    Several: TypeAlias = (
        Callable[[], Sequence[Body]]
        | Callable[[Ax], Sequence[Body]]
        | Callable[[Ax, Ax], Sequence[Body]]
        | Callable[[Ax, Ax, Ax], Sequence[Body]]
        | Callable[[Ax, Ax, Ax, Ax], Sequence[Body]]
    )
    Element: TypeAlias = (
        OfAll
        | Callable[[Ax], Body]
        | Callable[[Ax, Ax], Body]
        | Callable[[Ax, Ax, Ax], Body]
        | Callable[[Ax, Ax, Ax, Ax], Body]
        | Callable[[Ax, Ax, Ax, Ax, Ax], Body]
    )
    """What code of ours that calls compute takes for it."""
    Attrs: TypeAlias = Mapping[str, Any] | None

__all__ = ["compute", "placeholder"]


def placeholder(shape: Shape, dtype: object = "float32", name: str = "placeholder") -> Tensor:
    """A tensor that the caller of the kernel passes, an array of this shape and dtype.

    Parameters
    ----------
    shape : int, Expr or sequence of these
        One extent or several, () for a single number; ints, or integer expressions over te.var and te.size_var.
    dtype : str or dtype, default "float32"
        A scalar type ("float32", "bfloat16", "float8_e4m3fn", "int8", "int4", ...; None for float32).
    name : str, default "placeholder"
        Of the tensor.

    Raises
    ------
    BadExtent (TW0110)
        An extent is not an integer, or negative.
    UnknownDType (TW0101)
        There is no such dtype.
    """
    extents = convert_shape(shape, name)
    kind = scalar_dtype("float32" if dtype is None else dtype)
    return PlaceholderOp(name=name, shape=extents, dtype=kind, source=user_source()).output(0)


# One overload for each number of indices: only so do the parameters of a lambda have types, and of `lambda i, old=old: ...` the
# defaults theirs.
@overload
def compute(shape: Shape, fcompute: OfAll, name: str = ..., tag: str = ..., attrs: Attrs = ...) -> Tensor: ...
@overload
def compute(
    shape: Shape, fcompute: Callable[[], Body], name: str = ..., tag: str = ..., attrs: Attrs = ...
) -> Tensor: ...
@overload
def compute(
    shape: Shape, fcompute: Callable[[Ax], Body], name: str = ..., tag: str = ..., attrs: Attrs = ...
) -> Tensor: ...
@overload
def compute(
    shape: Shape, fcompute: Callable[[Ax, Ax], Body], name: str = ..., tag: str = ..., attrs: Attrs = ...
) -> Tensor: ...
@overload
def compute(
    shape: Shape, fcompute: Callable[[Ax, Ax, Ax], Body], name: str = ..., tag: str = ..., attrs: Attrs = ...
) -> Tensor: ...
@overload
def compute(
    shape: Shape,
    fcompute: Callable[[Ax, Ax, Ax, Ax], Body],
    name: str = ...,
    tag: str = ...,
    attrs: Attrs = ...,
) -> Tensor: ...
@overload
def compute(
    shape: Shape,
    fcompute: Callable[[Ax, Ax, Ax, Ax, Ax], Body],
    name: str = ...,
    tag: str = ...,
    attrs: Attrs = ...,
) -> Tensor: ...
@overload
def compute(
    shape: Shape,
    fcompute: Callable[[Ax, Ax, Ax, Ax, Ax, Ax], Body],
    name: str = ...,
    tag: str = ...,
    attrs: Attrs = ...,
) -> Tensor: ...
@overload
def compute(
    shape: Shape,
    fcompute: Callable[[Ax, Ax, Ax, Ax, Ax, Ax, Ax], Body],
    name: str = ...,
    tag: str = ...,
    attrs: Attrs = ...,
) -> Tensor: ...
# The last one is for functions of more indices; it gives a tensor too, since mypy makes Any of results that differ.
@overload
def compute(  # pyright: ignore[reportOverlappingOverload]
    shape: Shape,
    fcompute: SeveralOfAll,
    name: str = ...,
    tag: str = ...,
    attrs: Attrs = ...,
) -> tuple[Tensor, ...]: ...
@overload
def compute(
    shape: Shape, fcompute: Several, name: str = ..., tag: str = ..., attrs: Attrs = ...
) -> tuple[Tensor, ...]: ...
@overload
def compute(
    shape: Shape, fcompute: Callable[..., Any], name: str = ..., tag: str = ..., attrs: Attrs = ...
) -> Tensor: ...
def compute(
    shape: Shape,
    fcompute: Callable[..., Any],
    name: str = "compute",
    tag: str = "",
    attrs: Attrs = None,
) -> Tensor | tuple[Tensor, ...]:
    """A tensor (or a tuple of tensors) of `shape`, whose element at (i, j, ...) is `fcompute(i, j, ...)`.

    Whether reads stay inside their tensors is judged when the program is lowered, where it is known what is needed.

    Parameters
    ----------
    shape : int, Expr or sequence of these
        One extent or several, () for a single number.
    fcompute : callable
        Takes one index for each dimension, or `*indices`; its parameters' names become the axes'. It returns an expression, a
        reduction (te.sum(..., axis=k)), or a tuple of such for several tensors of one shape; or what a tensor intrinsic gives that is
        called on parts of tensors, and then its parameters are the first dimensions, the others the intrinsic's. The dtype is that of
        the expression; Python's numbers count as int32, float32 and bool.
    name : str, default "compute"
        Of the tensor.
    tag : str, default ""
        See Operation.
    attrs : dict or None, default None
        See Operation.

    Raises
    ------
    BadExtent (TW0110)
        An extent is not an integer, or negative.
    WrongParameters (TW0111)
        `fcompute` does not take one index for each dimension.
    BadBody (TW0115)
        It returns no value of an element.
    NestedReduction (TW0116), MixedReductions (TW0117)
        A reduction stands inside a larger expression, or outputs cannot share one loop nest.
    UnreducedAxis (TW0119), ForeignAxis (TW0120)
        A reduce axis is used where no reduction runs over it, or an axis of another compute is.
    BadTensorIntrin (TW0132)
        A tensor intrinsic does not fit what it is called on.
    NotAKnownNumber (TW0107)
        An array of numpy is read at its axes.
    """
    source = user_source()
    if callable(shape) and not callable(fcompute):
        raise WrongParameters(
            f"{name} is given its function before its shape",
            reason=f"got the shape {shape!r}"[:200],
            called=source,
            fix="te.compute(shape, lambda i, j: ...)",
        )
    _check_labels(name, tag, attrs)
    if tag in SCALAR_TYPES:
        raise WrongParameters(
            f"cannot declare {name} with the tag '{tag}'",
            called=source,
            reason="a dtype is none of compute's parameters: it is that of the elements",
            fix=f'te.compute(shape, lambda i: A[i].astype("{tag}"), name="{name}")',
        )
    extents = convert_shape(shape, name)
    names = _axis_names(fcompute, extents, name)
    axis = tuple(
        IterVar(axis_name, domain.begin.dtype, domain)
        for axis_name, domain in zip(names, map(zero_based, extents), strict=False)
    )
    returned = _element(fcompute, axis, extents, name)
    if isinstance(returned, IntrinsicCall):
        return tensor_compute(name, extents, axis, returned, tag or current_tag(), attrs or {})
    if len(names) != len(extents):
        raise _wrong_parameters(fcompute, extents, name)
    values = _values(returned, name, source)
    check_body(name, axis, values)
    body, chosen = join_reductions(name, values)
    op = ComputeOp(
        name=name,
        tag=str(tag or current_tag()),
        algorithm=str(tag) if isinstance(tag, AlgorithmTag) else "",
        attrs=copy(attrs or {}),
        source=source,
        axis=axis,
        body=wrapping(axis, body),
    )
    outputs = tuple(op.output(at) for at in chosen)
    return outputs[0] if len(outputs) == 1 else outputs


def _check_labels(name: str, tag: object, attrs: object) -> None:
    if not is_a(tag, (str, type(None))) or not is_a(attrs, (Mapping, type(None))):
        raise WrongParameters(
            f"cannot declare {name} with tag={tag!r}, attrs={attrs!r}"[:300],
            called=user_source(),
            reason="a tag is a word, and attrs are a dict",
            fix='te.compute(shape, lambda i: ..., tag="mine", attrs={"key": 1})',
        )


def _element(fcompute: Callable[..., Any], axis: tuple[IterVar, ...], extents: tuple[Expr, ...], name: str) -> Any:
    """Return what fcompute gives for the element at these axes."""
    try:
        return fcompute(*axis)
    except WrongNumberOfIndices:
        if len(axis) == len(extents):
            raise
        raise _wrong_parameters(fcompute, extents, name) from None
    except IndexError as error:  # numpy's, of A[i]
        if not str(error).startswith("only integers, slices"):
            raise
        raise NotAKnownNumber(
            f"{name} reads an array of numpy at symbolic indices",
            called=user_source(),
            reason="the values of its axes are known when its kernel runs",
            fix="declare the array as T = te.placeholder(shape, dtype), and pass it when the kernel is called",
        ) from error


def _axis_names(fcompute: Callable[..., Any], shape: tuple[Expr, ...], name: str) -> list[str]:
    """A name for each axis, after the parameters of fcompute; i0, i1, ... where those are variable. A function of fewer
    indices than there are may call a tensor intrinsic: then the names are of the first axes."""
    rank = len(shape)
    if not callable(fcompute):
        raise WrongParameters(
            f"{name} has no function to compute its elements",
            reason=f"got {fcompute!r}"[:200],
            called=user_source(),
            fix="te.compute(shape, lambda i, j: ...)",
        )
    numbered = [f"i{at}" for at in range(rank)]
    try:
        parameters = inspect.signature(fcompute).parameters.values()
    except ValueError:  # some builtins do not say what they take; then calling them tells
        return numbered
    needed = [p for p in parameters if p.default is inspect.Parameter.empty]
    positional = [p.name for p in needed if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    if any(p.kind is p.VAR_POSITIONAL for p in needed) and len(positional) <= rank:
        return positional + numbered[: rank - len(positional)]
    if len(positional) <= rank and not any(p.kind is p.KEYWORD_ONLY for p in needed):
        return positional
    raise _wrong_parameters(fcompute, shape, name)


def _wrong_parameters(fcompute: Callable[..., Any], shape: tuple[Expr, ...], name: str) -> WrongParameters:
    parameters = inspect.signature(fcompute).parameters.values()
    needed = [p for p in parameters if p.default is inspect.Parameter.empty]
    positional = [p.name for p in needed if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    rank = len(shape)
    numbered = [f"i{at}" for at in range(rank)]
    wanted = ", ".join("ijkl"[:rank] if rank <= 4 else numbered)
    return WrongParameters(
        f"the function of {name} takes {len(positional)} {'index' if len(positional) == 1 else 'indices'}, "
        f"but its shape has {rank} {'dimension' if rank == 1 else 'dimensions'}",
        reason=f"parameters ({', '.join(map(str, parameters))}), shape {shape_text(shape)}",
        called=user_source(),
        fix=f"lambda {wanted}: ..., or lambda *indices: ..." if rank else "lambda: ... for a scalar",
    )


def _values(returned: Any, name: str, source: SourceLine | None) -> tuple[Expr, ...]:
    """Return what fcompute returned, as one expression for each output."""
    values: list[Expr] = []
    for item in to_list(returned):
        if isinstance(item, Tensor) and item.ndim:
            raise BadBody(
                f"the function of {name} returned a whole tensor",
                reason=f"got {item}: one element is wanted",
                declared=source,
                called=user_source(),
                fix=f"index it: {item.name}[{', '.join('ijkl'[: item.ndim])}]",
            )
        try:
            value = None if isinstance(item, str) else convert(item)
        except NotAnExpression:
            value = None
        if value is None or value.dtype.lanes != 1 or value.dtype.kind == "handle":
            raise BadBody(
                f"the function of {name} returned no expression",
                reason=f"got {item!r}"[:200],
                declared=source,
                called=user_source(),
                allowed="an expression, a number, a reduction, or a tuple of these",
                fix="return the element: does the function lack a `return`?"
                if item is None
                else "build the element from tensors' elements, indices and numbers",
            )
        values.append(value)
    if not values:
        raise BadBody(
            f"the function of {name} returned an empty {type(returned).__name__}",
            declared=source,
            called=user_source(),
            fix="return one expression for each output",
        )
    return tuple(values)
