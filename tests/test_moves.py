"""Operations that move strings: their places are remembered, what they compare is not."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from test_stages import model, theirs

from sardonyx import host
from sardonyx.engines import make_engine
from sardonyx.loading import load

WORDS = [["a", "bc", ""], ["bc", "d", "a"]]
OTHERS = [["x", "y", "z"], ["", "é", "x"]]
MOVES = {
    "Gather": ("(string[r, c] x, int64[k] i) => (string[r, n] y)", "y = Gather<axis = 1>(x, i)"),
    "Where": (
        "(string[r, c] x, bool[r, c] w, string[r, c] o) => (string[r, c] y)",
        "y = Where(w, x, o)",
    ),
    "Concat": (
        "(string[r, c] x, string[r, c] o) => (string[n, c] y)",
        "t = Transpose<perm = [0, 1]>(o) y = Concat<axis = 0>(x, t)",
    ),
    "one": ("(string[r, c] x) => (string y)", "flat = Reshape(x, all) y = Gather(flat, at)"),
    "Reshape": ("(string[r, c] x) => (string[n] y)", "y = Reshape(x, all)"),
}
FEEDS: dict[str, Any] = {
    "x": [np.array(v, object) for v in (WORDS, OTHERS, [[*r, *r] for r in WORDS])],
    "i": [np.array(v, np.int64) for v in ([2, 0], [1, 1], [0, 2])],
    "w": [np.array(v) for v in ([[1, 0, 1]] * 2, [[0, 0, 1]] * 2, [[0, 1] * 3] * 2)],
    "o": [np.array(v, object) for v in (OTHERS, WORDS, [[*r, *r] for r in OTHERS])],
}
FEEDS["w"] = [w.astype(bool) for w in FEEDS["w"]]


@pytest.mark.parametrize("case", MOVES)
def test_strings_move_as_onnxruntime_moves_them(case: str, monkeypatch: pytest.MonkeyPatch) -> None:
    sign, body = MOVES[case]
    known = " <int64[1] all = {-1}, int64 at = {1}>"
    proto = model(sign + known if "all" in body else sign, body)
    engine, moved = make_engine(load(proto), "native"), list[object]()
    kernel = host._kernel
    monkeypatch.setattr(host, "_kernel", lambda *given: moved.append(given) or kernel(*given))
    made = 0
    for _ in range(2):
        for at in range(3):
            feeds = {v.name: FEEDS[v.name][at] for v in proto.graph.input}
            (found,) = engine.run(feeds).values()
            np.testing.assert_array_equal(found, theirs(proto, feeds)[0])
        made = made or len(moved)
        assert len(moved) == made > 0  # the second turn looks at none anew
    feeds = {v.name: FEEDS[v.name][0] for v in proto.graph.input}
    (machine,) = make_engine(load(proto), "machine").run(feeds).values()
    np.testing.assert_array_equal(machine, next(iter(engine.run(feeds).values())))


def test_what_compares_strings_is_looked_at_each_time() -> None:
    sign = "(string[r, c] x, string[r, c] o) => (bool[r, c] y, string[n] u)"
    proto = model(sign, "y = Equal(x, o) u = Unique(x)")
    engine = make_engine(load(proto), "native")
    for at in (0, 1, 2, 0):
        feeds = {n: FEEDS[n][at] for n in "xo"}
        y, u = engine.run(feeds).values()
        np.testing.assert_array_equal(y, feeds["x"] == feeds["o"])
        np.testing.assert_array_equal(u, np.unique(feeds["x"]))
