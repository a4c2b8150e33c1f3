"""Makes docs/operators/ out of the definitions and the rules: python tools/operator_pages.py"""

# ruff: noqa: E501  # sentences of the page

from __future__ import annotations

import pathlib

from sardonyx.checker import Profile, find_profile
from sardonyx.documents import page

FOLDER = pathlib.Path(__file__).parents[1] / "docs" / "operators"
HEAD = """# The operators of SONNX

One page per operator of the profile, made by `python tools/operator_pages.py` from the operator's definition (the function and
the error conditions), from ONNX's schema (signature, attributes, types) and from the rules of `sardonyx check` (restrictions and
constraints). `sardonyx operators --sonnx Conv` prints one.

"""


def pages() -> dict[str, str]:
    """File name -> text."""
    default, other = find_profile("sonnx"), find_profile("sonnx@ej-2026-10")
    found = {}
    for name in sorted(other.operators):
        found[f"{name}.md"] = page(name, default if name in default.operators else other)
    found["README.md"] = HEAD + _index(other)
    return found


def _index(profile: Profile) -> str:
    specified = [n for n, e in sorted(profile.operators.items()) if e.specified]
    listed = [n for n, e in sorted(profile.operators.items()) if not e.specified]
    parts = (("With a document of the working group", specified), ("Without one yet", listed))
    return (
        "".join(
            f"{what}: {', '.join(f'[{n}]({n}.md)' for n in names)}.\n\n" for what, names in parts
        ).rstrip()
        + "\n"
    )


def main() -> None:
    FOLDER.mkdir(exist_ok=True)
    for name, text in pages().items():
        (FOLDER / name).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
