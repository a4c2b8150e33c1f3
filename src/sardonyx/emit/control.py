"""Control flow as C: each body is a function that sees its part of M, its inputs and its outputs
through a context of its own, exactly as a model sees its caller's."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from sardonyx.dims import Dim, product
from sardonyx.emit.places import Places
from sardonyx.emit.source import Body, Call, Launch
from sardonyx.kernel.expr import Buffer
from sardonyx.types import TensorType


def control(
    number: int, launch: Launch, call: Call, places: Places, prefix: str, names: Sequence[str]
) -> list[str]:
    """The statements of a wrapper; names[i] is the function of call.bodies[i]."""
    reads = [places.tensor(name or "") for name in launch.reads]
    writes = [places.tensor(name) for name in launch.writes]
    scratch = [places.temporary(number, i) for i in range(len(launch.kernel.temporaries))]
    head = [f"{prefix}_context inner = *c;", f"inner.memory = {scratch[0]};"]
    match call.kind:
        case "Each":
            return _each(call, places, scratch[0], prefix, names[0])
        case "Part":
            lines = [
                _array("const void *const given", reads),
                _array("void *const result", writes),
                "inner.inputs = given;",
                "inner.outputs = result;",
                f"{names[0]}(&inner, status);",
            ]
        case "If":
            lines = _if(launch, call, reads, writes, names)
        case "Loop":
            lines = _loop(launch, call, places, scratch, names[0])
        case _:
            lines = _scan(launch, call, places, scratch, names[0])
    return [f"  {line}" for line in (*head, *lines)]


def _each(call: Call, places: Places, memory: str, prefix: str, name: str) -> list[str]:
    """All elements of a batch: as many as there are threads at a time, then one after the other."""
    elements = elements_of(name)
    count = places.size(call.count)
    head = [f"{prefix}_context inner = *c;"]
    lines = [f"inner.memory = {memory};", f"{elements}(c, &inner, 0, {count});"]
    if places.worker is not None:
        head += [
            f"const {prefix}_context *const pair[] = {{c, &inner}};",
            f"const int64_t count = {count}, many = c->parallel_for ? c->threads : 0;",
            "const int64_t together = many > 1 ? count / many * many : 0;",
        ]
        lines[1:] = [
            f"sx_parallel(&threads, {elements}_work, pair, together, 2 * SX_UNIT, 1);",
            f"{elements}(c, &inner, together, count);",
        ]
    return [f"  {line}" for line in (*head, *lines)]


def elements_of(name: str) -> str:
    """What the function is called that does the steps called `name` for some elements."""
    return name.removesuffix("steps") + "elements"


def each_element(launch: Launch, call: Call, places: Places, name: str) -> list[str]:
    """The statements that do the steps called `name` for the elements begin .. end - 1."""
    body = call.bodies[0]
    given = [
        f"(const unsigned char *)({places.tensor(n or '')}) + i * {_size(body.program.tensors[x])}"
        if j < call.elements
        else places.tensor(n or "")
        for j, (n, x) in enumerate(zip(launch.reads, body.program.inputs, strict=True))
    ]
    result = [
        f"(unsigned char *)({places.tensor(n)}) + i * {_size(k)}"
        for n, k in zip(launch.writes, _kinds(body), strict=True)
    ]
    return [
        "  sx_status status = {0, -1};",
        "  int64_t i;",
        "  for (i = begin; i < end; i++) {",
        f"    {_array('const void *const given', given)}",
        f"    {_array('void *const result', result)}",
        "    inner->inputs = given;",
        "    inner->outputs = result;",
        f"    {name}(inner, &status);",
        "  }",
    ]


def _if(
    launch: Launch, call: Call, reads: list[str], writes: list[str], names: Sequence[str]
) -> list[str]:
    lines = [_array("void *const result", writes), "inner.outputs = result;"]
    for keyword, body, name in zip(
        (f"if (*(const uint8_t *)({reads[0]}))", "else"), call.bodies, names, strict=True
    ):
        taken = [_captured(launch, reads, n) for n in body.program.inputs]
        lines += [
            f"{keyword} {{",
            f"  {_array('const void *const given', taken)}",
            "  inner.inputs = given;",
            f"  {name}(&inner, status);",
            "}",
        ]
    return lines


def _loop(launch: Launch, call: Call, places: Places, scratch: list[str], name: str) -> list[str]:
    reads = [places.tensor(name or "") for name in launch.reads]
    writes = [places.tensor(name) for name in launch.writes]
    body, (counted, conditional) = call.bodies[0], call.given
    own = reads[counted + conditional :]
    trips = f"*(const int64_t *)({reads[0]})" if counted else "INT64_MAX"
    going = f"*(const uint8_t *)({reads[counted]})" if conditional else "1"
    states, kinds = call.states, _kinds(body)
    outer = [_captured(launch, reads, n) for n in body.program.inputs[2 + states :]]
    rows = _Rows(scratch[1 + 2 * states :])
    made = [
        rows.write(w, "i", k, places.size(_length(b)))
        for w, k, b in zip(
            writes[states:], kinds[1 + states :], launch.kernel.outputs[states:], strict=True
        )
    ]
    return [
        *rows.before,
        f"const int64_t trips = {trips};",
        f"uint8_t going = {going} != 0;",
        *_carried(own[:states], scratch[1 : 1 + 2 * states]),
        "int64_t i;",
        "for (i = 0; going && i < trips; i++) {",
        "  uint8_t more;",
        *(f"  {x}" for x in _iteration(["&i", "&going"], ["&more"], states, outer, made)),
        f"  {name}(&inner, status);",
        "  if (status->error) return;",
        *(f"  {x}" for x in rows.last),
        *(f"  now[{k}] = result[{1 + k}];" for k in range(states)),
        "  going = more != 0;",
        "}",
        *_final(writes, kinds[1 : 1 + states]),
    ]


def _scan(launch: Launch, call: Call, places: Places, scratch: list[str], name: str) -> list[str]:
    body, states = call.bodies[0], call.states
    reads = [places.tensor(name or "") for name in launch.reads]
    writes = [places.tensor(name) for name in launch.writes]
    kinds = _kinds(body)
    outputs = len(kinds) - states
    count = len(call.backward) - outputs
    length = places.size(_length(launch.kernel.inputs[states]))
    rows = _Rows(scratch[1 + 2 * states :])
    items = [
        rows.read(reads[states + j], _at(call.backward[j], length), body.program.tensors[n])
        for j, n in enumerate(body.program.inputs[states : states + count])
    ]
    made = [
        rows.write(
            writes[states + j], _at(call.backward[count + j], length), kinds[states + j], length
        )
        for j in range(outputs)
    ]
    outer = [_captured(launch, reads, n) for n in body.program.inputs[states + count :]]
    return [
        *rows.before,
        *_carried(reads[:states], scratch[1 : 1 + 2 * states]),
        "int64_t i;",
        f"for (i = 0; i < {length}; i++) {{",
        *(f"  {x}" for x in rows.first),
        *(f"  {x}" for x in _iteration([], [], states, [*items, *outer], made)),
        f"  {name}(&inner, status);",
        "  if (status->error) return;",
        *(f"  {x}" for x in rows.last),
        *(f"  now[{k}] = result[{k}];" for k in range(states)),
        "}",
        *_final(writes, kinds[:states]),
    ]


@dataclass(slots=True)
class _Rows:
    """Rows of what is scanned and of what is given. One that may begin within a byte is moved to or
    from scratch of its own; before: the loop, first, last: of an iteration."""

    scratch: Sequence[str]
    used: int = 0
    before: list[str] = field(default_factory=list)
    first: list[str] = field(default_factory=list)
    last: list[str] = field(default_factory=list)

    def read(self, whole: str, at: str, kind: TensorType) -> str:
        """Where row `at` of what is scanned is."""
        if not kind.is_ragged:
            return f"(const unsigned char *)({whole}) + {at} * {_size(kind)}"
        count, bits = product(kind.shape or ()), kind.dtype.bits
        row = self._next()
        self.before.append(f"sx_trim({row}, {count}, {bits});")
        self.first.append(f"sx_move({row}, 0, {whole}, {at} * {count}, {count}, {bits});")
        return row

    def write(self, whole: str, at: str, kind: TensorType, length: str) -> str:
        """Where row `at` of what is given is made, of as many rows as there are."""
        if not kind.is_ragged:
            return f"(unsigned char *)({whole}) + {at} * {_size(kind)}"
        count, bits = product(kind.shape or ()), kind.dtype.bits
        row = self._next()
        self.before.append(f"sx_trim({whole}, ({length}) * {count}, {bits});")
        self.last.append(f"sx_move({whole}, {at} * {count}, {row}, 0, {count}, {bits});")
        return row

    def _next(self) -> str:
        self.used += 1
        return self.scratch[self.used - 1]


def _length(rows: Buffer | None) -> Dim:
    return rows.shape[0] if rows is not None else 0


def _carried(first: Sequence[str], scratch: Sequence[str]) -> list[str]:
    """Where the carried values are now, and the two places that each has in turn."""
    if not first:
        return []
    pairs = ", ".join(f"{{{a}, {b}}}" for a, b in zip(scratch[::2], scratch[1::2], strict=True))
    return [
        _array(f"const void *now[{len(first)}]", first, sized=True),
        f"void *const turn[{len(first)}][2] = {{{pairs}}};",
    ]


def _iteration(
    before: list[str], results: list[str], states: int, after: list[str], rows: list[str]
) -> list[str]:
    """The inputs and outputs of one iteration."""
    now = [f"now[{k}]" for k in range(states)]
    following = [f"turn[{k}][i & 1]" for k in range(states)]
    return [
        _array("const void *const given", [*before, *now, *after]),
        _array("void *const result", [*results, *following, *rows]),
        "inner.inputs = given;",
        "inner.outputs = result;",
    ]


def _final(writes: Sequence[str], kinds: Sequence[TensorType]) -> list[str]:
    return [f"memcpy({writes[k]}, now[{k}], {_size(kind)});" for k, kind in enumerate(kinds)]


def _captured(launch: Launch, reads: Sequence[str], name: str) -> str:
    return reads[list(launch.reads).index(name)]


def _array(declared: str, items: Sequence[str], sized: bool = False) -> str:
    length = "" if sized else f"[{max(1, len(items))}]"
    return f"{declared}{length} = {{{', '.join(items) or '0'}}};"


def _at(backward: bool, length: str) -> str:
    return f"({length} - 1 - i)" if backward else "i"


def _kinds(body: Body) -> list[TensorType]:
    return [body.program.tensors[n] for n in body.program.outputs]


def _size(kind: TensorType) -> str:
    return str(kind.dtype.bytes(product(kind.shape or ())))
