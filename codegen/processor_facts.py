"""Facts by which processors tell what instructions they have: words of CPUID, of Linux's auxiliary vector and hwprobe, of sysctl."""

from __future__ import annotations

from ..base.dataclass import dataclass
from ..runtime.hosts import host

__all__ = ["AARCH64", "APPLE", "BASELINES", "RISCV", "WINDOWS_ARM", "X86", "Fact", "told_features"]


BASELINES = {"aarch64": "+fp-armv8,+neon", "riscv64": "+m,+a,+f,+d,+c,+zicsr,+zifencei"}
"""By architecture, as LLVM takes them, features of every processor that runs Linux's distributions. aarch64's are those of LLVM's
generic processor, named for those who ask; RISC-V's are RV64GC, where LLVM's own has whole numbers alone."""


@dataclass(frozen=True, slots=True)
class Fact:
    """A field of `width` bits from `shift` on in a word that the processor tells; the feature is there where it is at
    least `least`. os: bits of XCR0 (the registers that the operating system saves) that must be set, too."""

    word: str
    shift: int
    os: int = 0
    width: int = 1
    least: int = 1


_YMM, _ZMM, _AMX, _APX = 0x6, 0xE6, 0x60000, 0x80000


def _facts(word: str, os: int = 0, **shifts: int) -> dict[str, Fact]:
    return {name.replace("__", ".").replace("_", "-"): Fact(word, shift, os) for name, shift in shifts.items()}


X86 = {
    **_facts("1.ecx", sse3=0, pclmul=1, ssse3=9, sse4__1=19, sse4__2=20, movbe=22, popcnt=23, aes=25),
    **_facts("1.ecx", _YMM, fma=12, avx=28, f16c=29),
    **_facts("7.ebx", bmi=3, bmi2=8, adx=19, sha=29),
    **_facts("7.ebx", _YMM, avx2=5),
    **_facts("7.ebx", _ZMM, avx512f=16, avx512dq=17, avx512ifma=21, avx512cd=28, avx512bw=30, avx512vl=31),
    **_facts("7.ecx", _ZMM, avx512vbmi=1, avx512vbmi2=6, avx512vnni=11, avx512bitalg=12, avx512vpopcntdq=14),
    **_facts("7.ecx", gfni=8),
    **_facts("7.ecx", _YMM, vaes=9, vpclmulqdq=10),
    **_facts("7.edx", _ZMM, avx512vp2intersect=8, avx512fp16=23),
    **_facts("7.edx", _AMX, amx_bf16=22, amx_tile=24, amx_int8=25),
    **_facts("7.1.eax", _YMM, sha512=0, sm3=1, sm4=2, avxvnni=4, avxifma=23),
    **_facts("7.1.eax", cmpccxadd=7),
    **_facts("7.1.eax", _ZMM, avx512bf16=5),
    **_facts("7.1.eax", _AMX, amx_fp16=21),
    **_facts("7.1.edx", _YMM, avxvnniint8=4, avxneconvert=5, avxvnniint16=10),
    **_facts("7.1.edx", _APX, egpr=21, push2pop2=21, ppx=21, ndd=21, ccmp=21, nf=21, zu=21),
    **_facts("80000001.ecx", lzcnt=5, sse4a=6, tbm=21),
    **_facts("80000001.ecx", _YMM, xop=11, fma4=16),
    **{f"avx10.{version}": Fact("24.ebx", 0, _ZMM, width=8, least=version) for version in (1, 2)},
}
AARCH64 = {
    **_facts(
        "16",
        aes=3,
        sha2=6,
        crc=7,
        lse=8,
        fullfp16=10,
        rdm=12,
        jsconv=13,
        complxnum=14,
        rcpc=15,
        dotprod=20,
        sve=22,
        fp16fml=23,
    ),
    **_facts("26", sve2=1, i8mm=13, bf16=14),
}
RISCV = {
    **_facts("16", v=21),
    **_facts("hwprobe", zba=3, zbb=4, zbs=5, zfh=27, zfhmin=28, zvfh=30, zvfhmin=31, zfa=32, zicond=35),
    **_facts("hwprobe", zbc=7, zvbb=17, zvkb=19),
}
APPLE = {
    name: Fact(f"sysctl.hw.optional.{'' if name == 'crc' else 'arm.'}{told}", 0)
    for name, told in {
        "aes": "FEAT_AES",
        "sha2": "FEAT_SHA256",
        "crc": "armv8_crc32",
        "lse": "FEAT_LSE",
        "fullfp16": "FEAT_FP16",
        "rdm": "FEAT_RDM",
        "jsconv": "FEAT_JSCVT",
        "complxnum": "FEAT_FCMA",
        "rcpc": "FEAT_LRCPC",
        "dotprod": "FEAT_DotProd",
        "fp16fml": "FEAT_FHM",
        "i8mm": "FEAT_I8MM",
        "bf16": "FEAT_BF16",
    }.items()
}
WINDOWS_ARM = {
    name: Fact(f"feature.{number}", 0)
    for name, number in {"aes": 30, "sha2": 30, "crc": 31, "lse": 34, "dotprod": 43, "jsconv": 44, "rcpc": 45}.items()
}
"""By the numbers of IsProcessorFeaturePresent: what it has none for, such as I8MM before Windows 11's, is refused."""


def told_features() -> dict[str, bool]:
    """Features of this processor that its system tells of, and whether they are there; none on x86, where LLVM asks the processor.

    LLVM knows Arm's cores by the text of /proc/cpuinfo, and takes one that came after it for one that has next to nothing."""
    tables = (AARCH64, APPLE, WINDOWS_ARM) if host().machine() == "aarch64" else ()
    told = {word[1:]: True for word in BASELINES["aarch64"].split(",")} if tables else {}
    for table in tables:
        for name, fact in table.items():
            word = host().processor_word(fact.word)
            if word is not None:
                told[name] = word >> fact.shift & (1 << fact.width) - 1 >= fact.least
    return told
