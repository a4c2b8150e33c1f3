"""Axes that are no whole number of vectors, rows that data choose, sums that are stored as columns,
and what is kept apart for its form: the bytes of the machine."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from nets import Net, check_engines
from test_passes import values

from sardonyx.errors import RunError
from sardonyx.native import NativeEngine
from sardonyx.passes.lower import lower
from sardonyx.passes.pipeline import optimise
from sardonyx.types import Array


def normal(seed: int, *shape: int) -> Array:
    """Numbers whose sums are numbers."""
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def lanes(net: Net) -> None:
    """Windows of three axes, with something added that may lie where the sums are stored."""
    for n in (17, 24, 54):
        x, y = (net.feed(f"{c}{n}", normal(n, 1, n, 3, 4, 5)) for c in "xy")
        own = {"group": n, "pads": [1] * 6}
        z = net.op("Conv", net.op("Sigmoid", x), normal(n + 1, n, 1, 3, 3, 3), **own)
        net.give(net.op("Relu", net.op("Add", z, net.op("Sigmoid", y))))
        wide = net.feed(f"w{n}", normal(n, 40, n).astype(np.float64))
        net.give(net.op("ReduceSum", wide, np.array([0]), keepdims=0))


def chains(net: Net) -> None:
    """Long chains in place, and rows of them."""
    for n in (15, 16, 17, 20, 21, 31, 33, 49, 54, 100):
        x = net.feed(f"x{n}", values(n, 23, n))
        y = net.op("Mul", net.op("Relu", x), values(n + 1, n))
        net.give(net.op("Mul", y, net.op("Sigmoid", y)))
        net.give(net.op("Softmax", x, axis=-1))


def columns(net: Net) -> None:
    """Sums whose rows lie side by side where they are stored, alone and with a bias and a scale."""
    for rows in (3, 8, 13, 21, 64):
        for n in (16, 24, 40):
            x = net.feed(f"x{rows}_{n}", normal(rows + n, 2, rows, 30))
            y = net.op("Add", net.op("MatMul", x, normal(n, 30, n)), normal(n + 1, n))
            y = net.op("Transpose", y, perm=[0, 2, 1])
            net.give(net.op("Mul", y, np.float32(0.5)))
        net.give(net.op("Transpose", net.op("MatMul", x, normal(n, 30, n)), perm=[2, 0, 1]))


def written(net: Net) -> None:
    """Slices at indices that are fed, some of them twice, some counted from the end."""
    at = np.array([[3], [0], [-1], [3], [-4], [2]])
    for n in (1, 2, 19, 64):
        for reduction in ("none", "add", "mul", "max", "min"):
            x = net.feed(f"x{n}{reduction}", values(n, 7, n))
            new = net.feed(f"n{n}{reduction}", values(n + 1, 6, n))
            i = net.feed(f"i{n}{reduction}", at)
            net.give(net.op("ScatterND", x, i, new, reduction=reduction))
    pairs, cube = net.feed("pairs", np.array([[0, 1], [-1, 2]])), net.feed("c", values(3, 2, 3, 9))
    net.give(net.op("ScatterND", cube, pairs, net.feed("d", values(4, 2, 9)), reduction="add"))


def norms(net: Net) -> None:
    """Statistics of channels that lie side by side."""
    for n in (16, 24):
        x = net.feed(f"x{n}", normal(n, 2, 8, 9, 10))
        y = net.op("Conv", x, normal(n, n, 8, 3, 3), pads=[1] * 4)
        y = net.op("InstanceNormalization", y, normal(1, n), normal(2, n))
        net.give(net.op("LeakyRelu", y))


def modes(net: Net) -> None:
    """A product of few terms beside a convolution, whose layout is none of its own."""
    x = net.feed("x", normal(1, 2, 32, 64))
    modes_ = net.feed("modes", normal(2, 2, 32, 12))
    y = net.op(
        "Add", net.op("MatMul", modes_, normal(3, 12, 64)), net.op("Conv", x, normal(4, 32, 32, 1))
    )
    net.give(net.op("MatMul", net.op("Tanh", y), normal(5, 64, 10)))


def sines(net: Net) -> None:
    """Small and large arguments behind products, and narrow columns of both."""
    for scale in (1.0, 1e6):
        x = net.feed(f"x{scale}", normal(1, 70, 3) * np.float32(scale))
        y = net.op("Sin", net.op("Gemm", x, normal(2, 3, 64), normal(3, 64)))
        net.give(net.op("Cos", net.op("MatMul", y, normal(4, 64, 40) * np.float32(30))))
        parts = [x]
        for power in range(6):
            scaled = net.op("Mul", x, np.float32(2**power))
            parts += [net.op("Sin", scaled), net.op("Cos", scaled)]
        net.give(net.op("Concat", *parts, axis=1))


def queries(net: Net) -> None:
    """Attention of queries that are weights, as those of a decoder's first layer."""
    keys, held = (net.feed(c, normal(3, 1, 512, 32)) for c in "kv")
    scores = net.op("MatMul", normal(1, 1, 96, 32), net.op("Transpose", keys, perm=[0, 2, 1]))
    net.give(net.op("MatMul", net.op("Softmax", scores), held))


