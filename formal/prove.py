#!/usr/bin/env python3
"""Proves the formal specification, and shows that the proofs say something.

    prove.py                  every theorem; fails on one unproved goal
    prove.py -k REGEX [...]   those whose name matches
    prove.py --extract        the C of the checker; fails if the package's file differs
    prove.py --mutations      with each wrong definition of mutations.txt its theorem must fail

Why3 splits a theorem into goals and prints them for a prover; Z3 and CVC4 try each in turn, for a
short time first. The limits are processor time, so a busy machine changes nothing but the wait.
"""

from __future__ import annotations

import argparse
import json
import re
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from pathlib import Path
from shutil import copytree

HERE = Path(__file__).resolve().parent
FILES = ("semantics", "plan", "machine", "control", "inline", "checker")
Z3 = ("Z3,4.8.12", "z3 -smt2 sat.random_seed=42 nlsat.randomize=false smt.random_seed=42")
CVC4 = ("CVC4,1.8", "cvc4 --lang=smt2")
PROVERS = {"Z3": Z3, "CVC4": CVC4}
SHORT = (("Z3", 2), ("CVC4", 4), ("Z3", 10))  # prover, processor seconds
ROUNDS = (*SHORT, ("CVC4", 20), ("Z3", 40), ("CVC4", 60))
MEMORY = 3 << 30
EXTRACTED = HERE.parent / "src" / "sardonyx" / "plan" / "plan_check.c"
Theorem = tuple[str, str, str]  # file, module, goal
Rounds = Sequence[tuple[str, int]]


def why3(folder: Path, command: str, *arguments: str) -> str:
    """The output; ends the program where the files do not type-check."""
    config = ["-C", str(HERE / "why3.conf"), "-L", "."]
    line = ["why3", command, *config, *arguments]
    done = subprocess.run(line, cwd=folder, capture_output=True, text=True)
    if "rror" in done.stderr or (done.returncode and not done.stdout):
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


@cache
def printed(folder: Path, file: str, module: str, prover: str) -> dict[str, list[str]]:
    """The goals of a module's theorems in a prover's language, in their order."""
    found: dict[str, dict[int, str]] = {}
    with tempfile.TemporaryDirectory() as made:
        chosen = [f"{file}.mlw", "-T", module, "-a", "split_vc", "-P", PROVERS[prover][0]]
        why3(folder, "prove", *chosen, "-o", made)
        for goal in Path(made).iterdir():
            match = re.fullmatch(rf"{file}-{module}-(\w+)qtvc(\d*)\.smt2", goal.name)
            if match is None:
                raise SystemExit(f"unexpected {goal.name}")
            found.setdefault(f"{match[1]}'vc", {})[int(match[2] or 0)] = goal.read_text()
    return {goal: [texts[i] for i in sorted(texts)] for goal, texts in found.items()}


def holds(text: str, prover: str, seconds: int) -> bool:
    """Whether the prover finds that the negated goal contradicts what is given."""

    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds + 1))
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))

    with tempfile.NamedTemporaryFile("w", suffix=".smt2") as goal:
        goal.write(text)
        goal.flush()
        line = [*PROVERS[prover][1].split(), goal.name]
        done = subprocess.run(line, capture_output=True, text=True, preexec_fn=limit)
    return done.stdout.split()[:1] == ["unsat"]


def places(folder: Path, theorem: Theorem) -> list[str]:
    """Where the goals of a theorem stand, and what they are."""
    file, module, goal = theorem
    chosen = [f"{file}.mlw", "-T", module, "-G", goal, "-a", "split_vc"]
    text = why3(folder, "prove", *chosen, "-P", Z3[0], "-t", "1", "--json")
    found, decoder, at = [], json.JSONDecoder(), 0
    while text[at:].strip():
        answer, at = decoder.raw_decode(text, re.compile(r"\s*").match(text, at).end())
        term = answer["term"]
        line = term.get("loc", {}).get("line", "?")
        found.append(f"{file}.mlw:{line} {term.get('explanations')}")
    return found


def prove(folder: Path, theorem: Theorem, rounds: Rounds, first: bool = False) -> list[bool]:
    """Of each goal of a theorem, in their order, whether it is proved; `first` ends at the first
    that is not."""
    file, module, goal = theorem
    done: list[bool] = []
    for i in range(len(printed(folder, file, module, "Z3")[goal])):
        goals = ((printed(folder, file, module, p)[goal][i], p, limit) for p, limit in rounds)
        done.append(any(holds(*tried) for tried in goals))
        if first and not done[-1]:
            break
    missing = [i for i, ok in enumerate(done) if not ok]
    print(f"{theorem[0]}.{theorem[2]}: {len(done)} goals, {len(missing)} unproved", flush=True)
    for where in [places(folder, theorem)[i] for i in missing] if not first else []:
        print("   ", where, flush=True)
    return done


def prove_all(folder: Path, pattern: str, jobs: int, files: Sequence[str] = FILES) -> bool:
    start = time.monotonic()
    every = theorems(folder, pattern, files)
    with ThreadPoolExecutor(jobs) as pool:
        goals = [ok for made in pool.map(lambda t: prove(folder, t, ROUNDS), every) for ok in made]
    bad = goals.count(False)
    took = time.monotonic() - start
    print(f"{len(every)} theorems, {len(goals)} goals, {bad} unproved, {took:.0f} s")
    return bool(goals) and not bad


def extracted(folder: Path) -> str:
    with tempfile.TemporaryDirectory() as name:
        made = Path(name) / "plan_check.c"
        how = ["-D", "c", "-D", "checker.drv", "--recursive", "checker.Check", "-o", str(made)]
        why3(folder, "extract", *how)
        return made.read_text()


def mutations(pattern: str) -> bool:
    """mutations.txt: blocks of `theorem file`, `- old text`, `+ new text`. With the old text the
    theorem is proved, with the new one it is not, within the same limits."""
    good = True
    for block in (HERE / "mutations.txt").read_text().strip().split("\n\n"):
        head, old, new = block.split("\n")[:3]
        goal, file = head.split()
        if not re.search(pattern, goal):
            continue
        with tempfile.TemporaryDirectory() as name:
            folder = copytree(HERE, Path(name) / "formal")
            text = (folder / file).read_text()
            if text.count(old[2:]) != 1:
                raise SystemExit(f"{file} does not hold once: {old[2:]}")
            (theorem,) = theorems(folder, f"^{goal}'vc$")
            proved = all(prove(folder, theorem, SHORT, first=True))
            (folder / file).write_text(text.replace(old[2:], new[2:]))
            printed.cache_clear()
            broken = not all(prove(folder, theorem, SHORT, first=True))
        print(f"{goal}: {'fails, as it must' if broken else 'IS STILL PROVED'} with {new[2:]}")
        good = good and proved and broken
    return good


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("-k", default="", help="theorems whose name matches")
    parser.add_argument("-f", nargs="+", default=FILES, choices=FILES, help="in these files")
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
        sys.exit(not mutations(given.k))
    sys.exit(not prove_all(HERE, given.k, given.j, given.f))


if __name__ == "__main__":
    main()
