"""Long chains of arithmetic in strips: which loops take them, and that every length gives the bytes
of the plain loops."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from sardonyx.backend import prepare
from sardonyx.kernel import elementary as fn
from sardonyx.kernel.build import Builder, Tensor, operand
from sardonyx.kernel.expr import Expr
from sardonyx.kernel.ir import Compute, Kernel
from sardonyx.kernel.print_abreast import abreast_of
from sardonyx.kernel.print_c import print_c
from sardonyx.kernel.schedule import print_scheduled
from sardonyx.types import float32

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
    assert width((4, 64), lambda x, i: fn.sigmoid(x[i]) * fn.tanh(x[i])) == 16
    assert width((4, 64), lambda x, i: x[i] + 1) == 0, "too little to do"
    assert width((64, 20), lambda x, i: fn.exp(x[i])) == 0, "too short"
    assert width((64, 64), lambda x, i: fn.exp(x[i[::-1]])) == 0, "not neighbours"


def test_gcc_is_told_to_interleave_what_has_strips() -> None:
    text = print_scheduled(kernel((4, 64), lambda x, i: fn.exp(x[i]))).text
    assert "SX_TOGETHER static void @(" in text
    assert "sx_abreast(4) for" in text
    assert "sx_abreast" not in print_c(kernel((4, 64), lambda x, i: fn.exp(x[i]))).text


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
