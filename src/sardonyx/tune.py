"""Schedules of sums of products that are chosen by measurement, on this computer.

    choices = chosen(program, Tuning(measure=True))     shape -> the fields of its sx_choice

The program is compiled once, with each choice an entry of its table of dims, so that candidates
take turns: every launch is timed where it stands, on its own buffers, by the CPU's clock. What is
found is kept in the cache, under the digest of the compiler, the CPU and the tiles, and is not
measured again; a file of choices serves wherever the same code is wanted again. No choice changes a
bit: the outputs under all candidates are compared.
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from importlib.resources import files
from pathlib import Path
from statistics import median
from typing import NamedTuple, TypeAlias

import numpy as np

from sardonyx import build
from sardonyx.clocked import Clocked, clocked
from sardonyx.compiler import find_compiler, flags
from sardonyx.dims import Dim, symbol
from sardonyx.errors import InternalError, RunError, SardonyxError
from sardonyx.kernel.c99.prelude import TILES
from sardonyx.kernel.c99.print_product import packed_product, shape_of
from sardonyx.kernel.c99.writer import Choices
from sardonyx.kernel.ir import Compute, Kernel, statements
from sardonyx.passes.program import Program, each
from sardonyx.settings import Tuning
from sardonyx.threads import ALONE
from sardonyx.types import Array, TensorType

KEPT = ".schedules"
ROUNDS = 9  # of each candidate
SECONDS = 20.0  # after which no round of all candidates begins, if there were FEWEST
FEWEST = 3
GAIN = 0.95  # of the model's time: on a busy machine, what is nearer to it is noise


class Choice(NamedTuple):
    """The fields of a sx_choice (kernel/c99/choice.h); 0 leaves one to the model."""

    tile: int = 0
    wide: int = 0
    chunk: int = 0
    terms: int = 0


MODEL = Choice()
CANDIDATES = (
    *(Choice(chunk=rows) for rows in (24, 48, 96, 252)),
    *(Choice(terms=terms) for terms in (128, 256, 1024)),
    *(Choice(tile, wide) for tile, wide in ((3, 2), (5, 1), (8, 2))),
)
Table: TypeAlias = dict[str, Choice]  # by shape_of


def lookup(choices: Mapping[str, Choice]) -> Choices:
    """The choices as the printer asks for them."""
    return lambda shape: choices.get(shape, MODEL)


def chosen(
    program: Program, tuning: Tuning | None, progress: build.Progress | None = None
) -> Table:
    """The choices for an optimised program. Raises SardonyxError where the file is none."""
    if tuning is None:
        return {}
    given = read(tuning.file) if _is_there(tuning) and tuning.file else {}
    shapes = [_shapes(launch.kernel) for _, launch in each(program)]
    wanted = sorted(set[str]().union(*shapes))
    if not tuning.measure:
        return {s: given[s] for s in wanted if s in given}
    known = {**_kept(), **given}
    calls = [launch.call for launch in program.launches if launch.call]
    fixed = program.is_fixed and all(call.kind == "Each" for call in calls)
    lacking = [s for s in wanted if s not in known]
    if lacking and fixed:
        found = _measured(program, shapes, lacking, progress)
        _keep(found)
        known |= found
    choices = {s: known[s] for s in wanted if s in known}
    if tuning.file is not None:
        write(tuning.file, {**given, **choices})
    return choices


def _is_there(tuning: Tuning) -> bool:
    """Whether choices are to be read; a file that is not there is only written."""
    return tuning.file is not None and (not tuning.measure or tuning.file.exists())


def _shapes(kernel: Kernel) -> frozenset[str]:
    """The sums of products of a kernel."""
    products = (packed_product(s) for s in statements(kernel.body) if isinstance(s, Compute))
    found = (shape_of(p) for p in products if p is not None)
    return frozenset(s for s in found if s is not None)


def _measured(
    program: Program,
    shapes: Sequence[frozenset[str]],
    wanted: Sequence[str],
    progress: build.Progress | None,
) -> Table:
    """The best choice for each shape: the best candidate, if it is faster a second time too."""
    symbols = tuple(f"{field}{i}" for i in range(len(wanted)) for field in Choice._fields)
    named = {s: _fields(symbols, i) for i, s in enumerate(wanted)}
    run = clocked(
        program,
        ALONE,
        choices=lambda shape: named.get(shape, MODEL),
        symbols=symbols,
        clock="CLOCK_THREAD_CPUTIME_ID",
        progress=progress,
    )
    values = _values(program)
    every = [dict.fromkeys(wanted, c) for c in (MODEL, *CANDIDATES)]
    try:
        ratios = _ratios(run, values, shapes, every, progress)
        first = {s: every[_least(x)][s] for s, x in ratios.items()}
        again = _ratios(run, values, shapes, [every[0], first], progress)
    except RunError:  # of an index, say: what is fed is made up
        return {}
    return {s: (MODEL, first[s])[_least(again[s])] for s in wanted}


def _fields(symbols: Sequence[str], i: int) -> tuple[Dim, Dim, Dim, Dim]:
    tile, wide, chunk, terms = map(symbol, symbols[4 * i : 4 * i + 4])
    return tile, wide, chunk, terms


def _least(ratios: Sequence[float]) -> int:
    """The index of the least ratio; 0, the model's, where no other is clearly faster."""
    best = min(range(len(ratios)), key=lambda i: ratios[i])
    return best if ratios[best] < GAIN else 0


