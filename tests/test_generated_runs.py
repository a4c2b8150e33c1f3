"""For every operator that is no kernel of its own (functions, control flow, sequences, strings, and
what is sized by its data): the native engine gives the machine's bytes, or the same error.

The models are ONNX's smallest node cases, and our own where it has none; hypothesis draws what is
fed, from the values where arithmetic goes wrong first. What decides sizes stays as it is. The
operators that are kernels are in test_properties.py.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import Any

import numpy as np
import onnx
import pytest
from backend_suite import assert_equal_bytes, cases
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from kernels import edges
from ml_cases import ML
from onnx import TensorProto, helper
from test_properties import by_name

from sardonyx import types as t
from sardonyx.engines import Engine, make_engine
from sardonyx.errors import SardonyxError
from sardonyx.graph import Graph
from sardonyx.infer import value_inputs
from sardonyx.loading import load

Feeds = dict[str, Any]
REFUSED = ("ai.onnx.preview.training.Gradient",)
LARGEST = 1 << 12  # elements that are fed
SUBGRAPHS = ("If", "Loop", "Scan", "SequenceMap")
X = np.array([[1.5, -2.0, 0.0], [np.nan, np.inf, 3.0]], np.float32)
LETTERS = np.array(["a", "", "b c", "d\u00e9"], object)
SEQUENCE = "s = SequenceConstruct(x, x)"
OWN: dict[str, tuple[str, str, Feeds]] = {  # signature, nodes
    "ConcatFromSequence": ("(float[2,3] x) => (float[M,N] y)",
                           f"{SEQUENCE} y = ConcatFromSequence<axis = 1>(s)", {"x": X}),
    "GlobalLpPool": ("(float[1,2,3] x) => (float[1,2,1] y)", "y = GlobalLpPool<p = 3>(x)",
                     {"x": X[None]}),
    "MaxRoiPool": ("(float[1,1,2,3] x, float[1,5] r) => (float[1,1,2,2] y)",
                   "y = MaxRoiPool<pooled_shape = [2, 2]>(x, r)",
                   {"x": X[None, None], "r": np.array([[0, 0, 0, 1, 1]], np.float32)}),
    "Multinomial": ("(float[2,3] x) => (int32[2,5] y)",
                    "y = Multinomial<sample_size = 5, seed = 3.0>(x)", {"x": X}),
    "Optional": ("(float[2,3] x) => (optional(float[2,3]) y)", "y = Optional(x)", {"x": X}),
    "RandomNormal": ("(float[2,3] x) => (float[2,3] y)",
                     "r = RandomNormal<shape = [2, 3], seed = 1.0>() y = Add(x, r)", {"x": X}),
    "RandomNormalLike": ("(float[2,3] x) => (float[2,3] y)", "y = RandomNormalLike(x)", {"x": X}),
    "RandomUniform": ("(float[2,3] x) => (float[2,3] y)",
                      "r = RandomUniform<shape = [2, 3], high = 3.0>() y = Add(x, r)", {"x": X}),
    "RandomUniformLike": ("(float[2,3] x) => (double[2,3] y)",
                          "y = RandomUniformLike<dtype = 11, seed = 7.0>(x)", {"x": X}),
    "SequenceAt": ("(float[2,3] x, int64 i) => (float[2,3] y)", f"{SEQUENCE} y = SequenceAt(s, i)",
                   {"x": X, "i": np.array(-1, np.int64)}),
    "SequenceConstruct": ("(float[2,3] x) => (seq(float[2,3]) s)", SEQUENCE, {"x": X}),
    "SequenceEmpty": ("(float[2,3] x) => (seq(float[2,3]) y)",
                      "s = SequenceEmpty<dtype = 1>() y = SequenceInsert(s, x)", {"x": X}),
    "SequenceErase": ("(float[2,3] x, int64 i) => (seq(float[2,3]) y)",
                      f"{SEQUENCE} y = SequenceErase(s, i)",
                      {"x": X, "i": np.array(1, np.int64)}),
    "SequenceLength": ("(float[2,3] x) => (int64 y)", f"{SEQUENCE} y = SequenceLength(s)",
                       {"x": X}),
    f"{ML}.CategoryMapper": ("(string[4] x) => (int64[4] y)",
                             'y = ai.onnx.ml.CategoryMapper<cats_strings = ["a", "b c"], '
                             "cats_int64s = [4, 7]>(x)", {"x": LETTERS}),
}  # fmt: skip


def own(name: str) -> tuple[onnx.ModelProto, Feeds]:
    sign, body, feeds = OWN[name]
    head = f'<ir_version: 10, opset_import: ["": 21, "{ML}": 4]>'
    return onnx.parser.parse_model(f"{head} g {sign} {{ {body} }}"), feeds


def maps() -> Iterator[tuple[str, onnx.ModelProto, Feeds]]:
    """The operators on maps, which the text format has no types for."""
    tensor, value = helper.make_tensor_type_proto, helper.make_value_info
    floats = helper.make_map_type_proto(TensorProto.INT64, tensor(TensorProto.FLOAT, None))
    words = helper.make_map_type_proto(TensorProto.STRING, tensor(TensorProto.FLOAT, None))
    row = tensor(TensorProto.FLOAT, None)
    zipped = helper.make_sequence_type_proto(words)
    fed = {1: 1.5, 0: -2.0, 7: float("nan")}
    some = {"a": 1.5, "b": -0.0}
    for op, taken, made, x, attributes in (
        ("CastMap", floats, row, fed, {"map_form": "SPARSE", "max_map": 9}),
        ("DictVectorizer", words, row, some, {"string_vocabulary": ["b", "c", "a"]}),
        ("ZipMap", row, zipped, X, {"classlabels_strings": ["a", "b", "c"]}),
    ):
        node = helper.make_node(op, ["x"], ["y"], domain=ML, **attributes)
        graph = helper.make_graph([node], "g", [value("x", taken)], [value("y", made)])
        imports = [helper.make_opsetid("", 21), helper.make_opsetid(ML, 4)]
        yield f"{ML}.{op}", helper.make_model(graph, opset_imports=imports, ir_version=10), {"x": x}


@cache
def subjects() -> dict[str, tuple[onnx.ModelProto, Feeds]]:
    """By operator: the smallest model that has it, and what it is fed."""
    found: dict[str, tuple[int, onnx.ModelProto, Feeds]] = {}
    for case in (c for c in cases().values() if c.kind == "node"):
        model = case.model()
        for inputs, _ in case.data(model):
            feeds = dict(zip((i.name for i in model.graph.input), inputs, strict=False))
            size = sum(map(elements, feeds.values())) + len(model.graph.node)
            for node in model.graph.node:
                name = f"{node.domain or 'ai.onnx'}.{node.op_type}"
                if size < found.get(name, (LARGEST,))[0]:
                    found[name] = size, model, feeds
    every = {name: (model, feeds) for name, (_, model, feeds) in found.items()}
    every |= {name if "." in name else f"ai.onnx.{name}": own(name) for name in OWN}
    return every | {name: (model, feeds) for name, model, feeds in maps()}


def elements(x: Any) -> int:
    return sum(map(elements, x)) if isinstance(x, list | dict) else np.asarray(x).size


def wanted() -> list[str]:
    """The operators of the standard that test_properties.py does not try."""
    schemas = {f"{s.domain or 'ai.onnx'}.{s.name}" for s in onnx.defs.get_all_schemas()}
    return sorted(schemas - by_name().keys() - set(REFUSED))


def drawn(x: Any) -> st.SearchStrategy[Any]:
    """Values like x: as many, of its type, from the edges of it."""
    match x:
        case list():
            return st.tuples(*map(drawn, x)).map(list)
        case dict():
            return st.tuples(*map(drawn, x.values())).map(lambda v: dict(zip(x, v, strict=True)))
        case None | str():
            return st.just(x)
        case float():
            return st.floats(width=32)
    a = np.asarray(x)
    if a.dtype == object or a.dtype.kind in "US":
        text = st.text("ab \u00e9,.", max_size=4) | st.sampled_from(list(a.flat) or [""])
        return hnp.arrays(object, a.shape, elements=text)
    dtype = t.by_numpy(a.dtype)
    assert dtype is not None
    every = np.concatenate([edges(dtype).astype(a.dtype), a.reshape(-1)])
    at = hnp.arrays(np.int64, a.shape, elements=st.integers(0, len(every) - 1))
    return at.map(lambda i: every[i])


def outcome(engine: Engine, feeds: Feeds) -> list[Any] | str:
    """The outputs, or the kind of the error."""
    try:
        return list(engine.run(feeds).values())
    except SardonyxError as error:
        return type(error).__name__


def deciding(graph: Graph) -> set[str]:
    """The inputs whose values decide sizes, and small integers where control flow may use them."""
    flow = any(op.op_type in SUBGRAPHS for op in graph.operations)
    counts = {n for n, x in graph.types.items() if x.dtype is t.int64} if flow else set()
    return counts | set(value_inputs(graph))


def test_every_operator_of_the_standard_is_tried() -> None:
    assert set(wanted()) <= subjects().keys()


@pytest.mark.parametrize("name", wanted())
def test_the_engines_agree_whatever_is_fed(name: str) -> None:
    model, fed = subjects()[name]
    graph = load(model)
    kept = deciding(graph)
    machine, native = make_engine(graph, "machine"), make_engine(graph, "native")
    assert not isinstance(outcome(machine, fed), str)
    strategies = {n: st.just(x) if n in kept else drawn(x) for n, x in fed.items()}

    @settings(max_examples=8, database=None, derandomize=True,
              suppress_health_check=list(HealthCheck))  # fmt: skip
    @given(st.fixed_dictionaries(strategies))
    def holds(feeds: Feeds) -> None:
        expected, found = outcome(machine, feeds), outcome(native, feeds)
        if isinstance(expected, str) or isinstance(found, str):
            assert found == expected
        else:
            assert_equal_bytes(found, expected)

    holds()
