"""The native engine: one compilation where it can be, and what may not change a bit."""

from __future__ import annotations

import ctypes
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from subprocess import run
from typing import Any

import numpy as np
import pytest
from backend_suite import assert_equal_bytes
from onnx import NodeProto, helper
from onnx.parser import parse_model

from sardonyx import build
from sardonyx import types as t
from sardonyx.compiler import find_compiler
from sardonyx.dims import Dim, symbol
from sardonyx.errors import BuildError, FeedError, InvalidModel, LimitExceeded, RunError
from sardonyx.graph import Graph
from sardonyx.machine import Machine
from sardonyx.native import NativeEngine
from sardonyx.resolve import graph_from_nodes, resolve
from sardonyx.types import Array, DType, TensorType

RANDOM = np.random.default_rng(3)
N, L = symbol("N"), symbol("L")

try:
    find_compiler()
except BuildError as missing:
    pytest.skip(str(missing), allow_module_level=True)


def node(op: str, *inputs: str, to: str, **attributes: Any) -> NodeProto:
    return helper.make_node(op, inputs, [to], **attributes)


def kind(*shape: Dim, dtype: DType = t.float32) -> TensorType:
    return TensorType(dtype, shape)


def normal(*shape: int) -> Array:
    return RANDOM.standard_normal(shape).astype(np.float32)


def same(engine: NativeEngine, feeds: Mapping[str, Array]) -> dict[str, Array]:
    """The engine's outputs, which are the machine's."""
    found, expected = engine.run(feeds), Machine(engine.graph).run(feeds)
    assert list(found) == list(expected)
    assert_equal_bytes(list(found.values()), list(expected.values()))
    return found


def network() -> Graph:
    """Softmax(x @ w + b) over a batch N and a length L."""
    weights = {"w": normal(24, 20), "b": normal(20)}
    nodes = [
        node("MatMul", "x", "w", to="p"),
        node("Add", "p", "b", to="q"),
        node("Softmax", "q", to="y", axis=1),
    ]
    return graph_from_nodes(nodes, weights, types={"x": kind(N, L, 24)})


def test_one_compilation_serves_every_batch_and_length(compiled: list[str]) -> None:
    engine = NativeEngine(network())
    for n, length in ((1, 1), (2, 7), (5, 16), (1, 33), (2, 7)):
        same(engine, {"x": normal(n, length, 24)})
    assert len(compiled) == 1


@pytest.mark.parametrize("shape", [(0, 3, 24), (2, 0, 24), (0, 0, 24)])
def test_a_dim_may_be_zero(shape: tuple[int, ...]) -> None:
    found = same(NativeEngine(network()), {"x": normal(*shape)})
    assert found["y"].shape == (*shape[:2], 20)


@pytest.mark.parametrize("op", ["ReduceSum", "ReduceProd", "ReduceLogSumExp", "ReduceMax"])
def test_a_reduction_over_nothing(op: str) -> None:
    """Sums in lanes have a partial result even where there is no term."""
    nodes = [node(op, "x", "axes", to="y")]
    graph = graph_from_nodes(nodes, {"axes": np.array([1])}, types={"x": kind(N, 0, L)})
    same(NativeEngine(graph), {"x": normal(5, 0, 37)})


def test_a_broadcast_of_a_dim_that_turns_out_to_be_one() -> None:
    nodes = [node("Add", "x", "z", to="y")]
    engine = NativeEngine(graph_from_nodes(nodes, types={"x": kind(N, 3), "z": kind(L, 3)}))
    for n, length in ((4, 4), (1, 4), (4, 1)):
        same(engine, {"x": normal(n, 3), "z": normal(length, 3)})


def test_positions_are_added_to_as_many_tokens_as_there_are(compiled: list[str]) -> None:
    """Of 8 positions as many are taken as there are tokens: where these are more, it traps."""
    nodes = [
        node("Shape", "x", to="tokens", start=1, end=2),
        node("Slice", "positions", "zero", "tokens", "one", to="p"),
        node("Add", "x", "p", to="y"),
    ]
    weights = {"positions": normal(1, 8, 5), "zero": np.array([0]), "one": np.array([1])}
    engine = NativeEngine(graph_from_nodes(nodes, weights, types={"x": kind(N, L, 5)}))
    for n, length in ((1, 1), (3, 2), (2, 8)):
        same(engine, {"x": normal(n, length, 5)})
    with pytest.raises(RunError):
        engine.run({"x": normal(2, 9, 5)})
    assert len(compiled) == 1


