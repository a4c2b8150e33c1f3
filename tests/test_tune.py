"""Schedules: the model of choice.h covers each shape with tiles that there are; measured or given
ones change no bit, are kept, and come back from a file."""

from __future__ import annotations

import ctypes
import subprocess
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from nets import Net
from onnx import parser

from sardonyx import build, tune
from sardonyx.cli import main
from sardonyx.clocked import clocked
from sardonyx.dims import symbol
from sardonyx.errors import SardonyxError
from sardonyx.kernel.c99.prelude import prelude
from sardonyx.kernel.c99.schedule import print_scheduled
from sardonyx.machine import Machine
from sardonyx.native import NativeEngine
from sardonyx.ort import InferenceSession, SessionOptions
from sardonyx.passes.lower import lower
from sardonyx.passes.pipeline import optimise
from sardonyx.passes.program import Program
from sardonyx.settings import Tuning
from sardonyx.threads import ALONE
from sardonyx.tune import CANDIDATES, MODEL, Choice

# Targets, and what is chosen for (rows, reach) where (tile, wide, chunk,
# pass) is given; then the tiles that so many rows are cut into.
PROBE = """
#define PUBLIC __attribute__((visibility("default")))
static const sx_target targets[] = {
  {4, 1, 6, 512, 0 SX_BIT(1, 1) SX_BIT(1, 4) SX_BIT(2, 1) SX_BIT(2, 2) SX_BIT(3, 1) SX_BIT(3, 2)
    SX_BIT(4, 1) SX_BIT(5, 1) SX_BIT(6, 1), 1, 64, 1},
  {1, 4, 6, 1024, 0 SX_BIT(1, 1) SX_BIT(2, 1) SX_BIT(3, 1) SX_BIT(4, 1) SX_BIT(5, 1) SX_BIT(6, 1),
    1, 64, 0},
  {4, 1, 14, 512, 0 SX_BIT(1, 1) SX_BIT(1, 4) SX_BIT(2, 1) SX_BIT(2, 4) SX_BIT(3, 4) SX_BIT(4, 1)
    SX_BIT(4, 2) SX_BIT(5, 2) SX_BIT(6, 2) SX_BIT(7, 1) SX_BIT(7, 2) SX_BIT(8, 2) SX_BIT(9, 2)
    SX_BIT(10, 2) SX_BIT(11, 2) SX_BIT(12, 2) SX_BIT(13, 2) SX_BIT(14, 1) SX_BIT(14, 2), 1, 64, 1},
  {8, 1, 12, 256, 0 SX_BIT(1, 1) SX_BIT(2, 1) SX_BIT(3, 1) SX_BIT(4, 1) SX_BIT(6, 1) SX_BIT(8, 1)
    SX_BIT(12, 1), 0, 128, 0},
};
PUBLIC void choose(int t, int64_t rows, int64_t reach, const int64_t *given, int64_t *found) {
  const sx_choice c = {given[0], given[1], given[2], given[3]};
  const sx_shape shape = {rows, reach};
  const sx_choice made = sx_choose(targets + t, shape, c);
  found[0] = made.tile, found[1] = made.wide, found[2] = made.chunk, found[3] = made.pass;
}
PUBLIC int64_t shared(int t, int64_t rows, int64_t blocks, int64_t terms) {
  return sx_shared(targets + t, rows, blocks, terms);
}
PUBLIC int64_t near(void) { return SX_NEAR; }
PUBLIC int covered(int t, int64_t most, int64_t rows, int64_t wide) {
  while (rows > 0) {
    const int64_t n = sx_even(targets + t, most, rows, wide);
    if (n < 1 || n > rows || !sx_has(targets + t, n, wide)) return 0;
    rows -= n;
  }
  return rows == 0;
}
/* sx_contract( */
"""
TEXT = """
<ir_version: 10, opset_import: ["" : 21]>
net (float[7, 5] a, float[5, 33] b) => (float[7, 33] y) { y = MatMul(a, b) }
"""
GIVEN = (MODEL, *CANDIDATES, Choice(2, 2, 7, 5), Choice(99, 3, 1, 1), Choice(3, 4, 9999, 9999))


@pytest.fixture(scope="module")
def probe(tmp_path_factory: pytest.TempPathFactory) -> ctypes.CDLL:
    return build.load(build.library({"probe.c": f"{prelude(PROBE)}{PROBE}"}))


