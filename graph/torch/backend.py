"""torch.compile(model, backend="tilewright"): what torch captures of a model, built to one native call, or left to torch.

For inference the program is taken as it is captured, in which attention is attention. Where gradients are wanted, torch makes a
forward and a backward program of it first, and each is compiled, or left, by itself.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Sequence
from importlib import import_module
from typing import Any

from ...codegen.result import BuildOptions
from ...errors import TilewrightError
from ..graph import Graph
from ..model import build_model
from .from_torch import from_torch

__all__ = ["compiled", "torch_report"]

_counts: Counter[str] = Counter()


def torch_report() -> dict[str, int]:
    """What torch.compile(backend="tilewright") has done so far: how many programs were compiled, under "compiled", and how many
    were left to torch, by the reason."""
    return dict(_counts)


def compiled(module: Any, examples: Sequence[Any]) -> Callable[..., Any]:
    """The backend: a function of the program's inputs, for a program that torch captured."""
    torch: Any = sys.modules["torch"]
    if torch.is_grad_enabled() and any(isinstance(each, torch.Tensor) and each.requires_grad for each in examples):
        common: Any = import_module("torch._dynamo.backends.common")
        functorch: Any = import_module("functorch.compile")

        def part(program: Any, given: Sequence[Any]) -> Any:
            return functorch.make_boxed_func(_built(torch, program, given))

        return common.aot_autograd(fw_compiler=part, bw_compiler=part)(module, examples)
    return _built(torch, module, examples)


def _built(torch: Any, module: Any, examples: Sequence[Any]) -> Callable[..., Any]:
    """The program as one native call, or, where it cannot be, as it is."""
    if not all(isinstance(each, torch.Tensor) and each.device.type == "cpu" and all(type(size) is int for size in each.shape)
               for each in examples):
        return _left(module, "an input is no tensor on the CPU, or its size changes")
    results = [each for node in module.graph.nodes if node.op == "output" for each in node.args[0]]
    kept = [at for at, each in enumerate(results) if each is not None]
    try:
        with torch._guards.tracing(None), torch.utils._python_dispatch._disable_current_modes():  # the program stands for itself
            given = [torch.empty_strided(each.shape, each.stride(), dtype=each.dtype) for each in examples]
            g = from_torch(module, given)
    except TilewrightError as problem:
        lines = [problem.headline, *str(problem.reason).strip().splitlines()]
        return _left(module, f"{problem.code}: {lines[min(1, len(lines) - 1)].strip()}"[:300])
    except Exception as problem:  # noqa: BLE001  torch.export raises what it likes
        return _left(module, f"torch.export says {type(problem).__name__}: {problem}"[:300])
    if not isinstance(g, Graph):
        return _left(module, "its sizes depend on values")
    if len(g.outputs) != len(kept) or not all(hasattr(results[at], "name") for at in kept):
        return _left(module, "it writes to its inputs, or gives what is no tensor")
    m = build_model(g, "llvm", None, BuildOptions(), exact=False)
    _counts["compiled"] += 1

    def call(*given: Any) -> Any:
        outputs: Any = m(*(each.detach() for each in given))
        values: list[Any] = [None] * len(results)
        for at, each in zip(kept, outputs if len(kept) > 1 else [outputs], strict=True):
            values[at] = torch.from_numpy(each)
        return values

    return call


def _left(module: Any, reason: str) -> Callable[..., Any]:
    _counts[reason] += 1
    return module.forward
