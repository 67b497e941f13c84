"""XLA on the CPU, through jax.jit. It allocates its outputs."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

from ..cases import Arrays, Builder, Runner, threads

__all__ = ["call", "matmul"]


def call(function: Callable[..., Any]) -> Builder:
    """Any function of the inputs as jax arrays, compiled."""

    def builder(inputs: Arrays, _: Arrays) -> Runner:
        os.environ.setdefault("NPROC", str(threads()))  # the size of XLA's pool of threads
        os.environ.setdefault("JAX_PLATFORMS", "cpu")
        import jax

        given = [jax.device_put(array) for array in inputs]
        compiled = jax.jit(function).lower(*given).compile()
        return lambda: jax.block_until_ready(compiled(*given))

    return builder


def matmul(inputs: Arrays, outputs: Arrays) -> Runner:
    """C = A @ B."""
    import jax.numpy as jnp

    return call(jnp.matmul)(inputs, outputs)
