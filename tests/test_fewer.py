"""Convolutions of bytes by tiles with a quarter of the products: the same bytes for every size,
border, zero point and weight, and no tiles where a sum might not fit."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from nets import Net, check_engines
from targets import Target
from test_targets import OF_BYTES, check_net

from sardonyx.kernel.ir import For
from sardonyx.passes import fewer
from sardonyx.passes.lower import lower
from sardonyx.passes.pipeline import optimise
from sardonyx.passes.program import Launch

ONE = np.float32(1)
# batch, channels, height, width, filters, pads, zero point
CASES = (
    (1, 16, 28, 28, 16, (1, 1, 1, 1), 0),
    (2, 32, 21, 19, 48, (1, 1, 1, 1), 128),
    (1, 48, 30, 31, 16, (0, 0, 0, 0), 255),
    (3, 16, 17, 16, 32, (2, 0, 1, 3), 7),
)


def weights(i: int, filters: int, channels: int, rng: np.random.Generator) -> np.ndarray:
    """Anything of 7 bits, or of 8; the largest of one sign, which make the largest sums; signs in
    turn, which make the largest transforms."""
    shape, most = (filters, channels, 3, 3), 128 if i % 2 else 64
    if i % 3 == 0:
        return rng.integers(-most, most, shape).astype(np.int8)
    signs = (-1) ** np.indices(shape).sum(0) if i % 3 == 1 else 1
    return np.broadcast_to(np.minimum(most * signs, 127), shape).astype(np.int8)


def net(cases: tuple[int, ...], form: int = 0) -> Net:
    """Convolutions of bytes, of which half are as small or as large as may be."""
    made, rng = Net(), np.random.default_rng(5)
    for i in cases:
        n, c, h, w, m, pads, zero = CASES[i]
        x = rng.integers(0, 256, (n, c, h, w))
        x[..., : w // 2] = rng.choice([0, 255], (n, c, h, w // 2))
        y, z = made.feed(f"x{i}", x.astype(np.uint8)), np.uint8(zero)
        value = weights(i + form, m, c, rng)
        bias, scale = rng.integers(-9999, 9999, m).astype(np.int32), np.float32(40 * c)
        parts = [y, ONE, z, value, ONE, np.int8(0), scale, np.uint8(100), bias]
        made.give(made.op("QLinearConv", *parts, pads=list(pads)))
    return made


def by_tiles(made: Net) -> list[Launch]:
    program = optimise(lower(made.graph()), roomy=True)
    return [x for x in program.launches if any(isinstance(s, For) for s in x.kernel.body)]


@pytest.fixture(autouse=True)
def _with_few_channels(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fewer, "LEAST", 0)


@pytest.mark.parametrize("form", range(3))
def test_every_case_gives_the_machines_bytes(form: int) -> None:
    made = net(tuple(range(len(CASES))), form)
    assert len(by_tiles(made)) == len(CASES)
    check_engines(made)


@pytest.mark.parametrize("target", OF_BYTES, ids=str)
def test_targets_and_sanitizers_give_the_machines_bytes(target: Target, tmp_path: Path) -> None:
    check_net(net((1, 3)), target, tmp_path / "source")


def test_they_are_taken_directly_where_one_instruction_sums_bytes() -> None:
    for dots in (False, True):
        program = optimise(lower(net((0, 1)).graph()), roomy=True, dots=dots)
        held = [x for x in program.launches if x.kernel.temporaries]
        assert len(held) == (0 if dots else 2)


def test_sums_that_may_not_fit_are_taken_directly() -> None:
    for more, count in ((258, 1), (259, 0)):  # 2304 * 57 + 258 = floor((2^25 - 1) / 255)
        made, w = Net(), np.full((16, 256, 3, 3), -57, np.int8)
        w[3].reshape(-1)[:more] -= 1
        x = made.feed("x", np.full((1, 256, 28, 28), 255, np.uint8))
        parts = [x, ONE, np.uint8(0), w, ONE, np.int8(0), np.float32(2**20), np.uint8(255)]
        made.give(made.op("QLinearConv", *parts))
        assert len(by_tiles(made)) == count
