"""Launches as C: shared static kernels, and one commented wrapper per launch.

Kernels whose printed text is equal are one function. A wrapper says what it is for and passes
places and sizes.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeAlias

from sardonyx.dims import product
from sardonyx.emit.control import control, each_element, elements_of
from sardonyx.emit.names import described, escaped, identifier
from sardonyx.emit.places import Places
from sardonyx.emit.source import Body, Call, Launch
from sardonyx.kernel.c99.print_c import NAME, Function, buffers, wrapped
from sardonyx.kernel.expr import Buffer
from sardonyx.kernel.ir import Compute, Kernel
from sardonyx.plan import padded
from sardonyx.plan.kernels import in_place

Section: TypeAlias = Callable[[Body, str], tuple[str, str]]
Printer: TypeAlias = Callable[[Kernel, Mapping[Buffer, Buffer]], Function]

DECLARED = {
    "M": "unsigned char *const M = c->memory;",
    "W": "const unsigned char *const W = c->weights;",
    "in": "const void *const *const in = c->inputs;",
    "out": "void *const *const out = c->outputs;",
    "dims": "const int64_t *const dims = c->dims;",
    "offsets": "const int64_t *const offsets = c->offsets;",
}
THREADS = "const sx_threads threads = {{c->parallel_for, c->pool, c->scratch, {}}};"


@dataclass(slots=True, eq=False)
class Shared:
    """The kernels printed so far: text -> function name."""

    names: dict[str, str] = field(default_factory=dict)

    def name(self, function: Function, word: str) -> str:
        """The name of the function with this text."""
        number = len(self.names)
        return self.names.setdefault(function.text, f"k{number:02d}_{identifier(word)}")

    def texts(self) -> dict[str, str]:
        """name -> the function's definition, in the order they were asked for."""
        return {name: text.replace(NAME, name) for text, name in self.names.items()}


@dataclass(frozen=True, slots=True)
class Wrapper:
    """The function of one launch. `text` is empty where there is nothing to do."""

    name: str
    text: str
    traps: bool


def wrapper(
    number: int,
    launch: Launch,
    places: Places,
    shared: Shared,
    printer: Printer,
    prefix: str,
    section: Section,
    label: str = "",
) -> Wrapper:
    """The wrapper of launch `number`. section: writes the functions of a subgraph; label: begins
    the names of all functions of this program."""
    name = f"{label}n{number:04d}_{identifier(_word(launch))}"
    comment = _comment(name, launch, places)
    if launch.call is not None:
        return _control(name, comment, number, launch, launch.call, places, prefix, section)
    lines, traps = _body(number, launch, places, shared, printer)
    if not lines:
        return Wrapper(name, f"{comment}\n   Nothing to do: the bytes are there. */\n", False)
    body = "\n".join(lines)
    if "&threads" in body:
        body = f"  {_threads(places)}\n{body}"
    declared = "".join(f"  {line}\n" for line in declarations(body)) or "  (void)c;\n"
    status = ", sx_status *status" if traps else ""
    head = f"static void {name}(const {prefix}_context *c{status}) {{"
    return Wrapper(name, f"{comment} */\n{head}\n{declared}{body}\n}}\n", traps)


def _control(
    name: str,
    comment: str,
    number: int,
    launch: Launch,
    call: Call,
    places: Places,
    prefix: str,
    section: Section,
) -> Wrapper:
    """The wrapper of control flow, after the functions of its bodies."""
    made = [section(body, f"{name}_b{i}_") for i, body in enumerate(call.bodies)]
    lines = control(number, launch, call, places, prefix, [function for _, function in made])
    before = [text for text, _ in made]
    if call.kind == "Each":
        before += _elements(launch, call, places, prefix, made[0][1])
    if "&threads" in "\n".join(lines):
        lines = [f"  {_threads(places)}", *lines]
    traps = call.kind != "Each"
    status = ", sx_status *status" if traps else ""
    text = _function(f"{name}(const {prefix}_context *c{status})", lines)
    return Wrapper(name, "\n".join([*before, f"{comment} */\n{text}"]), traps)


