"""Passes of every target."""
