"""Operators of the domain com.microsoft, which onnxruntime's optimiser and exporters for it write, as those of the table."""

from . import attention, fused_layers, quantization

__all__ = ["FAMILIES"]

FAMILIES = (attention, fused_layers, quantization)
"""Importing them fills the table of rows."""
