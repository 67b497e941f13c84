"""ONNX's operators of classical learning: tables of labels and of n-grams. What they were taught is in attributes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..conversion import Refused, product
from .context import Context, converts

__all__: list[str] = []

_MOST_NUMBERS = 1 << 24


@converts("ai.onnx.ml.ArrayFeatureExtractor")
def _convert_features(c: Context) -> str:
    """Columns of the last dimension."""
    shape = c.type(0).shape
    places = c.reshape(c[1], (product(c.type(1).shape),))
    return c.reshape(
        c.emit("take", c[0], places, axis=len(shape) - 1), (*(shape[:-1] or (1,)), c.type(places).shape[0])
    )


@converts("ai.onnx.ml.Binarizer")
def _convert_binarizer(c: Context) -> str:
    return c.cast(c.emit("greater", c[0], c.constant(float(c.attribute("threshold", 0.0)), 0)), c.type(0).dtype)


@converts("ai.onnx.ml.LabelEncoder")
def _convert_labels(c: Context) -> str:
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
        raise Refused("a key of its table is not a number")
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


@converts("ai.onnx.ml.ZipMap")
def _convert_maps(c: Context) -> str:
    """The matrix of all values, a column for each key in their order: there are no maps here."""
    keys = c.attribute("classlabels_int64s") or c.attribute("classlabels_strings") or ()
    c.attribute("classlabels_strings")
    if len(keys) != c.extent(0, 1):
        raise Refused(f"its {len(keys)} keys are not those of {c.extent(0, 1)} columns")
    return c[0]


@converts("TfIdfVectorizer")
def _convert_ngrams(c: Context) -> str:
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
