"""Shows the models at work on the 360 test images: accuracy, onnxruntime's predictions, engines.

    pip install ".[test]"
    python examples/digits/show.py

Exits with 1 unless every prediction is onnxruntime's and both engines give the same bytes.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

import numpy as np
import onnxruntime

from sardonyx.engines import Kind, make_engine
from sardonyx.resolve import resolve

HERE = Path(__file__).parent


def scores_of(model: Path, kind: Kind, images: np.ndarray) -> np.ndarray:
    """What an engine computes; prints its time and N."""
    engine = make_engine(resolve(model), kind)
    engine.run({"image": images[:1]})
    start = time.perf_counter()
    scores = engine.run({"image": images})["scores"]
    seconds = time.perf_counter() - start
    size, bound = engine.memory()
    print(f"{engine.name:8}{1e3 * seconds:9.2f} ms   N = {size} bytes (lower bound {bound})")
    return scores


def show(model: Path) -> bool:
    """Prints how a model does; whether all agree."""
    test = np.load(HERE / "test.npz")
    images, labels = test["images"].astype(np.float32), test["labels"]
    print(model.name)
    machine, native = (scores_of(model, kind, images) for kind in ("machine", "native"))
    theirs = onnxruntime.InferenceSession(model).run(None, {"image": images})[0]
    predicted = native.argmax(1)
    right, same = (predicted == labels).sum(), (predicted == theirs.argmax(1)).sum()
    equal = machine.tobytes() == native.tobytes()
    print(f"accuracy {right / len(labels):.4f} ({right} of {len(labels)} test images)")
    print(f"onnxruntime predicts the same class for {same} of {len(labels)} images")
    print(f"largest difference from onnxruntime's scores: {np.abs(native - theirs).max():.2g}")
    print(f"machine and native give {'the same' if equal else 'OTHER'} bytes\n")
    return equal and same == len(labels)


if __name__ == "__main__":
    shown = [show(model) for model in sorted(HERE.glob("*.onnx"))]
    sys.exit(0 if all(shown) else 1)
