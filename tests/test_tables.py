"""What is computed of one byte alone is looked up."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from pathlib import Path
from typing import TypeAlias

import numpy as np
import pytest
from nets import Net, check_any_batch, check_engines
from targets import Target
from test_targets import OF_BYTES, check_net

from sardonyx import build
from sardonyx.kernel.c99.prelude import prelude
from sardonyx.kernel.c99.schedule import print_scheduled
from sardonyx.passes.lower import lower
from sardonyx.passes.pipeline import optimise
from sardonyx.passes.program import Launch

SHAPE = (2, 3, 40)

Made: TypeAlias = Callable[[type[np.generic]], Net]


def quantised(net: Net, x: str, scale: float, kind: type[np.generic]) -> str:
    """x as bytes, and these as numbers again."""
    s, zero = np.float32(scale), kind(3)
    return net.op("DequantizeLinear", net.op("QuantizeLinear", x, s, zero), s, zero)


def started(kind: type[np.generic] = np.uint8) -> tuple[Net, str]:
    net = Net()
    x = np.random.default_rng(5).standard_normal(SHAPE).astype(np.float32) * 4
    return net, quantised(net, net.op("Tanh", net.feed("x", x)), 0.02, kind)


def silu(kind: type[np.generic] = np.uint8) -> Net:
    net, x = started(kind)
    y = quantised(net, net.op("Sigmoid", x), 1 / 256, kind)
    net.give(quantised(net, net.op("Mul", x, y), 0.03, kind))
    return net


def softplus(kind: type[np.generic] = np.uint8) -> Net:
    net, x = started(kind)
    net.give(quantised(net, net.op("Softplus", x), 0.01, kind))
    return net


def two_bytes(kind: type[np.generic] = np.uint8) -> Net:
    """A product of bytes of two tensors is no table."""
    net, x = started(kind)
    z = quantised(net, net.op("Cos", net.feed("z", np.ones(SHAPE, np.float32))), 0.02, kind)
    net.give(quantised(net, net.op("Mul", net.op("Sigmoid", x), z), 0.01, kind))
    return net


def launches(net: Net) -> list[Launch]:
    return list(optimise(lower(net.graph()), roomy=True).launches)


def tables(net: Net) -> list[Launch]:
    return [x for x in launches(net) if x.kernel.name == "table"]


@pytest.mark.parametrize("kind", [np.uint8, np.int8])
@pytest.mark.parametrize("made", [silu, softplus, two_bytes])
def test_the_engines_agree(made: Made, kind: type[np.generic]) -> None:
    check_engines(made(kind))
    check_any_batch(made(kind))


@pytest.mark.parametrize("kind", [np.uint8, np.int8])
@pytest.mark.parametrize("made", [silu, softplus])
def test_functions_of_a_byte_are_one_table(made: Made, kind: type[np.generic]) -> None:
    (found,) = tables(made(kind))
    table = found.kernel.inputs[1]
    assert table is not None
    assert table.shape == (256,)


def joined(kind: type[np.generic] = np.uint8) -> Net:
    """Tables between rows of other tensors, short ones and long."""
    net = Net()
    for n, columns in enumerate((7, 16, 100)):
        values = np.random.default_rng(n).standard_normal((5, columns)).astype(np.float32) * 4
        x = quantised(net, net.feed(f"x{n}", values), 0.02, kind)
        y = quantised(net, net.op("Sigmoid", x), 1 / 256, kind)
        net.give(quantised(net, net.op("Concat", x, y, axis=1), 1 / 256, kind))
    return net


@pytest.mark.parametrize("kind", [np.uint8, np.int8])
def test_rows_are_looked_up_by_calls(kind: type[np.generic]) -> None:
    check_engines(joined(kind))
    texts = [print_scheduled(x.kernel, threads=False).text for x in launches(silu(kind))]
    flip = 0 if kind is np.uint8 else 128
    assert sum(f", {flip});" in text and "sx_look_up(" in text for text in texts) == 1


@pytest.mark.parametrize("flip", [0, 128])
@pytest.mark.parametrize("without", ["", "#undef __AVX512VBMI__", "#define SX_PORTABLE"])
def test_any_number_of_bytes_is_looked_up(without: str, flip: int) -> None:
    """From one memory to another, and where they are."""
    text = """
