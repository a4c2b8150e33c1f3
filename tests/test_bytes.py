"""Sums of products of bytes by tiles: two fours of terms are added in int16 where the weights of
one sign allow it, which shows in no bit."""

from __future__ import annotations

import ctypes
from pathlib import Path

import numpy as np
import pytest
from nets import Net, check_engines
from targets import Target
from test_targets import OF_BYTES, check_net

from sardonyx import build
from sardonyx.kernel.prelude import prelude

PROBE = """
#define PUBLIC __attribute__((visibility("default")))
PUBLIC int look(const int8_t *w, int64_t count, int64_t n, int64_t rows, char *plan) {
#ifdef sx_b_both
  const sx_part part = {0, count, n, 1, rows, 0};
  return sx_b_look(w, &part, plan);
#else
  return (void)w, (void)count, (void)n, (void)rows, (void)plan, -1;
#endif
}
/* sx_contract_u8( */
"""
ROWS = 21  # enough for a look at the weights


def planned(w: np.ndarray, n: int) -> list[int]:
    """What the plan must be for runs of n terms, their weights [count, fours, lanes, 4]."""
    plan = []
    for run in w.astype(int):
        k = 0
        while k < n // 4:
            pairs = run[k : k + 2].reshape(-1, 16, 2, 2)
            high = max(np.maximum(s * pairs, 0).sum(axis=(0, 3)).max() for s in (1, -1))
            both = k + 2 <= n // 4 and high <= 128
            plan.append(int(both))
            k += 2 if both else 1
    return plan


def test_a_look_finds_the_fours_that_may_be_added() -> None:
    probe = build.load(build.library({"probe.c": f"{prelude(PROBE)}{PROBE}"}))
    rng = np.random.default_rng(3)
    cases = [(rng.integers(-m, m + 1, (5, 7, 16, 4)), n) for m in (20, 33, 64) for n in (26, 28)]
    for place in np.ndindex(2, 16, 4):
        for sign in (1, -1):
            for last in (32, 33):
                w = np.full((1, 8, 16, 4), 32 * sign)
                w[0, 2:4][place] = last * sign
                cases.append((w, 32))
    for w, n in cases:
        packed, plan = np.ascontiguousarray(w, np.int8), ctypes.create_string_buffer(64)
        sizes = [ctypes.c_int64(x) for x in (len(w), n, 4 * w.shape[1])]
        pays = probe.look(packed.ctypes.data_as(ctypes.c_void_p), *sizes, plan)
        if pays < 0:
            pytest.skip("this processor has no look at weights")
        expected = planned(w, n)
        assert list(plan.raw[: len(expected)]) == expected
        assert pays == (16 * sum(expected) > packed.size // 16)


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


def net(sizes: tuple[int, ...]) -> Net:
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


@pytest.mark.parametrize("target", OF_BYTES, ids=str)
def test_targets_and_sanitizers_give_the_machines_bytes(target: Target, tmp_path: Path) -> None:
    check_net(net((64, 67)), target, tmp_path / "source")
