"""tvm.contrib.pickle_memoize: references that are computed once for the same arguments. They live as long as the process:
nothing is pickled, and no file of results is believed."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

__all__ = ["memoize"]


def memoize(key: str, save_at_exit: bool = False) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """The decorator of a function whose results are kept by its arguments, which hash by their text. key and save_at_exit, which
    name TVM's file and ask for it, say nothing here."""
    del key, save_at_exit

    def kept(function: Callable[..., Any]) -> Callable[..., Any]:
        results: dict[str, Any] = {}

        @wraps(function)
        def called(*args: Any, **named: Any) -> Any:
            given = repr((args, sorted(named.items())))
            if given not in results:
                results[given] = function(*args, **named)
            return results[given]

        return called

    return kept
