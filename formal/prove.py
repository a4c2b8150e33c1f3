#!/usr/bin/env python3
"""Proves the formal specification, and shows that the proofs say something.

    prove.py                  every theorem: split, then Z3, then CVC4; fails on one unproved goal
    prove.py -k REGEX [...]   those whose name matches
    prove.py --extract        the C of the checker; fails if the package's file differs
    prove.py --mutations      with each wrong definition of mutations.txt its theorem must fail

The limit of a goal is processor time, so that a busy or slow machine changes nothing but the wait.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from shutil import copytree

HERE = Path(__file__).resolve().parent
FILES = ("semantics", "plan", "machine", "checker")
PROVERS = ("Z3,4.8.12", "CVC4,1.8")
EXTRACTED = HERE.parent / "src" / "sardonyx" / "plan" / "plan_check.c"
Theorem = tuple[str, str, str]  # file, module, goal


def why3(folder: Path, command: str, *arguments: str) -> str:
    """The output; ends the program where the files do not type-check."""
    config = ["-C", str(HERE / "why3.conf"), "-L", "."]
    line = ["nice", "-n", "10", "why3", command, *config, *arguments]
    done = subprocess.run(line, cwd=folder, capture_output=True, text=True)
    if "rror" in done.stderr or (done.stderr and not done.stdout):
        raise SystemExit(done.stderr)
    return done.stdout


def theorems(folder: Path, pattern: str, files: Sequence[str] = FILES) -> list[Theorem]:
    found = []
    for file in files:
        module = ""
        for line in why3(folder, "prove", f"{file}.mlw").splitlines():
            if match := re.match(r"theory (\S+)", line):
                module = match[1]
            elif (match := re.match(r"  goal (\S+?):?(?:\s|$)", line)) and re.search(
                pattern, match[1]
            ):
                found.append((file, module, match[1]))
    return found


def attempt(folder: Path, theorem: Theorem, prover: str, limit: str) -> list[tuple[bool, str]]:
    """Of each goal of a theorem, in their order: whether it is proved, and what and where it is."""
    file, module, goal = theorem
    selection = [f"{file}.mlw", "-T", module, "-G", goal, "-a", "split_vc"]
    text = why3(folder, "prove", *selection, "-P", prover, "-t", limit, "--json")
    answers, decoder, at = [], json.JSONDecoder(), 0
    while match := re.compile(r"\s*").match(text, at):
        if match.end() == len(text):
            return answers
        answer, at = decoder.raw_decode(text, match.end())
        term = answer["term"]
        line = term.get("loc", {}).get("line", "?")
        where = f"{file}.mlw:{line} {term.get('explanations')}"
        answers.append((answer["prover-result"]["answer"] == "Valid", where))
    return answers


def prove(folder: Path, theorem: Theorem, limit: str) -> list[tuple[bool, str]]:
    """As attempt, by all provers in turn."""
    best = attempt(folder, theorem, PROVERS[0], limit)
    if not all(ok for ok, _ in best):
        other = attempt(folder, theorem, PROVERS[1], limit)
        best = [(a or b, where) for (a, where), (b, _) in zip(best, other, strict=True)]
    missing = [where for ok, where in best if not ok]
    print(f"{theorem[0]}.{theorem[2]}: {len(best)} goals, {len(missing)} unproved", flush=True)
    for where in missing:
        print("   ", where, flush=True)
    return best


def prove_all(
    folder: Path, pattern: str, limit: str, jobs: int, files: Sequence[str] = FILES
) -> bool:
    start = time.monotonic()
    every = theorems(folder, pattern, files)
    with ThreadPoolExecutor(jobs) as pool:
        goals = [g for made in pool.map(lambda t: prove(folder, t, limit), every) for g in made]
    bad = sum(not ok for ok, _ in goals)
    took = time.monotonic() - start
    print(f"{len(every)} theorems, {len(goals)} goals, {bad} unproved, {took:.0f} s")
    return bool(goals) and not bad


def extracted(folder: Path) -> str:
    with tempfile.TemporaryDirectory() as name:
        made = Path(name) / "plan_check.c"
        how = ["-D", "c", "-D", "checker.drv", "--recursive", "checker.Check", "-o", str(made)]
        why3(folder, "extract", *how)
        return made.read_text()


def mutations(limit: str) -> bool:
    """mutations.txt: blocks of `theorem file`, `- old text`, `+ new text`."""
    good = True
    for block in (HERE / "mutations.txt").read_text().strip().split("\n\n"):
        head, old, new = block.split("\n")[:3]
        goal, file = head.split()
        with tempfile.TemporaryDirectory() as name:
            folder = copytree(HERE, Path(name) / "formal")
            text = (folder / file).read_text()
            if text.count(old[2:]) != 1:
                raise SystemExit(f"{file} does not hold once: {old[2:]}")
            (folder / file).write_text(text.replace(old[2:], new[2:]))
            broken = not prove_all(folder, f"^{goal}'vc$", limit, 1)
        print(f"{goal}: {'fails, as it must' if broken else 'IS STILL PROVED'} with {new[2:]}")
        good = good and broken
    return good


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("-k", default="", help="theorems whose name matches")
    parser.add_argument("-f", nargs="+", default=FILES, choices=FILES, help="in these files")
    parser.add_argument("-t", default="20", help="processor seconds for a goal and a prover")
    parser.add_argument("-j", type=int, default=2, help="provers at once")
    parser.add_argument("--extract", action="store_true")
    parser.add_argument("--write", action="store_true", help="with --extract: write the file")
    parser.add_argument("--mutations", action="store_true")
    given = parser.parse_args()
    if given.extract and given.write:
        EXTRACTED.write_text(extracted(HERE))
    if given.extract:
        sys.exit(extracted(HERE) != EXTRACTED.read_text())
    if given.mutations:
        sys.exit(not mutations(given.t))
    sys.exit(not prove_all(HERE, given.k, given.t, given.j, given.f))


if __name__ == "__main__":
    main()
