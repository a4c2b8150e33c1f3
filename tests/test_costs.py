"""The multiply-adds of a graph."""

from __future__ import annotations

import numpy as np
import pytest
from nets import Net

from sardonyx.measure.costs import costs


@pytest.mark.parametrize("channels", [3, 16, 24, 40])
def test_a_convolution_counts_its_channels_and_not_those_a_block_has_room_for(channels) -> None:
    made = Net()
    x = made.feed("x", np.zeros((1, channels, 5, 7), np.float32))
    made.give(made.op("Conv", x, np.zeros((8, channels, 3, 3), np.float32)))
    assert costs(made.graph()).macs == 8 * 3 * 5 * channels * 9
