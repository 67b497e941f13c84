"""Models of ONNX as they lie in files: parsed, their functions inlined, their weights as arrays. Nothing a file says is trusted:
weights beside it are read only below the model's own folder, and only as many bytes as their types have."""

from __future__ import annotations

import math
import mmap
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from graphlib import CycleError, TopologicalSorter
from itertools import islice
from os import PathLike
from pathlib import Path
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from ...base.arguments import to_path
from ...base.errors import is_interruption, user_source
from ...base.untrusted_input import open_regular
from ..errors import BadExternalData, NotAModel
from ..types import Extent
from .context import CONTROL_NAMES, ROWS, operator_name
from .outline import build_outline
from .package import dtype_named, onnx_package

__all__ = [
    "walk_nodes",
    "read_array",
    "read_attributes",
    "input_type",
    "is_known",
    "narrow_constants",
    "parse_model",
    "widen_integers",
]

_MOST_DEPTH = 4
_MOST_EXPANDED = 1 << 15
"""Nodes that the calls of functions may become, beside as many as the file has."""
_MOST_INSIDE = 1 << 14
"""Nodes of graphs inside of others, which take a millisecond each."""
_NARROW = ("int2", "uint2", "int4", "uint4")
"""Integers of less than a byte, which are read as bytes where that is the same."""


def parse_model(model: Any) -> tuple[Any, Path | None]:
    """A model as onnx.ModelProto, and the folder in which its weights may lie. model: a path, bytes, or one already. Raises
    NotAModel (TW0911), ModelPackageMissing (TW0910)."""
    onnx = onnx_package()
    folder = None
    if isinstance(model, onnx.ModelProto):
        proto = onnx.ModelProto()
        proto.CopyFrom(model)
    elif isinstance(model, (bytes, bytearray, str, os.PathLike)):
        proto, folder = _read(onnx, cast("bytes | bytearray | str | PathLike[str]", model))
    else:
        raise NotAModel(
            f"from_onnx takes no {type(model).__name__}",
            called=user_source(),
            fix="a path, bytes, or an onnx.ModelProto",
        )
    if not proto.HasField("graph") or not proto.opset_import:
        raise NotAModel(
            "this is not an ONNX model",
            reason="it has no graph, or no opset version",
            called=user_source(),
            fix="write it again by onnx.save",
        )
    _check_names(proto.graph)
    _check_nesting(proto.graph)
    return _inline_functions(onnx, proto), folder


def _check_names(graph: Any) -> None:
    """protobuf gives bytes for what is not UTF-8."""
    names = [name for node in graph.node for name in (node.op_type, node.domain, node.name, *node.input, *node.output)]
    names += [entry.name for entry in (*graph.input, *graph.output, *graph.initializer)]
    names += [extent.dim_param for entry in graph.input for extent in entry.type.tensor_type.shape.dim]
    names += [one.name for node in graph.node for one in node.attribute]
    if not all(isinstance(name, str) for name in (graph.name, *names)):
        raise NotAModel(
            "this is not an ONNX model",
            reason="one of its names is not a text",
            called=user_source(),
            fix="write it again by onnx.save",
        )


def _check_nesting(graph: Any) -> None:
    """Refuse a model whose nodes hold far more others than a program of loops and branches has, before each is read."""
    inside = len(list(islice(walk_nodes(graph), len(graph.node) + _MOST_INSIDE + 1))) - len(graph.node)
    if inside > _MOST_INSIDE:
        raise NotAModel(
            "the model's graphs inside of nodes have too many nodes",
            reason=f"they have more than {_MOST_INSIDE}",
            called=user_source(),
            allowed=f"{_MOST_INSIDE} nodes inside of If, Loop and Scan",
            fix="fold conditions that are constant before the export",
        )


def _inline_functions(onnx: Any, proto: Any) -> Any:
    """The model without functions: its own, and operators without a row that ONNX defines by others."""
    try:
        if proto.functions:
            _check_expansion(proto)
            proto = onnx.inliner.inline_local_functions(proto)
        for _ in range(_MOST_DEPTH):  # a function may be made of others
            others = {node.op_type for node in walk_nodes(proto.graph) if not is_known(node) and _has_body(onnx, node)}
            defined = [("", name) for name in sorted(others)]
            if not defined:
                break
            proto = onnx.inliner.inline_selected_functions(proto, defined, inline_schema_functions=True)
    except NotAModel:
        raise
    except Exception as problem:
        if is_interruption(problem):
            raise
        raise NotAModel(
            "the model's functions cannot be put in the places of their calls",
            reason=str(problem)[:500],
            called=user_source(),
            fix="onnx.inliner.inline_local_functions(model) shows why",
        ) from problem
    return proto


