"""Nodes with TVM's names are the façade's own: the house's have none of them, and get none where the façade is imported."""

from __future__ import annotations

import subprocess
import sys

import tilewright as tw
from tilewright import te
from tilewright.compat import tvm
from tilewright.compat.tvm.nodes import ours, theirs
from tilewright.ir import stmt
from tilewright.ir.visit import walk


def lowered() -> tw.Function:
    A = te.placeholder((8,), name="A")
    B = te.compute((8,), lambda i: te.if_then_else(i < 4, te.exp(A[i]), 0.0), name="B")
    return tw.lower(te.create_schedule(B.op), [A, B])


def test_importing_the_facade_leaves_our_classes_as_they_are() -> None:
    program = """
import inspect
import tilewright as tw
from tilewright import te
from tilewright.ir import expr, stmt
from tilewright.schedule import Stage
classes = {cls for module in (expr, stmt) for _, cls in inspect.getmembers(module, inspect.isclass)} | {te.Tensor, Stage, tw.Array}
before = {cls: dict(vars(cls)) for cls in classes}
from tilewright.compat import tvm
from tilewright.compat.tvm import autotvm, auto_scheduler, topi
print([cls.__name__ for cls in classes if set(vars(cls)) - set(before[cls]) - {"__abstractmethods__", "_abc_impl"}])
"""
    assert subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout == "[]\n"


def test_nodes_have_both_names_in_the_facade_and_are_ours_again_behind_it() -> None:
    function = lowered()
    named = theirs(function)
    loop = next(node for node in walk(named.body) if isinstance(node, stmt.For))
    assert loop.loop_var is loop.var and loop.min is loop.begin
    call = next(node for node in walk(named.body) if isinstance(node, tvm.tir.Call))
    assert call.op.name == f"tir.{call.name}"
    assert theirs(named) is named and str(named) == str(function)
    store = next(node for node in walk(named.body) if isinstance(node, stmt.BufferStore))
    assert str(store.value) == str(ours(store.value)), "parts of a statement print as the whole does"
    back = ours(named)
    assert {type(node) for node in walk(back.body)} == {type(node) for node in walk(function.body)}
    assert type(back) is tw.Function and not hasattr(back.body, "loop_var")
    assert tw.build(back)


def test_functions_of_a_module_know_their_buffers() -> None:
    function = tvm.IRModule.from_expr(lowered())["main"]
    assert [buffer.name for buffer in function.buffer_map] == ["A", "B"]
    assert function.with_attr("global_symbol", "other").name == "other"
    assert function.with_attr("noalias", True).attrs["noalias"] is True