def test_shapes_that_depend_on_values(compiled: list[str]) -> None:
    nodes = [node("Reshape", "x", "shape", to="r"), node("Relu", "r", to="y")]
    kinds = {"x": kind(N, 4), "shape": kind(2, dtype=t.int64)}
    engine = NativeEngine(graph_from_nodes(nodes, types=kinds))
    for shape in ([2, -1], [-1, 3], [2, -1]):
        same(engine, {"x": normal(6, 4), "shape": np.array(shape)})
    assert len(compiled) == 2


def test_slices_that_depend_on_values() -> None:
    nodes = [node("Slice", "x", "starts", "ends", "axes", to="y")]
    index = kind(1, dtype=t.int64)
    kinds = {"x": kind(N, 9), "starts": index, "ends": index, "axes": index}
    engine = NativeEngine(graph_from_nodes(nodes, types=kinds))
    for start, end, axis in ((0, 4, 1), (-3, 100, 1), (5, 2, 1), (1, 3, 0)):
        feeds = {"starts": [start], "ends": [end], "axes": [axis]}
        same(engine, {"x": normal(5, 9), **{k: np.array(v) for k, v in feeds.items()}})


def test_scales_of_resize_that_depend_on_values() -> None:
    nodes = [node("Resize", "x", "", "scales", to="y", mode="linear")]
    engine = NativeEngine(graph_from_nodes(nodes, types={"x": kind(1, 2, 5), "scales": kind(3)}))
    for scale in (2.0, 0.6):
        same(engine, {"x": normal(1, 2, 5), "scales": np.array([1, 1, scale], np.float32)})


def test_an_initializer_may_be_overridden_or_not() -> None:
    graph = graph_from_nodes(
        [node("MatMul", "x", "w", to="y")],
        {"w": normal(6, 17)},
        inputs=["x", "w"],
        types={"x": kind(N, 6)},
    )
    assert graph.overridable == ("w",)
    engine, x = NativeEngine(graph), normal(3, 6)
    first = same(engine, {"x": x})["y"]
    second = same(engine, {"x": x, "w": normal(6, 17)})["y"]
    assert first.tobytes() != second.tobytes()
    assert same(engine, {"x": x})["y"].tobytes() == first.tobytes()


def test_a_transpose_of_a_made_tensor_under_symbolic_dims() -> None:
    """Views of what reads nothing are no channel shuffles."""
    sizes = {"one": np.array([1]), "flat": np.array([1, 1, -1])}
    nodes = [
        node("Shape", "x", to="s"),
        node("ConstantOfShape", "s", to="z"),
        node("Transpose", "z", to="u", perm=[1, 0]),
        node("Reshape", "u", "flat", to="y"),
    ]
    same(NativeEngine(graph_from_nodes(nodes, sizes, types={"x": kind(N, L)})), {"x": normal(2, 3)})


def gather() -> Graph:
    made = helper.make_node("Gather", ["r", "at"], ["y"], name="pick", axis=0)
    kinds = {"x": kind(N), "at": kind(L, dtype=t.int64)}
    return graph_from_nodes([node("Relu", "x", to="r"), made], types=kinds)


@pytest.mark.parametrize("index", [5, -6, 2**62])
def test_a_trap_names_its_operation(index: int) -> None:
    engine, x = NativeEngine(gather()), normal(5)
    with pytest.raises(RunError, match="Gather 'pick'"):
        engine.run({"x": x, "at": np.array([0, index])})
    same(engine, {"x": x, "at": np.array([0, -5, 4])})


def test_runs_of_many_threads_do_not_disturb_each_other() -> None:
    engine = NativeEngine(network())
    feeds = [{"x": normal(1 + i % 4, 3 + i % 3, 24)} for i in range(24)]
    expected = [engine.run(f)["y"].tobytes() for f in feeds]
    with ThreadPoolExecutor(8) as pool:
        for _ in range(5):
            found = [y["y"].tobytes() for y in pool.map(engine.run, feeds)]
            assert found == expected


def test_engines_of_one_process_do_not_disturb_each_other() -> None:
    one, two, x = NativeEngine(network()), NativeEngine(network()), normal(2, 3, 24)
    before = one.run({"x": x})["y"].tobytes()
    assert two.run({"x": x})["y"].tobytes() != before
    assert one.run({"x": x})["y"].tobytes() == before


def test_outputs_that_are_inputs_or_each_other_are_copies() -> None:
    nodes = [
        node("Identity", "x", to="a"),
        node("Reshape", "x", "flat", to="b"),
        node("Relu", "x", to="c"),
        node("Identity", "c", to="d"),
    ]
    shape, names = {"flat": np.array([-1])}, ["a", "b", "c", "d", "x"]
    graph = graph_from_nodes(nodes, shape, outputs=names, types={"x": kind(N, 3)})
    x = normal(2, 3)
    found = same(NativeEngine(graph), {"x": x})
    for y in found.values():
        y[...] = 7
        assert not np.shares_memory(x, y)
    assert not np.shares_memory(found["c"], found["d"])
    assert not (x == 7).any()


