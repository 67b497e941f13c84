"""Programs of torch.export: read without torch, made functional, refused whole, never trusted."""

from __future__ import annotations

import io
import json
import math
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tilewright as tw

torch: Any = pytest.importorskip("torch", reason="torch, which exports the programs, is not installed")
nn: Any = torch.nn
F: Any = torch.nn.functional
tree: Any = pytest.importorskip("torch.utils._pytree")


def arrays(values: Any) -> list[Any]:
    return [value.detach().numpy() for value in tree.tree_leaves(values) if isinstance(value, torch.Tensor)]


def agrees(model: Any, *args: Any, dynamic: Any = None, others: Any = (), build: bool = False) -> Any:
    """The graph of a module, after its outputs were compared with torch's for these arguments, and for others."""
    g = tw.graph.from_torch(model.eval(), args, dynamic_shapes=dynamic)
    for given in (args, *others):
        copies = tree.tree_map(lambda value: value.clone(), given)
        with torch.no_grad():
            expected = arrays(model(*copies))
        results = g.run(*arrays(given))
        for result, wanted in zip(results, expected, strict=False):
            assert (result.shape, result.dtype) == (wanted.shape, wanted.dtype)
            np.testing.assert_allclose(
                result, wanted, rtol=1e-4, atol=1e-4 * max(np.abs(wanted.astype("f8")).max(initial=0), 1e-9)
            )
        if build:
            m = tw.build(g)
            assert m.verify(*arrays(given)), m.verify(*arrays(given))
    return g


def module(function: Any) -> Any:
    """A function of tensors as a module."""
    made = nn.Module()
    made.forward = function
    return made


class Block(nn.Module):  # type: ignore[misc]
    """A residual block as in ResNet and MobileNet: in-place activations and sums."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.first = nn.Conv2d(3, channels, 3, stride=2, padding=1, bias=False)
        self.norm = nn.BatchNorm2d(channels)
        self.deep = nn.Conv2d(channels, channels, 3, padding="same", groups=channels)
        self.squeeze = nn.Sequential(
            nn.AdaptiveAvgPool2d(1), nn.Conv2d(channels, 2, 1), nn.SiLU(), nn.Conv2d(2, channels, 1), nn.Hardsigmoid()
        )
        self.head = nn.Linear(channels, 5)

    def forward(self, x: Any) -> Any:
        y = F.relu6(self.norm(self.first(x)), inplace=True)
        z = F.hardswish(self.deep(y), inplace=True)
        z = z * self.squeeze(z)
        z += y
        z = F.max_pool2d(z, 3, 2, 1, ceil_mode=True)
        return self.head(torch.flatten(F.dropout(F.adaptive_avg_pool2d(z, 1), training=self.training), 1))


class Cache(nn.Module):  # type: ignore[misc]
    """Writes rows to a buffer and to an input."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("keys", torch.zeros(1, 2, 9, 4))
        self.project = nn.Linear(8, 8)

    def forward(self, x: Any, at: Any, values: Any) -> Any:
        row = self.project(x).view(1, 1, 2, 4).transpose(1, 2)
        self.keys.index_copy_(2, at, row)
        values[:, :, at] = row * 2
        return self.keys.sum(2) + values.sum(2)


def test_buffers_and_inputs_that_are_written_are_state() -> None:
    net, values, ours = Cache().eval(), torch.zeros(1, 2, 9, 4), torch.zeros(1, 2, 9, 4)
    g = tw.graph.from_torch(
        net, (torch.zeros(1, 1, 8), torch.tensor([3]), values), state={"keys": "keys", "values": "values"}
    )
    assert list(g.inputs) == ["x", "at", "values", "keys"] and [node.operator for node in g.nodes].count("put") == 2
    m, keys = tw.build(g), np.zeros((1, 2, 9, 4), "float32")
    for at in range(3):
        x = torch.randn(1, 1, 8)
        with torch.no_grad():
            expected = net(x, torch.tensor([at]), values)
        np.testing.assert_allclose(m(x, torch.tensor([at]), ours, keys), expected.numpy(), rtol=1e-4, atol=1e-5)
        np.testing.assert_allclose(ours.numpy(), values.numpy(), rtol=1e-5, atol=1e-6)
        np.testing.assert_allclose(keys, net.keys.numpy(), rtol=1e-5, atol=1e-6)


