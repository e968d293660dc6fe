"""``padiff-shim ops [NAME...]``."""

from __future__ import annotations

import contextlib
import inspect
from collections.abc import Iterable, Sequence
from typing import Any

import click
from rich.cells import cell_len

from .. import errors
from ..present.text import Screen
from ..progress import Waiting
from ..text import from_log, joined, tr
from . import output

_EPILOG = """\
\b
Examples:
  # every family with its ops
  padiff-shim ops
  # one family
  padiff-shim ops norm
  # one op: its spellings in Paddle, its Torch formula, known differences
  padiff-shim ops layer_norm
  # why an op stays on Paddle's kernel
  padiff-shim ops as_strided
  padiff-shim ops --json - | jq '.[].name'

Ops and families are what --ops and --exclude of a mode take. docs/ops.md is the same as a page.
"""


@click.command(epilog=_EPILOG, short_help="Which ops run on Torch's kernels.")
@click.argument("names", metavar="[NAME]...", nargs=-1)
@click.option("--json", "data", type=output.TEXT, help="Write them as JSON; - is standard output.")
def command(names: Sequence[str], data: str | None) -> None:
    """List the ops that run on Torch's kernels, or describe some of them."""
    from ..catalogue.registry import families, ops

    with Waiting("reading the table of ops"):
        families()
    if data is not None:
        chosen = list(dict.fromkeys(op for name in names for op in _members(name))) if names else list(ops())
        output.write_json(data, lambda: [_facts(ops()[name]) for name in chosen])
    elif not names:
        screen = Screen(**output.look())
        for family, members in families().items():
            screen.say(f"{family}: {', '.join(members)}", hang=2)
        click.echo(screen.text())
    else:
        screen = Screen(**output.look())
        for line in "\n\n".join(_described(name) for name in names).splitlines():
            indent = len(line) - len(line.lstrip())
            screen.say(line.lstrip(), indent=indent, hang=2 if indent else 0)
        click.echo(screen.text())


def _members(name: str) -> Iterable[str]:
    """The ops of the table with an op's or a family's name."""
    from ..catalogue.registry import ops, resolve

    return sorted(resolve(name) & set(ops()))


def _described(name: str) -> str:
    from ..catalogue.registry import families, ops, resolve, stays_native

    if name in ops():
        return "\n".join(_lines(ops()[name]))
    if name in families():
        return f"{name}: {', '.join(families()[name])}"
    with contextlib.suppress(errors.MissingFrameworkError):
        errors.optional("paddle", "pip install paddlepaddle")  # Paddle knows the names of its ops
    if why := stays_native(name):
        native = tr("stays on Paddle's kernel: {why}", why=from_log(why))
        return f"{name}\n  {native}"
    return f"{name}\n  {', '.join(sorted(resolve(name)))}"  # optimizers, or the error that names the nearest


def _facts(op: Any) -> dict[str, Any]:
    """The facts of docs/ops.md on an op, as plain data."""
    from ..catalogue.known_differences import shipped
    from ..catalogue.registry import families
    from ..patterns import named

    return {
        "name": op.name,
        "family": next(family for family, members in families().items() if op.name in members),
        "parameters": op.params,
        "spellings": list(dict.fromkeys(entry.target for entry in op.entries)),
        "judged": op.judge.replace("`", ""),
        "known_differences": [quirk.name for quirk in shipped() if "*" not in quirk.op and named(quirk.op, op.name)],
        "deviations": dict(op.deviations),
        "note": op.note,
        "formula": _formula(op.reference),
    }


def _formula(function: Any) -> str:
    """The source of a formula, or the name of a function written in C."""
    if inspect.isfunction(function):
        return inspect.getsource(function)
    return f"{function.__module__ or 'torch'}.{function.__name__}"


def _deviation(where: str, why: str) -> str:
    return joined(": ", (joined(" ", map(tr, where.split())), tr(why)))


def _lines(op: Any) -> Iterable[str]:
    facts = _facts(op)
    described = [
        (tr("parameters"), facts["parameters"]),
        (tr("judged"), joined(", ", map(tr, facts["judged"].split(", ")))),
        *((tr("reached by"), target) for target in facts["spellings"]),
        *((tr("known"), tr(name)) for name in facts["known_differences"]),
        *(
            (tr("deviates"), joined(": ", (joined(" ", map(tr, where.split())), tr(why))))
            for where, why in facts["deviations"].items()
        ),
        *((tr("remark"), tr(text)) for text in (facts["note"],) if text),
    ]
    wide = max(cell_len(str(label)) for label, _ in described)
    yield f"{facts['name']}  ({facts['family']})"
    yield from (f"  {label}{' ' * (wide - cell_len(str(label)))}  {text}" for label, text in described)
    yield f"  {tr('formula')}"
    yield from (f"    {line}" for line in facts["formula"].rstrip().splitlines())
