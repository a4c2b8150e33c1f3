"""Pools with ceil_mode: the places that inference counts, and what models state of them."""

from __future__ import annotations

import random
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx.parser
import pytest
from onnx import ModelProto, TensorProto, helper

import sardonyx
from sardonyx import ort
from sardonyx.engines import make_engine
from sardonyx.errors import InvalidModel, RunError
from sardonyx.legalize import legalize
from sardonyx.model import Limits, parse
from sardonyx.ops.window import window
from sardonyx.resolve import resolve

POOLS = "AveragePool", "LpPool", "MaxPool"
PADS = "NOTSET", "SAME_UPPER", "SAME_LOWER", "VALID"
HERE = Limits(type_seconds=0)  # inference in this process
APART = {"kernel_shape": [1], "strides": [2], "ceil_mode": 1}  # windows with a gap between them


def pool(
    op: str,
    attributes: Mapping[str, Any],
    size: list[int],
    opset: int = 19,
    stated: Mapping[str, list[int | str]] | None = None,
) -> ModelProto:
    """A pool that gives t, and Relu of it, y; `stated`: shapes of these."""
    given = stated or {}

    def info(name: str) -> Any:
        return helper.make_tensor_value_info(name, TensorProto.FLOAT, given.get(name))

    nodes = [helper.make_node(op, ["x"], ["t"], "p", **attributes)]
    nodes.append(helper.make_node("Relu", ["t"], ["y"], "r"))
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 2, *size])
    inner = [info("t")] if "t" in given else []
    graph = helper.make_graph(nodes, "g", [x], [info("y")], value_info=inner)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=9)


@pytest.mark.parametrize("opset", [18, 21, 22])
@pytest.mark.parametrize("auto_pad", PADS)
@pytest.mark.parametrize("op", POOLS)
def test_inference_counts_the_places_that_there_are(op: str, auto_pad: str, opset: int) -> None:
    draw = random.Random(f"{op} {auto_pad} {opset}")
    counted = 0
    while counted < 15:
        rank = draw.choice((1, 2))
        size, kernel, strides = ([draw.randint(1, most) for _ in range(rank)] for most in (9, 3, 5))
        pads = [draw.randint(0, 2) for _ in range(2 * rank)] if auto_pad == "NOTSET" else None
        try:
            places = window(size, kernel, strides, None, auto_pad, pads, 1).output
        except InvalidModel:
            continue
        if 0 in places:
            continue
        about = {"kernel_shape": kernel, "strides": strides, "auto_pad": auto_pad, "ceil_mode": 1}
        proto = pool(op, about if pads is None else {**about, "pads": pads}, size, opset)
        graph = resolve(proto, HERE)
        for types in (graph.declared, graph.types):  # what inference found, and what holds
            assert types["t"].shape == types["y"].shape == (1, 2, *places)
        counted += 1


@pytest.mark.parametrize("op", POOLS)
def test_what_follows_such_a_pool_may_have_its_size(op: str) -> None:
    proto = parse(f"""<ir_version: 8, opset_import: ["": 18]>
        g (float[N, 2, 16] x, float[8] w, bool c) => (float[N, 2, 8] y)
        {{
            t = {op}<kernel_shape = [1], strides = [2], ceil_mode = 1>(x)
            a = Add(t, w)
            y = If(c)<
                then_branch = p () => (float[N, 2, 8] u) {{
                    s = {op}<kernel_shape = [1], strides = [2], ceil_mode = 1>(x)
                    u = Mul(s, a)
                }},
                else_branch = q () => (float[N, 2, 8] v) {{ v = Neg(a) }}>
        }}""").proto
    assert str(resolve(proto, HERE).types["y"]) == "float32[N, 2, 8]"


def test_it_gives_what_onnxruntime_does() -> None:
    onnxruntime = pytest.importorskip("onnxruntime")
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    x = np.arange(32, dtype=np.float32).reshape(1, 2, 16)
    proto = pool("MaxPool", APART, [16]).SerializeToString()
    (theirs,) = onnxruntime.InferenceSession(proto, options).run(None, {"x": x})
    (ours,) = ort.InferenceSession(proto).run(None, {"x": x})
    np.testing.assert_array_equal(ours, theirs)


