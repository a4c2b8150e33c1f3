"""The program of a graph as C that can be observed: its operations one by one, in the plan of G.

    made = observed(machine, subject)
    emit(made.program, made.plan, hooks=made.hooks), made.files

Beyond the N bytes of the machine's plan, M has 64 bytes of flags for each operation, and what the
kernels of the obligations need. Compiled with -DSARDONYX_TRACE the program writes the trace that
the machine writes; with -DSARDONYX_MONITOR it raises flags; without, it does neither.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from importlib.resources import files
from math import prod

from sardonyx.infer import kernel_of
from sardonyx.kernel.ir import Kernel
from sardonyx.machine import Access, Machine, Segment
from sardonyx.monitor import checks
from sardonyx.passes.lower import lower
from sardonyx.passes.program import Launch, Program
from sardonyx.plan import Plan, padded
from sardonyx.plan.kernels import step_of
from sardonyx.plan.outline import byte_size
from sardonyx.trace.form import Form, Hole, Subject, footer_template, form
from sardonyx.types import TensorType

SLOT = 64  # bytes of flags per operation
LITERAL = 400  # characters of a string literal
_KINDS = {"initial": "d", "read": "r", "before": "b", "after": "d", "flag": "f", "output": "d"}

Hook = tuple[int, bool, bool]  # step, whether it begins here, whether it ends here


@dataclass(frozen=True, slots=True)
class Counter:
    """What is counted as a graph runs in stages. kind: "n" the steps, "l" the layouts of M, "s" the
    executions of a subgraph; index: its depth."""

    kind: str
    index: int = 0


@dataclass(frozen=True, slots=True, eq=False)
class Observed:
    """A program with a launch for each obligation, its plan, what is observed of its launches, and
    the C files beside model.c. flags: where the flags begin in M."""

    program: Program
    plan: Plan
    hooks: Mapping[int, Hook]
    files: Mapping[str, str]
    flags: int


@dataclass(frozen=True, slots=True, eq=False)
class Checked:
    """The program of a part of known sizes, with a launch for each obligation; its plan, whose M
    begins with the machine's; the steps that its launches are; where the flags begin in M."""

    program: Program
    plan: Plan
    hooks: Mapping[int, Hook]
    flags: int


def observed(machine: Machine | Segment, subject: Subject) -> Observed:
    """The program of a machine that was started on a graph of known sizes, and took no step."""
    made, given = form(machine, subject), with_checks(machine)
    files = _files(made, given.flags, given.plan, given.program)
    return Observed(given.program, given.plan, given.hooks, files, given.flags)


def with_checks(machine: Machine | Segment) -> Checked:
    """The program of such a machine, and of what the monitor asks of its operations."""
    graph, records = machine.state.graph, machine.records()
    base = padded(machine.plan.size)
    launches, scratch, hooks = list[Launch](), list[tuple[int, ...]](), dict[int, Hook]()
    names, sizes = dict[str, TensorType](), dict[str, int]()
    end = beyond = base + SLOT * len(records)
    plain = {launch.operations[0]: launch for launch in lower(graph, overridable=False).launches}
    for k, record in enumerate(records):
        kernel = kernel_of(graph, record.operation)
        check = checks(kernel, record.operation.op_type)
        if check is not None:
            launch, at = _check(k, plain[record.operation], check), beyond
            offsets, end = _stacked(check, at, end)
            hooks[len(launches)] = (k, True, False)
            names[launch.writes[0]] = TensorType(check.outputs[0].dtype, check.outputs[0].shape)
            sizes[launch.writes[0]] = base + SLOT * k + 2
            launches.append(launch)
            scratch.append(offsets)
        hooks[len(launches)] = (k, check is None, True)
        launches.append(plain[record.operation])
        scratch.append(machine.plan.scratch[k])
    program = Program(
        tuple(graph.inputs),
        graph.outputs,
        {**graph.types, **names},
        {n: v for n, v in graph.initializers.items() if n not in graph.inputs},
        tuple(launches),
    )
    plan = replace(
        machine.plan,
        offsets={**machine.plan.offsets, **sizes},
        scratch=tuple(scratch),
        size=padded(end),
    )
    return Checked(program, plan, hooks, base)


def _check(step: int, launch: Launch, kernel: Kernel) -> Launch:
    """The launch of an operation's obligations."""
    return Launch(kernel, launch.reads[: len(kernel.inputs)], (f"flags of step {step}",), ())


def _stacked(kernel: Kernel, start: int, end: int) -> tuple[tuple[int, ...], int]:
    """Places for the temporaries of a kernel, one after the other; the end of M so far."""
    offsets, at = [], start
    for size in step_of(replace(kernel, inputs=(), outputs=(), views=()), (), ()).scratch:
        offsets.append(at)
        at += padded(size)
    return tuple(offsets), max(end, at)


@cache
def text_of(name: str) -> str:
    return files("sardonyx.trace").joinpath(name).read_text("utf-8")


def _files(made: Form, base: int, plan: Plan, program: Program) -> dict[str, str]:
    """Every C file beside the program's own."""
    header = text_of("observe.h").replace("@FLAGS@", str(base))
    return {
        "observe.h": header.replace("@OPERATIONS@", str(len(made.steps))),
        "observe.c": "\n".join([HEAD, *_tables(made, base), text_of("observe.c"), "#endif\n"]),
        **beside(program, plan),
    }


