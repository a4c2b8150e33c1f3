# ruff: noqa: E501  # models as text, a line each
"""resolve gives a typed G for what is valid and one clear error of ours for what is not."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator

import numpy as np
import onnx
import pytest
from onnx import AttributeProto, ModelProto, TensorProto, helper, numpy_helper

from sardonyx.dims import symbol
from sardonyx.errors import InvalidModel, LimitExceeded, SardonyxError, UnsupportedModel
from sardonyx.graph import Graph
from sardonyx.infer import infer
from sardonyx.model import Limits, parse
from sardonyx.resolve import resolve

Change = Callable[[ModelProto], object]


def text(body: str, imports: str = '"": 17', ir: int = 8, sign: str = "", more: str = "") -> str:
    sign = sign or "(float[2, 3] x, bool c) => (float[2, 3] y)"
    return f"<ir_version: {ir}, opset_import: [{imports}]> g {sign} {{ {body} }} {more}"


def model(body: str, **rest: object) -> ModelProto:
    return parse(text(body, **rest)).proto


def changed(change: Change, body: str = "[n1] a = Neg(x) [n2] y = Relu(a)") -> ModelProto:
    proto = model(body)
    change(proto)
    return proto


def node(proto: ModelProto, index: int = 0) -> onnx.NodeProto:
    return proto.graph.node[index]


def types(graph: Graph) -> dict[str, str]:
    return {name: str(kind) for name, kind in graph.types.items()}


FN = '<opset_import: ["": 17, "f": 1], domain: "f">'
IF = "y = If(c) <then_branch = t () => (float[2, 3] u) {{ {} }}, else_branch = e () => (float[2, 3] v) {{ v = Neg(x) }}>"
TWO = '"": 17, "f": 1'

BAD: dict[str, tuple[ModelProto | str, str]] = {
    # names
    "unknown tensor": (text("[n] y = Add(x, z)"), r"Add 'n'.*'z'"),
    "cycle": (text("[n] a = Add(x, b) [m] b = Neg(a) y = Neg(b)"), r"cycle.*'n'.*'m'"),
    "self cycle": (text("[n] y = Add(x, y)"), r"cycle.*'n'"),
    "tensor made twice": (text("a = Neg(x) [n] a = Neg(x) y = Neg(a)"), r"'n'.*'a'.*already"),
    "node makes an input": (text("[n] x = Neg(x) y = Neg(x)"), r"'n'.*'x'.*already"),
    "one node makes it twice": (
        text("[n] a, a = Split(x)", sign="(float[2] x) => (float[1] a)"), r"'n'.*'a'"),
    "input twice": (
        changed(lambda m: m.graph.input.append(m.graph.input[0])), "input 'x' 2 times"),
    "output twice": (
        changed(lambda m: m.graph.output.append(m.graph.output[0])), "output 'y' 2 times"),
    "initializer twice": (
        changed(lambda m: m.graph.initializer.extend([helper.make_tensor("w", 1, [], [1])] * 2)),
        "initializer 'w' 2 times"),
    "initializer without a name": (
        changed(lambda m: m.graph.initializer.append(helper.make_tensor("", 1, [], [1]))),
        "without a name"),
    "input without a name": (changed(lambda m: m.graph.input.add()), "without a name"),
    "output that nothing makes": (changed(lambda m: m.graph.output.add(name="q")), "'q'"),
    "two types for a tensor": (
        changed(lambda m: m.graph.value_info.extend(
            helper.make_tensor_value_info("a", kind, [2, 3]) for kind in (1, 7))),
        "two types for 'a'"),
    "name not UTF-8": (
        model("[nnn] y = Relu(x)").SerializeToString().replace(b"nnn", b"\xff\xfe\xfd"),
        "UTF-8"),
    "subgraph shadows by a node": (text(IF.format("x = Neg(x) u = Neg(x)")), "'x'.*already"),
    "subgraph reads the unknown": (text(IF.format("u = Neg(q)")), "'q'"),
    "subgraph reads what reads it": (text(IF.format("u = Neg(z)") + " z = Neg(y)"), "'z'.*cycle"),
    "subgraph's tensor is not seen outside": (
        text(IF.format("u = Neg(x)").replace("y =", "b =") + " y = Neg(u)"), "'u'"),
    # operators
    "no operator": (changed(lambda m: node(m).ClearField("op_type")), "op_type"),
    "unknown operator": (text("[n] y = Foo(x)"), "'n'.*no operator 'Foo'"),
    "unknown operator set": (text("[n] y = z.Foo(x)", imports='"": 17, "z": 1'), "'n'.*'z'"),
    "operator set not imported": (text("[n] y = ai.onnx.ml.Scaler(x)"), "'n'.*opset_import"),
    "default set not imported": (text("[n] y = Neg(x)", imports='"ai.onnx.ml": 3'), "'n'.*import"),
    "future operator set": (text("[n] y = Neg(x)", imports='"": 999'), "'n'.*999"),
    "deprecated operator": (text("[n] y = Upsample<mode=\"nearest\">(x, x)"), "'n'.*deprecated"),
    "operator newer than the set": (text("[n] y = Gelu(x)"), "'n'.*Gelu"),
    "too many inputs": (text("[n] y = Relu(x, x)"), "'n' has 2 inputs, expected 1"),
    "too few inputs": (text("[n] y = Add(x)"), "'n' has 1 inputs, expected 2"),
    "too many outputs": (text("[n] y, z = Relu(x)"), "'n' has 2 outputs"),
    "no output": (changed(lambda m: node(m, 1).ClearField("output")), "'n2' has 0 outputs|'y'"),
    "a needed input is absent": (text('[n] y = Add("", x)'), "'n' lacks its A"),
    # attributes
    "unknown attribute": (text("[n] y = Relu<zeta = 1>(x)"), "'n'.*'zeta'"),
    "attribute of another type": (text("[n] y = Concat<axis = 1.5>(x)"), "'n'.*'axis' is FLOAT"),
    "required attribute": (text("[n] y = Concat(x)"), "'n' lacks its attribute 'axis'"),
    "attribute twice": (text("[n] y = Concat<axis = 0, axis = 0>(x)"), "'n'.*'axis' twice"),
    "attribute with two values": (
        changed(lambda m: node(m).attribute.add(name="k", type=AttributeProto.INT, i=1, f=2.0)),
        "'n1'.*'k'"),
    "attribute without a value": (
        changed(lambda m: node(m).attribute.add(name="k", type=AttributeProto.INT)), "'n1'.*'k'"),
    "attribute without a type": (
        changed(lambda m: node(m).attribute.add(name="k", i=1)), "'n1'.*'k'"),
    "attribute without a name": (
        changed(lambda m: node(m).attribute.add(type=AttributeProto.INT, i=1)), "'n1'"),
    "reference outside a function": (
        changed(lambda m: node(m).attribute.add(
            name="alpha", type=AttributeProto.FLOAT, ref_attr_name="b"),
            "[n1] y = LeakyRelu(x)"), "'n1'.*'alpha'"),
    "attribute text not UTF-8": (
        changed(lambda m: setattr(node(m).attribute[0], "s", b"\xff"),
            '[n1] k = Constant<value_string = "a">() y = Relu(x)'), "'n1'.*UTF-8"),
    "bad tensor in a Constant": (
        changed(lambda m: node(m).attribute[0].t.ClearField("float_data"),
                "[n1] k = Constant<value = float[1] {1.0}>() y = Add(x, k)"), "value of Constant 'n1'"),
    # types and shapes
    "types do not match": (text("s = Shape(x) [n] y = Add(x, s)"), "n"),
    "type not allowed": (text("[n] y = Relu(c)", sign="(bool[2] c) => (bool[2] y)"), "n"),
    "shapes do not match": (text("k = Constant<value = float[4] {1,2,3,4}>() [n] y = Add(x, k)"), "node name: n"),
    "axis out of range": (text("[n] y = Concat<axis = 9>(x, x)"), "node name: n"),
    "stride 0": (text("[n] y = MaxPool<kernel_shape = [1], strides = [0]>(x)",
                      sign="(float[1, 2, 3] x) => (float[1, 2, 3] y)"), "node name: n"),
    "declared shape is wrong": (text("[n] y = Relu(x)", sign="(float[2] x) => (float[3] y)"), "node name: n|'y'"),
    "declared type is wrong": (text("[n] y = Relu(x)", sign="(float[2] x) => (int64[2] y)"), "y|n"),
    "permutation out of range": (text("[n] y = Transpose<perm = [7, -5]>(x)"), "node name: n"),
    "input without a type": (changed(lambda m: m.graph.input[0].ClearField("type")), "'x'"),
    "input of undefined element type": (
        changed(lambda m: m.graph.input[0].type.tensor_type.ClearField("elem_type")), "'x'"),
    "negative dim": (text("y = Relu(x)", sign="(float[-5] x) => (float y)"), "'x'.*-5"),
    "dims overflow": (
        text("y = Relu(x)", sign=f"(float[{2**62}, {2**62}] x) => (float[A, B] y)"), "'x'"),
    "rank": (text("y = Relu(x)", sign=f"(float[{','.join('1' * 40)}] x) => (float y)"), "rank.*'x'"),
    "initializer differs from its input": (
        text("y = Relu(x)", sign="(float[2] x) => (float[2] y) <float[3] x = {1.0, 2.0, 3.0}>"), "'x'"),
    # functions
    "recursion": (text("y = f.a(x)", imports=TWO, more=f"{FN} a (p) => (q) {{ q = f.a(p) }}"), "themselves.*f::a"),
    "mutual recursion": (
        text("y = f.a(x)", imports=TWO,
             more=f"{FN} a (p) => (q) {{ q = f.b(p) }} {FN} b (p) => (q) {{ q = f.a(p) }}"), "themselves.*f::b"),
    "function defined twice": (
        text("y = f.a(x)", imports=TWO, more=f"{FN} a (p) => (q) {{ q = Neg(p) }}" * 2), "f::a is defined twice"),
    "function reads the unknown": (
        text("y = f.a(x)", imports=TWO, more=f"{FN} a (p) => (q) {{ q = Neg(x) }}"), "f::a.*'x'"),
    "function lacks its output": (
        text("y = f.a(x)", imports=TWO, more=f"{FN} a (p) => (q) {{ r = Neg(p) }}"), "f::a.*'q'"),
    "function's input twice": (
        text("y = f.a(x, x)", imports=TWO, more=f"{FN} a (p, p) => (q) {{ q = Neg(p) }}"), "f::a.*'p'"),
    "call with too many inputs": (
        text("[n] y = f.a(x, x)", imports=TWO, more=f"{FN} a (p) => (q) {{ q = Neg(p) }}"), "'n' has 2 inputs"),
    "call with an unknown attribute": (
        text("[n] y = f.a<k = 1>(x)", imports=TWO, more=f"{FN} a (p) => (q) {{ q = Neg(p) }}"), "'n'.*'k'"),
    "attribute of another type than its use": (
        text("[n] y = f.a<k = 1>(x)", imports=TWO,
             more=f"{FN} a <k> (p) => (q) {{ q = LeakyRelu<alpha: float = @k>(p) }}"), "'n'.*'k'"),
    "unknown operator in a function": (
        text("[n] y = f.a(x)", imports=TWO, more=f"{FN} a (p) => (q) {{ [m] q = Foo(p) }}"), "n/m.*Foo"),
    "function imports a set twice": (
        text("[n] y = f.a(x)", imports=TWO,
             more='<opset_import: ["": 17, "": 16], domain: "f"> a (p) => (q) { q = Neg(p) }'), "f::a.*twice"),
    "wrong types in a function": (
        text("[n] y = f.a(x)", imports=TWO, more=f"{FN} a (p) => (q) {{ s = Shape(p) [m] q = Add(p, s) }}"), "n/m"),
}  # fmt: skip


@pytest.mark.parametrize("case", BAD)
def test_a_bad_model_gives_one_error_that_names_the_culprit(case: str) -> None:
    given, pattern = BAD[case]
    source = parse(given) if isinstance(given, str) else given
    with pytest.raises(SardonyxError, match=pattern) as caught:
        resolve(source)
    assert isinstance(caught.value, InvalidModel | UnsupportedModel | LimitExceeded)
    assert str(caught.value).startswith(("the model", "the text"))


def test_there_are_at_least_sixty_bad_models() -> None:
    assert len(BAD) >= 60


def test_a_doubling_chain_of_functions_is_refused_at_once() -> None:
    steps = "".join(
        f"{FN} a{i} (p) => (q) {{ r = f.a{i + 1}(p) q = f.a{i + 1}(r) }}" for i in range(40)
    )
    body = text("y = f.a0(x)", imports=TWO, more=steps + f"{FN} a40 (p) => (q) {{ q = Neg(p) }}")
    start = time.monotonic()
    with pytest.raises(LimitExceeded, match="inlined_nodes"):
        resolve(parse(body))
    assert time.monotonic() - start < 5


def test_operators_resolve_to_domain_name_and_version() -> None:
    graph = resolve(parse(text("[n] a = ai.onnx.Relu(x) y = Add(a, x)")))
    assert [(o.domain, o.op_type, o.since) for o in graph.operations] == [
        ("", "Relu", 14),
        ("", "Add", 14),
    ]
    assert str(graph.operations[0].origin) == "n"
    assert str(graph.operations[1].origin) == "#1"


def test_attributes_become_python_values() -> None:
    body = '[n] y = MaxPool<kernel_shape = [1], auto_pad = "VALID", ceil_mode = 1>(x)'
    graph = resolve(parse(text(body, sign="(float[1, 2, 3] x) => (float[1, 2, 3] y)")))
    (op,) = graph.operations
    assert op.attributes == {"kernel_shape": (1,), "auto_pad": "VALID", "ceil_mode": 1}
    assert op.origin.explicit == {"kernel_shape", "auto_pad", "ceil_mode"}


def test_named_dims_keep_their_names_and_others_get_symbols_of_their_own() -> None:
    graph = resolve(parse(text("y = Relu(x)", sign="(float[N, ?, 3] x) => (float[A, B, 3] y)")))
    assert graph.types["x"].shape == (symbol("N"), symbol("x_1"), 3)
    assert graph.types["y"].shape == (symbol("N"), symbol("x_1"), 3)
    assert graph.unnamed == {"x_1"}
    assert graph.symbols == ("N", "x_1")


def test_a_symbol_of_our_own_never_takes_a_name_of_the_model() -> None:
    graph = resolve(parse(text("y = Relu(x)", sign="(float[x_1, ?] x) => (float[A, B] y)")))
    assert graph.types["x"].shape == (symbol("x_1"), symbol("x_1_2"))


def test_functions_are_inlined_under_names_of_their_own() -> None:
    body = (
        f"{FN} a <k: float = 2.0> (p, r) => (q, s)"
        "{ t = LeakyRelu<alpha: float = @k>(p) q = Neg(t) s = Identity(r) }"
    )
    graph = resolve(
        parse(text("[n] t, u = f.a<k = 3.0>(x, x) [m] y = f.a(t, x)", imports=TWO, more=body))
    )
    made = [(str(o.origin), o.inputs, o.outputs) for o in graph.operations[:3]]
    assert made == [
        ("n/LeakyRelu", ("x",), ("n/t",)),
        ("n/Neg", ("n/t",), ("t",)),
        ("n/Identity", ("x",), ("u",)),
    ]
    assert [o.attributes["alpha"] for o in graph.operations if o.op_type == "LeakyRelu"] == [3, 2]
    assert graph.operations[0].origin.path == (0, 0)


def test_a_function_that_returns_its_input_becomes_an_identity() -> None:
    body = f"{FN} a (p) => (p) {{ q = Neg(p) }}"
    graph = resolve(parse(text("y = f.a(x)", imports=TWO, more=body)))
    assert [o.op_type for o in graph.operations] == ["Neg", "Identity"]
    assert graph.operations[1].outputs == ("y",)


def test_a_function_keeps_the_operator_versions_that_it_imports() -> None:
    body = '<opset_import: ["": 11], domain: "f"> a (p) => (q) { q = ReduceSum<axes = [1]>(p) }'
    graph = resolve(
        parse(text("y = f.a(x)", imports=TWO, more=body, sign="(float[2, 3] x) => (float[2, 1] y)"))
    )
    assert graph.operations[0].since == 11


def test_schema_bodies_stand_for_operators_without_a_definition() -> None:
    graph = resolve(parse(text("y = Mish(x)", imports='"": 18')))
    from sardonyx.ops.registry import find

    expected = {"Mish"} if find("", "Mish", 18) else {"Tanh", "Mul"}
    assert expected <= {o.op_type for o in graph.operations}


def test_subgraphs_capture_names_around_them() -> None:
    graph = resolve(parse(text("a = Neg(x) " + IF.format("w = Neg(a) u = Add(w, x)"))))
    branch = graph.operations[1].subgraphs["then_branch"]
    assert branch.inputs == ()
    assert branch.outputs == ("u",)
    assert graph.consumers()["a"] == [1]
    assert types(branch)["w"] == "float32[2, 3]"


def test_calls_in_subgraphs_are_inlined() -> None:
    more = f"{FN} a (p) => (q) {{ t = Neg(p) q = Neg(t) }}"
    graph = resolve(parse(text(IF.format("[n] u = f.a(x)"), imports=TWO, more=more)))
    branch = graph.operations[0].subgraphs["then_branch"]
    assert [o.outputs for o in branch.operations] == [("n/t",), ("u",)]


def test_strings_have_a_type_and_sequences_are_containers() -> None:
    sign = "(string[2] s, seq(float[2]) q) => (string[2] t, seq(float[2]) r)"
    graph = resolve(parse(text("t = Identity(s) r = Identity(q)", imports='"": 16', sign=sign)))
    assert graph.inputs == ("s", "q")
    assert graph.outputs == ("t", "r")
    assert str(graph.types["t"]) == "string[2]"
    assert "q" not in graph.types
    assert str(graph.containers["r"]) == "sequence(float32[2])"
    assert graph.symbols == ()


def test_large_weights_do_not_reach_inference_and_keep_their_types() -> None:
    proto = model("a = MatMul(x, w) k = Constant<value = float[1] {1.0}>() y = Add(a, k)",
                  sign="(float[2, 3] x) => (float[M, N] y)")  # fmt: skip
    weight = np.arange(3 * 5000, dtype=np.float32).reshape(3, 5000)
    proto.graph.initializer.append(numpy_helper.from_array(weight, "w"))
    big = numpy_helper.from_array(np.ones(5000, np.float32))
    proto.graph.node[1].attribute[0].t.CopyFrom(big)
    before = proto.SerializeToString()
    graph = resolve(proto)
    assert types(graph)["y"] == "float32[2, 5000]"
    assert types(graph)["w"] == "float32[3, 5000]"
    assert (graph.initializers["w"] == weight).all()
    assert graph.operations[1].attributes["value"].shape == (5000,)
    assert proto.SerializeToString() == before


def test_sparse_initializers_are_dense_in_the_graph() -> None:
    proto = model("y = Add(x, w)")
    values = helper.make_tensor("w", TensorProto.FLOAT, [1], [5])
    indices = helper.make_tensor("i", TensorProto.INT64, [1], [4])
    proto.graph.sparse_initializer.append(helper.make_sparse_tensor(values, indices, [2, 3]))
    assert resolve(proto).initializers["w"].tolist() == [[0, 0, 0], [0, 5, 0]]


def test_a_column_and_a_row_broadcast_whatever_onnx_takes_their_values_for() -> None:
    one = "<int64[1] one = {1}>"
    proto = model(
        "u = Unsqueeze(x, one) y = Add(u, z)",
        sign=f"(float[5] x, float[3] z) => (float[5, 3] y) {one}",
    )
    assert types(resolve(proto))["y"] == "float32[5, 3]"


def test_a_dim_of_minus_one_is_unknown() -> None:
    graph = resolve(parse(text("y = Relu(x)", sign="(float[-1, 2] x) => (float[A, 2] y)")))
    assert graph.types["x"].shape == (symbol("x_0"), 2)


@pytest.mark.parametrize("name", ["?", "-1", "None"])
def test_a_dim_whose_name_says_nothing_is_nameless(name: str) -> None:
    proto = model("y = Relu(x)", sign="(float[A, A] x) => (float[A, 2] y)")
    for info in (proto.graph.input[0], proto.graph.output[0]):
        info.type.tensor_type.shape.dim[0].dim_param = name
    proto.graph.input[0].type.tensor_type.shape.dim[1].dim_param = name
    graph = resolve(proto)
    assert graph.types["x"].shape == graph.types["y"].shape == (symbol("x_0"), symbol("x_1"))


def seeds() -> list[bytes]:
    bodies = [
        text("a = Neg(x) y = Relu(a)"),
        text(IF.format("u = Neg(x)")),
        text("y = f.a(x)", imports=TWO, more=f"{FN} a (p) => (q) {{ q = Neg(p) }}"),
        text("k = Constant<value = int64[2] {3, 2}>() y = Reshape(x, k)"),
    ]
    return [parse(body).proto.SerializeToString() for body in bodies]


def mutants(number: int) -> Iterator[bytes]:
    chance = random.Random(number)
    bases = seeds()
    for _ in range(number):
        data = bytearray(chance.choice(bases))
        for _ in range(chance.choice((1, 1, 2, 4))):
            at = chance.randrange(len(data))
            match chance.randrange(4):
                case 0:
                    data[at] ^= 1 << chance.randrange(8)
                case 1:
                    data[at] = chance.choice((0, 1, 127, 128, 255))
                case 2:
                    del data[at : at + chance.randrange(1, 5)]
                case _:
                    data[at:at] = data[at : at + chance.randrange(1, 9)]
        yield bytes(data)


def survive(number: int) -> None:
    for data in mutants(number):
        try:
            resolve(data, Limits(type_seconds=20))
        except SardonyxError:
            continue


def test_mutants_raise_nothing_but_our_errors() -> None:
    survive(300)


@pytest.mark.slow
def test_many_mutants_raise_nothing_but_our_errors() -> None:
    survive(100_000)


def test_a_transposed_convolution_may_be_smaller_than_its_input() -> None:
    """ONNX's own inference says two dims there."""
    proto = model(
        "t = ConvTranspose<output_shape = [3, 19], strides = [1, 3]>(x, w) y = MaxPool<kernel_shape = [2, 2]>(t)",
        sign="(float[1, 4, 4, 6] x, float[4, 2, 2, 4] w) => (float[1, 2, 2, 18] y)",
    )
    graph = resolve(proto)
    assert str(infer(graph).types["t"]) == "float32[1, 2, 3, 19]"
