"""Graphs whose shapes depend on values: of inputs, and of what is computed of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NoReturn, Protocol, TypeVar, cast

import numpy as np
from numpy.typing import NDArray

from ..base import dataclass, user_source
from ..codegen.result import BuildOptions
from ..runtime.timing import TimingResult
from .comparison import Comparison
from .constant_inputs import bind_inputs, convert_inputs
from .errors import BadGraphInput, ModelNotExportable
from .graph import Graph
from .model import Model
from .node import Parts
from .profile import Profile
from .types import TensorType, array_dtype
from .variants import Buckets

__all__ = ["Importer", "Measures", "OpenGraph", "OpenModel", "import_graph"]

Key = tuple[tuple[str, bytes], ...]
"""What a graph depends on: the values of late inputs, and what was measured, by name."""
Run = Callable[[Key, Graph, Mapping[str, NDArray[Any]]], Sequence[NDArray[Any]]]
"""Computes a graph on inputs by name."""
Made = TypeVar("Made")

_MOST_KEPT = 16
"""So many values of late inputs have their graph, and their model, at once."""


@dataclass(frozen=True)
class Measures:
    """Values that must be computed before a model can be read: a graph whose outputs are called as what is to be known then."""

    graph: Parts


class Importer(Protocol):
    """A reader of a model, called again as more becomes known of it."""

    @property
    def inputs(self) -> Mapping[str, TensorType]:
        """Its inputs, in the order of a call."""
        ...

    @property
    def late(self) -> Mapping[str, None]:
        """The inputs of which values are needed, in the order in which that was seen."""
        ...

    def read(self, values: Mapping[str, NDArray[Any]]) -> Parts | Measures | None:
        """The graph, where late inputs, and what was measured, have these values; what has to be measured first; None where further
        inputs are late, which are in `late` from then on."""
        ...


@dataclass
class _Known:
    """An importer whose model has these values of some inputs, which it does not take any more."""

    importer: Importer
    values: Mapping[str, NDArray[Any]]

    @property
    def inputs(self) -> dict[str, TensorType]:
        return {name: kind for name, kind in self.importer.inputs.items() if name not in self.values}

    @property
    def late(self) -> dict[str, None]:
        return {name: None for name in self.importer.late if name not in self.values}

    def read(self, values: Mapping[str, NDArray[Any]]) -> Parts | Measures | None:
        made = self.importer.read({**self.values, **values})
        return made and (self._bind(made) if isinstance(made, Parts) else Measures(self._bind(made.graph)))

    def _bind(self, g: Parts) -> Parts:
        return bind_inputs(g, {name: value for name, value in self.values.items() if name in g.inputs})


def import_graph(importer: Importer) -> Graph | OpenGraph:
    """Import the graph, where no values are known yet. Raises the importer's errors."""
    made = importer.read({})
    return Graph.of(made) if isinstance(made, Parts) else OpenGraph(importer)


class OpenGraph:
    """A model whose graph depends on the values of some inputs: shapes, axes, counts. It is called and built as a graph is, and
    closed for each of these values when it is first met.

    inputs: (shape, dtype) by name. late: the names of the inputs whose values it depends on, as far as is known.
    """

    def __init__(self, importer: Importer) -> None:
        self._importer = importer
        self.inputs: dict[str, TensorType] = dict(importer.inputs)
        self._closed: dict[Key, Graph] = {}
        self._measures: dict[Key, Graph] = {}

    @property
    def late(self) -> tuple[str, ...]:
        """The inputs whose values are needed, as far as is known."""
        return tuple(self._importer.late)

    def close(self, *arrays: Any, **named: Any) -> Graph:
        """The graph for the values of the late inputs among these, without them. Raises BadGraphInput (TW0906), and what from_onnx
        raises."""
        return self.close_for_inputs(self.bound(arrays, named), _run_reference)[1]

    def with_values(self, values: Mapping[str, Any]) -> Graph | OpenGraph:
        """The model that has these values of inputs, by name, and does not take them any more: a Graph, where no others are needed.
        Raises BadGraphInput (TW0906), and what from_onnx raises."""
        return import_graph(_Known(self._importer, convert_inputs(self.inputs, values)))

    def run(self, *arrays: Any, **named: Any) -> list[NDArray[Any]]:
        """The outputs for these inputs, node by node by the reference. Raises as closed does."""
        given = self.bound(arrays, named)
        g = self.close_for_inputs(given, _run_reference)[1]
        return g.run(**{name: given[name] for name in g.inputs})

    def built(
        self, target: Any, tuned: Any, options: BuildOptions, exact: bool, buckets: Buckets | None = None
    ) -> OpenModel:
        """Build the graph, as tw.build does.

        Parameters
        ----------
        target : str or Target
            As of tw.build.
        tuned : str, PathLike, Database or None
            As of tw.build.
        options : BuildOptions
            bounds_check, fast_math and fp_contract, as of tw.build.
        exact : bool
            As of tw.build.
        buckets : sequence of dict, optional
            As of tw.build, of each graph.

        Raises
        ------
        TargetTakesNoGraph (TW0908)
            No model can be built for the target, or with an option.
        """
        return OpenModel(self, (target, tuned, options, exact, buckets))

    def __str__(self) -> str:
        inputs = "".join(f"  input {name}: {kind}\n" for name, kind in self.inputs.items())
        return f"open graph {{\n{inputs}  late {', '.join(self.late) or 'unknown yet'}\n}}"

    def bound(self, arrays: Sequence[Any], named: Mapping[str, Any]) -> dict[str, NDArray[Any]]:
        """The inputs by name. Raises BadGraphInput (TW0906)."""
        given = {**dict(zip(self.inputs, arrays, strict=False)), **named}
        if len(arrays) + len(named) != len(given) or set(given) != set(self.inputs):
            raise BadGraphInput(
                "the model cannot be called like this",
                called=user_source(),
                reason=f"it takes each of {', '.join(self.inputs)} once",
                fix="its inputs in order, or by name",
            )
        return {
            name: np.asarray(given[name], None if hasattr(given[name], "dtype") else array_dtype(kind.dtype))
            for name, kind in self.inputs.items()
        }

    def export(self, *_: Any, **__: Any) -> NoReturn:
        """There is no library of a graph that depends on values. Raises ModelNotExportable (TW0915), which says on which."""
        raise _not_exportable(self)

    def close_for_inputs(self, given: Mapping[str, NDArray[Any]], run: Run) -> tuple[Key, Graph]:
        """The graph for these inputs, and what of their values it depends on. run: computes what has to be measured."""
        for name in self.inputs:
            kind = self.inputs[name]
            if str(given[name].dtype) != kind.dtype or given[name].ndim != len(kind.shape):
                raise BadGraphInput(
                    f"the model's input {name} is {kind}",
                    called=user_source(),
                    reason=f"got {given[name].dtype} of shape {given[name].shape}",
                    fix="an array of this type",
                )
        measured: dict[str, NDArray[Any]] = {}
        while True:
            known = {**{name: given[name] for name in self._importer.late}, **measured}
            key = tuple((name, array.tobytes() + str(array.shape).encode()) for name, array in known.items())
            if key in self._closed:
                return key, self._closed[key]
            if key not in self._measures:
                made = self._importer.read(known)
                if isinstance(made, Parts):
                    return key, _remember(self._closed, key, Graph.of(made))
                if made is None:
                    continue
                _remember(self._measures, key, Graph.of(made.graph))
            g = self._measures[key]
            measured |= zip(g.results, run(key, g, {name: given[name] for name in g.inputs}), strict=True)


