"""A compare run as one self-contained HTML page: no network, no other files, readable where there is no Python.

The template, the style and the scripts lie in ``page/`` and are written into the page; its data is one block of JSON. What the page
shows is set as text, never as markup, and its content security policy admits no script, style, image or connection but its own.
"""

from __future__ import annotations

import base64
import hashlib
import json
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from ..arguments import path as file
from ..arguments import whole
from ..records.counts import Counts
from ..waiting import Waiting
from ..writing import write as write_file
from .embed import Written, pack, plain
from .source import Compared

LIMIT = 100_000  # records that the page holds one by one
PAGE = Path(__file__).with_name("page")
SCRIPTS = (
    "base.js",
    "data.js",
    "figures.js",
    "filters.js",
    "summary.js",
    "chart.js",
    "charting.js",
    "tree.js",
    "table.js",
    "details.js",
    "main.js",
)


def json_block(value: Any) -> str:
    """``value`` as JSON that may stand inside ``<script type="application/json">``.

    ASCII only, and without ``<``, ``>`` and ``&``: no string in it can end the element or open a comment (the states of the
    HTML parser in script data are left by ``</script`` and ``<!--`` alone: HTML standard, section 13.2.5.4).
    """
    text = _json(value)
    return text.replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e")


def _json(value: Any) -> str:
    if isinstance(value, Written):
        return value
    if type(value) is dict:
        return "{" + ",".join(f"{json.dumps(name)}:{_json(one)}" for name, one in value.items()) + "}"
    return json.dumps(value, allow_nan=False, separators=(",", ":"))


def digest(text: str) -> str:
    """The source expression by which a content security policy admits this very text."""
    return "'sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode() + "'"


def _read(name: str) -> str:
    return (PAGE / name).read_text(encoding="utf-8")


def render(
    header: Mapping[str, Any],
    records: Iterable[Mapping[str, Any]],
    coverage: Mapping[str, Any],
    warnings: Sequence[str] = (),
    *,
    limit: int = LIMIT,
    counts: Counts | None = None,
) -> str:
    """The page as text.

    Args:
        header: the ``"run"`` record of the log.
        records: the ``"call"`` records of the log in order; read once.
        coverage: the ``"coverage"`` of the log's ``"end"`` record: ``float_calls``, ``checked_calls``, ``float_elements``,
            ``checked_elements``, ``unchecked`` ({reason: calls}).
        warnings: shown before everything else, after those of the header.
        limit: how many records the page holds one by one. Beyond it all with a verdict other than EQUAL and ROUNDING are kept,
            and a uniform sample of the rest; the page says so. Its counts are always over all records.
        counts: of these very records, where they were counted already.

    Raises:
        ArgumentError: ``limit`` is not positive.
        ValueError: a record's verdict is not one of :class:`~padiff_shim.verdicts.Verdict`.
    """
    whole("limit", limit, least=1)
    said = list(dict.fromkeys([*header.get("warnings", ()), *warnings]))
    data = {"header": plain(header), "coverage": plain(coverage), "warnings": plain(said), **pack(records, coverage, limit, counts)}
    style = _read("page.css")
    script = '"use strict";\n(() => {\n' + "\n".join(map(_read, SCRIPTS)) + "})();\n"
    allowed = [
        "default-src 'none'",
        f"script-src {digest(script)}",
        f"style-src {digest(style)}",
        "base-uri 'none'",
        "form-action 'none'",
    ]
    parts = {"POLICY": "; ".join(allowed), "STYLE": style, "SCRIPT": script, "DATA": json_block(data)}
    # One pass over the template: whatever stands in the data is not looked at again.
    return re.sub(r"\{\{([A-Z]+)\}\}", lambda found: parts[found[1]], _read("page.html"))


def write(run: Compared, path: str | os.PathLike[str], *, limit: int = LIMIT) -> Path:
    """Write the page of a run to ``path`` (UTF-8) and return the path.

    Raises:
        FileError: the file, or its folder where there is none yet, cannot be written.
        ArgumentError: as :func:`render`, and for a ``path`` that is none.
    """
    target = file("path", path)
    # What was counted and did not reach the log is not on the page.
    counts = run.counts if run.counts.records == len(run.calls) else None
    records = (call.as_dict() for call in run.calls)
    with Waiting(f"writing {target}"):
        text = render(run.header, records, run.coverage(), run.warnings, limit=limit, counts=counts)
        return write_file(target, text, "the page ")
