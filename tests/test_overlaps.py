"""Sums of blocks that overlap, from copies of planes: the bytes of the definition."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from nets import Net, check_engines
from test_passes import values

from sardonyx import types as t
from sardonyx.kernel.expr import Fold
from sardonyx.kernel.ir import expressions, statements
from sardonyx.kernel.walk import walk
from sardonyx.passes.lower import lower
from sardonyx.passes.pipeline import optimise

# image, block, and how the blocks lie
CASES: tuple[tuple[tuple[int, ...], tuple[int, ...], dict[str, Any]], ...] = (
    ((9, 11), (3, 3), {"pads": [1] * 4}),
    ((9, 20), (3, 3), {}),
    ((10, 37), (3, 2), {"pads": [0, 1, 2, 3], "strides": [2, 3]}),
    ((8, 40), (2, 2), {"strides": [2, 2]}),
    ((7, 33), (4, 4), {"strides": [2, 2], "pads": [1, 1, 0, 1]}),
    ((9, 30), (2, 3), {"strides": [3, 4], "dilations": [2, 1]}),
    ((12, 23), (2, 3), {"dilations": [3, 2], "pads": [3, 2, 1, 0]}),
    ((21,), (5,), {"strides": [2], "pads": [2, 2]}),
    ((6, 7, 18), (2, 3, 2), {"strides": [1, 2, 2], "pads": [1, 0, 0, 1, 0, 1]}),
    ((3, 3), (3, 3), {"pads": [1] * 4}),
    ((5, 5), (9, 9), {"pads": [4] * 4}),
    ((1, 50), (1, 20), {"strides": [1, 9], "pads": [0, 3, 0, 0]}),
    ((40, 90), (5, 4), {"strides": [2, 1], "pads": [2, 1, 1, 2]}),
)


def blocks(
    image: tuple[int, ...], block: tuple[int, ...], how: dict[str, Any], kind: Any = np.float32
) -> Net:
    rank = len(image)
    pads = how.get("pads", [0] * 2 * rank)
    strides, apart = how.get("strides", [1] * rank), how.get("dilations", [1] * rank)
    places = [
        (n + pads[d] + pads[rank + d] - (block[d] - 1) * apart[d] - 1) // strides[d] + 1
        for d, n in enumerate(image)
    ]
    net = Net(opsets={"": 18})
    found = values(5, 2, 3 * int(np.prod(block)), int(np.prod(places)))
    if kind is not np.float32:
        found = np.nan_to_num(found, nan=-0.0, posinf=9, neginf=-9).astype(kind)
    x = net.feed("x", found)
    net.give(net.op("Col2Im", x, np.array(image), np.array(block), **how))
    return net


@pytest.mark.parametrize(("image", "block", "how"), CASES)
def test_blocks_are_the_machines(
    image: tuple[int, ...], block: tuple[int, ...], how: dict[str, Any]
) -> None:
    check_engines(blocks(image, block, how))


@pytest.mark.parametrize("kind", [np.float16, t.bfloat16.numpy, np.float64])
def test_blocks_of_other_floats_are_the_machines(kind: Any) -> None:
    check_engines(blocks(*CASES[2], kind))


@pytest.mark.parametrize("at", [0, 2, 5, 8])
def test_no_element_asks_where_blocks_end(at: int) -> None:
    program = optimise(lower(blocks(*CASES[at]).graph(), overridable=False), roomy=True)
    body = [s for x in program.launches for s in statements(x.kernel.body)]
    assert not any(isinstance(e, Fold) for s in body for e in walk(*expressions(s)))


def test_what_follows_is_computed_with_the_sums() -> None:
    net = blocks(*CASES[2])
    net.give(net.op("Relu", net.outputs[0]))
    check_engines(net)
