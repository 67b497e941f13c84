"""Fast Fourier transforms of the rows of a tensor, as an operation of loops.

    X[k2 * a + k1] = sum over j2 of (sum over j1 of x[j1 * b + j2] * w_a^(j1 k1)) * w_n^(j2 k1) * w_b^(j2 k2)        n = a * b

Both sums are transforms of columns that lie side by side, so that all arithmetic is in lanes, and what is stored between them is a
transposition (the four steps of Bailey 1990). A transform of columns takes a pass for each of its factors, from one array to another,
in an order that needs no exchange of digits at the end (Stockham 1966; Swarztrauber 1982). A length whose factors are large is a
convolution with a chirp, of a length whose factors are small (Bluestein 1970).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from math import prod
from typing import Any, ClassVar

import numpy as np

from ..base.dataclass import dataclass
from ..ir.buffer import Buffer
from ..ir.dtype import DType
from ..ir.expr import BufferLoad, Expr, IterVar, ProducerLoad, Range, Select, Var
from ..ir.ops import const, equal, floordiv, floormod
from ..ir.stmt import Allocate, BufferStore, For, LetStmt, LoopKind, Stmt
from ..ir.visit import seq
from .butterflies import Complex, multiply, transform
from .constant import constant
from .hybrid.op import HybridOp
from .tensor import Tensor

__all__ = ["FourierOp", "Transform", "fast_fourier"]

LANES = 16
"""Columns that are transformed side by side."""
TURNED = 8
"""Rows of a block that is transposed."""

Source = Callable[[int, Expr], Expr]
"""The real (0) or the imaginary part (1) of an element."""
Sink = Callable[[Expr, Complex], Stmt]
"""Stores an element."""


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class FourierOp(HybridOp):
    """Transforms of rows. Each element is written once, before anything is read."""

    begins_undefined: ClassVar[bool] = True


@dataclass(frozen=True)
class Transform:
    """Discrete Fourier transform of rows.

    points: of a row. given: parts of its elements, 1 of real ones. kept: of so many frequencies, the first ones; results: parts of
    these. inverse: whether it is the inverse one; scale: by which results are multiplied. steps: the factors of both steps, each small,
    whose product are the points; or a length of at least 2 * points - 1, where the points have factors that are large.
    """

    points: int
    given: int
    kept: int
    results: int
    inverse: bool
    scale: float
    steps: tuple[tuple[int, ...], tuple[int, ...]]

    @property
    def length(self) -> int:
        """Length of the arrays that are transformed."""
        return prod(prod(step) for step in self.steps)

    @property
    def sign(self) -> int:
        """Sign of the angles."""
        return 1 if self.inverse else -1


def fast_fourier(name: str, data: Tensor, shape: Sequence[Expr], of: Transform, dtype: DType, source: Any) -> FourierOp:
    """The operation that transforms data (rows, points, given), of which results are of `shape` (rows, kept, results)."""
    out = Buffer(name, tuple(shape), dtype)
    extent = shape[0]
    row = IterVar("r", extent.dtype, Range(const(0, extent.dtype), extent))
    kind = data.dtype
    script = _Script(of, kind)

    def load(part: int, at: Expr) -> Expr:
        return ProducerLoad(data, (row, at, const(part))) if part < of.given else const(0, kind)

    def store(at: Expr, part: Expr, value: Expr) -> Stmt:
        scaled = value if of.scale == 1 else value * const(of.scale, kind)
        return BufferStore(out, scaled if scaled.dtype == dtype else scaled.astype(dtype), (row, at, part))

    body = For(row, const(0, extent.dtype), extent, LoopKind.SERIAL, script.build(load, store))
    return FourierOp(name=name, tag="", source=source, buffers=(out,), body=body)


class _Script:
    """The loops for one row."""

    def __init__(self, of: Transform, kind: DType) -> None:
        self.of, self.kind = of, kind
        length = const(of.length)
        self.arrays = [Buffer(name, (const(2), length), kind) for name in ("points_a", "points_b")]
        self.names = 0

    def build(self, load: Source, store: Callable[[Expr, Expr, Expr], Stmt]) -> Stmt:
        """All passes."""
        n = self.of.points
        if self.of.length == n:
            passes, last = self._transform(load, self.arrays, self.of.sign)
            source = self._array(last)
        else:
            passes, source = self._chirps(load)
        body = seq(*passes, self._results(source, store))
        for array in self.arrays:
            body = Allocate(array, body)
        return body

    def _array(self, buffer: Buffer) -> Source:
        return lambda part, at: BufferLoad(buffer, (const(part), at))

    def _sink(self, buffer: Buffer, turns: Tensor | None = None) -> Sink:
        """Return a sink into an array, of what is given times `turns` (2, length)."""

        def store(at: Expr, value: Complex) -> Stmt:
            names: list[tuple[Var, Expr]] = []
            if turns is not None:
                value = multiply(value, (turns[0, at], turns[1, at]), self._binder(names))
            stores = [BufferStore(buffer, value[part], (const(part), at)) for part in (0, 1)]
            return _let(names, seq(*stores))

        return store

    def _binder(self, names: list[tuple[Var, Expr]]) -> Callable[[Expr], Expr]:
        def bind(value: Expr) -> Expr:
            self.names += 1
            var = Var(f"t{self.names}", value.dtype)
            names.append((var, value))
            return var

        return bind

    # A transform of a row

    def _transform(
        self, load: Source, arrays: Sequence[Buffer], sign: int, turns: Tensor | None = None
    ) -> tuple[list[Stmt], Buffer]:
        """The passes over a row, the last of which multiplies by `turns`; and the array in which they end."""
        over, within = self.of.steps
        a, b = prod(over), prod(within)
        between = (
            _table(_roots(a * b, sign)[np.outer(np.arange(a), np.arange(b))].ravel(), self.kind) if b > 1 else turns
        )
        passes, at = self._columns(load, arrays, 0, over, b, sign, between)
        if b == 1:
            return passes, arrays[at]
        passes.append(self._transpose(arrays[at], arrays[1 - at], a, b))
        more, end = self._columns(self._array(arrays[1 - at]), arrays, at, within, a, sign, turns)
        return [*passes, *more], arrays[end]

    def _columns(
        self,
        load: Source,
        arrays: Sequence[Buffer],
        into: int,
        factors: Sequence[int],
        columns: int,
        sign: int,
        turns: Tensor | None,
    ) -> tuple[list[Stmt], int]:
        """The passes over `columns` columns; and the place of the array in which they end. into: of the array of the first pass."""
        passes: list[Stmt] = []
        width, left = columns, prod(factors)
        for at, factor in enumerate(factors):
            left //= factor
            sink = self._sink(arrays[into], turns if at == len(factors) - 1 else None)
            passes.append(self._pass(load, sink, factor, left, width, sign))
            load, width, into = self._array(arrays[into]), width * factor, 1 - into
        return passes, 1 - into

    def _pass(self, load: Source, sink: Sink, factor: int, groups: int, width: int, sign: int) -> Stmt:
        """A pass: elements q + width * (p + groups * t) become q + width * (factor * p + k), for p in groups and q in width."""
        p = Var("p", const(0).dtype)
        rotations = None
        if groups > 1:
            turns = _roots(factor * groups, sign)[np.outer(np.arange(groups), np.arange(1, factor))]
            rotations = _table(turns.ravel(), self.kind)

        def lanes(q: Expr) -> Stmt:
            names: list[tuple[Var, Expr]] = []
            bind = self._binder(names)
            first = q + p * width if groups > 1 else q
            values = [
                (bind(load(0, first + width * groups * t)), bind(load(1, first + width * groups * t)))
                for t in range(factor)
            ]
            results = transform(values, sign, bind)
            if rotations is not None:
                for k in range(1, factor):
                    at = p * (factor - 1) + (k - 1)
                    results[k] = multiply(results[k], (rotations[0, at], rotations[1, at]), bind)
            begin = q + p * (width * factor) if groups > 1 else q
            return _let(names, seq(*(sink(begin + width * k, each) for k, each in enumerate(results))))

        body = _vector_loops(width, LANES, lanes)
        return For(p, const(0), const(groups), LoopKind.SERIAL, body) if groups > 1 else body

    def _transpose(self, array: Buffer, into: Buffer, rows: int, columns: int) -> Stmt:
        """into[j * rows + i] = array[i * columns + j], in blocks."""
        part = Var("part", const(0).dtype)

        def block(j: Expr, i: Expr) -> Stmt:
            return BufferStore(into, BufferLoad(array, (part, i * columns + j)), (part, j * rows + i))

        def down(first: Expr, count: int) -> Stmt:
            return _vector_loops(rows, LANES, *(partial(block, first + t) for t in range(count)))

        j = Var("j", const(0).dtype)
        whole, rest = divmod(columns, TURNED)
        blocks: list[Stmt] = []
        if whole:
            blocks.append(For(j, const(0), const(whole), LoopKind.SERIAL, down(j * TURNED, TURNED)))
        if rest:
            blocks.append(down(const(whole * TURNED), rest))
        return For(part, const(0), const(2), LoopKind.SERIAL, seq(*blocks))

    # A length whose factors are large

    def _chirps(self, load: Source) -> tuple[list[Stmt], Source]:
        """The passes of a convolution with a chirp; and what they come to."""
        n, m, sign = self.of.points, self.of.length, self.of.sign
        squares = np.arange(n, dtype=np.int64) ** 2 % (2 * n)
        chirp = np.exp(sign * 1j * np.pi * squares / n)
        kernel = np.zeros(m, np.complex128)
        kernel[:n] = chirp.conj()
        kernel[m - n + 1 :] = chirp.conj()[1:][::-1]
        turns = _table(chirp, self.kind)
        start = self._sink(self.arrays[0])

        def spread(at: Expr) -> Stmt:
            names: list[tuple[Var, Expr]] = []
            value = multiply((load(0, at), load(1, at)), (turns[0, at], turns[1, at]), self._binder(names))
            return _let(names, start(at, value))

        zero = const(0, self.kind)
        filled = _vector_loops(m - n, LANES, lambda at: start(at + n, (zero, zero)))
        first, middle = self._transform(
            self._array(self.arrays[0]), self.arrays[::-1], -1, _table(np.fft.fft(kernel) / m, self.kind)
        )
        other = next(array for array in self.arrays if array is not middle)
        second, end = self._transform(self._array(middle), (other, middle), 1)
        source = self._array(end)

        def turned(part: int, at: Expr) -> Expr:
            real, imaginary = multiply(
                (source(0, at), source(1, at)), (turns[0, at], turns[1, at]), lambda value: value
            )
            return imaginary if part else real

        return [_vector_loops(n, LANES, spread), filled, *first, *second], turned

    # The results

    def _results(self, source: Source, store: Callable[[Expr, Expr, Expr], Stmt]) -> Stmt:
        """The parts side by side."""
        kept, results = self.of.kept, self.of.results

        def lanes(at: Expr) -> Stmt:
            if results == 1:
                return store(at, const(0), source(0, at))
            place, part = floordiv(at, 2), floormod(at, 2)
            return store(place, part, Select(equal(part, 0), source(0, place), source(1, place)))

        return _vector_loops(kept * results, LANES * results, lanes)


def _let(names: Sequence[tuple[Var, Expr]], body: Stmt) -> Stmt:
    for var, value in reversed(names):
        body = LetStmt(var, value, body)
    return body


def _vector_loops(extent: int, lanes: int, *bodies: Callable[[Expr], Stmt]) -> Stmt:
    """A loop over an extent in vectors, in which bodies follow each other, and the rest as a vector of its own."""
    dtype = const(0).dtype
    whole, rest = divmod(extent, lanes)
    parts: list[Stmt] = []

    def vectors(begin: Expr, count: int) -> Stmt:
        if count == 1:
            return seq(*(body(begin) for body in bodies))
        made: list[Stmt] = []
        for body in bodies:
            lane = Var("lane", dtype)
            made.append(For(lane, const(0), const(count), LoopKind.VECTORIZED, body(begin + lane)))
        return seq(*made)

    if whole:
        chunk = Var("chunk", dtype)
        parts.append(For(chunk, const(0), const(whole), LoopKind.SERIAL, vectors(chunk * lanes, lanes)))
    if rest:
        parts.append(vectors(const(whole * lanes), rest))
    return seq(*parts)


def _roots(n: int, sign: int) -> np.ndarray[Any, Any]:
    """The powers of the root of unity of n, up to n - 1 and beyond."""
    return np.exp(sign * 2j * np.pi * (np.arange(n) / n))


def _table(values: np.ndarray[Any, Any], kind: DType) -> Tensor:
    """Complex numbers as a constant (2, many)."""
    return constant(np.stack([values.real, values.imag]).astype(str(kind)), "turns")
