"""tw.jit: a function that declares an operator, called on arrays.

    @tw.jit
    def normalise(x, axis=-1):
        return topi.nn.softmax(x, axis=axis)

    y = normalise(np.random.rand(8, 1000).astype("float32"))

The function gets a tensor (te.placeholder) for each array, and returns tensors. For each combination of shapes and dtypes it
is called once, scheduled and built; later calls go straight to the kernel. Dimensions that are dynamic are symbols, and no part of
what it is kept by.
"""

from __future__ import annotations

import inspect
import itertools
import sys
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from functools import partial, update_wrapper
from math import prod
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, Protocol, TypeAlias, TypeGuard, TypeVar, cast, overload

import numpy as np

from ..base import dataclass, field, user_source
from ..base.arguments import is_a, is_array, is_number, is_sequence, to_list, to_tuple
from ..codegen.target import Target
from ..ir import Function, IntImm, Var
from ..runtime import Kernel, cuda, empty
from ..runtime.array import dtype_name, numpy_dtype
from ..runtime.critical_section import ProcessLock
from ..runtime.diagnose import handout_advice, is_traced_by_jax
from ..runtime.errors import NoResult, NotSpecialisable, WrongOutputs
from ..runtime.tensors import NoMemory, RefusedMemory, find_tensor
from ..schedule import Schedule
from ..te import Tensor, compute, placeholder, size_var, var
from .build import build
from .frameworks.shapes import shape_reader
from .lower import lower

__all__ = ["CacheInfo", "JitFunction", "jit"]

R = TypeVar("R", covariant=True)
Given = TypeVar("Given")
Theirs = TypeVar("Theirs", bound="HandedOut")

if TYPE_CHECKING:
    from numpy.typing import NDArray

    class HandedOut(Protocol):
        """An array of torch, jax or another library that hands out its memory."""

        def __dlpack__(self, *args: Any, **named: Any) -> Any: ...

    class Decorator(Protocol):
        """Decorator that tw.jit with options is."""

        def __call__(self, function: Callable[..., R], /) -> JitFunction[R]: ...

    NumpyLike: TypeAlias = np.ndarray[Any, Any] | np.generic
    """Of which the results are numpy's, on CPUs."""
    One: TypeAlias = Tensor | tuple[Schedule, Tensor]
    Several: TypeAlias = Sequence[Tensor] | tuple[Schedule, Sequence[Tensor]]
    """What functions return whose results are a tuple."""


class CacheInfo(NamedTuple):
    """calls that found a kernel, calls that built one, and how many kernels are kept."""

    hits: int
    misses: int
    currsize: int


@dataclass(frozen=True, slots=True)
class _Like:
    """Specialization by an array (shape and dtype), or of a number that each call passes (shape None)."""

    shape: tuple[int, ...] | None
    dtype: str


@dataclass(frozen=True, slots=True)
class _Declared:
    """A function called on tensors. args: those of the kernel, outputs last. several: the function returned a list or tuple.
    shapes: of the outputs; None where they follow from the arguments."""

    schedule: Schedule
    args: tuple[Tensor | Var, ...]
    outputs: tuple[Tensor, ...]
    several: bool
    shapes: tuple[tuple[int, ...], ...] | None


@dataclass(slots=True)
class _Special:
    """A kernel and what calling it needs. takes: finds those of the call's arguments that it takes; None where they are all of
    them. shapes: of the outputs, for these. new: makes arrays of these shapes. theirs: makes of such an array what is
    returned; None where that is the array itself. used: by which call last."""

    kernel: Kernel
    declared: _Declared
    takes: Callable[[tuple[Any, ...]], Sequence[Any]] | None
    shapes: Callable[[Sequence[Any]], Sequence[tuple[int, ...]]]
    new: Callable[[Sequence[tuple[int, ...]]], list[Any]]
    theirs: Callable[[Any], Any] | None
    used: int = 0


