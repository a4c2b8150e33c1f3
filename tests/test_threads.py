"""Threads: the same bytes for every number of them, and a pool that is safe."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from nets import Net
from programs import planned, sample
from slices import slice_of
from targets import main_c
from test_schedule import conv, fed, norm, values
from test_targets import ELEMENTS, NETWORKS

from sardonyx import threads
from sardonyx import types as t
from sardonyx.emit import emit
from sardonyx.emit.export import export
from sardonyx.emit.weights import c_file
from sardonyx.graph import Graph
from sardonyx.kernel.c99 import share
from sardonyx.kernel.c99.print_c import Function
from sardonyx.kernel.c99.schedule import print_scheduled
from sardonyx.kernel.expr import Axis, Buffer, Load
from sardonyx.kernel.ir import For, Kernel, Store
from sardonyx.native import NativeEngine
from sardonyx.passes.lower import lower
from sardonyx.passes.pipeline import optimise
from sardonyx.passes.program import each
from sardonyx.passes.timeline import timeline_of
from sardonyx.passes.workers import worker_bytes, workers_of
from sardonyx.plan import Plan, check_plan, plan
from sardonyx.plan.bound import lower_bound
from sardonyx.plan.timeline import Timeline
from sardonyx.types import Array

COUNTS = (1, 2, 3, 5)
POOL = Path(threads.__file__).with_name("pool.c")


def pictures(net: Net, rng: np.random.Generator) -> None:
    """Convolutions of all forms, pools, a classifier: large enough to be shared out."""
    x = fed(net, rng, 2, 3, 64, 60)
    same = {"dilations": [1, 1], "pads": [1] * 4, "kernel_shape": [3, 3]}
    y = conv(net, rng, x, 3, 40, **same, strides=[2, 2])
    y = net.op("Relu", norm(net, rng, y, 40))
    deep = conv(net, rng, y, 40, 40, 40, **same, strides=[1, 1])
    y = net.op("Add", y, net.op("Clip", deep, np.float32(0), np.float32(6)))
    y = conv(net, rng, y, 40, 72, **same, strides=[1, 1])
    z = net.op("MaxPool", y, kernel_shape=[3, 3], strides=[2, 2], pads=[1] * 4)
    z = net.op("AveragePool", z, kernel_shape=[2, 2], strides=[2, 2])
    net.give(y, net.op("Gemm", net.op("Flatten", z), values(rng, 72 * 8 * 7, 900)))


def sequences(net: Net, rng: np.random.Generator) -> None:
    """Attention, normalisation by rows, transpositions, elementwise chains, reductions, an LSTM in
    both directions."""
    x = fed(net, rng, 3, 70, 96)
    q, k, v = (net.op("MatMul", x, values(rng, 96, 96)) for _ in range(3))
    q, k, v = (net.op("Reshape", a, np.array([3, 70, 4, 24])) for a in (q, k, v))
    q, v = (net.op("Transpose", a, perm=[0, 2, 1, 3]) for a in (q, v))
    k = net.op("Transpose", k, perm=[0, 2, 3, 1])
    scores = net.op("Softmax", net.op("MatMul", q, k), axis=-1)
    y = net.op("Transpose", net.op("MatMul", scores, v), perm=[0, 2, 1, 3])
    y = net.op("Add", net.op("Reshape", y, np.array([3, 70, 96])), x)
    y = net.op("LayerNormalization", y, values(rng, 96), values(rng, 96), axis=-1)
    net.give(net.op("Erf", y), net.op("ReduceMean", scores, np.array([1]), keepdims=0))
    weights = values(rng, 2, 64, 96), values(rng, 2, 64, 16)
    net.give(net.op("LSTM", x, *weights, hidden_size=16, direction="bidirectional"))
    net.give(net.op("CumSum", y, np.array(1)), net.op("Gather", y, np.array([60, 2, 2]), axis=1))


def tiled(net: Net, rng: np.random.Generator) -> None:
    """Convolutions by tiles in many blocks, whose last are not full: of float32, and of bytes."""
    net.numerics = "winograd"
    x = fed(net, rng, 2, 16, 61, 90)
    net.give(net.op("Relu", net.op("Conv", x, values(rng, 20, 16, 3, 3), pads=[1] * 4)))
    y = net.feed("bytes", rng.integers(0, 256, (1, 48, 62, 61)).astype(np.uint8))
    w, one, zero = (
        rng.integers(-128, 128, (48, 48, 3, 3)).astype(np.int8),
        np.float32(1),
        np.int8(0),
    )
    given = (y, one, np.uint8(7), w, one, zero, np.float32(4000), np.uint8(100))
    net.give(net.op("QLinearConv", *given, pads=[1] * 4))


def batches(net: Net, rng: np.random.Generator) -> None:
    """Pictures that are large enough to be done one after the other, and a classifier."""
    x = net.feed("x", values(rng, 5, 3, 128, 128))
    x = net.op("Relu", net.op("Conv", x, values(rng, 32, 3, 3, 3), pads=[1] * 4))
    y = net.op("Conv", x, values(rng, 32, 1, 3, 3), values(rng, 32), group=32, pads=[1] * 4)
    y = net.op("MaxPool", net.op("Add", x, y), kernel_shape=[2, 2], strides=[2, 2])
    y = net.op("Flatten", net.op("GlobalAveragePool", net.op("Tanh", y)))
    net.give(net.op("Gemm", y, values(rng, 32, 900)))


FAMILIES = {"pictures": pictures, "sequences": sequences, "tiled": tiled, "batches": batches}


def made(name: str) -> tuple[Graph, dict[str, Array]]:
    net = Net()
    FAMILIES[name](net, np.random.default_rng(7))
    return net.graph(), net.feeds


@pytest.mark.parametrize("name", FAMILIES)
def test_bytes_do_not_depend_on_threads(name: str, small_units: None) -> None:
    graph, feeds = made(name)
    plain = NativeEngine(graph, schedule=False).run(feeds)
    for count in COUNTS:
        engine = NativeEngine(graph, threads=count)
        for found in (engine.run(feeds), engine.run(feeds)):
            for output, y in found.items():
                assert y.tobytes() == plain[output].tobytes(), f"{output}, {count} threads"


@pytest.mark.slow
@pytest.mark.parametrize("parts", [NETWORKS, ELEMENTS], ids=["networks", "elements"])
def test_bytes_of_the_graphs_of_all_targets_do_not_depend_on_threads(
    parts: tuple[str, ...], small_units: None
) -> None:
    """What tests/test_targets.py compiles for every target."""
    graph, feeds = slice_of(parts)
    want = NativeEngine(graph, threads=1).run(feeds)
    for count in COUNTS[1:]:
        found = NativeEngine(graph, threads=count).run(feeds)
        assert all(found[n].tobytes() == y.tobytes() for n, y in want.items())


@pytest.mark.parametrize("name", FAMILIES)
def test_most_launches_are_shared_out(name: str, small_units: None) -> None:
    launches = [x for _, x in each(optimise(lower(made(name)[0])))]
    shares = [print_scheduled(x.kernel, None, threads=True).shares for x in launches]
    assert sum(shares) > len(shares) // 2


def with_workers(
    one: Plan, timeline: Timeline, needed: Sequence[int], threads: int
) -> tuple[Plan, Timeline]:
    """The plan for so many threads, and the timeline in which each step has the scratch of all of
    them: after the plan for one, max(needed) bytes for each of the others."""
    starts = [one.size + i * max(needed) for i in range(threads - 1)]
    steps, scratch = [], []
    for step, given, size in zip(timeline.steps, one.scratch, needed, strict=True):
        some = starts if size else []
        steps.append(replace(step, scratch=(*step.scratch, *(size for _ in some))))
        scratch.append((*given, *some))
    wide = replace(timeline, steps=tuple(steps))
    size = one.size_for(threads, max(needed))
    made = replace(one, scratch=tuple(scratch), size=size, lower_bound=lower_bound(wide))
    return made, wide


@pytest.mark.parametrize("name", FAMILIES)
def test_a_plan_for_threads_is_valid(name: str, small_units: None) -> None:
    program = optimise(lower(made(name)[0]))
    timeline, needed = timeline_of(program), [int(str(n)) for n in worker_bytes(program)]
    one = plan(timeline)
    for count in COUNTS:
        wide, steps = with_workers(one, timeline, needed, count)
        assert not check_plan(wide, steps)
        assert wide.offsets == one.offsets
    assert max(needed) > 0


def test_blocks_of_tiles_are_shared_out() -> None:
    program = optimise(lower(made("tiled")[0]), roomy=True)
    loops = [s for x in program.launches for s in x.kernel.body if isinstance(s, For)]
    assert [s.apart for s in loops] == [True, True]


def test_tiny_work_starts_no_thread() -> None:
    code = """
