"""Programs as text: what the printer writes, and that the parser reads it back to an equal program."""

from __future__ import annotations

import time

import pytest
import tilewright as tw
from tilewright.ir import expr as E
from tilewright.ir import ops
from tilewright.ir.buffer import Buffer
from tilewright.ir.dtype import FLOAT32
from tilewright.ir.errors import TextDoesNotParse
from tilewright.ir.stmt import Allocate, BufferStore, For, Function, If, LetStmt, LoopKind, Seq
from tilewright.ir.structural import equal
from tilewright.ir.text.parser import parse, parse_expression
from tilewright.ir.text.printer import excerpt, to_text
from tilewright.ir.visit import walk

i, j, k = E.Var("i"), E.Var("j"), E.Var("k")
x, h, n64 = E.Var("x", FLOAT32), E.Var("h", ops.const(0, "float16").dtype), E.Var("n", ops.const(0, "int64").dtype)
A = Buffer("A", (ops.const(16), ops.const(16)), FLOAT32)
R = Buffer("R", (), FLOAT32)
NAMES = {"i": i, "j": j, "k": k, "x": x, "h": h, "n": n64, "A": A, "R": R}

EXPRESSIONS = [
    "i + j * k",
    "(i + j) * k",
    "i - (j - k)",
    "i - j - k",
    "i * (j * k)",
    "i // 4 % 3",
    "i // (j % 3)",
    "-3 * i - -2",
    "i < j and j < k or not i == k",
    "(i < j or j < k) and i != 0",
    "not (i < j and j < k)",
    "(i < j) == (j < k)",
    "min(i, 3) + max(j, truncdiv(k, -4)) - truncmod(i, 7)",
    "x * 2.0 + 0.1",
    "x < inf",
    "x == nan",
    "x == -nan",
    "h * 1.5",
    "h + 65504.0",
    "n * 4 + int64(i)",
    "int64(3)",
    "uint8(200)",
    "float64(0.1)",
    "float16(inf)",
    "-0.0",
    "1e-08",
    "True and i < 3",
    "float32(int32(3))",
    "int8(float32(1.5))",
    "int32(i < j)",
    "bool(i)",
    "uint64(18446744073709551615)",
    "select(i < j, x, 0.0)",
    "if_then_else(i < j, A[i, j], -1.0)",
    "let(y: float32 = 1.0, y * x + exp(y))",
    "A[i, j] + A[i // 2, 0] - R[()]",
    "ramp(i, 1, 8)",
    "ramp(0, j, 4) + broadcast(3, 4)",
    "ramp(n, 1, 4) * broadcast(n, 4)",
    "A[i, ramp(0, 1, 4)]",
    "A[i, ramp(0, 1, 4), where=broadcast(i < 3, 4)]",
    "shuffle([A[i, ramp(0, 1, 4)], broadcast(x, 4)], [0, 7])",
    "exp(x) + pow(x, 2.0) - atan2(1.0, x)",
    "i & 3 | j ^ k << 2 >> 1",
    "~i & ~(j + 1)",
    "(i & 1) + j",
    "i & 1 + j",
    "likely(i < 3)",
    "isnan(x) or isinf(x)",
    "popcount(i) + clz(n) * 2",
    "fma(x, 2.0, x)",
    "abs(-i)",
    "bitwise_not(-3)",
    "reinterpret(int32, x)",
    'call_extern(float32, "sinf", x, 1.0)',
    'call_pure_extern(int32, "f")',
    'call(float32x4, "mystery", i, "a\\"b")',
]


@pytest.mark.parametrize("text", EXPRESSIONS)
def test_expressions_come_back_as_they_were_written(text: str) -> None:
    expression = parse_expression(text, **NAMES)
    printed = to_text(expression)
    assert equal(parse_expression(printed, **NAMES), expression)
    if not any(word in text for word in ("-i", "abs")):  # a minus before a name is an operation that is printed in full
        assert printed == text


