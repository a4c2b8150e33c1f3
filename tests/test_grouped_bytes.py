"""Grouped convolutions of bytes, whose groups fill no block of channels, and pools with channels
last: sums become bytes in registers, and nothing is put in another order on the way."""

from __future__ import annotations

import numpy as np
import pytest
from nets import Net, check_engines
from test_plain_u8 import Bytes

from sardonyx import types as t
from sardonyx.kernel.ir import Compute, statements
from sardonyx.passes.lower import lower
from sardonyx.passes.pipeline import optimise
from sardonyx.passes.program import Program

GROUPS, EACH = 4, 10


def scheduled(net: Net) -> Program:
    return optimise(lower(net.graph()), roomy=True, dots=True)


def unit(shuffled: bool = False) -> Net:
    """A unit of ShuffleNet: a residual sum, or a shuffle of channels behind the convolution."""
    made, channels = Bytes(3), GROUPS * EACH
    x = made.start(1, channels, 6, 7)
    y = made.both(made.conv(x, channels, EACH, 1, group=GROUPS), 0.05, 120)
    if shuffled:
        for op_type, about in (
            ("Reshape", np.array([1, GROUPS, EACH, 6, 7])),
            ("Transpose", None),
            ("Reshape", np.array([1, channels, 6, 7])),
        ):
            more = {} if about is not None else {"perm": [0, 2, 1, 3, 4]}
            operands = [y] if about is None else [y, about]
            y = made.both(made.net.op(op_type, *operands, **more), 0.05, 120)
        y = made.both(made.conv(y, channels, 1, 3, group=channels), 0.05, 120)
    else:
        y = made.net.op("Add", x, y)
    made.net.give(made.bytes(y, 0.06, 118))
    return made.net


@pytest.mark.parametrize("shuffled", [False, True])
def test_the_engines_agree(shuffled: bool) -> None:
    check_engines(unit(shuffled))


@pytest.mark.parametrize("shuffled", [False, True])
def test_no_sums_are_stored(shuffled: bool) -> None:
    program = scheduled(unit(shuffled))
    made = {program.tensors[n].dtype for x in program.launches for n in x.writes}
    assert t.int32 not in made


def pool(kind: type[np.generic]) -> Net:
    net = Net(opsets={"": 17, "com.microsoft": 1})
    x = np.random.default_rng(4).integers(-100, 100, (2, 9, 8, 20)).astype(kind)
    about = {"kernel_shape": [3, 3], "strides": [2, 2], "pads": [1] * 4}
    net.give(net.op("NhwcMaxPool", net.feed("x", x), domain="com.microsoft", **about))
    return net


@pytest.mark.parametrize("kind", [np.uint8, np.int8])
def test_channels_last_are_pooled_as_they_lie(kind: type[np.generic]) -> None:
    check_engines(pool(kind))
    (found,) = scheduled(pool(kind)).launches
    computes = [s for s in statements(found.kernel.body) if isinstance(s, Compute)]
    assert all(s.axes[-1].extent in (20, 8 * 20, 4 * 20) for s in computes)