import os, numpy as np
from nets import Net
from sardonyx.native import NativeEngine
net = Net()
net.give(net.op("Relu", net.feed("x", np.ones((4, 100), np.float32))))
before = os.listdir("/proc/self/task")
NativeEngine(net.graph(), threads=4).run(net.feeds)
assert os.listdir("/proc/self/task") == before
"""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, sys.path))}
    subprocess.run([sys.executable, "-c", code], check=True, env=environment)


def test_runs_at_the_same_time_and_after_a_fork_are_right() -> None:
    graph, feeds = made("sequences")
    engines = [NativeEngine(graph, threads=3), NativeEngine(graph, threads=2)]
    want = {n: y.tobytes() for n, y in engines[0].run(feeds).items()}
    wrong: list[str] = []

    def work(engine: NativeEngine) -> None:
        for _ in range(10):
            found = engine.run(feeds)
            wrong.extend(n for n, y in found.items() if y.tobytes() != want[n])

    runners = [threading.Thread(target=work, args=(e,)) for e in (*engines, *engines)]
    for runner in runners:
        runner.start()
    for runner in runners:
        runner.join()
    assert not wrong
    child = os.fork()
    if child == 0:
        work(engines[0])
        os._exit(1 if wrong else 0)
    assert os.waitpid(child, 0)[1] == 0


MAIN = """
extern void sardonyx_pool_for(void *, sardonyx_work *, const void *, int64_t);
static int64_t threads = 4;
static unsigned char scratch[3 * SARDONYX_WORKER_BYTES + 1] __attribute__((aligned(64)));
"""


BACKWARDS = """
static unsigned char scratch[SARDONYX_WORKER_BYTES + 1] __attribute__((aligned(64)));
static void backwards(void *pool, sardonyx_work *work, const void *given, int64_t count) {
  (void)pool;
  for (; count > 0; count--) work(given, count - 1, count, count & 1);
}
"""


@pytest.mark.parametrize(
    "name", ["tiled", *(pytest.param(x, marks=pytest.mark.slow) for x in ("sequences", "batches"))]
)
def test_the_thread_sanitizer_finds_nothing(name: str, tmp_path: Path, small_units: None) -> None:
    """Four threads, a program with every form, run twice; the second run finds threads awake."""
    graph, feeds = made(name)
    program = optimise(lower(graph), roomy=True)
    found, workers = plan(timeline_of(program)), workers_of(program)

    def printer(kernel: Kernel, same: Mapping[Buffer, Buffer]) -> Function:
        return print_scheduled(kernel, same, threads=True)

    source = emit(program, found, printer=printer, workers=workers)
    main = main_c(program, source).replace("static const size_t", MAIN + "static const size_t", 1)
    main = main.replace(
        "  error = sardonyx_run(&context);",
        "  context.parallel_for = sardonyx_pool_for, context.pool = &threads;\n"
        "  context.scratch = scratch, context.threads = threads;\n"
        "  error = sardonyx_run(&context);\n"
        "  error = sardonyx_run(&context);",
    )
    texts = {**source.files(), "main.c": main, "weights.c": c_file("sardonyx", source.blob)}
    texts["pool.c"] = POOL.read_text()
    for name, text in texts.items():
        (tmp_path / name).write_text(text)
    units = [name for name in texts if name.endswith(".c")]
    flags = "-std=gnu99 -Og -g1 -march=native -ffp-contract=off -fno-strict-aliasing"
    built = subprocess.run(
        ["gcc", "-fsanitize=thread", *flags.split(), *units, "-o", "it", "-lm", "-lpthread"],
        cwd=tmp_path, capture_output=True, text=True,
    )  # fmt: skip
    if "libtsan" in built.stderr:
        pytest.skip("gcc has no libtsan here")
    assert built.returncode == 0, built.stderr
    (tmp_path / "in").write_bytes(b"".join(feeds[n].tobytes() for n in program.inputs))
    command = ["setarch", "-R", "./it", "in", "out"]  # its shadow memory needs a known layout
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "WARNING" not in done.stderr, done.stderr
    want = NativeEngine(graph, threads=1).run(feeds)
    assert (tmp_path / "out").read_bytes() == b"".join(want[n].tobytes() for n in program.outputs)


@pytest.mark.parametrize("name", ["sequences", "batches"])
def test_exported_c_with_a_parallel_for_of_the_caller(
    name: str, tmp_path: Path, small_units: None
) -> None:
    """The folder's own test runs without one, then with one that goes from the last unit to the
    first."""
    graph, feeds = made(name)
    program = optimise(lower(graph))
    found, workers = plan(timeline_of(program)), workers_of(program)

    def printer(kernel: Kernel, same: Mapping[Buffer, Buffer]) -> Function:
        return print_scheduled(kernel, same, threads=True)

    source = emit(program, found, printer=printer, workers=workers)
    want = NativeEngine(graph, threads=1).run(feeds)
    given = [feeds[n] for n in program.inputs]
    export(program, source, tmp_path, given, [want[n] for n in program.outputs])
    subprocess.run(["make", "-s", "test", "CFLAGS=-O1"], cwd=tmp_path, check=True)
    test = tmp_path / "test_main.c"
    text = test.read_text().replace("int main(void) {", BACKWARDS + "int main(void) {", 1)
    test.write_text(text.replace("0, 0, 0, 0};", "backwards, 0, scratch, 2};", 1))
    subprocess.run(["make", "-s", "test", "CFLAGS=-O1"], cwd=tmp_path, check=True)
    assert "backwards, 0, scratch, 2}" in test.read_text()


def test_without_threads_the_emitted_text_has_none() -> None:
    program = sample()
    texts = emit(program, planned(program), printer=print_scheduled).files()
    assert not any("parallel" in text or "thread" in text for text in texts.values())


def test_turns_whose_ranges_differ_in_length_are_not_shared_out(small_units: None) -> None:
    """Turn a writes y[a] and reads y[4 a] to y[4 a + 3], which other turns write."""
    y, a, r = Buffer("y", t.int64, (4096,)), Axis("a", 1024), Axis("r", 4)
    for step, apart in ((4, False), (1, True)):
        at = a * step + r if step > 1 else a
        loop = For(a, (For(r, (Store(y, (a,), Load(y, (at,)), proven=True),)),))
        kernel = Kernel("turns", (), (y,), (), (), (loop,))
        assert (share.share_of_loop(loop, kernel) is not None) == apart
