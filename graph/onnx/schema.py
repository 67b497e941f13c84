"""ONNX's schemas, checked for each node: numbers of inputs and outputs, attributes with kinds and values, ranks and dtypes.

Numbers and kinds are those of the package onnx, and so are ranks and dtypes, which its shape inference knows. What it lets pass, the
values of attributes above all, is in tables here.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from ...base.errors import FAULTS, user_source
from ..errors import InvalidNode
from ..types import Extent, TensorType
from .package import dtype_number, onnx_package

__all__ = ["check_node"]

_MOST_SHOWN = 200
_MOST_DATA = 256
"""Elements of a constant up to which shape inference is shown it."""

_MODES: Mapping[str, tuple[str, ...]] = {
    "auto_pad": ("NOTSET", "SAME_UPPER", "SAME_LOWER", "VALID"),
    "coordinate_transformation_mode": (
        "half_pixel",
        "half_pixel_symmetric",
        "pytorch_half_pixel",
        "align_corners",
        "asymmetric",
        "tf_half_pixel_for_nn",
        "tf_crop_and_resize",
        "output_half_pixel",
    ),
    "keep_aspect_ratio_policy": ("stretch", "not_larger", "not_smaller"),
    "nearest_mode": ("round_prefer_floor", "round_prefer_ceil", "floor", "ceil"),
    "padding_mode": ("zeros", "border", "reflection"),
    "reduction": ("none", "add", "mul", "max", "min", "mean", "sum"),
    "approximate": ("none", "tanh"),
    "BitShift.direction": ("LEFT", "RIGHT"),
    "RNN.direction": ("forward", "reverse", "bidirectional"),
    "GRU.direction": ("forward", "reverse", "bidirectional"),
    "LSTM.direction": ("forward", "reverse", "bidirectional"),
    "DepthToSpace.mode": ("DCR", "CRD"),
    "GridSample.mode": ("linear", "nearest", "cubic", "bilinear", "bicubic"),
    "Pad.mode": ("constant", "reflect", "edge", "wrap"),
    "Resize.mode": ("nearest", "linear", "cubic"),
    "RoiAlign.mode": ("avg", "max"),
    "TensorScatter.mode": ("linear", "circular"),
    "Upsample.mode": ("nearest", "linear", "bilinear"),
}
"""The texts that an attribute may be, by its name, or that of its operator before it."""

_NUMBERS: Mapping[str, tuple[int, ...]] = {"LpNormalization.p": (1, 2)}
"""The integers that an attribute may be, where they are neither 0 and 1 nor all from one on."""

_FLAGS = frozenset(
    "align_corners allowzero antialias ceil_mode center_point_box count_include_pad detect_negative detect_positive "
    "exclude_outside exclusive fmod input_forget inverse is_causal keepdims largest layout linear_before_reset new_axis "
    "noop_with_empty_axes onesided reverse select_last_index sorted storage_order training_mode transA transB upper".split()
)
"""Integers that are 0 or 1."""

_POSITIVE = frozenset(
    "Conv.group ConvTranspose.group ConvInteger.group QLinearConv.group blocksize hidden_size kernel_shape strides dilations "
    "num_groups num_outputs num_scan_inputs output_height output_width size LpPool.p GlobalLpPool.p block_shape".split()
)
_FROM_ZERO = frozenset("pads output_padding sampling_ratio batch_dims block_size".split())
"""Integers, or lists of them, from 1 on and from 0 on. Pad's own pads may be less."""

_WINDOWS = frozenset(
    "Conv ConvTranspose ConvInteger QLinearConv MaxPool AveragePool LpPool MaxUnpool DeformConv".split()
)
_FULL_RANK: Mapping[str, tuple[int, ...]] = {
    "GlobalAveragePool": (3, 64),
    "GlobalMaxPool": (3, 64),
    "GlobalLpPool": (3, 64),
    "LRN": (3, 64),
    "InstanceNormalization": (3, 64),
    "BatchNormalization": (2, 64),
    "DepthToSpace": (4, 4),
    "SpaceToDepth": (4, 4),
    "Det": (2, 64),
    "Trilu": (2, 64),
}
"""The least and the greatest rank of an operator's first input, where shape inference does not ask."""

