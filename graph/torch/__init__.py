"""Programs of torch.export as graphs."""

from __future__ import annotations

from .backend import torch_report
from .from_torch import from_torch

__all__ = ["from_torch", "torch_report"]
