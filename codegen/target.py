"""Targets: what a kernel is compiled for.

llvm                                       this machine, or what TILEWRIGHT_HOST leaves of it
llvm -mcpu=skylake-avx512                  another processor of this architecture
llvm -mattr=+avx2,-avx512f                 this machine's processor with features added and removed
llvm -uncalibrated                         this machine, scheduled for as any of its kind: nothing that was measured counts
llvm -mtriple=aarch64-unknown-linux-gnu    another machine: its code can be looked at and exported
llvm -mtriple=aarch64-unknown-linux-gnu -mattr=+sve -msve-vector-bits=256    with SVE, for vectors of 256 bits
llvm -mtriple=riscv64-unknown-linux-gnu -mcpu=spacemit-x60    a processor with RVV, for vectors as long as it says
llvm -mcpu=znver3 -cores=6 -l1=32K -l2=512K -l3=16M    scheduled for a machine with so many cores and such caches
cuda -arch=sm_90                           NVIDIA GPUs of one architecture
cuda -emulate                              the same code on an emulated GPU, with its accesses checked
c                                          portable C11 text, for this machine's C compiler
interpret                                  no code: the slow, exact interpreter of the loop IR
vdla                                       a simulated accelerator: int8 products of tiles, memories and queues of its own
c -mattr=-fma, interpret -mattr=-fma       the same, rounding as a machine without fused multiply-add does
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from typing import cast

import llvmlite.binding as llvm

from ..base import dataclass, field, user_source
from ..importing import import_on_thread
from ..ir.lazy_values import cached_property
from ..ir.stmt import Function
from ..runtime.critical_section import run_in_turn
from ..runtime.hosts import host
from . import names, rvv
from .assembly import AssemblyLine
from .errors import ForeignTarget, UnknownTargetKind, UnknownTargetOption
from .host import VARIABLE, Processor, full_processor, restrict_processor
from .names import nearest
from .processor_facts import BASELINES
from .result import BuildOptions, BuildResult
from .sve import ANY_LENGTH, CORES, LENGTHS, NEON_FIRST, length_attribute

__all__ = [
    "BACKENDS",
    "ROUNDING",
    "Backend",
    "Target",
    "backend_named",
    "check_processor",
    "check_rounding",
    "nearest",
    "rounds_fused",
    "this_processor",
]


@dataclass(frozen=True, slots=True)
class Backend:
    """A kind of target: its name, its compiler and its properties; a row for each, in its own module.

    compile: functions of stage "loops" to kernels. options: what may follow the name, each as -key=value, with what it says;
    flags: those that are given as -key alone. check: raises a CodegenError for options that are wrong. has: whether code for a
    target may use a feature, by the name that te.target_has takes. fuses: whether sums take up products with one rounding.
    for_processors: whether the code is for a processor that LLVM describes, with its vectors, caches and assembly. rules: which
    rules choose schedules for it, "cpu" or "gpu"; empty where operations stay as they were declared. device: where the arrays of
    its kernels lie, "cpu" or "cuda". assembly: the machine code of a function by lines, where it can be shown beside its loops.
    """

    name: str
    purpose: str
    compile: Callable[[Sequence[Function], Target, BuildOptions], BuildResult]
    options: Mapping[str, str] = field(default_factory=dict[str, str])
    flags: tuple[str, ...] = ()
    check: Callable[[Target], None] = lambda target: None
    has: Callable[[Target, str], bool] = lambda target, feature: False
    fuses: Callable[[Target], bool] = lambda target: True
    for_processors: bool = False
    rules: str = "cpu"
    device: Callable[[Target], str] = lambda target: "cpu"
    assembly: Callable[[Function, Target], list[AssemblyLine]] | None = None


BACKENDS = {
    "llvm": ".llvm.backend",
    "cuda": ".cuda.backend",
    "c": ".c.backend",
    "interpret": ".interpret",
    "vdla": ".vdla.backend",
}
"""The module that holds the row of each kind of target, its BACKEND: loaded when somebody names it."""


@cache
def backend_named(name: str) -> Backend:
    """The row of a kind of target, one of BACKENDS."""
    return cast(Backend, import_on_thread(BACKENDS[name], __package__ or "").BACKEND)


@dataclass(frozen=True)
class Target:
    """Processor and language to compile for. Two targets of the same text are equal.

    kind: a name in BACKENDS. options: what follows it, each with its value, in the order of the backend's own; a flag has no value.
    """

    kind: str = "llvm"
    options: tuple[tuple[str, str], ...] = ()

    @classmethod
    def parse(cls, text: str | Target) -> Target:
        """The target that `text` names. Raises a CodegenError that lists the choices where it names none."""
        if isinstance(text, Target):
            return text
        words = text.split() if isinstance(cast(object, text), str) else []
        if not words or words[0] not in BACKENDS:
            raise UnknownTargetKind(
                f"unknown target {text!r}",
                called=user_source(),
                allowed=_listing((name, backend_named(name).purpose) for name in BACKENDS),
                fix=nearest(words[0] if words else "llvm", BACKENDS, 'target="{}"'),
            )
        backend = backend_named(words[0])
        target = cls(backend.name, _options(words[1:], backend.name, backend.options, backend.flags, text))
        backend.check(target)
        return target

    def __str__(self) -> str:
        return " ".join([self.kind, *(f"-{key}={value}" if value else f"-{key}" for key, value in self.options)])

    def option(self, name: str) -> str:
        """The value of an option; empty where it is not given."""
        return next((value for key, value in self.options if key == name), "")

    def has_flag(self, name: str) -> bool:
        """Return whether a flag is given."""
        return any(key == name for key, _ in self.options)

    @property
    def backend(self) -> Backend:
        """Backend that compiles for it, with its properties."""
        return backend_named(self.kind)

    @property
    def fuses(self) -> bool:
        """Return whether a product that is the declared term of a te.sum is fused into it: one rounding in place of two."""
        return self.backend.fuses(self)

    @property
    def is_native(self) -> bool:
        """Return whether its kernels are machine code for this machine's processor."""
        return self.backend.for_processors and self.runs_here

    # Of a processor, as LLVM describes it

    @property
    def cpu(self) -> str:
        """The processor by LLVM's name; empty for this machine's."""
        return self.option("mcpu")

    @property
    def features(self) -> tuple[str, ...]:
        """The features that are added and removed, +name or -name each."""
        return tuple(filter(None, self.option("mattr").split(",")))

    @property
    def triple(self) -> str:
        """The machine by LLVM's name, or the one that has the processor; empty for this one."""
        return self.option("mtriple") or ("" if self.cpu in ("", full_processor().cpu) else names.find_triple(self.cpu))

    @property
    def sve_length(self) -> str:
        """One of sve.LENGTHS, or ANY_LENGTH; empty for the processor's, where that is known."""
        return self.option("msve-vector-bits")

    @property
    def is_foreign(self) -> bool:
        """Return whether the code is for another architecture or system than this process's."""
        if not self.triple:
            return False
        return names.machine_and_system(names.process_triple()) != names.machine_and_system(self.triple)

    @cached_property
    def llvm_triple(self) -> str:
        """The machine as LLVM spells it."""
        return self.triple or names.process_triple()

    @cached_property
    def llvm_cpu(self) -> str:
        """The processor whose instructions and costs LLVM assumes: this machine's unless said otherwise."""
        if self.cpu:
            return names.ALIASES.get(self.cpu, (self.cpu,))[0]
        return "" if self.is_foreign else this_processor().cpu

    @cached_property
    def llvm_features(self) -> str:
        """The features as LLVM takes them: this machine's, where no other processor is named, then the ones given."""
        inherited = "" if self.cpu or self.is_foreign else this_processor().feature_text
        if self.cpu in names.ALIASES:
            inherited = names.ALIASES[self.cpu][1]
        elif not self.cpu and self.is_foreign:
            inherited = BASELINES.get(self.architecture, "")
        return ",".join(filter(None, [inherited, *self.features]))

    @property
    def architecture(self) -> str:
        """x86_64, aarch64 ..."""
        return names.machine_and_system(self.llvm_triple)[0]

    @property
    def runs_here(self) -> bool:
        """Return whether this machine has every instruction that the code may use."""
        if self.is_foreign or self.sve_bits not in (0, host().sve_bits()):
            return False
        return not (self.cpu or self.features) or this_processor().runs(self.llvm_cpu, self.llvm_features)

    @property
    def vector_bits(self) -> int:
        """Width of the machine's widest vector registers: 512, 256 or 128."""
        return _vector_bits(self)

    @property
    def sve_bits(self) -> int:
        """Bits of SVE's registers, where the code is for one length of them; 0 where it is for all, or has none."""
        return _sve_bits(self)

    @property
    def rvv_bits(self) -> int:
        """Bits that RVV's registers have at least, on a processor that has them; else 0."""
        return _rvv_bits(self)

    @property
    def cores(self) -> int:
        """The number of cores that the target names; 0 where it names none."""
        return int(self.option("cores") or 0)

    def cache_bytes(self, level: int) -> int | None:
        """The size of a cache, 1 to 3, that the target says; None where it says nothing."""
        text = self.option(f"l{level}")
        return int(text.rstrip("KMG")) << {"K": 10, "M": 20, "G": 30}.get(text[-1:], 0) if text else None

    @property
    def masks_vectors(self) -> bool:
        """Return whether the machine masks whole vectors at no cost."""
        return self.vector_bits >= 512 or self.sve_bits >= 256 or self.rvv_bits > 0

    @property
    def vector_registers(self) -> int:
        """The number of vector registers of the machine."""
        return 16 if self.architecture == "x86_64" and self.vector_bits < 512 else 32

    def lanes(self, bits: int) -> int:
        """Return the number of values of `bits` bits that a vector register holds."""
        return max(self.vector_bits // max(bits, 8), 1)

    @property
    def data_layout(self) -> str:
        """The machine's data layout as LLVM writes it."""
        return _data_layout(self)

    @run_in_turn
    def machine(self, level: int = 3) -> llvm.TargetMachine:
        """A fresh LLVM machine, for position-independent code of the small code model. level: of its efforts, from 0 to 3."""
        names.initialize(self.is_foreign)
        features = ",".join(filter(None, [names.TUNING.get(self.llvm_cpu), self.llvm_features]))
        return llvm.Target.from_triple(self.llvm_triple).create_target_machine(
            cpu=self.llvm_cpu, features=features, opt=level, reloc="pic", codemodel="default"
        )


def _options(
    words: Iterable[str],
    name: str,
    known: Mapping[str, str],
    flags: Sequence[str],
    text: str,
) -> tuple[tuple[str, str], ...]:
    """Options as they are written, in the order of those that are known; of one that is given twice the last."""
    given = dict(_option(word, name, known, flags, text) for word in words)
    values = {key: ",".join(filter(None, value.split(","))) for key, value in given.items()}
    return tuple((key, values[key]) for key in known if key in values and (values[key] or key in flags))


def _option(word: str, name: str, known: Mapping[str, str], flags: Sequence[str], text: str) -> tuple[str, str]:
    key, equals, value = word.lstrip("-").partition("=")
    if not word.startswith("-") or key not in known or bool(equals) == (key in flags):
        raise UnknownTargetOption(
            f"target {text!r}: {name} does not take {word!r}",
            called=user_source(),
            allowed=_listing((f"-{each}{'' if each in flags else '=...'}", known[each]) for each in known)
            or "no options",
            fix=nearest(key, known, "-{}=...") if known else f'target="{name}"',
        )
    return key, value


def _listing(rows: Iterable[tuple[str, str]]) -> str:
    return "; ".join(f"{name} ({purpose})" for name, purpose in rows)


ROUNDING = {"mattr": "-fma: sums round products, as on a machine without fused multiply-add"}
"""The option of targets that are for no processor: how they round."""


def check_rounding(target: Target) -> None:
    """Raise a CodegenError for features of a target that has none but to fuse."""
    wrong = next((feature for feature in target.features if feature not in ("+fma", "-fma")), None)
    if wrong is not None:
        raise UnknownTargetOption(
            f"target {str(target)!r}: {target.kind} is for no processor that could have {wrong!r}",
            called=user_source(),
            allowed="+fma, -fma",
            fix=f'target="{target.kind} -mattr=-fma"',
        )


def rounds_fused(target: Target) -> bool:
    """Return whether a target that is for no processor fuses: unless it is told not to."""
    return not target.features or target.features[-1] == "+fma"


def check_processor(target: Target) -> None:
    """Check that LLVM knows the machine, the processor, its features, and the length of its vectors, and that caches and cores are
    numbers. Raises a CodegenError."""
    if target.option("mtriple"):
        names.check_triple(str(target), target.triple)
    _check_names(target)
    _check_length(target)
    for key, form, example in (("cores", _COUNT, "4"), *((f"l{level}", _SIZE, "512K") for level in (1, 2, 3))):
        if target.option(key) and not form.fullmatch(target.option(key)):
            raise UnknownTargetOption(
                f"target {str(target)!r}: {target.option(key)!r} is not a number of {'cores' if key == 'cores' else 'bytes'}",
                called=user_source(),
                allowed="-cores=1 to 65535; -l1, -l2 and -l3 bytes, or 32K, 4M, 1G; -l3=0 where there is none",
                fix=f"-{key}={example}",
            )


_COUNT, _SIZE = re.compile(r"[1-9]\d{0,4}"), re.compile(r"0|[1-9]\d{0,11}|[1-9]\d{0,5}[KMG]")


def _check_names(target: Target) -> None:
    host = full_processor()
    if target.cpu and target.cpu not in names.ALIASES and (target.cpu != host.cpu or target.is_foreign):
        names.check_processor(str(target), target.cpu, target.llvm_triple)
    names.check_features(str(target), target.features, target.llvm_triple, {} if target.is_foreign else host.features)


def _check_length(target: Target) -> None:
    length = target.sve_length
    known = length in (ANY_LENGTH, *LENGTHS)
    if not length or (known and _has_sve(target)):
        return
    raise UnknownTargetOption(
        f"target {str(target)!r}: no vectors of {length!r} bits",
        reason="the processor has no SVE" if known else "code is not made for such a length",
        called=user_source(),
        allowed=f"-msve-vector-bits={', '.join(LENGTHS)} or {ANY_LENGTH}, where there is SVE",
        fix="-mattr=+sve" if known else nearest(length, LENGTHS, "-msve-vector-bits={}"),
    )


# This machine


@cache
def this_processor() -> Processor:
    """The processor that code for "llvm" is made for: this machine's, or the part of it that TILEWRIGHT_HOST leaves.

    Raises a CodegenError where the variable names a processor that LLVM does not know, or one that has what this one lacks.
    """
    return remaining_processor(os.environ.get(VARIABLE, ""))


def remaining_processor(text: str) -> Processor:
    """Return the part of this machine's processor that `text`, "-mcpu=haswell -mattr=-fma", leaves; all of it where it is empty."""
    whole = full_processor()
    if not text.strip():
        return whole
    known = {key: purpose for key, purpose in backend_named("llvm").options.items() if key in ("mcpu", "mattr")}
    asked = Target("llvm", _options(text.split(), VARIABLE, known, (), text))
    _check_names(asked)
    cpu, inherited = (asked.cpu, "") if asked.cpu else (whole.cpu, whole.feature_text)
    features = ",".join(filter(None, [inherited, *asked.features]))
    if not whole.runs(cpu, features):
        raise ForeignTarget(
            f"{VARIABLE}={text!r}: this machine lacks instructions of that processor",
            called=user_source(),
            reason=f"this machine is {whole.cpu}, {names.process_triple()}",
            allowed="an older processor of its kind (-mcpu=...), or features removed (-mattr=-...)",
            fix=f"unset {VARIABLE}",
        )
    return restrict_processor(whole, cpu, features)


# What LLVM makes of a target


_WIDE_SUM = """
define void @probe(ptr %p){attributes} {{
  %a = load <16 x float>, ptr %p
  %b = fadd <16 x float> %a, %a
  store <16 x float> %b, ptr %p
  ret void
}}
"""


@cache
@run_in_turn
def _data_layout(target: Target) -> str:
    return str(target.machine().target_data)


@cache
def _vector_bits(target: Target) -> int:
    """Seen in the registers that LLVM takes for 16 floats, so that it holds for every processor and feature."""
    if target.architecture not in ("x86_64", "i386"):
        return max(target.sve_bits, target.rvv_bits, 128)
    assembly = _wide_sum(target, "")
    return 512 if "%zmm" in assembly else 256 if "%ymm" in assembly else 128


@run_in_turn
def _wide_sum(target: Target, attributes: str) -> str:
    """The assembly of a sum of 16 floats."""
    text = _WIDE_SUM.format(attributes=attributes)
    with llvm.create_context() as context, llvm.parse_assembly(text, context) as module:
        return target.machine().emit_assembly(module)


@cache
def _has_sve(target: Target) -> bool:
    """Seen in whether LLVM takes its registers once it knows their length."""
    return (
        target.architecture == "aarch64" and re.search(r"\bz\d", _wide_sum(target, length_attribute(512))) is not None
    )


@cache
def _sve_bits(target: Target) -> int:
    if not target.backend.for_processors or target.sve_length == ANY_LENGTH or not _has_sve(target):
        return 0
    if target.sve_length:
        return int(target.sve_length)
    if target.llvm_cpu in NEON_FIRST:
        return 0
    here = not (target.cpu or target.is_foreign)
    bits = host().sve_bits() if here else CORES.get(target.cpu, 0)
    return bits if 128 < bits <= int(LENGTHS[-1]) else 0


@cache
def _rvv_bits(target: Target) -> int:
    """Seen in how many registers LLVM takes for 16 floats."""
    if not target.backend.for_processors or not target.architecture.startswith("riscv"):
        return 0
    return rvv.register_bits(_wide_sum(target, ""))