def choose(probe: ctypes.CDLL, target: int, rows: int, reach: int, given: Choice) -> list[int]:
    numbers, found = (ctypes.c_int64 * 4)(*given), (ctypes.c_int64 * 4)()
    probe.choose(target, ctypes.c_int64(rows), ctypes.c_int64(reach), numbers, found)
    return list(found)


def test_each_choice_covers_its_rows_with_tiles_that_there_are(probe: ctypes.CDLL) -> None:
    for target, rows, given in product(range(4), range(1, 260), GIVEN):
        tile, wide, chunk, terms = choose(probe, target, rows, 64, given)
        assert 1 <= chunk <= 252, (target, rows, given)
        assert 1 <= terms <= 1024, (target, rows, given)
        assert wide < 4 or chunk <= 126
        sizes = [ctypes.c_int64(n) for n in (tile, rows, wide)]
        assert probe.covered(target, *sizes), (target, rows, given, tile, wide)
        assert probe.covered(target, sizes[0], sizes[1], ctypes.c_int64(1))


def test_the_model_cuts_chunks_evenly_and_by_the_bytes_that_rows_read(probe: ctypes.CDLL) -> None:
    assert choose(probe, 0, 49, 64, MODEL) == [6, 1, 54, 512]
    assert choose(probe, 0, 3136, 64, MODEL)[2] == 246  # 13 chunks of 242
    even = {1 << 18: 42, 1 << 20: 102}  # 5 chunks of 40, or 2 of 98
    assert choose(probe, 0, 196, 2304, MODEL)[2] == even[probe.near()]
    assert choose(probe, 1, 3136, 64, MODEL) == [6, 1, 246, 1024]
    assert [choose(probe, 0, n, 64, MODEL)[1] for n in (1, 2, 3, 4)] == [4, 2, 2, 1]
    assert [choose(probe, 2, n, 64, MODEL)[1] for n in (1, 3, 4, 50)] == [4, 4, 2, 2]


