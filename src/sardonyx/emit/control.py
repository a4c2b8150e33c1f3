"""Control flow as C: each body is a function that sees its part of M, its inputs and its outputs
through a context of its own, exactly as a model sees its caller's."""

from __future__ import annotations

from collections.abc import Sequence

from sardonyx.dims import product
from sardonyx.emit.places import Places
from sardonyx.emit.source import Body, Call, Launch
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
        case "If":
            lines = _if(launch, call, reads, writes, names)
        case "Loop":
            lines = _loop(launch, call, reads, writes, scratch, names[0])
        case _:
            lines = _scan(launch, call, reads, writes, scratch, names[0])
    return [f"  {line}" for line in (*head, *lines)]


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


def _loop(
    launch: Launch, call: Call, reads: list[str], writes: list[str], scratch: list[str], name: str
) -> list[str]:
    body, (counted, conditional) = call.bodies[0], call.given
    own = reads[counted + conditional :]
    trips = f"*(const int64_t *)({reads[0]})" if counted else "INT64_MAX"
    going = f"*(const uint8_t *)({reads[counted]})" if conditional else "1"
    states, kinds = call.states, _kinds(body)
    outer = [_captured(launch, reads, n) for n in body.program.inputs[2 + states :]]
    rows = [
        f"(unsigned char *)({w}) + i * {_size(k)}"
        for w, k in zip(writes[states:], kinds[1 + states :], strict=True)
    ]
    return [
        f"const int64_t trips = {trips};",
        f"uint8_t going = {going} != 0;",
        *_carried(own[:states], scratch[1:]),
        "int64_t i;",
        "for (i = 0; going && i < trips; i++) {",
        "  uint8_t more;",
        *(f"  {x}" for x in _iteration(["&i", "&going"], ["&more"], states, outer, rows)),
        f"  {name}(&inner, status);",
        "  if (status->error) return;",
        *(f"  now[{k}] = result[{1 + k}];" for k in range(states)),
        "  going = more != 0;",
        "}",
        *_final(writes, kinds[1 : 1 + states]),
    ]


def _scan(
    launch: Launch, call: Call, reads: list[str], writes: list[str], scratch: list[str], name: str
) -> list[str]:
    body, states = call.bodies[0], call.states
    kinds = _kinds(body)
    outputs = len(kinds) - states
    count = len(call.backward) - outputs
    sequence = launch.kernel.inputs[states]
    length = sequence.shape[0] if sequence is not None else 0
    items = [
        f"(const unsigned char *)({reads[states + j]}) + "
        f"{_at(call.backward[j], length)} * {_size(body.program.tensors[n])}"
        for j, n in enumerate(body.program.inputs[states : states + count])
    ]
    rows = [
        f"(unsigned char *)({writes[states + j]}) + "
        f"{_at(call.backward[count + j], length)} * {_size(kinds[states + j])}"
        for j in range(outputs)
    ]
    outer = [_captured(launch, reads, n) for n in body.program.inputs[states + count :]]
    return [
        *_carried(reads[:states], scratch[1:]),
        "int64_t i;",
        f"for (i = 0; i < {length}; i++) {{",
        *(f"  {x}" for x in _iteration([], [], states, [*items, *outer], rows)),
        f"  {name}(&inner, status);",
        "  if (status->error) return;",
        *(f"  now[{k}] = result[{k}];" for k in range(states)),
        "}",
        *_final(writes, kinds[:states]),
    ]


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


def _at(backward: bool, length: object) -> str:
    return f"({length} - 1 - i)" if backward else "i"


def _kinds(body: Body) -> list[TensorType]:
    return [body.program.tensors[n] for n in body.program.outputs]


def _size(kind: TensorType) -> str:
    return str(product(kind.shape or ()) * kind.dtype.size)
