"""Passes of GPUs: threads, barriers, shared memory, fragments."""
