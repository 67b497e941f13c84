"""Whole numbers that a program makes of quotients of sizes by `math.floor` and `math.ceil`, which torch writes to no
file, as quotients, which it writes.

    floor(x)    x // 1
    ceil(x)     -(-x // 1)
"""

from __future__ import annotations

import math
import operator
from copy import deepcopy
from typing import Any

__all__ = ["without_rounding"]


def without_rounding(program: Any) -> Any:
    """A torch.export.ExportedProgram whose graph calls no such function; itself where there is none."""
    if not any(node.target in (math.floor, math.ceil) for node in program.graph.nodes):
        return program
    below: Any = getattr(operator, "floordiv")  # noqa: B009  (typeshed gives its parameters no types)
    module, signature = deepcopy(program.graph_module), deepcopy(program.graph_signature)
    graph = module.graph
    for node in list(graph.nodes):
        if node.op != "call_function" or node.target not in (math.floor, math.ceil):
            continue
        value, what = node.args[0], node.meta["val"]
        with graph.inserting_before(node):
            if node.target is math.floor:
                made = graph.call_function(below, (value, 1))
            else:
                turned = graph.call_function(operator.neg, (value,))
                turned.meta["val"] = -value.meta["val"] if hasattr(value, "meta") else -value
                quotient = graph.call_function(below, (turned, 1))
                quotient.meta["val"] = -what
                made = graph.call_function(operator.neg, (quotient,))
        made.meta.update(node.meta)
        node.replace_all_uses_with(made)
        signature.replace_all_uses(node.name, made.name)
        graph.erase_node(node)
    module.recompile()
    return program._update(module, signature)
