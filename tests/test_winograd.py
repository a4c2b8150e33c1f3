"""numerics="winograd": 3 x 3 convolutions with fewer products, and their schedule."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import numpy as np
import onnx
import pytest
import seeded
from hypothesis import given, settings
from hypothesis import strategies as st
from nets import Net
from test_passes import outputs

from sardonyx.compiler import find_compiler
from sardonyx.dims import symbol
from sardonyx.errors import BuildError, SardonyxError
from sardonyx.graph import Graph
from sardonyx.kernel.ir import For, Store, statements
from sardonyx.kernel.verify import verify
from sardonyx.loading import load
from sardonyx.machine import Machine
from sardonyx.native import NativeEngine
from sardonyx.ops.winograd import matrix, tile_of
from sardonyx.ort import InferenceSession, SessionOptions
from sardonyx.passes.lower import lower
from sardonyx.passes.pipeline import optimise
from sardonyx.resolve import graph_from_nodes
from sardonyx.trace import Subject
from sardonyx.trace.form import form
from sardonyx.trace.write import started
from sardonyx.types import Array, TensorType

try:
    find_compiler()
    HAS_COMPILER = True
except BuildError:
    HAS_COMPILER = False
compiler = pytest.mark.skipif(not HAS_COMPILER, reason="there is no C compiler")

# batch, channels, height, width, filters: F(4 x 4) and F(2 x 2), whole and partial blocks and tiles
SHAPES = (
    (1, 16, 14, 14, 16),
    (2, 32, 13, 11, 48),
    (1, 20, 9, 10, 17),
    (3, 16, 7, 7, 32),
    (1, 40, 17, 30, 24),
)


def net(
    shape: tuple[int, int, int, int, int], pads: tuple[int, ...] = (1, 1, 1, 1), *, tail: str = ""
) -> Net:
    """One convolution and what is fused to it: "bn", "add", "relu"."""
    n, c, h, w, m = shape
    made = Net(numerics="winograd")
    x = made.feed("x", seeded.normal("x", n, c, h, w))
    weights = seeded.normal("w", m, c, 3, 3) * np.float32((9 * c) ** -0.5)
    y = made.op("Conv", x, weights, seeded.normal("b", m), pads=list(pads))
    if "bn" in tail:
        numbers = [np.abs(seeded.normal(name, m)) for name in ("scale", "bias", "mean", "var")]
        y = made.op("BatchNormalization", y, *numbers)
    if "add" in tail:
        high, wide = h + pads[0] + pads[2] - 2, w + pads[1] + pads[3] - 2
        y = made.op("Add", y, made.feed("r", seeded.normal("r", n, m, high, wide)))
    made.give(made.op("Relu", y) if "relu" in tail else y)
    return made


def machine(graph: Graph, feeds: Mapping[str, Array]) -> bytes:
    return next(iter(Machine(graph).run(feeds).values())).tobytes()


def native(graph: Graph, feeds: Mapping[str, Array], **given: Any) -> bytes:
    return next(iter(NativeEngine(graph, **given).run(feeds).values())).tobytes()


@compiler
@pytest.mark.parametrize("shape", SHAPES)
def test_machine_plain_loops_and_schedule_give_the_same_bytes(shape: tuple[int, ...]) -> None:
    made = net(shape, tail="bn add relu")
    graph = made.graph()
    expected = machine(graph, made.feeds)
    assert native(graph, made.feeds) == expected
    assert native(graph, made.feeds, schedule=False) == expected


@compiler
@pytest.mark.parametrize("pads", [(0, 0, 0, 0), (2, 0, 1, 3)])
def test_any_padding_gives_the_same_bytes(pads: tuple[int, ...]) -> None:
    made = net((2, 24, 12, 15, 16), pads)
    graph = made.graph()
    assert native(graph, made.feeds) == machine(graph, made.feeds)


@compiler
def test_one_compilation_serves_every_batch_and_samples_do_not_depend_on_it() -> None:
    made = net((5, 16, 14, 10, 32), tail="relu")
    types = {"x": TensorType(made.graph().types["x"].dtype, (symbol("N"), 16, 14, 10))}
    graph = graph_from_nodes(
        made.nodes,
        made.weights,
        inputs=["x"],
        outputs=made.outputs,
        types=types,
        numerics="winograd",
    )
    engine = NativeEngine(graph)
    (whole,) = engine.run(made.feeds).values()
    assert whole.tobytes() == machine(made.graph(), made.feeds)
    for i, x in enumerate(made.feeds["x"]):
        (one,) = engine.run({"x": x[None]}).values()
        assert one.tobytes() == whole[i].tobytes()
    assert engine.general() is not None


@compiler
def test_weights_that_are_fed_are_transformed_as_constants_are() -> None:
    made = net((1, 16, 14, 14, 32))
    expected = machine(made.graph(), made.feeds)
    for name in list(made.weights):
        made.feed(name, made.weights.pop(name))
    graph = made.graph()
    assert machine(graph, made.feeds) == expected
    assert native(graph, made.feeds) == expected


def test_the_passes_keep_the_bits_and_go_block_by_block() -> None:
    made = net((2, 20, 9, 13, 16), tail="relu")
    program = lower(made.graph())
    done = optimise(program)
    kernels = [x.kernel for x in done.launches]
    assert any(isinstance(s, For) for k in kernels for s in k.body)
    assert any(isinstance(s, Store) and s.proven for k in kernels for s in statements(k.body))
    for kernel in kernels:
        verify(kernel)
    assert outputs(done, made.feeds) == outputs(program, made.feeds)


@settings(max_examples=25)
@given(
    st.tuples(
        st.integers(1, 2), st.integers(16, 33), st.integers(3, 21), st.integers(3, 21),
        st.integers(16, 33),
    ),
    st.tuples(*[st.integers(0, 2)] * 4),
)  # fmt: skip
def test_it_is_close_to_the_direct_definition(
    shape: tuple[int, int, int, int, int], pads: tuple[int, ...]
) -> None:
    made = net(shape, pads)
    (ours,) = Machine(made.graph()).run(made.feeds).values()
    made.numerics = "default"
    (direct,) = Machine(made.graph()).run(made.feeds).values()
    assert ours.shape == direct.shape
    np.testing.assert_allclose(ours, direct, rtol=0, atol=3e-5)


def test_tiles_of_two_are_exact_on_small_integers() -> None:
    made = net((1, 16, 7, 7, 16))
    made.feeds["x"] = np.rint(made.feeds["x"] * 4)
    made.weights = {n: np.rint(w * 32) * 2 for n, w in made.weights.items()}
    ours = machine(made.graph(), made.feeds)
    made.numerics = "default"
    assert ours == machine(made.graph(), made.feeds)


def test_the_tile_follows_from_the_output_s_size() -> None:
    sizes = {(56, 56): 4, (28, 28): 4, (14, 14): 4, (9, 10): 2, (7, 7): 2, (5, 5): 1, (1, 1): 1}
    assert {size: tile_of(*size) for size in sizes} == sizes
    assert matrix(2).tolist() == [[-1, 0, 0], [0.5, 0.5, 0.5], [0.5, -0.5, 0.5], [0, 0, 1]]


def test_it_is_asked_for_by_name_and_other_names_are_refused() -> None:
    model = _model()
    kinds = {
        n: [op.op_type for op in load(model, numerics=n).operations]
        for n in ("default", "winograd")
    }
    assert kinds == {"default": ["Conv", "Conv"], "winograd": ["WinogradConv", "Conv"]}
    with pytest.raises(SardonyxError, match="numerics is 'fast'; it can be default, winograd"):
        load(model, numerics="fast")
    options = SessionOptions()
    options.add_session_config_entry("sardonyx.engine", "machine")
    options.add_session_config_entry("sardonyx.numerics", "winograd")
    x = seeded.normal("x", 1, 16, 12, 12)
    (found,) = InferenceSession(model.SerializeToString(), options).run(None, {"x": x})
    (expected,) = Machine(load(model, numerics="winograd")).run({"x": x}).values()
    assert np.asarray(found).tobytes() == expected.tobytes()
    options.add_session_config_entry("sardonyx.numerics", "fast")
    with pytest.raises(Exception, match=r"sardonyx\.numerics is 'fast'"):
        InferenceSession(model.SerializeToString(), options)


def test_a_trace_says_so() -> None:
    heads = []
    for graph in (load(_model()), load(_model(), numerics="winograd")):
        feeds = {"x": seeded.normal("x", 1, 16, 12, 12)}
        header = str(form(started(graph, feeds, True), Subject()).header[0])
        heads.append(json.loads(header[: header.index(',"initial"')] + "}"))
    assert [head["numerics"].get("conv") for head in heads] == [None, "winograd"]
    assert heads[0]["graph"] != heads[1]["graph"]


def _model() -> onnx.ModelProto:
    """A convolution that suits, and one with a stride, which does not."""
    helper, numpy = onnx.helper, onnx.numpy_helper
    weights = [seeded.normal(f"w{i}", 16, 16, 3, 3) for i in range(2)]
    nodes = [
        helper.make_node("Conv", ["x", "w0"], ["h"], pads=[1] * 4),
        helper.make_node("Conv", ["h", "w1"], ["y"], strides=[2, 2]),
    ]
    info = [
        helper.make_tensor_value_info(n, 1, None if n == "y" else [1, 16, 12, 12]) for n in "xy"
    ]
    initial = [numpy.from_array(w, f"w{i}") for i, w in enumerate(weights)]
    graph = helper.make_graph(nodes, "g", info[:1], info[1:], initial)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=8)
