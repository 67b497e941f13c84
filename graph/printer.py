"""The text of a graph.

    graph net {
      input x: float32[1, 3, h, w]
      param bias: float32[2] = (0.5, -1.0)
      param w: float32[8, 3, 3, 3] = sha256:0f3a...
      const eps: float32[] = (1e-05)
      y: float32[1, 8, h, w] = conv(x, w, stride=(1, 1))    # Conv_0
      output logits = y
      state past = present
    }

An `if` and a `loop` have graphs inside, between braces:

      y: float32[2] = if(c, x) {    # If_0
        graph then {
          ...
        }
        graph else {
          ...
        }
      }

State is an input and an output that are one buffer. A const is a parameter that is no weight: trainings leave it as it is. The
name of a value is a word, or a text in quotes. Parameters of up to 64 elements have them there; larger ones are known by their
digest. What follows `#` is where a node came from.
"""

from __future__ import annotations

import json
import re

import numpy as np

from .node import Node, Param, Parts
from .operators.row import Attribute

__all__ = ["WORD", "graph_text"]

WORD = re.compile(r"[A-Za-z_][A-Za-z0-9_./:]*")
"""A name that needs no quotes. It is followed by no colon of its own where a type follows: see `_name`."""

_SPELT_OUT = 64
_KEYWORDS = ("graph", "input", "param", "const", "output", "state", "none", "true", "false", "nan", "inf")


def graph_text(g: Parts) -> str:
    """The text of a graph, which the parser reads."""
    lines = [f"graph {_name(g.name)} {{"]
    lines += [f"  input {_name(name)}: {kind}" for name, kind in g.inputs.items()]
    lines += [
        f"  {'const' if param.fixed else 'param'} {_name(name)}: {param.type} = {_param_text(param)}"
        for name, param in g.constants.items()
    ]
    lines += [f"  {line}" for node in g.nodes for line in _node(node)]
    lines += [
        f"  output {_name(name)}" + ("" if name == value else f" = {_name(value)}") for name, value in g.results.items()
    ]
    lines += [f"  state {_name(past)} = {_name(present)}" for past, present in g.state.items()]
    return "\n".join([*lines, "}"])


def _name(name: str) -> str:
    word = WORD.fullmatch(name) is not None and not name.endswith(":") and name not in _KEYWORDS
    return name if word else json.dumps(name)


def _param_text(param: Param) -> str:
    if param.data is None or param.data.size > _SPELT_OUT:
        return f"sha256:{param.content_digest}"
    values = param.data.reshape(-1)
    if param.type.dtype == "bool":
        return f"({', '.join('true' if value else 'false' for value in values)})"
    wide = np.float64 if param.type.dtype.startswith(("float", "bfloat")) else object
    return f"({', '.join(attribute_text(value) for value in values.astype(wide).tolist())})"


def _node(node: Node) -> list[str]:
    results = ", ".join(f"{_name(name)}: {kind}" for name, kind in zip(node.outputs, node.types, strict=True))
    operands = [_name(name) if name else "none" for name in node.inputs]
    operands += [f"{name}={attribute_text(value)}" for name, value in node.attributes.items()]
    source = f"    # {json.dumps(node.source)[1:-1]}" if node.source else ""
    line = f"{results} = {node.operator}({', '.join(operands)})"
    if not node.bodies:
        return [line + source]
    return [
        f"{line} {{{source}",
        *(f"  {inner}" for body in node.bodies for inner in graph_text(body).split("\n")),
        "}",
    ]


def attribute_text(value: Attribute) -> str:
    """A plain value: numbers as Python has them, nan and inf, true and false, none, texts in quotes, and tuples."""
    if value is None or isinstance(value, bool):
        return {None: "none", True: "true", False: "false"}[value]
    if isinstance(value, tuple):
        parts = [attribute_text(part) for part in value]
        return f"({', '.join(parts)}{',' if len(parts) == 1 else ''})"
    return json.dumps(value) if isinstance(value, str) else repr(value)