@dataclass(frozen=True, slots=True)
class _Symbols:
    """The variables of dynamic dimensions, by their extent: those that are equal are one."""

    of: dict[int, Var] = field(default_factory=dict[int, Var])

    def open(self, shape: tuple[int, ...], dims: Sequence[int], name: str) -> tuple[int | Var, ...]:
        """A shape whose dynamic dimensions are variables."""
        # a dimension beyond the rank is left out: other calls may have it
        at = {dim % len(shape) for dim in dims if -len(shape) <= dim < len(shape)}
        return tuple(
            # dimensions that are equal now are one symbol
            self.of.setdefault(extent, size_var(f"{name}_{dim}")) if dim in at else extent
            for dim, extent in enumerate(shape)
        )


@overload
def jit(function: Callable[..., R], /) -> JitFunction[R]: ...
@overload
def jit(
    *,
    dynamic: Mapping[str, Sequence[int]] | None = None,
    target: str | Target = "llvm",
    fast_math: bool = False,
    bounds_check: bool = False,
) -> Decorator: ...
def jit(
    function: Callable[..., Any] | None = None,
    /,
    *,
    dynamic: Mapping[str, Sequence[int]] | None = None,
    target: str | Target = "llvm",
    fast_math: bool = False,
    bounds_check: bool = False,
) -> JitFunction[Any] | Decorator:
    """A function that declares tensors, as one that computes arrays: `@tw.jit` or `@tw.jit(target=..., fast_math=True)`.

    It is called with numpy arrays, tw.Arrays or anything with DLPack, or tuples and lists of these, and gets te.placeholders of their
    shapes and dtypes instead. Numpy scalars (np.float32(0.5)) become te.vars, which each call may change. Any other argument is passed
    as it is, and the function is specialised by its value, which has to be hashable. The 256 kernels that were used last are kept.

    A call returns new arrays of the kind that it was given: torch's where an argument is a tensor of torch, jax's where one is
    jax's, else numpy arrays (tw.Arrays on the GPU for a CUDA target); out= takes an array, or a sequence of them, to write to
    instead, and returns it. Called with tensors it is the plain function, so that such functions compose. Safe to call from several
    threads.

    Parameters
    ----------
    function : callable
        Gets te.placeholders and te.vars; returns a tensor, or a list or tuple of tensors, which topi.schedule schedules; or
        (schedule, tensors).
    dynamic : dict of str to sequence of int, optional
        Dimensions by the names of arguments, `{"x": (0,), "y": (0, 1)}`, whose extents may change from call to call: the function
        gets variables for them, and one kernel serves all sizes. Those that are equal in the call that builds are one variable, of
        which calls where they differ have another kernel.
    target : str or Target, default "llvm"
        As of tw.build.
    fast_math : bool, default False
        As of tw.build.
    bounds_check : bool, default False
        As of tw.build.

    Raises
    ------
    NotSpecialisable (TW0530)
        An argument is neither an array nor hashable.
    NoResult (TW0531)
        The function returns no tensors of known shapes.
    WrongOutputs (TW0532)
        `out` has another number of arrays than the function has results.
    TilewrightError
        What building and calling kernels raise.
    """
    if function is None:

        def decorator(function: Callable[..., R]) -> JitFunction[R]:
            return JitFunction(
                function, Target.parse(target), fast_math, bounds_check, {} if dynamic is None else dynamic
            )

        return decorator
    return JitFunction[Any](function, Target.parse(target), fast_math, bounds_check, {} if dynamic is None else dynamic)


_KEPT = 256
"""How many kernels a function keeps."""


