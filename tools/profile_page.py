"""Makes docs/profile.md of the rules, the dialects and the fixes: python tools/profile_page.py"""

# ruff: noqa: E501  # sentences of the page

from __future__ import annotations

import pathlib
import sys
import textwrap
from collections.abc import Iterator
from itertools import groupby

from sardonyx.checker import Profile, Rule, all_rules, dialects, find_profile
from sardonyx.legalize import FIXES

TARGET = pathlib.Path(__file__).parents[1] / "docs" / "profile.md"
STAGES = {
    "bytes": "the decoded file",
    "file": "the file, before it is resolved",
    "graph": "the graph G, before any pass",
}
HEAD = """# The profile checker and the legalizer

This page is made of the rules by `python tools/profile_page.py`; a test fails where it is not current.

    sardonyx check MODEL [--profile sonnx@wg-2026-08] [--allow transient] [--range x=-1:1]
                         [--dynamic batch] [--format text|json|sarif|html]
    sardonyx legalize MODEL -o OUT.onnx [--dim N=1]

`check` says whether a model is one of the safety-related profile of ONNX (SONNX): exit code 0 if it is, 1 if not, 2 if it
cannot be read. From Python: `sardonyx.check("net.onnx", profile="sonnx@v2").violations`. What cannot be resolved is a
finding, not an exception. `legalize` makes ordinary models conform, without changing a bit of their results.

A finding has one of these severities:

| severity | meaning |
|---|---|
| error | not a model of the profile |
| transient | an error of a restriction that SONNX means to lift; `--allow transient` makes a warning of it |
| warning | a recommendation, or an open question; of what is "to be confirmed" `--strict-tbc` makes an error |
| dynamic | an obligation that the model alone does not decide: it is left to the run-time monitor. Constants decide it; so do the intervals of the tensors, which follow from constants and from the ranges of inputs that `--range` declares |
| info | a fact: digests, operators with their versions |

Each rule below comes with a model that conforms and one that does not; the test suite checks that the report on the first is
empty, and that the report on the second names that rule and no other. A rule's reference is to the working group's
documents (requirements REQ-..., restrictions [Rn], general restrictions GRn, tags E_...) or to the founding texts.
"""
OWN = """## A profile of one's own

A profile is a file, TOML or YAML (for YAML: `pip install "sardonyx[yaml]"`), given as `--profile mine.yaml`:

```yaml
extends: sonnx@wg-2026-08        # what is not said here is as there
name: ours
types: [float32, int8, int32, int64, bool]
rules: {G07: warning, M09: "off"}   # error, transient, warning, dynamic, off
limits: {variadic: 8, memory: 1048576}
options: {broadcast: [Add, Mul]}
operators:
  Conv: {since: [22], types: [float32]}
  Gelu: {specified: false}
```

"""


def page() -> str:
    """The whole page."""
    parts = [HEAD, _dialects(), OWN, _fixes(), "## The rules\n", _table()]
    for family, members in groupby(all_rules(), key=_family):
        parts.append(f"### {family}\n")
        parts += [_rule(rule) for rule in members]
    return "\n".join(parts).rstrip() + "\n"


def _family(rule: Rule) -> str:
    first = (sys.modules[rule.check.__module__].__doc__ or "").split("\n\n")[0]
    return " ".join(first.split()).rstrip(".")


def _dialects() -> str:
    rows = []
    for name in dialects():
        profile = find_profile(name)
        specified = sum(e.specified for e in profile.operators.values())
        listed = len(profile.operators) - specified
        held = sum(profile.has(rule.id) for rule in all_rules())
        operators = f"{specified} specified, {listed} listed" if profile.operators else "any"
        broadcast = ", ".join(profile.option("broadcast")) or "-"
        rows.append(f"| `{name}` | {profile.title} | {held} | {operators} | {broadcast} |")
    table = "\n".join(rows)
    return f"""## Dialects

The dialects are data, in `src/sardonyx/checker/profiles/`. The default is `sonnx@wg-2026-08`.

| profile | what it is | rules | operators | operators that may broadcast |
|---|---|---|---|---|
{table}

{_operators()}"""


