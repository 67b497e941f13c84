"""Vectorized loops whose iterations may depend on each other to serial loops.

    for j in vectorized(16): total[0] = total[0] + A[j]      →      for j in 16: total[0] = total[0] + A[j]

The schedule refuses what it can see, but fusing and attaching can leave a loop whose lanes meet in one element. A loop
stays vectorized only if every two accesses to a buffer, one of them a store, are proved to touch different elements in
different iterations. Memory that is allocated within the loop is each lane's own.

It stands before flatten, since one dimension is often enough for the proof, and its index is a simpler sum.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from math import gcd

from ...analysis.linear import is_index, linear, merge_divisions, terms
from ...arith.linear import LinearForm
from ...buffer import Buffer
from ...expr import BufferLoad, Expr, FloorDiv, FloorMod, IntImm, Let, Node, Var
from ...stmt import Allocate, BufferStore, Evaluate, For, Function, LetStmt, LoopKind
from ...structural import StructuralKey, structural_key
from ...visit import rewrite, walk
from ..common.fresh_copy import substitute_expr

__all__ = ["lanes_are_independent", "serialize_racing_lanes"]


def serialize_racing_lanes(function: Function) -> Function:
    """`function`, in which every VECTORIZED loop that is left may run its iterations in any interleaving."""

    def rule(node: Node) -> Node | None:
        if isinstance(node, For) and node.kind is LoopKind.VECTORIZED and not lanes_are_independent(node):
            return replace(node, kind=LoopKind.SERIAL)
        return None

    return function.with_body(rewrite(function.body, rule))


@dataclass(slots=True)
class _Accesses:
    """What a loop's body touches, and the variables that vary within one iteration."""

    stored: dict[Buffer, list[tuple[Expr, ...]]] = field(default_factory=dict)
    loaded: dict[Buffer, list[tuple[Expr, ...]]] = field(default_factory=dict)
    inner: dict[Var, For | None] = field(default_factory=dict)
    """Inner loops by their variable; None for a value that a let binds and that is no index arithmetic."""
    lets: dict[Var, Expr] = field(default_factory=dict)
    """Index arithmetic by the variable that it is bound to."""
    private: set[Buffer] = field(default_factory=set)
    opaque: bool = False
    """Some effect is not a store."""

    def opened(self, indices: tuple[Expr, ...]) -> tuple[Expr, ...]:
        return tuple([substitute_expr(index, self.lets) for index in indices]) if self.lets else indices


def _accesses(body: Node) -> _Accesses:
    found = _Accesses()
    for node in walk(body):
        if isinstance(node, BufferStore):
            found.stored.setdefault(node.buffer, []).append(found.opened(node.indices))
        elif isinstance(node, BufferLoad):
            found.loaded.setdefault(node.buffer, []).append(found.opened(node.indices))
        elif isinstance(node, For):
            found.inner[node.var] = node
        elif isinstance(node, (LetStmt, Let)):
            if is_index(node.value):
                found.lets[node.var] = substitute_expr(node.value, found.lets)
            else:
                found.inner[node.var] = None
        elif isinstance(node, Allocate):
            found.private.add(node.buffer)
        elif isinstance(node, Evaluate) and not isinstance(node.value, IntImm):
            found.opaque = True
    return found


def lanes_are_independent(loop: For) -> bool:
    """Whether no two different iterations of `loop` are seen to touch one element that one of them stores."""
    accesses = _accesses(loop.body)
    if accesses.opaque:
        return False
    prover = _Prover(loop, accesses.inner)
    for buffer, stores in accesses.stored.items():
        if buffer in accesses.private:
            continue
        stores = _distinct(stores)
        everything = _distinct([*stores, *accesses.loaded.get(buffer, ())])
        if not all(prover.apart(store, other) for store in stores for other in everything):
            return False
    return True