class JitFunction(Generic[R]):
    """Function that tw.jit makes. `__wrapped__` is the function."""

    def __init__(
        self,
        function: Callable[..., Any],
        target: Target,
        fast_math: bool,
        bounds_check: bool,
        dynamic: Mapping[str, Sequence[int]],
    ) -> None:
        try:
            self._signature = inspect.signature(function)
        except (TypeError, ValueError) as error:
            raise NotSpecialisable(
                f"a {type(function).__name__} is not a function that can be specialised",
                reason=str(error)[:200],
                called=user_source(),
                fix="@tw.jit over a function of Python's",
            ) from None
        update_wrapper(self, function)
        self._function, self._target = function, target
        self._fast_math, self._bounds_check = fast_math, bounds_check
        self._name = function.__name__ if str.isidentifier(getattr(function, "__name__", "")) else "main"
        self._dynamic = _find_parameters(self._name, self._signature, dynamic)
        self._on_gpu = target.backend.device(target) == "cuda"
        self._lock = ProcessLock()
        self._specials: dict[Hashable, _Special] = {}
        self._calls = itertools.count()
        self._misses = 0

    @overload
    def __call__(self, *args: Any, out: Given, **named: Any) -> Given: ...
    @overload
    def __call__(self, first: Tensor, /, *args: Any, out: None = None, **named: Any) -> R: ...
    @overload
    def __call__(
        self: JitFunction[One], first: NumpyLike, /, *args: Any, out: None = None, **named: Any
    ) -> NDArray[Any]: ...
    @overload
    def __call__(self: JitFunction[One], first: Theirs, /, *args: Any, out: None = None, **named: Any) -> Theirs: ...
    @overload
    def __call__(
        self: JitFunction[Several],
        first: NumpyLike,
        /,
        *args: Any,
        out: None = None,
        **named: Any,
    ) -> tuple[NDArray[Any], ...]: ...
    @overload
    def __call__(
        self: JitFunction[Several],
        first: Theirs,
        /,
        *args: Any,
        out: None = None,
        **named: Any,
    ) -> tuple[Theirs, ...]: ...
    @overload
    def __call__(self, *args: Any, **named: Any) -> Any: ...
    def __call__(self, *args: Any, out: Any = None, **named: Any) -> Any:
        """The function's results for these arrays, new ones, or those given by `out=`.

        A first call with these shapes and dtypes builds. Raises NoResult (TW0531) for what the function returns, WrongOutputs
        (TW0532) for `out`, NotSpecialisable (TW0530) for an argument that cannot be part of the kernel; and what te, tw.build and a
        call of the kernel raise.
        """
        if named:  # most calls have no keywords, and need no binding
            if any(isinstance(leaf, Tensor) for leaf in _leaves((args, named))):
                return self._function(*args, **named)
            args = self._order_arguments(args, named)
        # a key of numpy arrays is made without a call: this line is the fast path
        key = tuple([(a.shape, a.dtype) if type(a) is np.ndarray else _key(a) for a in args])
        if self._dynamic:  # with dynamic dimensions the extents are no part of the key
            key = self._open_key(args)
        try:
            special = self._specials.get(key)
        except TypeError:
            raise _not_hashable(self._name, args) from None
        if special is None:
            if any(isinstance(leaf, Tensor) for leaf in _leaves(args)):
                return self._function(*args)
            special = self._specialise(key, args)
        special.used = next(self._calls)
        given = args if special.takes is None else special.takes(args)
        if out is not None:
            special.kernel(*given, *self._outputs_given(special.declared, out))
            return out
        results = special.new(special.shapes(given))
        special.kernel(*given, *results)
        if special.theirs is not None:
            results = list(map(special.theirs, results))
        return tuple(results) if special.declared.several else results[0]

    def kernel(self, *args: Any, **named: Any) -> Kernel:
        """The kernel for arguments of these shapes and dtypes: its text, its time, its library. It is called with the arrays, then
        the outputs. Raises what a call raises that builds."""
        args = self._order_arguments(args, named)
        return self._specialise(self._open_key(args) if self._dynamic else tuple(map(_key, args)), args).kernel

    def lower(self, *args: Any, **named: Any) -> Function:
        """The loops of the kernel for arguments of these shapes and dtypes. Raises what a call raises that builds."""
        declared = self._declare_tensors(self._order_arguments(args, named))
        return lower(declared.schedule, list(declared.args), self._name)

    def cache_info(self) -> CacheInfo:
        """Return how many calls found their kernel, how many built one, and how many kernels there are."""
        calls = int(cast(Any, self._calls.__reduce__()[1])[0])  # the counter is read without counting
        return CacheInfo(calls - self._misses, self._misses, len(self._specials))

    def cache_clear(self) -> None:
        """Forget all kernels."""
        # fmt: off
        with self._lock(): self._specials.clear()
        # fmt: on
        self._calls, self._misses = itertools.count(), 0

    def __repr__(self) -> str:
        return f"<tw.jit {self._name}{self._signature}, {len(self._specials)} kernels>"

    def _order_arguments(self, args: tuple[Any, ...], named: dict[str, Any]) -> tuple[Any, ...]:
        """All arguments by position, defaults included; keyword-only ones last, as the function's own **named."""
        if not named:
            return args
        bound = self._signature.bind(*args, **named)
        bound.apply_defaults()
        # keyword-only arguments go last, in an order that does not depend on the call
        return (*bound.args, _Named(tuple(sorted(bound.kwargs.items())))) if bound.kwargs else bound.args

    def _open_key(self, args: tuple[Any, ...]) -> tuple[Hashable, ...]:
        """Return what the function is specialised by: of dynamic dimensions, which of them are equal."""
        equal: dict[int, int] = {}
        return tuple(
            [
                _open_key(arg, self._dynamic[at], equal) if at in self._dynamic else _key(arg)
                for at, arg in enumerate(args)
            ]
        )

    def _specialise(self, key: Hashable, args: tuple[Any, ...]) -> _Special:
        """The kernel for arguments of this kind, built by whoever comes first."""
        # fmt: off
        # one line: a tracer may raise at the begin of any line
        with self._lock(): return self._found_or_built(key, args)
        # fmt: on

    def _found_or_built(self, key: Hashable, args: tuple[Any, ...]) -> _Special:
        try:
            special = self._specials.get(key)
        except TypeError:
            raise _not_hashable(self._name, args) from None
        if special is None:  # another thread may have built it meanwhile
            declared = self._declare_tensors(args)
            kernel = build(
                declared.schedule,
                list(declared.args),
                self._target,
                self._name,
                bounds_check=self._bounds_check,
                fast_math=self._fast_math,
            )
            plain = all(type(arg) is np.ndarray or _hands_out_memory(arg) for arg in args)
            shapes = shape_reader(kernel.signature) if declared.shapes is None else partial(_same, declared.shapes)
            new, theirs = _results(
                _framework(args), [numpy_dtype(str(tensor.dtype)) for tensor in declared.outputs], self._on_gpu
            )
            while len(self._specials) >= _KEPT:  # the kernel that was used longest ago is dropped
                del self._specials[min(self._specials, key=lambda key: self._specials[key].used)]
            special = self._specials[key] = _Special(kernel, declared, None if plain else _arrays, shapes, new, theirs)
            self._misses += 1
        return special

    def _declare_tensors(self, args: tuple[Any, ...]) -> _Declared:
        """The function called on tensors that are like the arguments, and its results scheduled."""
        names = _names(self._signature, args)
        inputs: list[Tensor | Var] = []
        symbols = _Symbols()
        tensors = [
            _tensors(arg, name, inputs, symbols, self._dynamic.get(at, ()))
            for at, (arg, name) in enumerate(zip(args, names, strict=True))
        ]
        named = dict(tensors.pop().items) if tensors and isinstance(tensors[-1], _Named) else {}
        returned = self._function(*tensors, **named)
        parts = to_tuple(returned)
        # (schedule, tensors) is the user's own schedule
        own = parts[0] if len(parts) == 2 and isinstance(parts[0], Schedule) else None
        result = returned if own is None else parts[1]
        several, results = is_sequence(result), to_list(result)
        if not results or not all(isinstance(result, Tensor) for result in results):
            raise NoResult(
                f"{self._name} returns nothing that could be computed",
                reason=f"it returned {_format_argument(returned)}",
                called=user_source(),
                allowed="a tensor, a list or tuple of tensors, or (schedule, tensors)",
                fix="return what te.compute or an operator of topi gave",
            )
        outputs = list(_own_tensors(results, inputs)) if own is None else results
        schedule = self._schedule_results(outputs) if own is None else own
        # with symbols the shapes follow from each call
        shapes = None if symbols.of else tuple(_shape(self._name, tensor) for tensor in outputs)
        return _Declared(schedule, (*inputs, *outputs), tuple(outputs), several, shapes)

    def _schedule_results(self, outputs: Sequence[Tensor]) -> Schedule:
        from ..topi import schedule

        return schedule(outputs, self._target)

    def _outputs_given(self, declared: _Declared, out: Any) -> Sequence[Any]:
        given = to_list(out) if declared.several else [out]
        if len(given) != len(declared.outputs):
            raise WrongOutputs(
                f"{self._name} has {len(declared.outputs)} outputs, and out= gives {len(given)}",
                called=user_source(),
                allowed="; ".join(
                    f"{tensor.dtype}[{', '.join(map(str, tensor.shape))}]" for tensor in declared.outputs
                ),
                fix="pass an array for each, in their order, as a list or tuple",
            )
        return given


