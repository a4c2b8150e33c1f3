"""What many operations make of one float16 is looked up, with the bits that they give."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from nets import Net, check_engines

from sardonyx import types as t
from sardonyx.passes.half_tables import CODES
from sardonyx.passes.lower import lower
from sardonyx.passes.pipeline import optimise
from sardonyx.types import Array

Function = Callable[[Net, str], str]


def gelu(made: Net, x: str) -> str:
    erf = made.op("Erf", made.op("Div", x, np.float16(2**0.5)))
    return made.op("Mul", made.op("Mul", x, made.op("Add", erf, np.float16(1))), np.float16(0.5))


def silu(made: Net, x: str) -> str:
    return made.op("Mul", x, made.op("Sigmoid", x))


def mish(made: Net, x: str) -> str:
    return made.op("Mul", x, made.op("Tanh", made.op("Softplus", x)))


def hard_swish(made: Net, x: str) -> str:
    six = made.op("Clip", made.op("Add", x, np.float16(3)), np.float16(0), np.float16(6))
    return made.op("Div", made.op("Mul", x, six), np.float16(6))


def some(*shape: int, seed: int = 0) -> Array:
    return (np.random.default_rng(seed).normal(size=shape) * 2).astype(np.float16)


def tables(made: Net) -> list[str]:
    """The tables that launches read."""
    program = optimise(lower(made.graph()), roomy=True)
    read = [n for launch in program.launches for n in launch.reads if n is not None]
    return [n for n in read if program.tensors[n].shape == (CODES,)]


@pytest.mark.parametrize("function", [gelu, silu, mish, hard_swish])
def test_every_float16_gives_what_the_operations_give(function: Function) -> None:
    made = Net()
    codes = np.resize(np.arange(CODES, dtype=np.uint16), (2, CODES))
    y = function(made, made.op("Neg", made.feed("x", codes.view(np.float16))))
    made.give(y, made.op("Add", y, np.float16(1)))
    assert len(tables(made)) >= 1
    check_engines(made)


@pytest.mark.parametrize("channels", [64, 50])
def test_sums_are_looked_up_in_all_layouts(channels: int) -> None:
    made = Net()
    x = made.feed("x", some(1, channels, 16, 32))
    y = made.op("Conv", x, some(channels, channels, 1, 1, seed=1), some(channels, seed=2))
    y = gelu(made, y)
    y = gelu(made, made.op("Conv", y, some(channels, 1, 3, 3, seed=3), group=channels))
    rows = made.op("Reshape", y, np.int64([1, channels, -1]))
    y = gelu(made, made.op("Mul", made.op("Transpose", rows, perm=[0, 2, 1]), np.float16(0.1)))
    made.give(made.op("MatMul", y, some(channels, 48, seed=4)))
    assert len(tables(made)) >= 2
    check_engines(made)


def test_a_depthwise_convolution_of_one_tap_is_looked_up() -> None:
    made = Net()
    x, z = made.feed("x", some(1, 48, 20, 20)), made.feed("z", some(1, 48, 20, 20, seed=1))
    y = made.op("Conv", x, some(48, 1, 1, 1, seed=2), some(48, seed=3), group=48)
    made.give(made.op("Conv", gelu(made, made.op("Add", y, z)), some(16, 48, 1, 1, seed=4)))
    assert len(tables(made)) == 1
    check_engines(made)


def test_equal_functions_have_one_table() -> None:
    made = Net()
    y = gelu(made, made.op("MatMul", made.feed("x", some(256, 64)), some(64, 64, seed=1)))
    made.give(gelu(made, made.op("MatMul", y, some(64, 64, seed=2))))
    program = optimise(lower(made.graph()), roomy=True)
    first, second = (program.weights[n] for n in tables(made))
    assert first.dtype == np.float16
    assert first.tobytes() == second.tobytes()


def test_what_is_not_worth_a_table_is_computed() -> None:
    few, short, two = Net(), Net(), Net()
    few.give(gelu(few, few.op("Neg", few.feed("x", some(32, 64)))))
    x = short.op("Neg", short.feed("x", some(256, 64)))
    short.give(short.op("Mul", short.op("Add", x, np.float16(1)), np.float16(3)))
    x, z = (two.feed(n, some(256, 64, seed=s)) for s, n in enumerate("xz"))
    two.give(two.op("Sigmoid", two.op("Tanh", two.op("Exp", two.op("Mul", x, z)))))
    assert (tables(few), tables(short)) == ([], [])
    assert len(tables(two)) == 1  # of the product, which is rounded


def test_numbers_of_float32_have_no_table() -> None:
    made = Net()
    x = made.op("Neg", made.feed("x", some(256, 64).astype(np.float32)))
    made.give(made.op("Erf", x), made.op("Cast", made.op("Erf", x), to=t.float16.onnx))
    assert tables(made) == []


def test_a_part_that_is_no_float16_has_no_table() -> None:
    made = Net()
    x = made.op("Neg", made.feed("x", some(128, 256)))
    wide = made.op("Neg", made.feed("z", some(128, 256, seed=1).astype(np.float32) / np.float32(3)))
    y = made.op("Concat", made.op("Cast", x, to=t.float32.onnx), wide, axis=0)
    z = made.op("MatMul", y, np.eye(256, dtype=np.float32))
    made.give(z, made.op("Cast", made.op("Erf", y), to=t.float16.onnx))
    check_engines(made)
