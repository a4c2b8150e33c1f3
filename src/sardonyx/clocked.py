"""A program compiled with a clock read before and after each launch (about 50 ns each).

run = clocked(program, pool)
outputs, times = run(inputs)         times: (begin, nanoseconds) of each launch, in the order of
                                     passes.program.each; what is done several times is added up
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from sardonyx import build
from sardonyx.calls import Context, entry, pointers
from sardonyx.emit import emit
from sardonyx.errors import RunError
from sardonyx.kernel.c99.schedule import print_scheduled
from sardonyx.kernel.c99.writer import Choices
from sardonyx.memory import aligned, blank, read, sized
from sardonyx.passes.program import Program, Watched, each
from sardonyx.passes.timeline import timeline_of
from sardonyx.passes.workers import workers_of
from sardonyx.plan import Plan, plan
from sardonyx.threads import Pool
from sardonyx.types import Array, in_memory

CLOCK = """\
#include <stdint.h>
#include <time.h>
SARDONYX_PUBLIC int64_t sardonyx_clock[{count}];
static int64_t sx_clock(void) {{
  struct timespec t;
  clock_gettime({clock}, &t);
  return INT64_C(1000000000) * t.tv_sec + t.tv_nsec;
}}
static void sx_add(int64_t *launch, int64_t now) {{
  if (!launch[0]) launch[0] = launch[2];
  launch[1] += now - launch[2];
}}
#define SARDONYX_OBSERVED 0
#define SARDONYX_BEGIN(memory) ((void)0)
#define SARDONYX_BEFORE(memory, k) (sardonyx_clock[3 * (k) + 2] = sx_clock())
#define SARDONYX_AFTER(memory, k) (sx_add(sardonyx_clock + 3 * (k), sx_clock()), 0)
#define SARDONYX_TRAP(memory, k) ((void)0)
#define SARDONYX_END(memory) ((void)0)
"""
POSIX = "#define _POSIX_C_SOURCE 199309L\n"
Times = list[tuple[int, int]]


@dataclass(frozen=True, slots=True, eq=False)
class Clocked:
    """A compiled program of fixed sizes. dims: the numbers of the symbols that its schedules have,
    to be set before a run."""

    program: Program
    library: ctypes.CDLL
    weights: Array
    memory: Array
    pool: Pool
    plan: Plan
    dims: Array

    def __call__(self, values: Mapping[str, Array | None]) -> tuple[dict[str, Array], Times]:
        """The outputs, and the times of the launches. RunError for a trap."""
        program = self.program
        inputs = [
            None if (v := values.get(n)) is None else in_memory(v) for n in self.program.inputs
        ]
        kinds = [sized(program.tensors[n]) for n in program.outputs]
        outputs = [blank(*kind) for kind in kinds]
        given, written = pointers(inputs), pointers(outputs)  # kept alive during the run
        context = Context(
            self.memory.ctypes.data,
            self.weights.ctypes.data,
            self.dims.ctypes.data,
            0,
            ctypes.addressof(given),
            ctypes.addressof(written),
            0,
            self.pool.parallel_for,
            self.pool.argument,
            self.memory.ctypes.data + self.plan.size,
        )
        count = len(tuple(each(program)))
        clock = (ctypes.c_int64 * (3 * count)).in_dll(self.library, "sardonyx_clock")
        ctypes.memset(clock, 0, ctypes.sizeof(clock))
        if entry(self.library)(ctypes.addressof(context)):
            raise RunError(f"the run traps in launch {context.operation}")
        times = [(clock[3 * i], clock[3 * i + 1]) for i in range(count)]
        results = (read(y, *kind) for y, kind in zip(outputs, kinds, strict=True))
        return dict(zip(program.outputs, results, strict=True)), times


def _hooks(program: Program) -> dict[Program, dict[int, tuple[int, bool, bool]]]:
    """The launches of the program, and of those in it, that are kernels, numbered."""
    found: dict[Program, dict[int, tuple[int, bool, bool]]] = {program: {}}
    for number, (inside, launch) in enumerate(each(program)):
        at = inside.launches.index(launch)
        found.setdefault(inside, {})[at] = number, True, True
    return found


def clocked(
    program: Program,
    pool: Pool,
    *,
    choices: Choices | None = None,
    symbols: Sequence[str] = (),
    clock: str = "CLOCK_MONOTONIC",
    progress: build.Progress | None = None,
) -> Clocked:
    """Compiles an optimised program of fixed sizes; choices may name the symbols. clock: as
    clock_gettime names it."""
    made = plan(timeline_of(program))
    hooks = _hooks(program)
    workers = workers_of(program)
    source = emit(
        program,
        made,
        symbols=symbols,
        printer=partial(print_scheduled, threads=True, choices=choices),
        units=os.cpu_count() or 1 if len(program.launches) > 8 else 1,
        watched={x: Watched(h) for x, h in hooks.items()},
        workers=workers,
    )
    files = source.files()
    files["model.c"] = POSIX + files["model.c"]
    count = sum(map(len, hooks.values()))
    files["observe.h"] = CLOCK.format(count=max(1, 3 * count), clock=clock)
    return Clocked(
        program,
        build.loaded(files, progress=progress, common=source.tiles)[1],
        build.mapped(source.blob),
        aligned(made.size_for(pool.threads, workers.at({}, pool.threads)), 0),
        pool,
        made,
        np.zeros(max(1, len(symbols)), np.int64),
    )
