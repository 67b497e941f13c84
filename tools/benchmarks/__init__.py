"""Timings against peers, interleaved in one run: `make bench`."""