def _ratios(
    run: Clocked,
    values: Mapping[str, Array],
    shapes: Sequence[frozenset[str]],
    tables: Sequence[Table],
    progress: build.Progress | None,
) -> dict[str, list[float]]:
    """For each shape, how long the launches with it take under each table, over the first:
    the greater of the median of the rounds' ratios and of the ratio of the least times. Where many
    tables take long there are fewer than ROUNDS rounds."""
    report = progress or (lambda done, total, what: None)
    found: dict[str, list[list[float]]] = {s: [[] for _ in tables] for s in tables[0]}
    bits, begin = None, time.perf_counter()
    for number in range(ROUNDS):
        late = time.perf_counter() - begin > SECONDS
        if number >= FEWEST and late and len(tables) > 2:
            break
        report(number, ROUNDS, "measuring schedules")
        for i, table in enumerate(tables):
            run.dims[: 4 * len(table)] = [n for choice in table.values() for n in choice]
            outputs, times = run(values)
            made = [y.tobytes() for y in outputs.values()]
            if made != (bits := bits or made):
                raise InternalError("schedules differ in their results")
            for s in table:
                total = sum(t for (_, t), there in zip(times, shapes, strict=True) if s in there)
                found[s][i].append(max(1, total))
    report(ROUNDS, ROUNDS, "measured schedules")
    return {
        s: [
            max(median(a / b for a, b in zip(x, first, strict=True)), min(x) / min(first))
            for x in columns
        ]
        for s, columns in found.items()
        for first in (columns[0],)
    }


def _values(program: Program) -> dict[str, Array]:
    """Something to run with: floats of a normal distribution, and 0, which is an index anywhere."""
    random = np.random.default_rng(0)

    def value(tensor: TensorType) -> Array:
        shape = tuple(d for d in tensor.shape or () if isinstance(d, int))
        if tensor.dtype.is_float:
            return random.standard_normal(shape).astype(tensor.dtype.numpy)
        return np.zeros(shape, tensor.dtype.numpy)

    return {n: value(program.tensors[n]) for n in program.inputs}


def read(path: Path) -> Table:
    """A file of choices. SardonyxError where it is none."""
    if path.exists() and not path.is_file():
        raise SardonyxError(f"{path} is no file of schedules: it is no regular file")
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
        table = {str(s): Choice(*map(int, numbers)) for s, numbers in found["schedules"].items()}
    except (OSError, ValueError, TypeError, LookupError, AttributeError) as error:
        raise SardonyxError(f"{path} is no file of schedules: {error}") from error
    return table


def write(path: Path, table: Mapping[str, Choice]) -> None:
    """Writes a file of choices, whole. SardonyxError where it cannot be written."""
    lines = (f"  {json.dumps(s)}: {json.dumps(table[s])}" for s in sorted(table))
    text = '{"schedules": {\n' + ",\n".join(lines) + "\n}}\n"
    try:
        build.place(path, [text.encode()])
    except OSError as error:
        raise SardonyxError(f"the schedules cannot be written to {path}: {error}") from error


def _place() -> Path:
    """Where the choices of this computer are kept."""
    compiler = find_compiler()
    texts = {name: files("sardonyx.kernel.c99").joinpath(name).read_text("utf-8") for name in TILES}
    return build.cache_folder() / (build.digest(texts, compiler, flags(compiler)) + KEPT)


def _kept() -> Table:
    try:
        return read(_place())
    except SardonyxError:
        return {}


def _keep(found: Mapping[str, Choice]) -> None:
    """Adds to what is kept."""
    place = _place()
    try:
        with build.locked(place.with_suffix(".lock")):
            write(place, {**_kept(), **found})
    except (OSError, SardonyxError):
        return  # the next session measures again
