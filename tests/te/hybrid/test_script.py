# ruff: noqa: F821
"""What hybrid scripts may say: each construct as Python, in the interpreter and as native code, against numpy."""

from __future__ import annotations

import math

import ml_dtypes
import numpy as np
import pytest
import tilewright as tw
from hybrid_run import agree
from tilewright import te
from tilewright.ir.stmt import For, LoopKind
from tilewright.ir.visit import walk
from tilewright.te.hybrid.functions import FUNCTIONS


def floats(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape).astype("float32")


def written(folder, text: str):
    """The script of a text, which has to stand in a file."""
    path = folder / "written.py"
    path.write_text(text)
    scope: dict = {}
    exec(compile(text, str(path), "exec"), scope)
    return te.hybrid.script(scope["script"])


# Loops


@te.hybrid.script
def kinds(a):
    b = output_tensor((6, 16), "float32")
    for i in parallel(16):
        b[0, i] = a[i]
    for i in vectorize(16):
        b[1, i] = a[i] * 2.0
    for i in unroll(16):
        b[2, i] = a[i] * 3.0
    for i in const_range(16):
        b[3, i] = a[i] * 4.0
    for i in serial(16):
        b[4, i] = a[i] * 5.0
    for i in vectorized(0, 16):
        b[5, i] = a[i] * 6.0
    return b


def test_every_kind_of_loop() -> None:
    a = floats(16)
    s = agree(kinds, [a], np.stack([a * np.float32(k) for k in range(1, 7)]))
    lowered = tw.lower(s, [*s.stages[0].op.outputs, *s.outputs[0].outputs])
    found = [node.kind for node in walk(lowered.body) if isinstance(node, For) and not node.var.name.startswith("z")]
    assert found == [LoopKind.PARALLEL, LoopKind.VECTORIZED, LoopKind.UNROLLED, LoopKind.SERIAL, LoopKind.VECTORIZED]


@te.hybrid.script
def steps(n):
    out = output_tensor((40,), "int32")
    at = 0
    for i in range(3, n, 4):
        out[at] = i
        at += 1
    for i in range(n - 1, 2, -3):
        out[at] = i
        at += 1
    for i in range(5, 2):
        out[at] = i + 77
        at += 1
    for i in (2, 7, 1):
        out[at] = i
        at += 1
    for i in const_range(9, 3, -2):
        out[at] = i
        at += 1
    return out


@pytest.mark.parametrize("n", [0, 3, 4, 11, 20])
def test_steps_begins_and_lists(n: int) -> None:
    values = [*range(3, n, 4), *range(n - 1, 2, -3), 2, 7, 1, *range(9, 3, -2)]
    expected = np.zeros(40, "int32")
    expected[: len(values)] = values
    np.testing.assert_array_equal(steps(n), expected)
    symbol = te.size_var("n")
    out = steps(symbol)
    kernel = tw.build(te.create_schedule(out.op), [symbol, out])
    found = np.full(40, 9, "int32")
    kernel(n, found)
    np.testing.assert_array_equal(found, expected)


@te.hybrid.script
def triangle(a):
    n = a.shape[0]
    out = output_tensor((n, n), a.dtype)
    for i in range(n):
        for j in range(i, n):
            out[i, j] = a[j] - a[i]
        for j in range(i):
            out[i, j] = out[j, i] * 2
    return out


@pytest.mark.parametrize("symbolic", [False, True])
@pytest.mark.parametrize("n", [0, 1, 2, 7, 13])
def test_loops_whose_bounds_change_with_loops_around(n: int, symbolic: bool) -> None:
    a = np.random.default_rng(n).integers(-9, 9, n).astype("int32")
    upper = np.triu(a[None, :] - a[:, None])
    expected = upper + 2 * np.tril(upper.T, -1)
    agree(triangle, [a], expected.astype("int32"), symbolic=symbolic)


@te.hybrid.script
def ragged(lengths, values):
    out = output_tensor((lengths.shape[0],), values.dtype)
    at = 0
    for i in range(lengths.shape[0]):
        for k in range(lengths[i]):
            out[i] += values[at + k]
        at += lengths[i]
    return out


def test_bounds_that_are_read_from_a_tensor() -> None:
    lengths = np.array([3, 0, 1, 5, 2], "int32")
    values = np.arange(11).astype("float32")
    agree(ragged, [lengths, values], np.array([0 + 1 + 2, 0, 3, 4 + 5 + 6 + 7 + 8, 9 + 10], "float32"))


