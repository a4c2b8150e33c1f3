"""sardonyx.ort against the installed onnxruntime, case by case, and what it adds."""

from __future__ import annotations

import copy
import json
import pickle
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import onnx.parser
import onnxruntime
import pytest
from onnx import ModelProto, helper
from ort_models import RELU, F, X, assert_same_outcome, model, opset, outcome

import sardonyx
from sardonyx import ort
from sardonyx.errors import FeedError, SardonyxError
from sardonyx.ort.capi import onnxruntime_pybind11_state as state

pytestmark = pytest.mark.usefixtures("machine_engine")
NATIVE = pytest.mark.skipif(not shutil.which("cc"), reason="needs cc")
ENGINES = ["machine", pytest.param("native", marks=NATIVE)]


def described() -> ModelProto:
    info = helper.make_tensor_value_info
    weights = [
        helper.make_tensor("w", F, [1], [1.0]),
        helper.make_tensor("v", F, [1], [2.0]),
    ]
    graph = helper.make_graph(
        [
            helper.make_node("Add", ["x", "w"], ["a"]),
            helper.make_node("Add", ["a", "v"], ["y"]),
        ],
        "the graph",
        [info("x", F, [None, "N", -1, 3, "", 2]), info("w", F, [1])],
        [info("y", F, None)],
        weights,
        doc_string="of the graph",
    )
    made = helper.make_model(
        graph,
        ir_version=10,
        opset_imports=[opset(21)],
        producer_name="someone",
        doc_string="what it does",
        domain="org.example",
        model_version=4,
    )
    helper.set_model_props(made, {"labels": "a,b"})
    return made


def test_inputs_outputs_and_metadata_are_described_alike() -> None:
    data = described().SerializeToString()
    theirs, ours = onnxruntime.InferenceSession(data), ort.InferenceSession(data)
    for get in ("get_inputs", "get_outputs", "get_overridable_initializers"):
        expected = [(a.name, a.type, a.shape) for a in getattr(theirs, get)()]
        found = [(a.name, a.type, a.shape) for a in getattr(ours, get)()]
        assert found == expected
        assert [str(a) for a in getattr(ours, get)()] == [str(a) for a in getattr(theirs, get)()]
    fields = [f for f in dir(theirs.get_modelmeta()) if not f.startswith("_")]
    assert len(fields) == 7
    for field in fields:
        assert getattr(ours.get_modelmeta(), field) == getattr(theirs.get_modelmeta(), field)


def test_an_overridable_initializer_may_be_fed() -> None:
    data = described().SerializeToString()
    x = np.zeros((1, 1, 1, 3, 1, 2), np.float32)
    for feeds in ({"x": x}, {"x": x, "w": np.array([5], np.float32)}):
        expected = onnxruntime.InferenceSession(data).run(None, feeds)
        np.testing.assert_equal(ort.InferenceSession(data).run(None, feeds), expected)


@pytest.mark.parametrize("dtype", [1, 11, 10, 16, 3, 5, 6, 7, 2, 4, 12, 13, 9])
def test_types_are_called_alike(dtype: int) -> None:
    data = model("Identity", dtype).SerializeToString()
    expected = onnxruntime.InferenceSession(data).get_inputs()[0].type
    assert ort.InferenceSession(data).get_inputs()[0].type == expected


@pytest.mark.parametrize("kind", ["SessionOptions", "RunOptions"])
def test_options_have_the_fields_and_defaults_of_onnxruntime(kind: str) -> None:
    theirs, ours = getattr(onnxruntime, kind)(), getattr(ort, kind)()
    fields = [n for n in dir(theirs) if not n.startswith("_") and not callable(getattr(theirs, n))]
    assert len(fields) == {"SessionOptions": 16, "RunOptions": 5}[kind]
    for name in fields:
        expected, found = getattr(theirs, name), getattr(ours, name)
        if hasattr(expected, "value"):
            expected, found = (expected.name, expected.value), (found.name, found.value)
        assert found == expected, name
        setattr(ours, name, getattr(ours, name))


