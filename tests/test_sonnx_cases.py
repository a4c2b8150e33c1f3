"""The cases in which the SONNX working group saw runtimes disagree with its documents, as tests of
the machine: the value that the document gives, or, where it is undecided, ours."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from dataclasses import dataclass

import mpmath
import numpy as np
import pytest

from sardonyx import types as t
from sardonyx.checker import check
from sardonyx.checker.samples import model
from sardonyx.engines import make_engine
from sardonyx.errors import RunError
from sardonyx.resolve import resolve
from sardonyx.settings import Kind
from sardonyx.types import Array

F, D, INF, NAN = np.float32, np.float64, np.inf, np.nan
ENGINES = ["machine", *(["native"] if shutil.which("gcc") else [])]
POOL = """g ({t}[1,1,2,2] x) => ({t}[1,1,{n},{n}] y, int64[1,1,{n},{n}] i)
          {{ y, i = MaxPool <kernel_shape=[2,2], pads={pads}> (x) }}"""
CLIP = "g (float[3] x, float l, float h) => (float[3] y) { y = Clip (x, l, h) }"
SUB16 = "g (float16[3] x, float16[3] z) => (float16[3] y) { y = Sub (x, z) }"
ARGMAX = "g (float[4] x) => (int64[1] y) { y = ArgMax <axis=0, select_last_index=%d> (x) }"
BITS = {2: np.uint16, 4: np.uint32, 8: np.uint64}


@dataclass(frozen=True)
class Case:
    """What the document says: the outputs for the feeds."""

    name: str
    text: str
    feeds: Mapping[str, Array]
    outputs: Mapping[str, Array]


def image(values: list[float], dtype: type = F) -> Array:
    return np.array(values, dtype).reshape(1, 1, 2, 2)


def pool(name: str, x: Array, y: list[float], index: list[int], pads: int = 0) -> Case:
    size = 1 + pads * 2
    words = {"float32": "float", "float64": "double", "int8": "int8"}
    text = POOL.format(t=words[x.dtype.name], n=size, pads=[pads] * 4)
    shape = (1, 1, size, size)
    outputs = {"y": np.array(y, x.dtype).reshape(shape), "i": np.array(index).reshape(shape)}
    return Case(name, text, {"x": x}, outputs)


CASES = [
    pool("MaxPool of -inf alone, float", image([-INF] * 4), [-INF], [0]),
    pool("MaxPool of -inf alone, double", image([-INF] * 4, D), [-INF], [0]),
    pool("MaxPool of the least int8 with padding: the index is inside of X",
         image([-128] * 4, np.int8), [-128] * 9, [0, 0, 1, 0, 0, 1, 2, 2, 3], 1),
    pool("MaxPool, NaN first", image([NAN, 2, 3, 4]), [NAN], [0]),
    pool("MaxPool, NaN last", image([2, 3, 4, NAN]), [NAN], [3]),
    Case("MaxPool with a kernel larger than its input is empty",
         "g (float[1,1,2,2] x) => (float[1,1,0,0] y) { y = MaxPool <kernel_shape=[3,3]> (x) }",
         {"x": image([1] * 4)}, {"y": np.zeros((1, 1, 0, 0), F)}),
    Case("Conv with a kernel larger than its input is empty",
         "g (float[1,1,2,2] x, float[1,1,3,3] w) => (float[1,1,0,0] y) { y = Conv (x, w) }",
         {"x": image([1] * 4), "w": np.ones((1, 1, 3, 3), F)}, {"y": np.zeros((1, 1, 0, 0), F)}),
    Case("MatMul over nothing is zero, float",
         "g (float[2,0] x, float[0,3] w) => (float[2,3] y) { y = MatMul (x, w) }",
         {"x": np.zeros((2, 0), F), "w": np.zeros((0, 3), F)}, {"y": np.zeros((2, 3), F)}),
    Case("MatMul over nothing is zero, int32",
         "g (int32[2,0] x, int32[0,3] w) => (int32[2,3] y) { y = MatMul (x, w) }",
         {"x": np.zeros((2, 0), np.int32), "w": np.zeros((0, 3), np.int32)},
         {"y": np.zeros((2, 3), np.int32)}),
    Case("Max of zeros is +0", "g (float[2] x, float[2] z) => (float[2] y) { y = Max (x, z) }",
         {"x": np.array([0.0, -0.0], F), "z": np.array([-0.0, 0.0], F)},
         {"y": np.array([0.0, 0.0], F)}),
    Case("Sub of float16 overflows from the midpoint on", SUB16,
         {"x": np.full(3, 65504, np.float16), "z": np.array([-8, -15.99, -16], np.float16)},
         {"y": np.array([65504, 65504, INF], np.float16)}),
    Case("inf - inf is a quiet NaN", "g (float[1] x) => (float[1] y) { y = Sub (x, x) }",
         {"x": np.array([INF], F)}, {"y": np.array([NAN], F)}),
    Case("MatMulInteger wraps", "g (int8[1,133145] a, int8[133145,1] b) => (int32[1,1] y)"
         " { y = MatMulInteger (a, b) }",
         {"a": np.full((1, 133145), 127, np.int8), "b": np.full((133145, 1), 127, np.int8)},
         {"y": np.array([[133145 * 127 * 127 - 2**32]], np.int32)}),
    Case("ArgMax: NaN has priority", ARGMAX % 0, {"x": np.array([1, NAN, 3, NAN], F)},
         {"y": np.array([1])}),
    Case("ArgMax: the last NaN", ARGMAX % 1, {"x": np.array([1, NAN, 3, NAN], F)},
         {"y": np.array([3])}),
    Case("Clip with ordered bounds", CLIP,
         {"x": np.array([-1, 0.25, NAN], F), "l": np.array(0, F), "h": np.array(0.5, F)},
         {"y": np.array([0, 0.25, NAN], F)}),
    Case("Clip with min > max gives max", CLIP,
         {"x": np.array([-1, 0, 9], F), "l": np.array(2, F), "h": np.array(1, F)},
         {"y": np.array([1, 1, 1], F)}),
]  # fmt: skip


def run(text: str, engine: Kind, feeds: Mapping[str, Array]) -> dict[str, Array]:
    return make_engine(resolve(model(text, 22)), engine).run(feeds)


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("case", CASES, ids=lambda c: c.name)
def test_the_value_is_the_documents(case: Case, engine: Kind) -> None:
    found = run(case.text, engine, case.feeds)
    for name, expected in case.outputs.items():
        assert found[name].dtype == expected.dtype
        np.testing.assert_array_equal(found[name], expected)
        if expected.dtype.kind == "f":
            signs = np.signbit(found[name]) == np.signbit(expected)
            assert (signs | np.isnan(expected)).all()


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("op", ["Sin", "Asin", "Acos", "Atan"])
def test_double_functions_are_there_and_within_two_ulp(op: str, engine: Kind) -> None:
    x = np.random.default_rng(5).uniform(-1, 1, 64)
    found = run(f"g (double[64] x) => (double[64] y) {{ y = {op} (x) }}", engine, {"x": x})["y"]
    with mpmath.workprec(200):
        exact = np.array([float(getattr(mpmath, op.lower())(mpmath.mpf(v))) for v in x])
    assert (np.abs(found - exact) <= 2 * np.spacing(np.abs(exact))).all()


def test_a_subtraction_of_infinities_gives_the_canonical_nan() -> None:
    found = run("g (float[1] x) => (float[1] y) { y = Sub (x, x) }", "machine",
                {"x": np.array([INF], F)})["y"]  # fmt: skip
    assert found.view(np.uint32)[0] == 0x7FC00000


@pytest.mark.parametrize("engine", ENGINES)
def test_a_signalling_nan_of_any_payload_becomes_the_quiet_one(engine: Kind) -> None:
    x = np.array([0x7C01, 0xFD55, 0x7E00], np.uint16).view(np.float16)
    found = run(SUB16, engine, {"x": x, "z": np.zeros(3, np.float16)})["y"]
    assert found.view(np.uint16).tolist() == [0x7E00] * 3


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("kind", ["int16", "uint16", "bfloat16"])
def test_clip_is_there_in_types_that_onnxruntime_lacks(kind: str, engine: Kind) -> None:
    dtype = t.by_name(kind).numpy
    text = CLIP.replace("float[3]", f"{kind}[3]").replace("float l, float h", f"{kind} l, {kind} h")
    feeds = {"x": np.array([1, 7, 200], dtype), "l": np.array(3, dtype), "h": np.array(90, dtype)}
    found = run(text, engine, feeds)["y"]
    assert found.dtype == dtype
    assert found.astype(np.int64).tolist() == [3, 7, 90]


def test_range_counts_in_the_type_of_its_operands() -> None:
    """Undecided in the document: exactly there would be 2049 elements."""
    numbers = {"s": 0.5, "l": -8388608, "p": -4096}
    feeds = {name: np.array(value, F) for name, value in numbers.items()}
    text = "g (float s, float l, float p) => (float[n] y) { y = Range (s, l, p) }"
    assert run(text, "machine", feeds)["y"].shape == (2048,)


def test_a_range_between_infinities_is_refused() -> None:
    feeds = {name: np.array(value, F) for name, value in {"s": np.inf, "l": np.inf, "p": 1}.items()}
    text = "g (float s, float l, float p) => (float[n] y) { y = Range (s, l, p) }"
    with pytest.raises(RunError, match="cannot convert float NaN"):
        run(text, "machine", feeds)


def test_the_checker_warns_of_a_range_that_rounding_shortens() -> None:
    made = model("""g (float[2048] x) => (float[2048] y) {
        s = Constant <value = float {0.5}> ()  l = Constant <value = float {-8388608}> ()
        p = Constant <value = float {-4096}> ()  r = Range (s, l, p)  y = Add (x, r) }""")
    (found,) = check(made).of("Range.1")
    assert (found.observed, found.expected) == ("2048 elements when rounded", "2049")


# Clip is Min(max, Max(x, min)), as ONNX's text has it, with IEEE minimum and maximum. In two cases
# this is not SONNX's value (docs/disagreements.md); the checker warns of constants that lead there.


@pytest.mark.parametrize(("low", "high", "ours"), [(0.0, -0.0, -0.0), (NAN, 0.5, NAN)])
def test_clip_where_ours_is_not_the_documents_value(low: float, high: float, ours: float) -> None:
    feeds = {"x": np.array([-1, 0, 1], F), "l": np.array(low, F), "h": np.array(high, F)}
    found = run(CLIP, "machine", feeds)["y"]
    np.testing.assert_array_equal(found.view(np.uint32), np.full(3, ours, F).view(np.uint32))


@pytest.mark.parametrize(("low", "high"), [("0.0", "-0.0"), ("nan", "0.5")])
def test_the_checker_warns_of_such_bounds(low: str, high: str) -> None:
    made = model(CLIP.replace(", float l, float h", "").replace(
        "y) {", "y) <float l = {1.0}, float h = {1.0}> {"))  # fmt: skip
    for tensor, value in zip(made.graph.initializer, (low, high), strict=True):
        tensor.float_data[0] = float(value)
    assert check(made).of("Clip.2")
