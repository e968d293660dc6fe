"""docs/ops.md and docs/defects.md, written from the declarations: ``python -m padiff_shim.catalogue.document``; tests ``--check``.

Nothing is asked of a kernel, and Paddle is not imported: the page is the same wherever it is written.
"""

from __future__ import annotations

import argparse
import importlib
import sys
import textwrap
from collections.abc import Iterable, Iterator
from pathlib import Path

from .. import patches
from ..optimizers.update import Update, updates
from ..patches import _sixteen_bit, _unsubstituted
from ..patterns import named
from ..table.op import Entry, Op
from ..table.reasons import NO_REFERENCE
from . import defects_page
from .known_differences import shipped
from .registry import families, ops

PAGE = Path(__file__).resolve().parents[2] / "docs" / "ops.md"
_SHORT = (
    ("paddle._legacy_C_ops.", "legacy "),
    ("paddle.nn.functional.", "F."),
    ("paddle._C_ops.", "_C_ops."),
    ("paddle.Tensor.", "Tensor."),
)
_COLUMNS = ("op", "spellings", "level", "in place", "gradient", "judge", "known differences", "note")
_WIDTH = 132
_HEAD = """\
# Ops

Written by `make docs` from the declarations in [patches/](../patches); a test holds it to them. {ops} ops in {families} families
stand behind {doors} entry points of Paddle. All else [stays native](#what-stays-native).

- **Spellings**: every entry point that leads to the op, whoever calls it; Paddle's layers and public functions do. `F` is
  `paddle.nn.functional`, `_C_ops` is `paddle._C_ops`, `legacy x` is `paddle._legacy_C_ops.x`. Those that the installed Paddle does
  not have are left out.
- **Level**: *function* where the meaning is known at the Python function only, *C op* where it is that of one C function.
- **Gradient**: *floats* where the op computes integers and booleans too, which have none;
  *none* where Paddle gives the result no gradient.
- **Judge**: what a comparison holds a difference against. A name is the op's own rounding model (`numerics/models.py`), *generic* a
  bound that is measured. An *exact* op moves or selects values and rounds nothing: its results have to be equal, and its gradients
  up to the rounding of a sum. Where an op has *ties*, several answers are right, and a comparison calls them TIE. A call that draws
  random numbers is not compared.
- **Known differences**: in quotes, entries of [the shipped table](compare.md). The others are native Paddle's deviations from the
  formula on the op's own samples, by dtype, forward or in the *gradient*.

## From the command line

`padiff-shim ops [NAME]...` lists the families, or says all that is known of an op: its parameters, by which entry points of
Paddle it is reached, its Torch formula, known differences. For an op that stays on Paddle's kernel it says why. `--json FILE`
writes it as data.

```
$ padiff-shim ops expm1 nms
expm1  (math)
  parameters  x|input
  judged      generic
  reached by  paddle._C_ops.expm1
  reached by  paddle._legacy_C_ops.expm1
  reached by  paddle._C_ops.expm1_
  reached by  paddle._legacy_C_ops.expm1_
  formula
    torch.expm1

nms
  stays on Paddle's kernel: a step of object detection: Torch itself has none of these
```
"""
_OPTIMIZERS = """\
## optimizers

Updates of parameters, in place: see [optimizers.md](optimizers.md), also for clipping.
"""
_HALVES = """\
## In 16 bits on a CPU

Paddle's CPU has few kernels in float16 and bfloat16. In reference mode Torch's answer such calls, and the run counts them apart.
The table has {tried} ops that draw no random numbers. They run forward and backward in both dtypes, with Torch's bits where Torch
computes them, but for {left}. `tests/table/test_halves.py` tries each op.
"""
_NATIVE = """\
## What stays native

Calls of these run on Paddle's kernel, and a mode counts them with the reason. What is listed under *Exact* rounds nothing and is
not counted. An in-place form `x_` that has no reason here has that of `x`. Kernels of gradients (`*_grad`) are not redirected.
"""


def text() -> str:
    """The whole page."""
    table = ops()
    doors = {entry.target for op in table.values() for entry in op.entries}
    head = _HEAD.format(ops=len(table), families=len(families()), doors=len(doors))
    sections = [_family(name, [table[op] for op in names]) for name, names in families().items()]
    return "\n".join((head, *sections, _optimizers(), _halves(), _NATIVE, *_native()))


def _halves() -> str:
    """The section of what does not run in 16 bits on a CPU."""
    groups: dict[tuple[str, tuple[str, ...]], list[str]] = {}
    for name, group in sorted(_sixteen_bit.HALVES.items()):
        groups.setdefault(group, []).append(f"`{name}`")
    tried = sum(bool(op.samples and not op.random) for op in ops().values())
    head = _HALVES.format(tried=tried, left=len(_sixteen_bit.HALVES))
    rows = [("why not", "in", "ops"), ("---",) * 3]
    rows += [(why, ", ".join(dtypes), ", ".join(names)) for (why, dtypes), names in groups.items()]
    return "\n".join((head, *("| " + " | ".join(cells) + " |" for cells in rows), ""))


def _optimizers() -> str:
    """The section of optimizers: a row for each."""
    rows = [("in `paddle.optimizer`", "door", "Torch's", "where the definitions differ"), ("---",) * 4]
    doors: dict[Update, list[str]] = {}
    for door, update in updates().items():
        doors.setdefault(update, []).append(f"`{_short('paddle._C_ops.' + door)}`")
    rows += [(update.optimizer, ", ".join(names), _counterpart(update), update.differs) for update, names in doors.items()]
    return "\n".join((_OPTIMIZERS, *("| " + " | ".join(cells) + " |" for cells in rows), ""))


