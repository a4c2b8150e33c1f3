"""Loops right around loops over lanes are marked for clang; others are not."""

from __future__ import annotations

from sardonyx.kernel.c99.outer import outer

LANES = ["for (int64_t l = 0; l < 16; l++) {", "y[l] = x[l];", "}"]


def test_the_loop_right_around_lanes_is_marked() -> None:
    rows, strips = "for (int64_t i = 0; i < n; i++) {", "for (; s + 16 <= m; s += 16) {"
    assert outer([rows, strips, *LANES, "}", "}"]) == [
        rows,
        f"sx_outer() {strips}",
        *LANES,
        "}",
        "}",
    ]


def test_a_loop_around_two_loops_of_lanes_is_marked_once() -> None:
    rows = "for (; t < count; t++) {"
    assert outer([rows, *LANES, *LANES, "}"])[0] == f"sx_outer() {rows}"


def test_lanes_behind_a_condition_mark_the_loop_around_it() -> None:
    rows, condition = "for (; t < count; t++) {", "if (n - 16 * b >= 16) {"
    assert outer([rows, condition, *LANES, "}", "}"])[0] == f"sx_outer() {rows}"


def test_loops_of_lanes_alone_and_loops_without_them_are_not_marked() -> None:
    plain = ["for (int64_t i = 0; i < n; i++) {", "y[i] = x[i];", "}"]
    assert outer([*LANES, *plain]) == [*LANES, *plain]


def test_a_loop_that_is_over_is_not_around_the_next() -> None:
    plain = ["for (int64_t i = 0; i < n; i++) {", "y[i] = x[i];", "}"]
    assert outer(["{", *plain, *LANES, "}"]) == ["{", *plain, *LANES, "}"]


def test_lanes_that_are_marked_already_are_lanes() -> None:
    rows, marked = "for (; t < count; t++) {", [f"sx_rolled() sx_apart() {LANES[0]}", *LANES[1:]]
    assert outer([rows, *marked, "}"]) == [f"sx_outer() {rows}", *marked, "}"]
