"""Thread bindings of a drawn schedule for GPUs: every loop nest at the root is run by threads."""

from __future__ import annotations

from functools import partial
from typing import Any

from ... import te
from ...base.errors import TilewrightError
from .choices import Choices

__all__ = ["begin", "finish"]


def begin(choices: Choices, s: Any) -> None:
    """Begin before other primitives: outputs are cut into blocks of threads, and some of what they read is placed in these."""
    for stage in reversed(_computed_stages(s)):
        readers = [other for other in s.stages if any(tensor.op is stage.op for tensor in other.op.input_tensors)]
        if stage.is_output or choices.chance(0.3):
            _cut(choices, stage)
        elif choices.chance(0.5):
            _try(stage.compute_inline)
        elif len(readers) == 1:
            _place(choices, stage, readers[0])


def finish(choices: Choices, s: Any) -> None:
    """Finish after the primitives: what still stands at the root without threads gets some."""
    for stage in reversed(_computed_stages(s)):
        if stage.attach_type in ("inline", "inlined", "at", "with"):
            continue
        if stage.scope in ("shared", "local"):
            readers = [other for other in s.stages if any(tensor.op is stage.op for tensor in other.op.input_tensors)]
            if len(readers) != 1 or not _place(choices, stage, readers[0]):
                _try(partial(stage.set_scope, "global"))
        if stage.attach_type != "at" and not any(
            stage.attr(axis).bind_thread is not None for axis in stage.leaf_iter_vars
        ):
            _cut(choices, stage)


def _computed_stages(s: Any) -> list[Any]:
    return [stage for stage in s.stages if stage.op.input_tensors or not stage.op.is_given]


def _try(primitive: Any) -> bool:
    try:
        primitive()
    except TilewrightError:
        return False
    return True


def _cut(choices: Choices, stage: Any) -> None:
    """Fuse the outermost plain loops over data, and bind them to blocks and threads."""
    axes: list[Any] = []
    for axis in stage.leaf_iter_vars:
        if axis.kind == "reduce" or stage.attr(axis).kind != "serial" or stage.attr(axis).pragmas:
            break
        axes.append(axis)
    if not axes:
        return
    try:
        fused = stage.fuse(*axes) if len(axes) > 1 and choices.chance(0.6) else axes[0]
        _bind(choices, stage, fused)
    except TilewrightError:  # loops of a script may have to stay as they are
        return


def _bind(choices: Choices, stage: Any, fused: Any) -> None:
    threads = choices.pick([1, 2, 4, 8, 32])
    if choices.chance(0.1):
        _try(lambda: stage.bind(fused, te.thread_axis("blockIdx.x")))
        return
    outer, inner = stage.split(fused, factor=threads)
    _try(lambda: stage.bind(outer, te.thread_axis("blockIdx.x")))
    _try(lambda: stage.bind(inner, te.thread_axis((0, threads), "threadIdx.x")))


def _place(choices: Choices, stage: Any, reader: Any) -> bool:
    bound = [axis for axis in reader.leaf_iter_vars if reader.attr(axis).bind_thread is not None]
    place = (
        bound[-1]
        if bound and choices.chance(0.6)
        else (choices.pick(reader.leaf_iter_vars) if reader.leaf_iter_vars else None)
    )
    return place is not None and _try(lambda: stage.compute_at(reader, place))
