"""Findings at lines of source, for tools that show them there: annotations of GitHub's workflows, and SARIF 2.1.0."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal
from urllib.parse import quote

from ..text import tr

Level = Literal["error", "warning", "note"]
SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"
_COMMANDS = {"error": "error", "warning": "warning", "note": "notice"}  # SARIF's levels -> GitHub's commands
_SITE = re.compile(r"(?P<file>.+):(?P<line>[1-9]\d*)(?: in .*)?", re.DOTALL)


@dataclass(frozen=True)
class Patch:
    """Lines of a file, and what to write in their place.

    Attributes:
        file: its path.
        line, end_line: the first and the last line, from 1.
        before, after: their text, with the ends of lines.
    """

    file: str
    line: int
    end_line: int
    before: str
    after: str

    def apply(self, source: str) -> str:
        """The text of the file with the change.

        Raises:
            ValueError: the lines are others.
        """
        lines = source.splitlines(keepends=True)
        if "".join(lines[self.line - 1 : self.end_line]) != self.before:
            raise ValueError(
                tr(
                    "lines {line} to {end_line} are no longer those that the change was made for",
                    line=self.line,
                    end_line=self.end_line,
                )
            )
        return "".join([*lines[: self.line - 1], self.after, *lines[self.end_line :]])


@dataclass(frozen=True)
class Finding:
    """One thing that a result finds wrong.

    Attributes:
        rule: what kind of finding it is, in words that do not change: ``"CODE_DIFFERS: another attribute"``.
        level: how serious.
        text: all of it in a sentence or two, as it is shown beside the line.
        places: (file, line), the line to change first; files are absolute, or relative to the working directory.
        patch: the change that mends it; None where its text is not known.
        what: the finding alone; default ``text``.
        where: the line, or what has none: the name of a tensor, a weight, a file.
        write: what to write there; "" where that is not known.
        numbers: what was measured, by name.
    """

    rule: str
    level: Level
    text: str
    places: Sequence[tuple[str, int]] = ()
    patch: Patch | None = None
    what: str = ""
    where: str = ""
    write: str = ""
    numbers: Mapping[str, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not self.what:
            object.__setattr__(self, "what", self.text)
        if not self.where and self.places:
            object.__setattr__(self, "where", "{}:{}".format(*self.places[0]))
        if not self.write and self.patch is not None:
            object.__setattr__(self, "write", self.patch.after.strip())

    def __str__(self) -> str:
        return str(self.what)

    def to_dict(self) -> dict[str, Any]:
        """In plain types (JSON)."""
        names = {name: str(getattr(self, name)) for name in ("rule", "level", "where", "what", "write")}
        return {**names, "numbers": dict(self.numbers), "places": [list(place) for place in self.places]}

    @property
    def lines(self) -> list[tuple[str, int]]:
        """The places in the project, no others, files relative to its root: ``GITHUB_WORKSPACE``, or the working directory."""
        inside = [(name, line) for file, line in self.places if line > 0 and (name := _in_project(file))]
        return list(dict.fromkeys(inside))


def _in_project(file: str) -> str:
    """A file relative to the project's root; "" of one outside of it."""
    root, path = Path(os.environ.get("GITHUB_WORKSPACE") or os.curdir).resolve(), Path(file).resolve()
    return path.relative_to(root).as_posix() if path.is_relative_to(root) and path.is_file() else ""


def places_of(site: str, file: str = "", line: int = 0) -> list[tuple[str, int]]:
    """The file and line of a record, and those of its site, which hold on other machines, too; none of a cell of a notebook.

    >>> places_of("train.py:7 in forward"), places_of("Cell In[2], line 5")
    ([('train.py', 7)], [])
    """
    match = _SITE.fullmatch(site)
    return [*([(file, line)] if file and line else []), *([(match["file"], int(match["line"]))] if match else [])]


def github(annotations: Sequence[Finding], headline: str, level: Level) -> str:
    """Workflow commands, a line each, which GitHub shows at the lines of a pull request; the headline is the last one.

    ``level``: that of the headline.
    """
    return "\n".join([*(_command(each.level, each.rule, each.text, each.lines) for each in annotations),
                      _command(level, "padiff-shim", headline, [])])  # fmt: skip


def _command(level: Level, title: str, text: str, lines: Sequence[tuple[str, int]]) -> str:
    values = {"file": lines[0][0], "line": str(lines[0][1])} if lines else {}
    values["title"] = title
    properties = ",".join(f"{name}={_escaped(value, ':,')}" for name, value in values.items())
    return f"::{_COMMANDS[level]} {properties}::{_escaped(text)}"


def _escaped(text: str, signs: str = "") -> str:
    """As the runner reads it back: ``%25`` is ``%``; ``signs``: further ones that must not stand in it."""
    return "".join(f"%{ord(sign):02X}" if sign in "%\r\n" + signs else sign for sign in str(text))


def sarif(annotations: Sequence[Finding], headline: str, level: Level, version: str) -> dict[str, Any]:
    """The log of one run as SARIF 2.1.0. Findings without a line in the project are notifications of the run, as the headline is.

    ``level``: that of the headline; ``version``: of this library.
    """
    results = [each for each in annotations if each.lines]
    rules = list(dict.fromkeys(each.rule for each in results))
    remarks = [*((each.level, each.text) for each in annotations if not each.lines), (level, headline)]
    driver = {
        "name": "padiff-shim",
        "version": version,
        "rules": [{"id": rule, "shortDescription": {"text": rule}} for rule in rules],
    }
    run = {
        "tool": {"driver": driver},
        "invocations": [
            {
                "executionSuccessful": True,
                "toolExecutionNotifications": [{"level": remark, "message": {"text": str(text)}} for remark, text in remarks],
            }
        ],
        "columnKind": "unicodeCodePoints",
        "results": [dict(_result(each, rules.index(each.rule))) for each in results],
    }
    return {"$schema": SCHEMA, "version": "2.1.0", "runs": [run]}


def _result(annotation: Finding, rule: int) -> Iterator[tuple[str, Any]]:
    first, *others = map(_location, annotation.lines)
    yield "ruleId", annotation.rule
    yield "ruleIndex", rule
    yield "level", annotation.level
    yield "message", {"text": str(annotation.text)}
    yield "locations", [first]
    if others:
        yield "relatedLocations", others
    if annotation.patch and (file := _in_project(annotation.patch.file)):
        yield "fixes", [_fix(annotation.patch, file)]


def _fix(patch: Patch, file: str) -> dict[str, Any]:
    """The change of whole lines, whose ends stay as they are in the file."""
    before, after = (text.splitlines() for text in (patch.before, patch.after))
    with open(patch.file, "rb") as source:
        end = "\r\n" if source.readline().endswith(b"\r\n") else "\n"
    region = {"startLine": patch.line, "startColumn": 1, "endLine": patch.end_line, "endColumn": len(before[-1]) + 1}
    replacement = {"deletedRegion": region, "insertedContent": {"text": end.join(after)}}
    return {
        "description": {"text": "\n".join(line.strip() for line in after if line not in before)},
        "artifactChanges": [{"artifactLocation": _artifact(file), "replacements": [replacement]}],
    }


def _artifact(file: str) -> dict[str, str]:
    return {"uri": quote(file), "uriBaseId": "%SRCROOT%"}


def _location(line: tuple[str, int]) -> dict[str, Any]:
    file, number = line
    return {"physicalLocation": {"artifactLocation": _artifact(file), "region": {"startLine": number}}}
