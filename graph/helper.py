"""The main of processes that compile kernels of graphs for another: `python -m tilewright.graph.helper PARENT`."""

from __future__ import annotations

import sys
from typing import Any

from .. import te
from ..driver.serving import serve
from ..ir.expr import Var
from .kernels import declared_kernel, step_from_json

__all__ = ["declare"]


def declare(part: Any) -> list[te.Tensor | Var]:
    """The kernel that step_as_json has written down, as tensors."""
    return declared_kernel(*step_from_json(part))


if __name__ == "__main__":
    serve(int(sys.argv[1]), declare)
