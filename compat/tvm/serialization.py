"""tvm.ir.save_json and load_json: expressions, tensors, schedules and functions as text, and back as other objects.

The text is ours: a JSON object whose "graph" is Python's pickle. `load_json` makes no object but of the classes that programs are
built of, and calls nothing else, whatever the text says.
"""

from __future__ import annotations

import base64
import io
import json
import pickle
from typing import Any

from ...ir.visit import deep_recursion

__all__ = ["load_json", "save_json"]

_FORMAT = "tilewright-graph-1"
_ROOT = __name__.partition("compat.")[0]
_ROOMS = tuple(
    _ROOT + room
    for room in (
        "ir.",
        "te.",
        "schedule.",
        "base.errors",
        "compat.tvm.te.",
        "compat.tvm.container",
        "compat.tvm.ir_module",
        "compat.tvm.nodes",
    )
)
"""The modules whose classes programs are built of."""
_BESIDE = {
    (f"{_ROOT}ir.constant", "_restore"),
    ("builtins", "set"),
    ("builtins", "frozenset"),
    ("collections", "OrderedDict"),
    ("numpy", "ndarray"),
    ("numpy", "dtype"),
    ("numpy._core.multiarray", "_reconstruct"),
    ("numpy._core.multiarray", "scalar"),
    ("numpy.core.multiarray", "_reconstruct"),
    ("numpy.core.multiarray", "scalar"),
}


class _Loader(pickle.Unpickler):
    """Make objects of the classes that programs are built of alone."""

    def find_class(self, module_name: str, global_name: str, /) -> Any:
        if (module_name, global_name) in _BESIDE:
            return super().find_class(module_name, global_name)
        found = super().find_class(module_name, global_name) if module_name.startswith(_ROOMS) else None
        if not isinstance(found, type) or found.__module__ != module_name:
            raise pickle.UnpicklingError(f"{module_name}.{global_name} is not a part of a program")
        return found


def save_json(node: Any) -> str:
    """Write an object as text with all that it refers to: an expression, a tensor, an operation, a schedule, a function, a module, or
    a list or a dict of such."""
    with deep_recursion():
        graph = pickle.dumps(node, protocol=4)
    return json.dumps({"format": _FORMAT, "graph": base64.b64encode(graph).decode()})


def load_json(json_str: str) -> Any:
    """Load the object that save_json wrote, made anew. Raises ValueError for another text."""
    try:
        fields = json.loads(json_str)
        if fields["format"] != _FORMAT:
            raise ValueError(f"of format {fields['format']!r}")
        graph = base64.b64decode(fields["graph"], validate=True)
        with deep_recursion():
            return _Loader(io.BytesIO(graph)).load()
    except Exception as error:
        raise ValueError(f"not a text of tvm.ir.save_json: {error}") from error
