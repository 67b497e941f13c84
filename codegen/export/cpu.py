"""The instruction sets that code needs, and the code that asks the processor for them.

A library asks once, before its first kernel runs; the functions that ask use baseline instructions alone, whatever the
rest was compiled for.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

import llvmlite.binding as llvm

from ...base.errors import user_source
from ...runtime.critical_section import run_in_turn
from ..instructions import attributes, least, stronger_callees
from ..processor_facts import AARCH64, APPLE, RISCV, WINDOWS_ARM, X86, Fact
from ..rvv import LINUX_BASELINE
from ..target import Target
from .errors import NoProcessorCheck
from .platforms import LINUX, find_platform

__all__ = ["ABSENT", "MISSING", "baseline", "baseline_target", "cpu_text", "needed_features"]

MISSING = "tw_cpu_missing"
"""i64 (): bit k is set where this processor, or its operating system, lacks feature k."""
ABSENT = "tw_cpu_absent"
"""i64 (): what MISSING said when it was asked, once."""


_LENGTH, _LEAST = "sve-vector-bits=", "rvv-vector-bits="
"""The features of having vectors of one length, and of at least one; the length follows."""
_TABLES = {
    "x86_64": (X86, "x86-64", ""),
    "aarch64": (AARCH64, "generic", ""),
    "riscv64": (RISCV, "generic-rv64", LINUX_BASELINE),
}
"""By architecture: what can be asked for, the processor that has nothing but the baseline, and what features that takes."""
_OTHER_FACTS = {("aarch64", "macOS"): APPLE, ("aarch64", "Windows"): WINDOWS_ARM}
"""What can be asked for on systems that tell otherwise."""


def baseline(target: Target) -> str:
    """Attributes of a function that runs before the processor is known to have what the target has."""
    _, cpu, features = _table(target)
    return f'nounwind "target-cpu"="{cpu}" "target-features"="{features}"'


def baseline_target(target: Target) -> Target:
    """The processor of the target's machine that has nothing but the baseline."""
    _, cpu, features = _table(target)
    machine = f" -mtriple={target.triple}" if target.triple else ""
    return Target.parse(f"llvm -mcpu={cpu} -mattr={features}{machine}" if features else f"llvm -mcpu={cpu}{machine}")


def _table(target: Target) -> tuple[dict[str, Fact], str, str]:
    unknown = target.architecture not in _TABLES
    # CPUID is assembled by LLVM's parser of this machine's assembler
    if unknown or (target.architecture == "x86_64" and Target().architecture != "x86_64"):
        raise NoProcessorCheck(
            f"cannot export code for {target.architecture}",
            reason="a library asks the processor for the instruction sets that it needs, and how to ask this one is not known"
            if unknown
            else "the instruction that asks the processor what it has can be assembled on x86_64 alone",
            called=user_source(),
            allowed=", ".join(_TABLES) if unknown else "aarch64, riscv64; x86_64 where that is this machine",
        )
    facts, cpu, features = _TABLES[target.architecture]
    platform = find_platform(target) or LINUX  # other systems are asked as Linux is
    return _OTHER_FACTS.get((target.architecture, platform.name), facts), cpu, features


@cache
def needed_features(target: Target) -> tuple[str, ...]:
    """The features beyond the baseline that code for `target` may use, of those that a processor can be asked for."""
    table, *_ = _table(target)
    # a function with just this feature, to see whether the target's code may be inlined into it
    callees = [least(target.architecture, name) for name in table]
    lacking = set(stronger_callees(attributes(target.llvm_cpu, target.llvm_features), callees, target.machine()))
    length = (f"{_LENGTH}{target.sve_bits}",) if target.sve_bits else ()
    if target.rvv_bits > 128:  # as many every one has
        length = (f"{_LEAST}{target.rvv_bits}",)
    # the order of the table gives each feature its bit
    return (*(name for k, name in enumerate(table) if k not in lacking), *length)