def _framework(args: tuple[Any, ...]) -> str:
    """Whose arrays results are: of the first argument that is torch's or jax's."""
    roots = (type(leaf).__module__.partition(".")[0] for leaf in _leaves(args))
    return next(({"jaxlib": "jax"}.get(root, root) for root in roots if root in ("torch", "jax", "jaxlib")), "")


def _results(
    framework: str,
    dtypes: Sequence[np.dtype[Any]],
    on_gpu: bool,
) -> tuple[Callable[[Sequence[tuple[int, ...]]], list[Any]], Callable[[Any], Any] | None]:
    """Return what makes the arrays that a kernel writes, of shapes, and what makes of such an array that of torch or jax; None where it
    is the array."""
    if framework == "torch":
        torch: Any = sys.modules["torch"]
        device, kinds = "cuda" if on_gpu else "cpu", [getattr(torch, dtype_name(dtype)) for dtype in dtypes]
        return (
            lambda shapes: [
                torch.empty(shape, dtype=kind, device=device) for shape, kind in zip(shapes, kinds, strict=True)
            ]
        ), None
    theirs: Any = sys.modules[framework] if framework else None
    make: Callable[..., Any] = partial(empty, device=cuda(0)) if on_gpu else np.empty
    take: Callable[[Any], Any] | None = None
    if theirs is not None:
        make = make if on_gpu else _made_for_jax
        take = partial(_given_to_jax, theirs.dlpack.from_dlpack, theirs.numpy.asarray)
    return lambda shapes: [make(shape, dtype) for shape, dtype in zip(shapes, dtypes, strict=True)], take


