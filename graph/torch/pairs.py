"""torch's operators on complex numbers. There is no complex dtype: a complex tensor is the pairs of its real and imaginary parts,
the last dimension of a value. What is linear is done to each part by the operator's own row, products by four of them."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import replace
from typing import Any, cast

import numpy as np

from ..conversion import Refused, few
from ..types import Extent, array_dtype
from .call import ROWS, VIEWS, Call
from .movement import cut, pad_axis
from .numbers import extent
from .schema import TensorName

__all__ = ["PAIRS", "row_of_pairs"]

PairRow = Callable[[Call, Set[str]], "str | Sequence[str]"]
PAIRS: dict[str, PairRow] = {}
"""How a call becomes nodes where an argument or the result is complex; with the names of the arguments that are."""

_EACH_PART = (
    "cat",
    "stack",
    "clone",
    "neg",
    "sum",
    "mean",
    "flip",
    "roll",
    "repeat",
    "repeat_interleave",
    "index_select",
    "index",
    "cumsum",
    "constant_pad_nd",
    "pad",
    "zeros_like",
    "gather",
    "diagonal",
    "tril",
    "triu",
    "add",
    "sub",
)
_PRODUCTS = ("mul", "matmul", "mm", "bmm", "einsum", "dot", "mv", "outer")


def row_of_pairs(name: str, complexes: Set[str]) -> Callable[[Call], str | Sequence[str]] | None:
    """The row of an operator that takes or gives complex numbers; None where there is none. complexes: the tensors of the program
    that are complex."""
    kind = name.partition(".")[0]
    row = PAIRS.get(kind) or (
        _each_part if kind in _EACH_PART or name in VIEWS else _product if kind in _PRODUCTS else None
    )
    if row is None or row in (_each_part, _product) and name not in ROWS:
        return None
    chosen = row
    return lambda c: chosen(c, complexes)


def _pairs(*names: str) -> Callable[[PairRow], PairRow]:
    def register(row: PairRow) -> PairRow:
        PAIRS.update(dict.fromkeys(names, row))
        return row

    return register


def _part(c: Call, value: str, at: int) -> str:
    """The real parts of pairs, or the imaginary ones."""
    rank = c.rank(value)
    cut = c.emit("slice", value, begin=(at,), end=(at + 1,), step=(1,), axes=(rank - 1,))
    return c.reshape(cut, c.type(value).shape[:-1])


def _stack_pair(c: Call, real: str, imaginary: str) -> str:
    return c.emit("stack", real, imaginary, axis=c.rank(real))


def _is_complex(value: Any, complexes: Set[str]) -> bool:
    return isinstance(value, TensorName) and value in complexes


def _call_real_row(c: Call, given: Mapping[str, Any], values: Mapping[int, str]) -> list[str]:
    """Call the operator's own row with real arguments. values: ours, by the ids of the arguments that are their marks."""
    meta = None if c.meta is None else replace(c.meta, dtype=c.meta.dtype or c.meta.parts)

    def tensors(name: str) -> str:
        return values[id(name)] if id(name) in values else c.tensors_of_program(name)

    call = Call(c.scope, c.target, given, meta, c.source, tensors, c.numbers_of_program)
    results = ROWS[c.target](call)
    c.read |= call.read
    return [results] if isinstance(results, str) else list(results)


def _replace_marks(
    c: Call,
    value: Any,
    choose: Callable[[TensorName], str],
    values: dict[int, str],
    marks: list[TensorName],
) -> Any:
    """An argument whose tensors are marks of what is chosen for them."""
    if isinstance(value, list):
        return [_replace_marks(c, each, choose, values, marks) for each in cast("list[Any]", value)]
    if not isinstance(value, TensorName):
        return value
    marks.append(TensorName(value))
    values[id(marks[-1])] = choose(value)
    return marks[-1]


def _each_part(c: Call, complexes: Set[str]) -> list[str]:
    """The operator, which is linear, of the real parts, and of the imaginary ones."""
    summed = c.target.partition(".")[0] in ("add", "sub")
    halves: list[list[str]] = []
    for at in (0, 1):
        values, marks = dict[int, str](), list[TensorName]()

        def chosen(name: TensorName, at: int = at) -> str:
            value = c.tensors_of_program(name)
            if name in complexes:
                return _part(c, value, at)
            return c.emit("multiply", value, c.constant(0, value)) if summed and at else value

        given = {key: _replace_marks(c, value, chosen, values, marks) for key, value in c.arguments.items()}
        if summed and at and isinstance(given.get("other"), (int, float)):
            given["other"] = 0
        halves.append(_call_real_row(c, given, values))
    return [_stack_pair(c, real, imaginary) for real, imaginary in zip(*halves, strict=True)]


