"""Numba: loops in Python, compiled, over threads by prange."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..cases import Arrays, Builder, Runner, threads

__all__ = ["call"]


def call(function: Callable[..., None], fastmath: bool = True) -> Builder:
    """Plain loops over (inputs..., outputs...); `prange` in them is numba's, given to the function as a global name, so that
    numba is imported no earlier than here."""

    def builder(inputs: Arrays, outputs: Arrays) -> Runner:
        import numba

        numba.set_num_threads(min(threads(), numba.config.NUMBA_NUM_THREADS))
        function.__globals__["prange"] = numba.prange
        compiled: Any = numba.njit(function, parallel=True, fastmath=fastmath, error_model="numpy", nogil=True)
        arrays = (*inputs, *outputs)
        return lambda: compiled(*arrays)

    return builder
