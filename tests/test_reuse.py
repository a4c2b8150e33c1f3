"""Random graphs that read what they have made again, at other places than before."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from nets import Net, check_engines
from test_passes import check

from sardonyx.passes import attention, blocks

N = 12  # extents: every operation fits every tensor [2, N, N]
Step = Callable[[Net, Random, str, str], str | list[str]]


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Attention goes by a few rows, however little it is."""
    monkeypatch.setattr(attention, "LEAST", 0)
    monkeypatch.setattr(blocks, "FEWEST", 4)
    monkeypatch.setattr(blocks, "ROWS", 2)


def cut(net: Net, x: str, axis: int, first: int, end: int, by: int = 1) -> str:
    found: str = net.op("Slice", x, *(np.array([n]) for n in (first, end, axis, by)))
    return found


def joined(net: Net, r: Random, x: str, y: str) -> str:
    """The end of x, then the beginning of y."""
    axis, n = r.choice((1, 2)), r.randrange(1, N)
    parts = cut(net, x, axis, n, N), cut(net, y, axis, 0, n)
    return str(net.op("Concat", *parts, axis=axis))


def shifted(net: Net, r: Random, x: str, _: str) -> str:
    """x without its first rows, and zeros behind it."""
    n = r.randrange(1, 4)
    return str(net.op("Pad", cut(net, x, 1, n, N), np.array([0, 0, 0, 0, n, 0])))


def reduced(net: Net, r: Random, x: str, y: str) -> str:
    kind = r.choice(("ReduceMean", "ReduceMax", "ReduceSum"))
    return str(net.op("Sub", y, net.op(kind, x, np.array([r.choice((1, 2))]), keepdims=1)))


def attended(net: Net, r: Random, x: str, y: str) -> list[str]:
    """Weights, those turned, and what they make of y."""
    p = net.op("Softmax", net.op("MatMul", x, net.op("Transpose", y, perm=[0, 2, 1])))
    turned = r.choice(STEPS[3:7:3])(net, r, p, p)
    return [p, str(turned), net.op("MatMul", p, y)]


def weights(r: Random, *shape: int) -> np.ndarray:
    return np.random.default_rng(r.randrange(1 << 20)).standard_normal(shape).astype(np.float32)


STEPS: tuple[Step, ...] = (
    lambda net, r, x, y: net.op("MatMul", x, y),
    lambda net, r, x, y: net.op("MatMul", x, weights(r, N, N)),
    lambda net, r, x, y: net.op("Softmax", x, axis=r.choice((1, 2))),
    lambda net, r, x, y: net.op("Transpose", x, perm=[0, 2, 1]),
    lambda net, r, x, y: net.op(r.choice(("Add", "Mul", "Max")), x, y),
    lambda net, r, x, y: net.op(r.choice(("Relu", "Sigmoid", "Abs")), x),
    lambda net, r, x, y: cut(net, x, r.choice((1, 2)), -1, -N - 1, -1),
    lambda net, r, x, y: net.op(
        "Gather", x, np.array(r.sample(range(N), N)), axis=r.choice((1, 2))
    ),
    lambda net, r, x, y: net.op("Where", net.op("Less", x, y), x, y),
    lambda net, r, x, y: net.op("Conv", x, weights(r, N, N, 3), weights(r, N), pads=[1, 1]),
    lambda net, r, x, y: net.op("MaxPool", x, kernel_shape=[3], pads=[1, 1]),
    lambda net, r, x, y: net.op("LayerNormalization", x, weights(r, N)),
    lambda net, r, x, y: net.op("CumSum", x, np.array(r.choice((1, 2)))),
    attended,
    joined,
    shifted,
    reduced,
)


def random_net(seed: int) -> Net:
    """Four to ten steps, each of two of the tensors so far, more often of the last."""
    net, r = Net(), Random(seed)
    made = [net.feed(name, weights(r, 2, N, N)) for name in ("x", "y")]
    for _ in range(r.randint(4, 10)):
        x, y = (r.choice(made[-3:] if r.random() < 0.6 else made) for _ in range(2))
        found = r.choice(STEPS)(net, r, x, y)
        made += [found] if isinstance(found, str) else found
    net.give(made[-1])
    return net


@settings(max_examples=25, derandomize=True)
@given(st.integers(0, 1 << 30))
@example(17478)  # rows of attention of which the last is cut off
def test_each_pass_keeps_the_bits(seed: int) -> None:
    check(random_net(seed))


@pytest.mark.slow
@settings(max_examples=400)
@given(st.integers(0, 1 << 30))
def test_each_pass_keeps_the_bits_of_many(seed: int) -> None:
    check(random_net(seed))


@pytest.mark.slow
@settings(max_examples=12)
@given(st.integers(0, 1 << 30))
def test_the_engines_agree(seed: int) -> None:
    check_engines(random_net(seed))