_COPIED = 1 << 16
"""Bytes below which jax copies an array of numpy in less time than it takes over another one's memory."""


def _made_for_jax(shape: tuple[int, ...], dtype: np.dtype[Any]) -> Any:
    """An array that is written for jax: one whose memory it takes over, which is aligned as its own, unless that is little."""
    # jax takes over aligned memory without a copy
    small = dtype.itemsize * prod(shape) < _COPIED
    return np.empty(shape, dtype) if small else empty(shape, dtype)


def _given_to_jax(taken: Callable[[Any], Any], copied: Callable[[Any], Any], made: Any) -> Any:
    return copied(made) if type(made) is np.ndarray else taken(made)


def _same(shapes: Sequence[tuple[int, ...]], given: Sequence[Any]) -> Sequence[tuple[int, ...]]:
    """The shapes, whatever is given."""
    del given
    return shapes


def _find_parameters(
    function: str, signature: inspect.Signature, dynamic: Mapping[str, Sequence[int]]
) -> dict[int, tuple[int, ...]]:
    """The dynamic dimensions by the positions of arguments. Raises NotSpecialisable (TW0530)."""
    names = [
        name
        for name, one in signature.parameters.items()
        if one.kind in (one.POSITIONAL_ONLY, one.POSITIONAL_OR_KEYWORD)
    ]
    for name, dims in dynamic.items() if is_a(dynamic, Mapping) else [(None, dynamic)]:
        if name not in names or not is_sequence(dims) or not all(type(dim) is int for dim in dims):
            raise NotSpecialisable(
                f"cannot take {dims!r} of {name!r} as dynamic dimensions of {function}"[:300],
                called=user_source(),
                reason="they are numbers of dimensions, by the name of an argument that has a position",
                allowed=", ".join(names),
                fix='tw.jit(dynamic={"x": (0,)})',
            )
    return {names.index(name): tuple(dims) for name, dims in dynamic.items() if dims}


