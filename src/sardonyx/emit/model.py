"""A whole program as C: model.h and model.c.

    emit(program, plan)                     offsets are constants
    emit(program, symbols=graph.symbols)    offsets and dims come from tables that the caller fills

The entry point is `int sardonyx_run(sardonyx_context *)`: it neither allocates nor keeps anything,
so that one program may run in many threads, each with a context and a memory of its own. It returns
0, or the kind of the first trap, with the number of the launch in the context.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from importlib.resources import files

from sardonyx.dims import Dim, product
from sardonyx.emit.launches import Printer, Shared, Wrapper, declarations, wrapper
from sardonyx.emit.names import described
from sardonyx.emit.places import Places
from sardonyx.emit.sizes import size_checks, told_sizes
from sardonyx.emit.source import WRITTEN, Body, Extent, Launch, Program, Source, bounds_of
from sardonyx.emit.watch import Hook, Watched, call_of, first, hooked, told
from sardonyx.emit.weights import Blob
from sardonyx.kernel.c99.prelude import END, prelude, tile_files
from sardonyx.kernel.c99.print_c import print_c
from sardonyx.kernel.c99.print_product import packed_product
from sardonyx.kernel.c99.work import UNIT
from sardonyx.kernel.ir import Compute, statements
from sardonyx.plan import Plan
from sardonyx.plan.plans import Workers

CONTRACT_FLAGS = (
    "-std=c99 -ffp-contract=off -fno-math-errno -fno-trapping-math -fno-strict-aliasing"
)
_UNFUSED = '#define SX_UNFUSED 1 /* numerics = "unfused": multiply, then add */\n'
ONE_ROW = "#define SX_ONE_ROW 1 /* of each sum of products: other tiles are not compiled */\n"


def emit(
    program: Program,
    plan: Plan | None = None,
    *,
    symbols: Sequence[str] = (),
    prefix: str = "sardonyx",
    printer: Printer = print_c,
    units: int = 0,
    unfused: bool = False,
    extents: Sequence[Extent] = (),
    hooks: Mapping[int, Hook] | None = None,
    watched: Mapping[object, Watched] | None = None,
    workers: Workers | None = None,
) -> Source:
    """The C of a program.

    plan: where all tensors lie; None leaves that, and the values of `symbols`, to the caller's
    tables: then weights, inputs and written outputs lie outside M, and host nothing else.
    prefix: of the names that the linker sees. printer: how kernels are written. units: into how
    many files the kernels are split, register tiles in files of their own (1: kernels stand in
    model.c; 0: all stands in model.c). unfused:
    numerics="unfused". extents: symbolic dims that the program finds as it runs; then there is a
    plan for their bounds, and no other symbol. hooks: launches that are observed, as observe.h
    (which the caller provides) says; a hook is a step, whether it begins with this launch, and
    whether it ends with it. watched: what is observed of this program, and of each program in it,
    where it is one in stages. workers: the caller may supply a parallel_for, and each thread but
    the first needs this scratch; the printer shares out work then.
    """
    symbols = (*symbols, *(e.symbol for e in extents))
    seen, functions = watched or {}, dict[Launch, str]()
    worker = None if workers is None else workers.kernels
    places, shared = Places(program, plan, Blob(), tuple(symbols), worker=worker), Shared()

    def section(body: Body, label: str) -> tuple[str, str]:
        inner = Places(body.program, body.plan, places.blob, places.symbols, worker=places.worker)
        inside = wrappers_of(body.program, inner, label)
        steps = _steps(
            body.program,
            inner,
            inside,
            prefix,
            f"{label}steps",
            watched=seen.get(body.program) if seen else None,
        )
        return "\n".join([*(w.text for w in inside), *steps, ""]), f"{label}steps"

    def wrappers_of(program: Program, places: Places, label: str) -> list[Wrapper]:
        made = [
            wrapper(i, launch, places, shared, printer, prefix, section, label)
            for i, launch in enumerate(program.launches)
        ]
        functions.update(zip(program.launches, (w.name for w in made), strict=True))
        return made

    wrappers = wrappers_of(program, places, "")
    steps = _steps(
        program,
        places,
        wrappers,
        prefix,
        extents=extents,
        hooks=hooks,
        watched=seen.get(program) if seen else None,
    )
    kernels, first = shared.texts(), _UNFUSED if unfused else ""
    rows = _rows(program)
    first += ONE_ROW if next(rows, 0) == 1 and all(n == 1 for n in rows) else ""
    split = _split(kernels, units, first) if units > 1 else ()
    tiles = tile_files("\n".join(kernels.values())) if units else {}
    own = [_prototype(*item) if split else item[1] for item in kernels.items()]
    rest = [*own, *(w.text for w in wrappers), *_entry(steps, prefix, extents)]
    rest = [*_surroundings(rest, "sx_enter"), *rest]
    observed = hooks is not None or seen
    return Source(
        prefix=prefix,
        header=_header(program, places, prefix, extents, workers),
        main=first + _main(rest, '#include "observe.h"\n' if observed else "", units > 0),
        units=split,
        tiles={name: first + text for name, text in tiles.items()},
        blob=places.blob,
        memory=None if plan is None else plan.size,
        slots=tuple(places.slots),
        symbols=tuple(symbols),
        inputs=tuple(program.inputs),
        outputs=tuple(program.outputs),
        functions=functions,
        kernels=len(kernels),
        unfused=unfused,
        threads=workers is not None,
    )


@cache
def _text(name: str) -> str:
    return files("sardonyx.emit").joinpath(name).read_text("utf-8")


def _surroundings(parts: Sequence[str], wanted: str = "sx_threads") -> Iterator[str]:
    """What stands before them: the floating-point environment, and sharing out work."""
    parallel = any("sx_threads" in part for part in parts)
    if parallel or any(wanted in part for part in parts):
        yield _text("environment.h")
    if parallel:
        yield f"#define SX_UNIT {UNIT} /* the work of a range that is worth handing over */"
        yield _text("parallel.h")


def _main(parts: Sequence[str], more: str, elsewhere: bool) -> str:
    body = "\n".join(parts)
    head = f"{WRITTEN}. Compile with\n   -O3 {CONTRACT_FLAGS} */\n"
    copies = "#include <string.h>\n" if "memcpy(" in body else ""
    include = '#include "model.h"\n'
    return f"{head}{include}{more}{copies}{prelude(body, elsewhere)}\n{body}{END}"


def _split(kernels: Mapping[str, str], units: int, first: str) -> tuple[str, ...]:
    """The kernels, made visible to other files, in files of about equal length."""
    parts: list[list[str]] = [[] for _ in range(min(units, len(kernels)))]
    filled = [0] * len(parts)
    for name, text in sorted(kernels.items(), key=lambda item: -len(item[1])):
        public = text.replace(f"static void {name}(", f"void {name}(", 1)
        least = filled.index(min(filled))
        parts[least].append(f"{_prototype(name, text)}{public}\n")
        filled[least] += len(text)
    bodies = ["\n".join([*_surroundings(part), *part]) for part in parts]
    return tuple(f"{first}{prelude(body, elsewhere=True)}\n{body}{END}" for body in bodies)


def _rows(program: Program) -> Iterator[Dim]:
    """The rows of each sum of products by register tiles."""
    for launch in program.launches:
        for s in statements(launch.kernel.body):
            p = packed_product(s) if isinstance(s, Compute) else None
            if p is not None:
                yield p.c.rows
        for body in launch.call.bodies if launch.call else ():
            yield from _rows(body.program)


def _prototype(name: str, text: str) -> str:
    """The declaration of a kernel that another file defines."""
    start = text.index(f"static void {name}(") + len("static ")
    return f"{text[start : text.index(') {', start)]});\n"


def _steps(
    program: Program,
    places: Places,
    wrappers: Sequence[Wrapper],
    prefix: str,
    inside: str = "",
    extents: Sequence[Extent] = (),
    hooks: Mapping[int, Hook] | None = None,
    watched: Watched | None = None,
) -> list[str]:
    """The function that does everything, in order; inside: its name, where it is a body's."""
    lines = first(watched) if watched else []
    checks = size_checks(program, places, extents, bool(extents or inside))
    lines += _copies_in(program, places) + checks.get(-1, [])
    lines += ["SARDONYX_BEGIN(c->memory);"] if hooks is not None else []
    lines += told(watched.begin, places.tensor) if watched and watched.begin else []
    for i, w in enumerate(wrappers):
        call = _called(i, w, program.launches[i].call is not None)
        call = hooked(i, w, call, hooks[i]) if hooks and i in hooks else call
        lines += call_of(watched, i, w, call, places.tensor) if watched else call
        lines += checks.get(i, [])
    lines += _copies_out(program, places)
    lines += ["SARDONYX_END(c->memory);"] if hooks is not None else []
    lines += told(watched.end, places.tensor) if watched and watched.end else []
    used = list(declarations("\n".join(lines)))
    unused = [] if "status" in "\n".join(lines) else ["(void)status;"]
    body = [*used, *unused, *(lines or ["(void)c;"])]
    more = ", int64_t *extents" if extents else ""
    name = inside or "sx_steps"
    head = f"static SX_APART void {name}(const {prefix}_context *c, sx_status *status{more}) {{"
    return [head, *(f"  {line}" for line in body), "}"]


