"""This machine's processor: what LLVM knows of it, and what code for it may use.

TILEWRIGHT_HOST="-mcpu=haswell" (or -mattr=-avx512f) leaves a part of it: kernels are then built, scheduled and refused as on
such a processor, so that a new machine tries what an old one will do. What this machine lacks cannot be added.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache

import llvmlite.binding as llvm

from ..base.dataclass import dataclass
from ..runtime.critical_section import run_in_turn
from .instructions import attributes, least, stronger_callees
from .processor_facts import told_features

__all__ = ["VARIABLE", "Processor", "restrict_processor", "full_processor"]

VARIABLE = "TILEWRIGHT_HOST"


@dataclass(frozen=True)
class Processor:
    """A processor of this machine's architecture. cpu: its name, as LLVM has it; features: for each feature that LLVM tells of
    this machine, whether code may use it."""

    cpu: str
    features: Mapping[str, bool]

    @property
    def feature_text(self) -> str:
        """The features as LLVM takes them, +avx2,-avx512f."""
        return ",".join(f"{'+' if has else '-'}{name}" for name, has in sorted(self.features.items()))

    def runs(self, cpu: str, features: str) -> bool:
        """Return whether this processor has every instruction that code may use that is made for `cpu` with `features`."""
        missing = [f"-{name}" for name in _NEVER_CHOSEN if not self.features.get(name, True)]
        missing += [f"-{name}" for name in _X86_TUNING] if _architecture() == "x86_64" else []
        theirs = attributes(cpu, ",".join(filter(None, [features, *missing])))
        return not stronger_callees(
            attributes(self.cpu, self.feature_text), [theirs], _machine(self.cpu, self.feature_text)
        )


@cache
@run_in_turn
def full_processor() -> Processor:
    """This machine's processor with all that it has."""
    return Processor(llvm.get_host_cpu_name(), dict(llvm.get_host_cpu_features()) | told_features())


def restrict_processor(whole: Processor, cpu: str, features: str) -> Processor:
    """The processor `cpu` with what `whole` and it, with its `features` (as LLVM takes them), both have."""
    present = sorted(name for name, has in whole.features.items() if has)
    wanted = [least(_architecture(), name) for name in present]
    lacking = {present[at] for at in stronger_callees(attributes(cpu, features), wanted, _machine(cpu, features))}
    return Processor(cpu, {name: has and name not in lacking for name, has in whole.features.items()})


_NEVER_CHOSEN = (
    "invpcid",
    "pku",
    "sgx",
    "rtm",
    "fsgsbase",
    "ptwrite",
    "waitpkg",
    "cldemote",
    "movdiri",
    "movdir64b",
    "enqcmd",
    "uintr",
    "serialize",
    "tsxldtrk",
    "hreset",
    "pconfig",
    "shstk",
    "clwb",
    "clflushopt",
    "clzero",
    "mwaitx",
    "lwp",
    "rdpru",
    "wbnoinvd",
    "rdpid",
    "rdseed",
    "rdrnd",
    "xsave",
    "xsavec",
    "xsaveopt",
    "xsaves",
    "kl",
    "widekl",
    "aes",
    "vaes",
    "sha",
    "sha512",
    "sm3",
    "sm4",
    "pclmul",
    "vpclmulqdq",
    "amx-tile",
    "amx-int8",
    "amx-bf16",
    "amx-fp16",
    "amx-complex",
    "prefetchi",
    "usermsr",
)
"""Instructions for systems and ciphers, which LLVM emits only for those who call them by name."""
_X86_TUNING = (
    "ermsb",
    "fast-7bytenop",
    "slow-pmullq",
    "branch-hint",
    "prefer-legacy-setcc",
    "prefer-movmsk-over-vtest",
    "prefer-no-gather",
    "prefer-no-scatter",
)
"""Habits of processors that LLVM counts as instructions when it compares them."""


@cache
@run_in_turn
def _architecture() -> str:
    return llvm.get_triple_parts(llvm.get_process_triple()).Arch


@run_in_turn
def _machine(cpu: str, features: str) -> llvm.TargetMachine:
    llvm.initialize_native_target()
    return llvm.Target.from_triple(llvm.get_process_triple()).create_target_machine(cpu=cpu, features=features)
