"""Rows of machines, a file for each architecture."""
