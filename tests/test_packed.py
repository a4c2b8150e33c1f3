"""Elements below 8 bits, packed in M: both engines, plans, weights, exported C and traces.

ONNX lets few operators take these types; the graphs here are made without its checker, so that
everything which moves elements is tried on them.
"""

from __future__ import annotations

import subprocess
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from kernels import STRICT as PLAIN
from nets import Net
from onnx import numpy_helper
from slices import ints
from targets import WITH_SANITIZERS, Target, compiled, lacking, results, write

from sardonyx import types as t
from sardonyx.cli import main
from sardonyx.engines import make_engine
from sardonyx.graph import Graph, Operation, Origin
from sardonyx.infer import infer
from sardonyx.loading import load
from sardonyx.machine import Machine
from sardonyx.native import NativeEngine
from sardonyx.trace import check, read, trace
from sardonyx.trace.replay import replay
from sardonyx.types import Array, DType, TensorType

PACKED = (t.int4, t.uint4, t.int2, t.uint2, t.float4e2m1, t.float6e2m3, t.float6e3m2)
ODD = (t.int4, t.uint2, t.float6e3m2)  # one of each width
Row = tuple[str, tuple[str | Array, ...], tuple[str, ...], dict[str, Any]]


def codes(dtype: DType, *shape: int) -> Array:
    """Elements with all codes of the type."""
    rng = np.random.default_rng(sum(shape))
    return rng.integers(0, 1 << dtype.bits, shape).astype(np.uint8).view(dtype.numpy)


def built(rows: Sequence[Row], feeds: Mapping[str, Array], outputs: Sequence[str]) -> Graph:
    """A graph of (operator, inputs, outputs, attributes); arrays among the inputs are weights."""
    operations, weights = [], dict[str, Array]()
    for i, (name, inputs, made, attributes) in enumerate(rows):
        names = []
        for x in inputs:
            names.append(x if isinstance(x, str) else f"w{len(weights)}")
            if not isinstance(x, str):
                weights[names[-1]] = x
        since = onnx.defs.get_schema(name).since_version
        origin = Origin(f"{name}{i}", (i,))
        operations.append(Operation(name, "", since, tuple(names), made, attributes, origin))
    types = {n: TensorType(dtype_of(v), v.shape) for n, v in {**feeds, **weights}.items()}
    graph = Graph(
        "g", tuple(feeds), tuple(outputs), (), weights, tuple(operations), types, {}, {}, {"": 25}
    )
    return infer(graph)


def dtype_of(x: Array) -> DType:
    found = t.by_numpy(x.dtype)
    assert found is not None
    return found


def agreed(graph: Graph, feeds: Mapping[str, Array]) -> dict[str, Array]:
    """The outputs of the machine, which the native engine gives too, scheduled and in plain loops,
    and which do not depend on what was in M before."""
    machine = Machine(graph).run(feeds)
    others = [NativeEngine(graph, schedule=s).run(feeds) for s in (True, False)]
    for found in (*others, Machine(graph, poison=0xA5).run(feeds)):
        for name, value in machine.items():
            assert (found[name].dtype, found[name].shape) == (value.dtype, value.shape)
            assert found[name].tobytes() == value.tobytes(), name
    return machine


@pytest.mark.parametrize("dtype", PACKED, ids=str)
def test_the_bytes_in_memory_are_those_of_raw_data(dtype: DType) -> None:
    for count in range(14):
        x = codes(dtype, count)
        data = t.pack(x)
        assert data.tobytes() == numpy_helper.from_array(x).raw_data
        assert len(data) == dtype.bytes(count)
        assert t.unpack(data, dtype, x.shape).tobytes() == x.tobytes()
    assert t.unpack(t.pack(codes(dtype)), dtype, ()).shape == ()


