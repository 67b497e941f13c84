"""Models beside onnxruntime, torch, torch.compile and OpenVINO, one thread, float32.

    python -m tools.benchmarks.models [--only resnet18,bert_base] [--seconds 20] [--profile] [--peers torch,onnxruntime]

Weights are drawn, from a fixed seed; nothing is downloaded. It needs torch, torchvision and transformers, and the peers that are to
be measured. Each model is run by all in turn, for so many seconds; what is compared is the least CPU time of a call, so that what
else runs on the machine counts little. Outputs are compared with torch's.
"""

from __future__ import annotations

import argparse
import math
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from io import BytesIO
from typing import Any

import numpy as np
import tilewright as tw
from tilewright.runtime.threads import set_num_threads

Run = Callable[[], "list[np.ndarray]"]

TOLERANCE = 1e-3
"""Of the largest magnitude of an output; other orders of sums, a hundred layers deep."""


def vision(name: str) -> tuple[Any, tuple[Any, ...]]:
    """A model of torchvision, and an image."""
    import torch
    import torchvision

    return getattr(torchvision.models, name)(weights=None), (torch.randn(1, 3, 224, 224),)


def plain(model: Any) -> Any:
    """A model of tokens with one input and one output, which every exporter takes."""
    import torch

    class Plain(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.model = model

        def forward(self, tokens: Any) -> Any:
            return self.model(input_ids=tokens)[0]

    return Plain()


def encoder() -> tuple[Any, tuple[Any, ...]]:
    """BERT-base, and 128 tokens."""
    import torch
    import transformers

    config = transformers.BertConfig(attn_implementation="sdpa")
    return plain(transformers.BertModel(config, add_pooling_layer=False)), (torch.randint(0, config.vocab_size, (1, 128)),)


def decoder() -> tuple[Any, tuple[Any, ...]]:
    """GPT-2, and a prompt of 128 tokens."""
    import torch
    import transformers

    config = transformers.GPT2Config(attn_implementation="sdpa", use_cache=False)
    return plain(transformers.GPT2LMHeadModel(config)), (torch.randint(0, config.vocab_size, (1, 128)),)


MODELS: dict[str, Callable[[], tuple[Any, tuple[Any, ...]]]] = {
    **{name: lambda name=name: vision(name) for name in ("resnet18", "resnet50", "mobilenet_v2", "efficientnet_b0", "vit_b_16")},
    "bert_base": encoder, "gpt2_prefill": decoder,
}
"""What is measured: the model, and its inputs."""


def model_of(name: str) -> tuple[Any, tuple[Any, ...]]:
    """A model as it is run, with weights of a fixed seed."""
    import torch

    torch.manual_seed(0)
    module, inputs = MODELS[name]()
    for layer in module.modules():                          # statistics as of a trained network: values keep their magnitude
        if hasattr(layer, "running_var"):
            layer.running_mean.normal_(0, 0.1)
            layer.running_var.uniform_(0.5, 1.5)
    return module.eval(), inputs


def ours(module: Any, inputs: Sequence[Any]) -> tuple[tw.graph.Model, Run]:
    began = time.perf_counter()
    m = tw.build(tw.graph.from_torch(module, tuple(inputs)))
    print(f"  built in {time.perf_counter() - began:.1f} s, {len(m.kernels)} kernels, {sum(m.kernels.values())} calls, "
          f"arena {m.arena_bytes / 1e6:.1f} MB")
    arrays = [each.numpy() for each in inputs]
    return m, lambda: _listed(m(*arrays))


def _listed(results: Any) -> list[np.ndarray]:
    return [np.asarray(one) for one in (results if isinstance(results, (list, tuple)) else [results])]


def torch_peer(module: Any, inputs: Sequence[Any]) -> Run:
    import torch

    def run() -> list[np.ndarray]:
        with torch.inference_mode():
            return _listed(module(*inputs))

    return run


def compiled_peer(module: Any, inputs: Sequence[Any]) -> Run:
    import torch

    return torch_peer(torch.compile(module), inputs)


def onnxruntime_peer(module: Any, inputs: Sequence[Any]) -> Run:
    import onnxruntime
    import torch

    file = BytesIO()
    names = [f"x{at}" for at in range(len(inputs))]
    torch.onnx.export(module, tuple(inputs), file, dynamo=False, opset_version=17, input_names=names)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    session = onnxruntime.InferenceSession(file.getvalue(), options, providers=["CPUExecutionProvider"])
    arrays = {name: each.numpy() for name, each in zip(names, inputs, strict=True)}
    return lambda: _listed(session.run(None, arrays))


def openvino_peer(module: Any, inputs: Sequence[Any]) -> Run:
    import openvino

    options = {"INFERENCE_NUM_THREADS": 1, "NUM_STREAMS": 1, "INFERENCE_PRECISION_HINT": "f32", "PERFORMANCE_HINT": "LATENCY"}
    converted = openvino.convert_model(module, example_input=tuple(inputs), input=[tuple(each.shape) for each in inputs])
    compiled = openvino.Core().compile_model(converted, "CPU", options)
    arrays = [each.numpy() for each in inputs]
    return lambda: [np.array(value) for value in compiled(arrays).values()]


PEERS: dict[str, Callable[[Any, Sequence[Any]], Run]] = {
    "onnxruntime": onnxruntime_peer, "torch": torch_peer, "torch.compile": compiled_peer, "openvino": openvino_peer,
}


def measured(runs: dict[str, Run], seconds: float) -> dict[str, float]:
    """The least CPU seconds of a call of each, run in turn."""
    best = dict.fromkeys(runs, math.inf)
    end = time.perf_counter() + seconds
    turns = 0
    while turns < 3 or time.perf_counter() < end:
        for name, run in runs.items():
            began = time.process_time()
            run()
            best[name] = min(best[name], time.process_time() - began)
        turns += 1
    return best


def differs(ours: Sequence[np.ndarray], theirs: Sequence[np.ndarray]) -> float:
    """The largest difference of the first output, of its largest magnitude."""
    return float(np.abs(ours[0] - theirs[0]).max() / np.abs(theirs[0]).max())


def rows(names: Sequence[str], peers: Sequence[str], seconds: float, profile: bool) -> Iterator[tuple[str, dict[str, float]]]:
    """The times of each model, ours first."""
    for name in names:
        print(name, flush=True)
        module, inputs = model_of(name)
        m, run = ours(module, inputs)
        runs: dict[str, Run] = {"tilewright": run}
        expected = torch_peer(module, inputs)()
        for peer in peers:
            try:
                runs[peer] = PEERS[peer](module, inputs)
                runs[peer]()
            except Exception as problem:  # noqa: BLE001  exporters raise what they like; the column stays empty
                runs.pop(peer, None)
                print(f"  {peer}: {type(problem).__name__}: {str(problem)[:200]}")
        difference = differs(run(), expected)
        print(f"  {'differs' if difference > TOLERANCE else 'agrees'}: {difference:.1e} from torch", flush=True)
        if profile:
            print(m.profile(*(each.numpy() for each in inputs)), flush=True)
        yield name, measured(runs, seconds)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default=",".join(MODELS))
    parser.add_argument("--peers", default=",".join(PEERS))
    parser.add_argument("--seconds", type=float, default=20.0)
    parser.add_argument("--profile", action="store_true")
    options = parser.parse_args()
    import torch

    warnings.filterwarnings("ignore")
    torch.set_num_threads(1)
    set_num_threads(1)
    peers = [peer for peer in options.peers.split(",") if peer]
    ratios: list[float] = []
    print(f"{'ms of CPU time a call':22}" + "".join(f"{name:>14}" for name in ("tilewright", *peers, "best / ours")))
    for name, best in rows(options.only.split(","), peers, options.seconds, options.profile):
        others = [best[peer] for peer in peers if peer in best]
        ratio = min(others) / best["tilewright"] if others else math.nan
        ratios.append(ratio)
        cells = [f"{best[each] * 1e3:14.2f}" if each in best else f"{'-':>14}" for each in ("tilewright", *peers)]
        print(f"{name:22}" + "".join(cells) + f"{ratio:14.2f}", flush=True)
    print(f"geometric mean {math.exp(sum(map(math.log, ratios)) / len(ratios)):.2f}")


if __name__ == "__main__":
    main()
