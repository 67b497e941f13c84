"""ONNX's operators of classical learning: trees, tables of labels and of n-grams. What they were taught is in attributes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..conversion import Conversion, Refused, product
from ..inner import InnerScope, emit_loop
from .context import Context, converts

__all__: list[str] = []

_MOST_NUMBERS = 1 << 24
_COMPARED = ("less_equal", "less", "greater_equal", "greater", "equal", "not_equal")
"""How a node of a tree compares, by the number that says so; behind them stands being one of several."""
_SUM, _LEAST, _GREATEST = 1, 2, 3


@converts("ai.onnx.ml.ArrayFeatureExtractor")
def _features(c: Context) -> str:
    """Columns of the last dimension."""
    shape = c.type(0).shape
    places = c.reshape(c[1], (product(c.type(1).shape),))
    return c.reshape(
        c.emit("take", c[0], places, axis=len(shape) - 1), (*(shape[:-1] or (1,)), c.type(places).shape[0])
    )


@converts("ai.onnx.ml.Binarizer")
def _binarizer(c: Context) -> str:
    return c.cast(c.emit("greater", c[0], c.constant(float(c.attribute("threshold", 0.0)), 0)), c.type(0).dtype)


@converts("ai.onnx.ml.LabelEncoder")
def _labels(c: Context) -> str:
    """Look up each element in a table, or return its default."""
    keys, values = (_table(c, kind) for kind in ("keys", "values"))
    if (
        keys is None
        or values is None
        or keys.size != values.size
        or not keys.size
        or str(keys.dtype) != c.type(0).dtype
    ):
        raise Refused("its table is one of texts, or not whole")
    if keys.dtype.kind == "f" and np.isnan(keys).any():
        raise Refused("a key of its table is no number")
    names = {"i": "default_int64", "f": "default_float"}
    default = c.attribute("default_tensor")
    for kind, name in names.items():
        given = c.attribute(name, -1 if kind == "i" else -0.0)
        default = given if default is None and values.dtype.kind == kind else default
    _, last = np.unique(keys.reshape(-1)[::-1], return_index=True)  # of equal keys the last one counts
    chosen = np.sort(keys.size - 1 - last)
    shape = c.type(0).shape
    same = c.emit("equal", c.reshape(c[0], (*shape, 1)), c.constant(keys.reshape(-1)[chosen]))
    at = c.emit("argmax", c.cast(same, "int32"), axis=len(shape))
    found = c.emit("any", same, axes=(len(shape),))
    result = c.emit("take", c.constant(values.reshape(-1)[chosen]), at, axis=0)
    return c.emit("where", found, result, c.constant(np.asarray(default).reshape(()), result))


def _table(c: Context, kind: str) -> NDArray[Any] | None:
    """One side of a table, of whatever numbers it is given; None where it is none of numbers."""
    for name, dtype in (("tensor", None), ("int64s", np.int64), ("floats", np.float32)):
        given = c.attribute(f"{kind}_{name}")
        if given is not None:
            return np.asarray(given, dtype)
    return None


@converts("ai.onnx.ml.TreeEnsemble")
def _trees(c: Context) -> str:
    """All trees at once: from their roots on, every element of (rows, trees) is a node, which becomes the next one, until all are
    leaves, which stay what they are."""
    if int(c.attribute("post_transform", 0)):
        raise Refused("what it does to its sums is not known")
    c.attribute("nodes_hitrates")
    names = ("featureids", "truenodeids", "falsenodeids", "trueleafs", "falseleafs", "modes")
    nodes = {name: np.asarray(c.attribute(f"nodes_{name}"), np.int64).reshape(-1) for name in names}
    count, dtype = len(nodes["modes"]), c.type(0).dtype
    leaves = np.asarray(c.attribute("leaf_weights")).reshape(-1)
    missing = c.attribute("nodes_missing_value_tracks_true")
    table = {
        "feature": nodes["featureids"],
        "mode": nodes["modes"],
        "split": np.asarray(c.attribute("nodes_splits")).reshape(-1).astype(dtype),
        "missing": np.asarray(missing if missing else [0] * count, np.int64) != 0,
        "yes": nodes["truenodeids"] + count * (nodes["trueleafs"] != 0),  # leaves are counted behind the nodes
        "no": nodes["falsenodeids"] + count * (nodes["falseleafs"] != 0),
    }
    roots = np.asarray(c.attribute("tree_roots"), np.int64)
    is_leaf = (nodes["trueleafs"] != 0) & (nodes["falseleafs"] != 0) & (table["yes"] == table["no"])
    roots = np.where(is_leaf[roots], table["yes"][roots], roots)
    depth = _depth(roots, table, count, count + len(leaves))
    width = c.extent(0, 1)
    if not ((table["feature"] >= 0) & (table["feature"] < width)).all() or any(
        len(one) != count for one in table.values()
    ):
        raise Refused(f"its nodes are not all there, or look at more than the {width} columns")
    held = {name: np.concatenate([one, np.zeros(len(leaves), one.dtype)]) for name, one in table.items()}
    for name in ("yes", "no"):
        held[name][count:] = np.arange(count, count + len(leaves))
    members = _members(c, table["mode"], dtype)
    place = _walked(c, held, members, roots, depth)
    place = c.emit("subtract", place, c.constant(np.asarray(count)))
    return _gathered(c, place, leaves.astype(dtype), np.asarray(c.attribute("leaf_targetids"), np.int64))


def _depth(roots: NDArray[Any], table: Mapping[str, NDArray[Any]], count: int, end: int) -> int:
    """Return the number of nodes that stand on the longest way to a leaf. Raises Refused where ways do not end."""
    steps = np.concatenate([table["yes"], table["no"]])
    if not ((steps >= 0) & (steps < end)).all() or not ((roots >= 0) & (roots < end)).all():
        raise Refused("a node of it is followed by none that there is")
    level, depth = np.unique(roots[roots < count]), 0
    while len(level):
        depth += 1
        if depth > count:
            raise Refused("a way through a tree does not end")
        behind = np.concatenate([table["yes"][level], table["no"][level]])
        level = np.unique(behind[behind < count])
    return depth


def _members(c: Context, modes: NDArray[Any], dtype: str) -> NDArray[Any] | None:
    """For each node the values of which an element may be one, filled up by NaN; None where no node asks for that."""
    asking = np.flatnonzero(modes >= len(_COMPARED))
    given = c.attribute("membership_values")
    if not len(asking):
        return None
    values = np.asarray(given if given is not None else []).reshape(-1).astype(dtype)
    ends = np.flatnonzero(np.isnan(values))
    if len(ends) != len(asking):
        raise Refused("not every node has the values that it asks for")
    sets = [values[begin:end] for begin, end in zip([0, *(ends[:-1] + 1)], ends, strict=True)]
    widest = max(1, *map(len, sets))
    if widest * len(modes) > _MOST_NUMBERS:
        raise Refused("its nodes ask for too many values")
    table = np.full((len(modes), widest), np.nan, dtype)
    for at, one in zip(asking, sets, strict=True):
        table[at, : len(one)] = one
    return table


def _walked(
    c: Context, held: Mapping[str, NDArray[Any]], members: NDArray[Any] | None, roots: NDArray[Any], depth: int
) -> str:
    """Return the leaf that each row of the input reaches in each tree, (rows, trees)."""
    rows = c.type(0).shape[0]
    first = c.emit("broadcast_to", c.constant(roots), shape=(rows, len(roots)))
    inner = InnerScope(c.scope, "step")
    b = Conversion(inner, [], c.source)
    inner.graph.input("turn", (), "int64")
    at = inner.graph.input("place", (rows, len(roots)), "int64")
    here = {name: b.emit("take", b.constant(one), at, axis=0) for name, one in held.items()}
    x = b.emit("gather", inner.taken(c[0]), here["feature"], axis=1)
    answer = b.constant(np.asarray(False))
    for mode, operator in enumerate(_COMPARED):
        if (held["mode"] == mode).any():
            chosen = b.emit("equal", here["mode"], b.constant(np.asarray(mode)))
            answer = b.emit("where", chosen, b.emit(operator, x, here["split"]), answer)
    if members is not None:
        table = np.concatenate(
            [members, np.full((len(held["mode"]) - len(members), members.shape[1]), np.nan, members.dtype)]
        )
        wide = b.reshape(x, (rows, len(roots), 1))
        among = b.emit("any", b.emit("equal", wide, b.emit("take", b.constant(table), at, axis=0)), axes=(2,))
        answer = b.emit(
            "where", b.emit("greater_equal", here["mode"], b.constant(np.asarray(len(_COMPARED)))), among, answer
        )
    if held["missing"].any():
        answer = b.emit("logical_or", answer, b.emit("logical_and", here["missing"], b.emit("isnan", x)))
    after = b.emit("where", answer, here["yes"], here["no"])
    trips = c.constant(np.asarray(depth, np.int64))
    return emit_loop(c.scope, inner, trips, "", [first], [after], None, c.source)[0]


def _gathered(c: Context, place: str, weights: NDArray[Any], targets: NDArray[Any]) -> str:
    """The weights of leaves, (rows, trees), gathered by their targets."""
    kind, wanted = int(c.attribute("aggregate_function", _SUM)), int(c.attribute("n_targets", 1))
    if not 0 <= kind <= _GREATEST or len(targets) != len(weights) or not ((targets >= 0) & (targets < wanted)).all():
        raise Refused("how its leaves are gathered is not known")
    trees = c.extent(place, 1)
    value = c.emit("take", c.constant(weights), place, axis=0)
    target = c.emit("take", c.constant(targets), place, axis=0)
    rows = c.type(value).shape[0]
    own = c.emit("equal", c.reshape(target, (rows, trees, 1)), c.constant(np.arange(wanted)))
    limits = np.finfo(weights.dtype)
    nothing = {_LEAST: limits.max, _GREATEST: limits.min}.get(kind, 0)
    each = c.emit("where", own, c.reshape(value, (rows, trees, 1)), c.constant(nothing, value))
    result = c.emit({_LEAST: "min", _GREATEST: "max"}.get(kind, "sum"), each, axes=(1,))
    return result if kind else c.emit("divide", result, c.constant(trees, result))


@converts("TfIdfVectorizer")
def _ngrams(c: Context) -> str:
    """Return the number of times each of the n-grams of a pool occurs in each row, or whether, or that times a weight."""
    pool, counts = c.attribute("pool_int64s"), list(c.attribute("ngram_counts"))
    columns, mode = np.asarray(c.attribute("ngram_indexes"), np.int64), c.attribute("mode")
    least, most = int(c.attribute("min_gram_length")), int(c.attribute("max_gram_length"))
    skips, weights = int(c.attribute("max_skip_count")), c.attribute("weights")
    if not pool or c.attribute("pool_strings") is not None or "int" not in c.type(0).dtype or c.rank(0) > 2:
        raise Refused("its n-grams are texts")
    rows = c.reshape(c[0], (1, *c.type(0).shape)) if c.rank(0) == 1 else c[0]
    length, wide = c.extent(rows, 1), int(columns.max(initial=-1)) + 1
    if not 0 < least <= most:
        raise Refused(f"its n-grams are {least} to {most} long")
    if mode not in ("TF", "IDF", "TFIDF"):
        raise Refused(f"there is no mode {mode!r}")
    each = np.ones(len(columns), np.float32) if mode == "TF" or not weights else np.asarray(weights, np.float32)
    if len(each) != len(columns):
        raise Refused(f"its {len(each)} weights are not one for each of {len(columns)} n-grams")
    if mode == "IDF" and len(np.unique(columns)) < len(columns):
        raise Refused("several n-grams have one column, of which each says whether it occurs")
    grams, sums = 0, list[str]()
    for size, (begin, end) in enumerate(zip(counts, [*counts[1:], len(pool)], strict=True), 1):
        table = np.asarray(pool[begin:end], np.int64).reshape(-1, size)
        into = (columns[grams : grams + len(table), None] == np.arange(wide)) * each[grams : grams + len(table), None]
        grams += len(table)
        far = range(1, 2 if size == 1 else skips + 2)
        places = [start + np.arange(size) * by for by in far for start in range(length - (size - 1) * by)]
        if least <= size <= most and places and len(table):
            found = _occurrences(c, rows, table, np.asarray(places))
            if mode == "IDF":
                found = c.cast(c.emit("greater", found, c.constant(0, found)), "float32")
            sums.append(c.emit("matmul", found, c.constant(into.astype(np.float32))))
    if not sums:
        sums.append(c.emit("broadcast_to", c.constant(np.float32(0)), shape=(c.type(rows).shape[0], wide)))
    total, *others = sums
    for other in others:
        total = c.emit("add", total, other)
    return c.reshape(total, (wide,)) if c.rank(0) == 1 else total


def _occurrences(c: Context, rows: str, table: NDArray[Any], places: NDArray[Any]) -> str:
    """Return the number of times each n-gram of a table occurs in each row, (rows, n-grams). places: (windows, n)."""
    if table.size * len(places) > _MOST_NUMBERS:
        raise Refused("its n-grams are too many for windows so many")
    count = c.type(rows).shape[0]
    shape: Sequence[Any] = (count, len(places), 1, table.shape[1])
    windows = c.reshape(c.emit("take", c.cast(rows, "int64"), c.constant(places), axis=1), shape)
    hits = c.emit("all", c.emit("equal", windows, c.constant(table)), axes=(3,))
    return c.emit("sum", c.cast(hits, "float32"), axes=(1,))
