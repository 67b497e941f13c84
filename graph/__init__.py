"""Models as graphs of typed nodes over the table of operators: built, printed, parsed, kept, run by the reference.

g = tw.graph.parse(text)            # or a Builder, or tw.graph.load(path)
m = tw.build(g)
y = m(x)
"""

from __future__ import annotations

from .builder import Builder
from .graph import Graph
from .node import Node, Param
from .onnx import from_onnx
from .open_graph import OpenGraph
from .operators import OPERATORS
from .parser import load, parse
from .passes import PASSES
from .torch import from_torch, torch_report
from .types import TensorType

__all__ = [
    "OPERATORS",
    "PASSES",
    "Builder",
    "Graph",
    "Node",
    "OpenGraph",
    "Param",
    "TensorType",
    "from_onnx",
    "from_torch",
    "load",
    "parse",
    "torch_report",
]
