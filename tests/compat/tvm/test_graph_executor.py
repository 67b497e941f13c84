"""A lecture's snippet: a model run by TVM's graph executor."""

from __future__ import annotations

import numpy as np
import tilewright as tw
from tilewright.compat import tvm
from tilewright.compat.tvm import relay
from tilewright.compat.tvm.contrib import graph_executor


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
