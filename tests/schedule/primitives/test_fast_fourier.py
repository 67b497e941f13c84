"""fast_fourier: a discrete Fourier transform by passes of small ones."""

from __future__ import annotations

from typing import Any

import drawn
import numpy as np
import pytest
import tilewright as tw
from tilewright import te, topi
from tilewright.topi.fourier import fourier

CASES: list[tuple[int, list[list[int]], dict[str, Any]]] = [
    (2, [[2], []], {}),
    (12, [[3], [2, 2]], {"inverse": True}),
    (15, [[3, 5], []], {"parts": 1}),
    (17, [[17], []], {"onesided": True, "parts": 1}),
    (18, [[3, 3], [2]], {"inverse": True, "onesided": True}),
    (19, [[4, 2], [5]], {"inverse": True, "onesided": True}),
    (34, [[17], [2]], {"dtype": "float64"}),
    (40, [[4, 5], [2]], {"given": 23}),
    (41, [[9], [3, 3]], {"dtype": "float64", "inverse": True}),
    (48, [[16], [3]], {"dtype": "float16"}),
    (289, [[17], [17]], {}),
    (509, [[8, 8], [4, 4]], {"rows": 1}),
    (512, [[4, 4], [8, 4]], {"rows": 3}),
]


@pytest.mark.parametrize(("n", "steps", "more"), drawn.part(CASES, 8))
def test_passes_compute_the_transform(n: int, steps: list[list[int]], more: dict[str, Any]) -> None:
    inverse, onesided, dtype = more.get("inverse", False), more.get("onesided", False), more.get("dtype", "float32")
    half = inverse and onesided
    given, parts, rows = n // 2 + 1 if half else more.get("given", n), more.get("parts", 2), more.get("rows", 2)
    x = te.placeholder((rows, given, parts), dtype, "x")
    y = fourier(x, 1, n, inverse, onesided)
    s = te.create_schedule(y.op)
    s.fast_fourier(y, steps)
    exec(s.as_python(), {"te": te, "ops": [y.op]})
    array = drawn.rng(f"fourier {n}").standard_normal((rows, given, parts)).astype(dtype)
    out = np.full([int(str(extent)) for extent in y.shape], np.nan, dtype)
    tw.build(s, [x, y])(array, out)
    z = array.astype("float64")[..., 0] + (1j * array.astype("float64")[..., 1] if parts == 2 else 0)
    if half:
        want = np.fft.irfft(z, n, 1)[..., None]
    else:
        whole = (np.fft.ifft if inverse else np.fft.fft)(z, n, 1)[:, : n // 2 + 1 if onesided else n]
        want = np.stack([whole.real, whole.imag], -1)
    error = {"float16": 1e-3, "float32": 2e-6, "float64": 1e-14}[dtype] * np.abs(want).max()
    np.testing.assert_allclose(out, want, rtol=0, atol=error)


def test_it_is_a_record_that_loses_the_order_of_sums() -> None:
    x = te.placeholder((3, 96, 2), name="x")
    y = fourier(x, 1)
    s = te.create_schedule(y.op)
    assert [each.op.name for each in s.fast_fourier(y, [[8], [4, 3]])] == ["turns", "turns"]
    assert [stage.name for stage in s.stages] == ["x", "dft_data", "turns", "turns", "dft"]
    assert "other sums than those of its matrix" in str(s.is_exact)
    assert str(te.Schedule.replay(s.trace, [y])) == str(s)
    assert s.verify()


def test_rows_that_the_call_decides() -> None:
    n = te.size_var("n")
    x = te.placeholder((n, 24, 2), name="x")
    y = fourier(x, 1)
    s = te.create_schedule(y.op)
    s.fast_fourier(y, [[4], [6]])
    s[y].parallel(s[y].op.axis[0])
    f = tw.build(s, [x, y])
    for rows in (0, 1, 5):
        array = drawn.rng("rows").standard_normal((rows, 24, 2)).astype("float32")
        out = np.full_like(array, np.nan)
        f(array, out)
        want = np.fft.fft(array[..., 0] + 1j * array[..., 1])
        np.testing.assert_allclose(out, np.stack([want.real, want.imag], -1), atol=1e-5)


def test_what_is_no_transform_any_more_is_refused() -> None:
    real, imaginary = te.placeholder((2, 100)), te.placeholder((2, 100))
    y = topi.dft(real, imaginary)[0]
    s = te.create_schedule(y.op)
    product = next(stage for stage in s.stages if stage.name == "dft_product")
    result = next(stage for stage in s.stages if stage.name == "dft").op.output(0)
    s.polyphase(product.op.output(0), product.op.axis[1], 4)
    with pytest.raises(tw.TilewrightError, match="TW0264: cannot transform dft by small factors"):
        s.fast_fourier(result, [[10], [10]])
