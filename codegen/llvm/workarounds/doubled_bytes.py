"""A fault of LLVM 22's, and the way around it.

On AVX-512 its code generator does not come to an end where bytes, each of which stands twice or more in a row, are added to
themselves, a register full of them or more: it takes the sum of two equal shuffles for a shuffle of sums, and that for the former.

    %twice = shufflevector <32 x i8> %x, <32 x i8> poison, <64 x i32> <i32 0, i32 0, i32 1, i32 1, ...>
    %sum = shl <64 x i8> %twice, splat (i8 1)                 as well as add <64 x i8> %twice, %twice

After optimising, such a sum is one of two values, the second of which is the first plus a zero that LLVM does not see through.
"""

from __future__ import annotations

import re

from .unseen_zeros import unseen_zeros

__all__ = ["PROGRAM", "VERSIONS", "split_wide_adds"]

VERSIONS = (22,)
PROGRAM = f"""
define void @f(ptr %p, ptr %q) "prefer-vector-width"="512" {{
  %x = load <32 x i8>, ptr %p, align 1
  %twice = shufflevector <32 x i8> %x, <32 x i8> poison, <64 x i32> <{", ".join(f"i32 {at // 2}" for at in range(64))}>
  %sum = shl <64 x i8> %twice, splat (i8 1)
  store <64 x i8> %sum, ptr %q, align 1
  ret void
}}
"""

_REGISTER = 64
"""Bytes."""
_NAME = r"%[\w.$-]+"
_DOUBLED = re.compile(
    rf"^ *(?P<name>{_NAME}) = (?:shl (?:n[us]w )*<(?P<lanes>\d+) x i8> (?P<value>{_NAME}), splat \(i8 1\)"
    rf"|add (?:n[us]w )*<(?P<added>\d+) x i8> (?P<left>{_NAME}), (?P=left)(?![\w.$-]))",
    re.MULTILINE,
)


def split_wide_adds(text: str) -> str:
    """The text of a module for a processor with AVX-512 of bytes, in which no wide vector of these is added to itself."""
    return _DOUBLED.sub(_split_addition, text) if "shufflevector" in text else text


def _split_addition(found: re.Match[str]) -> str:
    lanes, value = int(found["lanes"] or found["added"]), found["value"] or found["left"]
    if lanes < _REGISTER:
        return found[0]
    lines, zero = unseen_zeros(f"%none.{found['name'][1:]}", lanes, 8)
    same = f"%same.{found['name'][1:]}"
    lines += [f"{same} = or <{lanes} x i8> {value}, {zero}", f"{found['name']} = add <{lanes} x i8> {value}, {same}"]
    return "\n".join(f"  {line}" for line in lines)
