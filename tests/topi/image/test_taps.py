"""Taps of interpolation: sizes that are symbols as known ones, and what there is not of them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tilewright as tw
from tilewright import topi
from tilewright.base.errors import GraphError
from tilewright.graph import Builder, Graph
from topi_run import run


def resized(shape: tuple[Any, ...], sizes: tuple[Any, ...], **how: Any) -> Graph:
    b = Builder()
    scales = how.pop("scales", (1.0, *[0.0] * (len(shape) - 1)))
    (y,) = b.nodes("resize", b.input("x", shape, "float32"), sizes=sizes, scales=scales, **how)
    b.output("y", y)
    return b.graph()


@pytest.mark.parametrize("mode", ["nearest", "linear", "cubic"])
@pytest.mark.parametrize("coordinates", ["half_pixel", "align_corners", "asymmetric", "pytorch_half_pixel"])
def test_symbols_are_resized_as_numbers_are(mode: str, coordinates: str) -> None:
    x = np.random.default_rng(0).standard_normal((2, 5, 7)).astype("float32")
    how: dict[str, Any] = {"mode": mode, "coordinates": coordinates}
    got = tw.build(resized((2, "h", "w"), (2, "2 * h", 1), **how))(x)
    np.testing.assert_allclose(got, resized((2, 5, 7), (2, 10, 1), **how).run(x)[0], rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(
    "how", [{"exclude_outside": True}, {"antialias": True}, {"coordinates": "half_pixel_symmetric"}]
)
def test_tables_of_symbols_are_refused(how: dict[str, Any]) -> None:
    with pytest.raises(GraphError, match="a shape with symbols is not resized"):
        resized((2, "h"), (2, 7), mode="linear", **how)


def test_volumes_of_bytes_are_rounded_once() -> None:
    x = np.random.default_rng(0).integers(0, 256, (1, 2, 3, 5, 7)).astype("uint8")
    real = run(lambda a: topi.image.resize3d(a, (5, 9, 13)), x.astype("float32"))
    got = run(lambda a: topi.image.resize3d(a, (5, 9, 13)), x)
    assert abs(got - real).max() <= 0.5 + 1e-4
