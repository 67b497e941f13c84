"""Sequences of ONNX: lists of values while a model is read, and rows of loops that append to them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tilewright as tw

pytest.importorskip("onnx.parser", reason="the package onnx, which reads the models, is not installed")
import onnx.parser
import onnx.reference

X = np.arange(24, dtype="float32").reshape(2, 4, 3)


def net(body: str, inputs: str = "float[2, 4, 3] x", outputs: str = "float[a, b, c] y") -> Any:
    return onnx.parser.parse_model(
        f'<ir_version: 8, opset_import: ["" : 17]> net ({inputs}) => ({outputs}) {{ {body} }}'
    )


@pytest.mark.parametrize(
    "body",
    [
        "s = SequenceConstruct(x, x, x)  y = ConcatFromSequence <axis = {axis}, new_axis = {new}> (s)",
        "n = Neg(x)  e = SequenceEmpty()  i = SequenceInsert(e, n)  j = SequenceInsert(i, x)  z = Constant <value = int64 {{0}}> ()"
        " k = SequenceInsert(j, x, z)  l = SequenceErase(k, z)  y = ConcatFromSequence <axis = {axis}, new_axis = {new}> (l)",
        "s = SplitToSequence <axis = 1> (x)  y = ConcatFromSequence <axis = {axis}, new_axis = {new}> (s)",
        "s = SplitToSequence <axis = 1, keepdims = 0> (x)  y = ConcatFromSequence <axis = {axis}, new_axis = {new}> (s)",
        "m = Constant <value = int64 {{3}}> ()  s = SplitToSequence <axis = 1> (x, m)  y = ConcatFromSequence <axis = 1> (s)",
        "m = Constant <value = int64[2] {{1, 3}}> ()  s = SplitToSequence <axis = 1> (x, m)  o = Constant <value = int64 {{-1}}> ()"
        " y = SequenceAt(s, o)",
    ],
)
@pytest.mark.parametrize(("axis", "new"), [(0, 0), (1, 0), (-1, 0), (1, 1), (-1, 1)])
def test_lists_of_values(body: str, axis: int, new: int) -> None:
    proto = net(body.format(axis=axis, new=new))
    (expected,) = onnx.reference.ReferenceEvaluator(proto).run(None, {"x": X})
    np.testing.assert_array_equal(tw.graph.from_onnx(proto).run(X)[0], expected)


def test_how_long_a_list_is() -> None:
    proto = net("s = SequenceConstruct(x, x)  y = SequenceLength(s)", outputs="int64 y")
    assert tw.graph.from_onnx(proto).run(X) == [2]


APPENDING = """
    c = Constant <value = bool {{1}}> ()  e = SequenceEmpty()  h = Constant <value = float[3] {{1, 0, 2}}> ()  shape = Shape(x)
    zero = Constant <value = int64 {{0}}> ()  {trips}
    last, s, sums = Loop (n, c, h, e) <body = body (int64 i, bool on, float[3] h, seq(float) s)
        => (bool go, float[3] t, seq(float) u, float q)
    {{ row = Gather(x, i)  t = Add(h, row)  u = SequenceInsert(s, t)  q = ReduceSum <keepdims = 0> (t)
       m = ReduceMax <keepdims = 0> (t)  limit = Constant <value = float {{{limit}}}> ()  go = {goes} }}>
    {use}
"""


@pytest.mark.parametrize(
    ("limit", "use", "wanted"),
    [
        (99, "y = ConcatFromSequence <axis = 0, new_axis = 1> (s)", lambda sums: sums),
        (99, "y = ConcatFromSequence <axis = -1, new_axis = 1> (s)", lambda sums: sums.T),
        (99, "m = SequenceLength(s)  y = Cast <to = 1> (m)", lambda sums: np.float32(len(sums))),
        (99, "o = Constant <value = int64 {-1}> ()  y = SequenceAt(s, o)", lambda sums: sums[-1]),
        (9, "y = ConcatFromSequence <axis = 0, new_axis = 1> (s)", lambda sums: sums[:2]),
    ],
)
def test_what_a_loop_appends_are_rows(limit: int, use: str, wanted: Any) -> None:
    goes = "Identity(on)" if limit == 99 else "Less(m, limit)"
    body = APPENDING.format(trips="n = Gather(shape, zero)", limit=limit, goes=goes, use=use)
    m = tw.build(tw.graph.from_onnx(net(body, "float[n, 3] x", "y, float[3] last, float[k] sums")))
    for n in (4, 5):
        x = np.arange(3 * n, dtype="float32").reshape(n, 3)
        expected = np.cumsum(x, 0) + np.float32([1, 0, 2])
        y, last, sums = m(x)
        kept = expected if limit == 99 else expected[:2]
        np.testing.assert_array_equal(y, wanted(expected))
        np.testing.assert_array_equal(last, kept[-1])
        np.testing.assert_array_equal(sums, kept.sum(1))


@pytest.mark.parametrize(
    ("body", "why"),
    [
        ("y = SequenceConstruct(x, x)", "a sequence is not an output"),
        ("s = SequenceConstruct(x)  o = Constant <value = int64 {1}> ()  y = SequenceAt(s, o)", "not a place among 1"),
        ("s = SequenceEmpty()  y = ConcatFromSequence <axis = 0> (s)", "not known, or it is empty"),
        ("s = SequenceConstruct(x, x)  y = Relu(s)", "Relu"),
        (
            "e = SequenceEmpty <dtype = 7> ()  s = SequenceInsert(e, x)  y = SequenceLength(s)",
            "is of int64, and what is put",
        ),
        (
            "m = Constant <value = int64[2] {1, 2}> ()  s = SplitToSequence <axis = 1> (x, m)  o = Constant <value = int64 {0}> ()"
            "  y = SequenceAt(s, o)",
            "dim size=4",
        ),
        (
            "c = Constant <value = bool {1}> ()  n = Constant <value = int64 {3}> ()  e = SequenceConstruct(x)  s = Loop (n, c, e)"
            " <body = body (int64 i, bool on, seq(float) s) => (bool go, seq(float) u) { go = Identity(on)  u = SequenceInsert(s, x) }>"
            " y = ConcatFromSequence <axis = 0> (s)",
            "not empty at first",
        ),
    ],
)
def test_other_sequences_are_refused(body: str, why: str) -> None:
    with pytest.raises(tw.TilewrightError, match=why):
        tw.graph.from_onnx(net(body, outputs="y"))


def test_optionals_that_are_there_or_not() -> None:
    proto = net(
        "a = OptionalGetElement(x)  b = OptionalHasElement(x)  d = OptionalHasElement()  f = And(b, d)"
        "  g = Cast <to = 1> (f)  y = Add(a, g)"
    )
    proto.opset_import[0].version = 18  # before which an optional has to be one, and there
    np.testing.assert_array_equal(tw.graph.from_onnx(proto).run(X)[0], X)