def _open_key(value: Any, dims: Sequence[int], equal: dict[int, int]) -> Hashable:
    """The key of an argument with dynamic dimensions. equal: numbers the extents that they have."""
    if is_sequence(value):
        return type(value), tuple([_open_key(item, dims, equal) for item in value])
    if not is_array(value) and not _hands_out_memory(value):
        return _key(value)
    extents, dtype = _layout(value)
    shape: list[Any] = list(extents)
    for dim in dims:
        if -len(shape) <= dim < len(shape):
            # equal extents are one symbol: which are equal is part of the key
            shape[dim] = "dynamic", equal.setdefault(extents[dim], len(equal))
    return type(value), tuple(shape), dtype


class _Named(NamedTuple):
    """Keyword-only arguments, by name."""

    items: tuple[tuple[str, Any], ...]


def _key(value: object) -> Hashable:
    """Return what a function is specialised by, of any argument. Arrays of one kind by DLPack have the key of numpy's."""
    if is_array(value):
        return value.shape, value.dtype
    if _hands_out_memory(value):
        return type(value), *_layout(value)
    if is_number(value):
        return type(value)  # a number is passed at each call: its value is no part of the key
    if is_sequence(value):
        try:
            return type(value), tuple([_key(item) for item in value])
        except RecursionError:
            raise _unreadable(value, "its lists contain themselves, or are too deep") from None
    if type(value) is float:
        return float, value.hex()  # 0.0 and -0.0 are equal, and nan is not
    return type(value), value


class _Array(Protocol):
    """Array by DLPack's or numpy's protocols."""

    @property
    def shape(self) -> Sequence[int]: ...
    @property
    def dtype(self) -> Hashable: ...


def _hands_out_memory(value: object) -> TypeGuard[_Array]:
    return hasattr(type(value), "__dlpack__") or hasattr(type(value), "__array_interface__")


def _layout(value: _Array) -> tuple[tuple[int, ...], Hashable]:
    """The shape and dtype that somebody's array says it has. Raises NotSpecialisable (TW0530) where it says none."""
    try:
        return tuple(value.shape), value.dtype
    except (AttributeError, TypeError) as error:
        raise _unreadable(value, str(error)) from error


def _unreadable(value: object, reason: str) -> NotSpecialisable:
    return NotSpecialisable(
        f"cannot read an argument of type {type(value).__name__}",
        reason="jax traces the function, so that it has no elements yet" if is_traced_by_jax(value) else reason,
        called=user_source(),
        fix=handout_advice(value),
    )


def _like(value: object) -> _Like | None:
    """The kind of tensor or number that stands for an argument; None for one that is handed on as it is."""
    if is_number(value):
        return _Like(None, dtype_name(value.dtype))
    if is_array(value):
        return _Like(value.shape, dtype_name(value.dtype))
    if not _hands_out_memory(value):
        return None
    try:
        memory = find_tensor(value)
    except (NoMemory, RefusedMemory) as error:
        raise _unreadable(value, str(error)) from error
    return _Like(tuple(memory.shape), memory.dtype)


