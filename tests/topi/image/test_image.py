"""Image operators against numpy: exact where integers are, within the stated bounds where not."""

from __future__ import annotations

from typing import Any

import drawn
import numpy as np
import pytest
import tilewright as tw
from tilewright import te, topi
from tilewright.tools.fuzz.references import bilateral_slice as sliced
from tilewright.tools.fuzz.references import windows
from tilewright.topi.image.blur import gaussian_taps
from tilewright.topi.image.errors import BadImage


def run(make: Any, *arrays: Any, target: str = "llvm") -> Any:
    inputs = [te.placeholder(a.shape, str(a.dtype), name=f"a{i}") for i, a in enumerate(arrays)]
    y = make(*inputs)
    got = np.zeros([extent.value for extent in y.shape], str(y.dtype))
    tw.build(topi.schedule(y, target), [*inputs, y], target)(*arrays, got)
    return got


def bytes_of(*shape: int, seed: int = 0, dtype: Any = np.uint8) -> Any:
    return np.random.default_rng(seed).integers(0, np.iinfo(dtype).max + 1, shape).astype(dtype)


@pytest.mark.parametrize("border", drawn.part(["edge", "reflect", "zero", "valid"], 2))
@pytest.mark.parametrize(
    ("shape", "layout", "size"),
    drawn.part([((37, 131), "HW", 3), ((9, 41, 3), "HWC", 5), ((2, 3, 19, 33), "NCHW", 3)], 1),
)
def test_box_blur_of_integers_is_exact(shape: tuple[int, ...], layout: str, size: int, border: str) -> None:
    x = bytes_of(*shape, dtype=np.uint16)
    means = windows(x.astype(np.int64), size, border, layout.index("H")).sum(-1) // size
    np.testing.assert_array_equal(run(lambda a: topi.image.box_blur(a, size, border, layout), x), means.sum(-1) // size)


def test_box_blur_of_halves_in_16_bits() -> None:
    """As fast as it goes: sums that are known to fit stay in the image's own dtype, in vectors of 16-bit lanes."""
    x = bytes_of(35, 98, dtype=np.uint16) // 3
    got = run(lambda a: topi.image.box_blur(a, 3, "valid", sum_dtype="uint16"), x)
    np.testing.assert_array_equal(got, (windows(x.astype(int), 3, "valid", 0).sum(-1) // 3).sum(-1) // 3)
    a = te.placeholder((1602, 2562), "uint16", name="a")
    y = topi.image.box_blur(a, 3, "valid", sum_dtype="uint16")
    target = "llvm -mcpu=znver4"
    code = tw.build(topi.schedule(y, target), [a, y], target).source("asm")
    task = code[code.index("_chunk,@function") :].split(".Lfunc_end")[0]
    assert "vpmulhuw" in task and "(%rsp)" not in task
    assert not any(wide in task for wide in ("vpmovzxwd", "vpmulld", "gather"))


@pytest.mark.parametrize(
    ("shape", "layout"), drawn.part([((20, 67), "HW"), ((2, 11, 23), "CHW"), ((13, 21, 4), "HWC"), ((1, 1), "HW")], 2)
)
@pytest.mark.parametrize("size", [3, 7])
def test_gaussian_blur_of_floats(shape: tuple[int, ...], layout: str, size: int) -> None:
    x = np.random.default_rng(0).standard_normal(shape).astype(np.float32)
    border = "edge" if min(shape) == 1 else "reflect"
    w = np.array(gaussian_taps(size, 1.3))
    found = windows(x.astype(np.float64), size, border, layout.index("H"))
    got = run(lambda a: topi.image.gaussian_blur(a, size, 1.3, border, layout), x)
    assert (abs(got - found @ w @ w) <= 2 * size * 2.0**-24 * abs(found).max((-1, -2)) + 1e-30).all()


@pytest.mark.parametrize(("size", "sigma"), drawn.part([(1, None), (5, None), (9, 4.0)], 2))
def test_gaussian_blur_of_bytes(size: int, sigma: Any) -> None:
    x = bytes_of(21, 45)
    w = np.array(gaussian_taps(size, sigma))
    real = windows(x.astype(np.float64), size, "reflect", 0) @ w @ w
    got = run(lambda a: topi.image.gaussian_blur(a, size, sigma), x)
    assert abs(got - real).max() <= 0.5 + size / 100
    if size != 5:
        return
    flat = np.full((9, 40), 255, np.uint8)
    np.testing.assert_array_equal(run(lambda a: topi.image.gaussian_blur(a, size, sigma), flat), flat)
    wide = bytes_of(12, 17, dtype=np.int16).astype(np.int16)
    real = windows(wide.astype(np.float64), size, "edge", 0) @ w @ w
    assert abs(run(lambda a: topi.image.gaussian_blur(a, size, sigma, "edge"), wide) - real).max() <= 0.51


@pytest.mark.parametrize("amount", drawn.part([0, 1.5, 6], 1))
def test_unsharp_mask(amount: float) -> None:
    w = np.array(gaussian_taps(5))
    x = bytes_of(27, 61, 3)
    blur = windows(x.astype(np.float64), 5, "reflect", 0) @ w @ w
    real = np.clip(x + amount * (x - blur), 0, 255)
    got = run(lambda a: topi.image.unsharp_mask(a, amount=amount), x)
    assert abs(got - real).max() <= 1 + amount * 5 / 50
    y = np.random.default_rng(0).standard_normal((18, 37)).astype(np.float32)
    blur = windows(y.astype(np.float64), 5, "edge", 0) @ w @ w
    got = run(lambda a: topi.image.unsharp_mask(a, amount=amount, border="edge"), y)
    np.testing.assert_allclose(got, y + amount * (y - blur), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("shape", [(0, 5), (5, 0), (0, 0), (0, 4, 3)])
@pytest.mark.parametrize("border", ["edge", "reflect", "zero"])
def test_blurs_of_images_without_pixels(shape: tuple[int, ...], border: str) -> None:
    image = te.placeholder(shape, "float32")
    for blur in (topi.image.box_blur, topi.image.gaussian_blur, topi.image.unsharp_mask):
        blurred = blur(image, border=border)
        out = np.empty(shape, "float32")
        tw.build([image, blurred])(np.empty(shape, "float32"), out)
        assert [int(str(extent)) for extent in blurred.shape] == list(shape)


def test_drawn_borders() -> None:
    for case in range(drawn.count(3, 100)):
        rng = drawn.rng("borders", case)
        size = int(rng.choice([1, 3, 5]))
        border = str(rng.choice(["edge", "reflect", "zero", "valid"]))
        h, w = (int(v) for v in rng.integers(size, 70, 2))
        print("borders", drawn.SEED, case, h, w, size, border)
        x = bytes_of(h, w, seed=case)
        found = windows(x.astype(int), size, border, 0).sum(-1) // size
        np.testing.assert_array_equal(
            run(lambda a, s=size, b=border: topi.image.box_blur(a, s, b), x), found.sum(-1) // size
        )


def test_on_gpus() -> None:
    x = bytes_of(9, 13)
    found = windows(x.astype(int), 3, "edge", 0).sum(-1) // 3
    np.testing.assert_array_equal(run(topi.image.box_blur, x, target="cuda -emulate"), found.sum(-1) // 3)
    twice = run(lambda a: topi.image.resize(a, (18, 26), "nearest"), x, target="cuda -emulate")
    np.testing.assert_array_equal(twice, x.repeat(2, 0).repeat(2, 1))


def test_size_that_the_call_decides() -> None:
    h, w = te.size_var("h"), te.size_var("w")
    a = te.placeholder((h, w), "uint8", name="a")
    y = topi.image.box_blur(a)
    f = tw.build(topi.schedule(y), [a, y])
    for shape in ((1, 1), (9, 32), (17, 71)):
        x, got = bytes_of(*shape), np.zeros(shape, np.uint8)
        f(x, got)
        np.testing.assert_array_equal(got, (windows(x.astype(int), 3, "edge", 0).sum(-1) // 3).sum(-1) // 3)


def test_refusals() -> None:
    x = te.placeholder((9, 9), name="x")
    with pytest.raises(BadImage, match="size is 4"):
        topi.image.box_blur(x, 4)
    with pytest.raises(BadImage, match="border 'wrap'"):
        topi.image.gaussian_blur(x, 3, border="wrap")
    with pytest.raises(BadImage, match="is not 'CHW'"):
        topi.image.box_blur(x, 3, layout="CHW")
    with pytest.raises(BadImage, match="sigma is 0"):
        topi.image.gaussian_blur(x, 3, 0)
    with pytest.raises(BadImage, match="amount is -1"):
        topi.image.unsharp_mask(x, amount=-1)
    with pytest.raises(BadImage, match="does not fit into the height"):
        topi.image.box_blur(te.placeholder((1, 9), name="x"), 3, "valid")


# Resizing


@pytest.mark.parametrize("size", [(7, 31), (40, 1)])
@pytest.mark.parametrize(
    ("method", "corners"),
    [("nearest", False), ("bilinear", False), ("bilinear", True), ("bicubic", False), ("bicubic", True)],
)
def test_resize_as_torch(size: tuple[int, int], method: str, corners: bool) -> None:
    torch = pytest.importorskip("torch")
    x = np.random.default_rng(0).standard_normal((2, 3, 20, 23)).astype(np.float32)
    how = {} if method == "nearest" else {"align_corners": corners}
    theirs = torch.nn.functional.interpolate(torch.from_numpy(x).double(), size, mode=method, **how).numpy()
    ours = run(lambda a: topi.image.resize(a, size, method, align_corners=corners), x)
    assert abs(ours - theirs).max() <= 1e-5 * abs(x).max()


def test_resize_of_bytes_and_other_layouts() -> None:
    x = bytes_of(9, 14, 3)
    twice = run(lambda a: topi.image.resize2d(a, None, (18, 28), "HWC", "nearest_neighbor", "asymmetric", "floor"), x)
    np.testing.assert_array_equal(twice, x.repeat(2, 0).repeat(2, 1))
    half = run(lambda a: topi.image.resize(a, (3, 7), "bilinear", "HWC"), x)
    real = (x[1::3, 0::2].astype(float) + x[1::3, 1::2]) / 2
    assert abs(half - real).max() <= 0.51
    np.testing.assert_array_equal(run(lambda a: topi.image.resize(a, (9, 14), "bicubic", "HWC"), x), x)
    with pytest.raises(BadImage, match="method is 'lanczos'"):
        topi.image.resize(te.placeholder((9, 9), name="x"), (3, 3), "lanczos")
    with pytest.raises(BadImage, match="roi is"):
        topi.image.resize2d(te.placeholder((1, 1, 9, 9), name="x"), (0.1, 0, 1, 1), (3, 3))


@pytest.mark.parametrize(
    ("shape", "layout", "size"),
    drawn.part(
        [
            ((13, 67, 3), "HWC", (7, 29)),
            ((9, 41), "HW", (20, 113)),
            ((2, 5, 33, 4), "NHWC", (5, 11)),
            ((2, 3, 6, 5), "NCHW", (1, 1)),
            ((3, 1, 1), "CHW", (3, 40)),
            ((4, 200), "HW", (4, 3)),
        ],
        3,
    ),
)
def test_resize_of_bytes_is_near_the_real_value(shape: tuple[int, ...], layout: str, size: tuple[int, int]) -> None:
    """Against the float declaration interpreted; nearest neighbours exactly."""
    x = bytes_of(*shape)
    for corners in (False, True):
        real = run(lambda a, c=corners: topi.image.resize(a, size, "bilinear", layout, c), x.astype(np.float32))
        got = run(lambda a, c=corners: topi.image.resize(a, size, "bilinear", layout, c), x)
        assert abs(got - real).max() <= 0.55
    at = layout.index("H")
    index = [np.arange(n) * m // n for n, m in zip(size, shape[at : at + 2], strict=True)]
    wanted = x.take(index[0], at).take(index[1], at + 1)
    for dtype in (np.uint8, np.float32, np.int64):
        np.testing.assert_array_equal(
            run(lambda a: topi.image.resize(a, size, "nearest", layout), x.astype(dtype)), wanted
        )


def test_a_resize_in_vectors_of_rows() -> None:
    """Columns' places and weights once, rows blended where they are read, on threads; no gathers, and no division inside."""
    x = te.placeholder((300, 400, 3), "uint8", name="x")
    y = topi.image.resize(x, (150, 207), "bilinear", "HWC")
    s = topi.schedule(y, "llvm -mcpu=znver4")
    attached = {stage.op.name: stage.attach_type for stage in s.stages}
    assert attached["resize_rows"] == "at" and attached["resize_offsets"] == attached["resize_weights"] == "root"
    code = tw.build(s, [x, y], "llvm -mcpu=znver4").source("asm")
    task = code[code.index("_chunk,@function") :].split(".Lfunc_end")[0]
    assert "vpermt2w" in task and "vpmulhuw" in task
    assert not any(wide in task for wide in ("gather", "idiv", "vpmulld", "vpinsrw"))


def test_a_resize_to_a_size_that_the_call_decides() -> None:
    h, w = te.size_var("h"), te.size_var("w")
    a = te.placeholder((h, w), name="a")
    y = topi.image.resize(a, (7, 20), "bilinear")
    f = tw.build(topi.schedule(y), [a, y])
    x = np.random.default_rng(0).standard_normal((9, 31)).astype(np.float32)
    got = np.zeros((7, 20), np.float32)
    f(x, got)
    np.testing.assert_allclose(got, run(lambda b: topi.image.resize(b, (7, 20), "bilinear"), x), rtol=1e-5, atol=1e-6)


# Bilateral slices


@pytest.mark.parametrize(
    ("grid", "size"),
    [((2, 2, 8, 3, 4), (32, 64)), ((3, 2, 5, 2, 3), (9, 10)), ((2, 3, 4, 3, 4), (7, 20)), ((1, 1, 1, 1, 2), (1, 1))],
)
def test_bilateral_slice(grid: tuple[int, ...], size: tuple[int, int]) -> None:
    rng = np.random.default_rng(0)
    cells, image = rng.standard_normal(grid).astype(np.float32), rng.random((grid[4] - 1, *size)).astype(np.float32)
    guide = rng.uniform(-0.1, 1.1, size).astype(np.float32)
    wanted, magnitude = sliced(cells, guide, image)
    assert (
        abs(run(topi.image.bilateral_slice, cells, guide, image) - wanted) <= 64 * 2.0**-24 * magnitude + 1e-30
    ).all()


def test_gradients_of_a_slice() -> None:
    """Against differences of the float64 reference, and the schedule for them against the declaration's."""
    shapes = (2, 2, 4, 2, 3), (16, 32), (2, 16, 32), (2, 16, 32)
    rng = np.random.default_rng(3)
    arrays = [rng.standard_normal(shapes[0]), rng.uniform(0.05, 0.95, shapes[1]), *(rng.random(s) for s in shapes[2:])]
    arrays = [a.astype(np.float32) for a in arrays]
    inputs = [te.placeholder(s, name=n) for s, n in zip(shapes, ("grid", "guide", "image", "head"), strict=True)]
    found = te.gradient(topi.image.bilateral_slice(*inputs[:3]), inputs[:3], inputs[3])
    got = [np.zeros(s, np.float32) for s in shapes[:3]]
    tw.build(topi.schedule(found), [*inputs, *found])(*arrays, *got)
    exact = [a.astype(np.float64) for a in arrays]
    for which, step in ((0, 1e-3), (1, 1e-5), (2, 1e-3)):
        for place in (tuple(int(rng.integers(n)) for n in shapes[which]) for _ in range(4)):
            values = []
            for sign in (1, -1):
                moved = [a.copy() for a in exact]
                moved[which][place] += sign * step
                values.append((sliced(*moved[:3])[0] * exact[3]).sum())
            np.testing.assert_allclose(got[which][place], (values[0] - values[1]) / (2 * step), rtol=2e-3, atol=1e-4)
    some = te.gradient(topi.image.bilateral_slice(*inputs[:3]), [inputs[1]], inputs[3])
    alone = np.zeros(shapes[1], np.float32)
    tw.build(topi.schedule(some), [*inputs, *some])(*arrays, alone)
    np.testing.assert_allclose(alone, got[1], rtol=1e-5, atol=1e-6)


def slice_with_gradients(wanted: str, shapes: Any, apart: str = "") -> tuple[list[te.Tensor], list[te.Tensor]]:
    """The inputs of a slice, with its head, called whatever they like, and its gradients by some of these ("gui")."""
    inputs = [te.placeholder(s, name=f"some{n}{apart}") for s, n in zip(shapes, "guih", strict=True)]
    y = topi.image.bilateral_slice(*inputs[:3])
    return inputs, te.gradient(y, [inputs["gui".index(one)] for one in wanted], inputs[3])


@pytest.mark.parametrize(
    ("wanted", "shapes"),
    drawn.part(
        [
            ("gui", ((3, 2, 5, 2, 3), (9, 11), (2, 9, 11), (2, 9, 11))),
            *((wanted, ((2, 2, 4, 2, 3), (16, 32), (2, 16, 32), (2, 16, 32))) for wanted in ("g", "u", "iu")),
            ("gui", ((2, 2, 4, 2, 3), (10, 19), (2, 10, 19), (5, 2, 10, 19))),
            *((wanted, ((2, 2, 4, 2, 3), (8, 17), (2, 8, 17), (2, 3, 2, 8, 17))) for wanted in ("g", "iu")),
        ],
        2,
    ),
)
def test_gradients_of_a_slice_compute_what_their_declaration_does(wanted: str, shapes: Any) -> None:
    inputs, found = slice_with_gradients(wanted, shapes)
    s = topi.schedule(found)
    plain = te.create_schedule([tensor.op for tensor in found])
    rng = np.random.default_rng(0)
    arrays = [rng.random(shape, np.float32) for shape in shapes]
    results = []
    for one in (s, plain):
        results.append([np.zeros((*shapes[3][:-3], *shapes["gui".index(name)]), np.float32) for name in wanted])
        tw.build(one, [*inputs, *found])(*arrays, *results[-1])
    for got, exact in zip(*results, strict=True):
        np.testing.assert_allclose(got, exact, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(
    ("wanted", "inlined", "attached"),
    [
        ("gui", {"ones", "grad_affine", "near"}, {"affine", "grad_near", "grad_ones"}),
        ("u", {"ones", "grad_affine"}, {"grad_near"}),
        ("i", {"near"}, {"affine", "grad_ones"}),
    ],
)
def test_gradients_of_a_large_slice_go_over_its_pixels_once_each(
    wanted: str, inlined: set[str], attached: set[str]
) -> None:
    """What is larger than what it is made of is never stored, and sums are kept for one vector of pixels at a time; a row's pixels
    are summed up in lanes where there are many."""
    _, found = slice_with_gradients(wanted, ((16, 16, 8, 3, 4), (1024, 1024), (3, 1024, 1024), (3, 1024, 1024)))
    types = {stage.op.name: stage.attach_type for stage in topi.schedule(found, "llvm -mcpu=haswell").stages}
    assert {name for name, kind in types.items() if kind == "inline"} >= inlined
    assert {name for name, kind in types.items() if kind == "at"} >= attached
    assert types["rows"] == "root" if "rows" in types else wanted == "g"
    assert ("grad_rows.rf" in types) == ("g" in wanted)


@pytest.mark.parametrize(("wanted", "from_slice"), drawn.part([("gui", False), ("gu", True), ("i", True)], 1))
def test_a_slice_beside_its_gradients(wanted: str, from_slice: bool) -> None:
    """In one schedule, whether the head is given or made of the slice."""
    shapes = ((2, 2, 4, 2, 3), (16, 33), (2, 16, 33), (2, 16, 33))
    inputs = [te.placeholder(s, name=f"some{n}") for s, n in zip(shapes, "guih", strict=True)]
    y = topi.image.bilateral_slice(*inputs[:3])
    head = y if from_slice else inputs[3]
    found = [y, *te.gradient(y, [inputs["gui".index(one)] for one in wanted], head)]
    given = inputs[:3] if from_slice else inputs
    s = topi.schedule(found)
    plain = te.create_schedule([tensor.op for tensor in found])
    rng = np.random.default_rng(0)
    arrays = [rng.random(tuple(int(e) for e in one.shape), np.float32) for one in given]
    results = []
    for one in (s, plain):
        results.append([np.zeros([int(e) for e in t.shape], np.float32) for t in found])
        tw.build(one, [*given, *found])(*arrays, *results[-1])
    for got, exact in zip(*results, strict=True):
        assert exact.any()
        np.testing.assert_allclose(got, exact, rtol=1e-4, atol=1e-4)


def test_gradients_of_several_slices_and_those_that_something_else_reads() -> None:
    shapes = ((2, 2, 4, 2, 3), (16, 32), (2, 16, 32), (2, 16, 32))
    (first, a), (second, b) = (slice_with_gradients("gui", shapes, apart) for apart in "ab")
    s = topi.schedule([*a, *b])
    assert [stage.attach_type for stage in s.stages if stage.op.name == "grad_near"] == ["at"] * 2
    rng = np.random.default_rng(1)
    arrays = [rng.random(shape, np.float32) for shape in shapes]
    got = [np.zeros(shape, np.float32) for shape in shapes[:3] * 2]
    tw.build(s, [*first, *second, *a, *b])(*arrays, *arrays, *got)
    for one, other in zip(got[:3], got[3:], strict=True):
        assert one.any()
        np.testing.assert_array_equal(one, other)
    y = topi.image.bilateral_slice(*first[:3])
    together = [y, *te.gradient(y, first[:3], first[3])]
    more = [np.zeros(shape, np.float32) for shape in (shapes[3], *shapes[:3])]
    tw.build(topi.schedule(together), [*first, *together])(*arrays, *more)
    for one, other in zip(more[1:], got[:3], strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-4)


def test_an_image_without_pixels_has_no_slice() -> None:
    shapes = ((2, 2, 4, 2, 3), (0, 32), (2, 0, 32), (2, 0, 32))
    inputs, found = slice_with_gradients("gui", shapes)
    got = [np.ones(shape, np.float32) for shape in shapes[:3]]
    tw.build(topi.schedule(found), [*inputs, *found])(*(np.zeros(shape, np.float32) for shape in shapes), *got)
    assert not got[0].any()


def test_bilateral_refusals() -> None:
    grid, guide, image = (te.placeholder(s, name="x") for s in ((2, 2, 4, 3, 4), (9, 9), (3, 9, 9)))
    with pytest.raises(BadImage, match="does not transform"):
        topi.image.bilateral_slice(grid, guide, te.placeholder((4, 9, 9), name="image"))
    with pytest.raises(BadImage, match="does not transform"):
        topi.image.bilateral_slice(guide, grid, image)
