"""Products of bytes whose zero points are computed, or whose weights are bytes without a sign."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from nets import Net, check_engines
from targets import Target
from test_targets import OF_BYTES, check_net

from sardonyx import build
from sardonyx import types as t
from sardonyx.kernel.c99 import contract
from sardonyx.kernel.expr import Fold, Load
from sardonyx.kernel.ir import Compute, statements
from sardonyx.kernel.walk import walk
from sardonyx.passes.constants import fold_constants
from sardonyx.passes.lower import lower
from sardonyx.passes.narrow import narrow
from sardonyx.types import Array

RANDOM = np.random.default_rng(5)
CASES: dict[str, dict[str, Any]] = {
    "3 x 3": {"pads": [1] * 4},
    "in steps": {"pads": [1, 1, 0, 0], "strides": [2, 2]},
    "spread": {"pads": [2] * 4, "dilations": [2, 2]},
    "1 x 1": {"size": 1},
    "without a border": {"channels": 21},
    "groups": {"pads": [1] * 4, "group": 2},
}
WEIGHTS: dict[str, Array] = {
    "int8": np.array(0, np.int8),
    "uint8": np.array(121, np.uint8),
    "the least zero point": np.array(0, np.uint8),
    "the greatest": np.array(255, np.uint8),
}


def weights(zero: Array, *shape: int) -> Array:
    """Numbers of all of the type of a zero point."""
    info = np.iinfo(zero.dtype)
    return RANDOM.integers(info.min, info.max + 1, shape).astype(zero.dtype)


def convolution(
    zero: Array, size: int = 3, channels: int = 16, turned: bool = False, **rest: Any
) -> Net:
    net = Net()
    x = net.feed("x", RANDOM.integers(0, 256, (2, channels, 9, 8)).astype(np.uint8))
    z = net.feed("z", np.array(200, np.uint8))
    w = weights(zero, 20, channels // rest.get("group", 1), size, size)
    y = net.op("ConvInteger", x, w, z, zero, **rest)
    y = net.op("Mul", net.op("Cast", y, to=1), np.float32(0.003))
    net.give(net.op("Transpose", y, perm=[3, 0, 1, 2]) if turned else y)
    return net


def product(zero: Array) -> Net:
    net = Net()
    x = net.feed("x", RANDOM.integers(0, 256, (2, 7, 24)).astype(np.uint8))
    z = net.feed("z", np.array(3, np.uint8))
    net.give(net.op("MatMulInteger", x, weights(zero, 24, 40), z, zero))
    return net


@pytest.mark.parametrize("dots", [False, True])
@pytest.mark.parametrize("zero", WEIGHTS)
def test_the_engines_agree(zero: str, dots: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(build, "rows_of_bytes", lambda: dots)
    for case in CASES.values():
        check_engines(convolution(WEIGHTS[zero], **case))
    check_engines(convolution(WEIGHTS[zero], pads=[1] * 4, turned=True))
    check_engines(product(WEIGHTS[zero]))


def factors(net: Net, dots: bool = True) -> set[t.DType]:
    """The types of the factors of the sums of products."""
    program = narrow(fold_constants(lower(net.graph()), True), roomy=True, dots=dots)
    every = (s for x in program.launches for s in statements(x.kernel.body))
    computes = [s for s in every if isinstance(s, Compute)]
    sums = [e for e in walk(*(s.expr for s in computes)) if isinstance(e, Fold) and e.kind == "dot"]
    assert all(contract.factors(e) for e in sums)  # register tiles take them
    return {x.dtype for x in walk(*(y for e in sums for y in e.terms)) if isinstance(x, Load)}


@pytest.mark.parametrize("zero", WEIGHTS)
def test_they_are_of_bytes(zero: str) -> None:
    assert factors(product(WEIGHTS[zero])) == {t.uint8, t.int8}
    for case in ("3 x 3", "in steps", "spread", "1 x 1"):
        assert factors(convolution(WEIGHTS[zero], **CASES[case])) == {t.uint8, t.int8}


def attention() -> Net:
    """QAttention: Q, K and V are one product of bytes, what is made of them products of floats."""
    net = Net(opsets={"": 17, "com.microsoft": 1})
    x = net.feed("x", RANDOM.integers(0, 256, (1, 7, 32)).astype(np.uint8))
    w, bias = weights(WEIGHTS["int8"], 32, 96), np.linspace(-1, 1, 96, dtype=np.float32)
    given = np.float32(0.02), np.float32(0.01), "", np.array(128, np.uint8), WEIGHTS["int8"]
    net.give(net.op("QAttention", x, w, bias, *given, num_heads=2, domain="com.microsoft"))
    return net


def test_the_product_in_front_of_an_attention_is_of_bytes() -> None:
    assert factors(attention()) == {t.uint8, t.int8, t.float32}
    check_engines(attention())


def recurrent(zero: Array, least: int, rows: int = 2) -> Net:
    """DynamicQuantizeLSTM in both directions; weights from `least` on, evenly around the middle."""
    net, middle = Net(opsets={"": 17, "com.microsoft": 1}), np.iinfo(zero.dtype).max // 2 + 1
    middle = 0 if zero.dtype == np.int8 else middle
    x = net.feed("x", RANDOM.standard_normal((5, rows, 20)).astype(np.float32))
    w, r = (
        RANDOM.integers(middle + least, middle - least, (2, terms, 4 * 24)).astype(zero.dtype)
        for terms in (20, 24)
    )
    scale, zeros = np.array([0.01, 0.02], np.float32), np.array([zero, zero])
    given = w, r, "", "", "", "", "", scale, zeros, scale, zeros
    more = {"hidden_size": 24, "direction": "bidirectional", "domain": "com.microsoft"}
    for y in net.op("DynamicQuantizeLSTM", x, *given, count=3, **more):
        net.give(y)
    return net


@pytest.mark.parametrize("dots", [False, True])
@pytest.mark.parametrize("least", [-64, -128])
@pytest.mark.parametrize("zero", WEIGHTS)
def test_the_engines_agree_on_steps(
    zero: str, least: int, dots: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(build, "rows_of_bytes", lambda: dots)
    check_engines(recurrent(WEIGHTS[zero], least))
    check_engines(recurrent(WEIGHTS[zero], least, rows=1))


@pytest.mark.parametrize("zero", WEIGHTS)
def test_the_products_of_steps_are_of_bytes_or_int16(zero: str) -> None:
    assert factors(recurrent(WEIGHTS[zero], -128)) == {t.uint8, t.int8}
    assert factors(recurrent(WEIGHTS[zero], -64), dots=False) == {t.uint8, t.int8}
    assert factors(recurrent(WEIGHTS[zero], -128), dots=False) == {t.int16, t.int8}


@pytest.mark.parametrize("target", OF_BYTES, ids=str)
def test_targets_give_the_machines_bytes(target: Target, tmp_path: Path) -> None:
    zero = WEIGHTS["uint8"]
    check_net(convolution(zero, pads=[1] * 4), target, tmp_path)
