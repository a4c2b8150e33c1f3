"""Options of the test run."""

from __future__ import annotations

import pytest


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
