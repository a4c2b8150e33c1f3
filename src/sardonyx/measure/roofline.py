"""The roofline of one core, and where each model lies below it.

    python -m sardonyx.measure.roofline build/benchmarks/result.json -o docs/roofline.svg

Across: operations of float32 (a multiply-add is two) for each byte that a run has to read at least
(weights and inputs). Up: GFLOP/s. The roof is the read bandwidth times what is
across, up to the peak; both are measured in the same run as the models.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

from sardonyx.errors import FeedError

MARKS = {"sardonyx": "o", "onnxruntime": "x", "openvino": "+"}


def points(result: dict[str, Any]) -> dict[str, list[tuple[str, float, float]]]:
    """runtime -> (model, operations per byte, GFLOP/s), for models of sums of products."""
    found: dict[str, list[tuple[str, float, float]]] = {name: [] for name in MARKS}
    for model, measured in result["models"].items():
        if measured["macs"]:
            intensity = 2 * measured["macs"] / measured["bytes"]
            for name, times in measured["times"].items():
                found[name].append((model, intensity, 2e-9 * measured["macs"] / min(times)))
    return found


def formats() -> list[str]:
    """The endings of files that `draw` can write."""
    from matplotlib.backend_bases import FigureCanvasBase

    return sorted(FigureCanvasBase.get_supported_filetypes())


def draw(result: dict[str, Any], path: Path) -> None:
    """Writes the plot."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(10, 6))
    peak, bandwidth, found = result["peak"], result["reading"], points(result)
    across = [x for _, x, _ in found["sardonyx"]]
    if not across:
        raise FeedError("a plot needs sums of products, and the model has none that are counted")
    ends = [min(across) / 2, peak / bandwidth, max(across) * 2]
    axes.plot(ends, [min(peak, bandwidth * x) for x in ends], color="black", linewidth=1)
    for name, mark in MARKS.items():
        places = found[name]
        if places:
            xs, ys = [x for _, x, _ in places], [y for *_, y in places]
            axes.scatter(xs, ys, marker=mark, s=30, label=name)
    for model, x, y in found["sardonyx"]:
        axes.annotate(model, (x, y), fontsize=7, xytext=(3, -9), textcoords="offset points")
    axes.set(xscale="log", yscale="log", xlabel="operations per byte", ylabel="GFLOP/s")
    axes.set_title(f"{peak:.0f} GFLOP/s, {bandwidth:.0f} GB/s: {result['machine']['cpu']}")
    axes.legend()
    figure.savefig(path, bbox_inches="tight")
    pyplot.close(figure)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m sardonyx.measure.roofline")
    parser.add_argument("result", type=Path)
    parser.add_argument("-o", "--output", type=Path, default=Path("build/benchmarks/roofline.svg"))
    given = parser.parse_args()
    draw(json.loads(given.result.read_text()), given.output)


if __name__ == "__main__":
    main()
