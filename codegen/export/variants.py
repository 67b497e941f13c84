"""One function as code for several processors, in one library: the most demanding that this processor runs is taken."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ...base import dataclass, replace
from ...ir import Function, Var
from ...runtime.signature import BufferParam, Signature
from ..abi.stub import kernel_symbol, scalar_type
from ..target import Target
from .cpu import ABSENT, needed_features

__all__ = ["Variant", "best_first", "choice_text", "feature_mask", "find_messages", "rename_kernels"]


@dataclass(frozen=True)
class Variant:
    """A function's code for one target, at stage "final", and its free shape symbols in call order."""

    target: Target
    function: Function
    symbols: tuple[Var, ...]


def best_first(variants: Sequence[Variant]) -> tuple[Variant, ...]:
    """Sort variants: those that need most come first, since where they run the others would, too."""
    return tuple(sorted(variants, key=lambda each: -len(needed_features(each.target))))


def rename_kernels(name: str, variants: Sequence[Variant]) -> tuple[Variant, ...]:
    """The variants of one function with names of their own."""
    return tuple(
        replace(each, function=replace(each.function, name=f"{name}__{at}")) for at, each in enumerate(variants)
    )


def feature_mask(target: Target, features: Sequence[str]) -> int:
    """The bits of what a target needs, among these features."""
    needed = needed_features(target)
    return sum(1 << at for at, name in enumerate(features) if name in needed)


def find_messages(
    variants: Sequence[Variant], messages: Mapping[str, tuple[str, ...]]
) -> tuple[tuple[str, ...], tuple[int, ...]]:
    """Return what the assertions of all variants say, and where each variant's begin among them. messages: by function."""
    every: tuple[str, ...] = ()
    begins: list[int] = []
    for each in variants:
        own = messages[each.function.name]
        if every[: len(own)] != own:
            begins.append(len(every))
            every += own
        else:
            begins.append(0)
    return every, tuple(begins)


def choice_text(
    signature: Signature, variants: Sequence[Variant], masks: Sequence[int], begins: Sequence[int], attrs: str
) -> str:
    """LLVM IR of the kernel: the first variant whose features are there, else the last. begins: what is added to the statuses
    of its assertions. attrs: of a function that runs on any processor."""
    kinds = ["ptr" if isinstance(p, BufferParam) else scalar_type(p.dtype) for p in signature.params]
    kinds += ["i64"] * len(signature.symbols)
    declared = [f"declare i32 @{kernel_symbol(each.function.name)}({', '.join(kinds)})" for each in variants]
    passed = ", ".join(f"{kind} %p{at}" for at, kind in enumerate(kinds))
    lines = ["entry:", f"  %absent = call i64 @{ABSENT}()", "  br label %ask0"]
    for at, (each, mask, begin) in enumerate(zip(variants, masks, begins, strict=True)):
        is_last = at == len(variants) - 1
        lines += [
            f"ask{at}:",
            f"  %needed{at} = and i64 %absent, {0 if is_last else mask}",
            f"  %fits{at} = icmp eq i64 %needed{at}, 0",
            f"  br i1 %fits{at}, label %run{at}, label %ask{at if is_last else at + 1}",
            f"run{at}:",
            f"  %status{at} = call i32 @{kernel_symbol(each.function.name)}({passed})",
            f"  %stopped{at} = icmp sgt i32 %status{at}, 0",
            f"  %begin{at} = select i1 %stopped{at}, i32 {begin}, i32 0",
            f"  %told{at} = add i32 %status{at}, %begin{at}",
            f"  ret i32 %told{at}",
        ]
    return "\n".join(
        [
            *declared,
            f"declare i64 @{ABSENT}()",
            f"define i32 @{kernel_symbol(signature.name)}({passed}) {attrs} {{",
            *lines,
            "}",
            "",
        ]
    )
