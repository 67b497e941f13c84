"""Arguments whose addresses a schedule relies on: a declared buffer with data_alignment stands for a part of them.

    def main(A: float32[64]):   →   def main(A: float32[64, align=64]):

The call checks the address, and code generation makes use of it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from ...ir.buffer import Buffer
from ...ir.expr import BufferLoad, Node
from ...ir.stmt import BufferStore, Function
from ...ir.visit import rewrite

__all__ = ["with_alignments"]


def with_alignments(function: Function, wanted: Mapping[Buffer, int]) -> tuple[Function, dict[Buffer, Buffer]]:
    """The function whose parameters are aligned to so many bytes, and the new parameters by the old ones."""
    renamed = {buffer: replace(buffer, alignment=max(bytes_, buffer.alignment)) for buffer, bytes_ in wanted.items()}
    if not renamed:
        return function, {}

    def rule(node: Node) -> Node | None:
        if isinstance(node, (BufferLoad, BufferStore)) and node.buffer in renamed:
            return replace(node, buffer=renamed[node.buffer])
        return None

    params = tuple(renamed.get(param, param) if isinstance(param, Buffer) else param for param in function.params)
    outputs = tuple(renamed.get(buffer, buffer) for buffer in function.outputs)
    return replace(function, params=params, outputs=outputs, body=rewrite(function.body, rule)), renamed
