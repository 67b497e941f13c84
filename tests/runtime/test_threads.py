"""Threads: the lock, concurrent calls, parallel loops, forks."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from pathlib import Path

import drawn
import handwritten_kernels
import numpy as np
import pytest
import tilewright  # noqa: F401
from handwritten_kernels import BufferParam, ScalarParam, Signature
from tilewright.runtime import errors, threads
from tilewright.runtime.abi import GIL_THRESHOLD

SPIN = """
define i32 KERNEL(i64 %n, ptr %o) {
entry:
  br label %loop
loop:
  %i = phi i64 [ 0, %entry ], [ %i1, %loop ]
  %i1 = add i64 %i, 1
  store volatile i64 %i1, ptr %o
  %end = icmp sge i64 %i1, %n
  br i1 %end, label %out, label %loop
out:
  ret i32 0
}
"""

# A parallel kernel: task t of n writes n into its share of o, and its thread's mark; `bad` makes that task fail.
PARALLEL = """
declare i32 @tw_parallel_for(ptr, ptr, i32)
define internal i32 @task(i32 %t, i32 %n, ptr %context) {
  %out = load ptr, ptr %context
  %limit_at = getelementptr i8, ptr %context, i64 8
  %bad_at = getelementptr i8, ptr %context, i64 12
  %bad = load i32, ptr %bad_at
  %at = getelementptr i32, ptr %out, i32 %t
  %before = atomicrmw add ptr %at, i32 1 monotonic
  %wrong = icmp eq i32 %bad, %t
  %status = select i1 %wrong, i32 7, i32 0
  ret i32 %status
}
define i32 KERNEL(i32 %limit, i32 %bad, ptr %out) {
  %context = alloca { ptr, i32, i32 }
  store ptr %out, ptr %context
  %limit_at = getelementptr i8, ptr %context, i64 8
  store i32 %limit, ptr %limit_at
  %bad_at = getelementptr i8, ptr %context, i64 12
  store i32 %bad, ptr %bad_at
  %status = call i32 @tw_parallel_for(ptr @task, ptr %context, i32 %limit)
  ret i32 %status
}
"""

NESTED = (
    PARALLEL.replace("define i32 KERNEL(", "define internal i32 @inner(")
    + """
