"""The ONNX backend suite: one list of cases, for both engines.

    python -m tests.backend_suite machine [PATTERN]     counts, and the reasons by operator
    python -m tests.backend_suite both [PATTERN]        and the native engine, byte by byte
    python -m tests.backend_suite machine --update      rewrites backend_missing.txt

A case passes if each of its stored outputs is met within its rtol and atol by the machine, and the
native engine gives the machine's bytes. What a random operator draws is left open by the standard,
and the vectors hold what NumPy's generator drew: of such an output the type and shape count
(`is_random`). `backend_missing.txt` lists the cases that do not pass yet: one a line, the name,
then what is missing.
"""

from __future__ import annotations

import argparse
import re
import sys
import time
import traceback
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import numpy_helper
from onnx.backend.test.case.test_case import TestCase

MISSING = Path(__file__).with_name("backend_missing.txt")
STORED = ("simple", "pytorch-converted", "pytorch-operator")
KINDS = ("node", *STORED, "light")
Values = Sequence[Any]  # arrays; lists of arrays and None where the model has such types


@dataclass(frozen=True, slots=True, eq=False)
class Case:
    """One case: its model is made when it is asked for, with the pairs (inputs, outputs)."""

    name: str
    kind: str
    rtol: float
    atol: float
    model: Callable[[], onnx.ModelProto]
    data: Callable[[onnx.ModelProto], Iterator[tuple[Values, Values]]]


@cache
def cases() -> dict[str, Case]:
    """All cases by name: the node cases are made by the onnx package now, the others are stored."""
    from onnx.backend.test.loader import load_model_tests

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = [_node(case) for case in load_model_tests(kind="node")]
    found += [_stored(case) for kind in STORED for case in load_model_tests(kind=kind)]
    found += [_light(case) for case in load_model_tests(kind="real")]
    return {case.name: case for case in sorted(found, key=lambda c: (KINDS.index(c.kind), c.name))}


def _node(case: TestCase) -> Case:
    def data(model: onnx.ModelProto) -> Iterator[tuple[Values, Values]]:
        for inputs, outputs in case.data_sets or ():
            yield [_array(x) for x in inputs], [_array(x) for x in outputs]

    def model() -> onnx.ModelProto:
        assert case.model is not None
        return case.model

    return Case(case.name, "node", case.rtol, case.atol, model, data)


def _stored(case: TestCase) -> Case:
    folder = Path(case.model_dir or "")

    def data(model: onnx.ModelProto) -> Iterator[tuple[Values, Values]]:
        for part in sorted(folder.glob("test_data_set_*")):
            inputs = [v.type for v in model.graph.input]
            outputs = [v.type for v in model.graph.output]
            yield _read(part, "input", inputs), _read(part, "output", outputs)

    def model() -> onnx.ModelProto:
        return onnx.load(folder / "model.onnx")

    return Case(case.name, case.kind, case.rtol, case.atol, model, data)


def _light(case: TestCase) -> Case:
    """A model with constant weights; its input is a ramp, as in onnx's own runner."""
    path = Path(onnx.__file__).parents[1] / (case.url or "")

    def data(model: onnx.ModelProto) -> Iterator[tuple[Values, Values]]:
        constant = {t.name for t in model.graph.initializer}
        infos = [v for v in model.graph.input if v.name not in constant]
        shapes = [[d.dim_value for d in v.type.tensor_type.shape.dim] for v in infos]
        ramps = [np.arange(np.prod(s)).reshape(s) / np.prod(s) for s in shapes]
        stored = onnx.load_tensor(path.with_name(f"{path.stem}_output_0.pb"))
        yield [r.astype(np.float32) for r in ramps], [numpy_helper.to_array(stored)]

    return Case(f"{case.name}_light", "light", case.rtol, case.atol, lambda: onnx.load(path), data)


def _read(folder: Path, what: str, types: Sequence[onnx.TypeProto]) -> list[Any]:
    count = len(list(folder.glob(f"{what}_*.pb")))
    return [_value((folder / f"{what}_{i}.pb").read_bytes(), types[i]) for i in range(count)]


def _value(data: bytes, kind: onnx.TypeProto) -> Any:
    match kind.WhichOneof("value"):
        case "sequence_type":
            return numpy_helper.to_list(onnx.SequenceProto.FromString(data))
        case "optional_type":
            return numpy_helper.to_optional(onnx.OptionalProto.FromString(data))
        case _:
            return numpy_helper.to_array(onnx.TensorProto.FromString(data))


def _array(x: Any) -> Any:
    return numpy_helper.to_array(x) if isinstance(x, onnx.TensorProto) else x


def check(case: Case, engines: Sequence[str]) -> None:
    """Asserts that a case passes on the engines, of which the first is the machine."""
    from sardonyx.backend import SardonyxBackend
    from sardonyx.model import Limits

    model = case.model()
    trusted = Limits(type_seconds=0)  # no child process for each case
    prepared = [SardonyxBackend.prepare(model, engine=e, limits=trusted) for e in engines]
    for inputs, stored in case.data(model):
        machine, *others = [list(rep.run(inputs)) for rep in prepared]
        if is_random(case):
            assert [(x.dtype, x.shape) for x in machine] == [(x.dtype, x.shape) for x in stored]
            stored = machine
        assert_similar(case, stored, machine)
        for found in others:
            assert_equal_bytes(found, machine)


