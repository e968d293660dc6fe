"""docs/defects.md, written from the programs of :mod:`.defects`."""

from __future__ import annotations

import textwrap

from ..tested import PADDLES, TORCHES
from .defects import KEYS, Defect, defects

_HEAD = f"""\
# What we found in Paddle {PADDLES[-1]} and Torch {TORCHES[-1]}

Written by `make docs` from the programs in `patches/defects`; `tests/catalogue/test_defects.py` runs each of them.
{{count}} faults, {{programs}} programs: a case, which begins with `# %%`, is a program with the lines before the first case.

A program needs Paddle or Torch with NumPy only. Run it, or send it to their authors as it is:
`python patches/defects/relu_hides_nan.py`. Its exit status is 0 if the fault is absent; otherwise it ends with an AssertionError,
or as stated. A *known difference* is the name under which [compare](compare.md) counts it apart.
`padiff_shim.testing.reproducer("relu hides NaN")` returns a program as text.
"""


def text() -> str:
    """The whole page."""
    every = list(defects().values())
    parts = [_HEAD.format(count=len(every), programs=sum(1 for defect in every for _ in defect.programs()))]
    for before, defect in zip([None, *every], every):
        if before is None or before.section != defect.section:
            parts.append(f"## {defect.section}\n")
        parts.append(_section(defect))
    return "\n".join(parts)


def _section(defect: Defect) -> str:
    facts = dict(defect.facts)
    words = f"{defect.what} Ops: {facts.pop('Ops')}. Effect: {facts.pop('Effect')}."
    lines = [line for key in KEYS if key in facts and key != "Section" for line in _wrapped(f"- {key}: {facts[key]}", "  ")]
    code = ["```python", f"# patches/defects/{defect.file}", defect.code, "```", ""]
    return "\n".join((f"### {defect.name}", "", *_wrapped(words), "", *lines, "", *code))


def _wrapped(words: str, indent: str = "") -> list[str]:
    return textwrap.wrap(words, 132, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False)