define internal i32 @outer(i32 %t, i32 %n, ptr %context) {
  %out = load ptr, ptr %context
  %row = mul i32 %t, 16
  %at = getelementptr i32, ptr %out, i32 %row
  %status = call i32 @inner(i32 16, i32 -1, ptr %at)
  ret i32 %status
}
define i32 KERNEL(i32 %limit, i32 %bad, ptr %out) {
  %context = alloca { ptr, i32, i32 }
  store ptr %out, ptr %context
  %status = call i32 @tw_parallel_for(ptr @outer, ptr %context, i32 %limit)
  ret i32 %status
}
"""
)


def spinning(long_running=True, size=1):
    return handwritten_kernels.build(
        Signature(
            "spin", (ScalarParam("n", "int64"), BufferParam("O", "int64", (size,), True)), long_running=long_running
        ),
        SPIN,
    )


def counting(text=PARALLEL):
    params = (ScalarParam("limit", "int32"), ScalarParam("bad", "int32"), BufferParam("O", "int32", (4096,), True))
    return handwritten_kernels.build(Signature("count", params, long_running=True), text, tuple("abcdefg"))


@pytest.fixture
def two_threads():
    before = threads.num_threads()
    threads.set_num_threads(2)
    yield
    threads.set_num_threads(before)


@pytest.mark.alone
@pytest.mark.parametrize(
    ("long_running", "size", "released"),
    [
        (True, 1, True),
        (False, 1, False),
        (False, GIL_THRESHOLD // 8, True),
        (False, GIL_THRESHOLD // 8 - 1, False),
    ],
)
def test_long_kernels_and_large_tensors_release_the_lock(long_running, size, released):
    spin, ticks, out = spinning(long_running, size), [], np.zeros(size, np.int64)
    count = int(0.2 / spin.time(1_000_000, out, repeat=1, min_repeat_ms=0).median * 1e6)

    def tick():
        while not done.is_set():
            ticks.append(time.perf_counter())
            time.sleep(0.001)

    done = threading.Event()
    other = threading.Thread(target=tick)
    other.start()
    time.sleep(0.02)
    begin = time.perf_counter()
    spin(count, out)
    end = time.perf_counter()
    done.set()
    other.join()
    inside = sum(begin + 0.01 < t < end - 0.01 for t in ticks)
    assert inside >= 5 if released else inside <= 2


def test_two_threads_call_one_kernel():
    add, failures = handwritten_kernels.vector_add(), []

    def work(seed):
        rng = np.random.default_rng(seed)
        for _ in range(300):
            n = int(rng.integers(0, 40_000))
            a, b = rng.random(n, np.float32), rng.random(n, np.float32)
            c = np.empty_like(a)
            add(a, b, c)
            if not np.array_equal(c, a + b):
                failures.append(n)
            try:
                add(a, b[:-1], c)
                failures.append("accepted")
            except errors.SymbolDisagrees:
                pass
            except errors.OverlappingOutput:
                failures.append("wrong error")

    workers = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert [f for f in failures if f != "accepted" and f != 0] == []
    assert failures.count("accepted") <= 1


def test_a_kernel_dropped_while_another_thread_runs_it():
    kernels = [spinning()]
    out = np.zeros(1, np.int64)
    started = threading.Event()

    def run():
        kernel = kernels.pop()
        started.set()
        kernel(100_000_000, out)

    worker = threading.Thread(target=run)
    worker.start()
    started.wait()
    for _ in range(20):
        handwritten_kernels.vector_add()  # memory that was freed too early would be used again
    worker.join()
    assert out[0] == 100_000_000


@pytest.mark.parametrize("limit", [0, 1, 2, 3, 7, 8, 9, 1000])
@pytest.mark.parametrize("count", [1, 2, 3, 7])
def test_every_task_runs_once(limit, count):
    kernel, before = counting(), threads.num_threads()
    try:
        threads.set_num_threads(count)
        for _ in range(20):
            out = np.zeros(4096, np.int32)
            kernel(limit, -1, out)
            tasks = (
                0
                if limit == 0
                else 1
                if min(limit, threads.num_threads()) == 1
                else min(limit, 4 * min(limit, threads.num_threads()))
            )
            assert out[:tasks].tolist() == [1] * tasks
            assert not out[tasks:].any()
    finally:
        threads.set_num_threads(before)


def test_a_failing_task_fails_the_loop(two_threads):
    with pytest.raises(errors.KernelAssertion, match="count stopped: g"):
        counting()(1000, 3, np.zeros(4096, np.int32))


def test_parallel_loops_nest(two_threads):
    out = np.zeros(4096, np.int32)
    counting(NESTED)(2, -1, out)
    rows = out.reshape(-1, 16)[:2]
    assert (rows[:, 0] == 1).all()
    assert set(np.unique(rows)) <= {0, 1}
    assert not out[32:].any()


def test_tasks_run_side_by_side(two_threads):
    """Each of two tasks waits until the other has begun: one after the other, the first would wait for ever."""
    if threads.available_cpus() < 2 or not threads.describe()[0]:
        pytest.skip("one CPU, or no threads")
    text = PARALLEL.replace(
        "  %before = atomicrmw add ptr %at, i32 1 monotonic\n",
        """  %other = sub i32 1, %t
  %t16 = mul i32 %t, 16
  %other16 = mul i32 %other, 16
  %mine = getelementptr i32, ptr %out, i32 %t16
  %theirs = getelementptr i32, ptr %out, i32 %other16
  store volatile i32 1, ptr %mine
  br label %loop
loop:
  %i = phi i64 [ 0, %0 ], [ %i1, %loop ]
  %i1 = add i64 %i, 1
  %begun = load volatile i32, ptr %theirs
  %met = icmp ne i32 %begun, 0
  %tired = icmp sge i64 %i1, 8000000000
  %end = or i1 %met, %tired
  br i1 %end, label %done, label %loop
done:
  %result = zext i1 %met to i32
  %place = getelementptr i32, ptr %mine, i32 64
  store volatile i32 %result, ptr %place
