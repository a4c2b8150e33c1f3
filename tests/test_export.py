"""The exported folder."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest
from nets import Net
from programs import Made, planned, sample
from test_emit import expected, feeds
from test_print_c import structure_cases

from sardonyx.emit import emit
from sardonyx.emit.export import export
from sardonyx.emit.launches import Printer
from sardonyx.emit.weights import c_bytes
from sardonyx.errors import Undetermined
from sardonyx.kernel.c99.print_c import print_c
from sardonyx.kernel.c99.schedule import print_scheduled
from sardonyx.passes.lower import lower
from sardonyx.passes.pipeline import optimise
from sardonyx.passes.timeline import timeline_of
from sardonyx.plan import plan
from sardonyx.types import Array, TensorType

STRICT = "-std=c99 -pedantic -Wall -Wextra -Werror -ffp-contract=off"
SANITIZED = "-g -O1 -fsanitize=address,undefined -fno-sanitize-recover=all"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("model")
    made, given = sample(), feeds(4)
    export(made, emit(made, planned(made)), path, given, expected(made, given))
    return path


def build(folder: Path, tmp_path: Path, command: str) -> Path:
    if shutil.which(command.split()[0]) is None:
        pytest.skip(f"there is no {command.split()[0]}")
    sources = [str(folder / name) for name in ("model.c", "weights.c", "test_main.c")]
    program = tmp_path / "program"
    subprocess.run([*command.split(), *sources, "-o", str(program), "-lm"], check=True)
    return program


@pytest.mark.parametrize("compiler", ["gcc", "clang"])
@pytest.mark.parametrize("level", ["-O0", "-O1", "-O2", "-O3 -march=native"])
def test_the_exported_folder_compiles_without_a_warning_and_its_test_passes(
    folder: Path, tmp_path: Path, compiler: str, level: str
) -> None:
    program = build(folder, tmp_path, f"{compiler} {STRICT} {level}")
    subprocess.run([program], check=True, stdout=subprocess.DEVNULL)


@pytest.mark.parametrize("level", ["-O2", "-O3"])
@pytest.mark.parametrize("columns", [65, 1000])
def test_what_strips_leave_of_a_row_draws_no_warning(
    columns: int, level: str, tmp_path: Path
) -> None:
    """gcc 12 took the loop behind the strips for one that leaves the array."""
    if shutil.which("gcc") is None:
        pytest.skip("there is no gcc")
    net, x = Net(), np.ones((4, columns), np.float32)
    net.give(net.op("Softmax", net.feed("x", x)))
    program = optimise(lower(net.graph(), overridable=False))
    made = plan(timeline_of(program))
    source = emit(program, made, printer=print_scheduled)
    export(program, source, tmp_path, [x], [x])
    command = ["gcc", *STRICT.split(), level, "-c", "model.c", "-o", "model.o"]
    subprocess.run(command, cwd=tmp_path, check=True)


@pytest.mark.parametrize("compiler", ["gcc", "clang"])
def test_the_sanitizers_find_nothing(folder: Path, tmp_path: Path, compiler: str) -> None:
    program = build(folder, tmp_path, f"{compiler} {STRICT} {SANITIZED}")
    subprocess.run([program], check=True, stdout=subprocess.DEVNULL)


def structures() -> tuple[Made, list[Array]]:
    """The kernels that are easy to get wrong, each with an input of its own."""
    made, given = Made((), (), {}), []
    for number, (kernel, inputs) in enumerate(structure_cases()):
        reads = [f"x{number}_{i}" for i in range(len(inputs))]
        for name, b in zip(reads, kernel.inputs, strict=True):
            assert b is not None
            made.tensors[name] = TensorType(b.dtype, b.shape)
        made.inputs += tuple(reads)
        made.outputs += (f"y{number}",)
        made.add(kernel, reads, [f"y{number}"], "")
        given += inputs
    return made, given


@pytest.mark.parametrize("printer", [print_c, print_scheduled])
def test_the_sanitizers_find_nothing_in_structures(printer: Printer, tmp_path: Path) -> None:
    made, given = structures()
    found = planned(made, (*made.inputs, *made.outputs))
    source = emit(made, found, printer=printer)
    export(made, source, tmp_path, given, expected(made, given))
    program = build(tmp_path, tmp_path, f"gcc {STRICT} {SANITIZED}")
    subprocess.run([program], check=True, stdout=subprocess.DEVNULL)


def test_another_instruction_set_gives_the_same_bytes(folder: Path, tmp_path: Path) -> None:
    if shutil.which("qemu-aarch64") is None:
        pytest.skip("there is no qemu-aarch64")
    program = build(folder, tmp_path, f"aarch64-linux-gnu-gcc -static -O2 {STRICT}")
    subprocess.run(["qemu-aarch64", program], check=True, stdout=subprocess.DEVNULL)


def test_make_test_passes(folder: Path, tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(folder, copy)
    done = subprocess.run(["make", "test"], cwd=copy, check=True, capture_output=True, text=True)
    assert "4 outputs are equal" in done.stdout


def test_a_wrong_byte_fails_the_recorded_test(tmp_path: Path) -> None:
    made, given = sample(), feeds(4)
    results = expected(made, given)
    results[0] = np.nextafter(results[0], np.float32(0))
    export(made, emit(made, planned(made)), tmp_path, given, results)
    program = build(tmp_path, tmp_path, "cc -O1")
    done = subprocess.run([program], capture_output=True, text=True)
    assert done.returncode == 1
    assert "output 0 differs" in done.stdout


def test_the_map_keeps_the_true_names(folder: Path) -> None:
    found = json.loads((folder / "model.map.json").read_text())
    assert found["operations"][0]["nodes"][0]["name"] == "a node */ with a name"
    assert found["operations"][0]["function"] == "n0000_matmul"
    assert found["weights"] == {"w": 0}


def test_the_weights_file_holds_the_blob(folder: Path) -> None:
    weight = sample().weights["w"]
    assert (folder / "weights.bin").read_bytes()[: weight.nbytes] == weight.tobytes()


def test_symbolic_dims_cannot_be_exported(tmp_path: Path) -> None:
    with pytest.raises(Undetermined, match="--dim"):
        export(sample(), emit(sample()), tmp_path, [], [])


def test_no_string_literal_is_longer_than_c99_guarantees() -> None:
    text = c_bytes("x", bytes(10_000))
    assert max(len(part) // 4 for part in text.replace('"\n"', "").split('"')[1::2]) <= 4095


def test_an_array_without_bytes_is_still_an_array() -> None:
    assert c_bytes("x", b"").endswith("= {\n{0}\n};\n")