def _product(c: Call, complexes: Set[str]) -> str:
    """(a + bi)(c + di), whatever product the operator is."""
    operands = [
        value
        for each in c.arguments.values()
        for value in (cast("list[Any]", each) if isinstance(each, list) else [each])
        if isinstance(value, TensorName)
    ]
    which = [name in complexes for name in operands]
    if len(operands) > 2:
        raise Refused("it multiplies more than two complex tensors")

    def times(*parts: int) -> str:
        values, marks, at = dict[int, str](), list[TensorName](), iter(parts)

        def chosen(name: TensorName) -> str:
            value, part = c.tensors_of_program(name), next(at)
            return _part(c, value, part) if name in complexes else value

        given = {key: _replace_marks(c, value, chosen, values, marks) for key, value in c.arguments.items()}
        return _call_real_row(c, given, values)[0]

    if not all(which) or len(which) == 1:
        first = which.index(True)
        return _stack_pair(c, *(times(*(part if at == first else 0 for at in range(len(which)))) for part in (0, 1)))
    return _stack_pair(c, c.emit("subtract", times(0, 0), times(1, 1)), c.emit("add", times(0, 1), times(1, 0)))


@_pairs("real", "imag")
def _convert_one_part(c: Call, complexes: Set[str]) -> str:
    name = c.arguments["self"]
    return _part(c, c.tensor(), 0 if c.target.startswith("real") else 1) if name in complexes else c.tensor()


@_pairs("view_as_real", "view_as_complex", "resolve_conj", "resolve_neg")
def _convert_same(c: Call, _: Set[str]) -> str:
    return c.tensor()


@_pairs("_conj", "conj", "conj_physical", "_conj_physical")
def _convert_conjugate(c: Call, _: Set[str]) -> str:
    return c.emit("multiply", c.tensor(), c.constant(np.asarray([1, -1]), c.tensor()))


@_pairs("complex", "polar")
def _convert_complex(c: Call, _: Set[str]) -> str:
    if c.target.startswith("complex"):
        return _stack_pair(c, c.tensor("real"), c.tensor("imag"))
    size, angle = c.tensor("abs"), c.tensor("angle")
    return _stack_pair(c, *(c.emit("multiply", size, c.emit(name, angle)) for name in ("cos", "sin")))


@_pairs("abs", "angle")
def _convert_polar(c: Call, _: Set[str]) -> str:
    real, imaginary = (_part(c, c.tensor(), at) for at in (0, 1))
    if c.target.startswith("angle"):
        return c.emit("atan2", imaginary, real)
    return c.emit("hypot", real, imaginary)


@_pairs("exp")
def _convert_exponential(c: Call, _: Set[str]) -> str:
    real, imaginary = (_part(c, c.tensor(), at) for at in (0, 1))
    return _stack_pair(
        c, *(c.emit("multiply", c.emit("exp", real), c.emit(name, imaginary)) for name in ("cos", "sin"))
    )


@_pairs("div")
def _convert_quotient(c: Call, complexes: Set[str]) -> str:
    """Divide: by a number or a real tensor each part; by complex numbers times their conjugates over the squares of their sizes."""
    below = c.argument("other")
    if not _is_complex(below, complexes):
        return _stack_pair(c, *(_divide_part(c, _part(c, c.tensor(), at)) for at in (0, 1)))
    (p, q), above = (_part(c, c.tensor("other"), at) for at in (0, 1)), c.tensor()
    a, b = (_part(c, above, 0), _part(c, above, 1)) if _is_complex(c.arguments["self"], complexes) else (above, "")
    size = c.emit("add", c.emit("square", p), c.emit("square", q))
    real, imaginary = c.emit("multiply", a, p), c.emit("negative", c.emit("multiply", a, q))
    if b:
        real = c.emit("add", real, c.emit("multiply", b, q))
        imaginary = c.emit("add", imaginary, c.emit("multiply", b, p))
    return _stack_pair(c, c.emit("divide", real, size), c.emit("divide", imaginary, size))


def _divide_part(c: Call, part: str) -> str:
    return c.emit("divide", part, c.operand("other", c.type(part).dtype))


def _transform(
    c: Call, value: str, axis: int, length: Extent | None, inverse: bool = False, onesided: bool = False
) -> str:
    """One transform, undivided where it is not an inverse one; scaled as its norm says."""
    points: Extent = c.type(value).shape[axis] if length is None else length
    if isinstance(length, str):
        real = inverse and onesided
        value = _complete_spectrum(c, value, axis, length) if real else pad_axis(c, value, axis, length)
        made = c.emit("dft", value, axis=axis, length=None, inverse=inverse, onesided=onesided and not real)
        return _scale_spectrum(c, cut(c, made, c.rank(made) - 1, 0, 1) if real else made, points, inverse)
    if inverse and onesided and length is None:
        points = extent(f"2 * (({points}) - 1)")
    made = c.emit(
        "dft",
        value,
        axis=axis,
        length=None if length == c.type(value).shape[axis] and not (inverse and onesided) else length,
        inverse=inverse,
        onesided=onesided,
    )
    return _scale_spectrum(c, made, points, inverse)


def _complete_spectrum(c: Call, value: str, axis: int, length: Extent) -> str:
    """All frequencies of real numbers, given the first half of them: the others are their conjugates, in reverse."""
    half = pad_axis(c, value, axis, extent(f"({length}) // 2 + 1"))
    rest = c.emit("flip", cut(c, half, axis, 1, extent(f"(({length}) - 1) // 2 + 1")), axis=axis)
    if c.type(half).shape[-1] == 2:
        rest = c.emit("multiply", rest, c.constant(np.asarray([1.0, -1.0]).astype(array_dtype(c.type(half).dtype))))
    return c.emit("concat", half, rest, axis=axis)


