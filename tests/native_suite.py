"""The native engine on ONNX's own cases, many to a compilation.

    python -m tests.native_suite [PATTERN]               each case: the machine's bytes
    python -m tests.native_suite --symbolic [PATTERN]    the same with symbolic dims, at two sizes

The cases of a group run in threads of their own, which wait where they would compile; once all
that are left wait, one library is made of what they have emitted. Nothing else is changed: each
engine chooses, plans and calls as it does in use.
"""

from __future__ import annotations

import argparse
import re
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from threading import Condition, Thread
from types import SimpleNamespace
from typing import Any

import numpy as np
import onnx

from sardonyx import build, native
from sardonyx.compiler import flags
from sardonyx.emit.model import ONE_ROW
from sardonyx.errors import RunError, SardonyxError
from sardonyx.graph import Graph
from sardonyx.kernel.c99.prelude import TILES
from sardonyx.machine import Machine
from sardonyx.native import NativeEngine
from sardonyx.resolve import resolve
from sardonyx.types import Array
from tests.backend_suite import Case, assert_equal_bytes, cases

GROUP = 40
COMMON = frozenset(f"tiles_{Path(name).stem}.c" for name in TILES)
Feeds = dict[str, Array]


@dataclass(slots=True)
class Batch:
    """What waits to be compiled, of the cases that run now."""

    running: int = 0
    waiting: list[tuple[Mapping[str, str], SimpleNamespace]] = field(default_factory=list)
    changed: Condition = field(default_factory=Condition)

    def library(self, sources: Mapping[str, str], **_: Any) -> Any:
        """In place of build.library: waits for the library of the whole batch."""
        slot = SimpleNamespace(library=None)
        with self.changed:
            self.waiting.append((sources, slot))
            self.changed.notify_all()
            self.changed.wait_for(lambda: slot.library is not None)
        if isinstance(slot.library, Exception):
            raise slot.library
        return slot.library

    def compile(self) -> bool:
        """Makes one library of all that wait; False once nothing runs any more."""
        with self.changed:
            self.changed.wait_for(lambda: len(self.waiting) == self.running)
            now, self.waiting = self.waiting, []
            if not now:
                return False
            try:
                found = _compiled([sources for sources, _ in now])
            except SardonyxError:
                found = [_alone(sources) for sources, _ in now]
            for (_, slot), library in zip(now, found, strict=True):
                slot.library = library
            self.changed.notify_all()
        return True

    def work(self, run: Callable[[], None]) -> None:
        try:
            run()
        finally:
            with self.changed:
                self.running -= 1
                self.changed.notify_all()


def _compiled(every: Sequence[Mapping[str, str]]) -> list[Any]:
    texts: dict[str, str] = {}
    for i, sources in enumerate(every):
        for file, text in sources.items():
            if file in COMMON:
                texts[file] = text.replace(ONE_ROW, "")
                continue
            renamed = text.replace("sardonyx_run", f"c{i}_run").replace('"model.h"', f'"c{i}.h"')
            texts[f"c{i}.h" if file == "model.h" else f"c{i}_{file}"] = renamed
    library = build.load(REAL(texts, common=COMMON))
    return [SimpleNamespace(sardonyx_run=library[f"c{i}_run"]) for i in range(len(every))]


def _alone(sources: Mapping[str, str]) -> Any:
    try:
        return build.load(REAL(sources, common=COMMON))
    except SardonyxError as error:
        return error


REAL = build.library


def grouped(checks: Sequence[Callable[[], None]]) -> None:
    """Runs them all; what they compile is compiled together."""
    batch = Batch()
    fake = SimpleNamespace(
        library=batch.library,
        load=lambda x: x,
        mapped=build.mapped,
        rows_of_bytes=build.rows_of_bytes,
        Progress=build.Progress,
    )
    native.build, native.os = fake, SimpleNamespace(cpu_count=lambda: 1)
    try:
        for low in range(0, len(checks), GROUP):
            part = checks[low : low + GROUP]
            batch.running = len(part)
            threads = [Thread(target=batch.work, args=(check,)) for check in part]
            for thread in threads:
                thread.start()
            while batch.compile():
                pass
            for thread in threads:
                thread.join()
    finally:
        native.build = build


def outcome(check: Callable[[], str]) -> str:
    """What check says, or why it failed, in one line."""
    try:
        return check()
    except Exception as error:
        kind = "wrong" if isinstance(error, AssertionError) else type(error).__name__
        return f"FAILED {kind}: {' '.join(str(error).split())[:300]}"


def check(case: Case) -> str:
    """Whether the native engine gives the machine's bytes; cases that the machine cannot run are
    left out."""
    model = case.model()
    try:
        graph = resolve(model)
    except SardonyxError as error:
        return f"left out: {type(error).__name__}"
    engine = None
    for inputs, _ in case.data(model):
        names = (*graph.inputs, *graph.overridable)
        if any(isinstance(x, list) or x is None for x in inputs):
            return "left out: not arrays"
        feeds = dict(zip(names, map(np.asarray, inputs), strict=False))
        try:
            expected: Any = Machine(graph).run(feeds)
        except RunError as error:
            expected = error
        except SardonyxError as error:
            return f"left out: {type(error).__name__}"
        engine = engine or NativeEngine(graph)
        same(engine, feeds, expected)
    return "passes"


