"""The life of a helper: it declares the kernels that it is asked for anew, compiles them, and answers as the cache keeps them."""

from __future__ import annotations

import gc
import json
import os
import selectors
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ..base.errors import TilewrightError
from ..ir import Var, deep_recursion
from ..te import Tensor
from .cache.constants import collect_constants
from .cache.kernels import make_entry
from .cache.store import Entry
from .exported_kernels import export_kernel, write_exported
from .linking import prepared_request
from .recipes import request_of_recipe

__all__ = ["entry_of_recipe", "serve"]

_IDLE = 30.0
"""Seconds without a request after which a helper ends."""


def entry_of_recipe(recipe: Mapping[str, Any], declare: Callable[[Any], Sequence[Tensor | Var]]) -> Entry | None:
    """The kernel that is asked for; None where this process would make another one, or cannot tell."""
    with deep_recursion():
        request = request_of_recipe(recipe, list(declare(recipe["part"])))
        if request is None:
            return None
        prepared = prepared_request(request)
        if recipe.get("exported"):
            return write_exported(export_kernel(prepared, request.target))
        return make_entry(prepared.native(prepared.unit.compiled()), collect_constants(request.programs))


def serve(parent: int, declare: Callable[[Any], Sequence[Tensor | Var]]) -> None:
    """A helper's whole life: a request is a line of JSON on the standard input, and what is answered a line and so many bytes. parent:
    the process that asks."""
    gc.freeze()  # what was imported stays
    requests, answers = sys.stdin.buffer, os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what anybody prints disturbs no answer
    threading.Thread(target=_watch_parent, args=(parent,), daemon=True).start()
    with selectors.DefaultSelector() as selector:
        selector.register(requests, selectors.EVENT_READ)
        while selector.select(_IDLE):  # a helper that nobody needs ends by itself
            line = requests.readline()
            if not line:
                return
            try:
                entry = entry_of_recipe(json.loads(line), declare)
            except (TilewrightError, MemoryError):  # which are the asking process's to raise
                entry = None
            about, code = (None, b"") if entry is None else (entry.about, entry.code)
            # size first: machine code has any bytes in it
            answers.write(json.dumps({"about": about, "size": len(code)}).encode() + b"\n" + code)
            answers.flush()


def _watch_parent(parent: int) -> None:
    """End this process once its parent has, of which others may have inherited the pipe."""
    while os.getppid() == parent:  # a parent that was killed closes no pipe that others inherited
        time.sleep(1.0)
    os._exit(0)
