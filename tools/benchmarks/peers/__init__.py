"""Builders of the libraries that we are timed against: see benchmarks.cases for what a builder is."""