def _operators() -> str:
    base, other = (find_profile(f"sonnx@{v}") for v in ("wg-2026-08", "ej-2026-10"))
    specified = [n for n, e in base.operators.items() if e.specified]
    more = [n for n in other.operators if n not in base.operators]
    listed = [n for n, e in base.operators.items() if not e.specified]
    return "\n\n".join(
        (
            f"Specified: {', '.join(f'{n} {_since(base, n)}' for n in specified)}.",
            f"Listed without a document: {', '.join(listed)}.",
            f"Only in `sonnx@ej-2026-10`: {', '.join(more)}.\n",
        )
    )


def _since(profile: Profile, name: str) -> str:
    return "/".join(map(str, profile.operators[name].since))


def _fixes() -> str:
    named: dict[str, list[str]] = {}
    for _, function in FIXES:
        text = " ".join((function.__doc__ or "").split())
        number, _, rest = text.partition(": ")
        if rest not in named.setdefault(number, []):
            named[number].append(rest)
    named.setdefault("F15", []).insert(
        0, "nodes in a topological order, as close to theirs as can be."
    )
    rows = "\n".join(
        f"| {n} | {' '.join(named[n])} |" for n in sorted(named, key=lambda f: int(f[1:]))
    )
    return f"""## The legalizer's fixes

Before and after each fix the model is run on random inputs and on edge ones (zeros of both signs, infinities, NaN,
subnormals, the whole range of integers); a fix after which any byte of an output differs is undone, and told.
F1 to F16 are the working list of the SONNX checker; F17 was added here.
`--verify model` compares only the first and the last model, `--verify none` nothing.

| fix | what it does |
|---|---|
{rows}
"""


def _table() -> str:
    names = dialects()
    profiles = [find_profile(name) for name in names]
    rows = []
    for rule in all_rules():
        cells = [_severity(rule, profile) for profile in profiles]
        rows.append(f"| [{rule.id}](#{_anchor(rule)}) | {rule.title} | {' | '.join(cells)} |")
    heads = " | ".join(f"`{name}`" for name in names)
    lines = "\n".join(rows)
    return f"| rule | title | {heads} |\n|---|---|{'---|' * len(names)}\n{lines}\n"


def _severity(rule: Rule, profile: Profile) -> str:
    return str(profile.severity(rule.id, rule.severity)) if profile.has(rule.id) else "-"


def _anchor(rule: Rule) -> str:
    """GitHub's anchor of the rule's heading."""
    text = f"{rule.id} {rule.title}".lower()
    return "".join(c for c in text if c.isalnum() or c in " -_").replace(" ", "-")


def _rule(rule: Rule) -> str:
    text = textwrap.dedent(" " * 4 + (rule.check.__doc__ or "")).strip()
    fix = f"; fix {rule.fix}" if rule.fix else ""
    about = f"*{rule.severity}; {rule.reference}{fix}; looks at {STAGES[rule.stage]}*"
    return "\n\n".join((f"#### {rule.id} {rule.title}", about, *_paragraphs(text), _models(rule)))


def _paragraphs(text: str) -> Iterator[str]:
    """The docstring's parts: what it says, then Why, Example and Limits as a list."""
    first, _, rest = text.partition("\n\n")
    yield first
    items: list[str] = []
    for line in rest.splitlines():
        new = line.startswith(("Why: ", "Example: ", "Limits: "))
        items += [f"- **{line.split(':')[0]}**:{line.partition(':')[2]}"] if new else []
        if not new:
            items[-1] += f"\n  {line}"
    yield "\n".join(items)


def _models(rule: Rule) -> str:
    if not isinstance(rule.bad, str) or not isinstance(rule.good, str):
        return "Its two models are made by code.\n"
    if rule.good == rule.bad:
        return "It says something of every model.\n"
    good, bad = (" ".join(sample.split()) for sample in (rule.good, rule.bad))
    more = f" It also breaks {', '.join(rule.implies)}." if rule.implies else ""
    return f"Conforms: `{good}`\n\nDoes not: `{bad}`{more}\n"


def main() -> None:
    TARGET.write_text(page(), encoding="utf-8")


if __name__ == "__main__":
    main()
