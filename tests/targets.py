"""Targets: a compiler with its flags, and what runs its programs; and programs that read a graph's
inputs from a file and write its outputs to one, for them to run.

A program is model.c as `emit` writes it, weights.c, and main.c from here. The results are compared
in Python with those of the machine, so that a difference names the tensor and the element.
"""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from pathlib import Path

import numpy as np

from sardonyx.dims import evaluate
from sardonyx.emit import emit
from sardonyx.emit.model import CONTRACT_FLAGS
from sardonyx.emit.source import Source
from sardonyx.emit.weights import c_file
from sardonyx.graph import Graph
from sardonyx.kernel.c99.print_c import print_c
from sardonyx.kernel.c99.schedule import print_scheduled
from sardonyx.memory import read
from sardonyx.passes.constants import fold_constants
from sardonyx.passes.lower import lower
from sardonyx.passes.pipeline import optimise
from sardonyx.passes.program import Program
from sardonyx.passes.timeline import timeline_of
from sardonyx.plan import plan
from sardonyx.types import Array, in_memory

STRICT = (*CONTRACT_FLAGS.split(), "-pedantic", "-Wall", "-Wextra", "-Werror")
SANITIZED = ("-g1", "-fsanitize=address,undefined", "-fno-sanitize-recover=all")
# Checks of memory as calls: the same ones, compiled in half of the time.
_CALLS = "asan-instrumentation-with-call-threshold=0"
WITH_SANITIZERS = {
    "gcc": ("gcc", "-Og", *SANITIZED, "--param", _CALLS),
    "clang": ("clang", "-O1", *SANITIZED, "-mllvm", f"-{_CALLS}"),
}
ZIG = (sys.executable, "-m", "ziglang", "cc")


@dataclass(frozen=True, slots=True)
class Target:
    """How programs are made and run. cpu: what this CPU must have to run them. fused: False is the
    contract numerics="unfused"."""

    name: str
    command: tuple[str, ...]
    runner: tuple[str, ...] = ()
    cpu: tuple[str, ...] = ()
    fused: bool = True

    def __str__(self) -> str:
        return self.name


def lacking(target: Target) -> str | None:
    """Why the target's programs cannot be made here, if they cannot."""
    if target.command[:3] == ZIG:
        return None if find_spec("ziglang") else "the package ziglang is not installed"
    tools = (target.command[0], *target.runner[:1])
    missing = [tool for tool in tools if shutil.which(tool) is None]
    return f"there is no {missing[0]}" if missing else None


def unable(target: Target) -> str | None:
    """Why the target's programs cannot run here, if they cannot."""
    missing = [tool for tool in target.runner[:1] if shutil.which(tool) is None]
    if missing:
        return f"there is no {missing[0]}"
    if not target.runner and platform.machine() != "x86_64":
        return "this is not an x86-64"
    features = [f for f in target.cpu if f not in cpu_features()]
    return f"this CPU does not have {', '.join(features)}" if features else None


@cache
def cpu_features() -> frozenset[str]:
    path = Path("/proc/cpuinfo")
    lines = path.read_text().splitlines() if path.exists() else []
    found = next((line for line in lines if line.startswith(("flags", "Features"))), ":")
    return frozenset(found.split(":")[1].split())


@dataclass(frozen=True, slots=True, eq=False)
class Written:
    """A program in a folder as C."""

    folder: Path
    program: Program
    source: Source


def write(
    graph: Graph,
    folder: Path,
    *,
    scheduled: bool = True,
    fused: bool = True,
    dots: int = 0,
    prefix: str = "slice",
) -> Written:
    """A graph of concrete shapes as C files with a main; the naive print if not scheduled."""
    program = lower(graph, overridable=False)
    if scheduled:
        program = optimise(program, fused, roomy=True, dots=dots)
    else:
        program = fold_constants(program, fused)
    return write_program(program, folder, scheduled=scheduled, fused=fused, prefix=prefix)


def write_program(
    program: Program, folder: Path, *, scheduled: bool, fused: bool = True, prefix: str = "slice"
) -> Written:
    """A program as C files with a main."""
    printer = print_scheduled if scheduled else print_c
    made = plan(timeline_of(program))
    source = emit(program, made, prefix=prefix, printer=printer, unfused=not fused)
    files = {
        **source.files(),
        "weights.c": c_file(prefix, source.blob),
        "main.c": main_c(program, source),
    }
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        (folder / name).write_text(text, encoding="utf-8")
    return Written(folder, program, source)


def compiled(written: Written, target: Target, *more: str, strict: bool = True) -> Path:
    """The executable. AssertionError, with what it said, if the compiler refuses or warns."""
    folder = written.folder / target.name
    folder.mkdir(exist_ok=True)
    path = folder / "program"
    units = [str(p) for p in sorted(written.folder.glob("*.c"))]
    flags = STRICT if strict else CONTRACT_FLAGS.split()
    run([*target.command, *flags, *more, *units, "-o", str(path), "-lm"])
    return path


