"""What is observed of a program, as C: the macros of observe.h, which the caller provides."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol, TypeAlias

from sardonyx.emit.launches import Wrapper

Hook: TypeAlias = tuple[int, bool, bool]  # step, whether it begins here, whether it ends here
Told: TypeAlias = tuple[int, tuple[str, ...]]  # a line, and the tensors outside of M that it names
Place: TypeAlias = Callable[[str], str]


class Watched(Protocol):
    """What is observed of a program in stages, or of one of the programs in it.

    hooks: launches that are steps in M. clears: the bytes of M that are set to 0 at its begin.
    begin, end: lines that are told. opens: launch -> the depth of the subgraphs that it begins.
    after, lost: launch -> the line that is told when it is done, or has ended with an error.
    cut: the line of an error, of the outermost program.
    """

    @property
    def hooks(self) -> Mapping[int, Hook]: ...
    @property
    def clears(self) -> int: ...
    @property
    def begin(self) -> Told | None: ...
    @property
    def end(self) -> Told | None: ...
    @property
    def opens(self) -> Mapping[int, int]: ...
    @property
    def after(self) -> Mapping[int, Told]: ...
    @property
    def lost(self) -> Mapping[int, Told]: ...
    @property
    def cut(self) -> int | None: ...


def first(watched: Watched) -> list[str]:
    """What comes before the inputs are copied into M."""
    return [f"SARDONYX_CLEAR(c->memory, {watched.clears});"] if watched.clears else []


def call_of(watched: Watched, i: int, w: Wrapper, called: list[str], place: Place) -> list[str]:
    """The call of launch i."""
    if i in watched.hooks:
        return hooked(i, w, called, watched.hooks[i])
    lines = [f"SARDONYX_OPEN({watched.opens[i]});"] if i in watched.opens else []
    if w.traps:
        cut = [] if watched.cut is None else told((watched.cut, ()), place)
        lost = [*(told(watched.lost[i], place) if i in watched.lost else []), *cut]
        called = [*called[:-1], "if (status->error) {", *lost, "  return;", "}"]
    return [*lines, *called, *(told(watched.after[i], place) if i in watched.after else [])]


def told(line: Told, place: Place) -> list[str]:
    """A line is told, with where its tensors lie now."""
    number, names = line
    items = ", ".join(place(n) for n in names) or "0"
    return [
        "if (SARDONYX_OBSERVED) {",
        f"  const void *const at[] = {{{items}}};",
        f"  SARDONYX_TELL({number}, c->memory, at);",
        "}",
    ]


def hooked(number: int, w: Wrapper, call: Sequence[str], hook: Hook) -> list[str]:
    """A call that is observed; one with which a step does not end is made for the observer."""
    step, begins, ends = hook
    before = [f"SARDONYX_BEFORE(c->memory, {step});"] if begins else []
    if not ends:
        status = ", status" if w.traps else ""
        calm = ["if (SARDONYX_OBSERVED) status->error = 0;"] if w.traps else []
        return [*before, f"if (SARDONYX_OBSERVED) {w.name}(c{status});", *calm]
    if w.traps:
        call = [*call[:-1], "if (status->error) {", f"  SARDONYX_TRAP(c->memory, {step});"]
        call += ["  return;", "}"]
    stop = f"  status->error = 4, status->operation = {number};"
    after = [f"if (SARDONYX_AFTER(c->memory, {step})) {{", stop, "  return;", "}"]
    return [*before, *call, *after]
