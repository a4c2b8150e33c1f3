"""What may be asked for: how a model is read, what runs it, how its schedules are chosen."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TypeAlias, cast, get_args

from sardonyx.errors import SardonyxError

Kind: TypeAlias = Literal["machine", "native", "auto"]
Reading: TypeAlias = Literal["integer", "float"]
Numerics: TypeAlias = Literal["default", "winograd"]
VARIABLE = "SARDONYX_ENGINE"
MOST_THREADS = 256  # as in pool.c


def engine_kind(text: str, where: str) -> Kind:
    """The engine that `text` names; SardonyxError, naming `where` it was given, if it is none."""
    return cast(Kind, _one_of(text, where, get_args(Kind)))


def reading_named(text: str, where: str) -> Reading:
    """The reading of QDQ islands that `text` names; SardonyxError as above."""
    return cast(Reading, _one_of(text, where, get_args(Reading)))


def numerics_named(text: str, where: str) -> Numerics:
    """The numerics that `text` names; SardonyxError as above."""
    return cast(Numerics, _one_of(text, where, get_args(Numerics)))


def _one_of(text: str, where: str, known: tuple[str, ...]) -> str:
    if text not in known:
        raise SardonyxError(f"{where} is '{text}'; it can be {', '.join(known)}")
    return text


@dataclass(frozen=True, slots=True)
class Tuning:
    """measure: choices that are not known are measured, and kept. file: of choices; it is read,
    and with measure it is written too."""

    measure: bool = False
    file: Path | None = None

    @property
    def key(self) -> object:
        """What a program that was made with it depends on, besides what is in the cache."""
        there = self.file is not None and self.file.exists()
        return self.measure, self.file.read_bytes() if there and self.file else b""
