"""Weights of products that stay as narrow as they were (passes/held.py, kernel/c99/held.py): the
bytes are those of the weights widened before."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from nets import Net, check_engines
from targets import WITH_SANITIZERS, Target
from test_targets import check_net

from sardonyx import types as t
from sardonyx.graph import Graph
from sardonyx.kernel.c99.print_product import packed_product
from sardonyx.kernel.c99.schedule import print_scheduled
from sardonyx.kernel.ir import Compute
from sardonyx.kernel.verify import settle
from sardonyx.machine import Machine
from sardonyx.native import NativeEngine
from sardonyx.passes.lower import lower
from sardonyx.passes.pipeline import optimise
from sardonyx.passes.program import Program

OPSETS = {"": 21, "com.microsoft": 1}
TERMS, COLUMNS = 264, 264  # more elements than stay in the caches as float32
Rng = np.random.Generator
Make = Callable[[Net, str, Rng, int, int], str]


def normal(rng: Rng, *shape: int) -> Any:
    return rng.standard_normal(shape).astype(np.float32)


def whole(rng: Rng, dtype: Any, *shape: int) -> Any:
    info = ml_dtypes.iinfo(dtype)
    return rng.integers(int(info.min), int(info.max) + 1, shape).astype(dtype)


def nbits(bits: int, size: int, zeros: str = "") -> Make:
    """MatMulNBits; zeros: of what type the zero points are."""

    def make(net: Net, x: str, rng: Rng, k: int, n: int) -> str:
        blocks = -(-k // size)
        parts = [whole(rng, np.uint8, n, blocks, size * bits // 8), normal(rng, n * blocks)]
        if zeros == "uint8":
            parts.append(whole(rng, np.uint8, n, -(-blocks * bits // 8)))
        elif zeros:
            parts.append(normal(rng, n * blocks) + 8)
        about = {"K": k, "N": n, "bits": bits, "block_size": size, "domain": "com.microsoft"}
        return str(net.op("MatMulNBits", x, *parts, **about))

    return make


def dequantised(dtype: Any, size: int = 0, zeros: bool = False, gemm: bool = False) -> Make:
    """DequantizeLinear of a weight in blocks of so many terms, or per column; gemm: transposed."""

    def make(net: Net, x: str, rng: Rng, k: int, n: int) -> str:
        q = whole(rng, dtype, *((n, k) if gemm else (k, n)))
        shape = (-(-k // size), n) if size else (n,)
        parts = [q, normal(rng, *shape)] + ([whole(rng, dtype, *shape)] if zeros else [])
        about = {"block_size": size} if size else {}
        w = net.op("DequantizeLinear", *parts, axis=0 if size or gemm else 1, **about)
        return str(net.op("Gemm", x, w, transB=1) if gemm else net.op("MatMul", x, w))

    return make


def turned(net: Net, x: str, rng: Rng, k: int, n: int) -> str:
    """Weights that are transposed when they are floats."""
    q, scale = whole(rng, np.int8, n, k), np.float32(0.37)
    w = net.op("Transpose", net.op("DequantizeLinear", q, scale))
    return str(net.op("MatMul", x, w))


def halves(dtype: Any) -> Make:
    """Weights of 16 bits, which are widened."""

    def make(net: Net, x: str, rng: Rng, k: int, n: int) -> str:
        large = np.exp2(rng.integers(-40, 40, (k, n))) if dtype is ml_dtypes.bfloat16 else 1
        w = (normal(rng, k, n) * large).astype(dtype)
        return str(net.op("MatMul", x, net.op("Cast", w, to=1)))

    return make


def in_float16(net: Net, x: str, rng: Rng, k: int, n: int) -> str:
    """A product of float16."""
    narrow = net.op("Cast", x, to=10)
    return str(net.op("MatMul", narrow, normal(rng, k, n).astype(np.float16)))


def floats(net: Net, x: str, rng: Rng, k: int, n: int) -> str:
    return str(net.op("MatMul", x, normal(rng, k, n)))


FORMS: dict[str, tuple[Make, t.DType]] = {
    "MatMulNBits": (nbits(4, 32), t.int4),
    "MatMulNBits, zeros": (nbits(4, 16, "uint8"), t.uint4),
    "MatMulNBits, float zeros": (nbits(4, 32, "float32"), t.uint4),
    "MatMulNBits of 8 bits": (nbits(8, 64), t.int8),
    "MatMulNBits of 8 bits, zeros": (nbits(8, 32, "uint8"), t.uint8),
    "MatMulNBits of 2 bits": (nbits(2, 64), t.int4),
    "int8": (dequantised(np.int8), t.int8),
    "int8, zeros": (dequantised(np.int8, zeros=True), t.uint8),
    "uint8, zeros": (dequantised(np.uint8, zeros=True), t.uint8),
    "int8, Gemm": (dequantised(np.int8, gemm=True), t.int8),
    "int8, Transpose": (turned, t.int8),
    "int4": (dequantised(ml_dtypes.int4, 32), t.int4),
    "uint4, zeros": (dequantised(ml_dtypes.uint4, 24, zeros=True), t.uint4),
    "float16": (halves(np.float16), t.float16),
    "bfloat16": (halves(ml_dtypes.bfloat16), t.bfloat16),
    "all of float16": (in_float16, t.float16),
    "float32": (floats, t.float32),
    "int8 in blocks that are no multiple of 8": (dequantised(np.int8, 12), t.float32),
}
HELD = {name: form for name, form in FORMS.items() if form[1] is not t.float32}


def net_of(make: Make, *rows: int, terms: int = TERMS, columns: int = COLUMNS) -> Net:
    made, rng = Net(opsets=OPSETS), np.random.default_rng(0)
    for n in rows:
        made.give(make(made, made.feed(f"x{n}", normal(rng, n, terms)), rng, terms, columns))
    return made


def weights_of(program: Program) -> list[t.DType]:
    """The type of the weights of each product by tiles."""
    computes = (s for x in program.launches for s in x.kernel.body if isinstance(s, Compute))
    return [p.packed.dtype for s in computes if (p := packed_product(s)) is not None]


@pytest.mark.parametrize("name", FORMS)
def test_weights_are_held_as_narrow_as_they_were(name: str) -> None:
    make, dtype = FORMS[name]
    program = optimise(lower(net_of(make, 1).graph()), roomy=True)
    assert weights_of(program) == [dtype]
    held = sum(program.tensors[n].dtype.bytes(w.size) for n, w in program.weights.items())
    assert held < TERMS * COLUMNS * (dtype.bits / 8 + 1)  # scales and shifts of 16 terms or more
    for launch in program.launches:
        assert settle(launch.kernel)[1] == 0


@pytest.mark.parametrize("name", HELD)
def test_engines_agree(name: str) -> None:
    check_engines(net_of(HELD[name][0], 1, 3, 19))


def test_the_last_terms_and_columns_may_be_any() -> None:
    made, rng = Net(opsets=OPSETS), np.random.default_rng(0)
    for terms, columns in ((251, 263), (264, 249), (4100, 17), (9, 7300)):
        for n in (1, 18):
            x = made.feed(f"x{len(made.feeds)}", normal(rng, n, terms))
            made.give(dequantised(np.int8)(made, x, rng, terms, columns))
            made.give(halves(np.float16)(made, x, rng, terms, columns))
    check_engines(made)


def test_what_finishes_sums_is_there() -> None:
    made, rng = Net(opsets=OPSETS), np.random.default_rng(0)
    for n in (1, 2, 20):
        x = made.feed(f"x{n}", normal(rng, n, TERMS))
        y = made.op("Add", nbits(4, 32)(made, x, rng, TERMS, COLUMNS), normal(rng, COLUMNS))
        rest = made.feed(f"rest{n}", normal(rng, n, COLUMNS))
        made.give(made.op("Relu", made.op("Add", y, rest)), made.op("Sigmoid", y))
    check_engines(made)


@pytest.mark.parametrize("name", ["MatMulNBits, zeros", "int8", "float16"])
def test_rows_may_be_a_symbol(name: str) -> None:
    made = net_of(HELD[name][0], 1)
    graph, rng = made.graph("rows"), np.random.default_rng(1)
    engine = NativeEngine(graph)
    assert engine.general() is not None
    for rows in (1, 2, 5, 16, 17, 300):
        check(graph, engine, normal(rng, rows, TERMS))


def test_bytes_do_not_depend_on_threads() -> None:
    for rows in (1, 19, 130):
        made = net_of(nbits(4, 32), rows, columns=2056)
        graph = made.graph()
        for threads in (2, 3):
            check(graph, NativeEngine(graph, threads=threads), *made.feeds.values())


def check(graph: Graph, engine: NativeEngine, x: Any) -> None:
    """Asserts that the engine gives the machine's bytes."""
    feeds = {graph.inputs[0]: x}
    found, expected = engine.run(feeds), Machine(graph).run(feeds)
    assert [y.tobytes() for y in found.values()] == [y.tobytes() for y in expected.values()]