def is_random(case: Case) -> bool:
    """Whether the stored outputs were drawn at random."""
    drawn = re.match("test_(bernoulli|training_dropout)", case.name)
    return drawn is not None and "zero_ratio" not in case.name


def assert_similar(case: Case, stored: Sequence[Any], found: Sequence[Any]) -> None:
    """Asserts that outputs are the stored ones, within the case's tolerances."""
    from onnx.backend.test.runner import Runner

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        # onnx's runner takes the elements of a sequence of scalars for sequences
        Runner.assert_similar_outputs(*_flat(stored, found), case.rtol, case.atol)


def _flat(stored: Sequence[Any], found: Sequence[Any]) -> tuple[list[Any], list[Any]]:
    """The elements of sequences in the place of the sequences, None in neither."""
    pairs: list[tuple[Any, Any]] = []
    assert len(stored) == len(found)
    for a, b in zip(stored, found, strict=True):
        assert (isinstance(a, list), a is None) == (isinstance(b, list), b is None)
        if isinstance(a, list):
            pairs += zip(*_flat(a, b), strict=True)
        elif a is not None:
            pairs.append((a, b))
    return [a for a, _ in pairs], [b for _, b in pairs]


def assert_equal_bytes(found: Sequence[Any], expected: Sequence[Any]) -> None:
    """Asserts that two engines gave the same values, to the bit."""
    assert len(found) == len(expected)
    for i, (a, b) in enumerate(zip(found, expected, strict=True)):
        if isinstance(b, list):
            assert_equal_bytes(a, b)
            continue
        if isinstance(b, dict):
            assert list(a) == list(b), f"output {i} has other keys"
            assert_equal_bytes(*([np.asarray(v) for v in x.values()] for x in (a, b)))
            continue
        if b is None or b.dtype == object:
            assert np.array_equal(a, b), f"output {i} differs"
            continue
        assert (a.dtype, a.shape) == (b.dtype, b.shape), f"output {i}: {a.dtype}{a.shape}"
        same = np.ascontiguousarray(a).tobytes() == np.ascontiguousarray(b).tobytes()
        assert same, f"output {i} differs in {int((_bits(a) != _bits(b)).sum())} of {a.size}"


def _bits(a: Any) -> Any:
    return np.ascontiguousarray(a).view(f"u{a.dtype.itemsize}")


def listed() -> dict[str, str]:
    """The cases that are known not to pass, with the reason."""
    lines = MISSING.read_text().splitlines() if MISSING.exists() else []
    pairs = [line.split(None, 1) for line in lines if line.strip() and not line.startswith("#")]
    return {pair[0]: pair[1] for pair in pairs}


def failure(case: Case, engines: Sequence[str]) -> str | None:
    """Why a case does not pass, in one line, or None if it does."""
    try:
        check(case, engines)
    except AssertionError as error:
        text = " ".join(str(error).split())
        return f"wrong: {text[:160]}"
    except Exception as error:
        return f"{type(error).__name__}: {' '.join(str(error).split())[:300]}"
    return None


def operator(reason: str) -> str:
    """The missing operator that a reason names, or the kind of failure."""
    found = re.search(r"does not have (\S+::[^\s:]+)", reason)
    return found[1] if found else reason.split(":")[0]


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the cases and prints what does not pass."""
    parser = argparse.ArgumentParser(prog="python -m tests.backend_suite")
    parser.add_argument("engine", choices=["machine", "both"])
    parser.add_argument("pattern", nargs="?", default="")
    parser.add_argument("--kind", choices=KINDS, action="append")
    parser.add_argument("--update", action="store_true", help="rewrite backend_missing.txt")
    parser.add_argument("--output", type=Path, help="a file for the failing cases")
    parser.add_argument("--traceback", action="store_true")
    given = parser.parse_args(arguments)
    engines = ["machine"] if given.engine == "machine" else ["machine", "native"]
    kinds = given.kind or [k for k in KINDS if k != "light"]
    chosen = [c for c in cases().values() if c.kind in kinds and re.search(given.pattern, c.name)]
    failing, counts, start = {}, Counter[str](), time.perf_counter()
    for i, case in enumerate(chosen):
        if sys.stderr.isatty():
            print(f"\r{i + 1} of {len(chosen)}", end="", file=sys.stderr)
        reason = failure(case, engines)
        counts[f"{case.kind} {'passes' if reason is None else 'fails'}"] += 1
        if reason is not None:
            failing[case.name] = reason
            if given.traceback:
                traceback.print_exc()
    seconds = time.perf_counter() - start
    _report(failing, counts, seconds)
    lines = [f"{name} {reason}\n" for name, reason in failing.items()]
    if given.output:
        given.output.write_text("".join(lines))
    if given.update:
        MISSING.write_text(_HEAD + "".join(lines))
    return 1 if failing else 0


_HEAD = """\
# Cases of the ONNX backend suite that do not pass yet: the name, then what is missing.
# tests/test_backend.py fails if a case here passes, or one that is not here fails.
"""


def _report(failing: dict[str, str], counts: Counter[str], seconds: float) -> None:
    for name, reason in failing.items():
        print(f"{name}\n    {reason}")
    print(f"\nfailing, by operator or kind ({len(failing)}):")
    for what, count in Counter(map(operator, failing.values())).most_common():
        print(f"{count:5} {what}")
    print(f"\nin {seconds:.0f} s:")
    for what, count in sorted(counts.items()):
        print(f"{count:5} {what}")


if __name__ == "__main__":
    sys.exit(main())