@pytest.mark.parametrize("name", ["t", "y"])
def test_a_stated_shape_is_the_one_that_holds(name: str) -> None:
    resolve(pool("MaxPool", APART, [16], stated={name: [1, 2, 8]}), HERE)
    for wrong in ([1, 2, 7], [1, 2, 9], [1, 3, 8], [1, 2]):
        with pytest.raises(InvalidModel):
            resolve(pool("MaxPool", APART, [16], stated={name: [*wrong]}), HERE)


@pytest.mark.parametrize("name", ["t", "y"])
def test_a_shape_that_onnx_s_inference_stated_is_refused_with_the_reason(name: str) -> None:
    proto = pool("MaxPool", APART, [16], stated={name: [1, 2, 9]})
    with pytest.raises(InvalidModel, match=r"counts a window of MaxPool 'p' that starts in the pa"):
        resolve(proto)
    for _ in range(2):  # the second may come from the cache
        with pytest.warns(UserWarning, match="starts in the padding"):
            session = ort.InferenceSession(proto.SerializeToString())
    assert session.run(None, {"x": np.ones((1, 2, 16), np.float32)})[0].shape == (1, 2, 8)


@pytest.mark.parametrize("stated", [["t"], ["y"], ["t", "y"]])
def test_the_legalizer_states_such_a_shape_anew(stated: list[str], tmp_path: Path) -> None:
    """As the error says; the report has each of them, and what the operator gives."""
    net, out = tmp_path / "net.onnx", tmp_path / "out.onnx"
    shapes: dict[str, list[int | str]] = {name: [1, 2, 9] for name in stated}
    onnx.save(pool("MaxPool", APART, [16], stated=shapes), net)
    said = f"{net}: .*8. vs .9.; .* MaxPool 'p' .*let `sardonyx legalize` state it anew"
    with pytest.raises(InvalidModel, match=said):
        sardonyx.load(net)
    done = legalize(net)
    change = next(c for c in done.changes if c.name == "contradictions")
    given = "was stated to be float32[1, 2, 9], its operator gives float32[1, 2, 8]"
    assert sorted(change.lines) == [f"'{name}' {given}" for name in stated]
    assert change.equal
    onnx.save(done.model, out)
    assert sardonyx.load(out).types["y"].shape == (1, 2, 8)


def test_of_other_pools_no_window_is_told() -> None:
    about = {"kernel_shape": [2], "strides": [2], "ceil_mode": 1}
    with pytest.raises(InvalidModel, match=r"\(8\) vs \(9\); mend or remove what the model states"):
        resolve(pool("MaxPool", about, [16], stated={"t": [1, 2, 9]}), HERE)


@pytest.mark.parametrize("op", POOLS)
def test_a_window_that_is_larger_than_a_size_of_the_run_is_an_error_of_the_run(op: str) -> None:
    """Larger by one step there is no place; by more both engines say what is known at load."""
    given = '<ir_version: 10, opset_import: ["": 21]> g (float[1, 1, A, 3, 3] x) => (y)'
    proto = onnx.parser.parse_model(f"{given} {{ y = {op}<kernel_shape = [4, 3, 3]>(x) }}")
    said = []
    for engine in ("machine", "native"):
        made = make_engine(sardonyx.load(proto.SerializeToString()), engine)
        sizes = [made.run({"x": np.ones((1, 1, n, 3, 3), np.float32)})["y"].shape for n in (4, 3)]
        assert sizes == [(1, 1, 1, 1, 1), (1, 1, 0, 1, 1)]
        with pytest.raises(RunError, match="a window of 4 is larger than its input of 2") as raised:
            made.run({"x": np.ones((1, 1, 2, 3, 3), np.float32)})
        said.append(str(raised.value))
    assert said[0] == said[1]
    proto.graph.input[0].type.tensor_type.shape.dim[2].dim_value = 2
    with pytest.raises(InvalidModel, match="a window of 4 is larger than its input of 2"):
        sardonyx.load(proto.SerializeToString())


@pytest.mark.parametrize(("op", "opset", "ceil"), [("MaxPool", 22, 1), ("AveragePool", 19, 0)])
def test_a_window_that_is_larger_than_its_input_is_named(op: str, opset: int, ceil: int) -> None:
    """ONNX's inference divides towards zero there: it counts one place."""
    about = {"kernel_shape": [3], "strides": [2], "ceil_mode": ceil}
    with pytest.raises(InvalidModel, match=f"{op} 'p': its window is larger than its input"):
        sardonyx.load(pool(op, about, [1 if ceil else 2], opset))