def run(command: Sequence[str | Path], **variables: str) -> str:
    """Runs a command; what it printed. AssertionError, with its last words, if it fails."""
    environment = {**os.environ, **variables}
    done = subprocess.run(
        list(map(str, command)), capture_output=True, text=True, errors="replace", env=environment
    )
    said = (done.stdout + done.stderr).splitlines()
    assert done.returncode == 0, "\n".join([" ".join(map(str, command)), *said[:40], *said[-10:]])
    return done.stdout


def results(
    written: Written, target: Target, executable: Path, feeds: Mapping[str, Array]
) -> dict[str, Array]:
    """The program's outputs by name."""
    given, found = executable.with_suffix(".in"), executable.with_suffix(".out")
    given.write_bytes(b"".join(in_memory(feeds[n]).tobytes() for n in written.program.inputs))
    run([*target.runner, executable, given, found])
    return cut(written.program, found.read_bytes())


def cut(program: Program, data: bytes) -> dict[str, Array]:
    """The bytes that a program wrote, output by output."""
    out, at = {}, 0
    for name in program.outputs:
        shape, dtype = shape_of(program, name), program.tensors[name].dtype
        size = dtype.bytes(int(np.prod(shape)))
        raw = np.frombuffer(data[at : at + size], np.uint8)
        out[name] = read(raw, dtype, shape) if dtype.is_packed else raw.view(dtype.numpy)
        out[name] = out[name].reshape(shape)
        assert in_memory(out[name]).tobytes() == raw.tobytes(), f"{name}: bits after the last"
        at += size
    assert at == len(data), f"{len(data)} bytes for {at}"
    return out


def shape_of(program: Program, name: str) -> tuple[int, ...]:
    return tuple(evaluate(d, {}) for d in program.tensors[name].shape or ())


def differences(found: Mapping[str, Array], expected: Mapping[str, Array]) -> list[str]:
    """Where bytes differ, a line for each output."""
    assert found.keys() == expected.keys()
    return [
        _difference(name, found[name], want)
        for name, want in expected.items()
        if found[name].tobytes() != want.tobytes()
    ]


def _difference(name: str, found: Array, want: Array) -> str:
    if (found.dtype, found.shape) != (want.dtype, want.shape):
        return f"{name}: {found.dtype}{found.shape}, not {want.dtype}{want.shape}"
    part = found.real.itemsize
    rows = [np.ascontiguousarray(x).reshape(-1).view(f"u{part}") for x in (found, want)]
    at = np.flatnonzero(rows[0] != rows[1])
    shown = ", ".join(f"[{i}] {rows[0][i]:x} not {rows[1][i]:x}" for i in at[:3])
    return f"{name}: {len(at)} of {len(rows[0])} differ: {shown}"


def main_c(program: Program, source: Source) -> str:
    """main.c: reads the inputs from the file argv[1], writes the outputs to argv[2]. Every buffer
    is an allocation of its own, of its exact size, so that a sanitizer sees a step past its end."""
    sizes = [
        [program.tensors[n].dtype.bytes(int(np.prod(shape_of(program, n)))) for n in names]
        for names in (program.inputs, program.outputs)
    ]
    inputs, outputs = (", ".join(map(str, part)) or "0" for part in sizes)
    return _MAIN.format(
        p=source.prefix,
        inputs=inputs,
        outputs=outputs,
        ins=len(sizes[0]),
        outs=len(sizes[1]),
        memory=source.memory,
    )


_MAIN = """\
#define _POSIX_C_SOURCE 200112L
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "model.h"
static const size_t in_bytes[] = {{{inputs}}}, out_bytes[] = {{{outputs}}};
static void *in[{ins} + 1], *out[{outs} + 1];
static void *buffer(size_t bytes) {{
  void *p = 0;
  if (posix_memalign(&p, 64, bytes ? bytes : 1)) exit(3);
  memset(p, 0xa5, bytes ? bytes : 1);
  return p;
}}
int main(int argc, char **argv) {{
  FILE *given = argc == 3 ? fopen(argv[1], "rb") : 0, *found = argc == 3 ? fopen(argv[2], "wb") : 0;
  unsigned char *memory = (unsigned char *)buffer({memory});
  {p}_context context;
  int i, error;
  if (!given || !found) return 2;
  for (i = 0; i < {ins}; i++) {{
    in[i] = buffer(in_bytes[i]);
    if (fread(in[i], 1, in_bytes[i], given) != in_bytes[i]) return 4;
  }}
  for (i = 0; i < {outs}; i++) out[i] = buffer(out_bytes[i]);
  memset(&context, 0, sizeof context);
  context.memory = memory;
  context.weights = {p}_weights();
  context.inputs = (const void *const *)in;
  context.outputs = (void *const *)out;
  error = {p}_run(&context);
  if (error) {{
    fprintf(stderr, "error %d in operation %d\\n", error, (int)context.operation);
    return 5;
  }}
  for (i = 0; i < {outs}; i++)
    if (fwrite(out[i], 1, out_bytes[i], found) != out_bytes[i]) return 6;
  for (i = 0; i < {ins}; i++) free(in[i]);
  for (i = 0; i < {outs}; i++) free(out[i]);
  free(memory);
  return fclose(given) || fclose(found) ? 7 : 0;
}}
"""
