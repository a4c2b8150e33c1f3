"""Where tensors lie, as C expressions: in M, in the weights, in the caller's memory."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from sardonyx.dims import Dim, Extreme, Quotient, Sym
from sardonyx.emit.source import Program
from sardonyx.emit.weights import Blob
from sardonyx.errors import InternalError
from sardonyx.plan import Plan
from sardonyx.plan.outline import Slot


@dataclass(slots=True, eq=False)
class Places:
    """The places of one program. Without a plan, offsets in M come from the caller's table.

    `slots` and `blob` grow as places are asked for. worker: the bytes of scratch that kernels need
    for each thread but the first; None where there are no threads.
    """

    program: Program
    plan: Plan | None
    blob: Blob
    symbols: tuple[str, ...] = ()
    slots: dict[Slot, int] = field(default_factory=dict)
    worker: Dim | None = None

    def tensor(self, name: str) -> str:
        """An expression of type (const) unsigned char * or void *: where the tensor lies."""
        plan = self.plan
        inside = plan is not None and name in plan.offsets
        if name in self.program.weights and not inside:
            return f"W + {self.blob.add(self.program.weights[name])}"
        if plan is not None and name in plan.hosts:
            return self.tensor(plan.hosts[name])
        if plan is not None and name in plan.offsets:
            return f"M + {plan.offsets[name]}"
        if name in self.program.inputs:
            return f"in[{list(self.program.inputs).index(name)}]"
        if name in self.program.outputs and (plan is not None or self._is_written(name)):
            return f"out[{list(self.program.outputs).index(name)}]"
        if plan is None:
            return self._slot(Slot(tensor=name))
        raise InternalError(f"the plan has no place for the tensor '{name}'")

    def temporary(self, launch: int, number: int) -> str:
        """Where a temporary of a launch lies."""
        if self.plan is not None:
            return f"M + {self.plan.scratch[launch][number]}"
        return self._slot(Slot(launch=launch, temporary=number))

    def _is_written(self, name: str) -> bool:
        return any(name in launch.writes for launch in self.program.launches)

    def _slot(self, slot: Slot) -> str:
        number = self.slots.setdefault(slot, len(self.slots))
        return f"M + offsets[{number}]"

    def size(self, d: Dim) -> str:
        """A size: a number, or an expression in the dims table."""
        return dim_text(d, {s: f"dims[{i}]" for i, s in enumerate(self.symbols)})


def dim_text(d: Dim, names: Mapping[str, str]) -> str:
    """A dim as a C expression of type int64_t; `names` has the text of each symbolic dim."""
    if isinstance(d, int):
        return str(d) if d < 1 << 31 else f"INT64_C({d})"
    terms = []
    for mono, c in sorted(d.terms, key=lambda term: (not term[0], str(term))):
        factors = [_atom_text(a, names) for a in sorted(mono, key=str)]
        terms.append(" * ".join([*factors, *([] if c == 1 and factors else [_factor(c)])]))
    return " + ".join(terms)


def _factor(c: int) -> str:
    return f"({c})" if c < 0 else str(c)


def _atom_text(a: object, names: Mapping[str, str]) -> str:
    match a:
        case Sym(name):
            if name not in names:
                raise InternalError(f"the symbolic dim '{name}' is not an argument of the program")
            return names[name]
        case Quotient(x, y):
            return f"sx_idiv_i64({dim_text(x, names)}, {dim_text(y, names)})"
        case Extreme(kind, x, y):
            return f"sx_{kind}_i64({dim_text(x, names)}, {dim_text(y, names)})"
    raise InternalError(f"{a} is not an atom of dims")