_INDICES: Mapping[str, int] = {"Gather": 0, "GatherElements": 0, "Scatter": 0, "ScatterElements": 0}
"""Operators that look up places along an axis, input 1, and that axis where the node does not say."""

_NOT_INFERRED = ("OptionalGetElement", "OptionalHasElement", "Range")
"""Operators of which shape inference refuses what ONNX's own functions and runtimes use: tensors as optionals that are there, and
vectors of one element as scalars."""
_MAY_BE_ABSENT: Mapping[str, str] = {"Resize": "roi"}
"""An input that later versions made optional, and runtimes let models of earlier ones leave out."""

Shapes = Sequence[TensorType | None]


def _node_schema(node: Any, versions: Mapping[str, int]) -> Any:
    """The schema of a node's operator in the model's version of its domain; None where ONNX has none."""
    defs, domain = onnx_package().defs, "" if node.domain == "ai.onnx" else node.domain
    version = versions.get(domain, versions.get("ai.onnx", 0) if not domain else 0)
    try:
        return defs.get_schema(node.op_type, version, domain) if version > 0 else None
    except defs.SchemaError:
        return None


def check_node(node: Any, versions: Mapping[str, int], types: Shapes, data: Sequence[NDArray[Any] | None]) -> None:
    """Refuse a node that its operator's schema does not allow. versions: of the model's operators, by
    their domain. types: of its inputs, None for one that is absent or no tensor. data: what is known of them.
    Raises InvalidNode (TW0916), which names the node, its attribute and what is allowed."""
    schema = _node_schema(node, versions)
    if schema is None:
        return
    _check_counts(node, schema)
    attributes = _check_kinds(node, schema)
    for name, value in attributes.items():
        _check_value(node, name, value)
    _check_windows(node, attributes, types)
    _check_ranks(node, types)
    _check_split(node, attributes, types)
    _check_indices(node, attributes, types, data)
    if node.op_type not in _NOT_INFERRED and all(
        one.type != onnx_package().AttributeProto.GRAPH for one in node.attribute
    ):
        _infer(node, schema, versions, types, data)


def _invalid(node: Any, reason: str, allowed: str) -> InvalidNode:
    name = node.name or (node.output[0] if node.output else "")
    return InvalidNode(
        f"the node {name!r}, {node.op_type}, is not as ONNX defines its operator"[:_MOST_SHOWN],
        reason=reason[:_MOST_SHOWN],
        called=user_source(),
        allowed=allowed[:_MOST_SHOWN],
        fix="onnx.checker.check_model(model, full_check=True) shows what is wrong",
    )


def _check_counts(node: Any, schema: Any) -> None:
    for what, given, formal, least, most in (
        ("input", node.input, schema.inputs, schema.min_input, schema.max_input),
        ("output", node.output, schema.outputs, schema.min_output, schema.max_output),
    ):
        if not least <= len(given) <= most:
            allowed = str(least) if least == most else f"{least} or more" if most > 1 << 20 else f"{least} to {most}"
            raise _invalid(node, f"it has {len(given)} {what}s", f"{allowed} {what}s")
        for at, (name, one) in enumerate(zip(given, formal, strict=False)):
            needed = one.option.name == "Single" and _MAY_BE_ABSENT.get(node.op_type) != one.name
            if not name and needed and what == "input":
                raise _invalid(node, f"its input {at}, {one.name}, is absent", "an input that is not an optional one")