def _counterpart(update: Update) -> str:
    return f"`{update.twin}`" if update.twin else "none"


def _family(name: str, members: Iterable[Op]) -> str:
    """A family's section: what its module says of itself, and a row for each op."""
    about = (importlib.import_module(f"{patches.__name__}.{name}").__doc__ or "").partition("\n\n")[0]
    rows = [_COLUMNS, ("---",) * len(_COLUMNS), *map(_row, members)]
    lines = ["| " + " | ".join(cells) + " |" for cells in rows]
    return "\n".join((f"## {name}", "", *_wrapped(about.replace("``", "`").split()), "", *lines, ""))


def _row(op: Op) -> tuple[str, ...]:
    return (
        f"`{op.name}`",
        _spelled(entry for entry in op.entries if not entry.inplace),
        _level(op),
        _spelled(entry for entry in op.entries if entry.inplace),
        "floats" if op.integer else "yes" if op.gradient and op.leading else "none",
        op.judge,
        _cell("; ".join(_differences(op))),
        _cell("; ".join(filter(None, (op.note, '`definitions="torch"` takes Torch\'s own' if op.definition else "")))),
    )


def _spelled(entries: Iterable[Entry]) -> str:
    return ", ".join(dict.fromkeys(f"`{_short(entry.target)}`" for entry in entries))


def _short(target: str) -> str:
    for prefix, short in _SHORT:
        if target.startswith(prefix):
            return short + target[len(prefix) :]
    return target


def _level(op: Op) -> str:
    """Operators and methods count as the C function below them."""
    shorts = [_short(entry.target) for entry in op.entries]
    low = [short for short in shorts if short.startswith(("_C_ops.", "legacy ", "Tensor."))]
    return ", ".join((["function"] if len(low) < len(shorts) else []) + (["C op"] if low else []))


def _differences(op: Op) -> Iterator[str]:
    """The shipped known differences that name the op, then its deviations: those with one reason together."""
    yield from (f'"{quirk.name}"' for quirk in shipped() if "*" not in quirk.op and named(quirk.op, op.name))
    reasons: dict[str, list[str]] = {}
    for where, why in op.deviations.items():
        reasons.setdefault(why, []).append(where)
    yield from (f"{', '.join(places)}: {why}" for why, places in reasons.items())


def _cell(words: str) -> str:
    """Text as a table's cell shows it."""
    return words.replace("|", "\\|").replace("<", "&lt;")


def _native() -> Iterator[str]:
    """The sections of what stays native: reason, then names."""
    yield _listed("Exact: it creates, moves, selects, compares or counts values", _unsubstituted.EXACT)
    prefixes: dict[str, list[str]] = {}
    for prefix, reason in _unsubstituted.PREFIXES.items():
        prefixes.setdefault(reason.text, []).append(f"{prefix}*")
    groups: dict[str, list[str]] = {}
    for name, reason in _unsubstituted.NATIVE.items():
        groups.setdefault(reason.text, []).append(name)
    for why in dict.fromkeys((*groups, *prefixes)):
        yield _listed(why, groups.get(why, ()), prefixes.get(why, ()))
    yield "\n".join((f"### {_title(NO_REFERENCE.text)}", "", "Every name that stands nowhere on this page.", ""))
    yield from _legacy()


def _legacy() -> Iterator[str]:
    """Doors of `paddle._legacy_C_ops` that do not lead to the op of their name."""
    yield "## What stays native in the legacy form alone\n\nTheir newer forms are another matter: see the tables.\n"
    groups: dict[str, list[str]] = {}
    for name, reason in _unsubstituted.LEGACY.items():
        groups.setdefault(reason.text, []).append(name)
    for why, names in groups.items():
        yield _listed(why, names)
    yield _listed("exact in both", _unsubstituted.LEGACY_EXACT)


def _listed(why: str, names: Iterable[str], last: Iterable[str] = ()) -> str:
    words = [f"`{name}`" for name in (*sorted(names), *last)]
    return "\n".join((f"### {_title(why)}", "", *_wrapped([f"{word}," for word in words[:-1]] + words[-1:]), ""))


def _title(words: str) -> str:
    return words[:1].upper() + words[1:]


def _wrapped(words: Iterable[str]) -> list[str]:
    return textwrap.wrap(" ".join(words), _WIDTH, break_long_words=False, break_on_hyphens=False)


def main(arguments: list[str] | None = None) -> int:
    """Writes the pages, or with ``--check`` says whether they are as they would be written: exit status 0, else 1."""
    parser = argparse.ArgumentParser(
        prog="python -m padiff_shim.catalogue.document", description="Write docs/ops.md, docs/defects.md."
    )
    parser.add_argument("--check", action="store_true", help="write nothing; exit with 1 if a page is out of date")
    check = parser.parse_args(arguments).check
    if not PAGE.parent.is_dir():
        print(f"{PAGE.parent} is no folder: the pages are written in a checkout of the sources", file=sys.stderr)
        return 1
    stale = [page for page, new in _pages() if not page.is_file() or page.read_text(encoding="utf-8") != new]
    if check:
        for page in stale:
            print(f"{page} is out of date: run `make docs`", file=sys.stderr)
        return int(bool(stale))
    for page, new in _pages():
        page.write_text(new, encoding="utf-8")
    return 0


def _pages() -> Iterator[tuple[Path, str]]:
    yield PAGE, text()
    yield PAGE.with_name("defects.md"), defects_page.text()


if __name__ == "__main__":
    sys.exit(main())