def _check_expansion(proto: Any) -> None:
    """Refuse a model whose functions call each other in circles, or become far more nodes than the file has: where each calls the
    next one twice, a thousand bytes become any number of nodes. Raises NotAModel (TW0911)."""
    bodies = {(one.domain, one.name, one.overload): list(walk_nodes(one)) for one in proto.functions}
    calls = {
        key: [called for node in nodes if (called := (node.domain, node.op_type, node.overload)) in bodies]
        for key, nodes in bodies.items()
    }
    sizes: dict[Any, int] = {}
    try:
        for key in TopologicalSorter(calls).static_order():
            sizes[key] = min(len(bodies[key]) + sum(sizes[called] for called in calls[key]), 1 << 62)
    except CycleError:
        raise _too_much("its functions call each other in circles", "functions that end") from None
    own = list(walk_nodes(proto.graph))
    count = len(own) + sum(sizes.get((node.domain, node.op_type, node.overload), 0) for node in own)
    most = _MOST_EXPANDED + len(own) + sum(map(len, bodies.values()))
    if count > most:
        raise _too_much(f"its functions become {count} nodes where they are called", f"{most} nodes")


def _too_much(reason: str, allowed: str) -> NotAModel:
    return NotAModel(
        "the model's functions cannot be put in the places of their calls",
        reason=reason,
        called=user_source(),
        allowed=allowed,
        fix="export the model without functions",
    )


def walk_nodes(graph: Any) -> Iterator[Any]:
    """The nodes of a graph, and of those inside of them."""
    for node in graph.node:
        yield node
        for attribute in node.attribute:
            if attribute.HasField("g"):
                yield from walk_nodes(attribute.g)


def _has_body(onnx: Any, node: Any) -> bool:
    """Return whether ONNX defines an operator by others."""
    if node.domain or not onnx.defs.has(node.op_type):
        return False
    schema = onnx.defs.get_schema(node.op_type)
    return bool(schema.has_function or schema.has_context_dependent_function)


def is_known(node: Any) -> bool:
    """Return whether an operator has a row, or is one of control that the importer knows."""
    operator = operator_name(node)
    return operator in ROWS or operator in CONTROL_NAMES


def read_attributes(node: Any, folder: Path | None) -> dict[str, Any]:
    """A node's attributes: numbers, texts, lists of them, and arrays. Graphs are left out."""
    onnx = onnx_package()
    kinds = onnx.AttributeProto
    result: dict[str, Any] = {}
    for one in node.attribute:
        if one.type == kinds.TENSOR:
            result[one.name] = read_array(one.t, folder)
        elif one.type == kinds.STRING:
            result[one.name] = one.s.decode("utf-8", "replace")
        elif one.type in (kinds.INT, kinds.FLOAT):
            result[one.name] = one.i if one.type == kinds.INT else one.f
        elif one.type in (kinds.INTS, kinds.FLOATS):
            result[one.name] = list(one.ints if one.type == kinds.INTS else one.floats)
        elif one.type == kinds.STRINGS:
            result[one.name] = [text.decode("utf-8", "replace") for text in one.strings]
    return result


def input_type(entry: Any, given: Sequence[Extent] | None) -> tuple[list[Extent], str]:
    """The shape and the dtype of an input. given: what the user says of its shape. Raises NotAModel (TW0911)."""
    kind = entry.type.tensor_type
    if not entry.type.HasField("tensor_type") or not kind.HasField("shape") and given is None:
        raise NotAModel(
            f"the input {entry.name!r} has no shape, or is not a tensor"[:200],
            called=user_source(),
            fix=f'shapes={{"{entry.name}": (1, 3, "h", "w")}}',
        )
    dtype = dtype_named(kind.elem_type)
    if given is not None:
        return list(given), dtype
    shape: list[Extent] = []
    for at, extent in enumerate(kind.shape.dim):
        said = (
            extent.dim_param if re.search(r"[A-Za-z0-9]", extent.dim_param) else f"{entry.name}_{at}"
        )  # "?" is no name
        name = re.sub(r"[^A-Za-z0-9_]", "_", said)
        known = extent.HasField("dim_value") and extent.dim_value >= 0
        shape.append(extent.dim_value if known else name if name[:1].isalpha() else f"n_{name}")
    return shape, dtype


