"""Every rule of the verifier fires on a program that breaks it."""

from __future__ import annotations

import re
from typing import Any

import pytest
from tilewright.ir import expr as E
from tilewright.ir import ops
from tilewright.ir.buffer import Buffer
from tilewright.ir.dtype import FLOAT32, INT32, DType
from tilewright.ir.errors import NotWellFormed
from tilewright.ir.stmt import Allocate, BufferStore, Evaluate, For, Function, If, LetStmt, LoopKind, Seq
from tilewright.ir.text.parser import parse
from tilewright.ir.verify import NODE_RULES, STAGES, verify

HEADER = "def f(A: float32[16], B: out float32[16], n: int32, b: bool, I: int8[16]):\n"


def function(body: str, stage: str = "") -> Function:
    attrs = f'@attrs(stage="{stage}")\n' if stage else ""
    return parse(attrs + HEADER + "".join(f"    {line}\n" for line in body.splitlines()))


WELL_FORMED = [
    "for i in 16:\n    B[i] = A[i] * 2.0",
    "for i: int64 in int64(n):\n    B[i] = A[i]",
    "B[n] = if_then_else(b, A[n], 0.0)",
    "T: local float32[n]\nT[0] = 1.0\nB[0] = T[0]",
    "x: float32 = A[0]\nB[0] = let(y: float32 = x, x + y)",
    "B[ramp(0, 1, 4)] = select(b, A[ramp(0, 2, 4)], broadcast(1.0, 4))",
    "B[ramp(0, 1, 4), where=broadcast(b, 4)] = broadcast(1.0, 4)",
    "B[0] = float32(popcount(I[0]) + (I[0] << 1)) + exp(A[0])",
    'call_extern(int32, "f", n)',
    'call_extern(int32, "f", access_ptr(handle, A[0], n, 1), access_ptr(handle, B[4], 0, 3))',
    'attr("k", B, 1)\nassert b, "message"',
    'assert call_extern(int32, "f", access_ptr(handle, B[4], 0, 3)) == 0, "it could not"',
    'for t in thread("threadIdx.x", 4):\n    B[t] = A[n % 16]',
    "B[0] = reinterpret(float32, n)",
]
BROKEN = {
    "B[0] = A[n] + n": "both operands have the same type",
    "B[0] = float32(b + b)": "arithmetic takes numbers",
    "B[0] = float32(n / n)": "`/` divides floats",
    "if n and b:\n    pass": "both operands have the same type",
    "if n and n:\n    pass": "logic takes bool",
    "if not n:\n    pass": "logic takes bool",
    "if n:\n    pass": "the condition is a scalar bool",
    'assert n, "message"': "the condition is a scalar bool",
    "if broadcast(b, 4):\n    pass": "the condition is a scalar bool",
    "B[0] = select(n, A[0], A[1])": "the condition is a bool",
    "B[0] = select(b, A[0], n)": "both values have the same type",
    "B[ramp(0, 1, 4)] = select(broadcast(b, 2), A[ramp(0, 1, 4)], A[ramp(0, 1, 4)])": "with the values' lanes",
    "B[ramp(0, 1, 4)] = if_then_else(broadcast(b, 4), A[ramp(0, 1, 4)], A[ramp(0, 1, 4)])": "lanes cannot be left out",
    "B[0] = if_then_else(b, A[0], n)": "both values have the same type",
    "B[A[0]] = 1.0": "indices are integers",
    "B[0] = n": "the value has the type of the elements",
    "B[ramp(0, 1, 4)] = A[0]": "the value has the type of the elements",
    "B[0, where=n] = 1.0": "the predicate is a bool",
    "B[ramp(0, 1, 4), where=b] = broadcast(1.0, 4)": "with the lanes of the access",
    "A[0] = 1.0": "only outputs and allocated buffers are written",
    "for i in int64(4):\n    pass": "begin and extent have the variable's type",
    "for i: float32 in 4.0:\n    pass": "begin and extent have the variable's type",
    "B[0] = float32x4(A[0])": "a cast keeps the lanes",
    "B[0] = exp(n)": "operands of one type that the intrinsic takes",
    "B[0] = popcount(A[0])": "operands of one type that the intrinsic takes",
    "B[0] = pow(A[0], n)": "operands of one type that the intrinsic takes",
    'B[0] = call(float32, "exp", A[0], A[0])': "as many operands as the intrinsic takes",
    'B[0] = call(float32, "exp", float64(A[0]))': "the call's type follows from its operands",
    "B[0] = reinterpret(float32, I[0])": "the call's type follows from its operands",
    "B[ramp(n, int64(n), 4)] = A[ramp(0, 1, 4)]": "base and stride are scalar integers of one type",
    "B[ramp(n, 1, 1)] = A[0]": "a vector has at least 2 lanes",
    "B[ramp(0, 1, 4)] = broadcast(broadcast(1.0, 2), 4)": "what is broadcast is a scalar",
    "B[0] = shuffle([A[ramp(0, 1, 4)]], [4])": "lanes that the vectors have",
    "B[0] = shuffle([A[ramp(0, 1, 4)], I[ramp(0, 1, 4)]], [0])": "vectors of one element type",
    "x: float32 = n": "the value has the variable's type",
    "B[0] = let(x: float32 = n, x)": "the value has the variable's type",
    "T: float32[A[0]]": "extents and strides are scalar integers",
    "T: float32[4, 4, strides=[1]]": "a stride for each dimension, or none",
    "T: float32[4, align=3]": "the alignment is a power of two",
    "T: float32x4[4]": "elements are scalars",
    'call_extern(int32, "f", access_ptr(handle, n, 0, 1))': "access_ptr takes an element, an offset and a mode",
    'call_extern(int32, "f", access_ptr(handle, A[0], 0, 4))': "access_ptr takes an element, an offset and a mode",
    'call_extern(int32, "f", access_ptr(handle, A[0], 0, 2))': "only outputs and allocated buffers are written",
    'B[0] = call_extern(float32, "f", access_ptr(handle, B[0], 0, 3))': "written through stands in a call for its effect",
}


