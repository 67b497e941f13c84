"""tvm.contrib.graph_runtime: what TVM called its graph executor until 0.7."""

from __future__ import annotations

from ..executor import GraphModule, create

__all__ = ["GraphModule", "create"]