def test_few_pairs_of_blocks_are_an_even_number_of_units(probe: ctypes.CDLL) -> None:
    """Of which two threads take half each; many may be odd, and few rows stay together."""
    numbers = product((14, 28, 49, 196, 784), range(1, 80), (8, 192, 2304))
    for rows, blocks, terms in numbers:
        given = [ctypes.c_int64(n) for n in (rows, blocks, terms)]
        chunk = probe.shared(2, *given)
        units = -(-rows // chunk) * -(-blocks // 2)
        assert 1 <= chunk <= 252, (rows, blocks, terms)
        assert units % 2 == 0 or units > 15 or rows < 28, (rows, blocks, terms, chunk)
    assert probe.shared(2, *map(ctypes.c_int64, (49, 10, 576))) == 25


def net() -> Net:
    """Products of float32, int16 and bytes, of one row and of many, cut and not."""
    made, rng = Net(), np.random.default_rng(3)

    def floats(*shape: int) -> Any:
        return rng.standard_normal(shape).astype(np.float32)

    x = made.feed("x", floats(1, 20, 9, 8))
    y = made.op("Conv", x, floats(34, 20, 3, 3), kernel_shape=[3, 3], pads=[1, 1, 1, 1])
    made.give(made.op("Relu", y))
    for m, k, n in ((1, 70, 100), (3, 40, 45), (37, 600, 50)):
        made.give(made.op("MatMul", made.feed(f"a{m}", floats(m, k)), floats(k, n)))
        bytes_ = made.feed(f"b{m}", rng.integers(0, 256, (m, k)).astype(np.uint8))
        for most in (60, 128):
            weights = rng.integers(-most, most, (k, n)).astype(np.int8)
            made.give(made.op("MatMulInteger", bytes_, weights))
    return made


def shapes(program: Program) -> list[str]:
    return sorted(set[str]().union(*(tune._shapes(x.kernel) for x in program.launches)))


def test_every_choice_gives_the_machines_bytes() -> None:
    made = net()
    graph = made.graph()
    expected = Machine(graph).run(made.feeds)
    program = optimise(lower(graph, overridable=False))
    assert len({s.split()[0] for s in shapes(program)}) == 4  # kinds, and halves
    symbols = Choice._fields
    tile, wide, chunk, terms = map(symbol, symbols)
    run = clocked(program, ALONE, choices=lambda shape: (tile, wide, chunk, terms), symbols=symbols)
    for given in GIVEN:
        run.dims[:] = given
        found, times = run(made.feeds)
        wrong = [n for n in graph.outputs if found[n].tobytes() != expected[n].tobytes()]
        assert not wrong, (given, wrong)
        assert len(times) == len(program.launches)


def test_a_choice_is_printed_where_its_shape_is() -> None:
    program = optimise(lower(net().graph(), overridable=False))
    texts = [print_scheduled(x.kernel).text for x in program.launches]
    assert all("{0, 0, 0, 0}, 0};" in text for text in texts if "sx_product product" in text)
    first = shapes(program)[0]
    choices = tune.lookup({first: Choice(3, 2, 12, 8)})
    texts = [print_scheduled(x.kernel, choices=choices).text for x in program.launches]
    assert sum("{3, 2, 12, 8}, 0};" in text for text in texts) == 1


@pytest.fixture
def cache(own_cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(tune, "ROUNDS", 1)
    monkeypatch.setattr(tune, "CANDIDATES", CANDIDATES[-1:])
    return tmp_path


def small() -> Net:
    made, rng = Net(), np.random.default_rng(3)
    x = made.feed("x", rng.standard_normal((7, 5)).astype(np.float32))
    made.give(made.op("MatMul", x, rng.standard_normal((5, 33)).astype(np.float32)))
    return made


def test_what_was_measured_is_kept_and_written(
    cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made, file = small(), cache / "net.json"
    graph = made.graph()
    heard: list[str] = []
    engine = NativeEngine(
        graph, tuning=Tuning(True, file), progress=lambda done, total, what: heard.append(what)
    )
    assert "measuring schedules" in heard
    plain = NativeEngine(graph, schedule=False).run(made.feeds)
    assert {n: y.tobytes() for n, y in engine.run(made.feeds).items()} == {
        n: y.tobytes() for n, y in plain.items()
    }
    program = optimise(lower(graph, overridable=False))
    assert sorted(tune.read(file)) == shapes(program)

    def never(*arguments: object) -> dict[str, Choice]:
        raise AssertionError("measured again")

    monkeypatch.setattr(tune, "_measured", never)
    assert tune.chosen(program, Tuning(True)) == tune.read(file)
    tune.write(file, dict.fromkeys(shapes(program), Choice(3, 2, 12, 8)))
    assert tune.chosen(program, Tuning(False, file)) == tune.read(file)
    assert tune.chosen(program, Tuning(True, file)) == tune.read(file)
    assert tune.chosen(program, Tuning()) == {} == tune.chosen(program, None)


def test_a_file_that_is_none_is_refused(cache: Path) -> None:
    program = optimise(lower(small().graph(), overridable=False))
    file = cache / "net.json"
    for text in ("", "{}", '{"schedules": {"a": [1]}}', '{"schedules": {"a": ["x", 0, 0, 0]}}'):
        file.write_text(text)
        if text.count("[1]"):
            assert tune.read(file) == {"a": Choice(1)}
            continue
        with pytest.raises(SardonyxError, match="no file of schedules"):
            tune.chosen(program, Tuning(False, file))
    with pytest.raises(SardonyxError, match="no file of schedules"):
        tune.chosen(program, Tuning(False, cache / "missing.json"))


def test_sessions_and_commands_take_schedules(
    cache: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    model = cache / "net.onnx"
    onnx.save(parser.parse_model(TEXT), model)
    feeds = {name: np.ones(shape, np.float32) for name, shape in (("a", (7, 5)), ("b", (5, 33)))}
    expected = InferenceSession(model).run(None, feeds)
    file = cache / "net.json"
    assert main(["run", str(model), "--tune", "--schedule", str(file)]) == 0
    options = SessionOptions()
    options.add_session_config_entry("sardonyx.schedule", str(file))
    for tuned in ("0", "1"):
        options.add_session_config_entry("sardonyx.tune", tuned)
        found = InferenceSession(model, options).run(None, feeds)
        assert [y.tobytes() for y in found] == [y.tobytes() for y in expected]
    options.add_session_config_entry("sardonyx.tune", "yes")
    with pytest.raises(SardonyxError, match="it can be 0 or 1"):
        InferenceSession(model, options)
    tune.write(file, dict.fromkeys(tune.read(file), Choice(3, 2, 12, 8)))
    folder = cache / "c"
    assert main(["compile", str(model), "--schedule", str(file), "-o", str(folder)]) == 0
    assert "{3, 2, 12, 8}, 0};" in (folder / "model.c").read_text()
    subprocess.run(["make", "-s", "-C", str(folder), "test"], check=True, capture_output=True)
    capsys.readouterr()
