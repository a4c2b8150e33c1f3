"""Pixels at places that data decide: many channels at a time, 0 outside the image."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from nets import Net, check_any_batch, check_engines
from test_passes import values

from sardonyx.passes.lower import lower
from sardonyx.passes.pipeline import optimise
from sardonyx.types import Array

NO_PLACE = (np.nan, np.inf, -np.inf, 1e30)


def places(seed: int, *shape: int) -> Array:
    """Coordinates, some of which are no places."""
    found = np.random.default_rng(seed).standard_normal(shape).astype(np.float32)
    found.reshape(-1)[3 : 3 + len(NO_PLACE)] = NO_PLACE
    return found


def cast(x: Array, kind: type) -> Array:
    with np.errstate(invalid="ignore", over="ignore"):
        return x.astype(kind)


def deformed(
    channels: int, filters: int, kind: type = np.float32, groups: int = 1, **how: Any
) -> Net:
    """A DeformConv between two convolutions; some of its offsets are no places."""
    net = Net(opsets={"": 22})
    x = net.feed("x", cast(values(1, 1, 4, 9, 7), kind))
    before = net.op("Conv", x, cast(values(2, channels, 4, 1, 1), kind))
    move = places(3, 1, 18 * groups, 9, 7)
    mask = [net.feed("mask", cast(values(4, 1, 9 * groups, 9, 7), kind))] if groups > 1 else []
    w = cast(values(5, filters, channels // how.get("group", 1), 3, 3), kind)
    offset = net.feed("offset", cast(move, kind))
    bias = cast(values(6, filters), kind)
    y = net.op(
        "DeformConv", before, w, offset, bias, *mask, offset_group=groups, pads=[1] * 4, **how
    )
    net.give(net.op("Conv", y, cast(values(7, 8, filters, 1, 1), kind)))
    return net


@pytest.mark.parametrize("kind", [np.float32, np.float16, np.float64])
@pytest.mark.parametrize(("channels", "filters"), [(16, 16), (32, 16), (24, 8), (3, 5)])
def test_a_deformed_convolution_is_the_machines(channels: int, filters: int, kind: type) -> None:
    check_engines(deformed(channels, filters, kind))


@pytest.mark.parametrize(("groups", "group"), [(2, 1), (4, 2), (2, 16)])
def test_groups_of_offsets_are_the_machines(groups: int, group: int) -> None:
    check_engines(deformed(32, 32, groups=groups, group=group))


def test_columns_are_sampled_once_and_in_blocks_of_channels() -> None:
    """One launch takes the samples of all filters; what it writes has sixteen channels last."""
    program = optimise(lower(deformed(32, 64).graph(), overridable=False), roomy=True)
    shapes = [program.tensors[n].shape for x in program.launches for n in x.writes]
    assert shapes.count((1, 2, 27, 21, 16)) == 1


def sampled(channels: int, mode: str, padding: str, batch: int = 2) -> Net:
    net = Net(opsets={"": 20})
    x = net.feed("x", values(1, batch, channels, 6, 5))
    grid = places(2, batch, 7, 3, 2)
    net.give(net.op("GridSample", x, net.feed("grid", grid), mode=mode, padding_mode=padding))
    return net


@pytest.mark.parametrize("padding", ["zeros", "border", "reflection"])
@pytest.mark.parametrize("mode", ["linear", "nearest", "cubic"])
@pytest.mark.parametrize("channels", [3, 32])
def test_samples_of_a_grid_are_the_machines(channels: int, mode: str, padding: str) -> None:
    check_engines(sampled(channels, mode, padding))


def test_one_program_samples_for_any_batch() -> None:
    check_any_batch(sampled(16, "linear", "zeros"))


def test_not_a_number_outside_of_the_image_does_not_become_a_pixel() -> None:
    """What is loaded in place of a pixel that is not there is not taken, whatever it is."""
    net = sampled(16, "linear", "zeros")
    net.feeds["x"][..., 0, 0] = np.nan
    net.feeds["grid"][...] = 5.0
    check_engines(net)


def regions(channels: int, op_type: str, **how: Any) -> Net:
    """Regions of two images: inside, across the border, outside, empty, upside down, no places."""
    net = Net(opsets={"": 16})
    x = net.feed("x", values(1, 2, channels, 12, 16))
    corners = np.array([[1, 2, 9, 8], [-3, -2, 20, 14], [-30, -30, -20, -20], [4, 4, 4, 4],
                        [9, 9, 2, 2], [np.nan, 0, np.inf, 5]], np.float32)  # fmt: skip
    images = np.array([0, 1, 1, 0, 1, 0])
    if op_type == "MaxRoiPool":
        given = (net.feed("rois", np.float32(np.hstack([images[:, None], corners]))),)
    else:
        given = net.feed("rois", corners), net.feed("images", images)
    net.give(net.op(op_type, x, *given, **how))
    return net


@pytest.mark.parametrize("ratio", [0, 2])
@pytest.mark.parametrize("mode", ["avg", "max"])
@pytest.mark.parametrize("channels", [3, 8, 21, 32])
def test_regions_are_the_machines(channels: int, mode: str, ratio: int) -> None:
    size = {"output_height": 3, "output_width": 2}
    check_engines(regions(channels, "RoiAlign", mode=mode, sampling_ratio=ratio, **size))


@pytest.mark.parametrize("channels", [3, 8, 21, 32])
def test_maxima_of_regions_are_the_machines(channels: int) -> None:
    check_engines(regions(channels, "MaxRoiPool", pooled_shape=[3, 2]))


@pytest.mark.parametrize("op_type", ["RoiAlign", "MaxRoiPool"])
def test_regions_take_channels_side_by_side(op_type: str) -> None:
    """As many as are no multiple of sixteen stand last."""
    how: dict[str, Any] = {"pooled_shape": [3, 2]} if op_type == "MaxRoiPool" else {}
    program = optimise(lower(regions(21, op_type, **how).graph(), overridable=False), roomy=True)
    shapes = [program.tensors[n].shape for x in program.launches for n in x.writes]
    assert (2, 1, 12, 16, 21) in shapes
