"""Loops recognised as a tensor intrinsic, and replaced by it."""