def same(engine: NativeEngine, feeds: Feeds, expected: Any) -> None:
    """Asserts that the engine does what the machine did: the bytes, or the trap."""
    try:
        found = engine.run(feeds)
    except RunError:
        assert isinstance(expected, RunError), "only the native engine traps"
        return
    assert not isinstance(expected, RunError), f"only the machine traps: {expected}"
    assert_equal_bytes(list(found.values()), [expected[n] for n in found])


def check_symbolic(case: Case) -> str:
    """The same with symbolic dims: one compilation at two sizes."""
    model = case.model()
    initializers = {x.name for x in model.graph.initializer}
    infos = [v for v in model.graph.input if v.name not in initializers]
    try:
        ((inputs, _), *_) = case.data(model)
        arrays = [np.asarray(x) for x in inputs]
    except (TypeError, ValueError):
        return "left out: not arrays"
    reason = "left out: no dims"
    for choice in _choices(arrays):
        try:
            graph = resolve(_symbolic(model, [v.name for v in infos], arrays, choice))
        except SardonyxError as error:
            reason = f"left out: {type(error).__name__}"
            continue
        try:
            runs = [(f, _expected(graph, f)) for f in _feeds(graph, arrays, choice)]
        except SardonyxError as error:
            reason = f"left out: {type(error).__name__}"
            continue
        engine = NativeEngine(graph)
        for feeds, expected in runs:
            same(engine, feeds, expected)
        return "passes, one compilation" if not engine._special else "passes, specialised"
    return reason


def _expected(graph: Graph, feeds: Feeds) -> Any:
    try:
        return Machine(graph).run(feeds)
    except RunError as error:
        return error


def _choices(arrays: Sequence[Array]) -> Iterator[set[int]]:
    """Which sizes become symbolic: all, those of the first input alone, its leading one."""
    every = {n for x in arrays for n in x.shape if n > 1}
    first = {n for n in arrays[0].shape if n > 1} if arrays else set()
    others = {n for x in arrays[1:] for n in x.shape}
    tried: list[set[int]] = []
    for choice in (every, first, first - others, set(arrays[0].shape[:1]) - {1} if arrays else ()):
        if choice and set(choice) not in tried:
            tried.append(set(choice))
            yield set(choice)


def _symbolic(
    model: onnx.ModelProto, names: Sequence[str], arrays: Sequence[Array], choice: set[int]
) -> onnx.ModelProto:
    made = onnx.ModelProto()
    made.CopyFrom(model)
    by_name = dict(zip(names, arrays, strict=False))
    for info in made.graph.input:
        if info.name in by_name and info.type.HasField("tensor_type"):
            shape = info.type.tensor_type.shape
            del shape.dim[:]
            for n in by_name[info.name].shape:
                shape.dim.add(**({"dim_param": f"d{n}"} if n in choice else {"dim_value": n}))
    for info in made.graph.output:
        info.type.tensor_type.ClearField("shape")
    del made.graph.value_info[:]
    return made


def _feeds(graph: Graph, arrays: Sequence[Array], choice: set[int]) -> Iterator[Feeds]:
    """The case's own feeds, then resized ones: no two sizes become one."""
    yield dict(zip(graph.inputs, arrays, strict=False))
    sizes = {n: n * 2 + 1 for n in choice}
    yield {
        name: np.resize(x, [sizes.get(n, n) for n in x.shape]).astype(x.dtype)
        for name, x in zip(graph.inputs, arrays, strict=False)
    }


_QUICK = {"-O3": "-O1"}


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the cases and prints what fails."""
    parser = argparse.ArgumentParser(prog="python -m tests.native_suite")
    parser.add_argument("pattern", nargs="?", default="")
    parser.add_argument("--symbolic", action="store_true")
    parser.add_argument("--exclude", default="$^", help="a pattern of cases to leave out")
    parser.add_argument("--quick", action="store_true", help="compile with -O1")
    parser.add_argument("--every", action="store_true", help="print what is left out, too")
    parser.add_argument("--output", type=Path)
    given = parser.parse_args(arguments)
    if given.quick:
        build.flags = lambda compiler: tuple(_QUICK.get(f, f) for f in flags(compiler))
    chosen = [
        c
        for c in cases().values()
        if c.kind != "light"
        and re.search(given.pattern, c.name)
        and not re.search(given.exclude, c.name)
    ]
    found: dict[str, str] = {}
    begin = time.perf_counter()

    def runner(case: Case) -> Callable[[], None]:
        one = check_symbolic if given.symbolic else check

        def run() -> None:
            found[case.name] = outcome(lambda: one(case))
            if found[case.name].startswith("FAILED"):
                print(f"{case.name}\n    {found[case.name]}", flush=True)

        return run

    grouped([runner(case) for case in chosen])
    lines = [f"{n}\n    {w}" for n, w in found.items() if given.every]
    lines += [
        f"{n:5} {w}" for w, n in Counter(w.split("(")[0][:60] for w in found.values()).items()
    ]
    lines.append(f"in {time.perf_counter() - begin:.0f} s")
    print("\n".join(lines))
    if given.output:
        given.output.write_text("".join(f"{n}\t{w}\n" for n, w in sorted(found.items())))
    return any(w.startswith("FAILED") for w in found.values())


if __name__ == "__main__":
    sys.exit(main())
