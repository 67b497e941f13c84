"""How the frozen models are cut into kernels: which ones, how often, in which order, and the memory that they share."""

from __future__ import annotations

from typing import Any

import numpy as np
import tilewright as tw

from .internals import plan_of
from .programs import load_models

__all__ = ["models", "plan_facts"]

TARGET = "llvm -mcpu=haswell -uncalibrated"

HEAVY = ("conv", "depthwise", "winograd", "matmul", "dense", "packed", "attention", "gru", "lstm")

models = load_models()


def plan_facts(name: str) -> dict[str, str]:
    """Of a model: its kernels with their counts, the order of its steps, the operators that stand for each convolution and
    product after the passes, and its arena's bytes. Symbols are 3."""
    g = models[name]()
    model: Any = tw.build(g, target=TARGET)
    if g.symbols:
        model(
            *(np.zeros([n if isinstance(n, int) else 3 for n in kind.shape], kind.dtype) for kind in g.inputs.values())
        )
    counts, order, operators = plan_of(model)
    return {
        "kernels": "\n".join(f"{count} x {kernel}" for kernel, count in counts.items()),
        "order": "\n".join(order),
        "algorithms": "\n".join(each for step in operators for each in step if each.startswith(HEAVY)),
        "count": f"{len(counts)} kernels",
        "arena": f"{model.arena_bytes} bytes",
    }
