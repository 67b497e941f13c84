"""Drawn models of ONNX, one operator each: attributes, versions, dtypes and values at their edges, and extents that are symbols.

model = draw(random)                    # a ModelProto, and what its inputs are
for sizes in model.sizes(random):       # the drawn extents, and others for the symbols among them
    arrays = model.arrays(random, sizes)
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnx.parser
from drawn_rows import Dim, Input, Row, extreme, indices, ordinary
from numpy.random import Generator
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper

__all__ = [
    "FAMILIES",
    "Drawn",
    "Draws",
    "Input",
    "draw",
    "extreme",
    "family",
    "indices",
    "kind_of",
    "ordinary",
    "table",
]

FLOATS = ("float32", "float64", "float16")
INTEGERS = ("int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64")
NEWEST = 24
DOMAINS = {"ai.onnx.ml.TreeEnsemble": 5, "ai.onnx.ml": 3}
"""The versions of other operators than ONNX's own, or of all of a domain; 1 where none stands here. Of ai.onnx.ml, 5 has no more
TreeEnsembleClassifier and TreeEnsembleRegressor."""


@dataclass
class Drawn:
    """A model of one operator, or of these nodes. known: the extents of its symbols as drawn. least: of what they are in later
    calls. tolerance: -1 for quantised numbers, which may differ by a step. meant: nodes that give the same, where nobody else has
    these."""

    operator: str
    inputs: dict[str, Input]
    outputs: list[str]
    opset: int
    attributes: dict[str, Any] = field(default_factory=dict[str, Any])
    known: dict[str, int] = field(default_factory=dict[str, int])
    tolerance: float = 2e-5
    positions: list[str] | None = None
    least: int = 0
    nodes: Sequence[Any] = ()
    meant: Sequence[Any] = ()
    proto: Any = None
    expected: Any = None

    def made(self, random: Generator) -> Drawn:
        """The model with its ModelProto, and one that gives what it is to give; held inputs have the values that are drawn here."""
        names = self.positions if self.positions is not None else list(self.inputs)
        nodes = self.nodes or [helper.make_node(self.operator, names, self.outputs, **self.attributes)]
        held = [
            numpy_helper.from_array(one.values(random, one.shape(self.known)), name)
            for name, one in self.inputs.items()
            if one.held
        ]
        entries = [
            helper.make_tensor_value_info(name, kind_of(one.dtype), one.dims)
            for name, one in self.inputs.items()
            if not one.held
        ]
        results = [helper.make_tensor_value_info(name, TensorProto.UNDEFINED, None) for name in self.outputs if name]
        for one in results:
            one.ClearField("type")
        graph = helper.make_graph(nodes, "net", entries, results, held)
        self.proto = self._model(graph)
        if self.meant:
            graph.ClearField("node")
            graph.node.extend(self.meant)
        self.expected = self._model(graph)
        return self

    def _model(self, graph: Any) -> Any:
        versions = {
            node.domain: DOMAINS.get(f"{node.domain}.{node.op_type}", DOMAINS.get(node.domain, 1))
            for node in graph.node
        } | {"": self.opset}
        opsets = [helper.make_opsetid(*one) for one in versions.items()]
        return helper.make_model(graph, opset_imports=opsets, ir_version=10)

    def sizes(self, random: Generator) -> Iterator[dict[str, int]]:
        """The sizes that were drawn, then others, 0 and 1 among them."""
        yield dict(self.known)
        if self.known and all(
            not one.held or not any(isinstance(d, str) for d in one.dims) for one in self.inputs.values()
        ):
            for _ in range(2):
                yield {
                    name: max(int(random.choice([0, 1, 2, size, size + 3])), self.least)
                    for name, size in self.known.items()
                }

    def arrays(self, random: Generator, sizes: Mapping[str, int]) -> dict[str, NDArray[Any]]:
        return {name: one.values(random, one.shape(sizes)) for name, one in self.inputs.items() if not one.held}


def kind_of(dtype: str) -> int:
    return helper.np_dtype_to_tensor_dtype(np.dtype(dtype))


def draw(random: Generator, family: str = "") -> Drawn:
    """A model of a family of operators, of any without a name."""
    name = family or str(random.choice(list(FAMILIES)))
    return FAMILIES[name](Draws(random)).made(random)


Family = Callable[["Draws"], Drawn]
FAMILIES: dict[str, Family] = {}
"""By their names, filled as the modules drawn_onnx_* are imported."""


def family(make: Family) -> Family:
    FAMILIES[make.__name__.strip("_")] = make
    return make


def table(name: str, rows: Sequence[Row]) -> None:
    """A family of the rows of a table, whose results are the values with names of y."""

    def make(d: Draws) -> Drawn:
        row = d.pick(*rows)
        text, inputs, known = row.draw(d.random)
        nodes, meant = (onnx.parser.parse_graph(f"net () => () {{ {one} }}").node for one in (text, row.means))
        outputs = [value for node in nodes for value in node.output if value.startswith("y")]
        opset = d.opset(*row.versions)
        return Drawn(
            text,
            inputs,
            outputs,
            opset,
            known=known,
            tolerance=row.tolerance,
            least=row.least,
            nodes=nodes,
            meant=meant,
        )

    FAMILIES[name] = make


class Draws:
    """What families draw from."""

    def __init__(self, random: Generator) -> None:
        self.random = random
        self.known: dict[str, int] = {}
        self.open = bool(random.random() < 0.35)

    def pick(self, *of: Any) -> Any:
        return of[int(self.random.integers(len(of)))]

    def chance(self, share: float = 0.5) -> bool:
        return bool(self.random.random() < share)

    def number(self, low: int, high: int) -> int:
        """From low to high, both included."""
        return int(self.random.integers(low, high + 1))

    def size(self, low: int = 1, high: int = 5) -> int:
        return 0 if low == 0 and self.chance(0.05) else self.number(max(low, 1), high)

    def shape(self, rank: int, low: int = 0, high: int = 5) -> tuple[int, ...]:
        return tuple(self.size(low, high) for _ in range(rank))

    def dims(self, shape: Sequence[int], share: float = 0.6) -> tuple[Dim, ...]:
        """A shape, some of whose extents are symbols, equal ones one symbol half of the time."""
        result: list[Dim] = []
        for extent in shape:
            if not self.open or not self.chance(share):
                result.append(extent)
                continue
            same = [name for name, size in self.known.items() if size == extent]
            name = same[0] if same else f"n{len(self.known)}"
            self.known[name] = extent
            result.append(name)
        return tuple(result)

    def opset(self, least: int = 7, most: int = NEWEST) -> int:
        return self.number(least, most)

    def axis(self, rank: int) -> int:
        return self.number(-rank, rank - 1)

    def axes(self, rank: int, least: int = 0) -> list[int]:
        count = self.number(min(least, rank), rank)
        chosen = self.random.permutation(rank)[:count].tolist()
        return [int(axis) - (rank if self.chance(0.4) else 0) for axis in chosen]

    def input(self, shape: Sequence[int], dtype: str = "float32", values: Any = None, is_open: bool = True) -> Input:
        return Input(self.dims(shape) if is_open else tuple(shape), dtype, values or ordinary(dtype))

    def weight(self, shape: Sequence[int], dtype: str = "float32", values: Any = None) -> Input:
        """An initializer, or an input of a known shape."""
        return Input(tuple(shape), dtype, values or ordinary(dtype), self.chance(0.6))

    def held(self, values: Any, dtype: str = "int64", share: float = 0.8) -> Input:
        """An array as it is, an initializer for the most part, else an input."""
        array = np.asarray(values, dtype)
        return Input(array.shape, dtype, lambda _r, _s, array=array: array, self.chance(share))

    def model(
        self, operator: str, inputs: Mapping[str, Input], opset: int, outputs: Any = ("y",), **more: Any
    ) -> Drawn:
        tolerance = more.pop("tolerance", 2e-5)
        positions, least = more.pop("positions", None), more.pop("least", 0)
        attributes = {name: value for name, value in more.items() if value is not None}
        return Drawn(operator, dict(inputs), list(outputs), opset, attributes, self.known, tolerance, positions, least)