def cpu_text(target: Target, features: Sequence[str]) -> str:
    """ABSENT and MISSING as LLVM IR, for at most 63 features."""
    table, *_ = _table(target)
    run_in_turn(llvm.initialize_native_asmparser)()  # CPUID is inline assembly
    facts = [table[name] for name in features if name in table]
    words = sorted({fact.word for fact in facts})  # several facts may stand in one word, which is asked once
    lines = _x86_words(words) if target.architecture == "x86_64" else _system_words(words)
    total = "0"
    for k, fact in enumerate(facts):
        lines += [
            f"  %s{k} = lshr i64 %w{words.index(fact.word)}, {fact.shift}",
            f"  %v{k} = and i64 %s{k}, {(1 << fact.width) - 1}",  # a field of some bits, such as Apple's numbers
            f"  %t{k} = icmp ult i64 %v{k}, {fact.least}",
            # registers that the system has to save: AVX's upper halves are lost otherwise
            f"  %x{k} = and i64 {'%xcr0' if fact.os else '0'}, {fact.os}",
            f"  %o{k} = icmp ne i64 %x{k}, {fact.os}",
            f"  %m{k} = or i1 %t{k}, %o{k}",
            f"  %z{k} = zext i1 %m{k} to i64",
            f"  %p{k} = shl i64 %z{k}, {k}",
            f"  %a{k} = or i64 {total}, %p{k}",
        ]
        total = f"%a{k}"
    lengths = [int(name.partition("=")[2]) for name in features if name.startswith((_LENGTH, _LEAST))]
    if lengths:
        # the word that says whether there are vectors at all
        vectors = table["v" if target.architecture == "riscv64" else "sve"]
        total = _length_asked(lines, total, words.index(vectors.word), vectors.shift, lengths[0], len(facts))
    body = "\n".join(lines)
    attributes = baseline(target)
    declared = "" if target.architecture == "x86_64" else _declarations(words)
    if lengths:
        declared += _LENGTH_HERE.format(attributes=_WITH_VECTORS[target.architecture])
    return f"""{declared}
@tw_cpu_state = internal global i64 0

define i64 @{MISSING}() noinline {attributes} {{
entry:
{body}
  ret i64 {total}
}}

define i64 @{ABSENT}() {attributes} {{
entry:
  %state = load atomic i64, ptr @tw_cpu_state monotonic, align 8
  %known = icmp slt i64 %state, 0
  br i1 %known, label %told, label %ask
ask:
  %missing = call i64 @{MISSING}()
  %found = or i64 %missing, {-(1 << 63)}
  store atomic i64 %found, ptr @tw_cpu_state monotonic, align 8
  br label %told
told:
  %final = phi i64 [ %state, %entry ], [ %found, %ask ]
  %absent = and i64 %final, {(1 << 63) - 1}
  ret i64 %absent
}}
"""


_REGISTERS = ("eax", "ebx", "ecx", "edx")
# rbx may be the frame's base pointer: it is put back before the compiler sees it.
_CPUID = (
    '{ i32, i32, i32, i32 } asm sideeffect "xchgq %rbx, ${1:q}\\0Acpuid\\0Axchgq %rbx, ${1:q}", '
    '"={ax},=r,={cx},={dx},0,2,~{dirflag},~{fpsr},~{flags}"'
)
_XGETBV = '{ i32, i32 } asm sideeffect ".byte 0x0f, 0x01, 0xd0", "={ax},={dx},{cx},~{dirflag},~{fpsr},~{flags}"'


def _x86_words(words: Sequence[str]) -> list[str]:
    """%w0, %w1 ... by CPUID, zero where the processor does not know the leaf; and %xcr0."""
    # baseline code must not fault on a leaf the processor does not know
    lines = [
        f"  %leaf1 = call {_CPUID}(i32 1, i32 0)",
        "  %has1 = extractvalue { i32, i32, i32, i32 } %leaf1, 2",
        "  %saves = and i32 %has1, 134217728",  # bit 27 is OSXSAVE: XGETBV may be executed
        "  %os = icmp ne i32 %saves, 0",
        "  br i1 %os, label %saved, label %asked",
        "saved:",
        f"  %xgetbv = call {_XGETBV}(i32 0)",
        "  %xcr0low = extractvalue { i32, i32 } %xgetbv, 0",
        "  br label %asked",
        "asked:",
        "  %xcr0word = phi i32 [ 0, %entry ], [ %xcr0low, %saved ]",
        "  %xcr0 = zext i32 %xcr0word to i64",
    ]
    for i, word in enumerate(words):
        leaf, *sub, register = word.split(".")
        number, index = int(leaf, 16), int(sub[0]) if sub else 0  # a leaf without a subleaf has index 0
        # the greatest leaf, or for a second leaf its greatest index, stands in eax
        # 0x80000000 has the greatest of the extended leaves
        ask = f"i32 {number if index else number & 0x80000000}, i32 0"
        lines += [
            f"  %limits{i} = call {_CPUID}({ask})",
            f"  %limit{i} = extractvalue {{ i32, i32, i32, i32 }} %limits{i}, 0",
            f"  %has{i}w = icmp uge i32 %limit{i}, {index or number}",
            f"  %leaf{i}w = call {_CPUID}(i32 {number}, i32 {index})",
            f"  %raw{i} = extractvalue {{ i32, i32, i32, i32 }} %leaf{i}w, {_REGISTERS.index(register)}",
            f"  %word{i} = select i1 %has{i}w, i32 %raw{i}, i32 0",
            f"  %w{i} = zext i32 %word{i} to i64",
        ]
    return lines


