"""The models that the benchmarks make, and the table that they print."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest

from benchmarks.layers import layers
from benchmarks.models import inputs, models, written
from benchmarks.report import ALONE, markdown
from sardonyx.engines import MachineEngine
from sardonyx.loading import load
from sardonyx.measure.roofline import points

SMALL = ("mlp", "chain", "quantised", "bilstm")


@pytest.mark.parametrize("name", SMALL)
def test_a_model_is_valid_and_the_same_each_time(name: str) -> None:
    model = models()[name]()
    onnx.checker.check_model(model, full_check=True)
    assert model.SerializeToString() == models()[name]().SerializeToString()


def test_all_layers_are_valid_and_none_is_called_as_a_model() -> None:
    for made in layers().values():
        onnx.checker.check_model(made(), full_check=True)
    assert not layers().keys() & models().keys()


@pytest.mark.parametrize("name", ["mlp", "chain"])
def test_a_model_gives_finite_numbers_that_differ(name: str, tmp_path: Path) -> None:
    path = written(models()[name], tmp_path / "made.onnx")
    (found,) = MachineEngine(load(path)).run(inputs(path)).values()
    assert isinstance(found, np.ndarray)
    assert np.isfinite(found).all()
    assert found.std() > 0


def test_a_model_of_any_length_is_fed_with_128_tokens(tmp_path: Path) -> None:
    path = written(models()["minilm_any"], tmp_path / "made.onnx")
    onnx.checker.check_model(path, full_check=True)
    assert load(path).symbols == ("batch", "sequence")
    assert {x.shape for x in inputs(path).values()} == {(1, 128)}


def test_the_table_tells_of_a_runtime_that_refuses_a_model() -> None:
    words = ("date", "cpu", "load", "python", "sardonyx", "onnxruntime", "openvino")
    measured = {
        "macs": 10**6,
        "load": {},
        "times": {"sardonyx": [1e-3, 3e-3, 2e-3], "onnxruntime": [2e-3, 2e-3, 2e-3]},
        "close": {"sardonyx": True, "onnxruntime": False},
        "difference": {"sardonyx": 0.0, "onnxruntime": 0.5},
    }
    text = markdown(
        {
            "machine": dict.fromkeys(words, ""),
            "peak": 100.0,
            "reading": 20.0,
            "models": {"a": measured},
        }
    )
    row = "| a | 1 (2) | 2 (2) | refuses it | 2.00 (1.00) differs by 0.5 |  | 2 % |"
    assert row in text.splitlines()


def test_the_table_of_two_threads_sets_one_thread_beside_them() -> None:
    words = ("date", "cpu", "load", "python", "sardonyx", "onnxruntime", "openvino")
    times = {"sardonyx": [1e-3, 2e-3], ALONE: [2e-3, 3e-3]}
    measured = {"macs": 10**6, "load": {}, "times": times}
    found = {"machine": dict.fromkeys(words, ""), "peak": 100.0, "reading": 20.0, "threads": 2}
    text = markdown({**found, "models": {"a": measured}})
    assert "| a | 1 (1.5) | refuses it | refuses it |  |  | 1 % | 2.00 (1.67) |" in text


def test_a_point_of_the_roofline_is_work_per_byte_and_per_second() -> None:
    times = {"sardonyx": [2e-3, 1e-3], "onnxruntime": [4e-3]}
    measured = {"macs": 10**6, "bytes": 10**5, "times": times}
    trees = {"macs": 0, "bytes": 10, "times": times}
    found = points({"models": {"a": measured, "trees": trees}})
    assert found["sardonyx"] == [("a", 20, pytest.approx(2))]
    assert found["onnxruntime"] == [("a", 20, pytest.approx(0.5))]
    assert found["openvino"] == []