class Positions(nn.Module):  # type: ignore[misc]
    """A table of positions, cut to the length of what comes, and a split beside an axis of any length."""

    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Parameter(torch.randn(1, 9, 6))

    def forward(self, x: Any) -> Any:
        first, second = (x + self.table[:, : x.shape[1]]).split(3, dim=2)
        return first[:, 1:] * second[:, :-1]


def test_slices_end_at_symbols() -> None:
    x = torch.randn(2, 7, 6)
    sizes = ({1: torch.export.Dim("s", min=3, max=9)},)
    g = agrees(Positions(), x, dynamic=sizes, others=[(x[:, :4],)], build=True)
    assert [type(extent) for extent in next(iter(g.outputs.values())).shape] == [int, str, int]


class Turned(nn.Module):  # type: ignore[misc]
    def forward(self, x: Any) -> Any:
        return x.flip(0, 1) + x.roll((1, -2), (1, 0)) + x.roll(1, 1), x.reshape(-1, 3, 2).sum(2)


def test_what_turns_along_open_extents() -> None:
    x = torch.randn(5, 6)
    agrees(Turned(), x, dynamic=({0: torch.export.Dim("n", min=3)},), others=[(x[:3],)], build=True)


class Decoder(nn.Module):  # type: ignore[misc]
    """A layer as in Llama: RMS norm, rotary embedding, grouped queries, SwiGLU."""

    def __init__(self, heads: int = 4, groups: int = 2, depth: int = 8) -> None:
        super().__init__()
        width = heads * depth
        self.heads, self.groups, self.depth = heads, groups, depth
        self.table = nn.Embedding(31, width)
        self.norm, self.after = nn.RMSNorm(width), nn.RMSNorm(width, eps=1e-6)
        self.q, self.k, self.v = (nn.Linear(width, count * depth, bias=False) for count in (heads, groups, groups))
        self.o = nn.Linear(width, width, bias=False)
        self.gate, self.up, self.down = (
            nn.Linear(width, 3 * width),
            nn.Linear(width, 3 * width),
            nn.Linear(3 * width, width),
        )

    def rotated(self, x: Any) -> Any:
        at = torch.arange(x.shape[-2], dtype=torch.float32)
        angles = torch.outer(at, 10000.0 ** -(torch.arange(0, self.depth, 2, dtype=torch.float32) / self.depth))
        angles = torch.cat([angles, angles], -1)
        low, high = x[..., : self.depth // 2], x[..., self.depth // 2 :]
        return x * angles.cos() + torch.cat([-high, low], -1) * angles.sin()

    def forward(self, tokens: Any) -> Any:
        x = self.table(tokens)
        y = self.norm(x)
        n, s = tokens.shape
        q = self.rotated(self.q(y).view(n, s, self.heads, self.depth).transpose(1, 2))
        k = self.rotated(self.k(y).view(n, s, self.groups, self.depth).transpose(1, 2))
        v = self.v(y).view(n, s, self.groups, self.depth).transpose(1, 2)
        a = F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)
        x = x + self.o(a.transpose(1, 2).reshape(n, s, -1))
        z = self.after(x)
        return x + self.down(F.silu(self.gate(z)) * self.up(z))


class Encoder(nn.Module):  # type: ignore[misc]
    """A layer as in BERT, ViT and Whisper: a convolution of patches, a class token, attention with a mask, GELU."""

    def __init__(self) -> None:
        super().__init__()
        self.patches = nn.Conv2d(3, 16, 4, 4)
        self.first = nn.Parameter(torch.randn(1, 1, 16))
        self.norm = nn.LayerNorm(16)
        self.qkv, self.out, self.mlp = nn.Linear(16, 48), nn.Linear(16, 16), nn.Linear(16, 16)

    def forward(self, image: Any, mask: Any) -> Any:
        x = self.patches(image).flatten(2).permute(0, 2, 1)
        x = torch.cat([self.first.expand(x.shape[0], -1, -1), x], 1)
        q, k, v = (part.unflatten(-1, (2, 8)).transpose(1, 2) for part in self.qkv(self.norm(x)).chunk(3, -1))
        a = F.scaled_dot_product_attention(q, k, v, attn_mask=mask[:, None, None, :])
        x = x + self.out(a.transpose(1, 2).flatten(2))
        return x + F.gelu(self.mlp(x), approximate="tanh"), torch.softmax(x[:, 0], -1)