def _check_kinds(node: Any, schema: Any) -> dict[str, Any]:
    """The values of a node's attributes; those that are graphs or tensors are None."""
    onnx = onnx_package()
    given: dict[str, Any] = {}
    for one in node.attribute:
        formal = schema.attributes.get(one.name)
        if one.name in given:
            raise _invalid(node, f"it has the attribute {one.name!r} twice", "each attribute once")
        if formal is None:
            if not one.name.startswith("__"):
                raise _invalid(
                    node, f"it has an attribute {one.name!r}", ", ".join(sorted(schema.attributes)) or "no attributes"
                )
            continue
        if int(formal.type.value) != one.type:
            kinds = onnx.AttributeProto.AttributeType
            shown = kinds.Name(one.type) if one.type in kinds.values() else str(one.type)
            raise _invalid(node, f"its attribute {one.name!r} is of the kind {shown}", f"{formal.type.name}")
        given[one.name] = _attribute_value(onnx, one)
    for name, formal in schema.attributes.items():
        if formal.required and name not in given:
            raise _invalid(node, f"it has no attribute {name!r}", f"{name} of the kind {formal.type.name}")
    return given


def _attribute_value(onnx: Any, one: Any) -> Any:
    kinds = onnx.AttributeProto
    values: Mapping[int, Callable[[], Any]] = {
        kinds.INT: lambda: one.i,
        kinds.FLOAT: lambda: one.f,
        kinds.STRING: lambda: one.s.decode("utf-8", "replace"),
        kinds.INTS: lambda: list(one.ints),
        kinds.FLOATS: lambda: list(one.floats),
    }
    return values[one.type]() if one.type in values else None


def _check_value(node: Any, name: str, value: Any) -> None:
    whole = f"{node.op_type}.{name}"
    modes = _MODES.get(whole, _MODES.get(name))
    if isinstance(value, str) and modes is not None and value not in modes:
        raise _invalid(node, f"its attribute {name!r} is {value!r}", ", ".join(modes))
    if whole in _NUMBERS and value not in _NUMBERS[whole]:
        raise _invalid(node, f"its attribute {name!r} is {value}", " or ".join(map(str, _NUMBERS[whole])))
    numbers = cast("list[Any]", value) if isinstance(value, list) else [value]
    if name in _FLAGS and value not in (0, 1):
        raise _invalid(node, f"its attribute {name!r} is {value}", "0 or 1")
    least = 1 if {whole, name} & _POSITIVE else 0 if name in _FROM_ZERO and node.op_type != "Pad" else None
    if least is not None and any(isinstance(one, int) and one < least for one in numbers):
        raise _invalid(node, f"its attribute {name!r} is {value}", f"{least} or more")
    if any(isinstance(one, float) and math.isnan(one) for one in numbers) and name in ("epsilon", "scales"):
        raise _invalid(node, f"its attribute {name!r} is {value}", "a number")
    if name == "perm" and sorted(numbers) != list(range(len(numbers))):
        raise _invalid(node, f"its attribute 'perm' is {value}", "each axis once")


def _check_windows(node: Any, attributes: Mapping[str, Any], types: Shapes) -> None:
    """One number for each spatial dimension, two of padding, and no window that lies in the padding alone."""
    if node.op_type not in _WINDOWS or not types or types[0] is None:
        return
    rank = len(types[0].shape) - 2
    for name, count in (("kernel_shape", 1), ("strides", 1), ("dilations", 1), ("output_padding", 1), ("pads", 2)):
        given = attributes.get(name)
        if given and len(given) != count * rank:
            raise _invalid(node, f"its attribute {name!r} is {given}, its input {types[0]}", f"{count * rank} numbers")
    if node.op_type in ("MaxPool", "AveragePool", "LpPool") and attributes.get("pads"):
        far = attributes.get("dilations") or [1] * rank
        reach = [(taps - 1) * each + 1 for taps, each in zip(attributes["kernel_shape"], far, strict=True)] * 2
        if any(pad >= each for pad, each in zip(attributes["pads"], reach, strict=True)):
            raise _invalid(
                node, f"its attribute 'pads' is {attributes['pads']}", f"less than its windows reach, {reach}"
            )
    if node.op_type == "ConvTranspose" and attributes.get("output_padding"):
        most = [
            max(pair)
            for pair in zip(
                attributes.get("strides") or [1] * rank, attributes.get("dilations") or [1] * rank, strict=True
            )
        ]
        if any(pad >= each for pad, each in zip(attributes["output_padding"], most, strict=True)):
            raise _invalid(
                node,
                f"its attribute 'output_padding' is {attributes['output_padding']}",
                f"less than the strides or the dilations, {most}",
            )


