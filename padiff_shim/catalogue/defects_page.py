"""docs/defects.md, written from the entries of :mod:`.defects`."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator

from .defects import SHOWN, Defect, defects, groups

_WIDTH = 132
_HEAD = """\
# What we found in Paddle 3.3.1 and Torch 2.13

Written by `make docs` from `patches/_defects_*.py`; `tests/catalogue/test_defects.py` runs each program on the versions that it
is claimed for. {count} defects, {programs} programs. All were seen on the CPU.

A program needs Paddle or Torch with NumPy alone, and can be sent to their authors as it is. It ends without complaint where the
defect is not; where it is, it ends with an AssertionError if nothing else is said. A *known difference* is the name under which
[a comparison](compare.md) counts it apart. `padiff_shim.testing.reproducer("frozen layer norm")` gives a program as text.
"""


def text() -> str:
    """The whole page."""
    found = defects().values()
    count = sum(1 for one in found for _ in one.programs())
    sections = [f"## {title}\n\n{_overview(members)}" for title, members in groups().items()]
    return "\n".join((_HEAD.format(count=len(found), programs=count), *sections))


def _overview(members: tuple[Defect, ...]) -> str:
    return "\n".join(_section(one) for one in members)


def _section(one: Defect) -> str:
    return "\n".join((f"### {one.name}", "", *_facts(one), "", "```python", one.program.rstrip("\n"), "```", *_others(one), ""))


def _facts(one: Defect) -> Iterator[str]:
    yield from _wrapped(f"{one.what} Op: {one.op}. Size: {one.size}.")
    yield ""
    yield f"- Seen on {_versions(one)}{', on processors that take its vectorised kernel' if one.by_processor else ''}."
    if one.shows != SHOWN:
        yield f"- Ends with: {one.shows}."
    if one.known:
        yield f'- Known difference: "{one.known}".'
    yield from _wrapped(f"- Under the shim: {one.shim}", "  ")


def _versions(one: Defect) -> str:
    named = [f"{framework} {version}" for framework in ("Paddle", "Torch") for version in getattr(one, framework.lower())]
    return " and ".join(named)


def _others(one: Defect) -> Iterator[str]:
    if one.others:
        yield from ("", "The same with another last line:", "", "```python", *one.others.values(), "```")


def _wrapped(words: str, indent: str = "") -> list[str]:
    return textwrap.wrap(words, _WIDTH, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False)
