"""A zero that LLVM does not see through, which several faults are kept away by."""

from __future__ import annotations

__all__ = ["unseen_zeros"]


def unseen_zeros(name: str, lanes: int, bits: int) -> tuple[list[str], str]:
    """The lines that make a vector of integers, each of them 0, and its name, which begins as `name` says."""
    register, vector = f"<{128 // bits} x i{bits}>", f"<{lanes} x i{bits}>"
    lines = [f'{name} = call {register} asm "", "=v,0"({register} zeroinitializer)']
    if register == vector:
        return lines, name
    lines.append(f"{name}s = shufflevector {register} {name}, {register} poison, <{lanes} x i32> zeroinitializer")
    return lines, f"{name}s"