def _called(number: int, w: Wrapper, counts: bool) -> list[str]:
    """The call of a wrapper, where it does anything; counts: it tells operations of its own."""
    if w.traps:
        mark = f"status->operation = {number};"
        lines = [mark, f"{w.name}(c, status);", *([mark] if counts else [])]
        return [*lines, "if (status->error) return;"]
    return [f"{w.name}(c);"] if "{" in w.text else []


def _copies_in(program: Program, places: Places) -> list[str]:
    """Inputs and weights that the plan puts into M are copied there first."""
    lines = []
    for name in program.weights:
        place = places.tensor(name)
        if place.startswith("M ") and program.weights[name].size:
            source = f"W + {places.blob.add(program.weights[name])}"
            lines.append(f"memcpy({place}, {source}, (size_t)({_bytes(program, places, name)}));")
    for i, name in enumerate(program.inputs):
        place = places.tensor(name)
        if place.startswith("M "):
            lines.append(f"memcpy({place}, in[{i}], (size_t)({_bytes(program, places, name)}));")
    return lines


def _copies_out(program: Program, places: Places) -> list[str]:
    """Outputs that lie elsewhere are copied out last."""
    lines = []
    for i, name in enumerate(program.outputs):
        place = places.tensor(name)
        if place != f"out[{i}]":
            lines.append(f"memcpy(out[{i}], {place}, (size_t)({_bytes(program, places, name)}));")
    return lines


