"""How the iterations of a parallel loop are shared among tasks, and tasks among threads, whatever the number of threads here."""

from __future__ import annotations

import ctypes

import pytest
from llvmlite import binding
from tilewright.codegen.llvm.outline import task_entry
from tilewright.codegen.llvm.text import ModuleText

TASKS_PER_THREAD = 4

CHUNK = """define internal i32 @body_chunk(i64 %lo, i64 %hi, ptr %out) {
  store i64 %lo, ptr %out
  %next = getelementptr i64, ptr %out, i64 1
  store i64 %hi, ptr %next
  ret i32 0
}
define i32 @run(i32 %task, i32 %tasks, ptr %context) {
  %status = call i32 @body(i32 %task, i32 %tasks, ptr %context)
  ret i32 %status
}
"""


class Context(ctypes.Structure):
    _fields_ = [("begin", ctypes.c_int64), ("extent", ctypes.c_int64), ("out", ctypes.c_void_p)]


@pytest.fixture(scope="module")
def bounds_of():
    """A function that returns the iterations [lo, hi) of a task."""
    module = ModuleText()
    task_entry(module, "body", "", "{ i64, i64, ptr }", ["i64", "i64", "ptr"])
    binding.initialize_native_target()
    binding.initialize_native_asmprinter()
    parsed = binding.parse_assembly(module.text() + CHUNK)
    engine = binding.create_mcjit_compiler(parsed, binding.Target.from_default_triple().create_target_machine())
    engine.finalize_object()
    run = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_int32, ctypes.c_int32, ctypes.c_void_p)(
        engine.get_function_address("run")
    )

    def bounds(task: int, tasks: int, begin: int, extent: int) -> tuple[int, int]:
        found = (ctypes.c_int64 * 2)()
        context = Context(begin, extent, ctypes.addressof(found))
        assert run(task, tasks, ctypes.addressof(context)) == 0
        return found[0], found[1]

    bounds.engine = engine
    return bounds


@pytest.mark.parametrize("threads", [2, 3, 4, 7, 8, 16, 64])
def test_threads_get_the_same_number_of_iterations(bounds_of, threads):
    for extent in [*range(1, 70), 97, 128, 129, 255, 1000, 3137]:
        tasks = min(extent, TASKS_PER_THREAD * threads)
        pieces = [bounds_of(task, tasks, 5, extent) for task in range(tasks)]
        assert [lo for lo, _ in pieces] == [5, *(hi for _, hi in pieces[:-1])]
        assert pieces[-1][1] == 5 + extent
        if tasks % threads == 0:
            own = tasks // threads
            shares = [pieces[at + own - 1][1] - pieces[at][0] for at in range(0, tasks, own)]
            assert max(shares) - min(shares) <= 1


def test_extents_beyond_32_bits(bounds_of):
    extent, tasks = (1 << 61) + 12345, 255
    pieces = [bounds_of(task, tasks, 0, extent) for task in range(tasks)]
    assert [lo for lo, _ in pieces] == [0, *(hi for _, hi in pieces[:-1])]
    assert pieces[-1][1] == extent
    assert max(hi - lo for lo, hi in pieces) - min(hi - lo for lo, hi in pieces) <= 1
