"""A network from end to end: ResNet-18 (He et al. 2015, table 1) with seeded weights, on a photograph.

Batch norms are folded into the convolutions before them. Each layer is one kernel (convolution, bias, residual and relu
together), made by tw.jit from topi's operators, and called on activations that are allocated once.

    python -m tools.benchmarks.resnet18       the result and the time beside torch's
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import tilewright as tw
from tilewright import te, topi

from .cases import empty
from .peers.onnx_model import Node

__all__ = ["Layer", "Network", "layers", "network", "ort_nodes", "photograph", "torch_forward", "weights"]

CLASSES = 1000
EPSILON = 1e-5


@dataclass(frozen=True)
class Layer:
    """A convolution with its batch norm. source, residual: the activations that it reads; relu: at its end."""

    name: str
    source: str
    inputs: int
    outputs: int
    reach: int
    stride: int
    residual: str = ""
    relu: bool = True

    @property
    def padding(self) -> int:
        return self.reach // 2


def layers() -> Iterator[Layer]:
    """The 20 convolutions, in order. "pooled" is the first one's result after the pooling."""
    yield Layer("conv1", "image", 3, 64, 7, 2)
    source, inputs = "pooled", 64
    for stage, outputs in enumerate((64, 128, 256, 512), start=2):
        for block in (1, 2):
            name, stride = f"conv{stage}_{block}", 2 if stage > 2 and block == 1 else 1
            shortcut = source
            if stride != 1 or inputs != outputs:
                shortcut = f"{name}s"
                yield Layer(shortcut, source, inputs, outputs, 1, stride, relu=False)
            yield Layer(f"{name}a", source, inputs, outputs, 3, stride)
            yield Layer(f"{name}b", f"{name}a", outputs, outputs, 3, 1, residual=shortcut)
            source, inputs = f"{name}b", outputs


def weights(seed: int = 0) -> dict[str, np.ndarray]:
    """Draw for each layer its kernel and the four vectors of its batch norm, "NAME.weight", ".gamma", ".beta", ".mean", ".var"; and
    of the last, dense one "dense.weight" and "dense.bias"."""
    rng = np.random.default_rng(seed)
    arrays: dict[str, np.ndarray] = {}
    for layer in layers():
        fan = layer.inputs * layer.reach**2
        arrays[f"{layer.name}.weight"] = (
            rng.standard_normal((layer.outputs, layer.inputs, layer.reach, layer.reach)) * (2 / fan) ** 0.5
        )
        arrays[f"{layer.name}.gamma"] = rng.uniform(0.5, 1.0, layer.outputs) * (0.5 if layer.residual else 1.0)
        arrays[f"{layer.name}.beta"], arrays[f"{layer.name}.mean"] = rng.normal(0, 0.1, (2, layer.outputs))
        arrays[f"{layer.name}.var"] = rng.uniform(0.5, 1.5, layer.outputs)
    arrays["dense.weight"] = rng.standard_normal((CLASSES, 512)) * 512**-0.5
    arrays["dense.bias"] = rng.normal(0, 0.1, CLASSES)
    return {name: value.astype(np.float32) for name, value in arrays.items()}


