"""The trained examples: what README and examples/README.md say of them."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest

from sardonyx.engines import MachineEngine
from sardonyx.native import NativeEngine
from sardonyx.resolve import resolve

DIGITS = Path(__file__).parents[1] / "examples" / "digits"
RIGHT = {"digits.onnx": 358, "encoder.onnx": 352}  # of 360 images


@pytest.fixture(scope="module")
def test_images() -> tuple[np.ndarray, np.ndarray]:
    data = np.load(DIGITS / "test.npz")
    return data["images"].astype(np.float32), data["labels"]


@pytest.mark.parametrize("name", RIGHT)
def test_digits_are_recognised(name: str, test_images: tuple[np.ndarray, np.ndarray]) -> None:
    """As many of the test images as it says, and onnxruntime's class for every one."""
    images, labels = test_images
    scores = NativeEngine(resolve(DIGITS / name)).run({"image": images})["scores"]
    theirs = onnxruntime.InferenceSession(DIGITS / name).run(None, {"image": images})[0]
    assert (scores.argmax(1) == labels).sum() == RIGHT[name]
    assert (scores.argmax(1) == theirs.argmax(1)).all()
    np.testing.assert_allclose(scores, theirs, rtol=1e-3, atol=1e-5)


@pytest.mark.parametrize("name", RIGHT)
def test_no_bit_depends_on_engine_or_batch(
    name: str, test_images: tuple[np.ndarray, np.ndarray]
) -> None:
    """The machine on a batch, native on the batch and native one by one give the same bytes."""
    images = test_images[0][:7]
    graph = resolve(DIGITS / name)
    native = NativeEngine(graph)
    together = native.run({"image": images})["scores"]
    alone = [native.run({"image": images[i : i + 1]})["scores"] for i in range(len(images))]
    assert np.concatenate(alone).tobytes() == together.tobytes()
    assert MachineEngine(graph).run({"image": images})["scores"].tobytes() == together.tobytes()


@pytest.mark.parametrize("name", RIGHT)
def test_the_recorded_digit_is_what_it_is_said_to_be(name: str) -> None:
    """digit.npz gives the class in expected.json, under the label in the model's metadata."""
    expected = json.loads((DIGITS / "expected.json").read_text())
    facts = {p.key: p.value for p in onnx.load(DIGITS / name).metadata_props}
    feeds = dict(np.load(DIGITS / "digit.npz"))
    scores = MachineEngine(resolve(DIGITS / name)).run(feeds)["scores"]
    assert int(scores.argmax()) == expected["index"]
    assert json.loads(facts["labels"])[expected["index"]] == expected["label"]
