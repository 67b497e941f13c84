"""torch's flex_attention in an exported program, written out: torch cannot keep a call of it in a file.

    y = flex_attention(q, k, v, score_mod, (..., mask_mod), scale, ...)

    scores = score_mod(matmul(q, transpose(k)) * scale, b, h, i, j)
    y = matmul(softmax(where(mask_mod(b, h, i, j), scores, -inf)), v)

The functions are of one element; torch.vmap makes them such of all. Blocks of a mask say which scores need not be computed, and
nothing of what they are.
"""

from __future__ import annotations

import sys
from copy import deepcopy
from typing import Any

from ...base.errors import user_source
from ..errors import UnsupportedModel

__all__ = ["expand_flex_attention"]


def expand_flex_attention(program: Any) -> Any:
    """A torch.export.ExportedProgram whose graph calls no flex_attention; itself where there is none. Raises UnsupportedModel
    (TW0912) where more than the results of one is asked for."""
    if not any(_is_flexible(node) for node in program.graph.nodes):
        return program
    module, signature = deepcopy(program.graph_module), deepcopy(program.graph_signature)
    graph = module.graph
    for node in list(graph.nodes):
        if _is_flexible(node):
            _replace(module, signature, node)
    graph.eliminate_dead_code(_is_kept)  # masks of blocks, which were made by loops over elements
    module.recompile()
    return program._update(module, signature)


def _is_flexible(node: Any) -> bool:
    return node.op == "call_function" and str(node.target) == "flex_attention"


def _is_kept(node: Any) -> bool:
    """Return whether a node counts though nobody reads it: it writes to what somebody may read."""
    if node.op in ("placeholder", "output"):
        return True
    if not getattr(getattr(node.target, "_schema", None), "is_mutable", False):
        return False
    made = getattr(node.args[0], "target", None) if node.args else None
    returns = getattr(getattr(made, "_schema", None), "returns", None)
    is_fresh = returns is not None and all(one.alias_info is None for one in returns)
    return not (is_fresh and all(user is node or set(user.users) <= {node} for user in node.args[0].users))


class _Trace:
    """Nodes that are put into a graph before another, with what torch says of their results."""

    def __init__(self, module: Any, before: Any) -> None:
        self.torch, self.module, self.before = sys.modules["torch"], module, before
        self.fake = before.args[0].meta["val"].fake_mode

    def emit(self, operator: Any, *arguments: Any) -> Any:
        """A call. operator: an overload of torch.ops.aten."""
        with self.module.graph.inserting_before(self.before):
            node = self.module.graph.call_function(operator, arguments)
        with self.fake:
            node.meta["val"] = operator(*(one.meta["val"] if hasattr(one, "meta") else one for one in arguments))
        return node

    def inline_function(self, function: Any, *given: Any) -> Any:
        """Inline a function of tensors as nodes."""
        make_fx = __import__("torch.fx.experimental.proxy_tensor", fromlist=["make_fx"]).make_fx
        with self.fake:
            traced = make_fx(function)(*(one.meta["val"] for one in given))
        inputs = [node for node in traced.graph.nodes if node.op == "placeholder"]
        values = dict(zip(inputs, given, strict=True))
        for node in traced.graph.nodes:
            if node.op == "get_attr":
                raise _unsupported_attention(f"a function of it holds a tensor of its own, {node.target}")
        with self.module.graph.inserting_before(self.before):
            return self.module.graph.graph_copy(traced.graph, values)


def _replace(module: Any, signature: Any, node: Any) -> None:
    """Put what a call of flex_attention computes in its place."""
    trace = _Trace(module, node)
    torch, aten = trace.torch, trace.torch.ops.aten
    given: list[Any] = [*node.args, *[()] * (9 - len(node.args))]
    q, k, v, score, blocks, scale, _, score_others, mask_others = given
    for user in list(node.users):
        if user.args[1] and user.users:
            raise _unsupported_attention("it has more outputs than the result")
    heads, groups = (one.meta["val"].shape[1] for one in (q, k))
    if heads != groups:
        k, v = (trace.emit(aten.repeat_interleave.self_int, one, heads // groups, 1) for one in (k, v))
    dtype = q.meta["val"].dtype
    wide = dtype if dtype in (torch.float32, torch.float64) else torch.float32
    if wide != dtype:
        q, k, v = (trace.emit(aten.to.dtype, one, wide) for one in (q, k, v))
    scores = trace.emit(aten.matmul.default, q, trace.emit(aten.transpose.int, k, -2, -1))
    scores = trace.emit(aten.mul.Tensor, scores, scale)
    scores = trace.inline_function(_everywhere(torch, getattr(module, score.target), True), scores, *score_others)
    seen = trace.inline_function(_everywhere(torch, getattr(module, blocks[-1].target), False), scores, *mask_others)
    scores = trace.emit(aten.masked_fill.Scalar, scores, trace.emit(aten.logical_not.default, seen), -float("inf"))
    greatest = trace.emit(aten.amax.default, scores, [-1], True)
    weights = trace.emit(
        aten.masked_fill.Scalar,
        trace.emit(aten.softmax.int, scores, -1),
        trace.emit(aten.eq.Scalar, greatest, -float("inf")),
        0.0,
    )
    result = trace.emit(aten.matmul.default, weights, v)
    result = result if wide == dtype else trace.emit(aten.to.dtype, result, dtype)
    for user in list(node.users):
        if not user.args[1]:
            user.replace_all_uses_with(result)
            signature.replace_all_uses(user.name, result.name)


def _everywhere(torch: Any, function: Any, with_score: bool) -> Any:
    """A function of an element as one of all: of the scores, and of tensors that it reads as they are."""

    def computed(scores: Any, *others: Any) -> Any:
        whole = function
        for at in reversed(range(4)):  # the innermost is the batch: each vmap takes the first dimension that is left
            own = [0 if at == other else None for other in range(4)]
            whole = torch.vmap(whole, ((0,) if with_score else ()) + tuple(own) + (None,) * len(others))
        places = [torch.arange(extent, device=scores.device, dtype=torch.int32) for extent in scores.shape]
        result = whole(*((scores,) if with_score else ()), *places, *others)
        return result if with_score else result.expand(scores.shape)

    return computed


def _unsupported_attention(reason: str) -> UnsupportedModel:
    return UnsupportedModel(
        "the model has a flex_attention that is not supported",
        reason=reason,
        called=user_source(),
        fix="use what it returns alone, and functions that read what is passed to the module",
    )
