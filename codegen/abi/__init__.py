"""Calling convention of kernels: signatures, stubs, packed calls, callbacks, threads."""
