"""Context of a row of ONNX's operators: one node, what is known of its inputs, and the graph to which it adds its own nodes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from numpy.typing import NDArray

from ...ir.expr import Expr
from ..conversion import Conversion, NeedsValue, Scope
from ..types import Extent, convert_extent

__all__ = ["CONTROL_NAMES", "ROWS", "Context", "converts", "operator_name"]

_WITHOUT_MEANING = {
    "axis",
    "block_size",
    "consumed_inputs",
    "keep_aspect_ratio_policy",
    "kernel_shape",
    "mask_filter_value",
    "momentum",
    "nearest_mode",
    "pads",
    "precision",
    "ratio",
    "round_mode",
    "saturate",
    "seed",
    "spatial",
    "stash_type",
    "storage_order",
}
"""Attributes that change nothing where a conversion does not ask for them."""


CONTROL_NAMES = ("If", "Loop", "Scan", "ai.onnx.preview.FlexAttention")
"""The operators with graphs inside."""


def operator_name(node: Any) -> str:
    """The name of a node's operator, behind that of its domain where this is not ONNX's own."""
    return node.op_type if node.domain in ("", "ai.onnx") else f"{node.domain}.{node.op_type}"


class Context(Conversion):
    """A node of ONNX."""

    def __init__(
        self, scope: Scope, proto: Any, inputs: Sequence[str], attributes: dict[str, Any], source: str
    ) -> None:
        super().__init__(scope, inputs, source)
        self.proto, self.attributes, self.opset = proto, attributes, scope.opset
        self.outputs = len(proto.output)
        self.key = proto.output[0] if proto.output else ""

    def attribute(self, name: str, default: Any = None) -> Any:
        """An attribute: numbers, texts, lists of them, arrays."""
        self.read.add(name)
        return self.attributes.get(name, default)

    def refuse_unread_attributes(self) -> None:
        """Raise Refused where a conversion left an attribute out."""
        self.refuse_unread(self.attributes, _WITHOUT_MEANING, "attribute")

    def array(self, at: int) -> NDArray[Any]:
        """The value of an input, which has to be known. Raises NeedsValue."""
        data = self.scope.graph.data(self[at])
        if data is None:
            raise NeedsValue(self.proto.input[at])
        return data

    def numbers(self, at: int) -> list[int]:
        """The integers that an input holds. Raises NeedsValue."""
        return [int(number) for number in self.array(at).reshape(-1)]

    def extents(self, at: int) -> list[Extent]:
        """The extents that an input holds. Raises NeedsValue."""
        expressions = self.scope.shapes.get(self[at])
        if expressions is None:
            return [*self.numbers(at)]
        return [convert_extent(part) if isinstance(part, Expr) else int(part) for part in expressions.reshape(-1)]

    def axis(self, default: int = 0, rank: int | None = None) -> int:
        """The attribute axis, counted from the beginning."""
        return self.within(int(self.attribute("axis", default)), self.rank(0) if rank is None else rank)

    def axes(self, at: int, name: str = "axes") -> list[int] | None:
        """The axes that come as an input, or as an attribute in older versions; None where there are none."""
        if self.has(at):
            return self.numbers(at)
        given = self.attribute(name)
        return None if given is None else list(given)


Row = Callable[[Context], "str | Sequence[str]"]
ROWS: dict[str, Row] = {}
"""How a node of each operator becomes nodes of ours: its values, in order."""


def converts(*names: str) -> Callable[[Row], Row]:
    """Make a row for these operators."""

    def register(row: Row) -> Row:
        ROWS.update(dict.fromkeys(names, row))
        return row

    return register
