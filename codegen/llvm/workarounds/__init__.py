"""Faults of LLVM, and what keeps our code out of their way."""
