"""Long chains of arithmetic in strips: which loops take them, and that every length gives the bytes
of the plain loops."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from sardonyx.backend import prepare
from sardonyx.kernel import elementary as fn
from sardonyx.kernel.build import Builder, Tensor, operand
from sardonyx.kernel.c99.print_abreast import abreast_of
from sardonyx.kernel.c99.print_c import print_c
from sardonyx.kernel.c99.schedule import print_scheduled
from sardonyx.kernel.expr import Expr, cast
from sardonyx.kernel.ir import Compute, Kernel
from sardonyx.passes.lower import lower
from sardonyx.passes.pipeline import optimise
from sardonyx.resolve import resolve
from sardonyx.types import float32, float64

Element = Callable[[Tensor, Any], Expr]


def kernel(shape: tuple[int, ...], element: Element) -> Kernel:
    k, x = Builder(1), operand("x0", float32, shape)
    return k.kernel("f", [x], [k.compute(shape, lambda *i: element(x, i))])


def width(shape: tuple[int, ...], element: Element) -> int:
    (s,) = kernel(shape, element).body
    assert isinstance(s, Compute)
    return abreast_of(s)


def test_a_chain_is_taken_in_strips_that_its_length_decides() -> None:
    assert width((4, 64), lambda x, i: fn.exp(x[i])) == 32
    assert width((4, 64), lambda x, i: fn.sigmoid(x[i]) * fn.sinh(x[i])) == 16
    assert width((4, 64), lambda x, i: x[i] + 1) == 0, "too little to do"
    assert width((64, 20), lambda x, i: fn.exp(x[i])) == 16, "half as long a strip fits"
    assert width((64, 12), lambda x, i: fn.exp(x[i])) == 0, "too short"
    assert width((64, 64), lambda x, i: fn.exp(x[i[::-1]])) == 0, "not neighbours"


def test_gcc_is_told_to_interleave_what_has_strips() -> None:
    text = print_scheduled(kernel((4, 64), lambda x, i: fn.exp(x[i]))).text
    assert "SX_TOGETHER static void @(" in text
    assert "sx_abreast(4) for" in text
    large = kernel((256, 256), lambda x, i: fn.exp(x[i]))
    assert "SX_TOGETHER static SX_APART void @_range" in print_scheduled(large, threads=True).text
    assert "sx_abreast" not in print_c(kernel((4, 64), lambda x, i: fn.exp(x[i]))).text


def test_bounds_are_limits_that_a_function_declares_first() -> None:
    """gcc makes one instruction of each, and nine of the bounds of exp where they are constants."""
    text = print_scheduled(kernel((4, 64), lambda x, i: fn.exp(x[i]))).text
    assert "const float limit0 = sx_limit_f32(89.0f);" in text
    assert "const float limit1 = sx_limit_f32(-0x1.601e68p+7f);" in text  # -254 log(2)
    assert text.count("sx_lowered_f32(") == text.count("sx_raised_f32(") == 1
    double = print_scheduled(kernel((4, 64), lambda x, i: fn.exp(cast(x[i], float64)))).text
    assert "const double limit0 = sx_limit_f64(710.0);" in double
    assert "sx_limit" not in print_c(kernel((4, 64), lambda x, i: fn.exp(x[i]))).text


@pytest.mark.parametrize("op", ["Sigmoid", "Tanh", "Exp", "Erf", "Softplus", "Softmax", "Gelu"])
@pytest.mark.parametrize("n", [32, 33, 100, 1000])
def test_every_length_gives_the_bytes_of_the_machine(op: str, n: int) -> None:
    infos = [helper.make_tensor_value_info(v, TensorProto.FLOAT, [3, n]) for v in "xy"]
    node = helper.make_node(op, ["x"], ["y"])
    graph = helper.make_graph([node], "g", infos[:1], infos[1:])
    made: onnx.ModelProto = helper.make_model(
        graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9
    )
    x = (np.random.default_rng(n).standard_normal((3, n)) * 20).astype(np.float32)
    x[:, :5] = np.nan, np.inf, -np.inf, -0.0, 1e-42
    results = [prepare(made, engine=e).run([x])[0] for e in ("machine", "native")]
    assert np.asarray(results[0]).tobytes() == np.asarray(results[1]).tobytes()


def activated(x: tuple[int, ...], w: tuple[int, ...], op: str, **conv: object) -> onnx.ModelProto:
    """A convolution with padding 1, its bias, and what is made of its sums."""
    rng = np.random.default_rng(1)
    sizes = [x, (x[0], w[0], *x[2:])]
    infos = [
        helper.make_tensor_value_info(n, TensorProto.FLOAT, s)
        for n, s in zip("xy", sizes, strict=True)
    ]
    pads = [w[2] // 2] * 4
    nodes = [helper.make_node("Conv", ["x", "w", "b"], ["c"], pads=pads, **conv)]
    nodes.append(helper.make_node(op, ["c"], ["y" if op == "Gelu" else "s"]))
    if op != "Gelu":
        nodes.append(helper.make_node("Mul", ["c", "s"], ["y"]))
    weights = [
        numpy_helper.from_array(rng.standard_normal(s).astype(np.float32), n)
        for n, s in (("w", w), ("b", w[:1]))
    ]
    graph = helper.make_graph(nodes, "g", infos[:1], infos[1:], weights)
    opsets = [helper.make_opsetid("", 20)]
    made: onnx.ModelProto = helper.make_model(graph, opset_imports=opsets, ir_version=9)
    return made


@pytest.mark.parametrize("op", ["Sigmoid", "Gelu"])
@pytest.mark.parametrize(
    ("filters", "channels", "window", "group"),
    [(32, 16, 1, 1), (20, 16, 1, 1), (36, 3, 3, 1), (32, 1, 3, 32), (20, 1, 5, 20)],
)
@pytest.mark.parametrize(
    "picture", [(1, 1), pytest.param((5, 7), marks=pytest.mark.slow), (16, 17)]
)
def test_what_finishes_sums_gives_the_bytes_of_the_machine(
    op: str, filters: int, channels: int, window: int, group: int, picture: tuple[int, int]
) -> None:
    shape = (2, channels * group, *picture)
    made = activated(shape, (filters, channels, window, window), op, group=group)
    x = (np.random.default_rng(2).standard_normal(shape) * 20).astype(np.float32)
    x.flat[:3] = np.nan, np.inf, -np.inf
    results = [prepare(made, engine=e).run([x])[0] for e in ("machine", "native")]
    assert np.asarray(results[0]).tobytes() == np.asarray(results[1]).tobytes()


def test_sums_are_finished_some_rows_at_a_time() -> None:
    def text(op: str) -> str:
        graph = resolve(activated((1, 16, 8, 8), (32, 16, 1, 1), op))
        return "\n".join(print_scheduled(x.kernel).text for x in optimise(lower(graph)).launches)

    assert "SX_TOGETHER SX_FN void @_body" in text("Tanh")
    assert re.search(r"t \+ [23] <= count", text("Tanh"))
    assert "SX_TOGETHER" not in text("Gelu"), "by calls"
    assert "sx_picks_f32(" in text("Gelu")
    assert "SX_TOGETHER" not in text("Sigmoid"), "in parts"
    assert re.search(r"q5\[16 \* r0 \+ l\] = ", text("Sigmoid"))
    assert "SX_TOGETHER" not in text("Relu"), "too little to do"
