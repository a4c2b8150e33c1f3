"""The same bytes on every target: compilers, their levels, instruction sets and architectures.

The programs are those of slices.py; each is compared with the machine. `docs/targets.md` lists the
targets; a test is skipped only where a tool or a CPU feature is missing, and says which.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from nets import Net
from slices import PARTS, slice_of
from targets import (
    WITH_SANITIZERS,
    ZIG,
    Target,
    Written,
    compiled,
    differences,
    lacking,
    results,
    unable,
    write,
)

from sardonyx.kernel.verify import settle
from sardonyx.machine import Machine
from sardonyx.passes.constants import fold_constants
from sardonyx.passes.fuse import fuse
from sardonyx.passes.layout import block_channels
from sardonyx.passes.lower import lower
from sardonyx.passes.narrow import narrow
from sardonyx.passes.pack import pack
from sardonyx.passes.padding import pad_inputs
from sardonyx.types import Array

HERE = Path(__file__).parent
# What reaches the register tiles; and the rest, many kernels that take long to compile.
NETWORKS = (
    *("convolutional", "tiles", "halves", "transformer"),
    *("edge_products", "doubles", "byte_products", "small_weights"),
    *("held_weights", "moves"),
)
ELEMENTS = tuple(part for part in PARTS if part not in NETWORKS)

V2 = ("sse4_2", "ssse3", "popcnt")
V3 = ("avx2", "fma", "bmi2", "f16c", "movbe")
V4 = ("avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl")
GCC, CLANG, AARCH64 = ("gcc",), ("clang",), ("aarch64-linux-gnu-gcc", "-static")
TARGETS = (
    Target("gcc-O0", (*GCC, "-O0")),
    Target("gcc-O2", (*GCC, "-O2")),
    Target("gcc-O3-native", (*GCC, "-O3", "-march=native")),
    Target("clang-O2", (*CLANG, "-O2")),
    Target("clang-O3-native", (*CLANG, "-O3", "-march=native")),
    Target("x86-64", (*GCC, "-O3", "-march=x86-64")),  # the exact multiply-add without hardware
    Target("x86-64-v2", (*GCC, "-O3", "-march=x86-64-v2"), cpu=V2),
    Target("x86-64-v3", (*GCC, "-O3", "-march=x86-64-v3"), cpu=V3),
    Target("x86-64-v4", (*GCC, "-O3", "-march=x86-64-v4"), cpu=V4),
    Target("x86-64-v4-clang", (*CLANG, "-O3", "-march=x86-64-v4"), cpu=V4),
    Target(
        "tiles-of-x86-64-v4",
        (
            *GCC,
            "-O2",
            "-mfma",
            "-mavx2",
            "-D__AVX512F__",
            "-D__AVX512BW__",
            "-DSX_FOURS=0",
            "-DSX_NO_ASM",
            f"-I{HERE / 'avx512'}",
        ),
        cpu=V3,
    ),
    Target("aarch64", (*AARCH64, "-O2"), ("qemu-aarch64",)),
    Target("aarch64-O3", (*AARCH64, "-O3"), ("qemu-aarch64",)),
    Target("portable", (*GCC, "-O2", "-march=native", "-DSX_PORTABLE")),
    Target("portable-x86-64", (*CLANG, "-O2", "-DSX_PORTABLE")),
    Target("unfused", (*GCC, "-O2"), fused=False),
    Target("unfused-native", (*CLANG, "-O3", "-march=native"), fused=False),
)
# Tried in the slow run only: near to one that is not (the engine itself is gcc-O3-native, which is
# x86-64-v3 or x86-64-v4, gcc-O0 has no more than x86-64 either, tests of kernels take clang, and an
# emulated computer runs AVX-512 in CI).
LATER = (
    "clang-O2",
    "gcc-O2",
    "gcc-O3-native",
    "clang-O3-native",
    "x86-64",
    "tiles-of-x86-64-v4",
    "x86-64-v2",
    "x86-64-v3",
    "x86-64-v4",
    "x86-64-v4-clang",
    "aarch64-O3",
    "portable-x86-64",
    "unfused",
    "unfused-native",
)
# For what has tiles of its own on each of them: of floats, and of bytes.
OF_FLOATS = (
    Target("gcc", (*WITH_SANITIZERS["gcc"], "-march=native")),
    pytest.param(
        Target("clang", (*WITH_SANITIZERS["clang"], "-march=native")), marks=pytest.mark.slow
    ),
    pytest.param(Target("zig", (*ZIG, "-O1", "-mcpu=native")), marks=pytest.mark.slow),
    *(x for x in TARGETS if x.name == "aarch64"),
    *(
        pytest.param(x, marks=pytest.mark.slow)
        for x in TARGETS
        if x.name in ("portable", "tiles-of-x86-64-v4")
    ),
)
OF_BYTES = (
    *OF_FLOATS,
    Target("aarch64-sdot", (*AARCH64, "-O1", "-march=armv8.2-a+dotprod"), ("qemu-aarch64",)),
    Target("aarch64-usdot", (*AARCH64, "-O1", "-march=armv8.2-a+i8mm"), ("qemu-aarch64",)),
    Target("vnni", (*GCC, "-O1", "-march=x86-64-v4", "-mavx512vnni"), cpu=(*V4, "avx512_vnni")),
)
ZIG_TARGETS = (
    Target("zig-aarch64", (*ZIG, "-O2", "-target", "aarch64-linux-musl"), ("qemu-aarch64",)),
    Target("zig-armv7", (*ZIG, "-O2", "-target", "arm-linux-musleabihf"), ("qemu-arm",)),
    Target("zig-riscv64", (*ZIG, "-O2", "-target", "riscv64-linux-musl"), ("qemu-riscv64",)),
    Target("zig-x86", (*ZIG, "-O2", "-target", "x86-linux-musl", "-msse2"), ("qemu-i386",)),
    Target("zig-x86-64", (*ZIG, "-O2", "-target", "x86_64-linux-musl")),
    Target("zig-x86-64-v3", (*ZIG, "-O2", "-mcpu=x86_64_v3"), cpu=V3),
    Target("zig-x86-64-v4", (*ZIG, "-O2", "-mcpu=x86_64_v4"), cpu=V4),
    # QEMU 7.2 converts no lane of a vector to integers where one of them is NaN.
    Target(
        "zig-powerpc64le",
        (*ZIG, "-O2", "-fno-vectorize", "-fno-slp-vectorize", "-target", "powerpc64le-linux-musl"),
        ("qemu-ppc64le",),
    ),
)


@cache
def expected(parts: tuple[str, ...], fused: bool) -> dict[str, Array]:
    """The outputs that the machine gives."""
    graph, feeds = slice_of(parts)
    return Machine(graph, fused=fused).run(feeds)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("targets")


def written(folder: Path, parts: tuple[str, ...], scheduled: bool, fused: bool) -> Written:
    name = f"{parts[0]}-{'scheduled' if scheduled else 'naive'}-{'' if fused else 'un'}fused"
    return _written(folder / name, parts, scheduled, fused)


@cache
def _written(path: Path, parts: tuple[str, ...], scheduled: bool, fused: bool) -> Written:
    return write(slice_of(parts)[0], path, scheduled=scheduled, fused=fused)


def but_slow(slow: Callable[[Target], bool]) -> list[Any]:
    """All targets, of which some are tried in the slow run only."""
    marked = pytest.mark.slow
    return [pytest.param(t, marks=marked) if slow(t) else t for t in TARGETS]


def check(folder: Path, target: Target, parts: tuple[str, ...], scheduled: bool = True) -> None:
    """Asserts that the target compiles without a warning and gives the machine's bytes."""
    if lacking(target):
        pytest.skip(f"{target}: {lacking(target)}")
    program = written(folder, parts, scheduled, target.fused)
    executable = compiled(program, target)
    if unable(target):
        pytest.skip(f"{target}: compiled without a warning; not run: {unable(target)}")
    found = results(program, target, executable, slice_of(parts)[1])
    assert not differences(found, expected(parts, target.fused))