def _tensors(value: Any, name: str, inputs: list[Tensor | Var], symbols: _Symbols, dims: Sequence[int]) -> Any:
    """Return what the function gets for an argument; the tensors and variables made are added to `inputs`. dims: its dynamic ones."""
    if isinstance(value, _Named):
        return _Named(tuple((key, _tensors(item, key, inputs, symbols, ())) for key, item in value.items))
    if is_sequence(value):
        parts = [_tensors(item, f"{name}{at}", inputs, symbols, dims) for at, item in enumerate(value)]
        return tuple(parts) if isinstance(value, tuple) else parts
    like = _like(value)
    if like is None:
        return value
    stand_in = (
        var(name, like.dtype)
        if like.shape is None
        else placeholder(symbols.open(like.shape, dims, name), like.dtype, name)
    )
    inputs.append(stand_in)
    return stand_in


def _arrays(args: tuple[Any, ...]) -> list[Any]:
    """The arguments that the kernel takes, in order."""
    return [leaf for leaf in _leaves(args) if isinstance(leaf, (np.ndarray, np.generic)) or _hands_out_memory(leaf)]


def _leaves(value: Any) -> Iterator[Any]:
    if is_sequence(value):
        for item in value:
            yield from _leaves(item)
    elif isinstance(value, dict):
        yield from _leaves(list(cast("dict[Any, Any]", value).values()))
    else:
        yield value


def _names(signature: inspect.Signature, args: tuple[Any, ...]) -> list[str]:
    """The name of each argument: its parameter's, numbered for *args."""
    names: list[str] = []
    for parameter in signature.parameters.values():
        if parameter.kind is parameter.VAR_POSITIONAL:
            names += [f"{parameter.name}{at}" for at in range(len(args) - len(names))]
        elif parameter.kind in (parameter.POSITIONAL_ONLY, parameter.POSITIONAL_OR_KEYWORD):
            names.append(parameter.name)
    return [*names[: len(args)], *(f"arg{at}" for at in range(len(names), len(args)))]


def _own_tensors(results: Sequence[Tensor], inputs: Sequence[Tensor | Var]) -> Iterator[Tensor]:
    """The results, each a computed tensor of its own: what is an input, or a result already, is copied."""
    seen: set[Tensor] = {tensor for tensor in inputs if isinstance(tensor, Tensor)}
    for result in results:
        if result in seen or result.op.is_given:  # an input or a repeated result cannot be written as an output
            yield compute(result.shape, lambda *at, result=result: result(*at), name=f"{result.name}_copy")
        else:
            seen.add(result)
            yield result


def _shape(function: str, tensor: Tensor) -> tuple[int, ...]:
    """The extents of an output, which are known, since those of the inputs are."""
    if not all(isinstance(extent, IntImm) for extent in tensor.shape):
        raise NoResult(
            f"the shape of {tensor.name}, which {function} returns, is not known",
            declared=tensor.source,
            reason=f"it is ({', '.join(map(str, tensor.shape))})",
            called=user_source(),
            fix="make shapes of the inputs' extents, or of arguments that are Python's integers",
        )
    return tuple(cast(IntImm, extent).value for extent in tensor.shape)


def _not_hashable(name: str, args: tuple[Any, ...]) -> NotSpecialisable:
    culprit = next((leaf for leaf in _leaves(args) if not _hashable(leaf)), None)
    return NotSpecialisable(
        f"cannot specialise {name} by an argument of type {type(culprit).__name__}",
        reason="what is not an array is part of the kernel, which is kept by the argument's value; this one has no hash",
        called=user_source(),
        allowed="arrays, numpy scalars, and hashable values; tuples and lists of these",
        fix="pass an array, or a tuple",
    )


def _hashable(value: Any) -> bool:
    try:
        hash(_key(value))
    except TypeError:
        return False
    return True


def _format_argument(value: Any) -> str:
    text = repr(value)
    return text if len(text) < 80 else f"{text[:77]}..."