def _run_reference(_: Key, g: Graph, given: Mapping[str, NDArray[Any]]) -> Sequence[NDArray[Any]]:
    return g.run(**given)


def _remember(kept: dict[Key, Made], key: Key, made: Made) -> Made:
    """Return the imported graph, kept for its key beside the last others."""
    while len(kept) >= _MOST_KEPT:
        del kept[next(iter(kept))]
    kept[key] = made
    return made


def _not_exportable(g: OpenGraph) -> ModelNotExportable:
    return ModelNotExportable(
        "this model cannot be exported as it is",
        called=user_source(),
        reason=f"its graph depends on values: of {', '.join(g.late)}"
        if g.late
        else "its graph depends on values that it computes",
        fix="export the graph for some of them: g.closed(*arrays).export(path)",
    )


class OpenModel:
    """An OpenGraph as machine code: a Model for each of the values that it depends on, built when they are first met."""

    def __init__(self, g: OpenGraph, how: tuple[Any, ...]) -> None:
        self._graph, self._how = g, how
        self._models: dict[Key, Model] = {}
        self._measures: dict[Key, Model] = {}

    @property
    def inputs(self) -> dict[str, TensorType]:
        """The shape and the dtype of each input by its name, in the order of a call."""
        return dict(self._graph.inputs)

    def __call__(self, *arrays: Any, out: Any = None, **named: Any) -> Any:
        """The outputs, as Model gives them. Raises BadGraphInput (TW0906), and what from_onnx and tw.build raise."""
        m, given = self._select_model(arrays, named)
        return m(**given, out=out)

    def time(
        self, *arrays: Any, number: int = 1, repeat: int = 9, min_repeat_ms: float = 10.0, **named: Any
    ) -> TimingResult:
        """Seconds a call, as Model.time measures them. Raises what a call raises."""
        m, given = self._select_model(arrays, named)
        return m.time(number=number, repeat=repeat, min_repeat_ms=min_repeat_ms, **given)

    def verify(self, *arrays: Any, **named: Any) -> Comparison:
        """Verify as Model.verify does. Raises what a call raises."""
        m, given = self._select_model(arrays, named)
        return m.verify(**given)

    def profile(self, *arrays: Any, **named: Any) -> Profile:
        """Profile as Model.profile does. Raises what a call raises."""
        m, given = self._select_model(arrays, named)
        return m.profile(**given)

    def _select_model(self, arrays: Sequence[Any], named: Mapping[str, Any]) -> tuple[Model, dict[str, Any]]:
        """The model for these inputs, and what it takes of them."""
        given = self._graph.bound(arrays, named)
        m = self.build_model(given)
        return m, {name: given[name] for name in m.inputs}

    def build_model(self, given: Mapping[str, NDArray[Any]]) -> Model:
        """The model for the values of these inputs."""
        key, g = self._graph.close_for_inputs(given, self._measure_values)
        return self._models.get(key) or _remember(self._models, key, g.built(*self._how))

    def export(self, *_: Any, **__: Any) -> NoReturn:
        """There is no library of a model that depends on values. Raises ModelNotExportable (TW0915), which says on which."""
        raise _not_exportable(self._graph)

    def _measure_values(self, key: Key, g: Graph, given: Mapping[str, NDArray[Any]]) -> Sequence[NDArray[Any]]:
        """Measure the values that a model needs to know before it runs."""
        results = (self._measures.get(key) or _remember(self._measures, key, g.built(*self._how[:-1])))(**given)
        return cast("list[NDArray[Any]]", results if isinstance(results, list) else [results])
