"""What a build shares with the rest of its process, and with the processes that this one forks."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import textwrap
import threading
import weakref
from pathlib import Path

import numpy as np
import pytest
import tilewright as tw
from tilewright import te
from tilewright.runtime import critical_section, folders

FORKS = pytest.mark.skipif(not hasattr(os, "fork"), reason="forks are of POSIX")


def calling(name: str, source: str) -> tuple[te.Schedule, list[te.Tensor]]:
    A = te.placeholder((5,), name="A")
    B = te.compute((5,), lambda i: te.call_extern("float32", name, A[i]), name="B")
    s = te.create_schedule(B.op)
    s[B].pragma(B.op.axis[0], "import_c", source)
    return s, [A, B]


@pytest.mark.parametrize("target", ["llvm", "c", "interpret"])
def test_two_imported_functions_of_one_name_are_two(target: str) -> None:
    """Each with a helper of the same name, too, which it finds as its own."""

    def source(number: int) -> str:
        return (
            f"float company_helper(float x) {{ return x * {number}; }}\n"
            f"float company_twin(float x) {{ return company_helper(x) + {number}; }}"
        )

    a, found = np.arange(5, dtype="float32"), []
    kernels = [tw.build(*calling("company_twin", source(number)), target=target) for number in (2, 3, 5)]
    for kernel in kernels:
        b = np.zeros(5, "float32")
        kernel(a, b)
        found.append(b)
    for number, b in zip((2, 3, 5), found, strict=True):
        np.testing.assert_array_equal(b, a * number + number)


def child(code: str, *args: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code), *args],
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
        env={**os.environ, "TILEWRIGHT_CACHE": "0"},
    )


@FORKS
def test_a_fork_while_another_thread_builds() -> None:
    """The child builds too, whatever the other thread, which it does not have, was in the middle of."""
    done = child("""
        import os, signal, threading, time
        import numpy as np
        import tilewright as tw
        from tilewright import te

        def build(salt):
            A = te.placeholder((32,), name="A")
            B = te.compute((32,), lambda i: te.exp(A[i]) + salt, name="B")
            f = tw.build([A, B])
            b = np.zeros(32, "float32")
            f(np.zeros(32, "float32"), b)
            assert (b == 1 + salt).all()

        build(0.0)
        ended = threading.Event()

        def others():
            salt = 1.0
            while not ended.is_set():
                build(salt)
                salt += 1

        thread = threading.Thread(target=others)
        thread.start()
        for number in range(12):
            time.sleep(0.003 * number)
            pid = os.fork()
            if pid == 0:
                signal.alarm(40)
                build(-float(number) - 1)
                os._exit(0)
            status = os.waitpid(pid, 0)[1]
            assert status == 0, (number, status)
        ended.set()
        thread.join()
        print("done")
    """)
    assert (done.returncode, done.stdout) == (0, "done\n"), done.stderr


@FORKS
def test_the_exit_of_a_forked_child_deletes_nothing_of_its_parents() -> None:
    done = child("""
        import os, sys
        from tilewright.codegen.cuda.emulate.compiler import _folder
        from tilewright.runtime.folders import temporary_folder
        with temporary_folder() as work:
            emulator = _folder()
            pid = os.fork()
            if pid == 0:
                sys.exit(0)
            os.waitpid(pid, 0)
            print(os.path.isdir(work), emulator.is_dir())
        print(os.path.isdir(work))
    """)
    assert done.stdout.split() == ["True", "True", "False"], done.stderr


def test_folders_of_processes_that_were_killed_are_swept(tmp_path: Path) -> None:
    code = (
        "import os, signal; from pathlib import Path; from tilewright.runtime.folders import new_folder\n"
        f"folder = new_folder('tune', Path({str(tmp_path)!r})); (folder / 'array').write_bytes(bytes(100))\n"
        "print(folder, flush=True); os.kill(os.getpid(), signal.SIGKILL)"
    )
    killed = Path(child(code).stdout.strip())
    mine = folders.new_folder("tune", tmp_path)
    others = [
        tmp_path / "tilewright-tune-1-999999999-x",
        tmp_path / "tilewright-fault-abc",
        tmp_path / "tilewright-tune-abc",
    ]
    for other in others:
        other.mkdir()
    link = tmp_path / f"{killed.name}-link"
    link.symlink_to(mine)
    assert killed.is_dir()
    folders.sweep("tune", tmp_path)
    assert not killed.exists()
    assert mine.is_dir() and link.is_symlink() and all(other.is_dir() for other in others)


def test_a_tuner_sweeps_what_killed_ones_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    from tilewright.autotune.measure import Measurer
    from tilewright.autotune.outcome import Limits
    from tilewright.autotune.task import Task

    left = tmp_path / folders.new_folder("tune").name.replace(f"-{os.getpid()}-", "-999999999-")
    left.mkdir()
    A = te.placeholder((8,), name="A")
    with Measurer(Task.of([A, te.compute((8,), lambda i: A[i] + 1, name="B")], "llvm"), Limits(workers=1)):
        assert not left.exists()


def test_work_goes_on_when_whoever_waits_is_struck(monkeypatch: pytest.MonkeyPatch) -> None:
    begun, go, ended = threading.Event(), threading.Event(), threading.Event()

    def work() -> None:
        begun.set()
        go.wait(20)
        ended.set()

    with monkeypatch.context() as patched:
        patched.setattr(
            critical_section._Job, "wait", lambda job: begun.wait(20) and _raise(KeyboardInterrupt("struck"))
        )
        with pytest.raises(KeyboardInterrupt, match="struck"):
            critical_section.run_shielded(work)
    assert not ended.is_set()
    go.set()
    assert ended.wait(20)


def _raise(error: BaseException) -> None:
    raise error


def test_shielded_work_returns_raises_and_nests() -> None:
    assert (
        critical_section.run_shielded(lambda: critical_section.run_shielded(threading.get_ident))
        != threading.get_ident()
    )
    with pytest.raises(ZeroDivisionError, match="by zero") as caught:
        critical_section.run_shielded(lambda: 1 // 0)
    assert caught.value.__context__ in (None, sys.exc_info()[1])


def test_work_on_a_thread_keeps_nothing_of_its_caller() -> None:
    class Array:
        pass

    go, ended = threading.Event(), threading.Event()

    def work() -> None:
        go.wait(20)
        ended.set()

    def call() -> weakref.ref[Array]:
        array = Array()
        critical_section.run_on_thread(work)
        return weakref.ref(array)

    alive = call()
    assert alive() is None and not ended.is_set()
    go.set()
    assert ended.wait(20)


def test_an_error_of_llvm_names_the_line_of_the_caller() -> None:
    """It is raised on the thread where LLVM works."""
    A = te.placeholder((5,), name="A")
    B = te.compute((5,), lambda i: te.call_llvm_intrin("float32", "llvm.no.such", A[i]), name="B")
    with pytest.raises(tw.CodegenError, match=r"test_process_state\.py") as caught:
        tw.build(te.create_schedule(B.op), [A, B])
    assert caught.value.called is not None


def test_a_process_ends_after_a_build_that_was_interrupted() -> None:
    """What LLVM is in the middle of comes to its end first."""
    code = """
        import signal, sys, tilewright as tw
        from tilewright import te
        A = te.placeholder((64, 64), name="A")
        B = te.compute((64, 64), lambda i, j: te.exp(A[i, j]) * te.sin(A[i, j]) + te.log(A[i, j]), name="B")
        s = te.create_schedule(B.op)
        s[B].unroll(s[B].split(B.op.axis[1], 16)[1])
        signal.signal(signal.SIGALRM, signal.default_int_handler)
        signal.setitimer(signal.ITIMER_REAL, float(sys.argv[1]))
        try:
            tw.build(s, [A, B])
            signal.setitimer(signal.ITIMER_REAL, 0)
        except KeyboardInterrupt:
            sys.exit(7)
    """
    ends = [child(code, str(seconds)).returncode for seconds in (0.05, 0.1, 0.2, 0.4)]
    assert set(ends) <= {0, 7}, ends
