"""tests/golden/manifest.json holds the machine's results to the numerics revision it names.

A mismatch means that bits have changed: either that is a mistake, or docs/numerics.md and
NUMERICS_REVISION (kernel/c99/prelude.py) become a new revision, and `pytest --update-golden
tests/test_golden.py` writes a new manifest. Under the old revision that only adds and removes
cases.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
from golden_cases import every
from nets import merged

from sardonyx.emit.weights import little_endian
from sardonyx.kernel import NUMERICS_REVISION
from sardonyx.machine import Machine
from sardonyx.types import Array

MANIFEST = Path(__file__).parent / "golden" / "manifest.json"
SHARDS = 8


@cache
def manifest() -> Mapping[str, Any]:
    if not MANIFEST.exists():
        return {"revision": 0, "fused": {}, "unfused": {}}
    loaded: Mapping[str, Any] = json.loads(MANIFEST.read_text())
    return loaded


def digest(outputs: Mapping[str, Array], order: list[str]) -> str:
    """sha256 of dtype, shape and little-endian bytes of each output."""
    key = sha256()
    for name in order:
        x = outputs[name]
        key.update(f"{x.dtype.name}{list(x.shape)}\n".encode() + little_endian(x))
    return key.hexdigest()


def digests(names: Sequence[str]) -> dict[str, tuple[str, str]]:
    """The digests of cases under both contracts: fused, and numerics="unfused"."""
    nets = {str(i): every()[name] for i, name in enumerate(names)}
    net = merged(nets)
    graph = net.graph()
    fused, unfused = (Machine(graph, fused=fused).run(net.feeds) for fused in (True, False))
    orders = ([f"{i}.{n}" for n in each.outputs] for i, each in nets.items())
    return {
        name: (digest(fused, order), digest(unfused, order))
        for name, order in zip(names, orders, strict=True)
    }


@pytest.mark.parametrize("shard", range(SHARDS))
def test_no_bit_has_changed(shard: int, request: pytest.FixtureRequest) -> None:
    if request.config.getoption("--update-golden"):
        pytest.skip("the manifest is being written")
    names = sorted(manifest()["fused"])[shard::SHARDS]
    for name, (fused, unfused) in digests(names).items():
        assert fused == manifest()["fused"][name], name
        assert unfused == manifest()["unfused"].get(name, fused), f"{name}, unfused"


def test_the_manifest_is_of_this_revision_and_names_every_case(
    request: pytest.FixtureRequest,
) -> None:
    if request.config.getoption("--update-golden"):
        update()
    assert manifest()["revision"] == NUMERICS_REVISION
    assert set(manifest()["fused"]) == set(every())


def update() -> None:
    """Writes the manifest; a changed digest is refused unless the revision is new."""
    old, fused, unfused = manifest(), {}, {}
    for name, (one, other) in digests(sorted(every())).items():
        fused[name] = one
        if other != one:
            unfused[name] = other
    if old["revision"] == NUMERICS_REVISION:
        changed = [n for n in fused if old["fused"].get(n, fused[n]) != fused[n]]
        changed += [n for n in unfused if old["unfused"].get(n, unfused[n]) != unfused[n]]
        assert not changed, f"bits have changed; that needs a new revision: {changed}"
    made = {"revision": NUMERICS_REVISION, "fused": fused, "unfused": unfused}
    MANIFEST.parent.mkdir(exist_ok=True)
    MANIFEST.write_text(json.dumps(made, indent=0) + "\n")
    manifest.cache_clear()
