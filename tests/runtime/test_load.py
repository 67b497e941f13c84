"""tw.load: without the compiler, with the same checks and texts, and never with a crash."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import numpy as np
import pytest
import tilewright as tw
from exported import needs_x86, run, scale_add
from tilewright import te
from tilewright.codegen.export.cpu import needed_features
from tilewright.codegen.target import Target
from tilewright.runtime.metadata import MAGIC, SECTION, seal_file

WITHOUT_LLVMLITE = """
import sys
class Blocked:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] == "llvmlite":
            raise ImportError("llvmlite is blocked")
sys.meta_path.insert(0, Blocked())
import numpy as np, tilewright as tw
f = tw.load(sys.argv[1])
a, b, c = np.ones((5, 6), "float32"), np.arange(6, dtype="float32"), np.empty((5, 6), "float32")
f(a, 2.0, b, c)
assert (c == 2 + b).all()
f(a, C=c, factor=3.0, B=b)
assert (c == 3 + b).all()
try:
    f(a, 2.0, b[::-1], c)
except tw.CallError as error:
    print(error.code, error)
assert f.time(a, 2.0, b, c, repeat=3, min_repeat_ms=0).min > 0
assert not [name for name in sys.modules if name.startswith("llvmlite")]
ours = {name.split(".")[1] for name in sys.modules if name.startswith("tilewright.")}
floors = "base runtime importing"
assert ours == set(floors.split()), ours
try:
    import tilewright.driver.build
except ImportError as error:
    print(error)
"""


@pytest.fixture
def library(tmp_path: Path) -> Path:
    return scale_add().export(tmp_path / "libscale_add.so")[0]


def operands(rows: int = 5) -> tuple[np.ndarray, float, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(1)
    return rng.random((rows, 6), np.float32), 2.5, rng.random(6, np.float32), np.zeros((rows, 6), np.float32)


def test_a_library_runs_where_llvmlite_cannot_be_imported(library: Path) -> None:
    done = run([sys.executable, "-c", WITHOUT_LLVMLITE, library])
    assert done.returncode == 0, done.stderr
    assert (
        "TW0508 CallError TW0508: 'B' (argument 3 of scale_add) has strides (-4,) in bytes; (4,) is expected"
        in done.stdout
    )
    assert "llvmlite is blocked" in done.stdout


def test_loaded_kernels_agree_with_built_ones_in_results_and_in_what_they_refuse(library: Path) -> None:
    built, loaded = scale_add(), tw.load(library)
    assert str(loaded.signature) == str(built.signature)
    a, factor, b, c = operands(100)
    d = np.zeros_like(c)
    built(a, factor, b, c)
    loaded(a, factor, b, d)
    assert np.array_equal(c, d) and c.any()
    wrong = [
        (a, factor, b),
        (a, factor, b, c, c),
        (a, "x", b, c),
        (a.astype(float), factor, b, c),
        (a, factor, None, c),
        (a[:, :5], factor, b, c),
        (a[:50], factor, b, c),
        (a, factor, b, a),
        (a[::2], factor, b, c[::2]),
        (a, factor, b, 3),
    ]
    for arguments in wrong:
        texts = []
        for kernel in (built, loaded):
            with pytest.raises(tw.CallError, match="scale_add") as caught:
                kernel(*arguments)
            texts.append((caught.value.code, caught.value.headline, caught.value.reason, caught.value.fix))
        assert texts[0] == texts[1]
    with pytest.raises(tw.CallError, match="machine code alone"):
        loaded.source("ir")
    with pytest.raises(tw.ExportError, match=r"TW0740: cannot export scale_add"):
        loaded.export("again.so")


def test_an_export_over_a_loaded_library_is_loaded_anew_and_leaves_the_old_one_alone(tmp_path: Path) -> None:
    def times(factor: int) -> tw.Kernel:
        A = te.placeholder((16,), name="A")
        B = te.compute((16,), lambda i: A[i] * factor, name="B")
        return tw.build(te.create_schedule(B), [A, B], name="multiplied")

    ones, out = np.ones(16, np.float32), np.zeros(16, np.float32)
    kernels = [tw.load(times(factor).export(tmp_path / "libmultiplied.so")[0]) for factor in (2, 3, 4)]
    for factor, kernel in zip((2, 3, 4), kernels, strict=True):
        kernel(ones, out)
        assert (out == factor).all()
    again = tw.load(tmp_path / "libmultiplied.so")
    again(ones, out)
    assert (out == 4).all()


def test_two_loads_share_nothing_that_changes(library: Path) -> None:
    first, second = tw.load(library), tw.load(library)
    a, factor, b, c = operands()
    first(a, factor, b, c)
    del first
    c[:] = 0
    second(a, factor, b, c)
    assert c.any()


@needs_x86
def test_a_library_for_instructions_that_are_not_here_is_refused_when_loaded(tmp_path: Path) -> None:
    targets = map(Target.parse, ("llvm -mcpu=sapphirerapids", "llvm -mcpu=bdver4", "llvm -mattr=+fma4,+amx-tile"))
    target = next(each for each in targets if not each.runs_here)
    path = scale_add(str(target)).export(tmp_path / "libscale_add.so")[0]
    with pytest.raises(
        tw.ExportError, match=r"TW0742: 'libscale_add.so' needs instructions that this processor lacks"
    ) as caught:
        tw.load(path)
    lacking = caught.value.headline.partition("lacks: ")[2].split(", ")
    assert set(lacking) <= set(needed_features(target)) - set(needed_features(Target()))
    with pytest.raises(tw.CodegenError, match="does not run on this machine"):
        scale_add(str(target))(*operands())


@needs_x86
def test_the_library_and_llvm_see_the_same_processor(tmp_path: Path) -> None:
    """Each feature that this host has is one that the library's own check finds, and the table misses none that matter."""
    needed = needed_features(Target())
    assert {"sse4.2", "popcnt"} <= set(needed)
    tw.load(scale_add().export(tmp_path / "libscale_add.so")[0])
    assert needed_features(Target.parse("llvm -mcpu=x86-64")) == ()
    levels = [set(needed_features(Target.parse(f"llvm -mcpu=x86-64-v{level}"))) for level in (2, 3, 4)]
    assert levels[0] == {"sse3", "ssse3", "sse4.1", "sse4.2", "popcnt"}
    assert levels[1] - levels[0] == {"avx", "avx2", "bmi", "bmi2", "f16c", "fma", "lzcnt", "movbe"}
    assert levels[2] - levels[1] == {"avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl"}


