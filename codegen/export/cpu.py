"""The instruction sets that code needs, and the code that asks the processor for them.

A library asks once, before its first kernel runs; the functions that ask use baseline instructions alone, whatever the
rest was compiled for.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

from ...base.errors import user_source
from ..instructions import attributes, least, stronger_callees
from ..processor_facts import AARCH64, APPLE, BASELINES, RISCV, WINDOWS_ARM, X86, Fact
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
    "riscv64": (RISCV, "generic-rv64", BASELINES["riscv64"]),
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
    if target.architecture not in _TABLES:
        raise NoProcessorCheck(
            f"cannot export code for {target.architecture}",
            reason="a library asks the processor for the instruction sets that it needs, and how to ask this one is not known",
            called=user_source(),
            allowed=", ".join(_TABLES),
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
    declared = _x86_functions(attributes) if target.architecture == "x86_64" else _declarations(words)
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


_X86_FUNCTIONS = """
define internal x86_64_sysvcc {{ i64, i64 }} @tw_cpuid(i32 %leaf, i32 %subleaf) naked noinline {attributes} prologue {cpuid} {{
  unreachable
}}
define internal i32 @tw_xgetbv() naked noinline {attributes} prologue {xgetbv} {{
  unreachable
}}
"""
"""Machine code in bytes: inline assembly is parsed by LLVM for the machine alone that it runs on, and libraries are made on others."""
_CPUID = (
    "53"  # push rbx, which the caller keeps
    "89F8 89F1 0FA2"  # mov eax, edi; mov ecx, esi; cpuid
    "48C1E320 4809D8"  # shl rbx, 32; or rax, rbx
    "48C1E220 4809CA"  # shl rdx, 32; or rdx, rcx
    "5B C3"  # pop rbx; ret
)
"""eax and ebx in one word, ecx and edx in the other, by the calling convention of System V."""
_XGETBV = "31C9 0F01D0 C3"  # xor ecx, ecx; xgetbv; ret
_ASK = "x86_64_sysvcc { i64, i64 } @tw_cpuid"
_HALVES = {"eax": (0, 0), "ebx": (0, 32), "ecx": (1, 0), "edx": (1, 32)}
"""A register's word of _CPUID's result, and its first bit there."""


def _x86_functions(attributes: str) -> str:
    return _X86_FUNCTIONS.format(attributes=attributes, cpuid=_byte_array(_CPUID), xgetbv=_byte_array(_XGETBV))


def _byte_array(code: str) -> str:
    """A constant of LLVM IR with the bytes that `code` has in hexadecimal digits."""
    escaped = [f"\\{byte:02X}" for byte in bytes.fromhex(code)]
    return f'[{len(escaped)} x i8] c"{"".join(escaped)}"'


def _x86_words(words: Sequence[str]) -> list[str]:
    """%w0, %w1 ... by CPUID, zero where the processor does not know the leaf; and %xcr0."""
    # baseline code must not fault on a leaf the processor does not know
    lines = [
        f"  %leaf1 = call {_ASK}(i32 1, i32 0)",
        "  %has1 = extractvalue { i64, i64 } %leaf1, 1",
        "  %saves = and i64 %has1, 134217728",  # bit 27 is OSXSAVE: XGETBV may be executed
        "  %os = icmp ne i64 %saves, 0",
        "  br i1 %os, label %saved, label %asked",
        "saved:",
        "  %xcr0low = call i32 @tw_xgetbv()",
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
        half, shift = _HALVES[register]
        lines += [
            f"  %limits{i} = call {_ASK}({ask})",
            f"  %limit{i} = extractvalue {{ i64, i64 }} %limits{i}, 0",
            f"  %greatest{i} = trunc i64 %limit{i} to i32",
            f"  %has{i}w = icmp uge i32 %greatest{i}, {index or number}",
            f"  %leaf{i}w = call {_ASK}(i32 {number}, i32 {index})",
            f"  %both{i} = extractvalue {{ i64, i64 }} %leaf{i}w, {half}",
            f"  %raw{i} = lshr i64 %both{i}, {shift}",
            f"  %word{i} = and i64 %raw{i}, 4294967295",
            f"  %w{i} = select i1 %has{i}w, i64 %word{i}, i64 0",
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
    "riscv64": f'"target-cpu"="generic-rv64" "target-features"="{BASELINES["riscv64"]},+v"',
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