def _scale_spectrum(c: Call, made: str, points: Extent, inverse: bool) -> str:
    """A transform of so many points, of which the inverse one is divided by them, scaled as its norm says."""
    norm = c.argument("norm", None)
    if norm in (None, "backward"):
        return made
    if norm not in ("ortho", "forward"):
        raise Refused(f"its norm is {norm!r}")
    if isinstance(points, int):
        factor = math.sqrt(points) if norm == "ortho" else points
        return c.emit("multiply", made, c.constant(factor if inverse else 1 / factor, made))
    size = c.cast(c.size_value(points), c.type(made).dtype)
    scale = c.emit("sqrt", size) if norm == "ortho" else size
    return c.emit("multiply" if inverse else "divide", made, scale)


def _ends(c: Call, rank: int) -> list[tuple[int, Extent | None]]:
    """The axes that are transformed, and how many elements of each are taken."""
    kind = c.target.partition(".")[0]
    if kind.endswith("fft"):
        return [(c.within(c.integer("dim", -1), rank), None if c.argument("n", None) is None else c.extents("n")[0])]
    sizes = c.extents("s") if c.argument("s", None) is not None else None
    if c.argument("dim", None) is not None:
        dims = c.integers("dim")
    else:
        dims = [-2, -1] if kind.endswith("2") else list(range(0 if sizes is None else rank - len(sizes), rank))
    lengths = [None if size == -1 else size for size in sizes or [-1] * len(dims)]
    return [(c.within(axis, rank), length) for axis, length in zip(dims, lengths, strict=True)]


@_pairs(*(f"fft_{kind}fft{shape}" for kind in ("", "i", "r", "ir") for shape in ("", "2", "n")))
def _convert_fourier(c: Call, complexes: Set[str]) -> str:
    """Transforms along one axis after another; of real numbers the last axis comes first, and an inverse one to real ones last."""
    kind = c.target.partition(".")[0].removeprefix("fft_")
    inverse, real = kind.startswith("i"), "r" in kind
    value = c.tensor()
    rank = c.rank(value)
    if _is_complex(c.arguments["self"], complexes):
        rank -= 1
    else:
        value = c.reshape(
            value if "float" in c.type(value).dtype else c.cast(value, "float32"), (*c.type(value).shape, 1)
        )
    *others, last = _ends(c, rank)
    if real and inverse:
        for axis, size in others:
            value = _transform(c, value, axis, size, True)
        value = _transform(c, value, *last, True, True)
        return c.reshape(value, c.type(value).shape[:-1])
    value = _transform(c, value, *last, inverse, real)
    for axis, size in others:
        value = _transform(c, value, axis, size, inverse)
    return value


@_pairs("stft")
def _convert_frames(c: Call, complexes: Set[str]) -> str:
    """Frames of a signal, which is mirrored at its ends, times the window, transformed: (..., frequencies, frames, 2)."""
    value, points = c.tensor(), c.integer("n_fft")
    if _is_complex(c.arguments["self"], complexes):
        raise Refused("its signal is complex")
    step = c.integer("hop_length") if c.argument("hop_length", None) is not None else points // 4
    length = c.integer("win_length") if c.argument("win_length", None) is not None else points
    rank = c.rank(value)
    c.argument("return_complex", None)
    if bool(c.known("center", False)):
        mode = {"reflect": "reflect", "constant": "constant", "replicate": "edge"}.get(
            str(c.argument("pad_mode", "reflect"))
        )
        ends = (*[0] * (rank - 1), points // 2)
        value = (
            c.emit("pad", value, before=ends, after=ends, value=0)
            if mode == "constant"
            else c.emit("pad_with", value, before=ends, after=ends, mode=str(mode))
        )
    count = extent(f"(({c.type(value).shape[rank - 1]}) - {points}) // {step} + 1")
    if isinstance(count, int):
        few(count, points)
    first, within = (c.cast(c.emit("arange", shape=(number,)), "int64") for number in (count, points))
    first = c.reshape(c.emit("multiply", first, c.scalar(step, "int64")), (count, 1))
    frames = c.emit("take", value, c.emit("add", first, within), axis=rank - 1)
    if c.argument("window", None) is not None:
        low = (points - length) // 2
        window = c.emit("pad", c.tensor("window"), before=(low,), after=(points - length - low,), value=0)
        frames = c.emit("multiply", frames, window)
    onesided = c.argument("onesided", None)
    made = c.emit(
        "dft", c.reshape(frames, (*c.type(frames).shape, 1)), axis=rank, onesided=onesided is None or bool(onesided)
    )
    if bool(c.known("normalized", False)):
        made = c.emit("multiply", made, c.constant(1 / math.sqrt(points), made))
    return c.emit("transpose", made, axes=(*range(rank - 1), rank, rank - 1, rank + 1))
