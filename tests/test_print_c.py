"""The printed C computes what the interpreter computes, bit for bit."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from kernels import Case, call, check, compile_all, edges, elementwise

from sardonyx import types as t
from sardonyx.dims import symbol
from sardonyx.errors import RunError
from sardonyx.kernel import arith, interpret
from sardonyx.kernel.alu import ALU
from sardonyx.kernel.build import Builder, operand
from sardonyx.kernel.c99.print_c import SPELLING, prelude, print_c
from sardonyx.kernel.expr import Alu, Expr, alu, cast, const, lift, where
from sardonyx.kernel.ir import Kernel
from sardonyx.types import DTYPES, FLOATS, SMALL, Array, DType, float8e8m0

NATIVE, UNFUSED = ("-O3", "-march=native"), ("-O2", "-fno-math-errno", "-DSX_UNFUSED")
LATER = [("clang", NATIVE), ("gcc", UNFUSED)]
BUILDS = [
    pytest.param(compiler, flags, marks=[pytest.mark.slow] * ((compiler, flags) in LATER))
    for compiler in ("gcc", "clang")
    for flags in (("-O0",), NATIVE, UNFUSED)
]
SANITIZED = ("-O1", "-g", "-fsanitize=undefined", "-fno-sanitize-recover=all")
COMPUTED = tuple(d for d in DTYPES if d.compute == d.name)
FOLDS = {
    "dot": "fiu", "sum": "fiu", "prod": "fiu", "min": "fiub", "max": "fiub",
    "and": "ub", "or": "ub",
}  # fmt: skip


def alu_cases() -> list[Case]:
    """Every operation on every dtype, at all pairs of edge values, or some where operands are many,
    and with constant operands."""
    cases: list[Case] = []
    for (op, (arity, kinds, result)), dtype in itertools.product(ALU.items(), COMPUTED):
        if dtype.kind not in kinds or (result == "bits" and dtype.bits < 32):
            continue
        values = edges(dtype)[:: 3 if arity == 3 else 1]
        if arity > 3:  # each value first, with all the others behind it in turn
            turned = [[np.roll(values, i * k) for k in range(8)] for i in range(arity)]
            grid = [np.concatenate(rows) for rows in turned]
        else:
            grid = [np.ascontiguousarray(g.reshape(-1)) for g in np.meshgrid(*[values] * arity)]
        cases.append((elementwise(f"{op}_{dtype}", grid, functools.partial(alu, op)), grid))
        if arity == 2 and dtype in (t.int8, t.uint32, t.int64):
            cases += [_with_constant(op, dtype, c) for c in (0, 3, dtype.max, dtype.min)]
    return cases


def _with_constant(op: str, dtype: DType, c: int) -> Case:
    def element(x: Expr) -> Expr:
        return Alu(op, (x, const(c, dtype)), alu(op, x, x).dtype)

    return elementwise(f"{op}_{dtype}_{c}", [edges(dtype)], element), [edges(dtype)]


def cast_cases() -> list[Case]:
    """Every pair of dtypes; into floats of 8 bits in each way to round."""
    numbers = [d for d in DTYPES if d.kind != "c"]
    pairs = [(a, b, True, "up") for a, b in itertools.product(numbers, numbers)]
    ways = [(b, False, "up") for b in (*SMALL, float8e8m0)]
    ways += [(float8e8m0, s, way) for s in (True, False) for way in ("down", "nearest")]
    pairs += [(a, *way) for a in (*FLOATS, t.int64, t.float8e5m2) for way in ways]
    return [
        (
            elementwise(
                f"{a}_to_{b}_{saturate}_{toward}",
                [edges(a)],
                functools.partial(cast, dtype=b, saturate=saturate, toward=toward),
            ),
            [edges(a)],
        )
        for a, b, saturate, toward in pairs
    ]


def fold_cases() -> list[Case]:
    """Every fold on every dtype over several extents, contiguous, strided, with absent terms."""
    rng = np.random.default_rng(1)
    cases: list[Case] = []
    for (kind, kinds), dtype in itertools.product(FOLDS.items(), COMPUTED):
        if dtype.kind in kinds:
            x = _values(rng, dtype)
            many = ((5, 37), (37, 5), (5, 32), (3, 0)) if dtype.is_float else ((5, 7),)
            cases += [(_folded(kind, x, extents), [x]) for extents in many]
            cases.append((_partly_folded(kind, x), [x]))
    return cases


def _values(rng: np.random.Generator, dtype: DType) -> Array:
    if not dtype.is_float:
        return rng.choice(edges(dtype), (3, 37, 37))
    x = rng.normal(size=(3, 37, 37)).astype(dtype.numpy)
    x[1] *= -0.0
    x[2, 0, 0] = np.nan
    return x


def _folded(kind: str, x: Array, extents: tuple[int, int]) -> Kernel:
    k = Builder(1)
    a = operand("a", t.by_numpy(x.dtype) or t.bool_, x.shape)

    def term(i: Expr, r: Expr, s: Expr) -> Expr | tuple[Expr, Expr]:
        return (a[i, r, s], a[i, s, r]) if kind == "dot" else a[i, r, s]

    y = k.compute((3,), lambda i: k.fold(kind, extents, lambda r, s: term(i, r, s)))
    return k.kernel(f"{kind}_{a.dtype}_{extents}", [a], [y])


def _partly_folded(kind: str, x: Array) -> Kernel:
    k = Builder(1)
    a = operand("a", t.by_numpy(x.dtype) or t.bool_, x.shape)

    def element(i: Expr, j: Expr) -> Expr:
        def term(r: Expr) -> Expr | tuple[Expr, Expr]:
            return (a[i, r, r], a[i, r, j]) if kind == "dot" else a[i, r, j]

        return k.fold(kind, (37,), term, lambda r: ((r + j) % 3).ne(2))

    return k.kernel(f"{kind}_{a.dtype}_partly", [a], [k.compute((3, 19), element)])


def structure_cases() -> list[Case]:
    """Kernels whose loads, branches, hoisting and statements are easy to get wrong."""
    x = np.arange(50, dtype=np.float32) / 7
    return [
        (protected(), [x]),
        (window(), [np.random.default_rng(2).normal(size=(2, 32, 9, 9)).astype(np.float16)]),
        (scan(), [np.arange(-25, 25, dtype=np.int32)]),
        (collatz(), [np.arange(1, 41, dtype=np.int64)]),
        (flips(), [np.arange(-3, 5, dtype=np.int64)]),
        (softmax(), [np.random.default_rng(3).normal(size=(4, 3, 50)).astype(np.float32)]),
        (gather(), [np.arange(-20, 20, dtype=np.int64) % 50 - 25, x]),
        (moves(), [np.array([0x7FC12345, 0xFFC00001, 0x7F800001, 5], np.uint32).view(np.float32)]),
    ]


def protected() -> Kernel:
    """Loads that only the condition makes valid, shared by branches and below folds."""
    k = Builder(1)
    x = operand("x", t.float32, (50,))

    def element(a: Expr) -> Expr:
        v = x[a - 1]
        inner = k.sum((20,), lambda r: where(a > r + 3, x[a - r - 4], 1) * v)
        return where(a > 0, v * v + v + inner, where(a < 1, 7, v)) + where(a > 0, v, -1)

    y = k.compute((50,), element)
    return k.kernel("protected", [x], [y])


def window() -> Kernel:
    """A padded window of a storage type, with a default and a product of sums."""
    k = Builder(1)
    x = operand("x", t.float16, (2, 32, 9, 9))
    w = k.constant(np.linspace(-1, 1, 32 * 9, dtype=np.float32).reshape(32, 3, 3))

    def element(n: Expr, h: Expr, v: Expr) -> Expr:
        def term(b: Expr, i: Expr, j: Expr, c: Expr) -> tuple[Expr, Expr]:
            at = n, b * 16 + c, h * 2 + i - 1, v * 2 + j - 1
            return x.guard(at), w[b * 16 + c, i, j]

        return k.dot((2, 3, 3, 16), term)

    return k.kernel("window", [x], [k.compute((2, 5, 5), element, t.bfloat16)])


def scan() -> Kernel:
    """Statements: a running sum in a local variable, stores in a branch."""
    k = Builder(1)
    x, y = operand("x", t.int32, (50,)), k.tensor((50,), t.int32)
    zero = k.compute((50,), lambda i: lift(0, t.int32), into=y)
    total = k.local(lift(0, t.int32))
    with k.loop(25) as i:
        k.set(total, total + x[i * 2])
        with k.when(total < -100):
            k.store(zero, (i * 2 + 1,), total // 3)
    return k.kernel("scan", [x], [y])


def collatz() -> Kernel:
    """Loops that do nothing any more once a condition of locals has failed."""
    k = Builder(1)
    x, y = operand("x", t.int64, (40,)), k.tensor((40,), t.int64)
    with k.loop(40) as i:
        steps, value = k.local(lift(0)), k.local(x[i])
        with k.loop(200), k.when(value.ne(1)):
            k.set(value, where((value % 2).eq(0), value // 2, value * 3 + 1))
            k.set(steps, steps + 1)
        k.store(y, (i,), steps)
    return k.kernel("collatz", [x], [y])


def flips() -> Kernel:
    """A condition of locals that fails within a turn, and holds again at its end."""
    k = Builder(1)
    x, y = operand("x", t.int64, (8,)), k.tensor((8,), t.int64)
    with k.loop(8) as i:
        turns, value = k.local(lift(0)), k.local(x[i])
        going = value > 0
        with k.loop(20), k.when(going):
            k.set(turns, turns + 1)
            k.set(value, -value)
            k.set(value, where(going, value, where(turns < 12, 5, -1)))
        k.store(y, (i,), turns)
    return k.kernel("flips", [x], [y])


def softmax() -> Kernel:
    """Folds of folds, which belong outside the inner loop."""
    k = Builder(1)
    x = operand("x", t.float32, (4, 3, 50))

    def element(i: Expr, j: Expr, q: Expr) -> Expr:
        most = k.fold("max", (50,), lambda r: x[i, j, r])
        return (x[i, j, q] - most) / k.sum((50,), lambda r: (x[i, j, r] - most) * x[i, 0, 0])

    return k.kernel("softmax", [x], [k.compute((4, 3, 50), element)])


def gather(size: int = 50) -> Kernel:
    """A load that may trap, by an index that wraps."""
    k = Builder(1)
    i, x = operand("i", t.int64, (40,)), operand("x", t.float32, (50,))
    y = k.compute((40,), lambda a: x.trap((where(i[a] < 0, i[a] + size, i[a]),)))
    return k.kernel("gather", [i, x], [y])


def moves() -> Kernel:
    """Selections of stored bits, which keep NaN payloads."""
    k = Builder(1)
    x = operand("x", t.float32, (4,))
    y = k.compute((9,), lambda i: where(i < 7, x.guard((i - 2,), float("nan")), x[i - 7]))
    return k.kernel("moves", [x], [y])


def overwritten() -> Kernel:
    """An output of another type in the place of its input."""
    k = Builder(1)
    x = operand("x", t.float32, (100,))
    return k.kernel("overwritten", [x], [k.compute((100,), lambda i: cast(x[i] * 3.0, t.int32))])


FAMILIES: dict[str, Callable[[], list[Case]]] = {
    "alu": alu_cases,
    "cast": cast_cases,
    "fold": fold_cases,
    "structure": structure_cases,
}


@functools.cache
def texts(family: str) -> tuple[list[Case], list[str]]:
    cases = FAMILIES[family]()
    return cases, [print_c(kernel).named(f"k{i}") for i, (kernel, _) in enumerate(cases)]


def test_the_tables_of_alu_have_the_same_keys() -> None:
    assert SPELLING.keys() == ALU.keys() == arith.MEANING.keys()


@pytest.mark.parametrize("op", ALU)
def test_each_kind_that_alu_allows_is_spelled(op: str) -> None:
    assert set(SPELLING[op]) == set(ALU[op][1])


@pytest.mark.parametrize(("compiler", "flags"), BUILDS, ids=lambda x: "".join(x))
@pytest.mark.parametrize("family", FAMILIES)
def test_printed_c_equals_the_interpreter(
    family: str, compiler: str, flags: tuple[str, ...], tmp_path: Path
) -> None:
    cases, functions = texts(family)
    library = compile_all(functions, tmp_path, compiler, flags)
    for i, case in enumerate(cases):
        check(case, getattr(library, f"k{i}"), "-DSX_UNFUSED" not in flags)


@pytest.mark.parametrize("family", FAMILIES)
def test_printed_c_has_no_undefined_behaviour(family: str, tmp_path: Path) -> None:
    cases, functions = texts(family)
    library = compile_all(functions, tmp_path, "gcc", SANITIZED)
    for i, case in enumerate(cases):
        check(case, getattr(library, f"k{i}"))


def test_an_output_may_overwrite_an_input_of_another_type(tmp_path: Path) -> None:
    kernel, x = overwritten(), np.linspace(-9, 9, 100, dtype=np.float32)
    (source,), (target,) = kernel.inputs, kernel.outputs
    assert source is not None
    function = print_c(kernel, {source: target})
    library = compile_all([function.named("k0")], tmp_path, "gcc", ("-O3", "-march=native"))
    memory = x.copy()
    call(function, library.k0, {source: memory, target: memory})
    assert memory.tobytes() == interpret.evaluate(kernel, [x])[0].tobytes()


def test_an_output_that_overwrites_its_input_is_one_pointer() -> None:
    k = Builder(1)
    x = operand("x", t.float32, (100,))
    kernel = k.kernel("double", [x], [k.compute((100,), lambda i: x[i] * 2.0)])
    assert print_c(kernel, {x.buffer: kernel.outputs[0]}).pointers == kernel.outputs


def test_a_load_out_of_bounds_traps(tmp_path: Path) -> None:
    kernel = gather(49)
    function = print_c(kernel)
    library = compile_all([function.named("k0")], tmp_path, "gcc", ("-O1",))
    index, x = np.full(40, 50, np.int64), np.ones(50, np.float32)
    arrays = dict(zip(function.pointers, (index, x, np.ones(40, np.float32)), strict=True))
    with pytest.raises(RunError, match="trap 1"):
        call(function, library.k0, arrays)
    with pytest.raises(RunError):
        interpret.evaluate(kernel, [index, x])


def test_no_trap_comes_from_a_loop_that_has_no_turns() -> None:
    k = Builder(1)
    i, x = operand("i", t.int64, (40,)), operand("x", t.float32, (50,))
    kernel = k.kernel("none", [i, x], [k.compute((40, 0), lambda a, b: x.trap((i[a],)))])
    text = print_c(kernel).text
    assert text.index("i1 < 0") < text.index("sx_trap")


def test_sizes_of_one_class_of_shapes_are_parameters() -> None:
    k, n = Builder(1), symbol("N")
    x = operand("x", t.float32, (n, 640, 3))
    kernel = k.kernel("neg", [x], [k.compute((n, 640, 3), lambda *i: -x[i])])
    assert print_c(kernel).sizes == (n, 640)


def test_what_an_inner_axis_does_not_change_is_computed_outside_it() -> None:
    text = print_c(softmax()).text
    assert text.index("sx_sum16_f32(") < text.rindex("for (")


def test_a_condition_that_holds_again_does_not_end_a_loop() -> None:
    (y,) = interpret.evaluate(flips(), [np.arange(-3, 5, dtype=np.int64)])
    np.testing.assert_array_equal(y, [0, 0, 0, 0, 12, 12, 12, 12])


def test_a_loop_is_left_where_its_condition_of_locals_has_failed() -> None:
    assert "break;" in print_c(collatz()).text
    assert "break;" not in print_c(scan()).text


def test_the_prelude_holds_only_what_is_used() -> None:
    text = prelude("x = sx_f16_of_f64(y);")
    assert "sx_odd_f32" in text
    assert "sx_bf16" not in text


def test_printing_is_deterministic() -> None:
    assert print_c(protected()).text == print_c(protected()).text


@pytest.mark.parametrize(
    ("compiler", "flags"),
    [("gcc", ("-std=gnu99", "-ffp-contract=fast")), ("clang", ("-ffp-contract=on",))],
)
def test_a_forgotten_flag_does_not_contract(
    compiler: str, flags: tuple[str, ...], tmp_path: Path
) -> None:
    x, y, z = np.random.default_rng(4).normal(size=(3, 1000))
    kernel = elementwise("mul_add", [x, y, z], lambda a, b, c: a * b + c)
    text = print_c(kernel).named("k0")
    library = compile_all([text], tmp_path, compiler, ("-O3", "-march=native", *flags))
    check((kernel, [x, y, z]), library.k0)


def test_an_index_that_a_comparison_decides_is_read_where_it_is(tmp_path: Path) -> None:
    """gcc 12 -O2 reads table[-1] for table[x <= y] in a loop that it vectorises."""
    x = np.array([1.5, np.nan, -np.nan, 3], np.float32)
    k = Builder(1)
    a = operand("x0", t.float32, (4,))
    table = k.constant(np.array([1.5, 1.5], np.float32))
    other = k.constant(np.array([9, 9], np.float32))
    one = k.constant(np.array([1], np.int64))

    def element(i: Expr) -> Expr:
        way = where(table[lift(1)] <= a[i], one[lift(0)], lift(0)) & 1
        found = where(alu("eq", table[way], a[i]), other[way], 1.0)
        return where(alu("ne", a[i], a[i]), 8.0, found)

    kernel = k.kernel("k", [a], [k.compute((4,), element)])
    function = print_c(kernel)
    library = compile_all([function.text.replace("@", "k")], tmp_path, "gcc", ["-O3"])
    check((kernel, [x]), library.k)
