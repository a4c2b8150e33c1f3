"""The ONNX backend suite on both engines, from one list (backend_suite.py)."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import backend_suite
import numpy as np
import onnx
import onnx.checker
import pytest
from backend_suite import cases, check, failure, listed
from onnx import TensorProto, helper

from sardonyx import backend
from sardonyx.compiler import find_compiler
from sardonyx.errors import BuildError, FeedError

MISSING = listed()
NATIVE = "native:"  # begins the reason of a case that only the native engine does not pass
NAMES = [c.name for c in cases().values() if c.kind != "light"]
LIGHT = [c.name for c in cases().values() if c.kind == "light"]


def has_compiler() -> bool:
    try:
        find_compiler()
    except BuildError:
        return False
    return True


needs_compiler = pytest.mark.skipif(not has_compiler(), reason="there is no C compiler")


def on_both(name: str) -> bool:
    """Whether the machine passes the case, so that the native engine is tried."""
    return MISSING.get(name, NATIVE).startswith(NATIVE)


def sample() -> Iterator[str]:
    """The first passing case of each operator, and some of the stored models."""
    seen = set()
    for case in cases().values():
        if not on_both(case.name) or case.kind == "light":
            continue
        key = case.name if case.kind == "simple" else case.name.rsplit("_", 2)[0]
        if case.kind == "node":
            key = "expanded" if "_expanded" in case.name else case.model().graph.node[0].op_type
        if key not in seen:
            seen.add(key)
            yield case.name


SAMPLE = list(sample())
PASSES = "it passes: take it off backend_missing.txt"


@pytest.mark.parametrize("name", NAMES)
def test_machine(name: str) -> None:
    """The machine gives the stored outputs, or the case is listed with what is missing."""
    if on_both(name):
        check(cases()[name], ["machine"])
    else:
        assert failure(cases()[name], ["machine"]), PASSES


def check_both(name: str) -> None:
    """Asserts that both engines pass a case with the same bytes, unless it is listed."""
    both = ["machine", "native"]
    if name not in MISSING:
        check(cases()[name], both)
    else:
        assert failure(cases()[name], both), PASSES


@needs_compiler
@pytest.mark.parametrize("name", SAMPLE)
def test_native_equals_the_machine(name: str) -> None:
    check_both(name)


@needs_compiler
@pytest.mark.slow
@pytest.mark.parametrize("name", [n for n in NAMES if n not in SAMPLE and on_both(n)])
def test_native_equals_the_machine_in_the_whole_suite(name: str) -> None:
    check_both(name)


@needs_compiler
@pytest.mark.slow
@pytest.mark.parametrize("name", LIGHT)
def test_light_models(name: str) -> None:
    check_both(name)


def test_the_list_of_missing_cases_names_cases_and_reasons() -> None:
    assert set(MISSING) <= set(cases())
    assert all(len(reason) > 10 for reason in MISSING.values())


def relu() -> onnx.ModelProto:
    infos = [helper.make_tensor_value_info(n, TensorProto.FLOAT, ["N", 3]) for n in "xy"]
    graph = helper.make_graph([helper.make_node("Relu", ["x"], ["y"])], "g", infos[:1], infos[1:])
    return helper.make_model(graph, ir_version=10, opset_imports=[helper.make_opsetid("", 21)])


X = np.array([[-1, 0, 1]], np.float32)


def test_prepare_takes_arrays_lists_and_dicts() -> None:
    prepared = backend.prepare(relu(), engine="machine")
    for feed in (X, [X], {"x": X}):
        (found,) = prepared.run(feed)
        np.testing.assert_array_equal(found, np.maximum(X, 0))
    assert prepared.run([X])["y"].shape == (1, 3)


def test_run_model_and_run_node_agree() -> None:
    node = helper.make_node("Relu", ["x"], ["y"])
    for found in (
        backend.run_model(relu(), [X], engine="machine"),
        backend.run_node(node, [X], engine="machine"),
        backend.run_node(node, [X], engine="machine", opset_version=13),
    ):
        np.testing.assert_array_equal(found[0], np.maximum(X, 0))


def test_devices_other_than_the_cpu_are_refused() -> None:
    assert backend.supports_device("CPU")
    assert not backend.supports_device("CUDA")
    assert not backend.supports_device("nonsense")
    with pytest.raises(ValueError, match="runs on the CPU"):
        backend.prepare(relu(), "CUDA")


def test_a_wrong_number_of_inputs_is_a_feed_error() -> None:
    with pytest.raises(FeedError, match="2 inputs are given"):
        backend.prepare(relu(), engine="machine").run([X, X])


def test_the_environment_picks_the_engine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SARDONYX_ENGINE", "machine")
    assert backend.prepare(relu()).engine == "machine"
    monkeypatch.setenv("SARDONYX_ENGINE", "magic")
    with pytest.raises(Exception, match="SARDONYX_ENGINE is 'magic'"):
        backend.prepare(relu())


def test_the_suite_prints_counts(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    path = tmp_path / "failing.txt"
    code = backend_suite.main(["machine", "^test_(relu|gradient_of_add)$", "--output", str(path)])
    shown = capsys.readouterr().out
    assert code == 1
    assert "1 node passes" in shown
    assert "1 ai.onnx.preview.training::Gradient-1" in shown
    assert path.read_text().startswith("test_gradient_of_add UnsupportedModel: Gradient")


def test_without_a_compiler_the_machine_runs(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """And one line says how to get a compiler."""
    from sardonyx import compiler, engines

    monkeypatch.delenv("SARDONYX_ENGINE", raising=False)
    monkeypatch.delenv("CC", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(compiler, "find_spec", lambda name: None)
    engines._say_once.cache_clear()
    assert os.environ["PATH"] == str(tmp_path)
    assert backend.prepare(relu()).engine == backend.prepare(relu()).engine == "machine"
    said = capsys.readouterr().err
    assert said.count("\n") == 1
    assert 'pip install "sardonyx[zig]"' in said
