"""The package: its metadata, its README, and a run without what users need not have."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from importlib.metadata import version
from pathlib import Path

from sardonyx.kernel.c99.prelude import PIECES

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
EXTRAS = ("onnxruntime", "openvino", "sklearn", "pytest", "hypothesis", "mpmath", "ziglang")


def test_the_changelog_tells_of_this_version() -> None:
    assert f"## {PROJECT['version']}" in (ROOT / "CHANGELOG.md").read_text()
    assert version("sardonyx") == PROJECT["version"]


def test_every_dependency_has_a_reason() -> None:
    """docs/dependencies.md names each package of pyproject.toml, extras included."""
    text = (ROOT / "docs" / "dependencies.md").read_text()
    extras = [r for group in PROJECT["optional-dependencies"].values() for r in group]
    for requirement in (*PROJECT["dependencies"], *extras):
        package = requirement.split(">")[0].split("=")[0]
        assert f"`{package}`" in text, package


def test_ci_runs_the_commands_of_the_readme() -> None:
    """Each command of the README's section "Two commands" is a line of .ci/run."""
    section = (ROOT / "README.md").read_text().split("## Two commands")[1].split("\n## ")[0]
    commands = re.findall(r"```sh\n(.*)\n```", section)
    assert len(commands) == 2
    assert set(commands) <= set((ROOT / ".ci" / "run").read_text().splitlines())


def test_a_run_imports_nothing_of_the_extras() -> None:
    """The machine and the native engine run with the dependencies alone."""
    code = f"""
import sys
sys.modules.update(dict.fromkeys({EXTRAS!r}))
import numpy as np
from sardonyx.engines import make_engine
from sardonyx.resolve import resolve
graph = resolve("examples/digits/digits.onnx")
feeds = dict(np.load("examples/digits/digit.npz"))
print(make_engine(graph, "machine").run(feeds)["scores"].argmax())
print(make_engine(graph, "native").run(feeds)["scores"].argmax())
"""
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True)
    assert done.stdout == "7\n7\n", done.stderr


def test_c_parts_and_types_are_shipped() -> None:
    """What a wheel needs beside Python files lies in the package's folder."""
    package = ROOT / "src" / "sardonyx"
    for name in (
        "py.typed",
        *(f"kernel/c99/{name}" for name in PIECES),
        "kernel/c99/choice.h",
        "kernel/c99/product.h",
        "kernel/c99/contract.h",
        "kernel/c99/contract_i16.h",
        "kernel/c99/contract_u8.h",
        "kernel/c99/contract_vnni.h",
        "kernel/c99/windows.h",
        "emit/environment.h",
    ):
        assert (package / name).is_file(), name