# Values


@te.hybrid.script
def branches(a):
    out = output_tensor(a.shape, "int32")
    for i in range(a.shape[0]):
        if a[i] < -1.0:
            kind = 0
        elif a[i] < 0:
            kind = 1
        elif a[i] < 1 and not (a[i] == 0.5 or a[i] == 7):
            kind = 2
        else:
            kind = 3
        out[i] = kind if i % 2 == 0 else -kind
    return out


def test_ifs_and_choices() -> None:
    a = np.array([-2, -0.5, 0, 0.25, 0.5, 3, 1, -1], "float32")
    kind = np.array([0, 1, 2, 2, 3, 3, 3, 1])
    agree(branches, [a], np.where(np.arange(8) % 2 == 0, kind, -kind).astype("int32"))


@te.hybrid.script
def chosen(a):
    out = output_tensor((4, a.shape[0]), a.dtype)
    for i in range(a.shape[0]):
        out[0, i] = a[i] or 7
        out[1, i] = a[i] and a[i] + i
        out[2, i] = (a[i] > 1 and i) or 5
        out[3, i] = not a[i]
    return out


def test_and_and_or_of_numbers_give_one_of_them() -> None:
    a, i = np.array([0, 3, -1, 0, 2], "int32"), np.arange(5)
    expected = np.stack([np.where(a, a, 7), np.where(a, a + i, 0), np.where((a > 1) & (i > 0), i, 5), a == 0])
    agree(chosen, [a], expected.astype("int32"))


@te.hybrid.script
def neighbours(a):
    n = a.shape[0]
    out = output_tensor((n,), a.dtype)
    for i in range(n):
        left = a[i - 1] if i > 0 else 0.0
        if i + 1 < n and a[i + 1] > left or i == n - 1:
            out[i] = left
        else:
            out[i] = a[i + 1]
    return out


@pytest.mark.parametrize("n", [0, 1, 2, 11])
def test_conditions_guard_what_stands_after_them(n: int) -> None:
    """Neither a[-1] nor a[n] is read: the interpreter checks every access."""
    a = floats(n)
    left = np.concatenate([[0], a[:-1]]).astype("float32")[:n]
    right = np.concatenate([a[1:], [0]]).astype("float32")[:n]
    expected = np.where((right > left) | (np.arange(n) == n - 1), left, right)
    agree(neighbours, [a], expected.astype("float32"))


@te.hybrid.script
def counting(a):
    """The dtype of a name is that of all that is assigned to it."""
    out = output_tensor((4,), "float64")
    total = 0
    longest = 0
    exact = 0.0
    some = False
    for i in range(a.shape[0]):
        total += a[i]
        longest = max(longest, i)
        exact = exact + float64(a[i])
        some = some or a[i] > 1
    out[0] = total
    out[1] = longest
    out[2] = exact
    out[3] = some
    return out


def test_the_dtype_of_names_that_change() -> None:
    a = floats(9)
    out = counting(te.placeholder((9,)))
    text = str(out.op.body)
    assert "total: local float32[()]" in text and "longest: local int32[()]" in text
    assert "exact: local float64[()]" in text and "some: local bool[()]" in text
    total = np.float32(0)
    for value in a:
        total += value
    expected = np.array([total, 8, a.astype("float64").sum(), (a > 1).any()], "float64")
    agree(counting, [a], expected, exact=False)


@te.hybrid.script
def operators(a, b):
    out = output_tensor((12, a.shape[0]), "int32")
    for i in range(a.shape[0]):
        x, y = a[i], b[i]
        out[0, i] = x + y * 2 - 1
        out[1, i] = x // y
        out[2, i] = x % y
        out[3, i] = x & y
        out[4, i] = x | y
        out[5, i] = x ^ y
        out[6, i] = x << 2
        out[7, i] = x >> 1
        out[8, i] = -x + +y + ~x
        out[9, i] = x**3
        out[10, i] = int32(1 < x <= y != 5)
        z = x
        z -= y
        z *= 3
        z //= 2
        z %= 7
        z <<= 1
        z ^= 5
        out[11, i] = z
    return out