def check_net(net: Net, target: Target, path: Path, *, dots: int = 0) -> None:
    """Asserts that the C of a graph, written to `path`, gives the machine's bytes on the target."""
    if lacking(target) or unable(target):
        pytest.skip(f"{target}: {lacking(target) or unable(target)}")
    graph = net.graph()
    program = write(graph, path, dots=dots)
    found = results(program, target, compiled(program, target), net.feeds)
    assert not differences(found, Machine(graph).run(net.feeds))


@pytest.mark.parametrize("target", but_slow(lambda t: t.name in LATER or bool(unable(t))), ids=str)
def test_networks_give_the_machines_bytes(target: Target, folder: Path) -> None:
    check(folder, target, NETWORKS)


@pytest.mark.slow
@pytest.mark.parametrize("target", TARGETS, ids=str)
def test_networks_in_plain_loops_give_the_machines_bytes(target: Target, folder: Path) -> None:
    check(folder, target, NETWORKS, scheduled=False)


@pytest.mark.parametrize("target", but_slow(lambda t: t.name != "aarch64"), ids=str)
def test_elements_give_the_machines_bytes(target: Target, folder: Path) -> None:
    check(folder, target, ELEMENTS)


@pytest.mark.slow
@pytest.mark.parametrize("target", TARGETS, ids=str)
def test_elements_in_plain_loops_give_the_machines_bytes(target: Target, folder: Path) -> None:
    check(folder, target, ELEMENTS, scheduled=False)


@pytest.mark.slow
@pytest.mark.parametrize("target", ZIG_TARGETS, ids=str)
@pytest.mark.parametrize("parts", [NETWORKS, ELEMENTS], ids=["networks", "elements"])
def test_other_architectures_by_zig_cc(
    target: Target, parts: tuple[str, ...], folder: Path
) -> None:
    check(folder, target, parts)


def test_each_kernel_is_proven_in_bounds_after_each_pass() -> None:
    program = lower(slice_of(NETWORKS)[0], overridable=False)
    for step in (fold_constants, narrow, fuse, block_channels, pad_inputs, pack):
        program = step(program)
        for launch in program.launches:
            settle(launch.kernel)


def test_unfused_is_another_contract() -> None:
    fused, unfused = (expected(NETWORKS, f) for f in (True, False))
    assert differences(unfused, fused)


def test_the_slices_reach_the_edges() -> None:
    """Ties, subnormals, infinities and NaNs are among the results that are compared."""
    found = expected(NETWORKS, True)
    floats = [x for x in found.values() if x.dtype == np.float32]
    least = np.finfo(np.float32).smallest_normal
    assert any(((x != 0) & (np.abs(x) < least)).any() for x in floats)
    assert any(np.isinf(x).any() for x in floats)
    assert any(np.isnan(x).any() for x in floats)