def test_infinite_weights_and_nan_give_what_they_did() -> None:
    made, rng = Net(opsets=OPSETS), np.random.default_rng(0)
    w = normal(rng, TERMS, COLUMNS).astype(np.float16)
    w[0, :4], w[1, 4], w[:, 9] = [np.inf, -np.inf, np.nan, 65504], np.inf, 6e-8
    wide = made.op("Cast", w, to=1)
    for n in (1, 20):
        made.give(made.op("MatMul", made.feed(f"x{n}", normal(rng, n, TERMS)), wide))
    check_engines(made)


def test_a_scale_of_zero_is_a_scale() -> None:
    made, rng = Net(opsets=OPSETS), np.random.default_rng(0)
    scale = normal(rng, COLUMNS)
    scale[:5] = 0
    q = whole(rng, np.int8, TERMS, COLUMNS)
    q[:, :5] = 0
    w = made.op("DequantizeLinear", q, scale, axis=1)
    made.give(made.op("MatMul", made.feed("x", normal(rng, 1, TERMS)), w))
    assert weights_of(optimise(lower(made.graph()), roomy=True)) == [t.int8]
    check_engines(made)


def test_halves_of_many_rows_are_float32_where_memory_is_no_concern() -> None:
    make, found = halves(np.float16), list[t.DType]()
    for rows, roomy in ((32, True), (33, True), (33, False)):
        found += weights_of(optimise(lower(net_of(make, rows).graph()), roomy=roomy))
    assert found == [t.float16, t.float32, t.float16]


