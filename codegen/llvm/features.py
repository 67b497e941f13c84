"""Instruction-set features of a target, as LLVM names them."""

from __future__ import annotations

from functools import cache

from ..host import full_processor
from ..instructions import attributes, least, stronger_callees
from ..names import knows_feature
from ..target import Target
from .maths_options import MathsOptions
from .text import Conversions

__all__ = ["conversions", "fuses", "maths_options", "target_has"]


@cache
def target_has(target: Target, feature: str) -> bool:
    """Return whether code for `target` may use the instructions of a feature by LLVM's name: "avx512vnni".

    What the target's own list names is read there. What comes with its processor, or with another feature, shows in whether
    LLVM may inline a function that needs the feature into one for the target. What LLVM does not know of the architecture, it
    ignores: no target has that.
    """
    # the last of several wins, as in LLVM
    named = [word[0] == "+" for word in target.llvm_features.split(",") if word[1:] == feature]
    removes = any(word[0] == "-" for word in target.features)  # and with a feature all that build on it
    if named and not (named[-1] and removes):
        return named[-1]
    # a feature's name, not an expression of several
    if not (target.cpu or target.features) or not feature.replace("-", "").replace("_", "").replace(".", "").isalnum():
        return False
    # LLVM would ignore what it does not know, and inline anyway
    if not knows_feature(feature, target.llvm_triple, {} if target.is_foreign else full_processor().features):
        return False
    wanted = least(target.architecture, feature)
    # inlining is refused where the callee needs more than the caller has
    return not stronger_callees(attributes(target.llvm_cpu, target.llvm_features), [wanted], target.machine())


def fuses(target: Target) -> bool:
    """Return whether a * b + c with one rounding is an instruction."""
    if target.architecture == "x86_64":
        return target_has(target, "fma")
    # aarch64 has it in its baseline
    return target.architecture == "aarch64" or (target.architecture == "riscv64" and target_has(target, "d"))


def maths_options(target: Target, *, fast: bool) -> MathsOptions:
    """The instructions that mathematical functions may use by name on a target."""
    x86, arm = (target.architecture == name for name in ("x86_64", "aarch64"))
    wide = x86 and all(target_has(target, name) for name in ("avx512f", "avx512vl"))
    return MathsOptions(
        fast,
        fuses(target),
        wide,
        target.lanes(32),
        wide and target_has(target, "avx512bw"),
        wide and target_has(target, "avx512dq"),
        x86,
        x86 and target_has(target, "avx2"),
        arm or (x86 and target_has(target, "sse4.1")),  # frintn and roundps
        wide and target_has(target, "avx512vbmi"),
        extrema=arm,  # fmax
    )


def conversions(target: Target, *, fast: bool) -> Conversions:
    """The conversions of 16-bit floats that are instructions, and as right as they have to be."""
    x86 = target.architecture == "x86_64"
    # f16c and zfhmin convert float16
    feature = "f16c" if x86 else "zfhmin" if target.architecture.startswith("riscv") else ""
    halves = not feature or target_has(target, feature)
    if target.rvv_bits:
        halves = halves and target_has(target, "zvfhmin")
    # what zfh computes of one number, zvfh computes of vectors
    needed = {"x86_64": ("avx512fp16",), "aarch64": ("fullfp16",)}.get(target.architecture, ("zfh", "zvfh"))
    own = all(target_has(target, name) for name in needed)
    # AVX-512's conversion to bfloat16 treats subnormals as 0
    return Conversions(halves, x86 and fast and target_has(target, "avx512bf16"), own)
