"""A thread's own part of local memory that a nest indexes as if all threads shared it.

    S: local float32[128]                                       S: local float32[4]
    for q in 4:                                            →    for q in 4:
        S[q * 32 + threadIdx.x] = A[q * 32 + threadIdx.x]           S[q] = A[q * 32 + threadIdx.x]

    S: local float32[32]                                        S: local float32[1]
    for i in 32: S[i] = A[i]                               →    S[0] = A[threadIdx.x]
    T[threadIdx.x] = S[threadIdx.x]                             T[threadIdx.x] = S[0]

An index is a place of the thread plus a rest, of the loops within it. Where one of both is a multiple of more than the other
can be, each index tells which thread it belongs to: no thread meets another's elements, and the rest alone tells them apart.
"""

from __future__ import annotations

from dataclasses import replace
from math import gcd
from typing import NamedTuple, TypeGuard

from ...analysis.linear import expression, is_index, linear, terms
from ...arith.analyzer import Analyzer
from ...arith.linear import LinearForm
from ...buffer import Buffer
from ...expr import GE, LT, BufferLoad, Call, Expr, IntImm, Node, Var
from ...fragments import is_warp_call
from ...intrinsics import is_pure
from ...ops import cast, const, floordiv, index_ceildiv, logical_and
from ...pointers import pointed_buffer
from ...stmt import Allocate, BufferStore, For, If, LetStmt, LoopKind, Seq, Stmt
from ...structural import Key, structural_key
from ...visit import children, rewrite, statements, substitute, walk
from .hardware import Hardware

__all__ = ["OwnPart"]

TILE_DIMENSIONS = 2
"""Of the registers of a fragment: tiles beside each other, and a tile's elements."""


def _touches(node: Node, buffer: Buffer) -> TypeGuard[BufferLoad | BufferStore]:
    return isinstance(node, (BufferLoad, BufferStore)) and node.buffer is buffer


def _fills(loop: For, buffer: Buffer, dim: int) -> bool:
    """Return whether each iteration does nothing but touch `buffer` where its index of `dim` is the loop's variable."""
    if loop.kind is LoopKind.THREAD:  # a thread loop is the division itself
        return False
    stored = False
    for node in walk(loop.body):
        # any other statement may see what is not filled
        if isinstance(node, Stmt) and not isinstance(node, (BufferStore, For, If, Seq, LetStmt)):
            return False
        if (
            isinstance(node, BufferStore)
            and node.buffer is not buffer
            or isinstance(node, Call)
            and not is_pure(node.name)  # an effect elsewhere may not be left out with the iteration
        ):
            return False
        if _touches(node, buffer):
            if node.indices[dim] is not loop.var:
                return False
            stored = stored or isinstance(node, BufferStore)
    return stored


class _Division(NamedTuple):
    """A dimension's index as `thread + rest`. The rest of every access is a multiple of `step`, below which the thread's lower terms
    stay, and lies below `period`, of which its other terms are multiples; 0 where it has none."""

    thread: Key
    step: int
    period: int