MOVES: dict[str, tuple[tuple[Any, ...], dict[str, Any], int]] = {
    # a dtype's name stands for its elements: ("x", shape)
    "Transpose": ((("x", 3, 5, 7),), {"perm": (2, 0, 1)}, 1),
    "Reshape": ((("x", 3, 7), ints(7, 3)), {}, 1),
    "Concat": ((("x", 3, 5), ("x", 3, 2)), {"axis": 1}, 1),
    "Split": ((("x", 3, 7), ints(3, 4)), {"axis": 1}, 2),
    "Slice": ((("x", 5, 7), ints(1, 6), ints(5, -9), ints(0, 1), ints(1, -2)), {}, 1),
    "Gather": ((("x", 5, 7), ints(4, 0, -1)), {"axis": 1}, 1),
    "GatherElements": ((("x", 3, 5), ints(1, 0, 4).reshape(3, 1)), {"axis": 1}, 1),
    "Where": ((np.arange(15).reshape(3, 5) % 2 == 0, ("x", 3, 5), ("x", 5)), {}, 1),
    "Pad": ((("x", 3, 5), ints(1, 0, 0, 2)), {}, 1),
    "Tile": ((("x", 3, 5), ints(1, 3)), {}, 1),
    "Expand": ((("x", 5), ints(3, 5)), {}, 1),
    "ScatterND": ((("x", 5, 3), ints(1, 4).reshape(2, 1), ("x", 2, 3)), {}, 1),
    "ScatterElements": ((("x", 3, 5), ints(2, 0, 1).reshape(1, 3), ("x", 1, 3)), {}, 1),
    "ReverseSequence": ((("x", 3, 4), ints(1, 2, 3, 3)), {}, 1),
    "DepthToSpace": ((("x", 1, 8, 3, 3),), {"blocksize": 2}, 1),
    "Identity": ((("x", 9),), {}, 1),
}
WIDE = {
    "Transpose": ((("x", 33, 40),), {"perm": (1, 0)}, 1),
    "Concat": ((("x", 21, 35), ("x", 21, 30)), {"axis": 1}, 1),
    "Slice": ((("x", 40, 37), ints(3), ints(39), ints(1)), {}, 1),
    "Pad": ((("x", 19, 45), ints(1, 3, 2, 5)), {}, 1),
}


@pytest.mark.parametrize("shape", [(), (0,), (3, 0), (1,), (2,), (3,), (257,), (5, 7)], ids=str)
def test_any_number_of_elements(shape: tuple[int, ...]) -> None:
    net = Net()
    for dtype in PACKED:
        x = net.feed(str(dtype), codes(dtype, *shape))
        wide = net.op("Cast", x, to=t.float32.onnx)
        net.give(wide, net.op("Cast", wide, to=dtype.onnx), net.op("Cast", x, to=t.uint4.onnx))
    found = agreed(net.graph(), net.feeds)
    for i, dtype in enumerate(PACKED):
        back = found[net.outputs[3 * i + 1]]
        zero = dtype.format.zero if dtype.format else 0
        fed = net.feeds[str(dtype)].view(np.uint8)
        assert back.view(np.uint8).tolist() == np.where(fed == zero, zero, fed).tolist()


@cache
def network(dtype: DType) -> tuple[Graph, dict[str, Array]]:
    """Quantised per tensor, per axis and in blocks; moved; dequantised; with weights that are not
    folded, and one that is a constant of a kernel."""
    net = Net()
    x = net.feed("x", np.random.default_rng(1).normal(size=(6, 35)).astype(np.float32) * 4)
    s = net.feed("s", np.float32(0.5))
    row = net.feed("row", np.linspace(0.2, 2, 6, dtype=np.float32))
    block = net.feed("block", np.linspace(0.2, 2, 42, dtype=np.float32).reshape(6, 7))
    made = []
    for scale, more in ((s, {}), (row, {"axis": 0}), (block, {"axis": 1, "block_size": 5})):
        q = net.op("QuantizeLinear", x, scale, output_dtype=dtype.onnx, **more)
        made += [q, net.op("DequantizeLinear", q, scale, **more)]
    turned = net.op("Transpose", made[0])
    joined = net.op("Reshape", net.op("Pad", turned, ints(1, 0, 0, 2)), ints(-1))
    weight = codes(dtype, 35, 3)
    folded = net.op("MatMul", x, net.op("DequantizeLinear", weight, np.float32(0.25)))
    fed = net.op("MatMul", x, net.op("DequantizeLinear", weight, s))
    again = net.op("QuantizeLinear", fed, s, output_dtype=dtype.onnx)
    soft = net.op("QuantizeLinear", net.op("Softmax", x), s, output_dtype=dtype.onnx)
    net.give(*made, turned, joined, net.op("DequantizeLinear", joined, s), folded, fed, again, soft)
    return net.graph(), net.feeds


