"""Runs and models, good and bad: sardonyx.ort does as the installed onnxruntime does."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import pytest
from onnx import TensorProto, helper
from ort_models import INTS, RELU, F, I, X, assert_same_outcome, model, opset, outcome, two_inputs

from sardonyx import ort
from sardonyx.errors import FeedError, ModelError, RunError
from sardonyx.ort.capi import onnxruntime_pybind11_state as state

pytestmark = pytest.mark.usefixtures("machine_engine")


def changed(**edit: Any) -> bytes:
    made = model()
    for field, value in edit.items():
        setattr(made, field, value)
    return bytes(made.SerializeToString())


def read_only(x: Any) -> Any:
    x = x.copy()
    x.flags.writeable = False
    return x


RUNS: dict[str, tuple[Any, Any]] = {
    "None names all outputs": (None, {"x": X}),
    "an empty list names all outputs": ([], {"x": X}),
    "a list of names": (["y"], {"x": X}),
    "a tuple of names": (("y",), {"x": X}),
    "a name twice": (["y", "y"], {"x": X}),
    "a wrong output": (["z"], {"x": X}),
    "an input as output": (["x"], {"x": X}),
    "a missing input": (None, {}),
    "an extra input": (None, {"x": X, "q": X}),
    "float64 for float32": (None, {"x": X.astype(np.float64)}),
    "int64 for float32": (None, {"x": X.astype(np.int64)}),
    "a wrong rank": (None, {"x": X[0]}),
    "a wrong size": (None, {"x": np.ones((2, 4), np.float32)}),
    "a list": (None, {"x": [[1, 2, 3]]}),
    "a list of arrays": (None, {"x": [np.ones(3)]}),
    "objects": (None, {"x": X.astype(object)}),
    "strings": (None, {"x": np.array([["a", "b", "c"]])}),
    "columns first": (None, {"x": np.asfortranarray(X)}),
    "every other row": (None, {"x": np.repeat(X, 2, 0)[::2]}),
    "read-only": (None, {"x": read_only(X)}),
    "a batch of none": (None, {"x": np.ones((0, 3), np.float32)}),
    "a number as name": (None, {1: X}),
    "a ragged list": (None, {"x": [[1.5, 2, 3], [1]]}),
    "a number": (None, {"x": 1.5}),
    "a scalar": (None, {"x": np.float32(1.5)}),
    "a text": (None, {"x": "abc"}),
    "a tuple": (None, {"x": ((1, 2, 3),)}),
}


@pytest.mark.parametrize("case", RUNS)
def test_run_does_as_onnxruntime(case: str) -> None:
    names, feeds = RUNS[case]
    theirs = onnxruntime.InferenceSession(RELU)
    ours = ort.InferenceSession(RELU)
    expected = outcome(lambda: theirs.run(names, feeds))
    found = outcome(lambda: ours.run(names, feeds))
    if isinstance(expected, RuntimeError) and "type <class" in str(expected):
        assert_same_outcome(found, expected, "Unable to handle object of type")
    elif isinstance(expected, RuntimeError):
        assert_same_outcome(found, expected, str(expected).split(" for input")[0])
    else:
        assert_same_outcome(found, expected)
    if isinstance(found, Exception):
        assert isinstance(found, FeedError)


@pytest.mark.parametrize("names", ["y", [1]], ids=["a text", "a number"])
def test_wrong_kinds_of_output_names_are_type_errors(names: Any) -> None:
    with pytest.raises(TypeError):
        onnxruntime.InferenceSession(RELU).run(names, {"x": X})
    with pytest.raises(TypeError, match="a list of names"):
        ort.InferenceSession(RELU).run(names, {"x": X})


def test_big_endian_feeds_are_read_right() -> None:
    found = ort.InferenceSession(RELU).run(None, {"x": X.astype(">f4")})
    np.testing.assert_array_equal(found[0], np.maximum(X, 0))


def test_a_list_takes_the_type_of_the_input() -> None:
    for feed in ([[1.5, 2, 3]], [[1, 2, 3]], [["a", "b", "c"]], [[1 << 70, 1, 2]]):
        expected = outcome(lambda: onnxruntime.InferenceSession(INTS).run(None, {"x": feed}))  # noqa: B023  # called at once
        found = outcome(lambda: ort.InferenceSession(INTS).run(None, {"x": feed}))  # noqa: B023  # called at once
        assert_same_outcome(found, expected)


def test_two_sizes_of_one_dim_are_refused() -> None:
    made = helper.make_model(
        helper.make_graph(
            [helper.make_node("Add", ["a", "b"], ["c"])],
            "g",
            [helper.make_tensor_value_info(n, F, ["N"]) for n in "ab"],
            [helper.make_tensor_value_info("c", F, ["N"])],
        ),
        ir_version=10,
        opset_imports=[opset(21)],
    )
    with pytest.raises(state.InvalidArgument, match="N=2") as raised:
        ort.InferenceSession(made).run(None, {"a": X[:, 0], "b": X[0]})
    assert isinstance(raised.value, FeedError)


def test_a_trap_is_an_invalid_argument_and_a_run_error() -> None:
    gather = two_inputs("Gather", (3,), (1,), (1,), second=I)
    feeds = {"a": np.ones(3, np.float32), "b": np.array([7])}
    expected = outcome(lambda: onnxruntime.InferenceSession(gather).run(None, feeds))
    found = outcome(lambda: ort.InferenceSession(gather).run(None, feeds))
    words = "[ONNXRuntimeError] : 2 : INVALID_ARGUMENT : Non-zero status code returned while"
    assert_same_outcome(found, expected, words)
    assert isinstance(found, RunError)


def test_terminate_ends_a_run() -> None:
    for api in (onnxruntime, ort):
        options = api.RunOptions()
        options.terminate = True
        session = api.InferenceSession(RELU)
        error = outcome(lambda: session.run(None, {"x": X}, options))  # noqa: B023  # called at once
        assert str(error) == (
            "[ONNXRuntimeError] : 1 : FAIL : Exiting due to terminate flag being set to true."
        )


MODELS: dict[str, tuple[Any, str]] = {
    "no file": ("/nonexistent.onnx", "[ONNXRuntimeError] : 3 : NO_SUCHFILE : Load model from "),
    "a folder": ("/", "[ONNXRuntimeError] : 7 : INVALID_PROTOBUF : Load model from / failed:Proto"),
    "garbage": (b"garbage", "[ONNXRuntimeError] : 7 : INVALID_PROTOBUF : Failed to load model be"),
    "no bytes": (b"", "[ONNXRuntimeError] : 2 : INVALID_ARGUMENT : No graph was found in the pro"),
    "a number": (5, "Unable to load from type '<class 'int'>'"),
    "None": (None, "Unable to load from type '<class 'NoneType'>'"),
    "an unknown operator": (
        model("Nope").SerializeToString(),
        "[ONNXRuntimeError] : 10 : INVALID_GRAPH : This is an invalid model. ",
    ),
    "a domain that is not imported": (
        model(domain="foo.bar").SerializeToString(),
        "[ONNXRuntimeError] : 10 : INVALID_GRAPH : This is an invalid model. ",
    ),
    "a type that the operator does not take": (
        model(dtype=TensorProto.STRING).SerializeToString(),
        "[ONNXRuntimeError] : 10 : INVALID_GRAPH : This is an invalid model. ",
    ),
    "an IR version of the future": (changed(ir_version=99), "[ONNXRuntimeError] : 1 : FAIL : "),
    "an operator set of the future": (
        helper.make_model(
            model().graph, ir_version=10, opset_imports=[opset(999)]
        ).SerializeToString(),
        "[ONNXRuntimeError] : 1 : FAIL : ",
    ),
}


@pytest.mark.parametrize("case", MODELS)
def test_bad_models_raise_as_in_onnxruntime(case: str) -> None:
    source, words = MODELS[case]
    expected = outcome(lambda: onnxruntime.InferenceSession(source))
    found = outcome(lambda: ort.InferenceSession(source))
    assert str(expected).startswith(words)
    assert_same_outcome(found, expected, words)
    assert isinstance(found, TypeError | ModelError)


def test_an_operator_that_sardonyx_lacks_is_not_implemented() -> None:
    made = model("Gradient", domain="ai.onnx.preview.training")
    made.graph.node[0].attribute.extend(
        [helper.make_attribute("xs", ["x"]), helper.make_attribute("y", "x")]
    )
    made.opset_import.add(domain=made.graph.node[0].domain, version=1)
    with pytest.raises(state.NotImplemented, match=r"9 : NOT_IMPLEMENTED : .*Gradient-1"):
        ort.InferenceSession(made)


def test_a_model_is_a_path_a_pathlike_bytes_or_a_proto(tmp_path: Path) -> None:
    path = tmp_path / "m.onnx"
    path.write_bytes(RELU)
    for source in (str(path), path, RELU, model()):
        np.testing.assert_array_equal(
            ort.InferenceSession(source).run(["y"], {"x": X})[0], np.maximum(X, 0)
        )
    assert ort.InferenceSession(path)._model_path == str(path)
    assert ort.InferenceSession(RELU)._model_path is None


def test_names_of_outputs_may_come_from_a_generator() -> None:
    names = [i.name for i in ort.InferenceSession(RELU).get_outputs()]
    for api in (onnxruntime, ort):
        session = api.InferenceSession(RELU)
        for _ in range(2):  # the second run is the quick one
            assert len(session.run((name for name in names), {"x": X})) == len(names)


SET: list[tuple[str, object]] = [
    ("intra_op_num_threads", np.int64(3)),
    ("enable_mem_pattern", np.bool_(False)),
    ("enable_mem_pattern", np.int64(0)),
    ("enable_mem_pattern", 2),
    ("enable_mem_pattern", "no"),
    ("intra_op_num_threads", 1.5),
    ("intra_op_num_threads", 2**31),
    ("inter_op_num_threads", -(2**31) - 1),
]


@pytest.mark.parametrize(("field", "value"), SET)
def test_options_take_the_numbers_that_onnxruntime_takes(field: str, value: object) -> None:
    found: list[object] = []
    for api in (onnxruntime, ort):
        options = api.SessionOptions()
        try:
            setattr(options, field, value)
            found.append((type(getattr(options, field)), getattr(options, field)))
        except TypeError:
            found.append(TypeError)
    assert found[0] == found[1]


@pytest.mark.parametrize(("key", "value"), [("", "b"), ("a" * 1025, "b"), ("a" * 1024, "b")])
def test_config_entries_are_refused_as_by_onnxruntime(key: str, value: str) -> None:
    theirs, ours = (
        outcome(lambda: api.SessionOptions().add_session_config_entry(key, value))  # noqa: B023  # called at once
        for api in (onnxruntime, ort)
    )
    assert_same_outcome(ours, theirs)


def test_what_is_no_text_or_no_number_is_refused_when_it_is_set() -> None:
    with pytest.raises(TypeError, match="two strings"):
        ort.SessionOptions().add_session_config_entry("a", 1)  # type: ignore[arg-type]  # the error is the point
    with pytest.raises(TypeError):
        ort.set_seed("a")  # type: ignore[arg-type]  # the error is the point


BOUND: dict[str, tuple[dict[str, Any], str]] = {
    "all": ({"a": X, "b": X}, "c"),
    "no input": ({}, "c"),
    "one of two": ({"a": X}, "c"),
    "a wrong output": ({"a": X, "b": X}, "q"),
    "another type": ({"a": X, "b": X.astype(np.float64)}, "c"),
    "another size": ({"a": X, "b": X[:, :2]}, "c"),
}


@pytest.mark.parametrize("name", BOUND)
def test_what_is_bound_is_run_or_refused_alike(name: str) -> None:
    feeds, output = BOUND[name]
    results = []
    for api in (onnxruntime, ort):
        session = api.InferenceSession(two_inputs("Add", X.shape, X.shape, X.shape))
        binding = session.io_binding()
        for fed, value in feeds.items():
            binding.bind_cpu_input(fed, value)

        def work(session: Any = session, binding: Any = binding) -> Any:
            binding.bind_output(output)
            session.run_with_iobinding(binding)
            return binding.copy_outputs_to_cpu()

        results.append(outcome(work))
    assert_same_outcome(results[1], results[0], "Error in execution: ")


@pytest.mark.parametrize("path", ["/nowhere/net.onnx", "{folder}/net.onnx"])
def test_a_path_of_the_optimised_model_is_checked_alike(path: str, tmp_path: Path) -> None:
    results = []
    for api in (onnxruntime, ort):
        options = api.SessionOptions()
        options.optimized_model_filepath = path.format(folder=tmp_path)
        found = outcome(lambda api=api, options=options: api.InferenceSession(RELU, options))
        results.append(found if isinstance(found, Exception) else None)
    if results[0] is None:
        assert results[1] is None
    else:
        assert_same_outcome(results[1], results[0])


def _override(api: Any, name: Any, size: Any) -> None:
    api.SessionOptions().add_free_dimension_override_by_name(name, size)


SMALL: dict[str, Any] = {
    "an enumeration as text": lambda api: str(api.ExecutionMode.ORT_PARALLEL),
    "a dim that is no text": lambda api: _override(api, 3, 4),
    "a size that is no integer": lambda api: _override(api, "N", 4.5),
    "a seed of 65 bits": lambda api: api.set_seed(2**64),
    "a negative shape": lambda api: api.OrtValue.ortvalue_from_shape_and_type([-1], np.float32),
    "strings": lambda api: api.OrtValue.ortvalue_from_shape_and_type([1], np.str_),
    "a type that is none": lambda api: (
        api.InferenceSession(RELU).io_binding().bind_input("x", "cpu", 0, "foo", [1], 0)
    ),
    "no callback": lambda api: api.InferenceSession(RELU).run_async(None, {"x": X}, 3, None),
}


@pytest.mark.parametrize("name", SMALL)
def test_small_things_are_alike(name: str) -> None:
    expected, found = (outcome(lambda api=api: SMALL[name](api)) for api in (onnxruntime, ort))
    assert_same_outcome(found, expected, "")