def _bytes(program: Program, places: Places, name: str) -> str:
    tensor = program.tensors[name]
    return places.size(tensor.dtype.bytes(product(tensor.shape or ())))


def _entry(steps: list[str], prefix: str, extents: Sequence[Extent]) -> list[str]:
    call = "sx_steps(context, &status);"
    if extents:
        call = f"""\
int64_t extents[{len(extents)}] = {{{", ".join("1" for _ in extents)}}};
  {prefix}_context inner = *context;
  inner.dims = extents;
  sx_steps(&inner, &status, extents);"""
    run = f"""\
int {prefix}_run({prefix}_context *context) {{
  sx_status status = {{0, -1}};
  const sx_environment old = sx_enter();
  {call}
  sx_leave(old);
  context->operation = status.error ? status.operation : -1;
  return status.error;
}}
"""
    return ["\n".join(steps) + "\n", run]


def _header(
    program: Program,
    places: Places,
    prefix: str,
    extents: Sequence[Extent],
    workers: Workers | None,
) -> str:
    upper = prefix.upper()
    fixed = places.plan is not None
    sizes = [f"#define {upper}_WEIGHTS_BYTES {places.blob.size}"]
    if places.plan is not None:
        sizes.append(f"#define {upper}_MEMORY_BYTES {places.plan.size}")
    if workers is not None and isinstance(workers.kernels, int):
        most = max((workers.kernels, *(n for n, _ in workers.elements)))
        sizes.append(f"#define {upper}_WORKER_BYTES {most}")
    tensors = [
        f"   {kind}[{i}]: {described(name, program.tensors[name], bounds_of(extents))}"
        for kind, names in (("inputs", program.inputs), ("outputs", program.outputs))
        for i, name in enumerate(names)
    ]
    notes = [
        f"   memory: {upper}_MEMORY_BYTES bytes"
        if fixed
        else "   memory: as many bytes as planned",
        f"   weights: the {upper}_WEIGHTS_BYTES bytes of the weights",
        *told_sizes(program, places, extents),
        *tensors,
        f"   {prefix}_run returns 0, or the operation fails that operation names: an index is out",
        "   of bounds 1 (a load) or 2 (a store), or a size is beyond its bound or unfit (3).",
    ]
    public = (*program.inputs, *program.outputs)
    return _HEADER.format(
        p=prefix,
        P=upper,
        sizes="\n".join(sizes),
        packed=_PACKED if any(program.tensors[n].dtype.is_packed for n in public) else "",
        notes="\n".join(notes).replace("*/", "* /"),
        types="" if workers is None else _PARALLEL.format(p=prefix, P=upper),
        fields="" if workers is None else _FIELDS.format(p=prefix),
    )


