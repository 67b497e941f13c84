"""Models of ONNX as graphs."""

from __future__ import annotations

from .open_graph import OpenGraph, from_onnx

__all__ = ["OpenGraph", "from_onnx"]