def _check_ranks(node: Any, types: Shapes) -> None:
    if node.domain in ("", "ai.onnx") and node.op_type in _FULL_RANK and types and types[0] is not None:
        least, most = _FULL_RANK[node.op_type]
        if not least <= len(types[0].shape) <= most:
            raise _invalid(
                node,
                f"its first input is {types[0]}",
                f"{least} dimensions" + ("" if least == most else " or more"),
            )


def _check_split(node: Any, attributes: Mapping[str, Any], types: Shapes) -> None:
    if node.op_type != "Split":
        return
    said = attributes.get("num_outputs")
    sizes: list[int] | None = attributes.get("split")
    if said is not None and said != len(node.output):
        raise _invalid(node, f"its attribute 'num_outputs' is {said}, and it has {len(node.output)}", "as many outputs")
    if said is not None and len(node.input) > 1 and node.input[1]:
        raise _invalid(node, "it has an input 'split' and an attribute 'num_outputs'", "one of them")
    if sizes is not None and len(sizes) != len(node.output):
        raise _invalid(node, f"its attribute 'split' is {sizes}, and it has {len(node.output)} outputs", "one for each")
    axis = int(attributes.get("axis", 0))
    kind = types[0] if types else None
    if sizes is not None and kind is not None and -len(kind.shape) <= axis < len(kind.shape):
        extent: Extent = kind.shape[axis]
        if isinstance(extent, int) and (sum(sizes) != extent or min(sizes, default=0) < 0):
            raise _invalid(node, f"its attribute 'split' is {sizes}", f"{extent} in all")


def _check_indices(
    node: Any, attributes: Mapping[str, Any], types: Shapes, data: Sequence[NDArray[Any] | None]
) -> None:
    """Places that are known lie in what they are places of."""
    if node.op_type not in _INDICES or node.domain not in ("", "ai.onnx") or types[0] is None or data[1] is None:
        return
    axis, places = int(attributes.get("axis", _INDICES[node.op_type])), data[1]
    if not -len(types[0].shape) <= axis < len(types[0].shape):
        raise _invalid(node, f"its attribute 'axis' is {axis}", f"an axis of {types[0]}")
    extent: Extent = types[0].shape[axis]
    if isinstance(extent, int) and places.size and not -extent <= int(places.min()) <= int(places.max()) < extent:
        far = int(places.max()) if int(places.max()) >= extent else int(places.min())
        raise _invalid(node, f"it takes the place {far} of an axis of {extent}", f"{-extent} to {extent - 1}")


def _infer(
    node: Any, schema: Any, versions: Mapping[str, int], types: Shapes, data: Sequence[NDArray[Any] | None]
) -> None:
    """Ask ONNX's shape inference, which knows ranks, and what fits what."""
    onnx = onnx_package()
    if any(kind is None and name for kind, name in zip(types, node.input, strict=True)):
        return
    if any(not name and one.option.name == "Single" for name, one in zip(node.input, schema.inputs, strict=False)):
        return
    said = {
        name: onnx.helper.make_tensor_type_proto(
            dtype_number(kind.dtype), [extent if isinstance(extent, int) else None for extent in kind.shape]
        )
        for name, kind in zip(node.input, types, strict=True)
        if kind is not None
    }
    known = {
        name: onnx.numpy_helper.from_array(np.asarray(array))
        for name, array in zip(node.input, data, strict=True)
        if name and array is not None and array.size <= _MOST_DATA and array.dtype.kind in "iufb"
    }
    try:
        onnx.shape_inference.infer_node_outputs(
            schema, node, said, known, opset_imports=[onnx.helper.make_opsetid(*one) for one in versions.items()]
        )
    except (onnx.shape_inference.InferenceError, onnx.checker.ValidationError, *FAULTS) as problem:
        text = str(problem).replace("[ShapeInferenceError]", "").strip().rstrip(".") + "."
        shown = ", ".join(map(str, filter(None, types)))
        raise _invalid(node, f"{text} Its inputs are {shown}", "inputs and attributes that fit each other") from None