def _read(onnx: Any, model: bytes | bytearray | str | PathLike[str]) -> tuple[Any, Path | None]:
    folder = None
    content = bytes(model) if isinstance(model, (bytes, bytearray)) else b""
    if not isinstance(model, (bytes, bytearray)):
        try:
            path = Path(os.path.realpath(model))
            folder, content = path.parent, _read_outline(path)
        except (OSError, ValueError) as problem:
            raise NotAModel(
                f"{os.fspath(model)!r} cannot be read",
                reason=str(problem),
                called=user_source(),
                fix="the path of a file .onnx",
            ) from problem
    try:
        return onnx.load_model_from_string(content), folder
    except Exception as problem:
        if is_interruption(problem):
            raise
        raise NotAModel(
            "this is not an ONNX model, or not a whole one",
            reason=str(problem)[:500],
            called=user_source(),
            fix="write it again by onnx.save",
        ) from problem


def _read_outline(path: Path) -> bytes:
    """A file, without its large weights."""
    with open_regular(path) as file:
        try:
            with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as mapped, memoryview(mapped) as whole:
                return build_outline(whole, path.name) or bytes(whole)
        except (ValueError, OSError):  # it is empty, or nothing that can be mapped
            return file.read()


def read_array(tensor: Any, folder: Path | None) -> NDArray[Any]:
    """The elements of a TensorProto. Raises BadExternalData (TW0913), NotAModel (TW0911)."""
    onnx = onnx_package()
    kind = tensor.data_type
    if kind in (onnx.TensorProto.STRING, onnx.TensorProto.UNDEFINED) or any(extent < 0 for extent in tensor.dims):
        raise NotAModel(
            f"the tensor {tensor.name!r} cannot be read"[:200],
            reason="it holds texts, or has no type or shape",
            called=user_source(),
            fix="a tensor of numbers",
        )
    try:
        if tensor.data_location == onnx.TensorProto.EXTERNAL:
            return _read_external(tensor, folder, np.dtype(onnx.helper.tensor_dtype_to_np_dtype(kind)))
        return np.asarray(onnx.numpy_helper.to_array(tensor))
    except (ValueError, TypeError, KeyError, RuntimeError, MemoryError, OverflowError) as problem:
        if is_interruption(problem):
            raise
        raise NotAModel(
            f"the tensor {tensor.name!r} cannot be read"[:200],
            reason=str(problem)[:300],
            called=user_source(),
            fix="as many elements as its shape has",
        ) from problem


def widen_integers(array: NDArray[Any]) -> NDArray[Any]:
    """Integers of less than a byte as bytes."""
    name = array.dtype.name
    return np.asarray(array.astype(name.rstrip("24") + "8") if name in _NARROW else array)


def narrow_constants(graph: Any) -> dict[str, str]:
    """The initializers of a graph that have less than a byte, and what may be done with them as if they were bytes: by their names
    an operator that reads one and would not do the same, "" where there is none."""
    kinds = {number for name, number in onnx_package().TensorProto.DataType.items() if name.lower() in _NARROW}
    narrow = {tensor.name: "" for tensor in graph.initializer if tensor.data_type in kinds}
    for node in walk_nodes(graph) if narrow else ():
        for at, name in enumerate(node.input):
            if name in narrow and not (node.op_type == "DequantizeLinear" or node.op_type == "Cast" and at == 0):
                narrow[name] = operator_name(node)
    return narrow


def _read_external(tensor: Any, folder: Path | None, dtype: np.dtype[Any]) -> NDArray[Any]:
    """Elements that lie in a file below the model's folder."""
    said: Mapping[str, str] = {entry.key: entry.value for entry in tensor.external_data}
    size = math.prod(tensor.dims) * dtype.itemsize
    location = said.get("location", "")
    if folder is None or not location:
        raise _bad_external_data(tensor, "a model in bytes has no folder, or the place is not said")
    path = Path(os.path.realpath(folder / location)) if to_path(location) else folder
    if not path.is_relative_to(folder) or not os.path.isfile(path):
        raise _bad_external_data(tensor, f"{location[:100]!r} is not a file below the model's folder")
    digits = (said.get("offset", "0"), said.get("length", str(size)))
    if not all(text.isdecimal() and len(text) < 19 for text in digits):
        raise _bad_external_data(tensor, f"offset and length are {digits}"[:100])
    offset, length = map(int, digits)
    if length != size or offset + size > path.stat().st_size or tensor.data_type > 16:
        raise _bad_external_data(tensor, f"{size} bytes at {offset} are not in the file, or not what it says")
    with open_regular(path) as file:
        file.seek(offset)
        return np.frombuffer(file.read(size), dtype).reshape(tuple(tensor.dims))


def _bad_external_data(tensor: Any, reason: str) -> BadExternalData:
    return BadExternalData(
        f"the weights {tensor.name!r} are not there"[:200],
        reason=reason,
        called=user_source(),
        fix="keep the file of weights beside the model's, as onnx.save wrote both",
    )
