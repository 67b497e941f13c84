"""A lecture's snippet: a model run by TVM's graph executor."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tilewright as tw
from tilewright.compat import tvm
from tilewright.compat.tvm import relay
from tilewright.compat.tvm.contrib import graph_executor, graph_runtime


def net() -> tw.graph.Graph:
    b = tw.graph.Builder("net")
    w = b.param("w", np.arange(12, dtype="float32").reshape(3, 4))
    b.output("y", b.node("relu", b.node("matmul", b.input("data", (2, 3)), w)))
    return b.graph()


def test_create_set_run_get() -> None:
    data = np.asarray([[1, -2, 3], [0.5, 1, -1]], "float32")
    graph, lib, params = relay.build(net(), target="llvm")
    module = graph_executor.create(graph, lib, tvm.cpu(0))
    module.set_input("data", tvm.nd.array(data))
    module.set_input(**params)
    module.run()
    expected = np.maximum(data @ np.arange(12, dtype="float32").reshape(3, 4), 0)
    np.testing.assert_allclose(module.get_output(0).numpy(), expected, rtol=1e-6)
    again = graph_executor.GraphModule(relay.build(net(), target="llvm")["default"](tvm.cpu(0)))
    again.run(data=data)
    out = tvm.nd.empty((2, 4))
    assert again.get_output(0, out).numpy().tolist() == out.numpy().tolist() == module.get_output(0).numpy().tolist()


def test_parameters_that_are_given_take_the_place_of_the_model_s_own() -> None:
    lib = relay.build(net(), params={"w": tvm.nd.array(np.zeros((3, 4), "float32"))})
    module = graph_executor.GraphModule(lib["default"](tvm.cpu(0)))
    module.run(data=np.ones((2, 3), "float32"))
    assert not module.get_output(0).numpy().any()


def test_the_snippet_as_a_lecture_writes_it() -> None:
    graph, lib, params = relay.build(net(), target="llvm")
    module = tvm.runtime.create(graph, lib, tvm.cpu(0))
    module.set_input(**params)
    module.run(data=tvm.nd.array(np.ones((2, 3), "float32")))
    output = tvm.nd.empty((2, 4))
    module.get_output(0, output)
    np.testing.assert_array_equal(
        output.asnumpy(), np.tile(np.arange(12, dtype="float32").reshape(3, 4).sum(0), (2, 1))
    )
    assert module.module.time_evaluator("run", tvm.cpu(0), number=3)().mean > 0
    assert len(module.benchmark(tvm.cpu(0), repeat=2, number=1, data=np.zeros((2, 3), "float32")).results) == 2
    with pytest.raises(ValueError, match="there is run"):
        module.module.time_evaluator("main", tvm.cpu(0))


def test_programs_of_torch_with_inputs_as_they_are_to_be_called() -> None:
    torch: Any = pytest.importorskip("torch", reason="torch, which exports the program, is not installed")

    class Difference(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.scale = torch.nn.Parameter(torch.tensor([1.0, 2, 3]))

        def forward(self, first: Any, second: Any) -> Any:
            return (first - second) * self.scale

    args = (torch.ones(2, 3), torch.zeros(2, 3))
    infos = [
        ("second", (2, 3)),
        ("v3", ((2, 3), "float32")),
    ]  # names that stand for others, and for a value of the graph
    for program in (torch.export.export(Difference(), args), Difference()):
        module, params = relay.frontend.from_pytorch(program, infos)
        assert list(module.inputs) == ["second", "v3"] and list(params) == ["scale"]
        executor = graph_executor.GraphModule(relay.build(module, params=params)["default"](tvm.cpu(0)))
        executor.run(second=np.full((2, 3), 5, "float32"), v3=np.ones((2, 3), "float32"))
        assert executor.get_output(0).numpy().tolist() == [[4, 8, 12]] * 2
    assert list(relay.frontend.from_pytorch(torch.export.export(Difference(), args))[0].inputs) == ["first", "second"]
    with pytest.raises(tvm.TVMError, match="a name for each input"):
        relay.frontend.from_pytorch(torch.export.export(Difference(), args), [("x", (2, 3))])
    with pytest.raises(tvm.TVMError, match="TorchScript is not read"):
        relay.frontend.from_pytorch(torch.jit.trace(Difference(), args), infos)


@pytest.mark.parametrize("file", ["libnet.so", "net.tar"])
def test_an_exported_model_is_loaded_and_run(tmp_path: Path, file: str) -> None:
    b = tw.graph.Builder("net")
    w = np.arange(12, dtype="float32").reshape(3, 4)
    product = b.node("matmul", b.input("data", ("n", 3)), b.param("w", w))
    b.output("y", b.node("relu", product))
    b.output("total", b.node("sum", product, axes=(0,)))
    with relay.build_config(opt_level=3):
        relay.build(b.graph(), target="llvm").export_library(str(tmp_path / file))
    loaded = tvm.runtime.load_module(str(tmp_path / file))
    module = graph_runtime.GraphModule(loaded["default"](tvm.cpu(0)))
    for n in (3, 1):
        data = np.linspace(-1, 1, n * 3, dtype="float32").reshape(n, 3)
        module.run(data=tvm.nd.array(data))
        np.testing.assert_allclose(module.get_output(0).numpy(), np.maximum(data @ w, 0), rtol=1e-5)
        np.testing.assert_allclose(module.get_output(1).numpy(), (data @ w).sum(0), rtol=1e-5, atol=1e-6)
    with pytest.raises(tvm.TVMError, match="could not find 'date'"):
        module.run(date=np.zeros((2, 3), "float32"))


def test_what_is_not_as_it_was_built_is_refused() -> None:
    module = graph_executor.GraphModule(relay.build(net(), target="llvm")["default"](tvm.cpu(0)))
    module.set_input(w=net().params["w"])
    with pytest.raises(tvm.TVMError, match="'w' was compiled with other values"):
        module.set_input("w", np.zeros((3, 4), "float32"))
    for wrong, reason in (
        (lambda: module.set_input("nothing", 1), "could not find 'nothing'"),
        (lambda: module.set_input(3, 1), "no input 3"),
        (lambda: module.get_input("data"), "'data' was not set"),
        (lambda: module.get_output(0), "no output 0"),
    ):
        with pytest.raises(tvm.TVMError, match=reason):
            wrong()
