"""XLA on the CPU, through jax.jit. It allocates its outputs."""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import partial
from typing import Any

from ..cases import Arrays, Builder, Runner, threads

__all__ = ["call", "matmul"]


def call(function: Callable[..., Any]) -> Builder:
    """`function(jax, *inputs)`, the inputs as jax arrays, compiled."""

    def builder(inputs: Arrays, _: Arrays) -> Runner:
        os.environ.setdefault("NPROC", str(threads()))  # the size of XLA's pool of threads
        os.environ.setdefault("JAX_PLATFORMS", "cpu")
        import jax.numpy

        given = [jax.device_put(array) for array in inputs]
        compiled = jax.jit(partial(function, jax)).lower(*given).compile()
        return lambda: jax.block_until_ready(compiled(*given))

    return builder


matmul = call(lambda jax, a, b: jax.numpy.matmul(a, b))
"""C = A @ B."""