class Net(nn.Module):  # type: ignore[misc]
    """A U-Net: down, up by resizing and by a transposed convolution, and what was seen before beside it."""

    def __init__(self) -> None:
        super().__init__()
        self.down, self.up = nn.Conv2d(3, 8, 3, 2, 1), nn.ConvTranspose2d(8, 4, 3, 2, 1, 1)
        self.norm, self.last = nn.GroupNorm(2, 8), nn.Conv2d(15, 2, 1)

    def forward(self, x: Any) -> Any:
        y = F.leaky_relu(self.norm(self.down(x)), 0.2)
        far = F.interpolate(y, scale_factor=2, mode="bilinear", align_corners=False)
        return self.last(torch.cat([x, self.up(y), far], 1))


def test_a_block_of_a_vision_model() -> None:
    torch.manual_seed(0)
    g = agrees(Block(7), torch.randn(2, 3, 13, 11), build=True)
    assert [node.operator for node in g.nodes][:3] == ["conv", "batch_norm", "clip"]
    assert "first.weight" in g.params and g.nodes[0].source.startswith("conv2d (")
    assert tw.graph.parse(str(g), params=g.params) == g


def test_a_layer_of_a_decoder_of_any_length() -> None:
    torch.manual_seed(1)
    length = torch.export.Dim("length", min=2, max=64)
    tokens = torch.randint(0, 31, (2, 9))
    g = agrees(Decoder(), tokens, dynamic=({1: length},), others=[(tokens[:, :5],)])
    assert len(g.symbols) == 1 and [node.operator for node in g.nodes].count("attention") == 1


def test_a_layer_of_an_encoder_with_a_mask() -> None:
    torch.manual_seed(2)
    mask = torch.ones(2, 7, dtype=torch.bool)
    mask[0, 5:] = False
    agrees(Encoder(), torch.randn(2, 3, 8, 12), mask, build=True)


def test_a_net_that_goes_down_and_up() -> None:
    torch.manual_seed(3)
    agrees(Net(), torch.randn(1, 3, 8, 6))


def test_an_archive_is_read_without_torch(tmp_path: Path) -> None:
    torch.manual_seed(4)
    x = torch.randn(3, 4)
    model = nn.Sequential(nn.Linear(4, 5), nn.ReLU()).eval()
    model[0].weight.data = model[0].weight.data.t().contiguous().t()  # strides that are not in order
    torch.export.save(torch.export.export(model, (x,)), tmp_path / "net.pt2")
    np.save(tmp_path / "x.npy", x.numpy())
    program = (
        "import sys, numpy as np, tilewright as tw; g = tw.graph.from_torch('net.pt2'); assert 'torch' not in sys.modules; "
        "np.save('y.npy', g.run(np.load('x.npy'))[0])"
    )
    subprocess.run([sys.executable, "-c", program], cwd=tmp_path, check=True, env={"PYTHONPATH": ":".join(sys.path)})
    np.testing.assert_allclose(np.load(tmp_path / "y.npy"), model(x).detach().numpy(), rtol=1e-5, atol=1e-6)


