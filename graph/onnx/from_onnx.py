"""tw.graph.from_onnx."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ...base.errors import user_source
from ..errors import NotAModel
from ..graph import Graph
from ..open_graph import OpenGraph, import_graph
from ..types import Extent
from .importer import Importer
from .reader import parse_model

__all__ = ["from_onnx"]


def from_onnx(
    model: Any,
    shapes: Mapping[str, Sequence[Extent]] | None = None,
    state: Mapping[str, str] | None = None,
) -> Graph | OpenGraph:
    """A model of ONNX as a graph.

    model: a path, bytes, or an onnx.ModelProto, of the versions 7 to the newest of ONNX's operators. shapes: by an input's name its
    shape, numbers and names of symbols: `{"image": (1, 3, "h", "w")}`; without it, that which the model says. state: inputs that
    are updated in place, each with the output that follows it: `{"past": "present"}`.
    Axes, shapes and the like that come as inputs and are not constants make an OpenGraph, which is closed when their values are
    there.
    Raises NotAModel (TW0911), InvalidNode (TW0916), UnsupportedModel (TW0912), which lists everything that is not
    supported, BadExternalData (TW0913), ModelPackageMissing (TW0910), BadGraph (TW0901) for shapes and state that are none.
    """
    proto, folder = parse_model(model)
    given = dict(shapes or {})
    unknown = set(given) - {entry.name for entry in proto.graph.input}
    if unknown:
        raise NotAModel(
            f"the model has no input {min(unknown)!r}",
            called=user_source(),
            allowed=", ".join(entry.name for entry in proto.graph.input),
            fix="shapes= of inputs",
        )
    return import_graph(Importer(proto, folder, given, state or {}))
