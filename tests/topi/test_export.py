"""Weights are packed once and kept: what packs them and what uses them leave as functions of one library."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import tilewright as tw
from tilewright import te, topi
from tilewright.topi.row import find_reference


def test_a_library_packs_the_weights_of_a_dense_layer_and_uses_them(tmp_path: Path) -> None:
    rows, depth, features = 5, 67, 101
    w = te.placeholder((features, depth), name="w")
    packed = topi.nn.prepack_dense(w)
    x, bias = te.placeholder((rows, depth), name="x"), te.placeholder((features,), name="bias")
    panels = te.placeholder(packed.shape, name="panels")
    y = topi.nn.relu(topi.nn.packed_dense(x, panels, features, bias))
    library = tmp_path / "libdense.so"
    tw.build({"pack": [w, packed], "layer": [x, panels, bias, y]}).export(str(library))
    loaded = tw.load(str(library))
    rng = np.random.default_rng(5)
    weights, data, shift = (
        rng.standard_normal(shape).astype("float32") for shape in ((features, depth), (rows, depth), features)
    )
    kept, found = np.empty([int(extent) for extent in packed.shape], "float32"), np.empty((rows, features), "float32")
    loaded["pack"](weights, kept)
    np.testing.assert_array_equal(kept, topi.nn.prepack_dense(weights))
    loaded["layer"](data, kept, shift, found)
    np.testing.assert_allclose(found, np.maximum(data @ weights.T + shift, 0), atol=1e-4)


def test_a_library_packs_the_weights_of_a_convolution_and_uses_them(tmp_path: Path) -> None:
    w, data = te.placeholder((13, 5, 3, 3), name="w"), te.placeholder((1, 5, 9, 11), name="data")
    packed = topi.nn.conv2d_prepack(w)
    panels = te.placeholder(packed.shape, name="panels")
    y = topi.nn.conv2d_prepacked(data, panels, 13, 1, 1)
    library = tmp_path / "libconv.so"
    tw.build({"pack": [w, packed], "layer": [data, panels, y]}).export(str(library))
    loaded = tw.load(str(library))
    rng = np.random.default_rng(6)
    weights, image = (rng.standard_normal(shape).astype("float32") for shape in ((13, 5, 3, 3), (1, 5, 9, 11)))
    kept, found = np.empty([int(extent) for extent in packed.shape], "float32"), np.empty((1, 13, 9, 11), "float32")
    loaded["pack"](weights, kept)
    np.testing.assert_array_equal(kept, topi.nn.conv2d_prepack(weights))
    loaded["layer"](image, kept, found)
    np.testing.assert_allclose(found, find_reference("conv")(image, weights, padding=(1, 1, 1, 1)), atol=1e-4)
