"""Sums of products of bytes by tiles: two fours of terms are added in int16 where the weights of
one sign allow it, which shows in no bit."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TypeAlias

import numpy as np
import pytest
from nets import Net, check_engines
from targets import Target
from test_targets import OF_BYTES, check_net

from sardonyx import build
from sardonyx.passes.fours import pairs_of

ROWS = 21  # several tiles


def planned(w: np.ndarray, n: int) -> list[bool]:
    """Which fours of a run of n terms are taken with the next, its weights [fours, lanes, 4]."""
    found, k = [False] * len(w), 0
    while k < n // 4:
        pairs = w[k : k + 2].astype(int).reshape(-1, 16, 2, 2)
        high = max(np.maximum(s * pairs, 0).sum(axis=(0, 3)).max() for s in (1, -1))
        found[k] = k + 2 <= n // 4 and bool(high <= 128)
        k += 2 if found[k] else 1
    return found


def test_the_fours_that_may_be_added_are_known_with_the_weights() -> None:
    rng = np.random.default_rng(3)
    for most in (20, 33, 64):
        w = rng.integers(-most, most + 1, (3, 14, 16, 4)).astype(np.int8)
        expected = [planned(b[:7], 26) + planned(b[7:], 28) for b in w]
        assert pairs_of(w, [(26, 7), (28, 7)]).tolist() == expected
    for place in np.ndindex(2, 16, 4):
        for value in (32, 33, -32, -33):
            w = np.full((1, 8, 16, 4), np.sign(value) * 32, np.int8)
            w[0, 2:4][place] = value
            assert pairs_of(w, [(32, 8)]).tolist() == [planned(w[0], 32)]


Edges: TypeAlias = Callable[[int, int, np.random.Generator], list[np.ndarray]]


def edges(k: int, n: int, rng: np.random.Generator) -> list[np.ndarray]:
    """Weights [k, n]: as large as may be, sums of 128 and of 129 in every place, mixed signs."""
    found = [np.full((k, n), v) for v in (64, -64, 32, -32, 16)]
    found += [np.where(np.arange(k)[:, None] % 2, 64, -64) + np.zeros((1, n), int)]
    found += [rng.integers(-m, m + 1, (k, n)) for m in (18, 40, 64)]
    for sign in (1, -1):
        w = np.full((k, n), 32 * sign)
        for lane, at in enumerate(range(0, k, 9)):
            w[at, lane % n] = 33 * sign
        found.append(w)
    return found


def whole(k: int, n: int, rng: np.random.Generator) -> list[np.ndarray]:
    """Weights [k, n] of all of int8: the largest of both signs, anything."""
    found = [np.full((k, n), v) for v in (127, -128)]
    found += [np.where(np.arange(k)[:, None] % 2, 127, -128) + np.zeros((1, n), int)]
    return [*found, rng.integers(-128, 128, (k, n)), rng.integers(-64, 66, (k, n))]


def net(sizes: tuple[int, ...], edges: Edges = edges) -> Net:
    """Matrices with rows of 255 and of anything; convolutions whose runs are short, and cut."""
    made, rng = Net(), np.random.default_rng(7)
    for k in sizes:
        x = rng.integers(0, 256, (ROWS, k))
        x[::3] = 255
        a = made.feed(f"a{k}", x.astype(np.uint8))
        for i, w in enumerate(edges(k, 16 + k % 5, rng)):
            zero = [np.uint8(3)] if i % 2 else []
            made.give(made.op("MatMulInteger", a, w.astype(np.int8), *zero))
    scale, zero = np.float32(0.01), np.uint8(0)
    for c, kernel in ((32, 1), (24, 1), (20, 3), (3, 7)):
        y = made.feed(f"x{c}_{kernel}", rng.integers(250, 256, (1, c, 9, 8)).astype(np.uint8))
        for w in edges(c * kernel * kernel, 18, rng):
            w8 = w.astype(np.int8).T.reshape(18, c, kernel, kernel)
            parts = [y, scale, zero, w8, scale, np.int8(0), np.float32(9), np.uint8(128)]
            made.give(made.op("QLinearConv", *parts, pads=[kernel // 2] * 4))
    return made


def test_weights_at_all_edges_give_the_machines_bytes() -> None:
    made = net((8, 64, 67, 261, 1100))
    check_engines(made)


@pytest.mark.parametrize("dots", [False, True])
def test_all_of_int8_gives_the_machines_bytes(dots: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(build, "rows_of_bytes", lambda: dots)
    check_engines(net((8, 67, 1100), whole))


@pytest.mark.parametrize("target", OF_BYTES, ids=str)
def test_targets_take_all_of_int8_as_it_is(target: Target, tmp_path: Path) -> None:
    made = net((64, 67), whole)
    check_net(made, target, tmp_path / "source", dots=True)
    text = "".join(x.read_text() for x in (tmp_path / "source").glob("*.c"))
    assert "sx_contract_u8_whole(&product)" in text


@pytest.mark.parametrize("target", OF_BYTES, ids=str)
def test_targets_and_sanitizers_give_the_machines_bytes(target: Target, tmp_path: Path) -> None:
    check_net(net((64, 67)), target, tmp_path / "source")


@pytest.mark.parametrize("most", [60, 127])
def test_bytes_are_multiplied_behind_what_makes_them_in_one_launch(most: int) -> None:
    rng = np.random.default_rng(5)
    w = rng.integers(-most, most + 1, (24, 20)).astype(np.int8)
    a, s, z = rng.integers(-128, 128, (24, ROWS)).astype(np.int8), np.float32(0.02), np.int8(3)
    made = Net(opsets={"": 21, "com.microsoft": 1})
    x, own = made.feed("x", a), {"domain": "com.microsoft"}
    made.give(made.op("QGemm", x, s, z, w, s, z, transA=1, **own))
    image, filters = (
        made.feed("image", a.reshape(1, 7, 3, 24)),
        w.T[:, :, None, None],
    )
    given = image, s, z, filters, s, z, s, z
    made.give(made.op("QLinearConv", *given, channels_last=1, **own))
    floats = made.feed("floats", rng.standard_normal((ROWS, 24)).astype(np.float32))
    unsigned = (w + np.int16(128)).astype(np.uint8)
    made.give(made.op("DynamicQuantizeMatMul", floats, unsigned, s, np.uint8(100), **own))
    check_engines(made)