FUNCTIONS = {
    "loops": """
        @attrs(stage="loops")
        def f[n](A: float32[n, 16], B: out float32[n, 16]):
            for i in parallel(n):
                for j in vectorized(16):
                    B[i, j] = A[i, j] * 2.0
                for j in unrolled(4, extent=8) with auto_unroll_max_step=16, unroll_explicit=True, "a key"="text":
                    B[i, j] = 0.0
            for b: int64 in thread("blockIdx.x", 4):
                for t in range(1, extent=3):
                    pass
    """,
    "allocations": """
        def f(n: int32, A: out float32[n]):
            T: local float16[4, 4, strides=[5, 1], align=64]
            S: shared bool[()]
            for i in n:
                scope:
                    U: float32[i + 1]
                    U[i] = 1.0
                T[0, 0] = 2.0
            S[()] = True
            A[0] = float32(T[0, 0])
    """,
    "conditions": """
        def f(A: out int64[8], n: size int32, y: float64, b: bool):
            for i in 8:
                if i < n and b:
                    A[i] = 1
                elif i == 3:
                    A[i] = int64(int32(2))
                elif y > 0.5:
                    A[i] = -9223372036854775808
                else:
                    assert i < 8, "a \\"quoted\\" reason"
                if b:
                    pass
    """,
    "repetitions": """
        def f(A: out float32[8]):
            left: local bool[()]
            left[()] = False
            while not left[()]:
                if A[0] < 3.0:
                    A[0] = A[0] + 1.0
                else:
                    left[()] = True
            while False:
                pass
    """,
    "lets and attributes": """
        @attrs(stage="flat", sizes=(1,), table={"a": [1.5, None], "b": False}, name="x")
        def f(A: out float32[16], P: float32[4, data=P_ptr]):
            x: int32 = 4
            attr("key", A, x)
            attr("other", "text", 1)
            call_extern(int32, "touch", P_ptr, x)
            scope:
                y: float32 = float32(x)
                A[x] = y
            A[ramp(0, 1, 4), where=broadcast(x < 3, 4)] = broadcast(1.0, 4)
    """,
    "buffers": """
        def f[n, m: int64, k: size, s: size int64](A: float32[n, m, strides=[s, 1], offset=4], B: out local uint8[k * 2 + n]):
            B[0] = uint8(A[0, int64(3)])
    """,
    "empty": """
        def f():
            pass
    """,
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions_come_back_equal(name: str) -> None:
    function = parse(FUNCTIONS[name])
    again = parse(to_text(function))
    assert equal(function, again)
    assert to_text(again) == to_text(function)


def test_text_is_what_was_written() -> None:
    text = FUNCTIONS["loops"]
    lines = [line.removeprefix("        ") for line in text.strip("\n").splitlines()]
    assert to_text(parse(text)) == "\n".join(lines).rstrip()


def test_names_are_made_unique_while_they_are_visible() -> None:
    outer, inner, later = E.Var("i"), E.Var("i"), E.Var("i")
    body = Seq(
        (
            For(
                outer,
                ops.const(0),
                ops.const(4),
                LoopKind.SERIAL,
                For(inner, ops.const(0), ops.const(4), LoopKind.SERIAL, BufferStore(A, x, (outer, inner))),
            ),
            For(later, ops.const(0), ops.const(2), LoopKind.SERIAL, BufferStore(A, x, (later, later))),
        )
    )
    assert to_text(body).splitlines() == [
        "for i in 4:",
        "    for i_1 in 4:",
        "        A[i, i_1] = x",
        "for i in 2:",
        "    A[i, i] = x",
    ]


def test_names_that_the_text_reserves_are_changed() -> None:
    assert to_text(E.Var("for") + E.Var("inf") + E.Var("a b") + E.Var("")) == "for_1 + inf_1 + a_b + v"


def test_numbers_print_shortest_and_read_back() -> None:
    for dtype in ("float16", "bfloat16", "float32", "float64"):
        for value in (0.1, 1 / 3, 1e-30 if dtype != "float16" else 1e-7, 65504.0, 3.0, -0.0):
            constant = ops.const(value, dtype)
            assert equal(parse_expression(to_text(constant)), constant), (dtype, value)
    assert to_text(ops.const(0.1, "float32")) == "0.1"
    assert to_text(ops.const(float("inf"), "float64")) == "float64(inf)"


def test_mistyped_operands_are_shown() -> None:
    assert to_text(E.Add(n64, ops.const(3))) == "n + int32(3)"
    assert equal(parse_expression("n + int32(3)", n=n64), E.Add(n64, ops.const(3)))


def test_sequences_print_flat_and_scopes_end_where_they_did() -> None:
    y = E.Var("y", FLOAT32)
    store = BufferStore(R, y, ())
    program = Seq((LetStmt(y, x, store), Seq((If(i < 3, Seq(())),)), Allocate(A, Seq(()))))
    assert to_text(program).splitlines() == [
        "scope:",
        "    y: float32 = x",
        "    R[()] = y",
        "if i < 3:",
        "    pass",
        "A: float32[16, 16]",
        "pass",
    ]


def test_tensor_expressions_print() -> None:
    class Tensor(E.Producer):
        name, shape, dtype = "T", (ops.const(4), ops.const(4)), FLOAT32

    axis = E.IterVar("k", dom=E.Range(ops.const(0), ops.const(4)), kind="reduce")
    lhs, rhs = E.Var("x", FLOAT32), E.Var("y", FLOAT32)
    summed = E.CommReducer((lhs,), (rhs,), (lhs + rhs,), (ops.const(0.0),), "sum")
    load = E.ProducerLoad(Tensor(), (i, axis))
    assert to_text(E.Reduce(summed, (load * 2.0,), (axis,), ops.TRUE)) == "sum(T[i, k] * 2.0, axis=[k])"
    second = E.Reduce(summed, (load, x), (axis,), axis < 3, (x, x), 1)
    assert to_text(second) == "sum((T[i, k], x), axis=[k], where=k < 3, init=[x, x])[1]"


@pytest.mark.parametrize("right", [False, True])
def test_deep_expressions_print_and_parse(right: bool) -> None:
    value: E.Expr = x
    for _ in range(10_000):
        value = E.Sub(x, value) if right else E.Sub(value, x)
    began = time.thread_time()
    text = to_text(value)
    assert time.thread_time() - began < 2
    assert text.count("-") == 10_000
    assert to_text(parse_expression(text, x=x)) == text


def test_deep_statements_print_and_parse() -> None:
    body = "\n".join("    " * (depth + 1) + f"for i{depth} in 1:" for depth in range(300))
    text = f"def f(A: out float32[1]):\n{body}\n{'    ' * 301}A[0] = 1.0"
    assert to_text(parse(text)) == text
    chain = "def f(A: out float32[1]):\n" + "".join(f"    T{at}: float32[4]\n" for at in range(3000)) + "    A[0] = 1.0"
    assert to_text(parse(chain)) == chain


def test_excerpt_marks_a_statement() -> None:
    function = parse(FUNCTIONS["loops"])
    store = next(node for node in walk(function.body) if isinstance(node, BufferStore))
    assert excerpt(function, store, 1) == "\n".join(
        [
            "  ...",
            "          for j in vectorized(16):",
            ">             B[i, j] = A[i, j] * 2.0",
            '          for j in unrolled(4, extent=8) with auto_unroll_max_step=16, unroll_explicit=True, "a key"="text":',
            "  ...",
        ]
    )


MISTAKES = {
    "def f(A: float32[4]):\n    A[0] = B[1]": r"line 2 .*expected a buffer that is known here \(A\), found `B`",
    "def f(A: float32[4]):\n    A[i] = 1.0": r"line 2 .*expected a variable that is known here \(none\), found `i`",
    "def f(A: float32[n]):\n    pass": r"(?s)expected a variable.*fix: declare a shape symbol .*def f\[n\]",
    "def f(A: float32[4])\n    pass": "line 1 .*expected `:`, found the end of the line",
    "def f(A: float33[4]):\n    pass": "expected a dtype such as float32, found `float33`",
    "def f(A: float32[4]):\n    A[0] = 1.0f": r"(?s)expected a number without a suffix.*fix: .*float32\(1.0\)",
    "def f(A: int32[4]):\n    A[0] = 1.5": "expected an integer .*found `1.5`",
    "def f(A: uint8[4]):\n    A[0] = 300": "expected a number that uint8 can hold, found `300`",
    "def f(A: float32[4]):\n    A[0] = 1.0 +": "line 2 .*expected an expression, found the end of the line",
    "def f(A: float32[4]):\n    A[0] = (1.0": r"expected `\)`",
    "def f(A: float32[4]):\n    for i in 4:\n    A[0] = 1.0": "line 3 .*expected an indented block",
    "def f(A: float32[4]):\n        pass\n    pass": "line 3 .*expected the indentation of an enclosing block",
    "def f(A: float32[4]):\n    A[0] = sinx(1.0)": r"(?s)expected an intrinsic.*fix: .*call_extern\(float32, \"sinx\"",
    "def f(A: float32[4]):\n    A[0] = select(True, 1.0)": "expected 3 arguments of select",
    "def f(i: int32):\n    if i < 3 < 4:\n        pass": "expected one comparison at a time",
    "def f(i: int32):\n    i + 1 = 3": "expected an element of a buffer before `=`",
    "def f():\n    pass\ndef g():\n    pass": "line 3 .*one function",
    "def f():\n    for for in 3:\n        pass": "expected the loop's variable, found `for`",
    "def f():\n    $": r"expected a name, a number or an operator, found `\$`",
    "def f(": "expected a parameter's name, found the end",
}


@pytest.mark.parametrize("text", MISTAKES)
def test_mistakes_are_named_with_their_line(text: str) -> None:
    with pytest.raises(TextDoesNotParse, match=MISTAKES[text]) as caught:
        parse(text)
    assert caught.value.code == "TW0301"


def test_a_mistake_is_pointed_at() -> None:
    with pytest.raises(TextDoesNotParse, match=r"\n +A\[0\] = 1\.0 \* \*\n +\^\n") as caught:
        parse("def f(A: float32[4]):\n    A[0] = 1.0 * *")
    line, caret = caught.value.loops.splitlines()
    assert caret.index("^") == line.rindex("*")


def test_functions_print_with_str() -> None:
    function = Function("f", (), Seq(()))
    assert str(function) == repr(function) == "def f():\n    pass"


PLUS = """def main(A: float32[4, 6], B: out float32[4, 6]):
    for i in 4:
        for j in 6:
            B[i, j] = A[i, j] + 1.0
"""


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("A[i, j]", "A[i]"),
        ("A[i, j]", "A[i, j, j]"),
        ("B[i, j]", "B[()]"),
        ("for i in 4", f"for i in {'9' * 5000}"),
        ("def main", '@attrs(stage="a\tb")\ndef main'),
    ],
)
def test_what_no_text_of_ours_says_is_refused_where_it_stands(before: str, after: str) -> None:
    with pytest.raises(tw.LoweringError, match=r"TW0301: line \d+ of the program's text"):
        parse(PLUS.replace(before, after))


@pytest.mark.parametrize(
    ("before", "after", "rule"),
    [
        ("A: float32[4, 6]", "A: float32[4, -6]", "constant extents are 0 or more"),
        ("A: float32[4, 6]", "C: int8[int64(1152921504606846976)], A: float32[4, 6]", "within memory"),
        ("A[i, j] + 1.0", "A[i, j] < 1.0", "the type of the elements"),
    ],
)
def test_what_breaks_a_rule_is_not_built(before: str, after: str, rule: str) -> None:
    with pytest.raises(tw.LoweringError, match=f"TW0302(.|\n)*{rule}"):
        tw.build(parse(PLUS.replace(before, after)))
