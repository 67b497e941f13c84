"""Faults of LLVM, and what keeps our code out of their way: a file each, with the versions that have it (VERSIONS).

tests/codegen/llvm/test_workarounds.py shows each fault in a program, and tells when a version is without it.
"""
