"""Clocks of a build: the processor time of each of its steps and passes, and of one that finds its kernels kept."""

from __future__ import annotations

import os
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from functools import wraps
from typing import Any
from unittest.mock import patch

from tilewright.codegen.llvm import backend, jit
from tilewright.driver import compile as compilation
from tilewright.driver import linking
from tilewright.driver import lower as lowering
from tilewright.graph import graph as graphs
from tilewright.ir.passes.common.runner import pass_times

__all__ = ["STEPS", "time_kept", "time_steps"]

STEPS = ("graph", "choose", "lower", "passes", "text", "parse", "optimise", "object", "link")
"""A graph's passes, then what is done for each kernel. Each is the processor time of the thread that does it, without the steps
within."""


def _steps() -> Iterator[tuple[str, Any, str]]:
    """The functions that do each step."""
    yield "graph", graphs, "transformed"
    yield "choose", lowering, "scheduled"
    yield "lower", linking, "lowered_programs"
    yield "lower", compilation, "lowered_programs"
    yield "passes", backend, "run_pipeline"
    yield "text", backend, "build_unit"
    yield "parse", jit, "_link_parts"
    yield "optimise", jit, "_optimise"
    yield "object", jit, "_object"
    yield "link", jit, "_link"


@contextmanager
def _clocks(seconds: Counter[str]) -> Generator[None]:
    """Add up the time of each step within a `with` block."""
    within: list[float] = []

    def timed(step: str, function: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(function)
        def call(*args: Any, **named: Any) -> Any:
            began = time.thread_time()
            within.append(0.0)
            try:
                return function(*args, **named)
            finally:
                spent = time.thread_time() - began
                seconds[step] += spent - within.pop()
                if within:
                    within[-1] += spent

        return call

    plain = jit._object.__wrapped__  # the part that runs on the shielded thread, in this one
    patches = [patch.object(jit, "_object", timed("object", plain))]
    patches += [
        patch.object(module, name, timed(step, getattr(module, name)))
        for step, module, name in _steps()
        if step != "object"
    ]
    for each in patches:
        each.start()
    try:
        yield
    finally:
        for each in patches:
            each.stop()


def time_steps(build: Callable[[], Any]) -> tuple[dict[str, float], dict[str, float]]:
    """(seconds of each step and of the whole, seconds of each pass) of a build, one kernel after the other in this thread."""
    seconds: Counter[str] = Counter()

    class Here:
        """Run the work of a thread at once."""

        def submit(self, work: Callable[[], Any]) -> Any:
            result = work()
            return type("Done", (), {"result": lambda _: result, "done": lambda _: True})()

        def shutdown(self, **_: Any) -> None:
            """Nothing is left to do."""

    with (
        patch.dict(os.environ, {"TILEWRIGHT_CACHE": "0", "TILEWRIGHT_JOBS": "1"}),
        patch("tilewright.driver.batch.ThreadPoolExecutor", lambda *_: Here()),
        _clocks(seconds),
        pass_times() as passes,
    ):
        began = time.process_time()
        build()
        seconds["whole"] = time.process_time() - began
    return {step: seconds[step] for step in (*STEPS, "whole")}, dict(passes)


def time_kept(build: Callable[[], Any]) -> float:
    """Seconds of processor time of a build that finds all of its kernels kept."""
    variables = {"TILEWRIGHT_CACHE": "1"}
    with tempfile.TemporaryDirectory() as folder, patch.dict(os.environ, variables, TILEWRIGHT_CACHE_DIR=folder):
        build()
        began = time.process_time()
        build()
        return time.process_time() - began