__attribute__((visibility("default")))
void looked_up(uint8_t *to, const uint8_t *from, const uint8_t *table, int64_t n, int flip) {
  sx_look_up(to, from, table, n, flip);
}
"""
    text = f"{without}\n{prelude(text)}{text}"
    probe, rng = build.load(build.library({"probe.c": text})), np.random.default_rng(2)
    table = rng.permutation(256).astype(np.uint8)
    for n in (0, 1, 15, 16, 17, 63, 64, 65, 200, 1000):
        x = rng.integers(0, 256, n + 64).astype(np.uint8)
        expected = x.copy()
        expected[:n] = table[x[:n] ^ flip]
        for to in (x.copy(), x):
            pointers = (ctypes.c_void_p(a.ctypes.data) for a in (to, x, table))
            probe.looked_up(*pointers, ctypes.c_int64(n), flip)
            assert to.tobytes() == expected.tobytes()


@pytest.mark.parametrize("target", [x for x in OF_BYTES if str(x) in ("gcc", "aarch64")], ids=str)
def test_targets_and_sanitizers_give_the_machines_bytes(target: Target, tmp_path: Path) -> None:
    for kind in (np.uint8, np.int8):
        check_net(joined(kind), target, tmp_path / kind.__name__)
        check_net(silu(kind), target, tmp_path / f"silu-{kind.__name__}")


def test_functions_of_two_bytes_are_computed() -> None:
    assert not tables(two_bytes())


def renewed(scale: float, *between: str) -> Net:
    """Bytes that are fed, as bytes of another scale, with operations between."""
    net = Net()
    x = net.feed("x", np.random.default_rng(1).integers(0, 256, (5, 70)).astype(np.uint8))
    y = net.op("DequantizeLinear", x, np.float32(0.02), np.uint8(121))
    for op_type in between:
        y = net.op(op_type, y)
    net.give(net.op("QuantizeLinear", y, np.float32(scale), np.uint8(121)))
    return net


@pytest.mark.parametrize("made", [renewed(0.03), renewed(0.02, "LeakyRelu")])
def test_bytes_are_quantised_anew_by_a_table(made: Net) -> None:
    check_engines(made)
    assert [x.kernel.name for x in launches(made)] == ["table"]


def test_bytes_of_the_same_scale_are_as_they_were() -> None:
    check_engines(renewed(0.02))
    (found,) = launches(renewed(0.02))
    assert found.reads == ("x",)


def test_bytes_that_have_just_been_rounded_are_quantised_anew_in_registers() -> None:
    net, x = started()
    net.give(quantised(net, x, 0.03, np.uint8))
    check_engines(net)
    assert not tables(net)


def test_bytes_that_are_chosen_are_quantised_anew_before() -> None:
    net, rng = Net(opsets={"": 17, "com.microsoft": 1}), np.random.default_rng(2)
    which = net.feed("c", rng.integers(0, 2, (4, 70)).astype(bool))
    x, y = (net.feed(n, rng.integers(0, 256, (4, 70)).astype(np.uint8)) for n in "xy")
    scales = (0.02, 121), (0.03, 7), (0.025, 3)
    one, two, made = ((np.float32(s), np.uint8(z)) for s, z in scales)
    net.give(net.op("QLinearWhere", which, x, *one, y, *two, *made, domain="com.microsoft"))
    check_engines(net)
    assert len(tables(net)) == 2


def again(net: Net) -> list[bool]:
    """Of each launch, whether the last elements are those of a whole strip that ends with them."""
    texts = [print_scheduled(x.kernel, threads=False).text for x in launches(net)]
    return ["some of these again" in text for text in texts]


@pytest.mark.parametrize("columns", [17, 24, 250])
def test_the_last_floats_are_rounded_as_a_whole_strip(columns: int) -> None:
    net, rng = Net(), np.random.default_rng(columns)
    x = net.feed("x", rng.standard_normal((3, columns)).astype(np.float32) * 4)
    net.give(net.op("QuantizeLinear", x, np.float32(0.02), np.uint8(7)))
    check_engines(net)
    assert again(net) == [True]


def test_bytes_that_may_be_overwritten_are_not_read_again() -> None:
    net, rng = Net(), np.random.default_rng(3)
    parts = (net.feed(n, rng.standard_normal((3, 17)).astype(np.float32)) for n in "xyz")
    one, two, three = (quantised(net, net.op("Tanh", x), 0.02, np.uint8) for x in parts)
    some = quantised(net, net.op("Add", one, two), 0.03, np.uint8)
    net.give(quantised(net, net.op("Add", some, three), 0.04, np.uint8), some)
    check_engines(net)
    assert not any(again(net)[-2:])
