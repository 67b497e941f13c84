"""Products of several factors under one sum, and the tree of pairwise sums that takes the fewest steps.

    sum over a, b of A[i, a] * B[a, b] * D[b, j]        ((B, D) over b, A) over a

Trees are found by dynamic programming over subsets of the factors (Pfeifer, Haegeman and Verstraete 2014): of each subset the tree
that costs least, from the two parts that it is made of. Of many factors the cheapest pair is taken first, again and again.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import combinations
from math import prod

from ...base.dataclass import dataclass

__all__ = ["Factoring", "Product", "best_factoring"]

MOST_EXACT = 8
"""Factors of which all subsets are looked at."""
STORED = 4.0
"""Multiply-adds that take as long as storing an element of what is computed on the way, and reading it again."""


@dataclass(frozen=True)
class Product:
    """A sum of products. factors: of each factor the axes that it depends on, as numbers; results: the axes of the tensor, the
    others being summed over; extents: of all axes."""

    factors: tuple[frozenset[int], ...]
    results: frozenset[int]
    extents: tuple[int, ...]

    def size(self, axes: frozenset[int]) -> int:
        """The number of values that these axes have together."""
        return prod(self.extents[axis] for axis in axes)

    @property
    def declared(self) -> float:
        """Multiply-adds of the sum as it stands: one for each term, since loops multiply beforehand what does not change in them."""
        return float(prod(self.extents))


@dataclass(frozen=True)
class Factoring:
    """A tree of sums of two factors. cost: in multiply-adds; path: pairs of places, as of np.einsum_path; text: the tree."""

    cost: float
    path: tuple[tuple[int, int], ...]
    text: str


@dataclass(frozen=True)
class _Tree:
    """Node of a tree of products of two factors.

    members: the factors below, as bits; axes: those that its value depends on; parts: what it multiplies, none of a factor.
    """

    members: int
    axes: frozenset[int]
    cost: float
    parts: tuple[_Tree, ...] = ()


def best_factoring(product: Product, names: Sequence[str]) -> Factoring | None:
    """The tree of the fewest multiply-adds; None for less than two factors. names: of the factors."""
    count = len(product.factors)
    if count < 2:
        return None
    leaves = [_leaf(product, at) for at in range(count)]
    tree = _search(product, leaves) if count <= MOST_EXACT else _greedy(product, leaves)
    return Factoring(tree.cost, _path(tree, count), _text(tree, names))


def _visible(product: Product, members: int) -> frozenset[int]:
    """The axes that the tensor, or factors that are not members, depend on."""
    others = (axes for at, axes in enumerate(product.factors) if not members >> at & 1)
    return product.results.union(*others)


def _leaf(product: Product, at: int) -> _Tree:
    """A factor, after the sum over the axes that it alone depends on."""
    axes = product.factors[at]
    kept = axes & _visible(product, 1 << at)
    cost = 0.0 if kept == axes else product.size(axes) + STORED * product.size(kept)
    return _Tree(1 << at, kept, cost)


def _join(product: Product, first: _Tree, second: _Tree) -> _Tree:
    members = first.members | second.members
    axes = first.axes | second.axes
    kept = axes & _visible(product, members)
    whole = members + 1 == 1 << len(product.factors)
    cost = first.cost + second.cost + product.size(axes) + (0 if whole else STORED * product.size(kept))
    return _Tree(members, kept, cost, (first, second))


def _search(product: Product, leaves: Sequence[_Tree]) -> _Tree:
    """The best of all trees."""
    best = {leaf.members: leaf for leaf in leaves}
    for size in range(2, len(leaves) + 1):
        for members in _subsets(len(leaves), size):
            trees = (_join(product, best[part], best[members ^ part]) for part in _halves(members))
            best[members] = min(trees, key=lambda tree: tree.cost)
    return best[(1 << len(leaves)) - 1]


def _subsets(count: int, size: int) -> Iterator[int]:
    for chosen in combinations(range(count), size):
        yield sum(1 << at for at in chosen)


def _halves(members: int) -> Iterator[int]:
    """The parts of a set with its least member, without the set itself."""
    least = members & -members
    rest = part = members ^ least
    while part:
        part = (part - 1) & rest
        yield part | least


def _greedy(product: Product, leaves: Sequence[_Tree]) -> _Tree:
    """A tree that joins, at each step, the two of which what is new costs least."""
    trees: list[_Tree] = list(leaves)
    while len(trees) > 1:
        pairs = [_join(product, first, second) for first, second in combinations(trees, 2)]
        taken = min(pairs, key=lambda tree: tree.cost - sum(part.cost for part in tree.parts))
        trees = [*(tree for tree in trees if tree not in taken.parts), taken]
    return trees[0]


def _path(tree: _Tree, count: int) -> tuple[tuple[int, int], ...]:
    """The pairs, those of parts before those that read them."""
    places = [1 << at for at in range(count)]
    pairs: list[tuple[int, int]] = []
    for node in _inner(tree):
        first, second = (places.index(part.members) for part in node.parts)
        pairs.append((first, second))
        places = [members for at, members in enumerate(places) if at not in (first, second)] + [node.members]
    return tuple(pairs)


def _inner(tree: _Tree) -> Iterator[_Tree]:
    for part in tree.parts:
        yield from _inner(part)
    if tree.parts:
        yield tree


def _text(tree: _Tree, names: Sequence[str]) -> str:
    """The tree in brackets."""
    if not tree.parts:
        return names[tree.members.bit_length() - 1]
    texts = (_text(part, names) for part in tree.parts)
    return " ".join(f"({text})" if part.parts else text for text, part in zip(texts, tree.parts, strict=True))