class Memory(nn.Module):  # type: ignore[misc]
    """Writes to buffers, to its input, and through views of them."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("cache", torch.zeros(2, 5, 3))
        self.register_buffer("count", torch.zeros((), dtype=torch.int64))

    def forward(self, x: Any, at: Any) -> Any:
        self.cache[:, at] = x[:, None]
        self.count += 1
        x.view(6)[1:5].mul_(2)
        column = x.transpose(0, 1)[2]
        column += 1
        copy = x.t().reshape(6)  # of what is out of order a reshape is a copy
        copy[0] = 100.0
        first, _ = x.split(1)
        first.clamp_(min=-1)
        return self.cache.sum(1) + self.count, column * 1, copy


def test_what_is_written_comes_after_the_users_outputs() -> None:
    x, at = torch.arange(6, dtype=torch.float32).reshape(2, 3) - 3, torch.tensor([3])
    g = tw.graph.from_torch(Memory(), (x.clone(), at))
    after, model = x.clone(), Memory()
    expected = model(after, at)
    assert list(g.outputs)[-3:] == ["cache", "count", "x"]
    for result, wanted in zip(g.run(x.numpy(), at.numpy()), [*expected, model.cache, model.count, after], strict=True):
        np.testing.assert_allclose(result, wanted.numpy(), rtol=1e-6)


def test_a_write_through_a_view_that_is_not_known_is_refused() -> None:
    def forward(x: Any) -> Any:
        y = x.clone()
        y.unfold(1, 2, 2).mul_(3)
        return y

    with pytest.raises(tw.GraphError, match=r"(?s)TW0912: .*it writes through a view made by unfold"):
        tw.graph.from_torch(module(forward), (torch.zeros(2, 5),))


def test_every_operator_that_gives_a_view_is_known_to() -> None:
    """What writes to it writes to what it is of: one that is not known to be a view was written to alone."""
    from tilewright.graph.torch.call import ROWS, VIEWS

    missing: list[str] = []
    for name in ROWS:
        operator, _, overload = name.partition(".")
        found = getattr(getattr(torch.ops.aten, operator, None), overload, None)
        returns = found._schema.returns if found is not None else ()
        if any(one.alias_info is not None and not one.alias_info.is_write for one in returns) and name not in VIEWS:
            missing.append(name)
    assert missing == ["positive.default"], "which the importer gives as what it is of"


def test_writes_to_diagonals_and_parts() -> None:
    def forward(x: Any) -> Any:
        y = x.clone()
        y.diagonal().fill_(0)
        y.diagonal(1, -1, 0).mul_(2)
        y.tensor_split([1], 1)[1].add_(1)
        return y

    agrees(module(forward), torch.randn(4, 5), build=True)


@pytest.mark.parametrize(
    "function",
    [
        lambda x, i: x[:, i, i] + x[i, :, 2:3, 0].sum(),
        lambda x, i: x.index_put((i, torch.tensor(1)), torch.ones(4, 5), accumulate=True),
        lambda x, i: (x.max(1).values, x.argmin(-1), x.var((0, 2)), x.std(unbiased=False), x.logsumexp(0)),
        lambda x, i: (x // 0.7, x % 0.7, torch.fmod(i, -2), i / 2, torch.div(i, 2, rounding_mode="trunc"), x**3, i**2),
        lambda x, i: (x > i[0], i + 0.5, i * True, (x > 0) | (x < -1), x.masked_fill(x < 0, -7), x.clamp(min=0)),
        lambda x, i: (torch.where(x > 0, x, 1), torch.remainder(i, -2)),
        lambda x, i: (x.flip(1, 3), x.roll((1, -2), (0, 3)), x.unfold(3, 2, 2), x.repeat(2, 1, 1, 1)),
        lambda x, i: (x.repeat_interleave(2, 1), x.diff()),
        lambda x, i: (
            F.pad(x, (1, 2, 0, -1)),
            F.pad(x, (1, 1, 2, 2), mode="reflect"),
            torch.tril(x, 1),
            x.movedim(0, -1),
            x.mT @ x,
        ),
        lambda x, i: (
            F.adaptive_avg_pool2d(x, (3, 2)),
            F.avg_pool2d(x, 2, 1, 1, False, False),
            F.interpolate(x, (7, 3)),
        ),
        lambda x, i: (
            F.normalize(x),
            F.glu(x[:, :2], 1),
            F.softplus(x, 2.0),
            F.layer_norm(x, (4, 5)),
            x.topk(2, -1)[1],
        ),
        lambda x, i: x.sort(1)[0],
        lambda x, i: (
            torch.einsum("bchw,dc->bdhw", x, x[0, :, :, 0].t()),
            torch.linspace(0, 1, 5) + x,
            F.one_hot(i, 4),
        ),
    ],
)
def test_operators_agree_with_torch(function: Any) -> None:
    x = torch.randn(3, 3, 4, 5, generator=torch.Generator().manual_seed(0))
    agrees(module(function), x, torch.tensor([2, 0, 1]))


def test_everything_that_is_not_supported_is_listed_at_once() -> None:
    def forward(x: Any) -> Any:
        return torch.linalg.inv(x) + torch.linalg.inv(x + 1) + torch.special.bessel_j0(x), F.dropout(
            x, 0.5, training=True
        )

    with pytest.raises(
        tw.GraphError,
        match=r"(?s)TW0912: the model has 4 nodes.*2 × torch.ops.aten.linalg_inv.default: .*"
        r"1 × torch.ops.aten.special_bessel_j0.default: .*1 × torch.ops.aten.dropout.default: it is in training",
    ):
        tw.graph.from_torch(module(forward), (torch.randn(3, 3),))


def test_what_is_no_model_is_refused(tmp_path: Path) -> None:
    for wrong in (b"", b"PK", 3, tmp_path / "nothing.pt2", nn.Linear(2, 2)):
        with pytest.raises(tw.GraphError, match=r"TW0911"):
            tw.graph.from_torch(wrong)


def saved() -> bytes:
    content = io.BytesIO()
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 5), nn.ReLU(), nn.Linear(5, 3, bias=False)).eval()
    torch.export.save(torch.export.export(model, (torch.randn(2, 4),)), content)
    return content.getvalue()


def rewritten(content: bytes, change: Any, compression: int = zipfile.ZIP_STORED) -> bytes:
    """An archive with its entries changed: a function of a name and bytes."""
    result = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(content)) as old, zipfile.ZipFile(result, "w", compression) as new:
        for name in old.namelist():
            new.writestr(name, change(name, old.read(name)))
    return result.getvalue()


def changed_config(**changes: Any) -> Any:
    def change(name: str, content: bytes) -> bytes:
        if not name.endswith("model_weights_config.json"):
            return content
        whole = json.loads(content)
        whole["config"]["0.weight"].update(changes)
        return json.dumps(whole).encode()

    return change


def meta(**changes: Any) -> Any:
    plain = {
        "dtype": 7,
        "sizes": [{"as_int": 5}, {"as_int": 4}],
        "requires_grad": True,
        "device": {"type": "cpu"},
        "layout": 7,
        "strides": [{"as_int": 4}, {"as_int": 1}],
        "storage_offset": {"as_int": 0},
    }
    return {"tensor_meta": {**plain, **changes}}


@pytest.mark.parametrize(
    "changes",
    [
        {"path_name": "../../weight_0"},
        {"path_name": "/etc/passwd"},
        {"path_name": 3},
        {"use_pickle": True},
        meta(sizes=[{"as_int": 1 << 40}, {"as_int": 1 << 20}]),
        meta(strides=[{"as_int": 400}, {"as_int": 1}]),
        meta(storage_offset={"as_int": -1}),
        meta(strides=[{"as_int": -4}, {"as_int": 1}]),
        meta(storage_offset={"as_int": 1}),
        meta(dtype=9),
        meta(dtype=8),
        meta(layout=1),
        meta(sizes=[{"as_int": 4}, {"as_int": 5}]),
        meta(sizes=[{"as_int": 1 << 40}, {"as_int": 0}]),
        meta(strides=[{"as_int": 0}]),
    ],
)
def test_weights_are_where_they_may_be_and_whole(changes: dict[str, Any]) -> None:
    with pytest.raises(tw.GraphError, match=r"TW0913|TW0901"):
        tw.graph.from_torch(rewritten(saved(), changed_config(**changes)))


def test_compressed_entries_are_not_read() -> None:
    with pytest.raises(tw.GraphError, match="compressed"):
        tw.graph.from_torch(rewritten(saved(), lambda name, content: content, zipfile.ZIP_DEFLATED))


def test_pickles_are_never_read() -> None:
    whole = saved()
    spoilt = rewritten(whole, lambda name, content: b"no pickle at all" if name.endswith(".pt") else content)
    assert tw.graph.from_torch(spoilt) == tw.graph.from_torch(whole)


def test_mutated_archives_are_refused_or_read() -> None:
    whole = saved()
    random = np.random.default_rng(5)

    def spoilt() -> bytes:
        """An archive whose zip is whole, and whose JSON says something else."""

        def change(name: str, content: bytes) -> bytes:
            if name.endswith("models/model.json"):
                text = bytearray(content)
                for at in random.integers(0, len(text), int(random.integers(1, 4))):
                    text[at] = b'0123456789{}[]",:nats_'[int(random.integers(0, 22))]
                return bytes(text)
            return content

        return rewritten(whole, change)

    def flipped() -> bytes:
        content = bytearray(whole)
        for at in random.integers(0, len(whole), int(random.integers(1, 6))):
            content[at] = int(random.integers(0, 256))
        return bytes(content[: int(random.integers(1, len(whole)))] if random.integers(0, 4) == 0 else content)

    def code(content: bytes) -> str:
        try:
            tw.graph.from_torch(content)
        except tw.TilewrightError as error:
            return error.code[:4]
        return "read"

    codes = [code(make()) for make in (spoilt, flipped) for _ in range(30)]
    assert set(codes) == {"TW09", "read"} and codes.count("TW09") >= 15


@pytest.mark.parametrize("rank", [1, 2, 4])
def test_losses(rank: int) -> None:
    torch.manual_seed(rank)
    x = torch.randn([(5,), (7, 5), (3, 5, 2, 2)][{1: 0, 2: 1, 4: 2}[rank]])
    classes = torch.randint(0, 5, [s for at, s in enumerate(x.shape) if at != min(rank - 1, 1)])
    for reduction in ("mean", "sum", "none"):
        agrees(module(lambda x, t, r=reduction: F.cross_entropy(x, t, reduction=r)), x, classes)
        agrees(module(lambda x, t, r=reduction: F.nll_loss(x, t, reduction=r)), x, classes)
    agrees(
        module(lambda x, t: F.cross_entropy(x, t, ignore_index=1)), x, torch.full_like(classes, 1 if rank < 2 else 2)
    )
    for loss in (F.mse_loss, F.l1_loss, F.binary_cross_entropy_with_logits):
        agrees(module(lambda x, y, f=loss: f(x, y)), x, torch.rand_like(x))


def test_weights_that_are_only_moved_stay_weights() -> None:
    """What is made of a parameter alone is not a constant: a training changes it."""

    class Places(nn.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.table = nn.Embedding(7, 5)

        def forward(self, x: Any) -> Any:
            return x * self.table(torch.arange(3))

    model = Places()
    g = agrees(model, torch.randn(3, 5))
    assert "table.weight" in g.params


def test_flexible_attention_is_written_out() -> None:
    """Groups of heads, a function of scores that reads parameters and inputs, and a mask of blocks."""
    flexible: Any = pytest.importorskip("torch.nn.attention.flex_attention")

    class Flexible(nn.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.bias = nn.Parameter(torch.randn(4))
            self.blocks = flexible.create_block_mask(lambda b, h, i, j: i >= j, None, None, 128, 128, device="cpu")

        def forward(self, q: Any, k: Any, v: Any, kind: Any) -> Any:
            def of_kind(score: Any, b: Any, h: Any, i: Any, j: Any) -> Any:
                return torch.where(kind[b, i] == kind[b, j], score + self.bias[h], -float("inf"))

            return flexible.flex_attention(q, k, v, score_mod=of_kind, enable_gqa=True) + flexible.flex_attention(
                q, k, v, block_mask=self.blocks, scale=0.1, enable_gqa=True
            )

    torch.manual_seed(0)
    parts = (
        torch.randn(1, 4, 128, 8),
        torch.randn(1, 2, 128, 8),
        torch.randn(1, 2, 128, 8),
        torch.randint(0, 3, (1, 128)),
    )
    g = agrees(Flexible(), *parts)
    assert not [node for node in g.nodes if node.bodies]


def test_repeats_by_symbols() -> None:
    Dim: Any = torch.export.Dim
    repeated = module(lambda x, y: x.unsqueeze(0).repeat(y.shape[0], 1, 2))
    agrees(
        repeated,
        torch.randn(2, 3),
        torch.randn(4, 5),
        dynamic=({1: Dim("m", min=2)}, {0: Dim("n")}),
        others=[(torch.randn(2, 4), torch.randn(3, 5))],
    )


@pytest.mark.parametrize("chosen", [0.2, 0.8, 2.0])
def test_what_masks_choose_is_as_large_as_they_say(chosen: float) -> None:
    """One graph closes itself for each count; what is written where a mask is true needs no count."""

    def write(x: Any, mask: Any) -> Any:
        y = x.clone()
        y[mask[:, 1]] = 1.5
        return y

    def choose(x: Any, mask: Any) -> Any:
        chosen = torch.masked_select(x, ~mask)
        return x[mask], x[mask[:, 0]].sum(), chosen, torch.nonzero(mask), torch.where(mask)[1], write(x, mask)

    torch.manual_seed(1)
    given = torch.randn(4, 5), torch.rand(4, 5) > chosen
    g = tw.graph.from_torch(module(choose), given)
    assert isinstance(g, tw.graph.OpenGraph)
    expected = arrays(choose(*given))
    built = tw.build(g)(*arrays(given)) if chosen < 1 else []
    for results in (g.run(*arrays(given)), built):
        for result, wanted in zip(results, expected, strict=bool(results)):
            assert (result.shape, result.dtype) == (wanted.shape, wanted.dtype)
            np.testing.assert_allclose(result, wanted, rtol=1e-4, atol=1e-6)
    assert isinstance(tw.graph.from_torch(module(write), given), tw.graph.Graph)


def test_counts_of_bins_and_axes_that_are_swapped() -> None:
    values = torch.tensor([0.0, 0.9, 1.0, 2.5, 3.0, 3.1, -0.1, 1.7])
    agrees(
        module(
            lambda x: (torch.histc(x, 4, 0, 3), torch.histc(x.swapaxes(0, 1).reshape(-1), 3, -1, 2), x.swapdims(1, 0))
        ),
        values.reshape(2, 4),
    )


def test_a_training_changes_parameters_and_neither_buffers_nor_numbers_of_the_program() -> None:
    class Scaled(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer, self.norm = torch.nn.Linear(4, 3), torch.nn.BatchNorm1d(3)
            self.layer.bias.requires_grad = False
            self.register_buffer("scale", torch.tensor(2.0))

        def forward(self, x: Any) -> Any:
            return (self.norm(self.layer(x)) * 0.125 * self.scale).square().mean()

    g = tw.graph.from_torch(Scaled().eval(), (torch.ones(5, 4),))
    assert list(g.training_step(next(iter(g.outputs)), optimizer="sgd").state) == [
        "layer.weight",
        "norm.weight",
        "norm.bias",
    ]


def test_quotients_of_sizes_are_floats_until_they_are_whole_again() -> None:
    def steps(x: Any) -> Any:
        n = x.shape[0]
        back = torch.arange(n, -n, -1.0)
        return back, torch.arange(0, n, 0.5), x[-100:] * (n / 2), x[: math.ceil(n * 0.75)], x.sum() / n

    agrees(
        module(steps),
        torch.randn(6, 3),
        dynamic={"x": {0: torch.export.Dim.AUTO}},
        others=[(torch.randn(9, 3),)],
        build=True,
    )


def test_channels_that_are_open_are_as_many_as_there_are_weights() -> None:
    net = nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4))
    g = agrees(net, torch.randn(2, 3, 9, 9), dynamic=(dict.fromkeys(range(4), torch.export.Dim.AUTO),))
    raw = agrees(nn.BatchNorm2d(4), torch.randn(2, 4, 3, 3), dynamic=(dict.fromkeys(range(4), torch.export.Dim.AUTO),))
    assert g.symbols and raw.symbols


def test_what_torch_assumed_of_sizes_is_asked_of_them() -> None:
    """Which torch checks before it runs a program, and which no node tells: that n // 2 was 3 in the example, or n at most 12."""
    half = module(lambda x: x[: int(x.shape[0] / 2)].sum() / x.shape[0])
    bounded = module(lambda x: torch.relu(x) + 1)
    x = torch.randn(6, 3)
    specialised = agrees(half, x, dynamic={"x": {0: torch.export.Dim.AUTO}}, others=[(torch.randn(7, 3),)])
    limited = agrees(
        bounded, x, dynamic={"x": {0: torch.export.Dim("n", max=12)}}, others=[(torch.randn(12, 3),)], build=True
    )
    for g, wrong in ((specialised, 9), (limited, 13)):
        for run in (g.run, tw.build(g)):
            with pytest.raises(tw.GraphError, match="TW0906"):
                run(np.zeros((wrong, 3), "float32"))
    free = agrees(bounded, x, dynamic={"x": {0: torch.export.Dim("n")}}, others=[(torch.randn(1, 3),)])
    assert "after" not in [node.operator for node in free.nodes]


