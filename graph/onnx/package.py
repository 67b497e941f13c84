"""The package onnx, which is asked for when a model of ONNX is read, and its dtypes by their numbers."""

from __future__ import annotations

from functools import cache
from importlib import import_module
from typing import Any

from ...base.errors import user_source
from ..errors import ModelPackageMissing, NotAModel

__all__ = ["dtype_named", "dtype_number", "onnx_package"]


@cache
def onnx_package() -> Any:
    """The package onnx. Raises ModelPackageMissing (TW0910)."""
    try:
        import_module("onnx.inliner")
        return import_module("onnx")
    except ImportError:
        raise ModelPackageMissing(
            "models of ONNX are read by the package onnx, which is not installed",
            called=user_source(),
            fix="pip install 'tilewright[models]'",
        ) from None


def dtype_named(kind: int) -> str:
    """The dtype of this number of ONNX's. Raises NotAModel (TW0911) for what values here cannot be."""
    onnx = onnx_package()
    names = {getattr(onnx.TensorProto, name): dtype for name, dtype in _DTYPES.items()}
    if kind not in names:
        known = kind in onnx.TensorProto.DataType.values()
        raise NotAModel(
            f"there is no dtype {onnx.TensorProto.DataType.Name(kind) if known else kind}",
            called=user_source(),
            reason="values are bools, integers of 8 to 64 bits, floats of 16 to 64, FLOAT8E4M3FN and FLOAT8E5M2",
            fix="convert the model",
        )
    return names[kind]


@cache
def dtype_number(name: str) -> int:
    """The number of ONNX's of this dtype."""
    return int(next(getattr(onnx_package().TensorProto, theirs) for theirs, ours in _DTYPES.items() if ours == name))


_DTYPES = {
    "BOOL": "bool",
    "INT8": "int8",
    "INT16": "int16",
    "INT32": "int32",
    "INT64": "int64",
    "UINT8": "uint8",
    "UINT16": "uint16",
    "UINT32": "uint32",
    "UINT64": "uint64",
    "FLOAT8E4M3FN": "float8_e4m3fn",
    "FLOAT8E5M2": "float8_e5m2",
    "FLOAT16": "float16",
    "BFLOAT16": "bfloat16",
    "FLOAT": "float32",
    "DOUBLE": "float64",
}
