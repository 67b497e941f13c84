"""tw.graph.from_onnx."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from os import PathLike
from typing import Protocol

from ...base.errors import user_source
from ..caches import State
from ..errors import NotAModel
from ..graph import Graph
from ..open_graph import OpenGraph, import_graph
from ..types import Extent
from .importer import Importer
from .reader import parse_model

__all__ = ["from_onnx"]


class _ModelProto(Protocol):
    """onnx.ModelProto for type checkers, which need no onnx installed."""

    def SerializeToString(self) -> bytes: ...


def from_onnx(
    model: str | PathLike[str] | bytes | _ModelProto,
    shapes: Mapping[str, Sequence[Extent]] | None = None,
    state: State = None,
) -> Graph | OpenGraph:
    """Read a model of ONNX as a graph.

    Parameters
    ----------
    model : str, PathLike, bytes or onnx.ModelProto
        Of the versions 7 to the newest of ONNX's operators.
    shapes : dict of str to sequence of int or str, optional
        By an input's name its shape, numbers and names of symbols: `{"image": (1, 3, "h", "w")}`; without it, that which the model
        says.
    state : dict of str to str, or True, optional
        Inputs that are updated in place, each with the output that follows it: `{"past": "present"}`; True for those of which an
        output is an update.

    Returns
    -------
    Graph or OpenGraph
        An OpenGraph where axes, shapes and the like come as inputs and are not constants; it is closed when their values are there.

    Raises
    ------
    NotAModel (TW0911)
        The file or the bytes are no model.
    InvalidNode (TW0916)
        A node breaks ONNX's own rules.
    UnsupportedModel (TW0912)
        Something is not supported; everything that is not is listed.
    BadExternalData (TW0913)
        Weights in a file beside it are not where they may be, or not whole.
    ModelPackageMissing (TW0910)
        The package onnx is not installed.
    BadGraph (TW0901)
        `shapes` or `state` do not fit the inputs.
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
    return import_graph(Importer(proto, folder, given, state))
