"""The ONNX backend suite on Sardonyx, onnxruntime, OpenVINO and ONNX's reference evaluator.

    python -m benchmarks.conformance [PATTERN] [--runtime NAME ...] [--json FILE] [--markdown FILE]

Each case is run in a worker process of its runtime, so that a crash or a hang is that case's result
and nothing else's. A case passes if every stored output is met within the case's own tolerances,
as onnx's runner compares them; on `native` the outputs must also be the machine's bytes.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
import threading
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import onnx

from tests.backend_suite import KINDS, Case, Values, assert_similar, cases, check

SECONDS = 120  # for one case, compilation included
OUTCOMES = ("passed", "wrong", "refused", "crashed", "too long")
Runtime = Callable[[Case], None]


def machine(case: Case) -> None:
    check(case, ["machine"])


def native(case: Case) -> None:
    check(case, ["machine", "native"])


def onnxruntime(case: Case) -> None:
    import onnxruntime as ort

    def prepare(model: onnx.ModelProto) -> Callable[[Values], Values]:
        options = ort.SessionOptions()
        options.log_severity_level = 4
        data, cpu = model.SerializeToString(), ["CPUExecutionProvider"]
        session = ort.InferenceSession(data, options, providers=cpu)
        names = [x.name for x in session.get_inputs()]
        return lambda inputs: session.run(None, dict(zip(names, inputs, strict=False)))

    _compare(case, prepare)


def openvino(case: Case) -> None:
    import openvino as ov

    def prepare(model: onnx.ModelProto) -> Callable[[Values], Values]:
        core = ov.Core()
        core.set_property("CPU", {"INFERENCE_PRECISION_HINT": "f32"})
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "model.onnx"
            onnx.save(model, path)
            compiled = core.compile_model(core.read_model(path), "CPU")

        def run(inputs: Values) -> Values:
            found = compiled(dict(enumerate(inputs[: len(compiled.inputs)])))
            return [found[o] for o in compiled.outputs]

        return run

    _compare(case, prepare)


def reference(case: Case) -> None:
    from onnx.reference import ReferenceEvaluator

    def prepare(model: onnx.ModelProto) -> Callable[[Values], Values]:
        evaluator = ReferenceEvaluator(model)
        return lambda inputs: evaluator.run(
            None, dict(zip(evaluator.input_names, inputs, strict=False))
        )

    _compare(case, prepare)


RUNTIMES: dict[str, tuple[str, Runtime]] = {
    "machine": ("sardonyx", machine),
    "native": ("sardonyx", native),
    "onnxruntime": ("onnxruntime", onnxruntime),
    "openvino": ("openvino", openvino),
    "reference": ("onnx", reference),
}


def _compare(case: Case, prepare: Callable[[onnx.ModelProto], Callable[[Values], Values]]) -> None:
    model = case.model()
    run = prepare(model)
    for inputs, stored in case.data(model):
        assert_similar(case, stored, list(run(inputs)))


def outcome(runtime: Runtime, case: Case) -> tuple[str, str]:
    """What became of a case, and why it did not pass."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            runtime(case)
    except AssertionError as error:
        return "wrong", _line(error)
    except Exception as error:
        return "refused", f"{type(error).__name__}: {_line(error)}"
    return "passed", ""


def _line(error: BaseException) -> str:
    return " ".join(str(error).split())[:200]


def serve(name: str) -> None:
    """A worker: takes names of cases, answers with what became of each."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what the runtimes print is no answer
    every, runtime = cases(), RUNTIMES[name][1]
    for line in sys.stdin:
        print(json.dumps(outcome(runtime, every[line.strip()])), file=answers, flush=True)


def results(name: str, chosen: Sequence[str]) -> Iterator[tuple[str, str, str]]:
    """(case, outcome, reason) for each case; a worker that is lost is replaced."""
    worker = None
    for case in chosen:
        worker = worker or _worker(name)
        assert worker.stdin is not None
        assert worker.stdout is not None
        timer = threading.Timer(SECONDS, worker.kill)
        timer.start()
        print(case, file=worker.stdin, flush=True)
        answer = worker.stdout.readline()
        late = not timer.is_alive()
        timer.cancel()
        if answer:
            found, reason = json.loads(answer)
            yield case, found, reason
        else:
            status = worker.wait()
            worker = None
            yield case, "too long" if late else "crashed", f"status {status}"
    if worker is not None:
        worker.kill()


def _worker(name: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "benchmarks.conformance", "--worker", name]
    pipe, nowhere = subprocess.PIPE, subprocess.DEVNULL
    return subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=nowhere, text=True)


def _version(name: str) -> str:
    try:
        return version(RUNTIMES[name][0])
    except PackageNotFoundError:
        return "not installed"


def markdown(found: dict[str, dict[str, tuple[str, str]]]) -> str:
    """The numbers of each runtime, then what does not pass on ours."""
    lines = ["| runtime | version | cases | " + " | ".join(OUTCOMES) + " |"]
    lines.append("|---|---|---|" + "---|" * len(OUTCOMES))
    for name, by_case in found.items():
        counts = Counter(what for what, _ in by_case.values())
        numbers = " | ".join(str(counts[o]) for o in OUTCOMES)
        lines.append(f"| {name} | {_version(name)} | {len(by_case)} | {numbers} |")
    for name in ("machine", "native"):
        failing = {c: r for c, r in found.get(name, {}).items() if r[0] != "passed"}
        if failing:
            lines += ["", f"Not passed on {name}:", ""]
            lines += [f"- `{case}`: {what}: {why}" for case, (what, why) in failing.items()]
    return "\n".join(lines) + "\n"


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the cases and prints the table."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.conformance")
    parser.add_argument("pattern", nargs="?", default="")
    parser.add_argument("--runtime", choices=RUNTIMES, action="append")
    parser.add_argument("--kind", choices=KINDS, action="append")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--markdown", type=Path)
    parser.add_argument("--worker", choices=RUNTIMES, help=argparse.SUPPRESS)
    given = parser.parse_args(arguments)
    if given.worker:
        serve(given.worker)
        return 0
    kinds = given.kind or [k for k in KINDS if k != "light"]
    chosen = [
        c.name for c in cases().values() if c.kind in kinds and re.search(given.pattern, c.name)
    ]
    found: dict[str, dict[str, tuple[str, str]]] = {}
    for name in given.runtime or RUNTIMES:
        table: dict[str, tuple[str, str]] = {}
        for case, what, why in results(name, chosen):
            table[case] = what, why
            if sys.stderr.isatty():
                print(f"\r{name}: {len(table)} of {len(chosen)}", end="", file=sys.stderr)
        found[name] = table
    text = markdown(found)
    print(text)
    if given.markdown:
        given.markdown.write_text(text, encoding="utf-8")
    if given.json:
        versions: dict[str, Any] = {name: _version(name) for name in found}
        given.json.write_text(json.dumps({"versions": versions, "results": found}, indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(main())
