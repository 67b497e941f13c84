"""tvm.te.hybrid.HybridModule: a schedule's loops as a function of their own, called with tensors or with arrays."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from .....base.untrusted_input import read_regular
from .....driver.build import build
from .....ir import Buffer, BufferLoad, BufferStore, DType, Expr, Function, Node, ProducerLoad, Var, parse, rewrite
from .....ir.arith.analyzer import Analyzer
from .....ir.ops import convert
from .....runtime.array import numpy_dtype
from .....te import Tensor
from .....te.hybrid import HybridOp
from ...nodes import ours

__all__ = ["HybridModule"]

_MOST_BYTES = 1 << 28
"""Of a text of loops."""


class HybridModule:
    """Loops that take inputs and return outputs. Called with tensors it gives those of an operation with these loops, called with
    arrays it runs them. `save` writes their text, and `load` reads it. TVM's text is Python, ours that of the loop IR."""

    def __init__(self, src: str | None = None, name: str | None = None) -> None:
        self.function: Function | None = None if src is None else parse(src)
        self._name = name

    @property
    def name(self) -> str:
        """The name of the function."""
        return self._name or (self.function.name if self.function is not None else "hybrid_func")

    def get_source(self) -> str:
        """The text of the loops."""
        return str(ours(self._load()))

    def save(self, path: str | Path) -> None:
        """Write the text of the loops."""
        Path(path).write_text(self.get_source())

    def load(self, path: str | Path) -> None:
        """Read what save wrote."""
        self.function = parse(read_regular(path, _MOST_BYTES).decode())

    def _load(self) -> Function:
        if self.function is None:
            raise ValueError("the module is empty: load a file that HybridModule.save wrote")
        return self.function

    def __call__(self, *args: Any) -> Any:
        """The outputs: one, or a list."""
        function: Function = ours(self._load())
        outputs = list(function.outputs)
        inputs = [param for param in function.params if param not in outputs]
        if len(args) != len(inputs):
            raise TypeError(
                f"{self.name} takes {len(inputs)} arguments, {', '.join(each.name for each in inputs)}, "
                f"and was given {len(args)}"
            )
        symbols = _symbols(inputs, args)
        if any(isinstance(arg, (Tensor, Expr)) for arg in args):
            results = _operation(function, dict(zip(inputs, args, strict=True)), symbols)
        else:
            results = _run(function, dict(zip(inputs, args, strict=True)), symbols)
        return results[0] if len(results) == 1 else results


def _symbols(inputs: Sequence[Buffer | Var], args: Sequence[Any]) -> dict[Var, Expr]:
    """Return the values of scalars and of the symbols of shapes."""
    known: dict[Var, Expr] = {}
    for declared, given in zip(inputs, args, strict=True):
        if isinstance(declared, Var):
            known[declared] = convert(given)
        else:
            known.update(
                (extent, convert(size))
                for extent, size in zip(declared.shape, given.shape, strict=True)
                if isinstance(extent, Var)
            )
    return known


def _resolve_shape(buffer: Buffer, symbols: Mapping[Var, Expr]) -> Buffer:
    return replace(buffer, shape=tuple(_value(extent, symbols) for extent in buffer.shape))


def _value(node: Expr, symbols: Mapping[Var, Expr]) -> Expr:
    return Analyzer().simplify(rewrite(node, lambda each: symbols.get(each) if isinstance(each, Var) else None))


def _operation(function: Function, inputs: Mapping[Any, Any], symbols: Mapping[Var, Expr]) -> list[Tensor]:
    buffers = {buffer: _resolve_shape(buffer, symbols) for buffer in function.outputs}

    def rule(node: Node) -> Node | None:
        if isinstance(node, BufferLoad) and node.buffer in inputs:
            return ProducerLoad(inputs[node.buffer], node.indices)
        if isinstance(node, (BufferLoad, BufferStore)) and node.buffer in buffers:
            return replace(node, buffer=buffers[node.buffer])
        return symbols.get(node) if isinstance(node, Var) else None

    op = HybridOp(name=function.name, tag="hybrid", body=rewrite(function.body, rule), buffers=tuple(buffers.values()))
    return list(op.outputs)


def _run(function: Function, inputs: Mapping[Any, Any], symbols: Mapping[Var, Expr]) -> list[np.ndarray[Any, Any]]:
    results = {
        buffer: np.zeros(
            [int(_value(extent, symbols)) for extent in buffer.shape],  # type: ignore[call-overload]
            numpy_dtype(DType(buffer.dtype)),
        )
        for buffer in function.outputs
    }
    build(function)(*(inputs[param] if param in inputs else results[param] for param in function.params))  # pyright: ignore
    return list(results.values())
