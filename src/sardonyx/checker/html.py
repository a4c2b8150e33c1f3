"""A report as one page of HTML without scripts."""

from __future__ import annotations

import html as markup

from sardonyx.checker.finding import Decided, Finding, Report
from sardonyx.errors import shown

STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; margin: 2rem auto; max-width: 75rem; padding: 0 1rem; }
table { border-collapse: collapse; width: 100%; }
th, td { border-bottom: 1px solid #ccc; padding: .4rem .6rem; text-align: left;
         vertical-align: top; overflow-wrap: anywhere; }
.error, .transient { color: #a40000; } .warning { color: #8a5a00; } .dynamic { color: #004a8a; }
"""
HEAD = ("severity", "rule", "place", "found", "expected", "reference", "fix")


def html(report: Report) -> str:
    """The verdict, the findings and the facts."""
    word = "conforms" if report.conforms else "does not conform"
    title = f"{escape(report.model)} {word} to {escape(report.profile)}"
    rows = "\n".join(_row(f) for f in report.findings)
    facts = "\n".join(f"<tr>{_cells(k, v)}</tr>" for k, v in report.facts.items())
    skipped = "".join(
        f"<p>Not decided: {escape(rule)}: {escape(why)}</p>\n"
        for rule, why in report.skipped.items()
    )
    heads = "".join(f"<th>{h}</th>" for h in HEAD)
    return f"""<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"><title>{title}</title><style>{STYLE}</style></head>
<body><h1>{title}</h1>
<table><thead><tr>{heads}</tr></thead><tbody>
{rows}
</tbody></table>
{skipped}<h2>Facts</h2><table><tbody>
{facts}
</tbody></table></body></html>
"""


def escape(text: str) -> str:
    return markup.escape(shown(text))


def _row(f: Finding) -> str:
    later = ", at run time" if f.decided == Decided.AT_RUN_TIME else ""
    cells = _cells(f"{f.rule}: {f.title}", f.where, f.observed, f.expected, f.reference, f.fix)
    return f'<tr><td class="{f.severity}">{f.severity}{later}</td>{cells}</tr>'


def _cells(*texts: str) -> str:
    return "".join(f"<td>{escape(text)}</td>" for text in texts)