@pytest.mark.parametrize("dtype", [*ODD[:2], t.float4e2m1], ids=str)
def test_quantised_graphs(dtype: DType) -> None:
    agreed(*network(dtype))


@pytest.mark.parametrize("dtype", ODD, ids=str)
def test_sizes_are_those_of_packed_elements(dtype: DType) -> None:
    """Of the tensor table, of N, of the weights, of what is written to memory."""
    x = codes(dtype, 1000, 3)
    rows: list[Row] = [
        ("Transpose", ("x",), ("y",), {"perm": (1, 0)}),
        ("Concat", ("y", codes(dtype, 3, 500)), ("z",), {"axis": 1}),
    ]
    graph, feeds = built(rows, {"x": x}, ["z"]), {"x": x}
    machine = Machine(graph, no_reuse=True).start(feeds)
    for _ in machine:
        pass
    sizes = {n: dtype.bytes(k) for n, k in (("x", 3000), ("y", 3000), ("w0", 1500), ("z", 4500))}
    assert {n: machine.table[n].size for n in sizes} == sizes
    assert machine.plan.size == sum(-(-n // 64) * 64 for n in sizes.values())
    values = {"x": x, "y": x.T, "z": machine.value("z")}
    for name, value in values.items():
        at = machine.table[name].offset
        data = machine.memory[at : at + sizes[name]]
        assert data.tobytes() == numpy_helper.from_array(np.ascontiguousarray(value)).raw_data
    engine = NativeEngine(graph)
    engine.run(feeds)
    compiled_ = engine.general()
    assert compiled_ is not None
    assert compiled_.source.blob.size == -(-sizes["w0"] // 64) * 64
    assert engine.memory()[0] <= -(-sizes["y"] // 64) * 64


def test_packed_elements_may_overwrite_one_another_in_place() -> None:
    """Where they are as wide; the neighbours in a byte are not lost."""
    rows: list[Row] = [
        ("Concat", ("x", "x"), ("a",), {"axis": 0}),
        ("Cast", ("a",), ("b",), {"to": t.uint4.onnx}),
        ("Concat", ("b", "b"), ("y",), {"axis": 0}),
    ]
    feeds = {"x": codes(t.int4, 501)}
    graph = built(rows, feeds, ["y"])
    machine = Machine(graph).start(feeds)
    assert machine.plan.in_place == {"b": "a"}
    assert agreed(graph, feeds)["y"].view(np.uint8).tolist() == (
        np.tile(feeds["x"].view(np.uint8), 4).tolist()
    )


def test_symbolic_sizes() -> None:
    """One compilation, padding and offsets by what is fed."""
    text = """<ir_version: 10, opset_import: ["": 21]> g (int4[N, M] x) => (int4[M, N] y, int8[N] z)
      { y = Transpose(x) c = Cast<to = 3>(x) m = Constant<value = int64[1] {1}>()
        z = ReduceMax<keepdims = 0>(c, m) }"""
    graph = load(onnx.parser.parse_model(text))
    engine, machine = NativeEngine(graph), Machine(graph)
    for shape in ((3, 5), (1, 1), (64, 33), (2, 7), (3, 5)):
        feeds = {"x": codes(t.int4, *shape)}
        for _ in range(2):  # the second run takes the short way
            found, wanted = engine.run(feeds), machine.run(feeds)
            assert {n: y.tobytes() for n, y in found.items()} == {
                n: y.tobytes() for n, y in wanted.items()
            }
    assert engine.general() is not None


BODIES = {
    "scanned, given and carried": (
        "(int4[5, 3] x, uint2[3] c, float s)",
        """u, y, z = Scan<num_scan_inputs = 1, body = b (uint2[3] v, int4[3] r)
             => (uint2[3] w, int4[3] o, uint2[3] p) {
             f = Cast<to = 1>(r)
             g = Cast<to = 1>(v)
             h = Add(f, g)
             w = Cast<to = 25>(h)
             o = QuantizeLinear<output_dtype = 22>(h, s)
             p = Identity(v)
           }>(c, x)""",
        "(uint2[3] u, int4[5, 3] y, uint2[5, 3] z)",
    ),
    "backwards": (
        "(int4[5, 3] x, uint2[3] c, float s)",
        """u, y = Scan<num_scan_inputs = 1, scan_input_directions = [1],
             scan_output_directions = [1], body = b (uint2[3] v, int4[3] r)
             => (uint2[3] w, int4[3] o) { w = Identity(v) o = Identity(r) }>(c, x)""",
        "(uint2[3] u, int4[5, 3] y)",
    ),
    "a loop": (
        "(int4[5, 3] x, uint2[3] c, float s)",
        """m = Constant<value = int64 {7}>()
           u, y = Loop(m, , c) <body = b (int64 i, bool k, uint2[3] v)
             => (bool l, uint2[3] w, uint2[3] o) {
             f = Cast<to = 1>(v)
             g = Add(f, s)
             w = Cast<to = 25>(g)
             o = Identity(v)
             l = Identity(k)
           }>""",
        "(uint2[3] u, uint2[7, 3] y)",
    ),
    "a branch": (
        "(int4[5, 3] x, uint2[3] c, float s)",
        """z = Constant<value = float {0.0}>()
           k = Less(s, z)
           y = If(k) <then_branch = t () => (int4[3, 5] a) { a = Transpose(x) },
                      else_branch = e () => (int4[3, 5] b) {
                        n = Constant<value = int64[2] {3, 5}>() b = Reshape(x, n) }>""",
        "(int4[3, 5] y)",
    ),
}  # fmt: skip


def control(name: str) -> onnx.ModelProto:
    inputs, body, outputs = BODIES[name]
    head = '<ir_version: 12, opset_import: ["": 25]>'
    return onnx.parser.parse_model(f"{head} g {inputs} => {outputs} {{ {body} }}")


CONTROL_FEEDS = {
    "x": codes(t.int4, 5, 3),
    "c": codes(t.uint2, 3),
    "s": np.array(1, np.float32),
}


@pytest.mark.parametrize("name", BODIES)
def test_rows_that_begin_within_a_byte(name: str) -> None:
    """Of what control flow scans, carries and gives; as one compiled program."""
    graph = load(control(name))
    machine = Machine(graph).run(CONTROL_FEEDS)
    for schedule in (True, False):
        found = NativeEngine(graph, schedule=schedule).run(CONTROL_FEEDS)
        assert {n: y.tobytes() for n, y in found.items()} == {
            n: y.tobytes() for n, y in machine.items()
        }


def test_values_of_sequences() -> None:
    """They lie outside M; what is taken out of them is packed again."""
    rows: list[Row] = [
        ("Transpose", ("x",), ("a",), {"perm": (1, 0)}),
        ("SequenceConstruct", ("a", "x"), ("s",), {}),
        ("SequenceInsert", ("s", "x", np.array(0)), ("i",), {}),
        ("SequenceAt", ("i", np.array(1)), ("b",), {}),
        ("Transpose", ("b",), ("y",), {"perm": (1, 0)}),
        ("ConcatFromSequence", ("i",), ("z",), {"axis": 0, "new_axis": 0}),
    ]
    feeds = {"x": codes(t.int4, 3, 3)}
    graph = built(rows, feeds, ["y", "z"])
    machine, native = Machine(graph).run(feeds), make_engine(graph, "native").run(feeds)
    assert machine["y"].tobytes() == native["y"].tobytes() == feeds["x"].tobytes()
    assert machine["z"].tobytes() == native["z"].tobytes()
    assert machine["z"].shape == (9, 3)


def every_move(dtype: DType) -> tuple[Graph, dict[str, Array]]:
    """All of MOVES and WIDE in one graph."""
    rows, feeds, outputs = list[Row](), dict[str, Array](), list[str]()
    for number, table in enumerate((MOVES, WIDE)):
        for name, (arguments, attributes, count) in table.items():
            key, inputs = f"{name}{number}", list[str | Array]()
            for x in arguments:
                inputs.append(f"{key}_{len(inputs)}" if isinstance(x, tuple) else x)
                if isinstance(x, tuple):
                    feeds[str(inputs[-1])] = codes(dtype, *x[1:])
            made = tuple(f"{key}_y{i}" for i in range(count))
            rows.append((name, tuple(inputs), made, attributes))
            outputs += made
    return built(rows, feeds, outputs), feeds


@pytest.mark.parametrize("dtype", ODD, ids=str)
def test_what_moves_elements_moves_packed_ones(dtype: DType) -> None:
    """As it moves the same codes in bytes of their own."""
    found = agreed(*every_move(dtype))
    _, feeds = every_move(dtype)
    plain, _ = every_move(t.uint8)
    expected = Machine(plain).run({n: x.view(np.uint8) for n, x in feeds.items()})
    assert {n: y.tobytes() for n, y in found.items()} == {
        n: y.tobytes() for n, y in expected.items()
    }


@pytest.mark.parametrize(
    ("compiler", "scheduled"),
    [("gcc", 1), ("gcc", 0), pytest.param("clang", 1, marks=pytest.mark.slow)],
)
def test_exported_c_takes_and_gives_packed_bytes(
    scheduled: int, compiler: str, tmp_path: Path
) -> None:
    """No warning, nothing for the sanitizers, allocations of the exact sizes; the bits after the
    last element are 0 (targets.cut)."""
    target = Target(compiler, WITH_SANITIZERS[compiler])
    if lacking(target):
        pytest.skip(lacking(target) or "")
    for i, case in enumerate((network(t.uint2), every_move(t.int4), every_move(t.float6e3m2))):
        graph, feeds = case
        written = write(graph, tmp_path / str(i), scheduled=bool(scheduled))
        found = results(written, target, compiled(written, target), feeds)
        expected = Machine(graph).run(feeds)
        assert {n: y.tobytes() for n, y in found.items()} == {
            n: y.tobytes() for n, y in expected.items()
        }


@pytest.mark.parametrize("name", BODIES)
def test_an_exported_folder_passes_its_test(name: str, tmp_path: Path) -> None:
    onnx.save(control(name), tmp_path / "net.onnx")
    np.savez(tmp_path / "net.npz", **CONTROL_FEEDS)
    arguments = ["compile", str(tmp_path / "net.onnx"), "--input", str(tmp_path / "net.npz")]
    assert main([*arguments, "-o", str(tmp_path / "c")]) == 0
    assert "packed as in ONNX's raw_data" in (tmp_path / "c" / "model.h").read_text()
    target = Target("gcc", WITH_SANITIZERS["gcc"])
    if lacking(target):
        pytest.skip(lacking(target) or "")
    units = sorted(map(str, (tmp_path / "c").glob("*.c")))
    command = [*target.command, *PLAIN, *units, "-o", str(tmp_path / "test"), "-lm"]
    subprocess.run(command, check=True)
    assert (
        "equal"
        in subprocess.run([tmp_path / "test"], capture_output=True, text=True, check=True).stdout
    )


@pytest.mark.parametrize("dtype", [t.int4, t.uint2], ids=str)
def test_traces_are_of_elements(dtype: DType) -> None:
    """Whole, disciplined, and each step gives its digests again."""
    graph, feeds = network(dtype)
    whole = read("".join(trace(graph, feeds)))
    assert check(whole) == []
    machine = Machine(graph).start(feeds)
    kept: dict[str, bytes] = {}
    list(trace(graph, feeds, keep=kept.__setitem__))
    outcomes = {r.outcome for r in replay(machine, whole.steps, True, kept.get)}
    assert outcomes == {"equal"}
