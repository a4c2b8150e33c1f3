"""The results as Markdown."""

from __future__ import annotations

from statistics import geometric_mean, median
from typing import Any

RUNTIMES = ("sardonyx", "onnxruntime", "openvino")
ALONE = "sardonyx, one thread"


def markdown(result: dict[str, Any]) -> str:
    """Tables of times, and of what loading takes."""
    where, threads = result["machine"], result.get("threads", 1)
    peak = result["peak"] * threads
    each, clock = ("one thread", " of the CPU") if threads == 1 else (f"{threads} threads", "")
    more = (" one thread / Sardonyx |", "---|") if threads > 1 else ("", "")
    lines = [
        f"{where['date']}, {where['cpu']}, {result['peak']:.0f} GFLOP/s of float32 a core at its",
        f"measured peak, {result['reading']:.0f} GB/s read from memory; at the start",
        f"{where['load']}. Python {where['python']}, onnxruntime {where['onnxruntime']},",
        f"OpenVINO {where['openvino']}; {each}, float32,",
        f"runs of the engines in turn. ms{clock}: least (median).",
        "",
        "| model | Sardonyx | onnxruntime | OpenVINO | ort / Sardonyx | ov / Sardonyx | of peak |"
        + more[0],
        "|---|---|---|---|---|---|---|" + more[1],
        *(_times(name, found, peak) for name, found in result["models"].items()),
        "",
        "The ratios are of the least times, then of the medians; above 1 Sardonyx is faster.",
        "`of peak` counts a multiply-add of the model's sums of products as two operations.",
        "All outputs agree at rtol 1e-3 where nothing else is said.",
        _summary(result["models"]),
    ]
    loaded = {name: found["load"] for name, found in result["models"].items() if found["load"]}
    return "\n".join([*lines, *(_loading(loaded) if loaded else [])]) + "\n"


def _summary(models: dict[str, Any]) -> str:
    """How we stand against the better of the others, by medians."""
    ratios = []
    for found in models.values():
        others = [median(found["times"][n]) for n in RUNTIMES[1:] if n in found["times"]]
        if others:
            ratios.append(min(others) / median(found["times"]["sardonyx"]))
    if not ratios:
        return ""
    mean, slower = geometric_mean(ratios), sum(r < 1 for r in ratios)
    return (
        f"Against the better of the two, by medians: the geometric mean is {mean:.2f}, "
        f"{slower} of {len(ratios)} are below 1."
    )


def _loading(loaded: dict[str, Any]) -> list[str]:
    return [
        "",
        "| model | compile s | cached load s: Sardonyx | onnxruntime | OpenVINO "
        "| resident MB: Sardonyx | onnxruntime | OpenVINO |",
        "|---|---|---|---|---|---|---|---|",
        *(_loads(name, load) for name, load in loaded.items()),
        "",
        _imports(loaded),
    ]


def _times(name: str, found: dict[str, Any], peak: float) -> str:
    times = found["times"]
    ours = times["sardonyx"]
    cells = [
        f"{1e3 * min(x):.3g} ({1e3 * median(x):.3g})" if x else "refuses it"
        for x in (times.get(name) for name in RUNTIMES)
    ]
    for other in RUNTIMES[1:]:
        if other not in times:
            cells.append("")
            continue
        least, middle = min(times[other]) / min(ours), median(times[other]) / median(ours)
        agree = "" if found["close"][other] else f" differs by {found['difference'][other]:.2g}"
        cells.append(f"{least:.2f} ({middle:.2f}){agree}")
    share = 2e-9 * found["macs"] / min(ours) / peak
    row = f"| {name} | {' | '.join(cells)} | {100 * share:.0f} % |"
    if one := times.get(ALONE):
        row += f" {min(one) / min(ours):.2f} ({median(one) / median(ours):.2f}) |"
    return row


def _loads(name: str, load: dict[str, dict[str, float]]) -> str:
    cells = [f"{load['sardonyx']['compile_s']:.1f}"]
    cells += [f"{load[x]['load_s']:.2f}" if x in load else "" for x in RUNTIMES]
    cells += [f"{load[x]['resident'] / 1e6:.0f}" if x in load else "" for x in RUNTIMES]
    return f"| {name} | {' | '.join(cells)} |"


def _imports(loaded: dict[str, Any]) -> str:
    parts = []
    for name in RUNTIMES:
        loads = [load[name] for load in loaded.values() if name in load]
        if loads:
            parts.append(f"{name} {min(x['import_s'] for x in loads):.2f} s")
    return f"Importing: {', '.join(parts)}."