class OwnPart:
    """Dimensions of a local buffer that the threads divide among themselves, in every access alike.

    node: an allocation in terms of the hardware's variables, over which `analyzer` knows its loops.
    """

    def __init__(self, node: Allocate, hardware: Hardware, analyzer: Analyzer) -> None:
        self.analyzer = analyzer
        self.hardware = frozenset(hardware.variables.values())
        inner, buffer = list(walk(node.body)), node.buffer
        # a tensor core's call is given a tile, the last two dimensions, and reaches nothing beyond it
        tiles = {id(pointer) for call in inner if is_warp_call(call) for pointer in children(call)}
        pointers = [each for each in inner if (pointed := pointed_buffer(each)) is not None and pointed[0] is buffer]
        # an address or strides say where an element lies: it must stay there
        self.hidden = bool(buffer.strides) or any(id(each) not in tiles for each in pointers)
        """Whether somebody reads the memory by other means than its indices."""
        touched = [each for each in inner if _touches(each, buffer)]
        self.node = node if self.hidden else self._own_iterations(node, touched)
        if self.node is not node:
            touched = [each for each in walk(self.node.body) if _touches(each, buffer)]
        self.places = [each.indices for each in touched]
        self.divided: dict[int, _Division] = {}
        if not self.hidden:
            for dim in range(len(buffer.shape) - (TILE_DIMENSIONS if pointers else 0)):
                division = self._division([indices[dim] for indices in self.places])
                if division is not None:
                    self.divided[dim] = division

    def allocation(self) -> Allocate:
        """The allocation of the thread's own part alone."""
        buffer, places = self.node.buffer, self.places
        if self.hidden or not places:
            return self.node
        own = {
            dim
            # all accesses at one place of the thread: a dimension of one element
            for dim, index in enumerate(places[0])
            if self._is_one(index) and len({structural_key(indices[dim]) for indices in places}) == 1
        }
        if not own and not self.divided:
            return self.node
        shape = tuple(
            const(1, extent.dtype) if dim in own else self._extent(dim, extent)
            for dim, extent in enumerate(buffer.shape)
        )
        kept = replace(buffer, shape=shape)

        def rule(each: Node) -> Node | None:
            if _touches(each, buffer):
                left = tuple(
                    const(0, index.dtype) if dim in own else self._place(dim, index)
                    for dim, index in enumerate(each.indices)
                )
                return replace(each, buffer=kept, indices=left)
            return None

        return Allocate(kept, rewrite(self.node.body, rule))

    def _own_iterations(self, node: Allocate, touched: list[BufferLoad | BufferStore]) -> Allocate:
        """Less the iterations of loops that fill what no other place of a dimension reads than the thread's own."""
        for dim in range(len(node.buffer.shape)):
            if not any(self._is_one(each.indices[dim]) for each in touched):
                continue
            filling = [
                loop for loop in statements(node.body) if isinstance(loop, For) and _fills(loop, node.buffer, dim)
            ]
            within = {id(each) for loop in filling for each in walk(loop)}
            # accesses outside of the filling loops tell which iteration is wanted
            accesses = [each for each in walk(node.body) if _touches(each, node.buffer) and id(each) not in within]
            places = {structural_key(each.indices[dim]) for each in accesses}
            if not filling or len(places) != 1 or not self._is_one(accesses[0].indices[dim]):
                continue
            place, chosen = accesses[0].indices[dim], frozenset(map(id, filling))

            def rule(each: Node, chosen: frozenset[int] = chosen, place: Expr = place) -> Node | None:
                return self._one_iteration(each, place) if isinstance(each, For) and id(each) in chosen else None

            node = Allocate(node.buffer, rewrite(node.body, rule))
        return node

    def _one_iteration(self, loop: For, place: Expr) -> Stmt:
        """The iteration of a loop whose variable is `place`, if there is one."""
        value = cast(place, loop.var.dtype)
        body = substitute(loop.body, {loop.var: value})
        inside = logical_and(GE(value, loop.begin), LT(value, loop.begin + loop.extent))
        # without the proof another thread's iteration count may be shorter
        return body if self.analyzer.can_prove(inside) else If(inside, body)

    def _is_one(self, index: Expr) -> bool:
        """Return whether an index is one number for all of a thread's life, and no constant: not one for each lane of a vector, nor what
        lies in memory, which may change."""
        return (
            not isinstance(index, IntImm)
            and index.dtype.lanes == 1
            and not any(
                isinstance(each, (BufferLoad, Call)) or isinstance(each, Var) and each not in self.hardware
                for each in walk(index)
            )
        )

    def _division(self, indices: list[Expr]) -> _Division | None:
        """Return the division of the indices of one dimension, if they all are divided, and alike."""
        common: set[_Division] | None = None
        for index in indices:  # indices of data or of lanes do not tell the thread
            if not is_index(index) or index.dtype.lanes != 1:
                return None
            found = self._divisions(*self._parts(index), index)
            common = found if common is None else common & found
            if not common:
                return None
        # a place within a period needs no division at run time
        return (
            min(common, key=lambda division: (division.period == 0, division.step, division.period)) if common else None
        )

    def _parts(self, index: Expr) -> tuple[LinearForm, LinearForm]:
        """(the terms of the hardware's variables alone, the others and the constant)."""
        form = linear(index)
        thread = {
            atom: coefficient
            for (expr, coefficient), atom in zip(terms(form), form.coeffs, strict=True)
            if all(node in self.hardware for node in walk(expr) if isinstance(node, Var))
        }
        rest = {atom: coefficient for atom, coefficient in form.coeffs.items() if atom not in thread}
        return LinearForm(thread), LinearForm(rest, form.const)

    def _divisions(self, thread: LinearForm, rest: LinearForm, index: Expr) -> set[_Division]:
        """The ways to divide one index."""
        if not thread.coeffs:
            return set()
        place, left = expression(thread, index.dtype), expression(rest, index.dtype)
        key = structural_key(place)
        found = set[_Division]()
        atoms = sorted(thread.coeffs.items(), key=lambda term: term[1])
        for count in range(len(atoms) + 1):
            lower, period = LinearForm(dict(atoms[:count])), gcd(*(step for _, step in atoms[count:]))
            least, greatest = self.analyzer.interval(expression(lower, index.dtype)) if count else (0, 0)
            if least != 0 or greatest is None or self.analyzer.modular(left).remainder(greatest + 1) != 0:
                continue
            if count == len(atoms) or period > 1 and self.analyzer.interval(left).within(0, period - 1):
                found.add(_Division(key, greatest + 1, period))
        return found

    def _extent(self, dim: int, extent: Expr) -> Expr:
        division = self.divided.get(dim)
        if division is None:
            return extent
        if division.period:
            return const(division.period // division.step, extent.dtype)
        return self.analyzer.simplify(index_ceildiv(extent, division.step))

    def _place(self, dim: int, index: Expr) -> Expr:
        """The place in the thread's own part."""
        division = self.divided.get(dim)
        if division is None:
            return index
        left = expression(self._parts(index)[1], index.dtype)
        return left if division.step == 1 else self.analyzer.simplify(floordiv(left, division.step))
