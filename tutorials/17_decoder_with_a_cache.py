"""17. A decoder with a cache: state, which a call updates where it lies.

A language model writes one token after another. What earlier tokens said as keys and values does not change, so it is kept, and
a step computes one token: it puts a row into each cache, and reads the caches. Here is such a step as in Llama (RMS norms, rotary
embeddings, several heads to a group of keys and values, SwiGLU), its weights made up, as one native call.

    g = tw.graph.from_torch(decoder, args, state={"keys": "keys", ...})    # of a module of torch, with the buffers that it writes
    g = tw.graph.from_onnx(path, state={"past": "present", ...})           # of a model of ONNX
"""

import math

import numpy as np
import tilewright as tw

layers, heads, groups, depth, inner, words, longest = 2, 6, 2, 8, 80, 61, 32
width = heads * depth
random = np.random.default_rng(0)


def weights(rows, columns):
    return (random.standard_normal((rows, columns)) / math.sqrt(rows)).astype("float32")


model = {"embedding": weights(words, width), "head": weights(width, words)}
for layer in range(layers):
    model |= {
        f"{layer}.q": weights(width, width),
        f"{layer}.k": weights(width, groups * depth),
        f"{layer}.v": weights(width, groups * depth),
        f"{layer}.o": weights(width, width),
        f"{layer}.gate": weights(width, inner),
        f"{layer}.up": weights(width, inner),
        f"{layer}.down": weights(inner, width),
    }
angles = np.arange(longest)[:, None] / 10000 ** (np.arange(depth // 2) / (depth // 2))
cos, sin = np.cos(angles).astype("float32"), np.sin(angles).astype("float32")

# The step. Each cache is an input, (groups, longest, depth), and what follows it an output; `put` places a row along an axis.
b = tw.graph.Builder("step")
token, position = b.input("token", (1,), "int64"), b.input("position", (1,), "int64")
params = {name: b.param(name, array) for name, array in model.items()}
turns = [b.node("take", b.param(name, table), position) for name, table in (("cos", cos), ("sin", sin))]
seen = b.node("less_equal", b.param("places", np.arange(longest)), position)
hidden, scale = b.param("hidden", np.float32(-np.inf)), b.param("scale", np.float32(depth**-0.5))


def turned(x):
    """The rotary embedding: halves of each head as coordinates, turned by the angles of the position."""
    first, second = b.nodes("split", x, sizes=(depth // 2, depth // 2), axis=2)
    along, across = ([b.node("multiply", half, turn) for half in (first, second)] for turn in turns)
    return b.node("concat", b.node("subtract", along[0], across[1]), b.node("add", along[1], across[0]), axis=2)


x, caches = b.node("take", params["embedding"], token), []
for layer in range(layers):
    h = b.node("rms_norm", x, axis=-1, epsilon=1e-6)
    q, k, v = (
        b.node("reshape", b.node("matmul", h, params[f"{layer}.{name}"]), shape=(count, 1, depth))
        for name, count in (("q", heads), ("k", groups), ("v", groups))
    )
    kept = []
    for name, row in ((f"keys{layer}", turned(k)), (f"values{layer}", v)):
        kept.append(b.node("put", b.input(name, (groups, longest, depth)), position, row, axis=1))
        caches.append((name, kept[-1]))
    asked = b.node(
        "reshape", turned(q), shape=(groups, heads // groups, depth)
    )  # the heads of a group meet the same keys
    scores = b.node("multiply", b.node("matmul", asked, kept[0], transpose_b=True), scale)
    shares = b.node("softmax", b.node("where", seen, scores, hidden), axis=-1)
    told = b.node("reshape", b.node("matmul", shares, kept[1]), shape=(1, width))
    x = b.node("add", x, b.node("matmul", told, params[f"{layer}.o"]))
    h = b.node("rms_norm", x, axis=-1, epsilon=1e-6)
    gate, up = (b.node("matmul", h, params[f"{layer}.{name}"]) for name in ("gate", "up"))
    x = b.node("add", x, b.node("matmul", b.node("multiply", b.node("silu", gate), up), params[f"{layer}.down"]))
b.output("logits", b.node("matmul", b.node("rms_norm", x, axis=-1, epsilon=1e-6), params["head"]))
for name, value in caches:
    b.output(f"{name}.after", value)
    b.state(name, f"{name}.after")  # one buffer, in and out

m = tw.build(b.graph())
print(m)


# The caches are passed to one call after another; nothing of them is copied, and they are no outputs of the call.
def generated(count, first=7):
    state = {name: np.zeros((groups, longest, depth), "float32") for name in m.state}
    tokens, logits = [first], []
    for at in range(count):
        logits.append(m(token=np.array([tokens[-1]]), position=np.array([at]), **state)[0])
        tokens.append(int(logits[-1].argmax()))
    return tokens, np.stack(logits)


# The same without a cache: all tokens at once, none of which sees those after it.
def at_once(tokens):
    def norm(x):
        return x / np.sqrt((x * x).mean(-1, keepdims=True) + 1e-6)

    def rotary(x):
        a, c = x[..., : depth // 2], x[..., depth // 2 :]
        s, t = cos[: len(tokens), None], sin[: len(tokens), None]
        return np.concatenate([a * s - c * t, c * s + a * t], -1)

    x = model["embedding"][tokens]
    for layer in range(layers):
        w = {name: model[f"{layer}.{name}"] for name in ("q", "k", "v", "o", "gate", "up", "down")}
        q, k, v = (np.reshape(norm(x) @ w[name], (len(tokens), -1, depth)) for name in "qkv")
        q, k, v = rotary(q), np.repeat(rotary(k), heads // groups, 1), np.repeat(v, heads // groups, 1)
        scores = np.einsum("ihd,jhd->hij", q, k) / math.sqrt(depth)
        scores = np.where(np.tri(len(tokens)) > 0, scores, -np.inf)
        shares = np.exp(scores - scores.max(-1, keepdims=True))
        x = (
            x
            + np.einsum("hij,jhd->ihd", shares / shares.sum(-1, keepdims=True), v).reshape(len(tokens), width) @ w["o"]
        )
        gate = norm(x) @ w["gate"]
        x = x + (gate / (1 + np.exp(-gate)) * (norm(x) @ w["up"])) @ w["down"]
    return norm(x) @ model["head"]


tokens, logits = generated(20)
difference = np.abs(logits - at_once(tokens[:-1])).max() / np.abs(logits).max()
print(
    f"{len(tokens)} tokens, {' '.join(map(str, tokens[:10]))} ...; with and without a cache they differ by {difference:.1e}"
)
assert difference < 1e-5

# A step moves one row of a cache. Equal layers share kernels, and the arena holds what lives within a step.
state = {name: np.zeros((groups, longest, depth), "float32") for name in m.state}
rows = [row for row in m.profile(token=np.array([1]), position=np.array([9]), **state).rows if row.operators == "put"]
print(
    f"{len(rows)} puts move {rows[0].moved} bytes each, of caches of {state['keys0'].nbytes}; the arena has {m.arena_bytes}"
)
assert len(rows) == 2 * layers and m.kernels[rows[0].kernel] == 2 * layers and rows[0].moved < 200
