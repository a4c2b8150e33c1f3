"""Convolutions, pools, resizing, grids and regions."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest
from nets import Net
from op_runs import compare, lowered, normal, run

from sardonyx.dims import symbol
from sardonyx.errors import RunError
from sardonyx.kernel.expr import Fold
from sardonyx.kernel.ir import Compute, Kernel
from sardonyx.kernel.walk import walk
from sardonyx.machine import Machine
from sardonyx.native import NativeEngine
from sardonyx.types import Array

N = symbol("N")


def convolve(x: Array, w: Array, group: int, strides: Any, dilations: Any, pads: Any) -> Array:
    """Conv in float64, written as one product per place of the window."""
    rank, (samples, channels), filters = x.ndim - 2, x.shape[:2], w.shape[0]
    wide = np.pad(
        x.astype(np.float64), [(0, 0)] * 2 + list(zip(pads[:rank], pads[rank:], strict=True))
    )
    reach = [d * (n - 1) + 1 for d, n in zip(dilations, w.shape[2:], strict=True)]
    out = [(n - r) // s + 1 for n, r, s in zip(wide.shape[2:], reach, strides, strict=True)]
    parts = wide.reshape(samples, group, channels // group, *wide.shape[2:])
    kernels = w.astype(np.float64).reshape(group, filters // group, *w.shape[1:])
    y = np.zeros((samples, group, filters // group, *out))
    for r in product(*map(range, w.shape[2:])):
        view = [
            slice(q * d, q * d + s * (n - 1) + 1, s)
            for q, d, s, n in zip(r, dilations, strides, out, strict=True)
        ]
        y += np.einsum("bgc...,gmc->bgm...", parts[(..., *view)], kernels[(..., *r)])
    return y.reshape(samples, filters, *out)


@pytest.mark.parametrize("rank", [1, 2, 3])
@pytest.mark.parametrize(("group", "channels"), [(1, 3), (1, 16), (1, 20), (2, 35), (4, 1)])
def test_conv_is_the_sum_of_products(rank: int, group: int, channels: int) -> None:
    strides, dilations, pads = [2, 1, 3][:rank], [1, 2, 1][:rank], [1, 0, 2, 0, 1, 1][: 2 * rank]
    x, w = (
        normal(2, group * channels, *[7, 6, 5][:rank]),
        normal(group * 2, channels, *[3, 2, 2][:rank]),
    )
    b = normal(group * 2)
    y = run("Conv", x, w, b, group=group, strides=strides, dilations=dilations, pads=pads)
    bias = b.reshape(-1, *[1] * rank)
    expected = convolve(x, w, group, strides, dilations, pads) + bias
    np.testing.assert_allclose(y, expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(("group", "channels"), [(1, 3), (1, 20), (3, 2)])
def test_conv_transpose_is_the_adjoint_of_conv(group: int, channels: int) -> None:
    """<conv(x), y> == <x, conv_transpose(y)> for the same weights."""
    attributes: dict[str, Any] = {
        "group": group,
        "strides": [2, 3],
        "dilations": [2, 1],
        "pads": [1, 0, 1, 1],
    }
    x, w = normal(1, group * 2, 8, 9), normal(group * channels, 2, 2, 3)
    forward = run("Conv", x, w, **attributes)
    y = normal(*forward.shape)
    back = run("ConvTranspose", y, w, output_padding=[1, 1], **attributes)
    assert back.shape == x.shape
    left = (forward.astype(np.float64) * y).sum()
    assert left == pytest.approx((x.astype(np.float64) * back).sum(), rel=1e-4)


def folds(kernel: Kernel) -> list[Fold]:
    roots = [s.expr for s in kernel.body if isinstance(s, Compute)]
    return [e for e in walk(*roots) if isinstance(e, Fold)]


@pytest.mark.parametrize(
    ("channels", "extents", "conditional"),
    [(3, (1, 5, 3, 3), False), (32, (2, 5, 3, 16), False), (20, (2, 5, 3, 16), True)],
)
def test_conv_folds_blocks_then_places_then_channels(
    channels: int, extents: tuple[int, ...], conditional: bool
) -> None:
    kernel = lowered("Conv", (1, channels, 9, 9), (4, channels, 5, 3))
    (fold,) = folds(kernel)
    if channels == 3:
        extents = (1, 5, 3, 3)
    assert tuple(a.extent for a in fold.axes) == extents
    assert (fold.when is not None) == conditional


def test_padding_of_conv_is_present_as_zeros() -> None:
    """0 * inf is NaN where the infinite weight meets padding."""
    w = np.array([[[np.inf, 1, 1]]], np.float32)
    y = run("Conv", np.ones((1, 1, 3), np.float32), w, pads=[1, 1])
    assert np.isnan(y[0, 0, 0])
    assert np.isposinf(y[0, 0, 1:]).all()


def test_holes_of_conv_transpose_are_absent() -> None:
    """An infinite weight is not multiplied with the zeros that a stride would put in between."""
    w = np.array([[[np.inf, 1]]], np.float32)
    y = run("ConvTranspose", np.ones((1, 1, 2), np.float32), w, strides=[2])
    np.testing.assert_array_equal(y[0, 0], [np.inf, 1, np.inf, 1])


def test_conv_of_float16_rounds_once() -> None:
    """2048 + 1 - 2048 is 1 when the sum is kept in float32, and 0 in float16."""
    x = np.array([2048, 1, -2048], np.float16).reshape(1, 3, 1)
    assert run("Conv", x, np.ones((1, 3, 1), np.float16))[0, 0, 0] == 1


def test_a_bias_of_conv_is_added_after_the_sum() -> None:
    x = np.array([1e8, -1e8], np.float32).reshape(1, 2, 1)
    y = run("Conv", x, np.ones((1, 2, 1), np.float32), np.ones(1, np.float32))
    assert y[0, 0, 0] == 1


def test_no_window_of_a_pool_starts_in_the_padding_at_the_end() -> None:
    x = np.arange(5, dtype=np.float32).reshape(1, 1, 5)
    y = run("MaxPool", x, kernel_shape=[2], strides=[3], pads=[1, 1], ceil_mode=1)
    np.testing.assert_array_equal(y[0, 0], [0, 3])


def test_column_major_indices_count_the_first_spatial_axis_fastest() -> None:
    x = np.arange(12, dtype=np.float32).reshape(1, 1, 3, 4)
    _, rows = run("MaxPool", x, outputs=2, kernel_shape=[2, 2])
    _, columns = run("MaxPool", x, outputs=2, kernel_shape=[2, 2], storage_order=1)
    np.testing.assert_array_equal(rows[0, 0], [[5, 6, 7], [9, 10, 11]])
    np.testing.assert_array_equal(columns[0, 0], [[4, 7, 10], [5, 8, 11]])


def test_a_nan_is_the_largest_of_its_window_and_found_there() -> None:
    x = np.array([1, np.nan, 3, 2], np.float32).reshape(1, 1, 4)
    y, i = run("MaxPool", x, outputs=2, kernel_shape=[2])
    np.testing.assert_array_equal(y[0, 0], [np.nan, np.nan, 3])
    np.testing.assert_array_equal(i[0, 0], [1, 1, 2])


@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.float64, np.float16])
def test_max_pool_takes_the_type(dtype: Any) -> None:
    x = np.array([1, 5, 0, 3], dtype).reshape(1, 1, 4)
    y = run("MaxPool", x, kernel_shape=[3], pads=[1, 1])
    assert y.dtype == dtype
    np.testing.assert_array_equal(y[0, 0], [5, 5, 5, 3])


def test_an_average_counts_padding_only_when_asked() -> None:
    x = np.array([3, 6], np.float32).reshape(1, 1, 2)
    window: dict[str, Any] = {"kernel_shape": [3], "pads": [1, 1]}
    np.testing.assert_array_equal(run("AveragePool", x, **window)[0, 0], [4.5, 4.5])
    np.testing.assert_array_equal(
        run("AveragePool", x, count_include_pad=1, **window)[0, 0], [3, 3]
    )


def test_nearest_half_way_goes_where_the_mode_says() -> None:
    x = np.arange(4, dtype=np.float32)
    half: dict[str, Any] = {"coordinate_transformation_mode": "asymmetric"}
    found = {
        mode: run("Resize", x, None, np.float32([2]), nearest_mode=mode, **half).tolist()
        for mode in ("floor", "ceil", "round_prefer_floor", "round_prefer_ceil")
    }
    assert found == {
        "floor": [0, 0, 1, 1, 2, 2, 3, 3],
        "ceil": [0, 1, 1, 2, 2, 3, 3, 3],
        "round_prefer_floor": [0, 0, 1, 1, 2, 2, 3, 3],
        "round_prefer_ceil": [0, 1, 1, 2, 2, 3, 3, 3],
    }


def test_a_symmetric_coordinate_is_added_from_left_to_right() -> None:
    """From right to left that of the last place is 1.9999999."""
    given: dict[str, Any] = {"nearest_mode": "floor", "mode": "nearest"}
    mode = {"coordinate_transformation_mode": "half_pixel_symmetric"}
    x = np.arange(3, dtype=np.float32)
    assert run("Resize", x, None, np.float32([1.5]), **given, **mode).tolist() == [0, 0, 1, 2]


@pytest.mark.parametrize("mode", ["align_corners", "half_pixel_symmetric", "half_pixel"])
@pytest.mark.parametrize("scale", [1.5, 0.75, 2.0])
def test_a_size_that_is_a_symbol_is_resized_as_the_number_is(mode: str, scale: float) -> None:
    net = Net()
    x = net.feed("x", np.random.default_rng(8).random((1, 3, 4, 7)).astype(np.float32))
    scales = np.float32([1, 1, 1, scale])
    for how in ("nearest", "linear"):
        net.give(net.op("Resize", x, "", scales, mode=how, coordinate_transformation_mode=mode))
    wanted = Machine(net.graph()).run(net.feeds)
    found = NativeEngine(net.graph(sizes={7: "W"})).run(net.feeds)
    assert all(found[n].tobytes() == wanted[n].tobytes() for n in net.outputs)


@pytest.mark.parametrize("mode", ["linear", "cubic"])
@pytest.mark.parametrize("scale", [0.4, 1.7])
@pytest.mark.parametrize("extra", [{}, {"antialias": 1}, {"exclude_outside": 1}])
def test_resizing_a_constant_gives_the_constant(
    mode: str, scale: float, extra: dict[str, Any]
) -> None:
    y = run(
        "Resize", np.full((5, 6), 3, np.float32), None, np.float32([1, scale]), mode=mode, **extra
    )
    np.testing.assert_allclose(y, 3, rtol=1e-6)


def test_affine_grid_of_an_only_pixel_with_align_corners_is_at_minus_one() -> None:
    theta = np.eye(2, 3, dtype=np.float32)[None]
    found = run("AffineGrid", theta, np.array([1, 1, 1, 3]), align_corners=1)
    np.testing.assert_array_equal(found, [[[[-1, -1], [0, -1], [1, -1]]]])


def test_affine_grid_follows_symbolic_sizes() -> None:
    kernel = lowered("AffineGrid", (N, 2, 3), [N, 1, 5, N])
    assert kernel.outputs[0].shape == (N, 5, N, 2)


REGIONS = np.float32(
    [[1, 2, 9, 8], [-3, -2, 20, 14], [4, 4, 4.2, 4.1], [-30, -30, 40, 40], [9, 9, 2, 2]]
)
BATCHES = np.array([0, 1, 1, 0, 1])


@pytest.mark.parametrize("mode", ["avg", "max"])
@pytest.mark.parametrize("coordinates", ["half_pixel", "output_half_pixel"])
@pytest.mark.parametrize("ratio", [0, 2])
def test_regions_are_onnxruntime_s(mode: str, coordinates: str, ratio: int) -> None:
    """Small, large, partly and wholly outside, and upside down."""
    compare(
        "RoiAlign", normal(2, 3, 12, 16), REGIONS, BATCHES, mode=mode, sampling_ratio=ratio,
        coordinate_transformation_mode=coordinates, output_height=3, output_width=2,
        spatial_scale=0.75,
    )  # fmt: skip


def test_max_roi_pool_is_onnxruntime_s() -> None:
    rois = np.concatenate([BATCHES[:, None].astype(np.float32), REGIONS], 1)
    x = normal(2, 3, 12, 16)
    for scale in (0.5, 1.0):
        compare("MaxRoiPool", x, rois, pooled_shape=[3, 2], spatial_scale=scale)


def test_a_region_of_a_sample_that_is_not_there_is_a_run_time_error() -> None:
    with pytest.raises(RunError):
        run("RoiAlign", normal(1, 1, 4, 4), REGIONS[:1], np.array([1]), output_height=1)
