"""Transposed convolutions: the machine's bits in every form, and products of matrices where windows
touch without overlapping."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
from nets import Net, check_engines

from sardonyx.kernel.schedule import print_scheduled
from sardonyx.passes.lower import lower
from sardonyx.passes.pipeline import optimise

# channels, filters, kernel, group, attributes
TOUCHING: tuple[tuple[int, int, list[int], int, dict[str, Any]], ...] = (
    (32, 16, [2, 2], 1, {"strides": [2, 2]}),
    (24, 1, [2, 2], 1, {"strides": [2, 2]}),
    (40, 24, [3, 2], 1, {"strides": [3, 2], "auto_pad": "SAME_UPPER"}),
    (32, 32, [2, 2], 2, {"strides": [2, 2]}),
    (5, 7, [4, 1], 1, {"strides": [4, 1], "pads": [0, 0, 0, 0]}),
)
OTHERS: tuple[tuple[int, int, list[int], int, dict[str, Any]], ...] = (
    (16, 16, [4, 4], 1, {"strides": [2, 2], "pads": [1, 1, 1, 1]}),
    (16, 8, [3, 3], 1, {"strides": [2, 2], "pads": [1, 1, 1, 1], "output_padding": [1, 1]}),
    (16, 8, [2, 2], 1, {"strides": [2, 2], "pads": [1, 0, 1, 0]}),
    (16, 8, [2, 2], 1, {"strides": [2, 2], "output_padding": [1, 0]}),
    (16, 8, [2, 2], 1, {"strides": [2, 2], "dilations": [2, 1]}),
)


def net(cases: tuple[tuple[int, int, list[int], int, dict[str, Any]], ...]) -> Net:
    made, rng = Net(), np.random.default_rng(3)

    def values(*shape: int) -> Any:
        return rng.standard_normal(shape).astype(np.float32)

    for i, (c, m, kernel, group, about) in enumerate(cases):
        x = made.feed(f"x{i}", values(1 + i % 2, c, 6, 5))
        x = made.op("Conv", x, values(c, c, 3, 3), pads=[1] * 4) if i % 2 == 0 else x
        weights = values(c, m // group, *kernel)
        y = made.op("ConvTranspose", x, weights, values(m), group=group, **about)
        made.give(y, made.op("Sigmoid", made.op("Relu", y)), made.op("Conv", y, values(8, m, 1, 1)))
    return made


@pytest.mark.parametrize("cases", [TOUCHING, OTHERS], ids=["touching", "others"])
def test_transposed_convolutions_give_the_machines_bits(cases: Any) -> None:
    made = net(cases)
    check_engines(made)


def test_windows_that_touch_are_products() -> None:
    program = optimise(lower(net(TOUCHING[:4]).graph(), overridable=False))
    transposed = [x for x in program.launches if x.kernel.name.startswith("ConvTranspose")]
    texts = [print_scheduled(launch.kernel).text for launch in transposed]
    assert len(texts) >= 4
    assert all(re.search(r"\bsx_contract(_half)?\(", text) for text in texts)