def test_operators_without_a_row_are_taken_apart_by_torch_and_others_stay() -> None:
    net = nn.LayerNorm(6)
    g = agrees(
        module(
            lambda x: (F.soft_margin_loss(net(x), x.sign()), torch.rot90(x), torch.kron(x, x), torch.std_mean(x, 1))
        ),
        torch.randn(4, 6),
        build=True,
    )
    assert "layer_norm" in [node.operator for node in g.nodes]


def test_results_that_torch_writes_to_no_file_are_read() -> None:
    agrees(module(lambda x: (x.topk(3, -1), x.sort(1))), torch.randn(4, 6))


@pytest.mark.parametrize("sizes", [(7, 9), (3, 2), (6, 8)])
def test_the_exactly_nearest_place_is_the_one_under_the_middle(sizes: tuple[int, int]) -> None:
    agrees(module(lambda x: F.interpolate(x, size=sizes, mode="nearest-exact")), torch.randn(1, 2, 4, 4))
    agrees(module(lambda x: F.interpolate(x, size=sizes[:1], mode="nearest-exact")), torch.randn(1, 2, 4))


def test_shuffles_of_open_batches_bilinear_forms_and_norms_of_any_order() -> None:
    n = {0: torch.export.Dim("n")}
    form = nn.Bilinear(4, 5, 6)
    agrees(
        module(lambda x: (F.pixel_unshuffle(x, 2), F.channel_shuffle(x, 3))), torch.randn(2, 6, 4, 6), dynamic={"x": n}
    )
    agrees(
        module(lambda x, y: (form(x, y), F.pairwise_distance(x, y[:, :4], 3.0), F.rrelu(x))),
        torch.randn(3, 4),
        torch.randn(3, 5),
        dynamic={"x": n, "y": n},
    )


