"""tvm.contrib.graph_executor: models run with inputs that are set one by one."""

from __future__ import annotations

from ..executor import GraphModule, create

__all__ = ["GraphModule", "create"]
