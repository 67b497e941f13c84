"""tvm.auto_scheduler.utils: names of functions, arguments as values, keys of workloads."""

from __future__ import annotations

import json
import sys
import traceback
from collections.abc import Callable, Sequence
from typing import Any

from ....base.arguments import is_sequence
from ....ir.expr import IntImm
from ....ir.ops import convert
from ..autotvm.task.task import deserialize_args, serialize_args
from ..topi.utils import get_const_int, get_const_tuple

__all__ = [
    "array_mean",
    "calc_workload_dis_factor",
    "decode_workload_key",
    "deserialize_args",
    "get_const_int",
    "get_const_tuple",
    "get_func_name",
    "list_to_tuple",
    "make_traceback_info",
    "serialize_args",
    "to_str_round",
]


def get_func_name(func: Callable[..., Any]) -> str:
    """The name of a function, or of what a partial call was made of."""
    return func.func.__qualname__ if hasattr(func, "func") else func.__qualname__  # pyright: ignore


def list_to_tuple(value: Sequence[Any]) -> tuple[Any, ...]:
    """Lists in lists as tuples in tuples."""
    return tuple(list_to_tuple(each) if is_sequence(each) else each for each in value)


def decode_workload_key(workload_key: str) -> tuple[str | None, tuple[Any, ...] | None]:
    """The name of a workload and its arguments; (None, None) where the key is of no such kind."""
    try:
        key = json.loads(workload_key)
    except json.JSONDecodeError:
        return None, None
    return (str(key[0]), list_to_tuple(key[1:])) if is_sequence(key) and key else (None, None)


def calc_workload_dis_factor(target_workload_pair: Sequence[Any], workload_pair: Sequence[Any]) -> float:
    """Return the ratio of the first workload to the second, (name, arguments) each: the product of the quotients of integers; infinite
    where one is no multiple, or where names or anything else differ."""
    (name, wanted), (other_name, given) = target_workload_pair, workload_pair
    pairs = list(zip(_flat(wanted), _flat(given), strict=False))
    if name != other_name or len(_flat(wanted)) != len(_flat(given)):
        return float("inf")
    factor = 1
    for large, small in pairs:
        if large == small:
            continue
        if not isinstance(large, int) or not isinstance(small, int) or not large or not small or large % small:
            return float("inf")
        factor *= large // small
    return factor


def _flat(values: Sequence[Any]) -> list[Any]:
    return [part for each in values for part in (_flat(each) if is_sequence(each) else [each])]


def array_mean(values: Sequence[Any]) -> float:
    """The mean of numbers, which may be expressions."""
    return sum(_number(each) for each in values) / len(values)


def to_str_round(value: Any, decimal: int = 6) -> str:
    """A number, or several, with so many decimals at most."""
    if isinstance(value, str):
        return value
    if is_sequence(value):
        return "[" + ", ".join(to_str_round(each, decimal) for each in value) + "]"
    return str(round(value, decimal)) if isinstance(value, float) else str(value)


def make_traceback_info() -> str:
    """The end of the traceback of what is being handled, which a line of a log can hold."""
    text = "".join(traceback.format_exception(*sys.exc_info()))
    return text if len(text) <= 512 else f"{text[:256]}\n...\n{text[-256:]}"


def _number(value: Any) -> float:
    plain = convert(value)
    return float(plain.value) if isinstance(plain, IntImm) else float(getattr(plain, "value", value))
