"""Random numbers of captured programs: torch draws them before a call, and the program takes them.

    dropout(x): mask = rand_like(x) > p; x * mask / (1 - p)      a program of x and of what rand_like gives, drawn for each call

So they come from torch's generator, as torch.manual_seed sets it, in the order of the program.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ...base.dataclass import dataclass

__all__ = ["Draw", "extract_draws"]

_LIKE = frozenset({"rand_like", "randn_like", "randint_like"})
"""Operators of a tensor of which the shape and the dtype count alone."""
_OF_SIZES = frozenset({"rand", "randn", "randint", "randperm"})


@dataclass(frozen=True)
class Draw:
    """Random draw of a program.

    target: torch's operator. like: whether it takes a tensor first, of which the shape and the dtype count. example: a tensor
    like the result, perhaps one without memory.
    """

    target: Callable[..., Any]
    like: bool
    args: Sequence[Any]
    kwargs: Mapping[str, Any]
    example: Any

    def draw(self, torch: Any) -> Any:
        """The numbers of a call."""
        example = self.example
        like = [torch.empty_strided(example.shape, example.stride(), dtype=example.dtype)] if self.like else []
        return self.target(*like, *self.args, **self.kwargs)


def extract_draws(torch: Any, module: Any) -> tuple[Any, list[Draw]]:
    """The program that takes what it would draw as further tensors, and what draws each of them; as it is where it draws nothing,
    or something that depends on values, or on sizes that change."""
    drawn = {node: draw for node in module.graph.nodes if (draw := _draw(torch, node)) is not None}
    if not drawn:
        return module, []
    graph = torch.fx.Graph()
    copies: dict[Any, Any] = {}
    for node in (each for each in module.graph.nodes if each.op == "placeholder"):
        copies[node] = graph.node_copy(node, copies.__getitem__)
    for node in drawn:
        copies[node] = graph.placeholder(f"{node.name}_drawn")
        copies[node].meta = dict(node.meta)
    for node in (each for each in module.graph.nodes if each not in copies):
        copies[node] = graph.node_copy(node, copies.__getitem__)
    return torch.fx.GraphModule(module, graph), list(drawn.values())


def _draw(torch: Any, node: Any) -> Draw | None:
    """Return the draw of a node's random numbers; None for any other node."""
    packet = getattr(node.target, "overloadpacket", None)
    name, value = getattr(packet, "__name__", ""), node.meta.get("val")
    if node.op != "call_function" or name not in _LIKE | _OF_SIZES or not isinstance(value, torch.Tensor):
        return None
    args: Sequence[Any] = node.args[1:] if name in _LIKE else node.args
    if not all(type(size) is int for size in (*value.shape, *value.stride())) or _reads(torch, (args, node.kwargs)):
        return None
    return Draw(node.target, name in _LIKE, args, node.kwargs, value)


def _reads(torch: Any, given: Any) -> bool:
    """Return whether arguments are what other nodes give."""
    found: list[Any] = []
    torch.fx.node.map_arg(given, found.append)
    return bool(found)