def test_options_refuse_wrong_types_and_names() -> None:
    for api in (onnxruntime, ort):
        options = api.SessionOptions()
        with pytest.raises(TypeError):
            options.intra_op_num_threads = "a"
        with pytest.raises(TypeError):
            options.graph_optimization_level = 1
        with pytest.raises(AttributeError):
            options.no_such_field = 1
        with pytest.raises(RuntimeError, match="does not have configuration with key: a"):
            options.get_session_config_entry("a")
        options.add_session_config_entry("a", "b")
        assert options.get_session_config_entry("a") == "b"
        options.graph_optimization_level = api.GraphOptimizationLevel.ORT_DISABLE_ALL
        options.execution_mode = api.ExecutionMode.ORT_PARALLEL


def test_enumerations_have_the_members_of_onnxruntime() -> None:
    for name in ("GraphOptimizationLevel", "ExecutionMode", "ExecutionOrder"):
        expected = {n: v.value for n, v in getattr(onnxruntime, name).__members__.items()}
        assert {n: v.value for n, v in getattr(ort, name).__members__.items()} == expected


def test_free_dimension_overrides_fix_sizes() -> None:
    shapes, errors = [], []
    for api in (onnxruntime, ort):
        options = api.SessionOptions()
        options.add_free_dimension_override_by_name("N", 7)
        options.add_free_dimension_override_by_name("absent", 3)
        session = api.InferenceSession(RELU, options)
        shapes.append([a.shape for a in (*session.get_inputs(), *session.get_outputs())])
        errors.append(outcome(lambda: session.run(None, {"x": X})))  # noqa: B023  # called at once
    assert shapes[0] == shapes[1] == [[7, 3], [7, 3]]
    assert_same_outcome(errors[1], errors[0])


def test_exceptions_keep_their_names_and_derive_from_our_tree() -> None:
    theirs = onnxruntime.capi.onnxruntime_pybind11_state
    names = [n for n, v in vars(theirs).items() if isinstance(v, type) and issubclass(v, Exception)]
    assert len(names) == 15
    for name in names:
        assert issubclass(getattr(state, name), SardonyxError)
        assert getattr(ort.capi._pybind_state, name) is getattr(state, name)
    error = outcome(lambda: ort.InferenceSession(RELU).run(None, {"x": X, "q": X}))
    again = pickle.loads(pickle.dumps(error))
    assert isinstance(again, state.InvalidArgument)
    assert isinstance(again, FeedError)
    assert str(again) == str(error)


def test_providers_are_the_cpu() -> None:
    session = ort.InferenceSession(RELU, providers=["CPUExecutionProvider"])
    assert session.get_providers() == session._providers == ["CPUExecutionProvider"]
    assert session.get_provider_options() == session._provider_options
    assert session._provider_options == {"CPUExecutionProvider": {}}
    assert "CPUExecutionProvider" in ort.get_available_providers()
    with pytest.warns(UserWarning, match="Specified provider 'CUDAExecutionProvider' is not in"):
        session = ort.InferenceSession(RELU, providers=[("CUDAExecutionProvider", {"a": 1})])
    session.set_providers(["CPUExecutionProvider"])
    session.disable_fallback()
    session.enable_fallback()


def profiled(model: Any, folder: Path, engine: str) -> ort.InferenceSession:
    options = ort.SessionOptions()
    options.enable_profiling = True
    options.profile_file_prefix = str(folder / "p")
    options.add_session_config_entry("sardonyx.engine", engine)
    return ort.InferenceSession(model, options)


@pytest.mark.parametrize("engine", ENGINES)
def test_profiling_writes_a_trace_with_each_operation(engine: str, tmp_path: Path) -> None:
    session = profiled(RELU, tmp_path, engine)
    start = session.get_profiling_start_time_ns()
    (y,) = session.run(None, {"x": X})
    assert y.tobytes() == ort.InferenceSession(RELU).run(None, {"x": X})[0].tobytes()
    events = json.loads(Path(session.end_profiling()).read_text())
    *session_events, node = sorted(events, key=lambda e: e["cat"] == "Node")
    assert [e["name"] for e in session_events] == [
        "model_loading_array",
        "session_initialization",
        "model_run",
    ]
    run, args = session_events[-1], node["args"]
    assert (node["cat"], args["op_name"], args["node_index"]) == ("Node", "Relu", "0")
    assert args["output_type_shape"] == [{"float": [*X.shape]}]
    assert 0 < run["ts"] <= node["ts"] + 1
    assert node["ts"] + node["dur"] <= run["ts"] + run["dur"] + 2
    assert start > 0
    assert session.end_profiling() == ort.InferenceSession(RELU).end_profiling() == ""
    assert session.run(None, {"x": X})[0].tobytes() == y.tobytes()


