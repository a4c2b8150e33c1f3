"""The elements of a batch one after the other: where they are apart, it pays, and bytes stay."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from nets import Net, check_engines
from test_batches import FAMILIES, made, normal
from test_export import SANITIZED, STRICT, build

from sardonyx.emit import emit
from sardonyx.emit.export import export, name_map
from sardonyx.errors import RunError
from sardonyx.kernel.ir import Kernel
from sardonyx.native import NativeEngine
from sardonyx.passes import one_by_one
from sardonyx.passes.constants import fold_constants
from sardonyx.passes.elements import element_of
from sardonyx.passes.lower import lower
from sardonyx.passes.pipeline import optimise
from sardonyx.passes.program import Launch, Program, each
from sardonyx.passes.timeline import timeline_of
from sardonyx.passes.workers import workers_of
from sardonyx.plan import plan
from sardonyx.settings import Tuning
from sardonyx.timed import timings
from sardonyx.tune import read
from sardonyx.types import Array

BATCH, SIZE = 3, 128
FIRST = sorted(FAMILIES.keys() - {"recurrent"})  # the batch of that one is its second axis


def classifier(batch: int = BATCH, size: int = SIZE, classes: int = 40000) -> Net:
    """Convolutions of pictures, a last layer with more weights than pixels."""
    rng = np.random.default_rng(1)
    net = Net()
    x = net.feed("x", normal(rng, batch, 3, size, size))
    x = net.op("Relu", net.op("Conv", x, normal(rng, 32, 3, 3, 3), pads=[1] * 4))
    y = net.op("Conv", x, normal(rng, 32, 32, 3, 3), normal(rng, 32), pads=[1] * 4)
    y = net.op("MaxPool", net.op("Add", x, y), kernel_shape=[2, 2], strides=[2, 2])
    y = net.op("Flatten", net.op("GlobalAveragePool", net.op("Tanh", y)))
    net.give(net.op("Gemm", y, normal(rng, 32, classes)))
    return net


def optimised(net: Net, batch: str = "") -> Program:
    return optimise(lower(net.graph(batch)), roomy=True)


def called(program: Program) -> list[Launch]:
    return [x for x in program.launches if x.call is not None]


@pytest.fixture
def always(monkeypatch: pytest.MonkeyPatch) -> None:
    """All that can be done element by element is."""
    monkeypatch.setattr(one_by_one, "_gained", lambda *_: one_by_one.CACHED + 1)


def test_convolutions_are_done_picture_by_picture_and_the_last_layer_for_all() -> None:
    program = optimised(classifier())
    first, *rest = program.launches
    assert first.call is not None
    assert first.call.kind == "Each"
    assert [x.kernel.name for x in rest] == ["Gemm"]
    (body,) = first.call.bodies
    public = (*body.program.inputs, *body.program.outputs)
    assert {(body.program.tensors[n].shape or ())[0] for n in public} == {1}
    assert not any(x.performs("", "Gemm") for _, x in each(body.program))
    assert plan(timeline_of(program)).size < 4 * BATCH * 32 * SIZE * SIZE  # of one tensor between


def test_one_picture_and_small_ones_are_done_whole() -> None:
    assert not called(optimised(classifier(batch=1)))
    assert not called(optimised(classifier(size=16)))


def test_where_the_batch_is_a_symbol_no_size_within_is() -> None:
    (launch,) = called(optimised(classifier(), "N"))
    assert launch.call is not None
    assert launch.call.bodies[0].program.is_fixed


def test_the_map_of_exported_c_names_what_is_within() -> None:
    program = optimised(classifier())
    source = emit(program, plan(timeline_of(program)))
    first, last = name_map(program, source)["operations"]
    assert {n["op_type"] for n in last["nodes"]} == {"Gemm"}
    assert "calls" not in last
    (body,) = first["calls"]
    assert [n["name"] for x in body["operations"] for n in x["nodes"]] == [
        n["name"] for n in first["nodes"]
    ]
    assert all(x["function"] in source.main for x in body["operations"])
    assert len(body["weights"]) == 3


@pytest.mark.parametrize("compiler", ["gcc", "clang"])
@pytest.mark.parametrize("threads", [False, True])
def test_the_sanitizers_find_nothing_and_compilers_do_not_warn(
    threads: bool, compiler: str, tmp_path: Path, always: None
) -> None:
    """Exported C; its own test compares the bytes of plain loops."""
    net = classifier(size=8, classes=10)
    program = optimise(lower(net.graph()))
    assert called(program)
    workers = workers_of(program) if threads else None
    source = emit(program, plan(timeline_of(program)), workers=workers)
    results = NativeEngine(net.graph(), schedule=False).run(net.feeds)
    export(program, source, tmp_path, list(net.feeds.values()), list(results.values()))
    built = build(tmp_path, tmp_path, f"{compiler} {STRICT} {SANITIZED}")
    subprocess.run([built], check=True, stdout=subprocess.DEVNULL)


@pytest.mark.parametrize("threads", [1, 2, 3])
def test_bytes_are_the_machines_for_every_size_of_the_batch(threads: int) -> None:
    net = classifier()
    check_engines(net)
    engine = NativeEngine(net.graph("N"), threads=threads)
    for batch in (1, 2, 4, 0, 7):
        x = normal(np.random.default_rng(batch), batch, 3, SIZE, SIZE)
        want = NativeEngine(net.graph("N"), schedule=False).run({"x": x})
        for name, y in engine.run({"x": x}).items():
            assert y.tobytes() == want[name].tobytes(), batch


def test_threads_have_an_element_each_where_there_are_as_many() -> None:
    """N is M for one thread, and an element for each further one; with more threads than elements
    all work at the same one, and N does not grow by any."""
    net = classifier()
    sizes = [NativeEngine(net.graph(), threads=n).memory()[0] for n in (1, 2, 3, 4, 64)]
    (launch,) = called(optimised(net))
    assert launch.call is not None
    element = launch.call.bodies[0].plan.size
    assert [n - sizes[0] for n in sizes[:3]] == [0, element, 2 * element]
    assert max(sizes[3:]) < sizes[1]
    engine = NativeEngine(net.graph("N"), threads=64)
    assert engine.run(net.feeds)[net.outputs[0]].tobytes() == (
        NativeEngine(net.graph(), threads=1).run(net.feeds)[net.outputs[0]].tobytes()
    )


@pytest.mark.parametrize("family", FIRST)
def test_every_family_of_schedules_may_be_done_so(family: str, always: None) -> None:
    x = normal(np.random.default_rng(6), 3, *FAMILIES[family][1]) * 8
    net = made(family, x)
    assert called(optimised(net))
    assert called(optimised(net, "N"))
    want = NativeEngine(net.graph(), schedule=False).run({"x": x})
    for engine in (NativeEngine(net.graph()), NativeEngine(net.graph("N"), threads=2)):
        found = engine.run({"x": x})
        assert all(found[n].tobytes() == y.tobytes() for n, y in want.items())


def kernel(build: Callable[[Net, str], str]) -> Kernel:
    """The kernel of one operation on (4, 4, 4)."""
    net = Net()
    x = net.feed("x", normal(np.random.default_rng(2), 4, 4, 4))
    net.give(build(net, x))
    (launch,) = fold_constants(lower(net.graph())).launches
    return launch.kernel


def ints(*values: int) -> Array:
    return np.array(values, np.int64)


WEIGHT = normal(np.random.default_rng(3), 4, 4, 4)
APART: dict[str, Callable[[Net, str], str]] = {
    "each element": lambda n, x: n.op("Tanh", x),
    "a weight for each": lambda n, x: n.op("Mul", x, WEIGHT),
    "a sum within": lambda n, x: n.op("ReduceSum", x, ints(1)),
    "a softmax within": lambda n, x: n.op("Softmax", x, axis=1),
    "turned within": lambda n, x: n.op("Transpose", x, perm=[0, 2, 1]),
    "another shape": lambda n, x: n.op("Reshape", x, ints(4, 16)),
    "a product": lambda n, x: n.op("MatMul", x, WEIGHT[0]),
    "a product for each": lambda n, x: n.op("MatMul", x, WEIGHT),
}
MIXED: dict[str, Callable[[Net, str], str]] = {
    "a mean over the batch": lambda n, x: n.op("ReduceMean", x, ints(0), keepdims=0),
    "a softmax over the batch": lambda n, x: n.op("Softmax", x, axis=0),
    "a sum along the batch": lambda n, x: n.op("CumSum", x, np.array(0)),
    "the batch turned": lambda n, x: n.op("Transpose", x, perm=[1, 0, 2]),
    "the batch backwards": lambda n, x: n.op("Slice", x, *map(ints, (-1, -9, 0, -1))),
    "elements chosen": lambda n, x: n.op("Gather", x, ints(1, 1, 0, 3), axis=0),
    "another first axis": lambda n, x: n.op("Reshape", x, ints(2, 32)),
    "one of the batch": lambda n, x: n.op("Gather", x, np.array(1), axis=0),
    "one more": lambda n, x: n.op("Concat", x, WEIGHT[:1], axis=0),
}


@pytest.mark.parametrize("case", APART)
def test_what_is_computed_within_an_element_is_apart(case: str) -> None:
    whole = kernel(APART[case])
    found = element_of(whole, 4)
    assert found is not None
    one, scanned = found
    assert [b.shape for b in one.outputs] == [(1, *b.shape[1:]) for b in whole.outputs]
    assert whole.inputs[0] in scanned
    assert all((b in scanned) == (b is not None and len(b.shape) == 3) for b in whole.inputs)


@pytest.mark.parametrize("case", MIXED)
def test_what_mixes_the_batch_is_not(case: str) -> None:
    assert element_of(kernel(MIXED[case]), 4) is None


@pytest.mark.parametrize("batch", ["", "N"])
def test_windows_of_a_picture_are_rows_of_it(batch: str, always: None) -> None:
    """Seen as (N * 4, 16, 4), each picture has four."""
    net = Net()
    x = net.feed("x", normal(np.random.default_rng(2), 3, 8, 8, 4))
    x = net.op("Reshape", x, ints(-1, 2, 4, 2, 4, 4))
    x = net.op("Transpose", x, perm=[0, 1, 3, 2, 4, 5])
    x = net.op("MatMul", net.op("Reshape", x, ints(-1, 16, 4)), WEIGHT[0])
    net.give(net.op("Reshape", net.op("Softmax", x, axis=1), ints(-1, 4, 16, 4)))
    (launch,) = optimised(net, batch).launches
    assert launch.call is not None
    assert launch.call.bodies[0].program.tensors[x].shape == (4, 16, 4)
    check_engines(net)
    found = NativeEngine(net.graph("N")).run(net.feeds)
    want = NativeEngine(net.graph(), schedule=False).run(net.feeds)
    assert found[net.outputs[0]].tobytes() == want[net.outputs[0]].tobytes()


def test_what_comes_before_a_run_does_not_end_it(always: None) -> None:
    """A size, computed from a dim: no pass knows its value."""
    net = Net()
    x = net.op("Tanh", net.feed("x", normal(np.random.default_rng(2), 4, 4, 4)))
    rows = net.op("Cast", net.op("Shape", x, end=1), to=1)
    net.give(net.op("Tanh", net.op("Softmax", net.op("Mul", x, rows), axis=1)))
    program = optimised(net, "N")
    assert len(called(program)) == 1
    assert [x.call is None for x in program.launches] == [True, False]
    found = NativeEngine(net.graph("N")).run(net.feeds)
    want = NativeEngine(net.graph(), schedule=False).run(net.feeds)
    assert found[net.outputs[0]].tobytes() == want[net.outputs[0]].tobytes()


def test_an_index_that_may_be_out_of_bounds_is_found_where_it_is(always: None) -> None:
    """Its operation could not be told from within; what is around it is done so."""
    net = Net()
    x = net.feed("x", normal(np.random.default_rng(2), 4, 4, 4))
    at = net.feed("at", np.array([[9]] * 4))
    y = net.op("GatherElements", net.op("Flatten", net.op("Exp", x)), at, axis=1)
    net.give(net.op("ReduceSum", net.op("Exp", y), ints(1)))
    program = optimised(net)
    where = {launch.performs("", "GatherElements"): p is program for p, launch in each(program)}
    assert where == {True: True, False: False}
    with pytest.raises(RunError, match="GatherElements"):
        NativeEngine(net.graph()).run({**net.feeds, "at": np.array([[16]] * 4)})
    check_engines(net)


@pytest.mark.parametrize(
    "build",
    [
        lambda n, x: n.op("MatMul", n.op("Exp", x), n.op("Sin", n.op("Exp", x))),
        lambda n, x: n.op("MatMul", n.op("Exp", x), x),
        lambda n, x: n.op("MatMul", x, n.op("Exp", x)),
        lambda n, x: n.op("Exp", n.op("MatMul", x, x)),
        lambda n, x: n.op("Add", n.op("MatMul", WEIGHT[0], x), n.op("Exp", x)),
    ],
)
def test_a_tensor_is_read_whole_or_element_by_element(
    build: Callable[[Net, str], str], always: None
) -> None:
    net = Net()
    net.give(net.op("Tanh", build(net, net.feed("x", normal(np.random.default_rng(2), 4, 4)))))
    check_engines(net)


def test_schedules_of_elements_are_measured(own_cache: Path) -> None:
    net = classifier()
    table = own_cache / "schedules.json"
    engine = NativeEngine(net.graph(), tuning=Tuning(measure=True, file=table))
    assert len(read(table)) > 1
    want = NativeEngine(net.graph(), schedule=False).run(net.feeds)
    for name, y in engine.run(net.feeds).items():
        assert y.tobytes() == want[name].tobytes()


def test_what_is_done_several_times_is_timed_together() -> None:
    net = classifier()
    (run,) = timings(net.graph(), net.feeds, 1)
    found = [op.op_type for x in run for op in x.work.operations]
    assert sorted(found) == sorted(op.op_type for op in net.graph().operations)
    assert all(x.duration > 0 for x in run)
