"""Random operators: functions of a seed, the same on both engines."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from kernels import Case, check, compile_all
from onnx import TensorProto, helper
from op_runs import lowered, run

from sardonyx import types as t
from sardonyx.backend import prepare
from sardonyx.errors import InvalidModel
from sardonyx.kernel.build import Builder
from sardonyx.kernel.c99.print_c import print_c
from sardonyx.kernel.expr import lift
from sardonyx.kernel.interpret import evaluate
from sardonyx.kernel.philox import philox
from sardonyx.kernel.verify import settle
from sardonyx.loading import load
from sardonyx.ort import InferenceSession, set_seed
from sardonyx.types import Array

SIZE = 200_000
FLOATS = {"float16": 10, "float32": 1, "float64": 11, "bfloat16": 16}

# Random123's known answers (kat_vectors, philox4x32, 10 rounds): counter, key, result.
KNOWN = (
    ((0, 0, 0, 0), (0, 0), (0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8)),
    (
        (0xFFFFFFFF,) * 4,
        (0xFFFFFFFF,) * 2,
        (0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD),
    ),
    (
        (0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344),
        (0xA4093822, 0x299F31D0),
        (0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1),
    ),
)


@pytest.mark.parametrize(("counter", "key", "expected"), KNOWN)
def test_philox_gives_its_authors_known_answers(
    counter: tuple[int, ...], key: tuple[int, int], expected: tuple[int, ...]
) -> None:
    k = Builder(1)
    words = philox([lift(c, t.uint32) for c in counter], key[0] | key[1] << 32)
    outputs = [k.compute((), lambda w=w: w, t.uint32) for w in words]
    kernel, _ = settle(k.kernel("philox", [], outputs))
    assert tuple(int(x) for x in evaluate(kernel, [])) == expected


def uniform(seed: float, size: int = SIZE, **attributes: Any) -> Array:
    found: Array = run("RandomUniform", shape=[size], seed=seed, **attributes)
    return found


@pytest.mark.parametrize("name", FLOATS)
def test_uniform_numbers_fill_their_range(name: str) -> None:
    x = uniform(3.0, low=-2.0, high=5.0, dtype=FLOATS[name]).astype(np.float64)
    assert x.min() >= -2
    assert x.max() <= 5
    counts, _ = np.histogram(x, 50, (-2, 5))
    assert abs(counts / SIZE - 1 / 50).max() < (0.01 if "16" in name else 0.002)


@pytest.mark.parametrize("name", FLOATS)
def test_normal_numbers_have_the_moments_of_their_distribution(name: str) -> None:
    x = run("RandomNormal", shape=[SIZE], seed=1.0, mean=2.0, scale=3.0, dtype=FLOATS[name])
    z = (x.astype(np.float64) - 2) / 3
    assert np.isfinite(z).all()
    assert abs(z.mean()) < 0.01
    assert abs((z**2).mean() - 1) < 0.01
    assert abs((z**3).mean()) < 0.03
    assert abs((z**4).mean() - 3) < 0.06
    assert abs((abs(z) < 1).mean() - 0.6826895) < 0.005


def test_the_mapping_is_as_published() -> None:
    """docs/numerics.md, section 10, followed by hand for the first element of key 0."""
    w0, w1, w2, w3 = KNOWN[0][2]
    u, v = np.float32(w0 >> 8) * np.float32(2**-24), np.float32(w1 >> 8) * np.float32(2**-24)
    assert uniform(0.0, 1)[0] == u
    wide = ((w0 >> 5) * 2**26 + (w1 >> 6)) * 2.0**-53
    assert uniform(0.0, 1, dtype=11)[0] == wide
    normal = np.sqrt(-2 * np.log1p(-np.float64(u))) * np.cos(2 * np.pi * np.float64(v))
    assert abs(run("RandomNormal", shape=[1], seed=0.0)[0] - normal) < 1e-6
    other = ((w2 >> 5) * 2**26 + (w3 >> 6)) * 2.0**-53
    normal = np.sqrt(-2 * np.log1p(-wide)) * np.cos(2 * np.pi * other)
    assert abs(run("RandomNormal", shape=[1], seed=0.0, dtype=11)[0] - normal) < 1e-15


def test_like_operators_take_shape_and_type_from_their_operand() -> None:
    x = np.zeros((3, 5), np.float64)
    found = run("RandomUniformLike", x, seed=2.5)
    assert np.array_equal(found.reshape(-1), uniform(2.5, 15, dtype=11))
    assert run("RandomNormalLike", np.zeros((2, 2), np.int8), dtype=1).dtype == np.float32
    with pytest.raises(InvalidModel, match="floats"):
        run("RandomNormalLike", np.zeros((2, 2), np.int8))


def test_other_seeds_give_other_numbers() -> None:
    assert len({uniform(float(s), 4).tobytes() for s in range(100)}) == 100


def test_bernoulli_is_the_uniform_number_below_the_probability() -> None:
    p = np.linspace(0, 1, SIZE, dtype=np.float32)
    found = run("Bernoulli", p, seed=4.0)
    np.testing.assert_array_equal(found, uniform(4.0) < p)
    assert abs(found.mean() - 0.5) < 0.005
    assert run("Bernoulli", p, seed=4.0, dtype=TensorProto.BOOL).dtype == np.bool_
    edges = np.array([0, 1] * 500, np.float32)
    np.testing.assert_array_equal(run("Bernoulli", edges, seed=4.0), edges)


def test_multinomial_draws_classes_as_often_as_their_weights_say() -> None:
    p = np.array([[0.1, 0.2, 0.0, 0.7], [0.25, 0.25, 0.25, 0.25]])
    with np.errstate(divide="ignore"):
        logits = (np.log(p) + 3).astype(np.float32)
    found = run("Multinomial", logits, sample_size=50_000, seed=1.0)
    assert found.dtype == np.int32
    for row, expected in zip(found, p, strict=True):
        assert abs(np.bincount(row, minlength=4) / 50_000 - expected).max() < 0.01


def test_dropout_in_training_drops_by_its_ratio_and_scales_the_rest() -> None:
    x = np.arange(1, SIZE + 1, dtype=np.float32)
    y, mask = run("Dropout", x, np.float32(0.25), np.bool_(True), outputs=2, seed=7)
    assert mask.dtype == np.bool_
    assert abs(mask.mean() - 0.75) < 0.005
    scale = np.float32(1) / np.float32(0.75)
    np.testing.assert_array_equal(y, np.where(mask, x * scale, np.float32(0)))
    y, mask = run("Dropout", x, np.float32(0.25), np.bool_(False), outputs=2, seed=7)
    assert mask.all()
    np.testing.assert_array_equal(y, x)


def test_dropout_1_in_training_drops_too() -> None:
    x = np.ones(SIZE, np.float32)
    y, mask = run("Dropout", x, outputs=2, opset=6, ratio=0.5)
    assert mask.dtype == np.float32
    np.testing.assert_array_equal(y, mask * 2)
    assert abs(mask.mean() - 0.5) < 0.005


def test_printed_c_gives_the_interpreter_s_bytes(tmp_path: Path) -> None:
    x = np.linspace(0, 1, 30).reshape(5, 6)
    cases: list[Case] = []
    for code in FLOATS.values():
        cases.append((lowered("RandomUniform", shape=[3, 7], dtype=code, seed=1.5), []))
        cases.append((lowered("RandomNormal", shape=[300], dtype=code, seed=1.5), []))
    for dtype in (np.float16, np.float32, np.float64):
        given = x.astype(dtype)
        cases.append((lowered("Bernoulli", given, seed=2.0), [given]))
        cases.append((lowered("Multinomial", given, sample_size=9), [given]))
        feeds = [given, np.array(0.3, np.float32), np.array(True)]
        cases.append((lowered("Dropout", *feeds, outputs=2), feeds))
    cases = [(settle(kernel)[0], feeds) for kernel, feeds in cases]
    texts = [print_c(kernel).named(f"k{i}") for i, (kernel, _) in enumerate(cases)]
    library = compile_all(texts, tmp_path, "gcc", ["-O1"])
    for i, case in enumerate(cases):
        check(case, library[f"k{i}"])


def model(*seeds: float | None) -> onnx.ModelProto:
    """Two random outputs, whose nodes state these seeds."""
    nodes, outputs = [], []
    for i, seed in enumerate(seeds):
        given = {} if seed is None else {"seed": seed}
        nodes.append(helper.make_node("RandomUniform", [], [f"y{i}"], shape=[4], **given))
        outputs.append(helper.make_tensor_value_info(f"y{i}", TensorProto.FLOAT, [4]))
    return helper.make_model(helper.make_graph(nodes, "g", [], outputs))


@pytest.mark.parametrize("engine", ["machine", "native"])
def test_without_a_seed_the_place_decides_and_each_run_is_the_same(engine: Any) -> None:
    rep = prepare(model(None, None), engine=engine)
    first, second = rep.run([])
    assert not np.array_equal(first, second)
    np.testing.assert_array_equal(rep.run([])[0], first)
    np.testing.assert_array_equal(prepare(model(None, None), engine="machine").run([])[0], first)


def test_the_session_s_seed_counts_where_the_node_has_none() -> None:
    keys = [
        [op.attributes["seed"] for op in load(model(None, 0.5), seed=s).operations] for s in (0, 1)
    ]
    assert keys[1][0] - keys[0][0] == 1 << 32
    assert keys[0][1] == keys[1][1] == 0.5


def test_onnxruntime_s_set_seed_is_the_session_s_seed() -> None:
    data = model(None).SerializeToString()
    try:
        found = []
        for seed in (5, 6, 5):
            set_seed(seed)
            found.append(InferenceSession(data).run(None, {})[0])
    finally:
        set_seed(0)
    assert np.array_equal(found[0], found[2])
    assert not np.array_equal(found[0], found[1])
