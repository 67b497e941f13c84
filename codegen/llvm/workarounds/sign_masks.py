"""A fault of LLVM 22's, and the way around it.

On AVX-512 the signs of a vector's elements are taken into a mask register by one instruction. Where an ordinary register
is then filled from the mask, LLVM's last pass takes the signs into that register at once, and drops the mask although a
later instruction that changes it in place still reads it: the lanes of another mask stand there instead. After optimising,
sign tests in a module that takes masks out of their registers are comparisons with a zero that LLVM does not see through:

    %c = icmp slt <4 x i32> %x, zeroinitializer
    →  %zero = call <4 x i32> asm "", "=v,0"(<4 x i32> zeroinitializer);  %c = icmp slt <4 x i32> %x, %zero
"""

from __future__ import annotations

import re

from .unseen_zeros import unseen_zeros

__all__ = ["VERSIONS", "spell_out_sign_tests"]

VERSIONS = (22,)

_TAKEN_OUT = re.compile(r"(extractelement|bitcast) <\d+ x i1> %|@llvm\.(masked|vector\.reduce)\.")
"""What fills ordinary registers from masks: of masked accesses, those that the processor has no instruction for."""
_VECTOR = r"<(?P<lanes>\d+) x i(?P<bits>8|16|32|64)>"
_NAME = r"%[\w.$-]+"
_NEGATIVE = re.compile(rf"^ *(?P<name>{_NAME}) = icmp slt {_VECTOR} (?P<value>{_NAME}), zeroinitializer", re.MULTILINE)
_NOT_NEGATIVE = re.compile(
    rf"^ *(?P<name>{_NAME}) = icmp sgt {_VECTOR} (?P<value>{_NAME}), splat \(i(?P=bits) -1\)", re.MULTILINE
)
_LOWEST_BIT = re.compile(
    rf"^ *(?P<name>{_NAME}) = trunc (?:n[us]w )*{_VECTOR} (?P<value>{_NAME}) to <(?P=lanes) x i1>", re.MULTILINE
)


def spell_out_sign_tests(text: str) -> str:
    """The text of a module for a processor with AVX-512, in which no mask that may be looked into is taken from signs."""
    if not _TAKEN_OUT.search(text):
        return text
    text = _NEGATIVE.sub(lambda found: _emit_comparison(found, "slt"), text)
    text = _NOT_NEGATIVE.sub(lambda found: _emit_comparison(found, "sge"), text)
    return _LOWEST_BIT.sub(_emit_test, text)


def _emit_comparison(found: re.Match[str], kind: str) -> str:
    lines, zero = unseen_zeros(f"%zero.{found['name'][1:]}", int(found["lanes"]), int(found["bits"]))
    lines.append(f"{found['name']} = icmp {kind} <{found['lanes']} x i{found['bits']}> {found['value']}, {zero}")
    return "\n".join(f"  {line}" for line in lines)


def _emit_test(found: re.Match[str]) -> str:
    """The lowest bits, which would be shifted to where signs are."""
    vector, bit = f"<{found['lanes']} x i{found['bits']}>", f"%bit.{found['name'][1:]}"
    return (
        f"  {bit} = and {vector} {found['value']}, splat (i{found['bits']} 1)\n"
        f"  {found['name']} = icmp ne {vector} {bit}, zeroinitializer"
    )
