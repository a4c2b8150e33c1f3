"""Options of the test run."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings

from sardonyx import build
from sardonyx.emit import model
from sardonyx.kernel.c99 import beside, share

settings.register_profile("unhurried", deadline=None)  # computers are shared
settings.load_profile("unhurried")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--update-golden",
        action="store_true",
        help="rewrite tests/golden/manifest.json: new cases, or all under a new numerics revision",
    )


@pytest.fixture
def machine_engine(monkeypatch: pytest.MonkeyPatch) -> None:
    """Sessions run on the machine."""
    monkeypatch.setenv("SARDONYX_ENGINE", "machine")


@pytest.fixture
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A test's own cache, in which nothing is but the register tiles that other tests compiled:
    those take seconds. What it compiles of them is left to the others."""
    shared, own = build.cache_folder(), tmp_path / "cache"
    tiles = f"*{build.OBJECT}"
    for folder in (shared, own):
        folder.mkdir(parents=True, exist_ok=True)
    for path in shared.glob(tiles):
        shutil.copy(path, own)
    monkeypatch.setenv("SARDONYX_CACHE", str(own))
    yield own
    for path in own.glob(tiles):
        if not (shared / path.name).exists():
            build.place(shared / path.name, [path.read_bytes()])


@pytest.fixture
def small_units(monkeypatch: pytest.MonkeyPatch) -> None:
    """Everything that can be shared out is, however little work it is."""
    for module in (share, beside, model):
        monkeypatch.setattr(module, "UNIT", 64)


@pytest.fixture
def compiled(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The libraries asked for so far."""
    asked: list[str] = []
    real = build.library

    def library(sources: Mapping[str, str], **given: Any) -> Path:
        if "model.c" in sources:  # else it is the glue of calls.py
            asked.append(sources["model.c"])
        return real(sources, **given)

    monkeypatch.setattr(build, "library", library)
    return asked
