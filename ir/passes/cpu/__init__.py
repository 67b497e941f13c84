"""Passes of CPUs: vectors, threads, caches."""
