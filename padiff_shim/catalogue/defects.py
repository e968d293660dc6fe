"""Faults of Paddle and Torch: ``tests/defects`` holds a program for each, which shows the fault without this library.

A program ends with exit status 0 if the fault is absent. If it is there, the program ends as its header says, by default with an
AssertionError. The header is the docstring: a title, paragraphs that say what is wrong, and lines ``Key: value``, the keys of
tests/catalogue/test_defects.py; a long value continues in indented lines. The title gives the file its name: "relu hides NaN" is
``relu_hides_nan.py``.

Comments ``# %% case`` divide a program that shows the fault in several ways. Each case, together with the lines before the first
case, is a program of its own here. ``python FILE`` runs the cases in order, and ends at the first that shows the fault.
"""

from __future__ import annotations

import ast
import functools
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from ..errors import unknown
from ..language import tr
from ..tested import PADDLES, TORCHES

SHOWN = "AssertionError"
MENDED = f"Mended in Paddle {PADDLES[-1]}"
SECTIONS = (
    "Gradients",
    "Values",
    "Unwritten memory",
    "NaN, infinities and the edges of the range",
    "Precision",
    "Crashes and refusals",
    "The autograd engine",
)
_CASE = re.compile(r"^# %% (.+)\n", re.MULTILINE)


@dataclass(frozen=True)
class Defect:
    """One fault.

    ``name``: the title. ``what``: what is wrong. ``facts``: the lines of the header, by key. ``file``: the program's file name.
    ``text``: the program; ``code``: the program without its header.
    """

    name: str
    what: str
    facts: Mapping[str, str]
    file: str
    text: str
    code: str

    @property
    def op(self) -> str:
        """The ops, or methods, that have it."""
        return self.facts["Ops"]

    @property
    def known(self) -> str:
        """Its name in the table of known differences, or ""."""
        return self.facts.get("Known difference", "")

    @property
    def ends(self) -> list[str]:
        """Types of errors, names of signals, or patterns of them, in which the program ends if the fault is there."""
        return self.facts.get("Ends with", SHOWN).split(", ")

    @property
    def paddle(self) -> list[str]:
        """The versions of Paddle that show it."""
        return self._seen_on("Paddle")

    @property
    def torch(self) -> list[str]:
        """The versions of Torch that show it."""
        return self._seen_on("Torch")

    @property
    def by_processor(self) -> bool:
        """Whether it depends on the processor, whose vectorised kernels have it or not."""
        return self.facts["Seen on"].endswith("some processors")

    @property
    def section(self) -> str:
        """Its section in docs/defects.md."""
        return MENDED if self.paddle and PADDLES[-1] not in self.paddle else self.facts["Section"]

    def _seen_on(self, framework: str) -> list[str]:
        name, _, words = self.facts["Seen on"].partition(";")[0].partition(" ")
        tested = {"Paddle": PADDLES, "Torch": TORCHES}[framework]
        versions: list[str] = []
        for part in words.split(", ") if name == framework else ():
            first, _, last = part.partition(" to ")
            versions += tested[tested.index(first) : tested.index(last) + 1] if last else [first]
        return versions

    def programs(self) -> Iterator[tuple[str, str]]:
        """(title, program) of each case; of the whole program if it has no cases."""
        head, *cases = _CASE.split(self.text)
        yield from ((f"{self.name}: {case}", head + lines) for case, lines in zip(cases[::2], cases[1::2]))
        if not cases:
            yield self.name, self.text


def parsed(file: str, text: str) -> Defect:
    """Read a program: ``file`` is its name, ``text`` its source."""
    tree = ast.parse(text, file)
    title, *what, lines = (ast.get_docstring(tree) or "").split("\n\n")
    facts = {key: value for key, _, value in (line.partition(": ") for line in re.sub(r"\n +", " ", lines).splitlines())}
    code = "\n".join(text.splitlines()[tree.body[0].end_lineno :]).strip()
    return Defect(title, " ".join("\n".join(what).split()), facts, file, text, code)


@functools.cache
def defects() -> Mapping[str, Defect]:
    """All faults by title, in the order of docs/defects.md."""
    from .. import patches

    package = Path(patches.__file__).parent  # with the programs where it is installed, beside their tests in a checkout
    folder = next(path for path in (package / "defects", package.parent / "tests" / "defects") if path.is_dir())
    every = [parsed(path.name, path.read_text(encoding="utf-8")) for path in sorted(folder.glob("*.py"))]
    order = [*SECTIONS, MENDED]
    return {defect.name: defect for defect in sorted(every, key=lambda defect: order.index(defect.section))}


def reproducer(name: str) -> str:
    """The program that shows a defect: plain Paddle or Torch with NumPy, ready for a report to their authors.

    Args:
        name: a title of docs/defects.md, also with one of its cases: ``"python numbers go through float32: celu"``.

    Raises:
        UnknownNameError: for another name; the message names the nearest ones.
    """
    programs = {title: text for defect in defects().values() for title, text in ((defect.name, defect.text), *defect.programs())}
    if name not in programs:
        raise unknown(tr("defect"), str(name), programs)
    return programs[name]