def test_operators() -> None:
    rng = np.random.default_rng(3)
    a, b = rng.integers(-40, 40, 31).astype("int32"), rng.integers(1, 9, 31).astype("int32")
    expected = np.stack(
        [
            a + b * 2 - 1,
            a // b,
            a % b,
            a & b,
            a | b,
            a ^ b,
            a << 2,
            a >> 1,
            -a + b + ~a,
            a**3,
            (a > 1) & (a <= b) & (b != 5),
            (((((a - b) * 3) // 2) % 7) << 1) ^ 5,
        ]
    ).astype("int32")
    agree(operators, [a, b], expected)


@te.hybrid.script
def swap_and_chain(a):
    n = a.shape[0]
    out = output_tensor((n,), a.dtype)
    mirror = output_tensor((n,), a.dtype)
    for i in range(n):
        out[i] = a[i]
    for i in range(n // 2):
        out[i], out[n - 1 - i] = out[n - 1 - i], out[i]
    for i in range(n):
        mirror[i] = first = out[i] * 2
        out[i] = first + mirror[i]
    return out, mirror


def test_several_targets() -> None:
    a = floats(7)
    agree(swap_and_chain, [a], [a[::-1] * 4, a[::-1] * 2])


# Storage


@te.hybrid.script
def blur(a):
    h, w = a.shape
    b = output_tensor((h - 2, w - 2), "float32")
    for i in range(h - 2):
        rows = allocate((3, w - 2), "float32")
        for j in range(3):
            for k in range(w - 2):
                rows[j, k] = a[i + j, k] + a[i + j, k + 1] + a[i + j, k + 2]
        for k in range(w - 2):
            b[i, k] = (rows[0, k] + rows[1, k] + rows[2, k]) / 9.0
    return b


@pytest.mark.parametrize("symbolic", [False, True])
def test_memory_that_lasts_an_iteration(symbolic: bool) -> None:
    a = floats(7, 11)
    rows = a[:, :-2] + a[:, 1:-1] + a[:, 2:]
    agree(blur, [a], (rows[:-2] + rows[1:-1] + rows[2:]) / np.float32(9), symbolic=symbolic, exact=False)


@te.hybrid.script
def partly_written(a, n):
    out = output_tensor((n, 3), "int32")
    for i in range(a.shape[0]):
        own = allocate((4,), "int32", "local")
        own[a[i] % 4] += 1
        own[a[i] % 4] += 1
        for k in range(4):
            out[i, a[i] % 3] += own[k] * (k + 1)
    return out


def test_memory_begins_as_zeros() -> None:
    a = np.array([5, 0, 7], "int32")
    expected = np.zeros((5, 3), "int32")
    for i, value in enumerate(a):
        expected[i, value % 3] = 2 * (value % 4 + 1)
    agree(partly_written, [a, 5], expected)


@pytest.mark.parametrize(
    "body, zeros",
    [
        ("for i in range(n):\n  for j in range(4):\n   c[i, j] = a[i]", False),
        ("for j in range(4):\n  for i in range(n):\n   c[i, j] = a[i]", False),
        ("for i in range(n):\n  for j in range(4):\n   c[i, j] = 0.0\n  for j in range(4):\n   c[i, j] += a[i]", False),
        (
            "for i in range(n):\n  if a[i] > 0:\n   for j in range(4):\n    c[i, j] = 1.0\n"
            "  else:\n   for j in range(4):\n    c[i, j] = 2.0",
            False,
        ),
        ("for k in range(3):\n  for i in range(n):\n   for j in range(4):\n    c[i, j] = a[i]", False),
        ("for k in range(n):\n  for i in range(n):\n   for j in range(4):\n    c[i, j] = a[i]", True),  # n may be 0
        ("for i in range(n):\n  for j in range(4):\n   if a[i] > 0:\n    c[i, j] = a[i]", True),
        ("for i in range(n):\n  for j in range(3):\n   c[i, j] = a[i]", True),
        ("for i in range(n):\n  for j in range(4):\n   c[i, j] += a[i]", True),
        ("for i in range(n):\n  for j in range(4):\n   c[i, 3 - j] = a[i]", True),  # not seen to be whole
        ("for i in range(n):\n  for j in range(4):\n   c[i, j] = c[i, 3 - j] + a[i]", True),
    ],
)
def test_zeros_are_stored_where_they_are_needed(body: str, zeros: bool, tmp_path) -> None:
    text = f"def script(a):\n n = a.shape[0]\n c = output_tensor((n, 4), 'float32')\n {body}\n return c\n"
    script = written(tmp_path, text)
    tensor = te.placeholder((te.size_var("n"),), name="a")
    made = script(tensor)
    assert ("for z0" in str(tw.lower(te.create_schedule(made.op), [tensor, made]))) == zeros
    for n in (0, 1, 5):
        a = floats(n, seed=1)
        agree(script, [a], script(a), symbolic=True, targets=("interpret",))


# Functions


_OTHERS = ("int", "uint", "float", "bfloat", "bool", "popcount", "clz", "likely")
FLOATS = [name for name, row in FUNCTIONS.items() if row.arity == 1 and not name.startswith(_OTHERS)]


def test_functions_mean_the_same_as_python_and_in_kernels(tmp_path) -> None:
    """Every function of one number, in one kernel: a row each."""
    lines = [f"  out[{row}, i] = {name}(a[{row}, i])" for row, name in enumerate(FLOATS)]
    head = ["def script(a):", " out = output_tensor(a.shape, 'float32')", " for i in range(a.shape[1]):"]
    text = "\n".join([*head, *lines, " return out\n"])
    script = written(tmp_path, text)
    a = np.tile(np.array([0.25, 0.5, 0.75, 1.0, 0.3, 0.8], "float32"), (len(FLOATS), 1))
    for row, name in enumerate(FLOATS):
        if name in ("floor", "ceil", "round", "trunc", "nearbyint", "abs"):
            a[row] = [-2.5, -1.5, -0.3, 0.0, 0.5, 2.5]
        a[row] += name == "acosh"
        a[row] /= 2 if name == "atanh" else 1
    tensor = te.placeholder(a.shape, name="a")
    made = script(tensor)
    found = np.zeros(a.shape, "float32")
    tw.build(te.create_schedule(made.op), [tensor, made])(a, found)
    for row, name in enumerate(FLOATS):
        np.testing.assert_allclose(found[row], script(a)[row], rtol=2e-6, atol=1e-7, err_msg=name)


@te.hybrid.script
def integers(a):
    out = output_tensor((6, a.shape[0]), "int32")
    for i in range(a.shape[0]):
        out[0, i] = popcount(a[i])
        out[1, i] = clz(a[i])
        out[2, i] = abs(a[i])
        out[3, i] = truncdiv(a[i], 3)
        out[4, i] = truncmod(a[i], 3)
        out[5, i] = min(a[i], 7, i) + max(a[i], -7) + ceil_div(i, 2) + len(a)
    return out


def test_functions_of_integers() -> None:
    a = np.array([0, 1, -1, 5, -7, 2**31 - 20, 100, -100], "int32")
    i = np.arange(8)
    quotient = (np.abs(a.astype("int64")) // 3 * np.sign(a)).astype("int32")
    expected = np.stack(
        [
            [bin(int(v) & 0xFFFFFFFF).count("1") for v in a],
            [32 - (int(v) & 0xFFFFFFFF).bit_length() for v in a],
            np.abs(a),
            quotient,
            a - 3 * quotient,
            np.minimum(np.minimum(a, 7), i) + np.maximum(a, -7) + (i + 1) // 2 + 8,
        ]
    ).astype("int32")
    agree(integers, [a], expected)


@te.hybrid.script
def pairs(a, b):
    out = output_tensor((8, a.shape[0]), "float32")
    for i in range(a.shape[0]):
        out[0, i] = power(a[i], b[i])
        out[1, i] = atan2(a[i], b[i])
        out[2, i] = hypot(a[i], b[i])
        out[3, i] = copysign(a[i], -b[i])
        out[4, i] = fmod(a[i], b[i])
        out[5, i] = select(a[i] < b[i], a[i], b[i] * 2)
        out[6, i] = if_then_else(likely(i > 0), a[i - 1], 0.5)
        out[7, i] = min(a[i], b[i]) + max_value("int8") + min_value("float16") / 65504.0
    return out


def test_functions_of_pairs() -> None:
    a, b = np.abs(floats(9)) + 1, floats(9, seed=1)
    expected = np.stack(
        [
            a**b,
            np.arctan2(a, b),
            np.hypot(a, b),
            np.copysign(a, -b),
            np.fmod(a, b),
            np.where(a < b, a, b * 2),
            np.concatenate([[0.5], a[:-1]]),
            np.minimum(a, b) + 126,
        ]
    ).astype("float32")
    agree(pairs, [a, b], expected, exact=False)


@te.hybrid.script
def casts(a):
    out = output_tensor((4, a.shape[0]), "float32")
    for i in range(a.shape[0]):
        out[0, i] = int8(a[i])
        out[1, i] = uint8(int32(a[i]))
        out[2, i] = float16(a[i])
        out[3, i] = bfloat16(a[i])
    return out


def test_casts() -> None:
    a = np.array([0.1, -3.7, 200.5, -300.25, 255.0, 1.0 / 3], "float32")
    whole = np.trunc(a).astype("int32")
    expected = np.stack(
        [
            np.clip(whole, -128, 127),
            whole.astype("uint8"),
            a.astype("float16"),
            a.astype(ml_dtypes.bfloat16).astype("float32"),
        ]
    ).astype("float32")
    agree(casts, [a], expected)


def test_a_product_of_indices_wraps_as_a_value() -> None:
    @te.hybrid.script
    def hashes(n):
        out = output_tensor((n,), "int32")
        for i in range(n):
            out[i] = i * 1103515245 + 12345
        return out

    n = te.size_var("n")
    out = hashes(n)
    found = np.zeros(9, "int32")
    tw.build(te.create_schedule(out.op), [n, out])(9, found)
    np.testing.assert_array_equal(
        found, (np.arange(9, dtype="uint32") * np.uint32(1103515245) + np.uint32(12345)).view("int32")
    )


# What stands around


SCALE = 3
TABLE = ((1.0, 2.0), [3.0, 4.0])


def test_names_around_the_script() -> None:
    count, weights, flag = 5, np.array([2, 9], "int32"), False

    @te.hybrid.script
    def captured(a):
        out = output_tensor((count,), a.dtype)
        for i in range(count):
            out[i] = a[i] * SCALE + TABLE[1][weights[0] - 1] * math.sqrt(16) + weights[1]
            if flag:
                out[i] = undefined_when_false
        return out

    a = floats(5)
    agree(captured, [a], a * np.float32(3) + np.float32(16 + 9), exact=False)
    count = 4  # the script sees what stands around it now
    assert captured(te.placeholder((5,))).shape[0].value == 4


@te.hybrid.script
def sum_of(inputs):
    out = output_tensor(inputs[0].shape, inputs[0].dtype)
    n = len(inputs)
    for i in range(out.shape[0]):
        for j in const_range(n):
            out[i] += inputs[j][i]
    return out


def test_a_list_of_tensors() -> None:
    arrays = [floats(10, seed=seed) for seed in range(4)]
    tensors = [te.placeholder((10,), name=f"t{at}") for at in range(4)]
    out = sum_of(tensors)
    found = np.zeros(10, "float32")
    tw.build(te.create_schedule(out.op), [*tensors, out])(*arrays, found)
    np.testing.assert_array_equal(found, sum_of(arrays))
    np.testing.assert_allclose(found, sum(arrays), rtol=1e-6)


@te.hybrid.script
def outer(n, m, a, b):
    c = output_tensor((n, m), a.dtype)
    for i in range(n):
        for j in range(m):
            assert i < n and j < m, "index out of range!"
            c[i, j] = a[i] * b[j]
    return c


@te.hybrid.script
def calls(a):
    n = a.shape[0]
    own = allocate((n,), "float32")
    for i in range(n):
        own[i] = a[i] + 1.0
    c = outer(n, n, own, a)
    d = output_tensor(c.shape, c.dtype)
    for i in range(n):
        for j in range(n):
            d[i, j] = c[i, j] + i * j
    return d


@pytest.mark.parametrize("symbolic", [False, True])
def test_scripts_call_scripts(symbolic: bool) -> None:
    a = floats(6)
    agree(
        calls,
        [a],
        np.outer(a + 1, a) + np.outer(np.arange(6), np.arange(6)).astype("float32"),
        symbolic=symbolic,
        exact=False,
    )


@te.hybrid.script
def in_place(a, b):
    for i in range(len(a)):
        a[i] = i + 1.0
    for i in range(len(a)):
        b[i] += a[i]
    return_ = outer(4, 4, a, b)
    d = output_tensor(return_.shape, return_.dtype)
    for i in range(4):
        for j in range(4):
            d[i, j] = return_[i, j] + b[i]
    return d


@te.hybrid.script
def calls_in_place(a):
    own = allocate((4,), "float32")
    for i in range(4):
        own[i] = a[i]
    c = in_place(own, own)
    d = output_tensor((4, 4), "float32")
    for i in range(4):
        for j in range(4):
            d[i, j] = c[i, j] + own[i]  # still a[i]
    return d


def test_what_is_passed_keeps_its_values() -> None:
    a, b = floats(4), floats(4, seed=1)
    i = np.arange(1, 5, dtype="float32")
    before = a.copy(), b.copy()
    in_place(a, b)
    np.testing.assert_array_equal((a, b), before)
    agree(in_place, [a, b], np.outer(i, b + i) + (b + i)[:, None], exact=False)
    agree(calls_in_place, [a], np.outer(i, a + i) + (2 * a + i)[:, None], exact=False)


@te.hybrid.script
def any_number(*inputs, scale=2.0):
    out = output_tensor(inputs[0].shape, inputs[0].dtype)
    for i in range(out.shape[0]):
        for j in const_range(len(inputs)):
            out[i] += inputs[j][i] * scale
    return out


def test_any_number_of_arguments() -> None:
    arrays = [floats(5, seed=seed) for seed in range(3)]
    agree(any_number, arrays, sum(arrays) * np.float32(2), exact=False)
    with pytest.raises(tw.TensorExpressionError, match="TW0153: cannot call the script outer"):
        outer(1, 2)
    with pytest.raises(tw.TensorExpressionError, match="'a' is an array, and other arguments are tensors"):
        outer(1, 2, arrays[0], te.placeholder((2,)))


def test_extents_as_arguments() -> None:
    n, m = te.size_var("n"), te.size_var("m")
    a, b = te.placeholder((n,), name="a"), te.placeholder((m,), name="b")
    c = outer(n, m, a, b)
    kernel = tw.build(te.create_schedule(c.op), [a, b, c])
    for rows, columns in ((0, 3), (1, 1), (5, 7)):
        x, y, found = floats(rows), floats(columns, seed=1), np.zeros((rows, columns), "float32")
        kernel(x, y, found)
        np.testing.assert_array_equal(found, np.outer(x, y))


def test_assertions_hold_or_end_the_call() -> None:
    @te.hybrid.script
    def checked(a):
        out = output_tensor(a.shape, a.dtype)
        for i in range(a.shape[0]):
            assert a[i] >= 0, "no negative numbers"
            assert len(a) == 3
            out[i] = sqrt(a[i])
        return out

    a = te.placeholder((3,), name="a")
    out = checked(a)
    for target in ("llvm", "interpret"):
        kernel = tw.build(te.create_schedule(out.op), [a, out], target=target)
        found = np.zeros(3, "float32")
        kernel(np.array([1, 4, 9], "float32"), found)
        np.testing.assert_array_equal(found, [1, 2, 3])
        with pytest.raises(Exception, match=r"no negative numbers \(test_script.py:\d+\)"):
            kernel(np.array([1, -4, 9], "float32"), found)
    with pytest.raises(AssertionError, match="no negative numbers"):
        checked(np.array([1, -4, 9], "float32"))


@te.hybrid.script
def scalar_in_and_out(a, b):
    c = output_tensor((), "float32")
    c[()] = a[()] * 2 + b
    return c


def test_rank_zero() -> None:
    agree(scalar_in_and_out, [np.array(3, "float32"), np.array(0.5, "float32")], np.array(6.5, "float32"))


@pytest.mark.parametrize(
    "dtype", ["bool", "int8", "uint8", "int16", "int64", "uint64", "float16", "bfloat16", "float64"]
)
def test_every_dtype(dtype: str) -> None:
    @te.hybrid.script
    def reversed_and_doubled(a):
        n = a.shape[0]
        out = output_tensor((n,), a.dtype)
        for i in range(n):
            best = a[n - 1 - i]
            if best == a[0]:
                best = a[i]
            out[i] = best
        return out

    kind = np.dtype(ml_dtypes.bfloat16) if dtype == "bfloat16" else np.dtype(dtype)
    a = np.random.default_rng(1).integers(0, 2 if dtype == "bool" else 9, 13).astype(kind)
    expected = np.where(a[::-1] == a[0], a, a[::-1])
    agree(reversed_and_doubled, [a], expected)
