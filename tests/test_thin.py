"""Depthwise convolutions of few channels stay as the model has them, in lanes along a row; first
convolutions of one channel do not."""

from __future__ import annotations

import numpy as np
from nets import Net, check_engines
from test_half import values

from sardonyx.passes.lower import lower
from sardonyx.passes.pipeline import optimise


def net(channels: int, width: int) -> Net:
    made, rng = Net(), np.random.default_rng(5)
    x = made.feed("x", values(rng, 2, channels, 9, width))
    for k, stride, dilation in ((3, 1, 1), (5, 2, 1), (3, 1, 2)):
        y = made.op(
            "Conv", x, values(rng, channels, 1, k, k), values(rng, channels), group=channels,
            kernel_shape=[k, k], strides=[stride] * 2, dilations=[dilation] * 2, pads=[2, 1, 2, 1],
        )  # fmt: skip
        made.give(made.op("Relu", y))
    return made


def test_scheduled_equals_plain_equals_machine() -> None:
    for channels, width in ((3, 37), (7, 16), (3, 11)):
        check_engines(net(channels, width))


def test_only_wide_rows_of_few_channels_stay() -> None:
    def turned(channels: int, width: int) -> bool:
        program = optimise(lower(net(channels, width).graph()))
        return any(name.startswith("x.last") for name in program.tensors)

    assert [turned(*sizes) for sizes in ((3, 37), (3, 11), (9, 37))] == [False, True, True]


def test_one_channel_to_many_filters_is_not_depthwise() -> None:
    made, rng = Net(), np.random.default_rng(6)
    x = made.feed("x", values(rng, 1, 1, 20, 37))
    made.give(made.op("Conv", x, values(rng, 32, 1, 5, 5), values(rng, 32), pads=[2] * 4))
    check_engines(made)
    assert any(".blocked" in name for name in optimise(lower(made.graph())).tensors)