_LENGTH_HERE = """
define internal i64 @tw_cpu_vector_scale() noinline nounwind {attributes} {{
  %words = call i64 @llvm.vscale.i64()
  ret i64 %words
}}
declare i64 @llvm.vscale.i64()
"""
"""The length of SVE's registers in 128 bits, or of RVV's in 64, by an instruction of theirs: to be called where there are any."""
_WITH_VECTORS = {
    "aarch64": '"target-cpu"="generic" "target-features"="+sve"',
    "riscv64": f'"target-cpu"="generic-rv64" "target-features"="{LINUX_BASELINE},+v"',
}


# the instruction that tells the length is executed only where there are vectors
def _length_asked(lines: list[str], total: str, word: int, bit: int, bits: int, shift: int) -> str:
    """`total` with bit `shift` set where SVE's registers do not have `bits` bits, or RVV's have fewer, or there are none. bit: of the
    word, which says whether there are."""
    # RVV's vscale counts 64 bits, and longer registers run the code too
    unit, wrong = (64, "ult") if bit == RISCV["v"].shift else (128, "ne")
    lines += [
        f"  %vector.bit = and i64 %w{word}, {1 << bit}",
        "  %vector.there = icmp ne i64 %vector.bit, 0",
        "  br label %vector.before",  # a block of its own, as phi wants one name for where it came from
        "vector.before:",
        "  br i1 %vector.there, label %vector.ask, label %vector.asked",
        "vector.ask:",
        "  %vector.length = call i64 @tw_cpu_vector_scale()",
        "  br label %vector.asked",
        "vector.asked:",
        "  %vector.found = phi i64 [ 0, %vector.before ], [ %vector.length, %vector.ask ]",
        f"  %vector.other = icmp {wrong} i64 %vector.found, {bits // unit}",
        "  %vector.wrong = zext i1 %vector.other to i64",
        f"  %vector.shifted = shl i64 %vector.wrong, {shift}",
        f"  %vector.total = or i64 {total}, %vector.shifted",
    ]
    return "%vector.total"


_HWPROBE, _EXTENSIONS = 258, 4
"""The number of Linux's call riscv_hwprobe, and its key of extensions beyond RV64GC's."""


def _declarations(words: Sequence[str]) -> str:
    """The functions of the system that are called for words, and the names that are passed to them."""
    lines = [
        f'@tw_cpu_name{i} = private constant [{len(name) + 1} x i8] c"{name}\\00"'
        for i, word in enumerate(words)
        for kind, _, name in [word.partition(".")]  # only Apple's facts are asked by name
        if kind == "sysctl"
    ]
    kinds = {word.partition(".")[0] for word in words}
    # getauxval is called for kinds that are no name here
    lines += [_CALLED["getauxval"]] if kinds - _CALLED.keys() else []
    return "\n".join([*lines, *(text for kind, text in _CALLED.items() if kind in kinds), ""])


_CALLED = {
    "getauxval": "declare i64 @getauxval(i64)",
    "hwprobe": "declare i64 @syscall(i64, ...)",
    "sysctl": "declare i32 @sysctlbyname(ptr, ptr, ptr, ptr, i64)",
    "feature": "declare i32 @IsProcessorFeaturePresent(i32)",
}


def _system_words(words: Sequence[str]) -> list[str]:
    """%w0, %w1 ... by getauxval, in which Linux tells what an ARM processor has, by riscv_hwprobe (nothing before Linux 6.4), by
    Apple's sysctlbyname, and by IsProcessorFeaturePresent of Windows."""
    lines: list[str] = []
    for i, word in enumerate(words):
        kind, _, name = word.partition(".")
        if kind == "hwprobe":
            lines += [
                "  %pair = alloca [2 x i64], align 8",
                "  %pair.value = getelementptr i64, ptr %pair, i64 1",
                f"  store i64 {_EXTENSIONS}, ptr %pair",
                "  store i64 0, ptr %pair.value",  # before Linux 6.4 the call fails, and leaves the 0
                f"  %probed = call i64 (i64, ...) @syscall(i64 {_HWPROBE}, ptr %pair, i64 1, i64 0, ptr null, i64 0)",
                f"  %w{i} = load i64, ptr %pair.value",
            ]
        elif kind == "sysctl":
            lines += [
                f"  %value{i} = alloca i64, align 8",
                f"  %size{i} = alloca i64, align 8",
                f"  store i64 0, ptr %value{i}",
                f"  store i64 4, ptr %size{i}",  # sysctl writes 4 bytes for the facts that are asked
                f"  %asked{i} = call i32 @sysctlbyname(ptr @tw_cpu_name{i}, ptr %value{i}, ptr %size{i}, ptr null, i64 0)",
                f"  %w{i} = load i64, ptr %value{i}",
            ]
        elif kind == "feature":
            lines += [
                f"  %has{i} = call i32 @IsProcessorFeaturePresent(i32 {name})",
                f"  %w{i} = zext i32 %has{i} to i64",
            ]
        else:
            lines.append(f"  %w{i} = call i64 @getauxval(i64 {word})")  # the word is the key: AT_HWCAP or AT_HWCAP2
    return lines