def test_files_that_are_no_libraries_of_ours_are_refused_with_the_reason(library: Path, tmp_path: Path) -> None:
    content = library.read_bytes()
    place = content.index(MAGIC)
    cases = {
        "empty.so": (b"", "it is not a 64-bit little-endian ELF file"),
        "text.so": (b"hello" * 100, "it is not a 64-bit little-endian ELF file"),
        "object.so": (scale_add().export(tmp_path / "x.o")[0].read_bytes(), "no shared library"),
        "other.so": (content.replace(SECTION.encode(), b".otherwises"), "was not made by tilewright"),
        "magic.so": (content.replace(MAGIC, b"TILEWRONG"[:8]), "section of tilewright's is damaged"),
        "json.so": (seal_file(content.replace(b"scale_add", b"scale_sub")), "section of tilewright's is damaged"),
        "code.so": (content.replace(b"scale_add", b"scale_sub"), "the loaded part of the file has changed"),
        **{f"cut{k}.so": (content[: len(content) * k // 16], "the file is truncated|not a 64-bit") for k in range(16)},
    }
    for name, (damaged, reason) in cases.items():
        (tmp_path / name).write_bytes(damaged)
        with pytest.raises(tw.ExportError, match=rf"(?s)TW0741: .*{name}.*({reason})"):
            tw.load(tmp_path / name)
    with pytest.raises(tw.ExportError, match=r"TW0741: cannot read .*nothing.so"):
        tw.load(tmp_path / "nothing.so")
    (tmp_path / "lonely.so").write_bytes(seal_file(content.replace(b"libgomp.so.1", b"libgone.so.1")))
    with pytest.raises(
        tw.ExportError, match=r"(?s)TW0745: cannot load 'lonely.so'.*libgone.so.1: cannot open.*fix: install"
    ):
        tw.load(tmp_path / "lonely.so")
    newer = bytearray(content)
    newer[place + 8] = 9
    (tmp_path / "newer.so").write_bytes(newer)
    with pytest.raises(tw.ExportError, match=r"TW0744: 'newer.so' describes itself in version 9; version 5 is known"):
        tw.load(tmp_path / "newer.so")
    elsewhere = bytearray(content)
    elsewhere[18] = 22
    (tmp_path / "elsewhere.so").write_bytes(seal_file(bytes(elsewhere)))
    with pytest.raises(tw.ExportError, match=r"TW0743: 'elsewhere.so' is for machine 22"):
        tw.load(tmp_path / "elsewhere.so")


THREADS = """
import os, sys, numpy as np, tilewright as tw
tasks = lambda: set(os.listdir("/proc/self/task"))
f = tw.load(sys.argv[1])
a, b = np.ones((4096, 6), "float32"), np.arange(6, dtype="float32")
c = np.zeros_like(a)
before, more = tasks(), []  # a thread that ends meanwhile does not count
for threads in (1, 3):
    tw.set_num_threads(threads)
    f(a, 2.0, b, c)
    more.append(len(tasks() - before))
assert (c == 2 + b).all()
print(more)
"""


@pytest.mark.parametrize(("threads", "more"), [("openmp", [0, 2]), ("hook", [0, 2]), ("none", [0, 0])])
def test_loaded_kernels_run_on_the_threads_that_python_was_told_to_use(
    tmp_path: Path, threads: str, more: list[int]
) -> None:
    path = scale_add().export(tmp_path / "libscale_add.so", threads=threads)[0]
    done = run(
        [sys.executable, "-c", THREADS, path], env={**os.environ, "OPENBLAS_NUM_THREADS": "1", "OMP_PROC_BIND": "false"}
    )
    assert (done.returncode, done.stdout.strip()) == (0, str(more)), done.stderr


FORKED = """
import os, sys, numpy as np, tilewright as tw
f = tw.load(sys.argv[1])
a, b = np.ones((4096, 6), "float32"), np.arange(6, dtype="float32")
c = np.zeros_like(a)
f(a, 2.0, b, c)
child = os.fork()
if not child:
    d = np.zeros_like(a)
    f(a, 2.0, b, d)
    os._exit(0 if (d == c).all() else 1)
_, status = os.waitpid(child, 0)
f(a, 2.0, b, c)
sys.exit(os.waitstatus_to_exitcode(status))
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_a_forked_child_runs_its_parallel_loops_serially_and_does_not_hang(library: Path) -> None:
    done = run([sys.executable, "-c", FORKED, library], env={**os.environ, "OMP_NUM_THREADS": "4"})
    assert done.returncode == 0, done.stderr
