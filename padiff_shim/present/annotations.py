"""Findings at lines of source, for tools that show them there: annotations of GitHub's workflows, and SARIF 2.1.0."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal
from urllib.parse import quote

Level = Literal["error", "warning", "note"]
SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"
_COMMANDS = {"error": "error", "warning": "warning", "note": "notice"}  # SARIF's levels -> GitHub's commands
_SITE = re.compile(r"(?P<file>.+):(?P<line>[1-9]\d*)(?: in .*)?", re.DOTALL)


@dataclass(frozen=True)
class Annotation:
    """What a result says of a line.

    Attributes:
        rule: what kind of finding it is, in words that do not change: ``"CODE_DIFFERS: another attribute"``.
        level: how serious.
        text: the finding.
        places: (file, line), the line to change first; files are absolute, or relative to the working directory. Lines of files
            that do not lie in the project are left out.
    """

    rule: str
    level: Level
    text: str
    places: Sequence[tuple[str, int]] = ()

    @property
    def lines(self) -> list[tuple[str, int]]:
        """The places in the project, files relative to its root: ``GITHUB_WORKSPACE``, or the working directory."""
        root = Path(os.environ.get("GITHUB_WORKSPACE") or os.curdir).resolve()
        files = [(Path(file).resolve(), line) for file, line in self.places if line > 0]
        inside = [(file.relative_to(root).as_posix(), line) for file, line in files if file.is_relative_to(root) and file.is_file()]
        return list(dict.fromkeys(inside))


def places_of(site: str, file: str = "", line: int = 0) -> list[tuple[str, int]]:
    """The file and line of a record, and those of its site, which hold on other machines, too; none of a cell of a notebook.

    >>> places_of("train.py:7 in forward"), places_of("Cell In[2], line 5")
    ([('train.py', 7)], [])
    """
    match = _SITE.fullmatch(site)
    return [*([(file, line)] if file and line else []), *([(match["file"], int(match["line"]))] if match else [])]


def github(annotations: Sequence[Annotation], headline: str, level: Level) -> str:
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


def sarif(annotations: Sequence[Annotation], headline: str, level: Level, version: str) -> dict[str, Any]:
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


def _result(annotation: Annotation, rule: int) -> Iterator[tuple[str, Any]]:
    first, *others = map(_location, annotation.lines)
    yield "ruleId", annotation.rule
    yield "ruleIndex", rule
    yield "level", annotation.level
    yield "message", {"text": str(annotation.text)}
    yield "locations", [first]
    if others:
        yield "relatedLocations", others


def _location(line: tuple[str, int]) -> dict[str, Any]:
    file, number = line
    artifact = {"uri": quote(file), "uriBaseId": "%SRCROOT%"}
    return {"physicalLocation": {"artifactLocation": artifact, "region": {"startLine": number}}}
