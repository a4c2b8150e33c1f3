"""The fixes in order, each followed by a run that shows it harmless, or else undone."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

from onnx import ModelProto, TensorProto, numpy_helper

from sardonyx.checker import Profile, Report, check, find_profile
from sardonyx.checker.rules.parameters import tensors
from sardonyx.dims.given import check_given, check_named
from sardonyx.errors import SardonyxError
from sardonyx.legalize import defaults, operands, sizes, structure
from sardonyx.legalize.verify import Evidence, Feeds, differences, feeds_of, run
from sardonyx.legalize.work import Fix, Work
from sardonyx.model import Limits, Model, Source, load
from sardonyx.model.load import decode
from sardonyx.resolve.shapes import open_dims
from sardonyx.settings import Kind

Verify: TypeAlias = Literal["fix", "model", "none"]

FIXES: tuple[tuple[str, Fix], ...] = (
    ("F2", sizes.contradictions),
    ("F15", structure.stored_order),
    ("F3", structure.functions),
    ("F10", structure.early_inputs),
    ("F2", sizes.freeze),
    ("F14", structure.outputs),
    ("F9", operands.versions),
    ("F13", structure.constant_form),
    ("F17", operands.sums),
    ("F10", structure.identities),
    ("F10", structure.fold),
    ("F10", structure.unused),
    ("F6", defaults.auto_pad),
    ("F1", defaults.attributes),
    ("F5", operands.casts),
    ("F7", defaults.conv_bias),
    ("F7", defaults.gemm_c),
    ("F7", defaults.clip_bounds),
    ("F7", defaults.slice_axes),
    ("F7", defaults.lstm_inputs),
    ("F12", operands.gemm),
    ("F11", operands.matmul),
    ("F4", operands.broadcasts),
    ("F4", operands.gemm_broadcast),
    ("F8", defaults.negative_axes),
    ("F10", structure.fold),
    ("F10", structure.unused),
    ("F15", structure.node_names),
    ("F2", sizes.state_types),
    ("F16", structure.metadata),
)


@dataclass(frozen=True, slots=True)
class Change:
    """What one fix did. equal: whether the outputs' bytes were the same before and after; None if
    that was not tried, or the model cannot be run. undone: why it was taken back, "" where it was
    not."""

    fix: str
    name: str
    lines: tuple[str, ...]
    equal: bool | None = None
    undone: str = ""


@dataclass(frozen=True, slots=True)
class Legalized:
    """A model of the profile, as far as it could be made one. feeds: how many sets of feeds gave
    outputs, on which the fixes were tried. report: what is left."""

    model: ModelProto
    changes: tuple[Change, ...]
    feeds: int
    report: Report

    @property
    def undone(self) -> tuple[Change, ...]:
        return tuple(c for c in self.changes if c.undone)


def legalize(
    source: Source,
    profile: str | Profile = "sonnx",
    *,
    dims: Mapping[str, int] | None = None,
    strict_tbc: bool = False,
    allow: Iterable[str] = (),
    verify: Verify = "fix",
    engine: Kind = "machine",
    seed: int = 0,
    limits: Limits | None = None,
) -> Legalized:
    """The model with the fixes that change something.

    verify: "fix" runs the model before and after each fix on random and edge inputs and undoes a
    fix after which any byte of an output differs; "model" compares only first and last, "none"
    nothing. Raises ModelError where the model cannot be resolved, FeedError for a size below 0 or
    beyond int64, or of a dim that no input has.
    """
    for name, size in (dims or {}).items():
        check_given(f"the dim '{name}'", size, least=0)
    chosen = find_profile(profile) if isinstance(profile, str) else profile
    model = decode(source, limits)
    there = (name for _, _, name, _ in open_dims(model.proto.graph.input))
    check_named(model.name, dims or {}, there)
    work = Work(_own_copy(model), chosen, dims or {}, strict_tbc)
    changes: list[Change] = []
    load(work.proto, limits)
    original = _sized(work).graph
    sets = [] if verify == "none" else feeds_of(original, seed)
    before = run(original, sets, engine)
    for fix, function in FIXES:
        work, change = _apply(work, fix, function, before, sets, engine, verify)
        changes.append(change)
    if verify == "model":
        changes.append(_together(before, run(work.graph, sets, engine)))
    report = check(work.proto, chosen, allow=allow, strict_tbc=strict_tbc)
    made = tuple(c for c in changes if c.lines or c.undone)
    return Legalized(work.proto, made, before.ran, report)


def _together(before: Evidence, after: Evidence) -> Change:
    """What the first and the last model give, as a change."""
    found = list(differences(before, after))
    equal = not found if before.ran else None
    return Change("all", "all fixes", ("all fixes together",), equal, "; ".join(found))


def _own_copy(model: Model) -> ModelProto:
    """The model's protobuf with external data taken in."""
    proto = ModelProto()
    proto.CopyFrom(model.proto)
    decoder = model.decoder()
    for what, tensor in tensors(proto):
        if tensor.data_location == TensorProto.EXTERNAL:
            name, value = tensor.name, decoder.tensor(tensor, what)
            tensor.CopyFrom(numpy_helper.from_array(value, name))
    return proto


def _sized(work: Work) -> Work:
    """The model before other fixes, with the sizes that the feeds are to have."""
    twin = work.copy()
    for fix in (sizes.contradictions, sizes.freeze):
        if list(fix(twin)):
            twin.forget()
    return twin


def _apply(
    work: Work,
    fix: str,
    function: Fix,
    before: Evidence,
    sets: Sequence[Feeds],
    engine: Kind,
    verify: Verify,
) -> tuple[Work, Change]:
    """The work after a fix, or as it was where the fix cannot be made or changes a byte."""
    twin = work.copy()
    try:
        lines = tuple(function(twin))
        if not lines:
            return work, Change(fix, function.__name__, ())
        twin.forget()
        graph = twin.graph
    except (SardonyxError, ValueError, TypeError, LookupError, RuntimeError) as error:
        reason = " ".join(str(error).split())
        return work, Change(fix, function.__name__, (), None, f"it cannot be made: {reason}")
    if verify != "fix":
        return twin, Change(fix, function.__name__, lines)
    found = list(differences(before, run(graph, sets, engine)))
    if found:
        return work, Change(fix, function.__name__, lines, False, "; ".join(found))
    return twin, Change(fix, function.__name__, lines, True if before.ran else None)
