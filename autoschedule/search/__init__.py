"""Spaces of schedules that the tuner searches."""
