"""Kernels as parts of other frameworks: operators of torch, functions of jax."""
