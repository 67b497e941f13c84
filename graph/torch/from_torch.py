"""tw.graph.from_torch: modules, exported programs, and their archives, which are read without torch."""

from __future__ import annotations

import io
import os
import re
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, cast

from ...errors import user_source
from ..errors import NotAModel, UnsupportedModel
from ..graph import Graph
from ..open_graph import OpenGraph, graph_of
from .archive import Archive
from .composed import taken_apart, with_plain_results
from .flexible import without_flex_attention
from .frame import is_known
from .importer import Importer
from .rounded import without_rounding

__all__ = ["from_torch"]


def from_torch(
    model: Any,
    example_args: Sequence[Any] | None = None,
    example_kwargs: Mapping[str, Any] | None = None,
    dynamic_shapes: Any = None,
    state: Mapping[str, str] | None = None,
) -> Graph | OpenGraph:
    """A model of torch as a graph, its inputs in the order of torch's pytree.

    model: the path of a file .pt2 (or its bytes), which is read without torch; a torch.export.ExportedProgram, before its
    operators are taken apart; or a torch.nn.Module with example_args and example_kwargs, which is exported here, in the state that
    it is in (`module.eval()` first). dynamic_shapes: as torch.export.export takes it; what is dynamic is a symbol.
    What a module writes to its buffers or inputs comes as further outputs, after the user's own, under their names. state: inputs
    that are updated in place, each with the output that follows it: `{"cache": "cache"}` of an input, a buffer or a constant that
    the module writes; a buffer and a constant become inputs, after the others.
    What masks choose, and other sizes that depend on values, make an OpenGraph, which is closed when it is called.
    Raises NotAModel (TW0911), UnsupportedModel (TW0912), which lists everything that is not supported, BadExternalData (TW0913)
    for weights that are not there, or pickled, BadGraph (TW0901) for state that is none.
    """
    if isinstance(model, (str, os.PathLike, bytes)):
        path = cast("str | os.PathLike[str] | bytes", model)
        return _graph(Archive(path), "main" if isinstance(path, bytes) else Path(path).name.partition(".")[0], state)
    kinds = {f"{kind.__module__}.{kind.__qualname__}" for kind in type(model).__mro__}
    if "torch.nn.modules.module.Module" in kinds and example_args is not None:
        program: Any = sys.modules["torch"].export.export(
            model, tuple(example_args), dict(example_kwargs or {}), dynamic_shapes=dynamic_shapes
        )
        return _graph(_archive(program), type(model).__name__, state)
    if "torch.export.exported_program.ExportedProgram" in kinds:
        return _graph(_archive(model), "main", state)
    raise NotAModel(
        f"from_torch takes no {type(model).__name__}" + (" without example_args" if example_args is None else ""),
        called=user_source(),
        fix="a torch.nn.Module with example_args=(x,), a torch.export.ExportedProgram, or the path of a file .pt2",
    )


def _archive(program: Any) -> Archive:
    """An exported program, in the form in which torch keeps it."""
    program = without_rounding(taken_apart(without_flex_attention(program), is_known))
    try:
        try:
            content = _saved(program)
        except NotImplementedError:
            content = _saved(with_plain_results(program))
    except Exception as problem:
        if not isinstance(problem, NotImplementedError) and not type(problem).__module__.startswith("torch."):
            raise
        raise UnsupportedModel(
            "torch cannot write the program to a file, from which it is read",
            called=user_source(),
            reason=f"{type(problem).__name__}: {problem}"[:500],
            fix="leave out what torch.export.save(program, path) refuses",
        ) from problem
    return Archive(content)


def _saved(program: Any) -> bytes:
    content = io.BytesIO()
    sys.modules["torch"].export.save(program, content)
    return content.getvalue()


def _graph(archive: Archive, name: str, state: Mapping[str, str] | None) -> Graph | OpenGraph:
    return graph_of(Importer(archive, re.sub(r"[^A-Za-z0-9_.]", "_", name) or "main", state or {}))
