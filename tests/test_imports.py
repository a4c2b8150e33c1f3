"""The layers of src/sardonyx, and the arrows between them."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1] / "src" / "sardonyx"
NUMERIC = "numpy ml_dtypes"
SIZES = "errors dims types"
IR = f"{SIZES} kernel"
READ = "model resolve opened loading onnx google"
ENGINES = "settings tune engines keys images kept imaging machine"
ABOVE = f"{IR} graph feeds infer plan {ENGINES} {READ} {NUMERIC}"
# layer: what it may import, besides itself and the standard library. A layer stands below those
# that import it, so that there is one direction and no way back.
TABLE = {
    "errors": "",
    "beneath": "errors",
    "dims": "errors",
    "types": f"errors dims {NUMERIC}",
    "kernel": f"{SIZES} {NUMERIC}",
    "c99": f"{IR} {NUMERIC}",
    "settings": "errors",
    "graph": SIZES,
    "opened": "graph",
    "feeds": f"{SIZES} graph numpy",
    "ops": f"{IR} graph PIL re2 {NUMERIC}",
    "model": f"errors beneath types onnx google {NUMERIC}",
    "divide": "graph ops",
    "infer": f"{IR} ops graph feeds numpy",
    "supposed": f"{SIZES} graph feeds infer numpy",
    "resolve": f"{SIZES} model graph ops infer settings onnx numpy",
    "extract": "errors types model resolve onnx",
    "plan": f"{IR} graph numpy",
    "passes": f"{IR} c99 graph ops infer divide plan numpy",
    "memory": f"{SIZES} plan numpy",
    "host": f"{IR} graph ops numpy",
    "stages": f"{IR} graph feeds ops infer supposed divide numpy",
    "execution": f"{IR} graph ops host stages numpy",
    "ending": "types graph host",
    "tail": f"{IR} graph ops infer divide ending numpy",
    "monitor": f"{IR} graph numpy",
    "machine": f"{IR} graph ops infer plan feeds memory stages execution monitor numpy",
    "trace": f"{IR} graph infer ops plan passes feeds stages execution monitor machine numpy",
    "emit": f"{IR} c99 graph plan numpy",
    "compiler": "errors",
    "processors": "",
    "sealed": "types numpy",
    "build": f"{IR} emit compiler processors sealed numpy",
    "proved": "errors types plan build numpy",
    "threads": "errors build processors settings",
    "calls": "errors types feeds memory compiler build threads numpy",
    "clocked": f"{IR} c99 plan passes memory emit build calls threads numpy",
    "tune": f"{IR} c99 settings passes build clocked compiler threads numpy",
    "native": f"{IR} c99 settings graph infer supposed plan passes feeds memory emit build calls"
    " threads tune numpy",
    "watched": f"{IR} graph infer feeds memory monitor machine stages execution trace emit build"
    " calls numpy",
    "programs": "types feeds numpy",
    "whole": f"{SIZES} graph feeds infer supposed passes programs",
    "engines": f"{SIZES} settings graph ops infer feeds machine stages execution tail whole passes"
    " programs compiler native numpy",
    "timed": f"{SIZES} settings graph infer feeds machine execution whole passes build clocked"
    " programs threads tune engines numpy",
    "accuracy": f"{IR} c99 graph infer feeds host ops machine stages execution compiler build numpy"
    " mpmath",
    "loading": f"{SIZES} settings model graph opened resolve onnx",
    "keys": "errors beneath kernel ops compiler",
    "images": f"{SIZES} keys ending opened plan feeds memory build sealed calls threads engines"
    " numpy",
    "kept": "errors types feeds keys images opened programs engines numpy",
    "imaging": "types keys graph ending opened feeds passes programs build calls native engines"
    " images kept proved numpy",
    "checker": f"{SIZES} graph model resolve onnx google yaml {NUMERIC}",
    "documents": f"{IR} ops checker onnx numpy",
    "legalize": f"{SIZES} graph model resolve machine settings engines checker onnx {NUMERIC}",
    "backend": ABOVE,
    "custom": f"{IR} ops onnx {NUMERIC}",
    "ort": f"{ABOVE} timed",
    "measure": f"{ABOVE} c99 ort passes build threads onnxruntime openvino matplotlib",
    "__init__": f"{ABOVE} checker ort extract",
    "cli": f"{ABOVE} c99 timed measure accuracy watched checker documents monitor trace legalize "
    "ort extract passes emit build compiler feeds stages native ops",
    "__main__": "cli",
}
FILES = sorted(ROOT.rglob("*.py"))


def layer(file: Path) -> str:
    return _layer(*file.relative_to(ROOT).with_suffix("").parts)


def _layer(first: str, *rest: str) -> str:
    """kernel/c99 stands above the rest of kernel."""
    return "c99" if first == "kernel" and rest[:1] == ("c99",) else first


def imported(file: Path) -> Iterator[str]:
    """The layers and the foreign packages that a file imports, wherever in it."""
    for node in ast.walk(ast.parse(file.read_text())):
        match node:
            case ast.Import(names):
                yield from (_target(alias.name) for alias in names)
            case ast.ImportFrom(module="sardonyx", names=names, level=0):
                yield from (alias.name for alias in names)
            case ast.ImportFrom(module=str(module), level=0):
                yield _target(module)
            case ast.ImportFrom():
                pytest.fail(f"{file} line {node.lineno}: imports name the package they are from")


def _target(module: str) -> str:
    first, *rest = module.split(".")
    if first == "sardonyx":
        return _layer(*rest) if rest else "__init__"
    return "" if first in sys.stdlib_module_names else first


def name(file: Path) -> str:
    return str(file.relative_to(ROOT))


@pytest.mark.parametrize("file", FILES, ids=name)
def test_a_module_imports_what_its_layer_may(file: Path) -> None:
    here = layer(file)
    assert here in TABLE, f"{here} is a new layer: say in TABLE what it may import"
    wrong = set(imported(file)) - {"", here, *TABLE[here].split()}
    assert not wrong, f"{here} may not import {', '.join(sorted(wrong))}"


def test_arrows_go_one_way() -> None:
    """Every layer is listed below those that may import it."""
    order = list(TABLE)
    for i, text in enumerate(TABLE.values()):
        later = set(order[i:]) & set(text.split())
        assert not later, f"{order[i]} may import {later}, which stand above it"


def test_every_layer_exists() -> None:
    assert set(TABLE) - {layer(f) for f in FILES} <= {"cli", "__init__"}