def test_memory_above_the_limit_is_refused() -> None:
    nodes = [node("Exp", "x", to="e"), node("Softmax", "e", to="s"), node("Relu", "s", to="y")]
    graph = graph_from_nodes(nodes, types={"x": kind(N, 64)})
    engine = NativeEngine(graph, schedule=False, limit=1 << 16)
    same(engine, {"x": normal(4, 64)})
    with pytest.raises(LimitExceeded, match="more than the limit of 65536"):
        engine.run({"x": normal(4096, 64)})


@pytest.mark.parametrize("op", ["GlobalAveragePool", "Flatten"])
def test_two_sizes_below_zero_are_refused(op: str) -> None:
    """Their product is above it: memory for what there is not would be found."""
    nodes = [node("Conv", "x", "w", to="a"), node(op, "a", to="y")]
    graph = graph_from_nodes(nodes, {"w": normal(2, 1, 3, 3)}, types={"x": kind(1, 1, N, L)})
    engine = NativeEngine(graph)
    same(engine, {"x": normal(1, 1, 4, 5)})
    with pytest.raises(InvalidModel, match="a window of 3 is larger than its input of 1"):
        engine.run({"x": normal(1, 1, 1, 1)})


def test_two_sizes_for_one_dim_are_refused() -> None:
    graph = graph_from_nodes(
        [node("Add", "x", "z", to="y")], types={"x": kind(N, 3), "z": kind(N, 3)}
    )
    with pytest.raises(FeedError, match="'z'"):
        NativeEngine(graph).run({"x": normal(2, 3), "z": normal(4, 3)})


@pytest.mark.skipif(find_compiler().is_zig, reason="the helper is written for gcc and clang")
def test_the_callers_float_environment_changes_no_bit(tmp_path: Path) -> None:
    """Flush to zero and rounding upwards, set by the caller, are put aside and then put back."""
    environment = _environment(tmp_path)
    x = np.array([1e-40, -3e-39, 1.1754944e-38, 0.1, 1e-20], np.float32)
    nodes = [node("Mul", "x", "x", to="m"), node("Add", "m", "x", to="s"), node("Exp", "s", to="y")]
    graph = graph_from_nodes(nodes, outputs=["s", "y"], types={"x": kind(N)})
    engine = NativeEngine(graph)
    expected = same(engine, {"x": x})
    environment.set_odd()
    try:
        found = engine.run({"x": x})
        kept = environment.is_odd()
    finally:
        environment.restore()
    assert kept
    assert_equal_bytes(list(found.values()), list(expected.values()))


def _environment(folder: Path) -> ctypes.CDLL:
    text = """
    #include <fenv.h>
    #if defined(__x86_64__)
    #include <xmmintrin.h>
    static unsigned old;
    void set_odd(void) { old = _mm_getcsr(); _mm_setcsr(old | 0x8040 | 0x4000); }
    int is_odd(void) { return (_mm_getcsr() & 0xC040) == 0xC040; }
    void restore(void) { _mm_setcsr(old); }
    #else
    static int old;
    void set_odd(void) { old = fegetround(); fesetround(FE_UPWARD); }
    int is_odd(void) { return fegetround() == FE_UPWARD; }
    void restore(void) { fesetround(old); }
    #endif
    """
    return build.load(_plain_library(text, folder))


def _plain_library(text: str, folder: Path) -> Path:
    source, library = folder / "environment.c", folder / "environment.so"
    source.write_text(text)
    command = [*find_compiler().command, "-shared", "-fPIC", str(source), "-o", str(library), "-lm"]
    run(command, check=True)
    return library


@pytest.mark.parametrize("size", [1, 2, 3, 4, 5])
def test_top_k_of_fewer_elements_than_it_takes_is_a_run_time_error(size: int) -> None:
    model = parse_model("""<ir_version: 10, opset_import: ["" : 21]>
        g (float[S] x) => (float[5] v, int64[5] i) {
          k = Constant<value_ints = [5]>()
          v, i = TopK(x, k)
        }""")
    engine, x = NativeEngine(resolve(model)), np.arange(1, size + 1, dtype=np.float32)
    if size == 5:
        np.testing.assert_array_equal(engine.run({"x": x})["i"], [4, 3, 2, 1, 0])
        return
    with pytest.raises(RunError, match="TopK"):
        engine.run({"x": x})
