"""Measures the elementary functions: python -m sardonyx.accuracy [FUNCTION ...] [--mode MODE]

Every one of the 2^32 float32 values goes through the C of the function, in both numerics modes, and
is compared with the C library's float64 function, whose error (at most a few 2^-53 relatively) is
below 2^-28 of a float32's unit in the last place. pow in float32, and everything in float64, is
sampled: random bit patterns, values near 1 and near halves, and the ends of the range; float64 is
compared with mpmath. `--write` makes docs/accuracy.md from the results.
"""

from __future__ import annotations

import argparse
import pathlib
import sys
from collections.abc import Sequence

from sardonyx.accuracy import double, single
from sardonyx.accuracy.harness import MODES, Row
from sardonyx.kernel import elementary

INTRODUCTION = """# Accuracy of the elementary functions

Made by `python -m sardonyx.accuracy --write docs/accuracy.md`; do not edit. The bounds: float32 at
most 1 ulp, float64 at most 2 ulp, in both numerics modes. The error is measured in units in the
last place of the exact result (subnormal results: 2^-149, 2^-1074); a wrong NaN, infinity or sign
of zero counts as infinite. `operations`: arithmetic, selections and conversions for one element.

- float32, one argument: every one of the 2^32 values, against the C library's float64 function,
  which is itself good to 2^-28 ulp of a float32 or better.
- float32 pow: samples (random bits; results in range; bases near 1; halves; special values),
  against the C library's float64 pow.
- float64: samples (random bits; near changes of method, zeros and limits; evenly in the logarithm)
  against mpmath with at least 160 bits. Sampling can miss a worse argument.

| function | type | mode | greatest error, ulp | at | tried | operations |
|---|---|---|---|---|---|---|
"""


def written(rows: Sequence[Row], path: pathlib.Path) -> None:
    """Brings the table in the file up to date with these rows; the others stay."""
    lines = {}
    if path.exists():
        kept = [line for line in path.read_text("utf-8").splitlines() if line.startswith("| ")]
        lines = {tuple(line.split(" | ")[:3]): line for line in kept[1:]}
    for r in rows:
        tried = "all" if r.tried == 1 << 32 else str(r.tried)
        cells = (r.function, r.dtype, r.mode, f"{r.ulp:.4f}", ", ".join(r.at), tried, r.operations)
        line = f"| {' | '.join(map(str, cells))} |"
        lines[tuple(line.split(" | ")[:3])] = line
    path.write_text(INTRODUCTION + "\n".join(lines[key] for key in sorted(lines)) + "\n", "utf-8")


def main(arguments: Sequence[str] | None = None) -> int:
    """The command; 1 if a bound is broken."""
    about = (__doc__ or "").partition("\n\n")[2]
    parser = argparse.ArgumentParser("python -m sardonyx.accuracy", description=about)
    parser.add_argument("functions", nargs="*", default=[], metavar="FUNCTION")
    parser.add_argument("--mode", choices=MODES, help="show one numerics mode only")
    parser.add_argument("--dtype", choices=("float32", "float64"), help="measure one type only")
    parser.add_argument("--samples", type=int, default=20000, help="of each float64 function")
    parser.add_argument("--write", type=pathlib.Path, help="the Markdown file to bring up to date")
    options = parser.parse_args(arguments)
    broken = False
    for name in options.functions or elementary.__all__:
        found = single.measure(name) if options.dtype != "float64" else []
        found += double.measure(name, options.samples) if options.dtype != "float32" else []
        found = [r for r in found if options.mode in (None, r.mode)]
        for r in found:
            print(
                f"{r.function} {r.dtype} {r.mode}: {r.ulp:.4f} ulp at {', '.join(r.at)}", flush=True
            )
        broken = broken or not all(r.ulp <= (1 if r.dtype == "float32" else 2) for r in found)
        if options.write:
            written(found, options.write)
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