""",
    )
    kernel, out = counting(text), np.zeros(4096, np.int32)
    threads.set_num_threads(2)
    kernel(2, -1, out)
    assert [out[64], out[80]] == [1, 1]


def test_a_forked_child_runs_serially(two_threads):
    kernel, out = counting(), np.zeros(4096, np.int32)
    kernel(8, -1, out)
    parent = out.any() and int(out.sum())
    child = os.fork()
    if child == 0:
        fresh = np.zeros(4096, np.int32)
        kernel(8, -1, fresh)
        os._exit(0 if fresh.sum() == 1 and threads.num_threads() == 1 else 3)
    deadline = time.monotonic() + 120  # an emulated processor beside other work takes its time
    status = (0, 0)
    while status[0] == 0 and time.monotonic() < deadline:
        status = os.waitpid(child, os.WNOHANG)
        time.sleep(0.01)
    if status[0] == 0:
        os.kill(child, 9)
    assert status == (child, 0), "the child hung or failed"
    again = np.zeros(4096, np.int32)
    kernel(8, -1, again)
    assert int(again.sum()) == parent


@pytest.mark.parametrize(("value", "expected"), [("1", 1), ("64,4", None), ("", None), ("none", None)])
def test_omp_num_threads_is_honoured(value, expected):
    code = "import tilewright.runtime.threads as t; print(t.num_threads(), t.available_cpus(), t.describe()[0])"
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "OMP_NUM_THREADS": value},
        cwd=Path(__file__).parent,
    )
    count, cpus, parallel = done.stdout.split()
    assert int(count) == (1 if parallel == "False" else expected or int(cpus))


def test_binding_threads_does_not_hide_the_cpus():
    code = (
        "import tilewright.runtime.threads as t; cpus = t.available_cpus()\n"
        "print(t.num_threads() == cpus, t.describe()[0])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "OMP_PROC_BIND": "true"},
        cwd=Path(__file__).parent,
    )
    assert done.stdout.startswith("True") or done.stdout.strip().endswith("False")


def test_the_affinity_mask_is_honoured():
    code = (
        "import os; os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})\n"
        "import tilewright.runtime.threads as t; print(t.num_threads())"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=Path(__file__).parent
    )
    assert done.stdout.strip() == "1"


@pytest.mark.parametrize("count", [0, -1, 1.5, "2", True, 5000])
def test_a_senseless_number_of_threads_is_refused(count):
    with pytest.raises(errors.WrongThreadCount, match=r"cannot run on .* threads"):
        threads.set_num_threads(count)


def test_without_any_openmp_loops_run_serially(monkeypatch):
    monkeypatch.setattr(threads, "_loaded_libraries", list)
    monkeypatch.setattr(threads, "_shipped_libraries", list)
    monkeypatch.setattr(threads, "_may_have_pool", bool)
    monkeypatch.setattr(threads, "_known", {})
    monkeypatch.setattr("ctypes.CDLL", _no_library)
    assert threads.num_threads() == 1
    assert threads.describe() == (False, "no OpenMP library found; parallel loops run serially")


def _no_library(path):
    raise OSError(path)


def test_threads_are_described(two_threads):
    parallel, text = threads.describe()
    if parallel:
        whose = threads.openmp_library() or "tilewright's own pool"
        assert (
            text
            == f"2 threads by {whose}; {threads.available_cpus()} CPU{'s' if threads.available_cpus() > 1 else ''} to use"
        )


@pytest.mark.parametrize(("kind", "has_pool"), [("", True), ("openmp", False)])
def test_whose_threads_they_are_can_be_chosen(kind, has_pool):
    code = (
        "from tilewright.runtime import threads; from tilewright.codegen.abi.parallel import parallel_for_address\n"
        "parallel_for_address(); print('pool' in threads.describe()[1], bool(threads._threads().state.parallel))\n"
        "print(sum('libgomp' in line for line in open('/proc/self/maps')))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, threads.VARIABLE: kind},
        cwd=Path(__file__).parent,
    )
    pool, there, maps = done.stdout.split()
    if not has_pool:
        assert pool == "False" and (there == "False" or int(maps) > 0)
    elif threads._may_have_pool():
        assert (pool, there, maps) == ("True", "True", "0")


def test_callers_at_once_share_the_threads():
    """Loops that four threads fork and join without a pause, on more threads than there are CPUs: each task of each runs once, and
    nobody waits for ever for a wake-up that was lost."""
    kernel, failures, before = counting(), [], threads.num_threads()

    def work(seed):
        out = np.zeros(4096, np.int32)
        for i in range(times):
            kernel(2 + (seed + i) % 31, -1, out)
        if int(out.max()) != times or (out[:2] != times).any():
            failures.append(out[:40].tolist())

    times = 25_000 if os.environ.get("TILEWRIGHT_SOAK") else 2_000
    try:
        for count in (2, 5):
            threads.set_num_threads(count)
            workers = [threading.Thread(target=work, args=(seed,), daemon=True) for seed in range(4)]
            for worker in workers:
                worker.start()
            for worker in workers:
                worker.join(120)
            assert not any(worker.is_alive() for worker in workers), "somebody waits for ever"
    finally:
        threads.set_num_threads(before)
    assert failures == []


def test_threads_wake_after_they_have_slept(two_threads):
    """Pauses around the time that threads stay awake: a caller comes while others are on their way to sleep."""
    kernel, out = counting(), np.zeros(4096, np.int32)
    for i in range(300):
        kernel(8, -1, out)
        deadline = time.perf_counter() + (30 + i % 60) * 1e-6
        while time.perf_counter() < deadline:
            pass
    assert out[:8].tolist() == [300] * 8


def test_a_program_ends_while_its_threads_wait():
    code = (
        "import numpy as np, tilewright as tw; from tilewright import te\n"
        "A = te.placeholder((1 << 18,)); B = te.compute(A.shape, lambda i: te.exp(A[i])); s = te.create_schedule(B.op)\n"
        "s[B].parallel(B.op.axis[0]); f = tw.build(s, [A, B]); a = np.ones(1 << 18, 'float32'); f(a, np.empty_like(a))\n"
        "print('done')"
    )
    for _ in range(drawn.count(1, 10)):
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=60)
        assert (done.returncode, done.stdout, done.stderr) == (0, "done\n", "")