def tops(net: Net) -> None:
    """Much of short rows, along each axis, with equals, both zeros and NaNs."""
    whole = np.random.default_rng(1).integers(-3, 4, (3, 21, 19))
    odd = np.where(whole == 2, np.nan, np.where(whole == 0, -0.0, whole))
    odd[:, ::2][whole[:, ::2] == 0] = 0.0
    for dtype in (np.float32, np.float16, np.int64):
        x = (whole if dtype is np.int64 else odd).astype(dtype)
        given = net.feed(f"x{np.dtype(dtype)}", x)
        for axis, count in ((1, 21), (2, 7), (2, 4), (0, 3)):
            for largest in (0, 1):
                k = np.array([count])
                net.give(*net.op("TopK", given, k, count=2, axis=axis, largest=largest))


def windows(net: Net) -> None:
    """Averages of windows that move by several elements over rows shorter than that, and longer."""
    for n in (1, 2, 3, 5, 40):
        for by in (2, 3, 4):
            x = net.feed(f"x{n}_{by}", normal(n, 1, 2, 2, n))
            about = {"kernel_shape": [1, 45], "strides": [1, by], "pads": [0, 44, 0, 44]}
            net.give(*(net.op("AveragePool", x, count_include_pad=i, **about) for i in (0, 1)))


FAMILIES = [tops, windows, lanes, chains, columns, written, norms, modes, sines, queries]


@pytest.mark.parametrize("family", FAMILIES, ids=lambda f: str(f.__name__))
def test_the_bytes_are_the_machines(family: Callable[[Net], None]) -> None:
    net = Net()
    family(net)
    check_engines(net)


@pytest.mark.parametrize("at", [4, -5])
def test_a_slice_that_is_not_there_is_a_run_time_error(at: int) -> None:
    net = Net()
    given = (net.feed("x", values(1, 4, 20)), net.feed("i", np.array([[1], [at]])))
    net.give(net.op("ScatterND", *given, net.feed("u", values(2, 2, 20)), reduction="add"))
    with pytest.raises(RunError, match="out of bounds"):
        NativeEngine(net.graph()).run(net.feeds)


def test_repeated_pixels_alone_stay_as_they_lie() -> None:
    """Blocks of channels would be made and unmade around what only moves."""
    net = Net()
    x = net.feed("x", values(1, 1, 32, 8, 8))
    given = {"mode": "nearest", "nearest_mode": "floor"}
    scales = (x, "", np.float32([1, 1, 2, 2]))
    net.give(net.op("Resize", *scales, coordinate_transformation_mode="asymmetric", **given))
    launches = optimise(lower(net.graph()), roomy=True).launches
    assert [x.kernel.name for x in launches] == ["Resize"]


def test_sines_behind_a_product_are_a_launch_of_their_own() -> None:
    """Its strips take the short way where all arguments are small; what finishes sums does not."""
    net = Net()
    x = net.feed("x", values(1, 64, 32))
    y = net.op("Sin", net.op("MatMul", x, values(2, 32, 64)))
    net.give(net.op("MatMul", y, values(3, 64, 32)))
    launches = optimise(lower(net.graph()), roomy=True).launches
    assert [x.kernel.name for x in launches] == ["MatMul", "Sin", "MatMul"]
