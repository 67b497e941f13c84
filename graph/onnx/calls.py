"""ONNX's operators that are a call of one of ours, with attributes of their own names and defaults: a row each."""

from __future__ import annotations

from .context import Context, converts

__all__: list[str] = []

_EPSILON = {"epsilon": ("epsilon", 1e-5)}
_AXIS = {"axis": ("axis", 0)}
_PLACE = {**_AXIS, "keepdims": ("keepdims", True), "last": ("select_last_index", False)}

_CALLS: dict[str, tuple[str, dict[str, tuple[str, bool | int | float | str]]]] = {
    "ArgMax": ("argmax", {**_PLACE}),
    "ArgMin": ("argmin", {**_PLACE}),
    "Celu": ("celu", {"alpha": ("alpha", 1.0)}),
    "Concat": ("concat", {**_AXIS}),
    "DepthToSpace": ("depth_to_space", {"block": ("blocksize", 0), "mode": ("mode", "DCR")}),
    "Einsum": ("einsum", {"equation": ("equation", "")}),
    "Elu": ("elu", {"alpha": ("alpha", 1.0)}),
    "Gather": ("take", {**_AXIS}),
    "GatherElements": ("gather", {**_AXIS}),
    "GatherND": ("gather_nd", {"batch_dims": ("batch_dims", 0)}),
    "Gelu": ("gelu", {"approximate": ("approximate", "none")}),
    "HardSigmoid": ("hard_sigmoid", {"alpha": ("alpha", 0.2), "beta": ("beta", 0.5)}),
    "InstanceNormalization": ("instance_norm", {**_EPSILON}),
    "LeakyRelu": ("leaky_relu", {"alpha": ("alpha", 0.01)}),
    "MatMul": ("matmul", {}),
    "RMSNormalization": ("rms_norm", {"axis": ("axis", -1), **_EPSILON}),
    "ReverseSequence": ("reverse_sequence", {"time_axis": ("time_axis", 0), "batch_axis": ("batch_axis", 1)}),
    "Selu": ("selu", {"alpha": ("alpha", 1.67326319217681884765625), "gamma": ("gamma", 1.05070102214813232421875)}),
    "Shrink": ("shrink", {"lambd": ("lambd", 0.5), "bias": ("bias", 0.0)}),
    "ThresholdedRelu": ("thresholded_relu", {"alpha": ("alpha", 1.0)}),
}
"""By ONNX's name ours, and by our attributes theirs with their defaults, whose types are those of the values."""


@converts(*_CALLS)
def _convert_call(c: Context) -> str:
    name, attributes = _CALLS[c.proto.op_type]
    values = {
        # an axis may be counted from the end
        ours: c.axis(int(default)) if theirs == "axis" else type(default)(c.attribute(theirs, default))
        for ours, (theirs, default) in attributes.items()
    }
    return c.emit(name, *c.inputs, **values)