def _elements(launch: Launch, call: Call, places: Places, prefix: str, name: str) -> Iterator[str]:
    """The functions that do the steps called `name` for some elements of a batch: in this thread,
    and as work that is shared out, without threads within."""
    lines, called = each_element(launch, call, places, name), elements_of(name)
    context = f"{prefix}_context"
    given = f"const {context} *c, {context} *inner, int64_t begin, int64_t end"
    yield "/* Elements begin .. end - 1 of the batch, one after the other. */"
    yield _function(f"{called}({given})", lines)
    if places.worker is not None:
        work = "const void *given, int64_t begin, int64_t end, int64_t worker"
        lines = [
            f"  const {context} *const *const pair = (const {context} *const *)given;",
            f"  {context} own = *pair[1];",
            f"  const int64_t bytes = {padded(call.bodies[0].plan.size)};",
            "  if (worker) own.memory = own.scratch + (worker - 1) * bytes;",
            "  own.parallel_for = 0;",
            f"  {called}(pair[0], &own, begin, end);",
        ]
        yield _function(f"{called}_work({work})", lines)


def _threads(places: Places) -> str:
    return THREADS.format(places.size(0 if places.worker is None else places.worker))


def _function(head: str, lines: Sequence[str]) -> str:
    """A function, with the declarations of the tables that it uses."""
    body = "\n".join(lines)
    declared = "".join(f"  {line}\n" for line in declarations(body))
    return f"static void {head} {{\n{declared}{body}\n}}\n"


def declarations(body: str) -> Iterator[str]:
    """The declarations of the tables that body uses."""
    for word, line in DECLARED.items():
        if re.search(rf"(?<![\w>.]){word}\b(?: \+|\[)", body):
            yield line


def _word(launch: Launch) -> str:
    return launch.operations[0].op_type if launch.operations else launch.kernel.name


def _comment(name: str, launch: Launch, places: Places) -> str:
    tensors = places.program.tensors
    does = [
        f"{op.domain and escaped(op.domain) + '.'}{escaped(op.op_type)}-{op.since} "
        f"{escaped(str(op.origin))}"
        for op in launch.operations
    ]
    lines = [f"/* {name}: {', '.join(does) or escaped(launch.kernel.name)}"]
    for verb, names in (("reads ", launch.reads), ("writes", launch.writes)):
        lines += [f"   {verb} {described(n, tensors[n])}" for n in names if n]
    return "\n".join(lines)


def _body(
    number: int, launch: Launch, places: Places, shared: Shared, printer: Printer
) -> tuple[list[str], bool]:
    """The statements of a wrapper, and whether they may trap."""
    plan = places.plan
    if plan is None:
        return _choice(number, launch, places, shared, printer)
    given = zip(launch.writes, launch.kernel.outputs, strict=True)
    kernel = _without(launch.kernel, {b for name, b in given if name in plan.aliases})
    if not kernel.body:
        return [], False
    return _call(number, launch, places, shared, printer(kernel, _same(launch, places)))


def _without(kernel: Kernel, done: Collection[Buffer]) -> Kernel:
    """The kernel that makes its outputs but those that are done: views that lie where their inputs
    lie."""
    body = (s for s in kernel.body if not (isinstance(s, Compute) and s.buffer.root in done))
    return replace(kernel, body=tuple(body)) if done else kernel


def _same(launch: Launch, places: Places) -> dict[Buffer, Buffer]:
    """The inputs that an output overwrites, by the plan."""
    plan = places.plan
    assert plan is not None
    touched = set(buffers(launch.kernel))
    return {
        x.root: y.root
        for name, y in zip(launch.writes, launch.kernel.outputs, strict=True)
        if name in plan.in_place
        for read, x in zip(launch.reads, launch.kernel.inputs, strict=False)
        if read is not None and x is not None and x.root in touched
        if places.tensor(read) == places.tensor(name)
    }