@NATIVE
def test_what_data_decides_is_profiled_too(tmp_path: Path) -> None:
    head = '<ir_version: 8, opset_import: ["": 17]> g (float[n] x) => (int64[1, m] y, float[n] z)'
    model = onnx.parser.parse_model(f"{head} {{ z = Neg(x) y = NonZero(z) }}")
    session = profiled(model.SerializeToString(), tmp_path, "native")
    for x in (np.array([0, 1, 2], np.float32), np.array([3, 0], np.float32)):
        y, z = session.run(None, {"x": x})
        np.testing.assert_array_equal(y, np.nonzero(x))
        np.testing.assert_array_equal(z, -x)
    events = json.loads(Path(session.end_profiling()).read_text())
    found = " ".join(e["args"]["op_name"] for e in events if e["cat"] == "Node")
    assert "Neg" in found
    assert "NonZero" in found
    assert sum(e["name"] == "model_run" for e in events) == 2


class Named(ort.InferenceSession):
    """A subclass, as programs write them."""

    def __init__(self, source: Any, name: str) -> None:
        super().__init__(source)
        self.name = name


def test_sessions_pickle_and_copy(tmp_path: Path) -> None:
    path = tmp_path / "m.onnx"
    path.write_bytes(RELU)
    for source in (RELU, path):
        session = Named(source, "seven")
        for again in (pickle.loads(pickle.dumps(session)), copy.deepcopy(session)):
            assert isinstance(again, Named)
            assert again.name == "seven"
            np.testing.assert_equal(again.run(None, {"x": X}), session.run(None, {"x": X}))


@pytest.mark.parametrize("engine", ENGINES)
def test_concurrent_runs_give_equal_bytes(engine: str) -> None:
    options = ort.SessionOptions()
    options.add_session_config_entry("sardonyx.engine", engine)
    session = ort.InferenceSession(model("Softmax", shape=("N", 64)), options)
    source = np.random.default_rng(0)
    feeds = [source.standard_normal((1 + i % 3, 64)).astype(np.float32) for i in range(40)]
    expected = [session.run(None, {"x": x})[0].tobytes() for x in feeds]
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda x: session.run(None, {"x": x})[0].tobytes(), feeds))
    assert found == expected


def test_ort_values_and_bindings_run_alike() -> None:
    for api in (onnxruntime, ort):
        session = api.InferenceSession(RELU)
        value = api.OrtValue.ortvalue_from_numpy(X)
        assert (value.data_type(), value.element_type(), value.shape()) == (
            "tensor(float)",
            1,
            [2, 3],
        )
        assert (value.device_name(), value.is_tensor(), value.has_value()) == ("cpu", True, True)
        assert value.tensor_size_in_bytes() == X.nbytes
        (found,) = session.run_with_ort_values(None, {"x": value})
        np.testing.assert_array_equal(found.numpy(), np.maximum(X, 0))
        np.testing.assert_array_equal(session.run(None, {"x": value})[0], np.maximum(X, 0))
        place = api.OrtValue.ortvalue_from_shape_and_type([2, 3], np.float32)
        binding = session.io_binding()
        binding.bind_cpu_input("x", X)
        binding.bind_ortvalue_output("y", place)
        session.run_with_iobinding(binding)
        np.testing.assert_array_equal(place.numpy(), np.maximum(X, 0))
        np.testing.assert_array_equal(binding.copy_outputs_to_cpu()[0], np.maximum(X, 0))
        target = np.empty((2, 3), np.float32)
        binding.bind_input("x", "cpu", 0, np.float32, X.shape, X.ctypes.data)
        binding.bind_output("y", "cpu", 0, np.float32, X.shape, target.ctypes.data)
        session.run_with_iobinding(binding)
        np.testing.assert_array_equal(target, np.maximum(X, 0))
        assert str(outcome(lambda: binding.bind_cpu_input("q", X))).startswith(  # noqa: B023  # called at once
            "Failed to find NodeArg with name: q in the def list"
        )
        empty = session.io_binding()
        with pytest.raises(RuntimeError, match="At least one output should be requested"):
            session.run_with_iobinding(empty)