def _distinct(accesses: Iterable[tuple[Expr, ...]]) -> list[tuple[Expr, ...]]:
    return list({tuple(map(structural_key, indices)): indices for indices in accesses}.values())


class _Prover:
    def __init__(self, loop: For, inner: dict[Var, For | None]) -> None:
        self.var, self.inner = loop.var, inner
        self.lanes = loop.extent.value if isinstance(loop.extent, IntImm) else None

    def apart(self, a: tuple[Expr, ...], b: tuple[Expr, ...]) -> bool:
        """Whether accesses at `a` and `b` from different iterations never meet: some dimension tells them apart, or
        some weighted sum of the dimensions does."""
        forms_a, forms_b = [linear(index) for index in a], [linear(index) for index in b]
        if any(self._distinct(x, y) for x, y in zip(forms_a, forms_b, strict=True)):
            return True
        return self._distinct(self._weighted(forms_a), self._weighted(forms_b))

    def _weighted(self, forms: list[LinearForm]) -> LinearForm:
        """The sum of the dimensions in which a fused index that was taken apart, f // 16 and f % 16, is f again."""
        total = LinearForm({})
        for form in forms:
            weights = [_weight(atom) for atom, _ in terms(form) if self._varies(atom) and not isinstance(atom, Var)]
            if weights:
                total = total.plus(form, weights[0])
        return merge_divisions(total)

    def _varies(self, atom: Expr) -> bool:
        return any(node is self.var or node in self.inner for node in walk(atom) if isinstance(node, Var))

    def _distinct(self, a: LinearForm, b: LinearForm) -> bool:
        """Whether a in one iteration and b in another never are equal: their difference, a sum of multiples of
        bounded counts, is 0 in the same iteration alone (as digits of a number tell it apart from others)."""
        a, b = self._from_zero(a), self._from_zero(b)
        step = abs(a.coefficient(self.var))
        if step == 0 or a.coefficient(self.var) != b.coefficient(self.var):
            return False
        digits = self._digits(a.without(self.var), b.without(self.var))
        if digits is None:
            return False
        small, grain = 0, 0
        for size, count in digits:
            if size >= step:
                grain = gcd(grain, size)
            elif count is None:
                return False
            else:
                small += size * (count - 1)
        if small >= step:
            return False
        return grain == 0 or self.lanes is not None and step * (self.lanes - 1) + small < grain

    def _from_zero(self, form: LinearForm) -> LinearForm:
        """`form` with every inner loop variable counted from 0 on."""
        for var, loop in reversed(self.inner.items()):
            coefficient = form.coefficient(var)
            if loop is not None and coefficient:
                form = form.plus(linear(loop.begin), coefficient)
        return form

    def _digits(self, a: LinearForm, b: LinearForm) -> list[tuple[int, int | None]] | None:
        """What a - b is made of besides the lane: (size, how many values it may take). None: not known."""
        digits: list[tuple[int, int | None]] = []
        difference = abs(a.const - b.const)
        if difference:
            digits.append((difference, 2))
        for key in {**a.coeffs, **b.coeffs}:
            atom = key.expr if isinstance(key, StructuralKey) else key
            x, y = a.coefficient(key), b.coefficient(key)
            loop = self.inner.get(atom) if isinstance(atom, Var) else None
            if loop is not None:
                count = loop.extent.value if isinstance(loop.extent, IntImm) else None
                digits += [(abs(size), count) for size in ((x,) if x == y else (x, y)) if size]
            elif self._varies(atom) or x != y:
                return None
        return digits


def _weight(atom: Expr) -> int:
    """What a quotient or remainder of a fused index counts in it."""
    if isinstance(atom, FloorDiv) and isinstance(atom.b, IntImm):
        return atom.b.value * (_weight(atom.a) if isinstance(atom.a, FloorDiv) else 1)
    if isinstance(atom, FloorMod) and isinstance(atom.a, FloorDiv):
        return _weight(atom.a)
    return 1
