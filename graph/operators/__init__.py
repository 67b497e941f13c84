"""The table of operators, a file for each family: what a node may be, what it computes, and what numpy says of it."""

from __future__ import annotations

from . import blocks, divisors, fusion, markers, spectra, vjp
from .row import OPERATORS, Attribute, Operator, declared, is_ours, result_types, row_of, updater, whole_attributes

__all__ = [
    "OPERATORS",
    "Attribute",
    "Operator",
    "declared",
    "is_ours",
    "result_types",
    "row_of",
    "updater",
    "whole_attributes",
]

FAMILIES = (
    blocks,
    divisors,
    fusion,
    markers,
    spectra,
    vjp,
)
"""Importing them fills the table."""
