"""Lowering from a schedule to a loop nest."""