@pytest.mark.parametrize("body", WELL_FORMED)
def test_well_formed(body: str) -> None:
    verify(function(body))


@pytest.mark.parametrize("body", BROKEN)
def test_broken_rules_are_named(body: str) -> None:
    with pytest.raises(NotWellFormed, match=BROKEN[body]) as caught:
        verify(function(body))
    assert caught.value.code == "TW0302"


def test_every_rule_has_a_program_that_breaks_it() -> None:
    built_by_hand = (
        "as many indices as the buffer has dimensions",
        "a constant is in the range",
        "a constant is rounded",
        "only numbers and bools",
        "a thread loop",
        "the lanes of the indices",
    )
    for rules in NODE_RULES.values():
        for rule in rules:
            assert any(text in rule.text for text in (*BROKEN.values(), *built_by_hand)), rule.text


i, j, x = E.Var("i"), E.Var("j"), E.Var("x", FLOAT32)
OUT = Buffer("B", (ops.const(16),), FLOAT32)
TWO = Buffer("T", (ops.const(4), ops.const(4)), FLOAT32)


def whole(*statements: E.Node, params: tuple[E.Var, ...] = ()) -> Function:
    return Function("f", (OUT, *params), Seq(statements), (OUT,))  # pyright: ignore[reportArgumentType]


def store(value: E.Expr, index: E.Expr = ops.const(0)) -> BufferStore:  # noqa: B008
    return BufferStore(OUT, value, (index,))


def loop(var: E.Var, *body: E.Node, thread: str = "", kind: LoopKind = LoopKind.SERIAL) -> For:
    return For(var, ops.const(0), ops.const(4), kind, Seq(body), thread)  # pyright: ignore[reportArgumentType]


HAND_BUILT = {
    "as many indices as the buffer has dimensions": whole(
        BufferStore(OUT, ops.const(1.0), (ops.const(0), ops.const(0)))
    ),
    "a constant is in the range of its type": whole(store(E.Cast(E.IntImm(300, DType("uint8")), FLOAT32))),
    "a constant is rounded to its type": whole(store(E.FloatImm(0.1))),
    "only numbers and bools have an order": whole(If(E.LT(E.StringImm("a"), E.StringImm("b")), Seq(()))),
    "a thread loop, and no other, has a thread tag": whole(loop(i, kind=LoopKind.THREAD)),
    "the lanes of the indices agree": whole(
        Allocate(
            TWO,
            BufferStore(
                TWO,
                ops.cast(x, "float32x4"),
                (E.Ramp(ops.const(0), ops.const(1), 2), E.Ramp(ops.const(0), ops.const(1), 4)),
            ),
        ),
        params=(x,),
    ),
    "everything is defined before it is used: the variable 'i', nothing defines it": whole(store(ops.cast(i, FLOAT32))),
    "'i', its scope has ended": whole(loop(i), store(ops.const(1.0), i)),
    "the variable 'x', its scope has ended": whole(LetStmt(x, ops.const(1.0), Seq(())), store(x)),
    "'j', its scope has ended": whole(store(ops.const(1.0), E.Add(E.Let(j, ops.const(1), j), j))),
    "the buffer 'T', nothing defines it": whole(store(E.BufferLoad(TWO, (ops.const(0), ops.const(0))))),
    "the buffer 'T', its scope has ended": whole(
        Allocate(TWO, Seq(())), BufferStore(TWO, ops.const(1.0), (ops.const(0), ops.const(0)))
    ),
    "nothing is bound twice": whole(loop(i), loop(i)),
    "the scope is one of": whole(Allocate(Buffer("T", (), FLOAT32, scope="cache"), Seq(()))),
    "Reduce does not occur in functions": whole(
        store(E.Reduce(E.CommReducer((x,), (x,), (x,), (x,)), (x,), (), ops.TRUE)), params=(x,)
    ),
}


