"""The table of operators, a file for each family: what a node may be, what it computes, and what numpy says of it."""

from __future__ import annotations

from . import (
    blocks,
    columns,
    fused,
    markers,
    movement,
    norms,
    places,
    pools,
    products,
    quantized,
    resize,
    sampling,
    spectra,
    updates,
    vjp,
    windows,
    winograd,
)
from .row import OPERATORS, Attribute, Operator, declared, result_types, row_of, whole_attributes
from .updates import IN_PLACE

__all__ = ["IN_PLACE", "OPERATORS", "Attribute", "Operator", "declared", "result_types", "row_of", "whole_attributes"]

FAMILIES = (
    blocks,
    columns,
    fused,
    markers,
    movement,
    norms,
    places,
    pools,
    products,
    quantized,
    resize,
    sampling,
    spectra,
    updates,
    vjp,
    windows,
    winograd,
)
"""Importing them fills the table."""
