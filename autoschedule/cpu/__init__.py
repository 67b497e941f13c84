"""Schedules for CPUs: a rule for each family of operators, over a table of machines."""

from __future__ import annotations