@pytest.mark.parametrize("message", HAND_BUILT)
def test_programs_that_the_parser_does_not_write(message: str) -> None:
    with pytest.raises(NotWellFormed, match=r"^LoweringError TW0302: f is not well formed") as caught:
        verify(HAND_BUILT[message])
    first = "\n".join(str(caught.value).splitlines()[:2])
    for part in message.split(": "):
        assert part in first


def test_more_that_is_bound_twice() -> None:
    for program in (
        whole(Allocate(TWO, Allocate(TWO, Seq(())))),
        whole(loop(i, loop(i))),
        whole(LetStmt(i, ops.const(1), Seq(())), loop(i)),
        Function("f", (OUT, OUT), Seq(()), (OUT,)),
        whole(loop(i), params=(i,)),
        whole(store(E.Let(x, ops.const(1.0), x)), store(E.Let(x, ops.const(1.0), x))),
    ):
        with pytest.raises(NotWellFormed, match="nothing is bound twice"):
            verify(program)


def test_outputs_are_parameters() -> None:
    with pytest.raises(NotWellFormed, match="outputs are parameters"):
        verify(Function("f", (), Seq(()), (OUT,)))


STAGE_CASES = [
    ("final", 'if target_has(bool, "avx2"):\n    B[0] = 1.0', "target_has does not occur"),
    ("flat", "T: float32[4, 4]", "buffers have one dimension"),
    ("flat", "T: float32[4, strides=[2]]", "buffers have one dimension and no strides"),
    ("final", "T: float32[()]", "buffers have one dimension"),
    ("final", "for i in vectorized(4):\n    B[i] = 1.0", "vectorized loops do not occur"),
    ("final", "for i in unrolled(4):\n    B[i] = 1.0", "unrolled loops do not occur"),
    ("final", 'for i in thread("threadIdx.x", 4):\n    B[i] = 1.0', "thread loops do not occur"),
    ("final", "if likely(b):\n    B[0] = 1.0", "likely does not occur"),
]


@pytest.mark.parametrize(("stage", "body", "message"), STAGE_CASES)
def test_stages_have_rules_of_their_own(stage: str, body: str, message: str) -> None:
    broken = function(body)
    verify(broken)
    with pytest.raises(NotWellFormed, match=f"at stage '{stage}': {message}"):
        verify(broken, stage)
    with pytest.raises(NotWellFormed, match=message):
        verify(function(body, stage))


def test_stages_that_there_are() -> None:
    assert set(STAGES) == {"loops", "flat", "final"}
    with pytest.raises(NotWellFormed, match=r"(?s)unknown stage 'late'.*allowed: loops, flat, final"):
        verify(function("pass"), "late")


def test_the_message_shows_node_types_and_text() -> None:
    spoiled = function("for i in 16:\n    B[i] = A[i] * 2.0\nB[0] = A[n] + n", "loops")
    with pytest.raises(NotWellFormed, match="both operands") as caught:
        verify(spoiled)
    assert re.sub(r"py:\d+", "py:LINE", str(caught.value)) == "\n".join(
        [
            "LoweringError TW0302: f is not well formed at stage 'loops': both operands have the same type",
            "  in `A[n] + n`: `A[n]` is float32, `n` is int32",
            "  called at test_verify.py:LINE: verify(spoiled)",
            '        @attrs(stage="loops")',
            "        def f(A: float32[16], B: out float32[16], n: int32, b: bool, I: int8[16]):",
            "            for i in 16:",
            "                B[i] = A[i] * 2.0",
            "      >     B[0] = A[n] + n",
            "  fix: change what is marked with > so that this holds: both operands have the same type",
        ]
    )


def test_deep_programs_are_verified() -> None:
    value: E.Expr = x
    for _ in range(10_000):
        value = value + x
    verify(whole(store(value), params=(x,)))
    body: E.Node = store(x)
    for depth in range(2_000):
        body = For(E.Var(f"i{depth}", INT32), ops.const(0), ops.const(1), LoopKind.SERIAL, body)  # pyright: ignore
    verify(whole(body, Evaluate(ops.const(0)), params=(x,)))


def test_what_functions_share_is_not_looked_at_again_but_where_it_is_out_of_scope() -> None:
    value = x * x + x
    sound: dict[str, Any] = {}
    verify(whole(store(value), params=(x,)), sound=sound)
    kept = sound[""]
    assert kept[id(value)] == (value, {x})
    verify(whole(store(value), store(value), params=(x,)), sound=sound)
    with pytest.raises(
        NotWellFormed, match=r"everything is defined before it is used\n.*the variable 'x', nothing defines it"
    ):
        verify(whole(store(value)), sound=sound)


def test_what_binds_is_looked_at_again() -> None:
    sound: dict[str, Any] = {}
    let = E.Let(E.Var("y", FLOAT32), x, x)
    verify(whole(store(let), params=(x,)), sound=sound)
    with pytest.raises(NotWellFormed, match="nothing is bound twice"):
        verify(whole(store(let), store(let), params=(x,)), sound=sound)