def _choice(
    number: int, launch: Launch, places: Places, shared: Shared, printer: Printer
) -> tuple[list[str], bool]:
    """Without a fixed plan: a call for each legal way of working in place, and one for none."""
    kernel, lines, any_traps = launch.kernel, [], False
    for o, i in kernel.views:
        read = launch.reads[i]
        assert read is not None
        rest = _without(kernel, {kernel.outputs[o]})
        call, traps = (
            ([], False)
            if not rest.body
            else _call(number, launch, places, shared, printer(rest, {}))
        )
        lines += _instead(_equal(places, launch.writes[o], read), call)
        any_traps |= traps
    pairs: dict[tuple[str, str], dict[Buffer, Buffer]] = {}
    for o, i in sorted(in_place(kernel)):
        x, read = kernel.inputs[i], launch.reads[i]
        if (o, i) in kernel.views:
            continue
        if x is not None and read is not None and x.root in buffers(kernel):
            pairs.setdefault((launch.writes[o], read), {})[x.root] = kernel.outputs[o].root
    for (write, read), same in pairs.items():
        call, traps = _call(number, launch, places, shared, printer(kernel, same))
        lines += _instead(_equal(places, write, read), call)
        any_traps |= traps
    call, traps = _call(number, launch, places, shared, printer(kernel, {}))
    return [*lines, *call], any_traps or traps


def _instead(condition: str, call: Sequence[str]) -> list[str]:
    """The call, and no more, where the condition holds."""
    if not call:
        return [f"{condition} return;"]
    return [f"{condition} {{", *(f"  {x}" for x in call), "    return;", "  }"]


def _equal(places: Places, write: str, read: str) -> str:
    a, b = places.tensor(write), places.tensor(read)
    return f"  if ((const void *)({a}) == (const void *)({b}))"


def _call(
    number: int, launch: Launch, places: Places, shared: Shared, function: Function
) -> tuple[list[str], bool]:
    name = shared.name(function, launch.kernel.name)
    arguments = ["status"] if function.traps else []
    arguments += ["&threads"] if function.shares else []
    lie = [_place(number, launch, places, b) for b in function.pointers]
    for position, (b, place) in enumerate(zip(function.pointers, lie, strict=True)):
        const = "const " if f"const {b.dtype.c} *" in _parameter(function, position) else ""
        place = place if const or place not in lie[:position] else _reworded(place)
        arguments.append(f"({const}{b.dtype.c} *)({place})")
    arguments += [places.size(d) for d in function.sizes]
    return wrapped(f"  {name}(", arguments, ");"), function.traps


def _reworded(place: str) -> str:
    """The same place in other words: of a launch that reads a part of a tensor and writes another,
    gcc takes words that are the same for pointers that are not `restrict`."""
    return place.replace("M + ", "c->memory + ", 1).replace("out[", "c->outputs[", 1)


def _parameter(function: Function, position: int) -> str:
    head = function.text[function.text.rindex("static void @(") :]
    head = head[: head.index("{")]
    return head.split(",")[position + function.traps + function.shares]


def _place(number: int, launch: Launch, places: Places, b: Buffer) -> str:
    if product(b.shape) == 0:
        return "0"  # two empty tensors may lie in one place, which gcc takes for aliasing
    if b.data is not None:
        return f"W + {places.blob.add(b.data)}"
    for names, given in (
        (launch.writes, launch.kernel.outputs),
        (launch.reads, launch.kernel.inputs),
    ):
        for name, x in zip(names, given, strict=False):
            if name is not None and x is not None and x.root is b:
                return places.tensor(name)
    return places.temporary(number, [t.root for t in launch.kernel.temporaries].index(b))