@pytest.mark.parametrize("compiler", ["gcc", pytest.param("clang", marks=pytest.mark.slow)])
@pytest.mark.parametrize("flags", [("-mavx2", "-mfma", "-mf16c"), ("-DSX_PORTABLE",)])
def test_the_sanitizers_have_nothing_to_report(
    flags: tuple[str, ...], compiler: str, tmp_path: Path
) -> None:
    made, rng = Net(opsets=OPSETS), np.random.default_rng(1)
    for make, k, n in ((halves(np.float16), 250, 265), (nbits(4, 32), 264, 250)):
        for rows in (1, 3, 11):
            x = made.feed(f"x{len(made.feeds)}", normal(rng, rows, k))
            made.give(make(made, x, rng, k, n))
    check_net(made, Target(compiler, (*WITH_SANITIZERS[compiler], *flags)), tmp_path)


def test_small_weights_are_held_narrow_where_memory_counts() -> None:
    graph = net_of(nbits(4, 32), 1, terms=64, columns=48).graph()
    found = [weights_of(optimise(lower(graph), roomy=roomy)) for roomy in (True, False)]
    assert found == [[t.float32], [t.int4]]


@pytest.mark.parametrize("name", ["MatMulNBits, zeros", "int8"])
def test_products_in_blocks_of_rows_read_narrow_weights(name: str) -> None:
    made, rng, make = Net(opsets=OPSETS), np.random.default_rng(0), HELD[name][0]
    x = make(made, made.feed("x", normal(rng, 260, TERMS)), rng, TERMS, COLUMNS)
    mean = made.op("LayerNormalization", x, normal(rng, COLUMNS), normal(rng, COLUMNS))
    made.give(make(made, mean, rng, COLUMNS, 520))
    program = optimise(lower(made.graph()), roomy=True)
    assert len(program.launches) == 1
    text = print_scheduled(program.launches[0].kernel).text
    assert text.count("sx_contract_narrow(&") == 4  # blocks of rows, and the rest
    assert "sx_contract(&" not in text
    check_engines(made)
