"""The models that `python -m tools.benchmarks.models` measures: torch modules with drawn weights, and files that wheels ship.

What is drawn is drawn from a fixed seed; nothing is downloaded. Modules need torch, torchvision and transformers; files need the
packages that ship them (rapidocr_onnxruntime, silero_vad, magika), which are looked up and not imported.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["FILES", "MODULES", "File", "load_file", "load_module"]

Case = tuple[Any, tuple[Any, ...]]


def vision(name: str) -> Case:
    """A model of torchvision, and an image, whose size may stand behind the name: `resnet18@193`, four of them `resnet18@4x193`."""
    import torch
    import torchvision

    name, _, size = name.partition("@")
    batch, _, side = size.rpartition("x")
    return torchvision.models.get_model(name, weights=None), (torch.randn(int(batch or 1), 3, *[int(side or 224)] * 2),)


def plain(model: Any, parameter: str = "input_ids", masked: bool = False) -> Any:
    """A model of transformers with one input and one output, which every exporter takes. masked: it is passed a mask that shows
    all."""
    import torch

    class Plain(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.model = model

        def forward(self, x: Any) -> Any:
            return self.model(**{parameter: x}, **({"attention_mask": torch.ones_like(x)} if masked else {}))[0]

    return Plain()


def bert() -> Case:
    """BERT-base, and 128 tokens."""
    import torch
    import transformers

    config = transformers.BertConfig(attn_implementation="sdpa")
    return plain(transformers.BertModel(config, add_pooling_layer=False)), (
        torch.randint(0, config.vocab_size, (1, 128)),
    )


def gpt2() -> Case:
    """GPT-2, and a prompt of 128 tokens."""
    import torch
    import transformers

    config = transformers.GPT2Config(attn_implementation="sdpa", use_cache=False)
    return plain(transformers.GPT2LMHeadModel(config)), (torch.randint(0, config.vocab_size, (1, 128)),)


def llama() -> Case:
    """A decoder as Llama's, with rotated positions, grouped heads and gated products, and 64 tokens."""
    import torch
    import transformers

    config = transformers.LlamaConfig(
        vocab_size=32000,
        hidden_size=768,
        num_hidden_layers=8,
        num_attention_heads=12,
        num_key_value_heads=4,
        intermediate_size=2048,
        attn_implementation="sdpa",
        use_cache=False,
    )
    return plain(transformers.LlamaForCausalLM(config), masked=True), (torch.randint(0, config.vocab_size, (1, 64)),)


def whisper() -> Case:
    """Whisper-small's encoder, and 30 seconds of sound as 80 bands."""
    import torch
    import transformers
    from transformers.models.whisper.modeling_whisper import WhisperEncoder

    config = transformers.WhisperConfig(
        d_model=768, encoder_layers=12, encoder_attention_heads=12, encoder_ffn_dim=3072, attn_implementation="sdpa"
    )
    return plain(WhisperEncoder(config), "input_features"), (torch.randn(1, 80, 3000),)