def fold_batch_norms(given: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """The weights with each batch norm, gamma * (x - mean) / sqrt(var + EPSILON) + beta, in its convolution's kernel and
    bias."""
    arrays = {"dense.weight": given["dense.weight"], "dense.bias": given["dense.bias"]}
    for layer in layers():
        gamma, beta, mean, var = (given[f"{layer.name}.{part}"] for part in ("gamma", "beta", "mean", "var"))
        scale = gamma / np.sqrt(var + np.float32(EPSILON))
        arrays[f"{layer.name}.weight"] = given[f"{layer.name}.weight"] * scale[:, None, None, None]
        arrays[f"{layer.name}.bias"] = beta - mean * scale
    return arrays


def photograph() -> np.ndarray:
    """The middle of scikit-image's astronaut, (1, 3, 224, 224), channels of mean 0 and deviation 1."""
    from skimage import data
    from skimage.transform import resize

    image = resize(data.astronaut(), (256, 256), anti_aliasing=True)[16:240, 16:240]
    image = (image - image.mean((0, 1))) / image.std((0, 1))
    return np.ascontiguousarray(image.transpose(2, 0, 1)[None], np.float32)


# Ours


@tw.jit
def convolution(
    x: Any, weight: Any, bias: Any, residual: Any, channels: int, stride: int, padding: int, relu: bool
) -> Any:
    """A layer; weight: packed. residual: a tensor of the result's shape, or None."""
    y = topi.nn.conv2d_prepacked(x, weight, channels, stride, padding)

    def element(n: Any, o: Any, i: Any, j: Any) -> Any:
        value = y[n, o, i, j] + bias[o]
        value = value if residual is None else value + residual[n, o, i, j]
        return te.max(value, 0.0) if relu else value

    return te.compute(y.shape, element, name="layer", tag="injective")


@tw.jit
def pooling(x: Any) -> Any:
    return topi.nn.max_pool2d(x, 3, 2, 1)


@tw.jit
def mean_of_maps(x: Any) -> Any:
    return topi.nn.flatten(topi.nn.global_avg_pool2d(x))


@tw.jit
def dense(x: Any, weight: Any, bias: Any) -> Any:
    return topi.nn.dense(x, weight, bias)


class Network:
    """Kernels in order with the arrays that each takes; call it to run them all. activations: by layer."""

    def __init__(self, image: np.ndarray, given: Mapping[str, np.ndarray], logits: np.ndarray) -> None:
        self.activations: dict[str, np.ndarray] = {"image": image}
        self.steps: list[tuple[Callable[..., None], tuple[np.ndarray, ...]]] = []
        ready = fold_batch_norms(given)
        for layer in layers():
            self._add_layer(layer, ready)
            if layer.name == "conv1":
                self._add(pooling, "pooled", self.activations["conv1"])
        self._add(mean_of_maps, "mean", self.activations["conv5_2b"])
        self._add(dense, "logits", self.activations["mean"], ready["dense.weight"], ready["dense.bias"], out=logits)

    def _add_layer(self, one: Layer, ready: Mapping[str, np.ndarray]) -> None:
        packed = topi.nn.conv2d_prepack(ready[f"{one.name}.weight"])
        residual = self.activations[one.residual] if one.residual else None
        self._add(
            convolution,
            one.name,
            self.activations[one.source],
            packed,
            ready[f"{one.name}.bias"],
            residual,
            one.outputs,
            one.stride,
            one.padding,
            one.relu,
        )

    def _add(self, function: Any, name: str, *args: Any, out: np.ndarray | None = None) -> None:
        kernel = function.kernel(*args)
        shape = kernel.signature.params[-1].shape
        result = self.activations[name] = empty(shape, np.float32) if out is None else out
        self.steps.append((kernel, (*(arg for arg in args if isinstance(arg, np.ndarray)), result)))

    def __call__(self) -> None:
        for kernel, arrays in self.steps:
            kernel(*arrays)


def network(inputs: Sequence[np.ndarray], outputs: Sequence[np.ndarray]) -> Callable[[], object]:
    """The builder of our side: inputs are the photograph, the output the logits."""
    return Network(inputs[0], weights(), outputs[0])


# The same elsewhere


def torch_forward(image: Any, given: Mapping[str, np.ndarray], fold: bool = True) -> Callable[[], Any]:
    """torch, eager; fold: with batch norms folded. image: a tensor, whose memory format the weights take too."""
    import torch
    from torch.nn import functional

    ready = {
        name: torch.from_numpy(np.ascontiguousarray(value))
        for name, value in (fold_batch_norms(given) if fold else given).items()
    }
    if image.is_contiguous(memory_format=torch.channels_last) and not image.is_contiguous():
        ready = {
            name: value.contiguous(memory_format=torch.channels_last) if value.ndim == 4 else value
            for name, value in ready.items()
        }

    def layer(one: Layer, x: Any, residual: Any) -> Any:
        y = functional.conv2d(x, ready[f"{one.name}.weight"], ready.get(f"{one.name}.bias"), one.stride, one.padding)
        if not fold:
            gamma, beta, mean, var = (ready[f"{one.name}.{part}"] for part in ("gamma", "beta", "mean", "var"))
            y = functional.batch_norm(y, mean, var, gamma, beta, eps=EPSILON)
        y = y if residual is None else y.add_(residual)
        return y.relu_() if one.relu else y

    def forward() -> Any:
        with torch.inference_mode():
            values = {"image": image}
            for each in layers():
                values[each.name] = layer(each, values[each.source], values[each.residual] if each.residual else None)
                if each.name == "conv1":
                    values["pooled"] = functional.max_pool2d(values["conv1"], 3, 2, 1)
            return functional.linear(values["conv5_2b"].mean((2, 3)), ready["dense.weight"], ready["dense.bias"])

    return forward


def ort_nodes() -> tuple[list[Node], dict[str, np.ndarray]]:
    """The network as ONNX nodes from "x0" to "y0", and its weights."""
    nodes: list[Node] = []
    name_of = {"image": "x0"}
    for layer in layers():
        sizes = {"kernel_shape": [layer.reach] * 2, "strides": [layer.stride] * 2, "pads": [layer.padding] * 4}
        output = f"{layer.name}.convolved"
        inputs = [name_of.get(layer.source, layer.source), f"{layer.name}.weight", f"{layer.name}.bias"]
        nodes.append(Node("Conv", inputs, [output], sizes))
        if layer.residual:
            nodes.append(Node("Add", [output, layer.residual], [f"{layer.name}.added"]))
            output = f"{layer.name}.added"
        nodes.append(Node("Relu" if layer.relu else "Identity", [output], [layer.name]))
        if layer.name == "conv1":
            nodes.append(
                Node("MaxPool", ["conv1"], ["pooled"], {"kernel_shape": [3, 3], "strides": [2, 2], "pads": [1] * 4})
            )
    nodes += [
        Node("GlobalAveragePool", ["conv5_2b"], ["mean"]),
        Node("Flatten", ["mean"], ["flat"]),
        Node("Gemm", ["flat", "dense.weight", "dense.bias"], ["y0"], {"transB": 1}),
    ]
    return nodes, fold_batch_norms(weights())


def flops() -> float:
    """Operations of all convolutions and the dense layer."""
    side = {"image": 224, "pooled": 56}
    total = 2.0 * 512 * CLASSES
    for layer in layers():
        side[layer.name] = side[layer.source] // layer.stride
        total += 2.0 * layer.outputs * side[layer.name] ** 2 * layer.inputs * layer.reach**2
    return total


def main() -> None:
    import torch

    image, logits = photograph(), np.empty((1, CLASSES), np.float32)
    Network(image, weights(), logits)()
    theirs = torch_forward(torch.from_numpy(image), weights(), fold=False)().numpy()
    print(
        f"{flops() / 1e9:.2f} GFLOP; logits differ from torch's, whose batch norms are not folded, by at most "
        f"{np.abs(logits - theirs).max():.2g} of {np.abs(theirs).max():.3g}"
    )
    print("greatest five:", np.argsort(-logits[0])[:5].tolist(), "torch:", np.argsort(-theirs[0])[:5].tolist())

    from .harness import main as bench

    raise SystemExit(bench(["resnet18"]))


if __name__ == "__main__":
    main()
