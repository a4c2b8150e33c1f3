"""Loops around loops over lanes, marked for clang (sx_outer, vectors.h).

    sx_outer() for (; t < count; t++) {
      for (int64_t l = 0; l < 16; l++) {

clang unrolls the inner loop before it looks for vectors, and would then make vectors of the outer
loop's turns, with a gather for each lane. Left alone, it makes one of the lanes.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

LANE = re.compile(r"(?:sx_\w+\(\d?\) )*for \(int(?:64_t)? \w+ = 0; \w+ < (?:8|16|32|48|64); ")


def outer(lines: Sequence[str]) -> list[str]:
    """The lines of a function's body, those loops marked that are right around one over lanes."""
    marked, around = list(lines), [-1, -1]  # of each open brace, the line of its innermost loop
    for i, line in enumerate(lines):
        if line.startswith("}"):
            around.pop()
        lane = LANE.match(line) is not None
        if lane and around[-1] >= 0 and marked[around[-1]].startswith("for"):
            marked[around[-1]] = f"sx_outer() {marked[around[-1]]}"
        if line.endswith("{"):
            around.append(i if line.startswith("for") and not lane else around[-1])
    return marked
