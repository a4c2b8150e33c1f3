"""The scheduled graph: kernels applied to tensors, in order.

    program = Program(inputs, outputs, tensors, weights, launches)
    launch  = Launch(kernel, reads, writes, operations)

A graph lowered operation by operation is a program; so is what the passes make of it. Each pass is
a function Program -> Program that keeps the bits of every output; `verify` states what holds
before and after each.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeAlias

from sardonyx.dims import Dim
from sardonyx.errors import InternalError
from sardonyx.graph import Operation
from sardonyx.kernel.expr import Axis, Buffer, Expr, Load
from sardonyx.kernel.ir import Compute, Kernel, mapped
from sardonyx.kernel.rewrite import rewrite
from sardonyx.kernel.walk import walk
from sardonyx.plan import Plan
from sardonyx.types import Array, TensorType

Told: TypeAlias = tuple[int, tuple[str, ...]]  # a line, and the tensors outside of M that it names


@dataclass(frozen=True, slots=True, eq=False)
class Launch:
    """One kernel applied to tensors: reads and writes are as its inputs and outputs;
    `operations` are the operations of G whose work it does. With a call, control flow is in the
    place of the kernel's body, which is empty."""

    kernel: Kernel
    reads: tuple[str | None, ...]
    writes: tuple[str, ...]
    operations: tuple[Operation, ...]
    call: Call | None = None

    def performs(self, domain: str, op_type: str) -> bool:
        """Whether it does the work of such an operation."""
        return any((op.domain, op.op_type) == (domain, op_type) for op in self.operations)


@dataclass(frozen=True, slots=True, eq=False)
class Body:
    """A subgraph as a program, and the plan of its memory, which is scratch of the launch."""

    program: Program
    plan: Plan


@dataclass(frozen=True, slots=True, eq=False)
class Call:
    """Control flow (passes/lower.py). kind: "If", "Loop", "Scan"; "Part": the body, once, of the
    inputs and outputs of the launch; "Each": the body for each element of a batch, in any order;
    it does not trap. states: the carried values. backward: of scanned inputs, then of outputs,
    which go from the last element to the first. given: whether there is a trip count, and a
    condition. count: the elements of the batch; elements: of how many inputs, the first ones, each
    reads its rows."""

    kind: str
    bodies: tuple[Body, ...]
    states: int = 0
    backward: tuple[bool, ...] = ()
    given: tuple[bool, bool] = (False, False)
    elements: int = 0
    count: Dim = 0


@dataclass(frozen=True, slots=True, eq=False)
class Watched:
    """What is observed of a program, as emit/watch.py has it."""

    hooks: Mapping[int, tuple[int, bool, bool]]
    clears: int = 0
    begin: Told | None = None
    end: Told | None = None
    opens: Mapping[int, int] = field(default_factory=dict)
    after: Mapping[int, Told] = field(default_factory=dict)
    lost: Mapping[int, Told] = field(default_factory=dict)
    cut: int | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Origin:
    """How a weight that was computed has its elements, at these axes, of narrower ones."""

    value: Array
    axes: tuple[Axis, ...]
    expr: Expr
    known: Mapping[Buffer, Array]


@dataclass(frozen=True, slots=True, eq=False)
class Program:
    """Launches in order. `inputs` are fed (overridable initializers last), `weights` are tensors
    with a value known now; `tensors` types both, and everything between. Those `joined` are written
    by several launches, each elements of its own (passes/joined.py). origins: by the identity of
    the value of a weight. equal: symbolic dims that must be equal in each run; sizes: those that
    might be negative, which none may be."""

    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    tensors: Mapping[str, TensorType]
    weights: Mapping[str, Array]
    launches: tuple[Launch, ...]
    joined: frozenset[str] = frozenset()
    origins: Mapping[int, Origin] = field(default_factory=dict)
    equal: tuple[tuple[Dim, Dim], ...] = ()
    sizes: tuple[Dim, ...] = ()

    @property
    def is_fixed(self) -> bool:
        """Whether all sizes are numbers."""
        return all(isinstance(d, int) for x in self.tensors.values() for d in x.shape or ())

    def readers(self) -> dict[str, list[int]]:
        """tensor -> the launches that read it, in order."""
        found: dict[str, list[int]] = {}
        for i, launch in enumerate(self.launches):
            for name in dict.fromkeys(filter(None, launch.reads)):
                found.setdefault(name, []).append(i)
        return found


Replacing: TypeAlias = Callable[[Launch, dict[str, TensorType], dict[str, Array]], Iterable[Launch]]


def by_launch(program: Program, replacing: Replacing) -> Program:
    """The program with launches in the place of each, and the tensors and weights they add."""
    tensors, weights = dict(program.tensors), dict(program.weights)
    launches = [x for launch in program.launches for x in replacing(launch, tensors, weights)]
    return replace(program, tensors=tensors, weights=weights, launches=tuple(launches))