_PACKED = """
   Elements below 8 bits are packed as in ONNX's raw_data: element i of b bits begins at bit i * b,
   counted from the low bit of the first byte on; what is left of the last byte is 0."""
_PARALLEL = """
/* Threads, if there are to be any: a parallel_for calls work for ranges begin .. end - 1 that cover
   0 .. count - 1 once each, in any order, from as many threads as it likes, and returns when all is
   done. worker is a number of the calling thread's own; with numbers 0 .. n - 1, scratch is n - 1
   times {P}_WORKER_BYTES bytes, 64-byte aligned (0 if there are none); threads is n, 0 if it is not
   known. The result does not depend on any of this. Without a parallel_for (0) the caller does all
   the work. */
typedef void {p}_work(const void *given, int64_t begin, int64_t end, int64_t worker);
typedef void {p}_parallel_for(void *pool, {p}_work *work, const void *given, int64_t count);
"""
_FIELDS = """\
  {p}_parallel_for *parallel_for;
  void *pool; /* what parallel_for is given */
  unsigned char *scratch;
  int64_t threads;
"""
_HEADER = """\
#ifndef {P}_MODEL_H
#define {P}_MODEL_H
#include <stdint.h>
#if defined(_WIN32)
#define {P}_PUBLIC __declspec(dllexport)
#elif defined(__GNUC__) || defined(__clang__)
#define {P}_PUBLIC __attribute__((visibility("default")))
#else
#define {P}_PUBLIC
#endif
#ifdef __cplusplus
extern "C" {{
#endif

{sizes}
{types}
/* All buffers are the caller's, 64-byte aligned, and do not overlap; arrays are row-major.{packed}
{notes} */
typedef struct {{
  unsigned char *memory;
  const unsigned char *weights;
  const int64_t *dims, *offsets;
  const void *const *inputs;
  void *const *outputs;
  int32_t operation;
{fields}}} {p}_context;

{P}_PUBLIC int {p}_run({p}_context *context);

/* The weights as weights.c has them. */
const unsigned char *{p}_weights(void);

#ifdef __cplusplus
}}
#endif
#endif
"""
