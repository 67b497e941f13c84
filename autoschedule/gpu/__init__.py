"""Schedules for NVIDIA GPUs."""

from __future__ import annotations
