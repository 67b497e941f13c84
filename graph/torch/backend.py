"""torch.compile(model, backend="tilewright"): what torch captures of a model, built to one native call, or left to torch.

For inference the program is taken as it is captured, in which attention is attention. Where gradients are wanted, torch makes a
forward and a backward program of it first, and each is compiled, or left, by itself. Where torch takes sizes for such that change,
a program is built for those of each call.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Sequence
from functools import cache
from importlib import import_module
from typing import Any

from ...base import TilewrightError, dataclass, fields, is_interruption, user_source
from ...codegen.errors import ArgumentNotBuildable
from ...codegen.result import BuildOptions
from ...runtime.abi import REGISTERED_TYPES
from ..graph import Graph
from ..model import Model
from .call import ROWS
from .chance import extract_draws
from .from_torch import from_torch

__all__ = ["compiled", "torch_report"]

_counts: Counter[str] = Counter()
_MOST_SIZES = 16
"""Of one program whose sizes change."""


def torch_report() -> dict[str, int]:
    """Return the report of torch.compile(backend="tilewright") so far: how many programs were compiled, under "compiled", and how many
    were left to torch, by the reason."""
    return dict(_counts)


@dataclass(frozen=True, slots=True)
class _Options:
    """Options of torch.compile(options={...}): those of tw.build of a graph."""

    exact: bool = False
    fast_math: bool = False


_AS_USUAL = _Options()


def compiled(
    module: Any, examples: Sequence[Any], mode: str | None = None, options: dict[str, Any] | None = None
) -> Callable[..., Any]:
    """The backend: a function of the program's inputs, for a program that torch captured.

    mode: torch's, of which there is one here: each is compiled with all that is known. options: exact and fast_math, as tw.build takes
    them. Raises ArgumentNotBuildable (TW0420) for other options."""
    del mode  # torch has refused those that it does not know
    torch: Any = sys.modules["torch"]
    wanted = _checked_options(options or {})
    if torch.is_grad_enabled() and any(isinstance(each, torch.Tensor) and each.requires_grad for each in examples):
        common: Any = import_module("torch._dynamo.backends.common")
        functorch: Any = import_module("functorch.compile")

        def part(program: Any, given: Sequence[Any]) -> Any:
            return functorch.make_boxed_func(_specialize(torch, program, given, wanted))

        attention: Any = import_module("torch.nn.attention")
        made = common.aot_autograd(fw_compiler=part, bw_compiler=part, decompositions=_decompositions())
        try:
            with attention.sdpa_kernel(attention.SDPBackend.MATH):  # attention whose derivative is made of operators
                return made(module, examples)
        except Exception as problem:  # torch makes no pair of programs of it
            if is_interruption(problem):
                raise
            return _keep_original(module, f"torch's aot_autograd says {type(problem).__name__}: {problem}"[:300])
    return _specialize(torch, module, examples, wanted)


def _checked_options(options: dict[str, Any]) -> _Options:
    known = [field.name for field in fields(_Options)]
    wrong = next((name for name, value in options.items() if name not in known or not isinstance(value, bool)), None)
    if wrong is not None:
        raise ArgumentNotBuildable(
            'torch.compile(backend="tilewright") cannot be given these options',
            called=user_source(),
            reason=f"{wrong!r} is {options[wrong]!r}"[:200]
            if wrong in known
            else f"there is no option {wrong!r}"[:200],
            allowed=", ".join(f"{name} (True or False)" for name in known),
            fix='options={"exact": True}',
        )
    return _Options(**options)


@cache
def _decompositions() -> dict[Any, Any]:
    """Return torch's decompositions of operators that have no row, the derivatives of most operators among it, and the
    norms with what their derivatives need, of which rows give the first result alone."""
    table: dict[Any, Any] = import_module("torch._decomp").decomposition_table
    return {
        operator: how
        for operator, how in table.items()
        if ("native_" in str(operator) or str(operator).removeprefix("aten.") not in ROWS)
        and "_scatter" not in str(operator)  # which write into a copy, and derivatives may not write
    }


def _specialize(torch: Any, module: Any, examples: Sequence[Any], options: _Options) -> Callable[..., Any]:
    """The program for the sizes of its examples; where torch says that they change, for those of each call, as many as there are
    places for: torch computes the others."""
    if _is_static(torch, examples):
        return _build_or_keep(torch, module, examples, options)
    made: dict[tuple[Any, ...], Callable[..., Any]] = {}

    def call(*given: Any) -> Any:
        sizes = tuple((each.shape, each.stride()) if isinstance(each, torch.Tensor) else each for each in given)
        if sizes not in made and len(made) < _MOST_SIZES:
            made[sizes] = _build_or_keep(torch, module, given, options)
        return made[sizes](*given) if sizes in made else module.forward(*given)

    return call


def _is_static(torch: Any, examples: Sequence[Any]) -> bool:
    return all(
        isinstance(each, torch.Tensor) and all(type(size) is int for size in (*each.shape, *each.stride()))
        for each in examples
    )


def _build_or_keep(
    torch: Any, module: Any, examples: Sequence[Any], options: _Options = _AS_USUAL
) -> Callable[..., Any]:
    """The program for these sizes as one native call, or, where it cannot be, as it is."""
    if not all(type(each) is int or isinstance(each, torch.Tensor) and each.device.type == "cpu" for each in examples):
        return _keep_original(module, "an input is not a tensor on the CPU")
    taken, draws = extract_draws(torch, module)
    examples = [*examples, *(draw.example for draw in draws)]
    nodes = [node for node in taken.graph.nodes if node.op == "placeholder"]
    results = [each for node in taken.graph.nodes if node.op == "output" for each in node.args[0]]
    passed = {at: nodes.index(each) for at, each in enumerate(results) if each in nodes}
    kept = [at for at, each in enumerate(results) if each is not None and at not in passed]
    if not all(hasattr(results[at], "name") for at in kept):
        return _keep_original(module, "it gives what is not a tensor")
    if not kept:
        return module.forward
    try:
        with (
            torch._guards.tracing(None),
            torch.utils._python_dispatch._disable_current_modes(),
        ):  # the program stands for itself
            tensors = [
                torch.empty_strided(each.shape, each.stride(), dtype=each.dtype)
                for each in examples
                if type(each) is not int
            ]
            g = from_torch(_part(torch, taken, examples, kept), tensors)
    except TilewrightError as problem:
        lines = [problem.headline, *str(problem.reason).strip().splitlines()]
        return _keep_original(module, f"{problem.code}: {lines[min(1, len(lines) - 1)].strip()}"[:300])
    except Exception as problem:  # torch.export raises what it likes
        if is_interruption(problem):
            raise
        return _keep_original(module, f"torch.export says {type(problem).__name__}: {problem}"[:300])
    if not isinstance(g, Graph):
        return _keep_original(module, "its sizes depend on values")
    if len(g.outputs) != len(kept):
        return _keep_original(module, "it writes to its inputs")
    m = Model(g, "llvm", BuildOptions(fast_math=options.fast_math), None, options.exact)
    _counts["compiled"] += 1
    is_size = [
        not isinstance(results[at].meta.get("val", tensors[0] if tensors else None), torch.Tensor) for at in kept
    ]

    def call(*given: Any) -> Any:
        given = (*given, *(draw.draw(torch) for draw in draws))
        outputs: Any = m(*(each.detach().resolve_neg() for each in given if type(each) is not int))
        values: list[Any] = [None] * len(results)
        for at, place in passed.items():
            values[at] = given[place]
        for at, each, size in zip(kept, outputs if len(kept) > 1 else [outputs], is_size, strict=True):
            values[at] = int(each) if size else _tensor(torch, each)
        return values

    return call


def _tensor(torch: Any, array: Any) -> Any:
    """A tensor in the memory of an array, of which torch reads no dtypes of ml_dtypes."""
    if array.dtype.name in REGISTERED_TYPES:
        return torch.from_numpy(array.view(f"u{array.itemsize}")).view(getattr(torch, array.dtype.name))
    return torch.from_numpy(array)


def _part(torch: Any, module: Any, examples: Sequence[Any], kept: Sequence[int]) -> Any:
    """The module that takes the tensors alone, for the sizes that are among the examples, and gives what is computed alone."""

    class Part(torch.nn.Module):
        def __init__(self) -> None:
            torch.nn.Module.__init__(self)
            self.whole = module

        def forward(self, *tensors: Any) -> Any:
            rest = iter(tensors)
            results = self.whole(*(each if type(each) is int else next(rest) for each in examples))
            return tuple(results[at] for at in kept)

    return Part()


def _keep_original(module: Any, reason: str) -> Callable[..., Any]:
    _counts[reason] += 1
    return module.forward