def test_slices_from_the_end_by_the_size_of_another_input() -> None:
    """Their ends are symbols below 0, which were taken for places from the beginning, so that no size fitted."""
    k, n = torch.export.Dim("k", min=1, max=64), torch.export.Dim("n", min=1, max=64)
    programs = (
        module(lambda x, y: x[:, -y.shape[0] :]),
        module(lambda x, y: x[:, : -y.shape[0]]),
    )
    for net in programs:
        g = tw.graph.from_torch(net, (torch.zeros(3, 16), torch.zeros(5)), dynamic_shapes=({1: n}, {0: k}))
        for size, other in ((16, 5), (7, 3), (5, 4)):
            x, y = torch.randn(3, size), torch.randn(other)
            np.testing.assert_array_equal(g.run(x.numpy(), y.numpy())[0], net(x, y).numpy())


def test_tensors_of_more_dimensions_than_arrays_have_are_refused() -> None:
    def widened(name: str, content: bytes) -> bytes:
        if not name.endswith(".json") or b'"sizes"' not in content:
            return content
        return content.replace(b'"sizes": [', b'"sizes": [' + b'{"as_int": 1}, ' * 72).replace(
            b'"strides": [', b'"strides": [' + b'{"as_int": 1}, ' * 72
        )

    with pytest.raises(tw.GraphError, match=r"TW09(11|13).*"):
        tw.graph.from_torch(rewritten(saved(), widened))
    with pytest.raises(tw.GraphError, match="73 dimensions"):
        tw.graph.parse("graph g {\n  input x: float32[" + ", ".join(["1"] * 73) + "]\n  output x = x\n}")