def each(program: Program) -> Iterator[tuple[Program, Launch]]:
    """Every launch of a kernel, those of control flow's bodies included, and the program that it is
    in."""
    for launch in program.launches:
        if launch.call is None:
            yield program, launch
        for body in launch.call.bodies if launch.call else ():
            yield from each(body.program)


def by_statement(launch: Launch, tensors: dict[str, TensorType]) -> Iterator[Launch]:
    """A launch for each statement of one without views; what they hand on are tensors."""
    body = [s for s in launch.kernel.body if isinstance(s, Compute)]
    return by_group(launch, [[s] for s in body], tensors)


def by_group(
    launch: Launch, groups: Iterable[Sequence[Compute]], tensors: dict[str, TensorType]
) -> Iterator[Launch]:
    """A launch for each group of statements, in order, of one without views; what the last of a
    group makes is handed on as a tensor, the others are its own."""
    kernel = launch.kernel
    names = {b: name for name, b in _bindings(launch)}
    for group in groups:
        *own, b = (s.buffer.root for s in group)
        if b not in names:
            names[b] = unused(f"{launch.writes[0]}.{b.name}", tensors)
            tensors[names[b]] = TensorType(b.dtype, b.shape)
        every = (e for s in group for e in walk(s.expr))
        loaded = dict.fromkeys(e.buffer.root for e in every if isinstance(e, Load))
        inputs = tuple(x for x in loaded if x in names and x not in own)
        constants = tuple(x for x in kernel.constants if x in loaded)
        made = Kernel(kernel.name, inputs, (b,), tuple(own), constants, tuple(group))
        yield replace(launch, kernel=made, reads=tuple(map(names.get, inputs)), writes=(names[b],))


def merged(first: Launch, second: Launch, kept: Collection[str] = ()) -> Launch:
    """One launch, the second's body behind the first's. What the first writes is scratch, but for
    what is kept."""
    made = dict(zip(first.writes, first.kernel.outputs, strict=True))
    left = {name: b for name, b in made.items() if name in kept}
    inputs: dict[str, Buffer] = {}
    same: dict[Buffer, Buffer] = {}
    for launch in (first, second):
        for name, b in zip(launch.reads, launch.kernel.inputs, strict=True):
            if name is not None and b is not None:
                same[b] = made.get(name) or inputs.setdefault(name, b)

    def load(e: Load) -> Expr | None:
        root = same.get(e.buffer.root, e.buffer.root)
        if root is e.buffer.root:
            return None
        plain = e.buffer.base is None
        b = root if plain else Buffer(e.buffer.name, e.buffer.dtype, e.buffer.shape, base=root)
        return Load(b, e.index, e.mode, e.default)

    body = (*first.kernel.body, *second.kernel.body)
    kernel = Kernel(
        name=f"{first.kernel.name}_{second.kernel.name}",
        inputs=tuple(inputs.values()),
        outputs=(*left.values(), *second.kernel.outputs),
        temporaries=(
            *first.kernel.temporaries,
            *(b for name, b in made.items() if name not in left),
            *second.kernel.temporaries,
        ),
        constants=(*first.kernel.constants, *second.kernel.constants),
        body=tuple(mapped(s, lambda e: rewrite(e, {}, load), lambda b: b) for s in body),
    )
    operations = tuple(dict.fromkeys((*first.operations, *second.operations)))
    return Launch(kernel, tuple(inputs), (*left, *second.writes), operations)


def unused(stem: str, tensors: Mapping[str, TensorType]) -> str:
    """A name for a new tensor: the stem, unless the model has chosen it."""
    while stem in tensors:
        stem += "'"
    return stem


def verify(program: Program) -> None:
    """Single assignment, definition before use, and kernels that fit their tensors."""
    valued = {*program.inputs, *program.weights}
    for launch in program.launches:
        for name, buffer in _bindings(launch):
            tensor = program.tensors[name]
            if (buffer.dtype, buffer.shape) != (tensor.dtype, tensor.shape):
                raise InternalError(f"{launch.kernel.name} sees {name}: {tensor} as {buffer}")
        for name in filter(None, launch.reads):
            if name not in valued:
                raise InternalError(f"{launch.kernel.name} reads {name} before it has a value")
        for name in launch.writes:
            if name in valued - program.joined:
                raise InternalError(f"{launch.kernel.name} assigns {name} again")
            valued.add(name)
    missing = [name for name in program.outputs if name not in valued]
    if missing:
        raise InternalError(f"the outputs {missing} have no value")


def _bindings(launch: Launch) -> Iterator[tuple[str, Buffer]]:
    for name, buffer in zip(launch.reads, launch.kernel.inputs, strict=True):
        if name is not None and buffer is not None:
            yield name, buffer
    yield from zip(launch.writes, launch.kernel.outputs, strict=True)
