"""Single operations in forms of their own (tables for all channels, gathered rows, choices as
loops, wide strips): the bytes of the machine, scheduled and in plain loops."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from nets import Net, check_engines

from sardonyx.emit import model
from sardonyx.kernel.c99 import share
from sardonyx.kernel.c99.schedule import print_scheduled
from sardonyx.kernel.ir import Compute
from sardonyx.native import NativeEngine
from sardonyx.passes.lower import lower
from sardonyx.passes.pipeline import optimise
from sardonyx.types import Array

Rng = np.random.Generator
ODD = [np.nan, np.inf, -np.inf, -0.0, 1e30, -1e30, 1e-42, 2.0**31]


def floats(rng: Rng, *shape: int) -> Array:
    x = rng.standard_normal(shape).astype(np.float32)
    x.flat[: len(ODD)] = ODD
    return x


def sampled(net: Net, rng: Rng) -> None:
    x = net.feed("image", floats(rng, 2, 3, 7, 9))
    grid = rng.uniform(-1.5, 1.5, (2, 5, 18, 2)).astype(np.float32)
    grid.flat[-len(ODD) :] = ODD
    at = net.feed("grid", grid)
    for n, mode in enumerate(("linear", "cubic", "nearest")):
        for padding in ("zeros", "border", "reflection"):
            given = {"mode": mode, "padding_mode": padding, "align_corners": n % 2}
            net.give(net.op("GridSample", x, at, **given))


def regions(net: Net, rng: Rng) -> None:
    x = net.feed("features", floats(rng, 2, 3, 8, 11))
    corners = np.sort(rng.uniform(-6, 16, (6, 2, 2)), axis=1).reshape(6, 4).astype(np.float32)
    corners[4], corners[5] = (-90, -90, 90, 90), (3, 3, 3, 3)
    images = np.array([0, 1, 1, 0, 1, 0])
    rois = net.feed("rois", corners)
    for mode in ("avg", "max"):
        for ratio in (0, 2):
            size: dict[str, Any] = {"output_height": 3, "output_width": 2, "mode": mode}
            net.give(net.op("RoiAlign", x, rois, images, sampling_ratio=ratio, **size))
    both = np.concatenate([images[:, None].astype(np.float32), corners], 1)
    net.give(net.op("MaxRoiPool", x, net.feed("both", both), pooled_shape=[3, 2]))


def resized(net: Net, rng: Rng) -> None:
    x = net.feed("rows", floats(rng, 2, 2, 6, 9))
    rows: list[tuple[dict[str, Any], tuple[float, float]]] = [
        ({"mode": "linear"}, (2, 2)),
        ({"mode": "cubic"}, (1.5, 2.5)),
        ({"mode": "cubic", "antialias": 1}, (0.5, 0.9)),
        ({"mode": "linear"}, (0.5, 0.9)),
        ({"mode": "linear"}, (1, 2)),
        ({"mode": "nearest", "coordinate_transformation_mode": "asymmetric"}, (2, 2)),
    ]
    for given, scales in rows:
        net.give(net.op("Resize", x, "", np.float32([1, 1, *scales]), **given))
    for mode in ("reflect", "edge", "wrap"):
        for pads in (
            [0, 0, 1, 2, 0, 0, 3, 4],
            [0, 0, -1, 2, 1, 0, 0, -1],
            [0, 0, 0, 14, 0, 0, 9, 0],
        ):
            net.give(net.op("Pad", x, np.array(pads), mode=mode))


def folded(net: Net, rng: Rng) -> None:
    row, matrix = net.feed("row", floats(rng, 1, 40)), net.feed("matrix", floats(rng, 40, 768))
    net.give(net.op("MatMul", row, matrix), net.op("ReduceSum", matrix, np.array([0])))
    net.give(net.op("ReduceMax", matrix, np.array([0])))
    several = net.feed("several", floats(rng, 3, 40).astype(np.float64))
    net.give(net.op("MatMul", several, net.feed("wide", rng.standard_normal((40, 128)))))
    counts = net.feed("counts", rng.integers(-9, 9, (2, 13)).astype(np.int32))
    net.give(
        net.op("MatMul", counts, net.feed("more", rng.integers(-9, 9, (13, 300)).astype(np.int32)))
    )
    columns = net.op("Transpose", row, perm=[1, 0])
    net.give(net.op("MatMul", columns, row))
    half = net.feed("half", np.clip(floats(rng, 3, 5, 18), -9, 9).astype(np.float16))
    for axis in range(3):
        for flags in ({}, {"exclusive": 1}, {"reverse": 1}):
            net.give(net.op("CumSum", half, np.array(axis), **flags))
    for kind in (np.uint8, np.int8, np.bool_):
        b = net.feed(f"bytes{len(net.feeds)}", rng.integers(0, 2, (2, 70, 83)).astype(kind))
        net.give(net.op("Transpose", b, perm=[0, 2, 1]))
    blocks = net.feed("blocks", floats(rng, 1, 2 * 6, 30))
    for given in ({"pads": [1, 0, 1, 1], "strides": [2, 1]}, {"pads": [0, 1, 2, 0]}):
        size = np.array([10, 6] if "strides" in given else [5, 6])
        net.give(net.op("Col2Im", blocks, size, np.array([2, 3]), **given))
    pooled = net.op("MaxPool", net.weight(floats(rng, 1, 2, 6, 6)), kernel_shape=[2, 2],
                    strides=[2, 2], count=2)  # fmt: skip
    net.give(net.op("MaxUnpool", *pooled, kernel_shape=[2, 2], strides=[2, 2]))
    angles = floats(rng, 2, 100) * np.float32(90)
    angles[1] = np.clip(np.nan_to_num(angles[1]), -6e4, 6e4)
    x = net.feed("angles", angles)
    net.give(*(net.op(f, x) for f in ("Sin", "Cos", "Tan")))


def test_each_gives_the_bytes_of_the_machine() -> None:
    net = Net()
    for family in (sampled, regions, resized, folded):
        family(net, np.random.default_rng(3))
    check_engines(net)


def test_threads_share_them_out_with_the_same_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(share, "UNIT", 64)
    monkeypatch.setattr(model, "UNIT", 64)
    net = Net()
    for family in (sampled, regions, resized, folded):
        family(net, np.random.default_rng(4))
    graph = net.graph()
    alone, shared = (NativeEngine(graph, threads=n).run(net.feeds) for n in (1, 3))
    assert [n for n in graph.outputs if alone[n].tobytes() != shared[n].tobytes()] == []


def texts(net: Net) -> str:
    program = optimise(lower(net.graph(), overridable=False))
    return "\n".join(print_scheduled(launch.kernel).text for launch in program.launches)


def test_they_take_these_forms() -> None:
    net = Net()
    folded(net, np.random.default_rng(3))
    text = texts(net)
    assert text.count("sx_across_8(") == 3
    assert "float acc0[256];" in text
    assert "double acc0[64];" in text
    assert "[16][64] = " in text
    assert "&= v" in text or "&= fabsf(" in text, "whole strips by the short way"


@pytest.mark.parametrize("lanes", [24, 37, 48, 61])
def test_what_is_packed_goes_eight_by_eight_as_far_as_it_is_there(lanes: int) -> None:
    rng, net = np.random.default_rng(lanes), Net()
    a, b = (
        net.feed(n, rng.standard_normal((2, k, 20), np.float32))
        for n, k in (("a", 40), ("b", lanes))
    )
    net.give(net.op("MatMul", a, net.op("Transpose", b, perm=[0, 2, 1])))
    check_engines(net)
    text = texts(net)
    assert text.count("sx_across_32(") == 1
    assert (" + 8 <= " in text) == (lanes % 16 != 0)


def test_rows_are_gathered_where_several_rows_of_the_result_read_them() -> None:
    def temporaries(scales: tuple[float, float]) -> list[str]:
        net = Net()
        x = net.feed("x", np.ones((1, 2, 8, 16), np.float32))
        net.give(net.op("Resize", x, "", np.float32([1, 1, *scales]), mode="linear"))
        (launch,) = optimise(lower(net.graph(), overridable=False)).launches
        assert (scales[0] >= 2) != any(isinstance(s, Compute) for s in launch.kernel.body)
        return [b.name for b in launch.kernel.temporaries]

    assert temporaries((2, 2)) == ["near0", "row0"]
    assert temporaries((0.5, 0.5)) == []


@pytest.mark.parametrize("kind", [np.uint8, np.float16, np.float32])
def test_rows_become_columns_eight_by_eight(kind: type) -> None:
    net = Net()
    x = net.feed("x", np.random.default_rng(6).standard_normal((3, 37, 44)).astype(kind))
    net.give(net.op("Transpose", x, perm=[0, 2, 1]))
    check_engines(net)
    assert texts(net).count(f"sx_across_{8 * np.dtype(kind).itemsize}(") == 1


@pytest.mark.parametrize("op", ["Expand", "Tile"])
def test_products_with_the_same_factor_in_all_terms(op: str) -> None:
    net, rng = Net(), np.random.default_rng(1)
    x = net.feed("x", rng.standard_normal((40, 1)).astype(np.float32))
    wide = net.op(op, x, np.array([40, 5] if op == "Expand" else [1, 5]))
    net.give(net.op("MatMul", wide, rng.standard_normal((5, 20)).astype(np.float32)))
    check_engines(net)
