"""ONNX's ensembles of decision trees, of version 5 of ai.onnx.ml and of those before. All trees are walked at once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..conversion import Conversion, Refused
from ..subgraphs import InnerScope, emit_loop
from .context import Context, converts

__all__: list[str] = []

_MOST_NUMBERS = 1 << 24
_EQUAL, _MEMBER = 4, 6
"""Ways in which a node compares, as walk_trees of topi counts them; behind them stands being one of several."""
_MOST_STEPS = 16
"""Of one node of a graph; deeper trees are walked in a loop."""
_SUM, _LEAST, _GREATEST = 1, 2, 3


@converts("ai.onnx.ml.TreeEnsemble")
def _convert_trees(c: Context) -> str:
    """The weights of the leaves that rows lead to, of which there are as many as trees."""
    if int(c.attribute("post_transform", 0)):
        raise Refused("the post-transform of its sums is not known")
    c.attribute("nodes_hitrates")
    names = ("featureids", "truenodeids", "falsenodeids", "trueleafs", "falseleafs", "modes")
    nodes = {name: np.asarray(c.attribute(f"nodes_{name}"), np.int64).reshape(-1) for name in names}
    count, dtype = len(nodes["modes"]), c.type(0).dtype
    leaves = np.asarray(c.attribute("leaf_weights")).reshape(-1)
    missing = c.attribute("nodes_missing_value_tracks_true")
    held = {
        "feature": nodes["featureids"],
        "mode": nodes["modes"],
        "split": np.asarray(c.attribute("nodes_splits")).reshape(-1),
        "missing": np.asarray(missing if missing else [0] * count, np.int64) != 0,
        "yes": nodes["truenodeids"] + count * (nodes["trueleafs"] != 0),  # leaves are counted behind the nodes
        "no": nodes["falsenodeids"] + count * (nodes["falseleafs"] != 0),
    }
    roots = np.asarray(c.attribute("tree_roots"), np.int64)
    end, width = count + len(leaves), c.extent(0, 1)
    if not ((held["feature"] >= 0) & (held["feature"] < width)).all() or any(
        len(one) != count for one in held.values()
    ):
        raise Refused(f"its list of nodes is incomplete, or they read more than the {width} columns")
    if not all(
        ((one >= 0) & (one < limit)).all() for one, limit in ((held["yes"], end), (held["no"], end), (roots, count))
    ):
        raise Refused("one of its nodes names a successor that does not exist")
    is_leaf = (nodes["trueleafs"] != 0) & (nodes["falseleafs"] != 0) & (held["yes"] == held["no"])
    roots = np.where(is_leaf[roots], held["yes"][roots], roots)
    held = {name: np.concatenate([one, np.zeros(len(leaves), one.dtype)]) for name, one in held.items()}
    for name in ("yes", "no"):
        held[name][count:] = np.arange(count, end)
    held = _split_members(c, held)
    place = _walk_trees(c, held, roots, np.isin(np.arange(len(held["mode"])), np.arange(count, end)))
    place = c.emit("subtract", place, c.constant(count, place))
    return _gather_leaves(c, place, leaves.astype(dtype), np.asarray(c.attribute("leaf_targetids"), np.int64))


@converts("ai.onnx.ml.TreeEnsembleClassifier", "ai.onnx.ml.TreeEnsembleRegressor")
def _convert_older_trees(c: Context) -> Sequence[str]:
    """The ensembles of versions before 5, whose leaves are nodes: the label and the scores of each row, or its targets alone."""
    is_classifier = c.proto.op_type.endswith("Classifier")
    held, roots, is_leaf = _nodes_by_names(c)
    ids = _numbers(c, "class_ids" if is_classifier else "target_ids", np.int64)
    labels = _labels_of_classes(c) if is_classifier else np.arange(int(c.attribute("n_targets", 1)))
    if not ((ids >= 0) & (ids < len(labels))).all():
        raise Refused("one of its weights belongs to no class")
    is_one_sided = is_classifier and len(labels) == 2 and not ids.any()
    if is_classifier and len(labels) == 2 and ids.all() and not is_one_sided:
        raise Refused("its leaves have weights for the second class alone: runtimes differ in what the first one gets")
    wide = 1 if is_one_sided else len(labels)
    weights = _weights_of_leaves(c, "class" if is_classifier else "target", ids, wide)
    place = _walk_trees(c, held, roots, is_leaf)
    each = c.cast(c.emit("take", c.constant(weights.astype(np.float32)), place, axis=0), "float32")
    kind = "SUM" if is_classifier else str(c.attribute("aggregate_function", "SUM"))
    if kind not in ("SUM", "AVERAGE", "MIN", "MAX"):
        raise Refused(f"there is no aggregate_function {kind!r}")
    if kind in ("MIN", "MAX") and (np.count_nonzero(weights) < len(ids) or wide > 1):
        raise Refused("not every leaf of it has a weight for each target, of which it takes the least or the greatest")
    total = c.emit({"MIN": "min", "MAX": "max"}.get(kind, "sum"), each, axes=(1,))
    total = c.emit("divide", total, c.constant(len(roots), total)) if kind == "AVERAGE" else total
    base = _numbers(c, "base_values", np.float32)
    if base.size and base.size != wide:
        raise Refused(f"its {base.size} base_values are not {wide}")
    total = c.emit("add", total, c.constant(base)) if base.size else total
    after = str(c.attribute("post_transform", "NONE"))
    if is_one_sided:
        return _two_classes(c, total, labels, bool((_numbers(c, "class_weights", np.float32) >= 0).all()), after)
    scores = _transform_scores(c, total, after)
    return [*([_label(c, total, labels)] if is_classifier else []), scores][: c.outputs]


def _numbers(c: Context, name: str, dtype: Any) -> NDArray[Any]:
    given = c.attribute(name)
    given = c.attribute(f"{name}_as_tensor") if given is None else given
    return np.asarray([] if given is None else given, dtype).reshape(-1)


def _labels_of_classes(c: Context) -> NDArray[Any]:
    if c.attribute("classlabels_strings"):
        raise Refused(
            "its labels are texts, of which there are no tensors here: number the classes (classlabels_int64s)"
        )
    return _numbers(c, "classlabels_int64s", np.int64)


_BRANCHES = ("BRANCH_LEQ", "BRANCH_LT", "BRANCH_GTE", "BRANCH_GT", "BRANCH_EQ", "BRANCH_NEQ", "LEAF")


def _nodes_by_names(c: Context) -> tuple[dict[str, NDArray[Any]], NDArray[Any], NDArray[Any]]:
    """The nodes of all trees, known by the numbers of tree and node, by their places: as _walk_trees takes them, where leaves follow
    themselves; the roots; and the leaves, marked."""
    c.attribute("nodes_hitrates")
    c.attribute("nodes_hitrates_as_tensor")
    trees, numbers = (_numbers(c, f"nodes_{name}", np.int64) for name in ("treeids", "nodeids"))
    names = [one.decode() if isinstance(one, bytes) else str(one) for one in c.attribute("nodes_modes") or ()]
    features, splits = _numbers(c, "nodes_featureids", np.int64), _numbers(c, "nodes_values", np.float32)
    count, width = len(names), c.extent(0, 1)
    at = {key: place for place, key in enumerate(zip(trees.tolist(), numbers.tolist(), strict=True))}
    if not count or len(at) != count or not {*names} <= {*_BRANCHES} or not len(features) == len(splits) == count:
        raise Refused("its list of nodes is incomplete")
    is_leaf = np.asarray([name == "LEAF" for name in names])
    if not ((features[~is_leaf] >= 0) & (features[~is_leaf] < width)).all():
        raise Refused(f"its nodes read more than the {width} columns")
    ways = dict[str, NDArray[Any]]()
    for way, given in (("yes", "true"), ("no", "false")):
        behind = _numbers(c, f"nodes_{given}nodeids", np.int64)
        places = [at.get(key, -1) for key in zip(trees.tolist(), behind.tolist(), strict=True)]
        ways[way] = np.where(is_leaf, np.arange(count), places)
    followed = np.concatenate([ways["yes"][~is_leaf], ways["no"][~is_leaf]])
    if (followed < 0).any():
        raise Refused("one of its nodes names a successor that does not exist")
    roots = np.flatnonzero(~np.isin(np.arange(count), followed))
    missing = _numbers(c, "nodes_missing_value_tracks_true", np.int64)
    held = {
        "feature": np.where(is_leaf, 0, features),
        "mode": np.asarray([_BRANCHES.index(name) % _MEMBER for name in names]),
        "split": splits,
        "missing": missing != 0 if missing.size else np.zeros(count, bool),
        **ways,
    }
    return held, roots, is_leaf


def _steps_to_leaves(roots: NDArray[Any], held: Mapping[str, NDArray[Any]], is_leaf: NDArray[Any]) -> int:
    level, depth = roots[~is_leaf[roots]], 0
    while len(level):
        depth += 1
        if depth > len(is_leaf):
            raise Refused("a path through one of its trees does not end")
        behind = np.unique(np.concatenate([held["yes"][level], held["no"][level]]))
        level = behind[~is_leaf[behind]]
    return depth


def _weights_of_leaves(c: Context, kind: str, ids: NDArray[Any], wide: int) -> NDArray[Any]:
    """Return for each node what it adds to each class or target."""
    trees, numbers = (_numbers(c, f"nodes_{name}", np.int64).tolist() for name in ("treeids", "nodeids"))
    at = {key: place for place, key in enumerate(zip(trees, numbers, strict=True))}
    own = (_numbers(c, f"{kind}_{name}", np.int64).tolist() for name in ("treeids", "nodeids"))
    places = [at.get(key, -1) for key in zip(*own, strict=True)]
    weights = _numbers(c, f"{kind}_weights", np.float32)
    if -1 in places or not len(places) == len(ids) == len(weights) or len(trees) * wide > _MOST_NUMBERS:
        raise Refused("its weights are not those of its leaves")
    table = np.zeros((len(trees), wide), np.float64)
    np.add.at(table, (np.asarray(places, np.int64), ids), weights)
    return table


def _label(c: Context, scores: str, labels: NDArray[Any]) -> str:
    """The class of the greatest score."""
    return c.emit("take", c.constant(labels), c.emit("argmax", scores, axis=1), axis=0)


def _two_classes(c: Context, total: str, labels: NDArray[Any], is_share: bool, after: str) -> Sequence[str]:
    """The label and both scores, where leaves have weights for one class alone: shares of 1 where none is below 0, or a margin."""
    limit = c.constant(0.5 if is_share else 0.0, total)
    yes = c.reshape(c.emit("greater", total, limit), (c.type(total).shape[0],))
    label = c.emit("where", yes, c.constant(labels[1]), c.constant(labels[0]))
    opposite = c.emit("subtract", c.constant(1.0, total), total) if is_share else c.emit("negative", total)
    both = c.emit("concat", opposite, total, axis=1)
    if after not in ("NONE", "LOGISTIC") or is_share and after != "NONE":
        raise Refused(f"its post_transform {after} of one class's scores is not known")
    return [label, c.emit("sigmoid", both) if after == "LOGISTIC" else both][: c.outputs]


def _transform_scores(c: Context, scores: str, after: str) -> str:
    if after == "NONE":
        return scores
    if after == "LOGISTIC":
        return c.emit("sigmoid", scores)
    if after == "SOFTMAX":
        return c.emit("softmax", scores, axis=1)
    raise Refused(f"its post_transform {after} is not known")


def _split_members(c: Context, held: Mapping[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
    """The nodes, in which those that ask for one of several values are as many that ask for one of them each, one behind the other."""
    asking = np.flatnonzero(held["mode"] >= _MEMBER)
    if not len(asking):
        return dict(held)
    given = c.attribute("membership_values")
    values = np.asarray(given if given is not None else []).reshape(-1)
    ends = np.flatnonzero(np.isnan(values))
    if len(ends) != len(asking) or len(values) > _MOST_NUMBERS:
        raise Refused("not every node has the values that it tests for")
    begins = np.concatenate([[0], ends[:-1] + 1])
    counts = np.maximum(ends - begins, 1)  # of no value, the NaN behind it, which equals nothing
    count = len(held["mode"])
    origin = np.concatenate([np.arange(count), np.repeat(asking, counts - 1)])
    nodes = {name: one[origin] for name, one in held.items()}
    for node, begin, number in zip(asking.tolist(), begins.tolist(), counts.tolist(), strict=True):
        places = np.asarray([node, *range(count, count + number - 1)])
        nodes["mode"][places], nodes["split"][places] = _EQUAL, values[begin : begin + number]
        nodes["no"][places[:-1]] = places[1:]
        count += number - 1
    return nodes


def _walk_trees(c: Context, held: Mapping[str, NDArray[Any]], roots: NDArray[Any], is_leaf: NDArray[Any]) -> str:
    """Return the leaf that each row of the input reaches in each tree, (rows, trees)."""
    x = c[0] if c.type(0).dtype.startswith("float") else c.cast(c[0], "float32")
    depth = max(_steps_to_leaves(roots, held, is_leaf), 1)
    comparisons, modes = np.unique(held["mode"][~is_leaf], return_inverse=True)
    if not {*comparisons.tolist()} <= {*range(_MEMBER)}:
        raise Refused("its nodes compare by a mode that does not exist")
    mode = np.zeros(len(is_leaf), np.int32)
    mode[~is_leaf] = modes
    tables = [
        held["feature"].astype(np.int32),
        held["split"].astype(c.type(x).dtype),
        np.stack([held["no"], held["yes"]], 1).astype(np.int32),
        mode if len(comparisons) > 1 else None,
        held["missing"] if held["missing"].any() else None,
    ]
    how = {"steps": min(depth, _MOST_STEPS), "comparisons": tuple(comparisons.tolist()) or (0,)}
    first = c.emit("broadcast_to", c.constant(roots.astype(np.int32)), shape=(c.type(x).shape[0], len(roots)))
    if depth <= _MOST_STEPS:
        return _take_steps(c, x, first, tables, how)
    inner = InnerScope(c.scope, "step")
    inner.graph.input("turn", (), "int64")
    place = inner.graph.input("place", c.type(first).shape, "int32")
    after = _take_steps(Conversion(inner, [], c.source), inner.taken(x), place, tables, how)
    trips = c.constant(np.asarray(-(-depth // _MOST_STEPS), np.int64))
    return emit_loop(c.scope, inner, trips, "", [first], [after], None, c.source)[0]


def _take_steps(
    c: Conversion, x: str, place: str, tables: Sequence[NDArray[Any] | None], how: Mapping[str, Any]
) -> str:
    return c.emit("walk_trees", x, place, *("" if one is None else c.constant(one) for one in tables), **how)


def _gather_leaves(c: Context, place: str, weights: NDArray[Any], targets: NDArray[Any]) -> str:
    """The weights of leaves, (rows, trees), gathered by their targets."""
    kind, wanted = int(c.attribute("aggregate_function", _SUM)), int(c.attribute("n_targets", 1))
    if not 0 <= kind <= _GREATEST or len(targets) != len(weights) or not ((targets >= 0) & (targets < wanted)).all():
        raise Refused("its aggregation of leaves is not known")
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