def gpt2_token() -> Case:
    """A step of a decoder of GPT-2's size: one token, keys and values of 127 before it; it gives scores and the rows to keep."""
    import torch
    from torch import nn
    from torch.nn.functional import gelu, scaled_dot_product_attention

    width, heads, layers, words, past = 768, 12, 12, 50257, 127

    class Block(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.before, self.between = nn.LayerNorm(width), nn.LayerNorm(width)
            self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
            self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

        def forward(self, x: Any, keys: Any, values: Any) -> tuple[Any, Any, Any]:
            q, k, v = (
                part.view(1, 1, heads, width // heads).transpose(1, 2)
                for part in self.qkv(self.before(x)).split(width, dim=2)
            )
            y = scaled_dot_product_attention(q, torch.cat([keys, k], 2), torch.cat([values, v], 2))
            x = x + self.out(y.transpose(1, 2).reshape(1, 1, width))
            return x + self.down(gelu(self.up(self.between(x)), approximate="tanh")), k, v

    class Step(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.words, self.places = nn.Embedding(words, width), nn.Embedding(1024, width)
            self.blocks, self.norm = nn.ModuleList(Block() for _ in range(layers)), nn.LayerNorm(width)

        def forward(self, token: Any, keys: Any, values: Any) -> tuple[Any, Any, Any]:
            x = self.words(token) + self.places.weight[past : past + 1]
            rows: list[tuple[Any, Any]] = []
            for at, block in enumerate(self.blocks):
                x, k, v = block(x, keys[at], values[at])
                rows.append((k, v))
            scores = self.norm(x) @ self.words.weight.T
            return scores, torch.stack([k for k, _ in rows]), torch.stack([v for _, v in rows])

    cache = (layers, 1, heads, past, width // heads)
    return Step(), (torch.randint(0, words, (1, 1)), torch.randn(cache), torch.randn(cache))


def unet() -> Case:
    """A U-Net for pictures: convolutions with batch norms, poolings, transposed convolutions, and joins across."""
    import torch
    from torch import nn

    def twice(before: int, after: int) -> Any:
        return nn.Sequential(
            *(
                layer
                for first in (before, after)
                for layer in (nn.Conv2d(first, after, 3, padding=1, bias=False), nn.BatchNorm2d(after), nn.ReLU())
            )
        )

    class UNet(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            widths = (32, 64, 128, 256)
            self.down = nn.ModuleList(map(twice, (3, *widths[:-1]), widths))
            self.grow = nn.ModuleList(
                nn.ConvTranspose2d(2 * width, width, 2, stride=2) for width in reversed(widths[:-1])
            )
            self.up = nn.ModuleList(twice(2 * width, width) for width in reversed(widths[:-1]))
            self.last = nn.Conv2d(widths[0], 2, 1)

        def forward(self, x: Any) -> Any:
            kept: list[Any] = []
            for at, part in enumerate(self.down):
                x = part(nn.functional.max_pool2d(x, 2) if at else x)
                kept.append(x)
            for grow, part, beside in zip(self.grow, self.up, reversed(kept[:-1]), strict=True):
                x = part(torch.cat([beside, grow(x)], 1))
            return self.last(x)

    return UNet(), (torch.randn(1, 3, 128, 128),)


def diffusion() -> Case:
    """A U-Net as diffusion models have: group norms, silu, residues, an embedded time, attention at the coarse level."""
    import torch
    from torch import nn
    from torch.nn.functional import interpolate, scaled_dot_product_attention, silu

    class Residue(nn.Module):
        def __init__(self, before: int, after: int) -> None:
            super().__init__()
            self.a, self.b = nn.GroupNorm(8, before), nn.GroupNorm(8, after)
            self.first, self.second = nn.Conv2d(before, after, 3, padding=1), nn.Conv2d(after, after, 3, padding=1)
            self.time, self.short = (
                nn.Linear(128, after),
                nn.Conv2d(before, after, 1) if before != after else nn.Identity(),
            )

        def forward(self, x: Any, time: Any) -> Any:
            y = self.first(silu(self.a(x))) + self.time(silu(time))[:, :, None, None]
            return self.short(x) + self.second(silu(self.b(y)))

    class Attention(nn.Module):
        def __init__(self, width: int) -> None:
            super().__init__()
            self.norm, self.qkv, self.out = nn.GroupNorm(8, width), nn.Linear(width, 3 * width), nn.Linear(width, width)

        def forward(self, x: Any) -> Any:
            n, c, h, w = x.shape
            rows = self.norm(x).view(n, c, h * w).transpose(1, 2)
            q, k, v = (part.view(n, h * w, 4, c // 4).transpose(1, 2) for part in self.qkv(rows).split(c, dim=2))
            y = self.out(scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(n, h * w, c))
            return x + y.transpose(1, 2).reshape(n, c, h, w)

    class Diffusion(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.time = (
                nn.Conv2d(4, 64, 3, padding=1),
                nn.Sequential(nn.Linear(1, 128), nn.SiLU(), nn.Linear(128, 128)),
            )
            self.fine, self.down = Residue(64, 64), nn.Conv2d(64, 128, 3, stride=2, padding=1)
            self.coarse, self.attention, self.middle = Residue(128, 128), Attention(128), Residue(128, 128)
            self.up, self.joined = nn.Conv2d(128, 64, 3, padding=1), Residue(128, 64)
            self.norm, self.last = nn.GroupNorm(8, 64), nn.Conv2d(64, 4, 3, padding=1)

        def forward(self, x: Any, time: Any) -> Any:
            t = self.time(time)
            fine = self.fine(self.first(x), t)
            x = self.middle(self.attention(self.coarse(self.down(fine), t)), t)
            x = self.up(interpolate(x, scale_factor=2.0, mode="nearest"))
            return self.last(silu(self.norm(self.joined(torch.cat([x, fine], 1), t))))

    return Diffusion(), (torch.randn(1, 4, 64, 64), torch.rand(1, 1))


MODULES: dict[str, Callable[[], Case]] = {
    **{
        name: lambda name=name: vision(name)
        for name in ("resnet18", "resnet50", "mobilenet_v2", "mobilenet_v3_large", "efficientnet_b0", "vit_b_16")
    },
    "bert_base": bert,
    "gpt2_prefill": gpt2,
    "gpt2_token": gpt2_token,
    "llama": llama,
    "whisper_encoder": whisper,
    "unet": unet,
    "diffusion": diffusion,
}
"""Modules and their inputs by name."""


def load_module(name: str) -> Case:
    """A model as it is run, with weights of a fixed seed; one of torchvision where the zoo has no other of this name."""
    import torch

    torch.manual_seed(0)
    module, inputs = MODULES[name]() if name in MODULES else vision(name)
    for layer in module.modules():  # statistics as of a trained network: values keep their magnitude
        if hasattr(layer, "running_var"):
            layer.running_mean.normal_(0, 0.1)
            layer.running_var.uniform_(0.5, 1.5)
        weight = getattr(layer, "weight", None)
        if weight is not None and not weight.any():  # a head that is trained from zeros: its outputs would tell nothing
            torch.nn.init.normal_(weight, std=0.02)
    return module.eval(), inputs


@dataclass(frozen=True)
class File:
    """A file of a package. path: below the package's folder. inputs: by name, drawn."""

    package: str
    path: str
    inputs: Callable[[np.random.Generator], dict[str, NDArray[Any]]]


def picture(*shape: int) -> Callable[[np.random.Generator], dict[str, NDArray[Any]]]:
    """A light page with dark bars on it, as text is from afar."""

    def drawn(random: np.random.Generator) -> dict[str, NDArray[Any]]:
        image = np.ones(shape, "float32") + 0.02 * random.standard_normal(shape).astype("float32")
        for left in range(8, shape[-1] - 8, 12):
            image[..., shape[-2] // 4 : shape[-2] // 4 * 3, left : left + int(random.integers(2, 8))] = -1
        return {"x": image}

    return drawn


def speech(random: np.random.Generator) -> dict[str, NDArray[Any]]:
    """A voiced sound: a tone of 140 Hz and its overtones, and noise."""
    time = np.arange(576) / 16000
    sound = sum(np.sin(2 * np.pi * 140 * k * time) / k for k in range(1, 12)) * 0.1 + 0.01 * random.standard_normal(576)
    return {
        "input": sound[None].astype("float32"),
        "state": np.zeros((2, 1, 128), "float32"),
        "sr": np.array(16000, "int64"),
    }


def text(_: np.random.Generator) -> dict[str, NDArray[Any]]:
    """The bytes of a program, as magika asks for them."""
    words = b"def main():\n    return sum(each.size for each in values if each)\n# what is measured, and how\n"
    row = np.frombuffer((words * 30)[:2048], np.uint8).astype("int32")
    return {"bytes": row[None]}


FILES: dict[str, File] = {
    "ocr_detect": File("rapidocr_onnxruntime", "models/ch_PP-OCRv4_det_infer.onnx", picture(1, 3, 320, 320)),
    "ocr_read": File("rapidocr_onnxruntime", "models/ch_PP-OCRv4_rec_infer.onnx", picture(1, 3, 48, 320)),
    "ocr_turn": File("rapidocr_onnxruntime", "models/ch_ppocr_mobile_v2.0_cls_infer.onnx", picture(1, 3, 48, 192)),
    "silero_vad": File("silero_vad", "data/silero_vad_16k_op15.onnx", speech),
    "magika": File("magika", "models/standard_v3_3/model.onnx", text),
}
"""Files by name."""


def load_file(name: str) -> tuple[Path, dict[str, NDArray[Any]]]:
    """Return the path of a file, and inputs for it. Raises ModuleNotFoundError where its package is not installed."""
    file = FILES[name]
    spec = find_spec(file.package)
    if spec is None or not spec.submodule_search_locations:
        raise ModuleNotFoundError(f"{name} is a file of the package {file.package}, which is not installed")
    return Path(next(iter(spec.submodule_search_locations))) / file.path, file.inputs(np.random.default_rng(0))