def test_ort_values_refuse_what_is_no_tensor() -> None:
    for api in (onnxruntime, ort):
        for wrong in ([1, 2], np.array(["a"])):
            with pytest.raises(RuntimeError, match="currently only supported from non-string"):
                api.OrtValue.ortvalue_from_numpy(wrong)
    value = ort.OrtValue.ortvalue_from_numpy(X.copy())
    value.update_inplace(X + 1)
    np.testing.assert_array_equal(np.asarray(value), X + 1)
    np.testing.assert_array_equal(np.from_dlpack(value), X + 1)
    np.testing.assert_array_equal(ort.OrtValue.from_dlpack(value).numpy(), X + 1)
    with pytest.raises(TypeError):
        ort.OrtValue.from_dlpack([1.0])
    with pytest.raises(RuntimeError, match="does not match the size"):
        value.update_inplace(X[:1])
    with pytest.raises(RuntimeError, match="cuda"):
        ort.OrtValue.ortvalue_from_numpy(X, "cuda")


def test_the_functions_about_the_installation_are_there() -> None:
    assert ort.get_device() == onnxruntime.get_device()
    assert ort.get_version_string() == ort.__version__ == onnxruntime.get_version_string()
    assert "Sardonyx" in ort.get_build_info()
    for name in ("set_default_logger_severity", "set_default_logger_verbosity", "set_seed"):
        getattr(ort, name)(3)
    for name in ("preload_dlls", "enable_telemetry_events", "disable_telemetry_events"):
        getattr(ort, name)()
    with pytest.raises(RuntimeError, match="Invalid logging severity"):
        ort.set_default_logger_severity(9)


@pytest.mark.parametrize("package", [sardonyx, ort])
def test_public_names_are_sorted_and_there(package: Any) -> None:
    assert package.__all__ == sorted(package.__all__)
    for name in package.__all__:
        assert getattr(package, name) is not None
    with pytest.raises(AttributeError):
        package.no_such_name  # noqa: B018  # the error is the point


def test_every_daily_name_of_the_api_is_at_the_top() -> None:
    daily = {n for n in ort.__all__ if n[0].isupper() or n.startswith(("get_", "set_"))}
    assert daily - set(sardonyx.__all__) <= {"ExecutionOrder", "OrtDevice"}
    assert sardonyx.InferenceSession is ort.InferenceSession


def test_importing_the_package_loads_no_dependency() -> None:
    code = (
        "import sys, sardonyx\n"
        "assert not {'onnx', 'numpy', 'ml_dtypes', 'google'} & set(sys.modules)\n"
        "from sardonyx import SardonyxError, InferenceSession\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def wrongly_stated(declared: list[int | str], kind: int = F) -> ModelProto:
    """A regressor that gives [N, 1], as CatBoost writes it: it says that it gives [N]."""
    info = helper.make_tensor_value_info
    node = helper.make_node(
        "LinearRegressor", ["x"], ["y"], domain="ai.onnx.ml", coefficients=[1.0, 2.0]
    )
    graph = helper.make_graph([node], "g", [info("x", F, ["N", 2])], [info("y", kind, declared)])
    opsets = [opset(21), helper.make_opsetid("ai.onnx.ml", 3)]
    return helper.make_model(graph, ir_version=10, opset_imports=opsets)


def test_shapes_that_are_wrongly_stated_of_outputs_are_warned_of() -> None:
    proto, x = wrongly_stated(["N"]), np.array([[1, 2], [3, 4]], np.float32)
    with pytest.warns(UserWarning, match=r"LinearRegressor.*'y'.*the shapes that it states"):
        session = ort.InferenceSession(proto.SerializeToString())
    assert session.run(None, {"x": x})[0].tolist() == [[5], [11]]
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    theirs = onnxruntime.InferenceSession(proto.SerializeToString(), options)
    assert theirs.run(None, {"x": x})[0].tolist() == [[5], [11]]
    with pytest.raises(SardonyxError, match="but the model declares"):
        sardonyx.load(proto)


def test_a_type_that_is_wrongly_stated_is_refused() -> None:
    proto = wrongly_stated(["N", 1], helper.np_dtype_to_tensor_dtype(np.dtype(np.int64)))
    with pytest.raises(SardonyxError, match="elem type differs"):
        ort.InferenceSession(proto.SerializeToString())