def beside(program: Program, plan: Plan) -> dict[str, str]:
    """The files that do not depend on what is observed."""
    sizes = [
        [_size(program.tensors[n]) for n in names] for names in (program.inputs, program.outputs)
    ]
    main = text_of("trace_main.c").replace("@MEMORY@", str(max(1, plan.size)))
    for key, given in zip(("IN", "OUT"), sizes, strict=True):
        main = main.replace(f"@{key}PUTS@", ", ".join(map(str, given)) or "0")
        main = main.replace(f"@{key}@", str(len(given)))
    return {"sha256.h": text_of("sha256.h"), "trace_main.c": main}


def make_rules(inputs: int) -> str:
    """What is added to the Makefile: `make trace` writes run.jsonl from the recorded inputs."""
    return _RULES.format(inputs=" ".join(f"input{i}.bin" for i in range(inputs)))


_RULES = """
# make trace   writes run.jsonl, the trace of the recorded run
TRACED = trace_main.c model.c observe.c weights.c

trace_model: $(TRACED) model.h observe.h sha256.h
	$(CC) $(CFLAGS) $(SX_FLAGS) -DSARDONYX_TRACE $(LDFLAGS) -o $@ $(TRACED) -lm

trace: trace_model
	./trace_model {inputs} > run.jsonl

.PHONY: trace
"""


def _size(tensor: TensorType) -> int:
    return byte_size("an input or output", tensor)


HEAD = """\
/* Written by Sardonyx: what is observed of model.c. */
#include "observe.h"
#if defined(SARDONYX_TRACE) || defined(SARDONYX_MONITOR)
#include <stdint.h>
#include <string.h>
#if defined(SARDONYX_TRACE)
#include "sha256.h"
#endif
typedef struct { int64_t offset, count; int width; char kind; } sx_region;
typedef struct { char kind; int index; const char *text; } sx_piece;
typedef struct {
  const sx_region *regions;
  int reads, writes;
  const sx_piece *line;
  int64_t flags;
  char kind;
} sx_step;
"""


def _tables(made: Form, base: int) -> Iterator[str]:
    """The regions and lines of all steps, of the header and of the footers."""
    held = max((len(r.reads) + len(r.writes) for r, _ in made.steps), default=1)
    yield f"#define SX_HELD {max(1, held)}"
    rows = []
    for k, (record, _) in enumerate(made.steps):
        yield regions(f"sx_regions{k}", (*record.reads, *record.writes))
        touched = f"sx_regions{k}, {len(record.reads)}, {len(record.writes)}"
        rows.append(f"{{{touched}, SX_LINE({k}), {base + SLOT * k}, 's'}}")
    yield "#if defined(SARDONYX_TRACE)\n#define SX_LINE(k) sx_line##k"
    yield regions("sx_initial", made.initial)
    yield regions("sx_outputs", made.outputs)
    for k, (_, template) in enumerate(made.steps):
        yield pieces(f"sx_line{k}", template)
    yield pieces("sx_header", made.header)
    for name, end in (("sx_footer", "complete"), ("sx_cut", "trapped")):
        yield pieces(name, footer_template(made.outputs, end), root=True)
    yield "#else\n#define SX_LINE(k) 0\n#endif"
    yield (
        "static const sx_step sx_table[] = {\n" + ",\n".join(rows or ["{0, 0, 0, 0, 0, 0}"]) + "};"
    )


def regions(name: str, accesses: Sequence[Access]) -> str:
    rows = [_region(a) for a in accesses] or ["{0, 0, 1, 'i'}"]
    return f"static const sx_region {name}[] = {{{', '.join(rows)}}};"


def _region(a: Access) -> str:
    """offset, number of elements, bytes of one ('p': bits of one that is packed), kind."""
    floats = a.dtype.is_float and a.dtype.bits >= 16
    kind = "i" if not floats else "b" if a.dtype.name == "bfloat16" else "f"
    kind, width = ("p", a.dtype.bits) if a.dtype.is_packed else (kind, a.dtype.size)
    return f"{{{a.offset}, {prod(a.shape)}, {width}, '{kind}'}}"


def pieces(name: str, template: Sequence[str | Hole | Counter], root: bool = False) -> str:
    rows = []
    for p in template:
        match p:
            case Counter(kind, index):
                rows.append(f"{{'{kind}', {index}, 0}}")
            case Hole("count"):
                rows.append("{'c', -1, 0}")
            case Hole(kind, index):
                rows.append(f"{{'{_KINDS[kind]}', {index}, 0}}")
            case str():
                rows += [f"{{'t', 0, \"{part}\"}}" for part in _literals(p)]
    if root:
        rows += ["{'m', 0, 0}", '{\'t\', 0, "\\""}']
    return f"static const sx_piece {name}[] = {{\n" + ",\n".join([*rows, "{0, 0, 0}"]) + "};"


def _literals(text: str) -> Iterator[str]:
    """The text as C string literals: it is ASCII, and no trigraph comes about."""
    for i in range(0, len(text), LITERAL):
        part = text[i : i + LITERAL].replace("\\", "\\\\").replace('"', '\\"')
        yield part.replace("?", "\\?")
