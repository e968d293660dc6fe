"""Faults of Paddle and Torch: ``tests/defects`` holds a program for each, which shows the fault without this library.

A program ends with exit status 0 if the fault is absent. If it is there, the program ends as its header says, by default with an
AssertionError. A file has the programs of one section, each behind a comment ``# %% title``. The header is the docstring behind it:
paragraphs that say what is wrong, and lines ``Key: value``, the keys of tests/catalogue/test_defects.py; a long value continues in
indented lines. Of the modules that the file imports a program gets those that it names.

Comments ``# %%% case`` divide a program that shows the fault in several ways. Each case, together with the lines before the first
case, is a program of its own here. The whole program runs the cases in order, and ends at the first that shows the fault.
"""

from __future__ import annotations

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
_TITLE = re.compile(r"^# %% (.+)\n", re.MULTILINE)
_CASE = re.compile(r"^# %%% (.+)\n", re.MULTILINE)


@dataclass(frozen=True)
class Defect:
    """One fault.

    ``name``: the title. ``what``: what is wrong. ``facts``: its section and the lines of the header, by key. ``file``, ``line``:
    where its title stands. ``text``: the program.
    """

    name: str
    what: str
    facts: Mapping[str, str]
    file: str
    line: int
    text: str

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


def parsed(file: str, text: str) -> Iterator[Defect]:
    """Read the programs of a section: ``file`` is the name of its file, ``text`` the source."""
    head, *parts = _TITLE.split(text)
    section = head.partition(".")[0].removeprefix('"""')
    imports = re.findall(r"^import .+", head, re.MULTILINE)
    place = head.count("\n") + 1
    for title, part in zip(parts[::2], parts[1::2]):
        header, _, body = part.removeprefix('"""').partition('\n"""\n')
        *what, lines = header.split("\n\n")
        facts = {key: value for key, _, value in (line.partition(": ") for line in re.sub(r"\n +", " ", lines).splitlines())}
        needed = "\n".join(line for line in imports if re.search(rf"(?<![.\w]){line.split()[-1]}\.", body))
        program = f'"""{title}\n\n{header}\n"""\n\n{needed}\n\n{body.rstrip()}\n'
        yield Defect(title, " ".join("\n".join(what).split()), {"Section": section, **facts}, file, place, program)
        place += 1 + part.count("\n")


@functools.cache
def defects() -> Mapping[str, Defect]:
    """All faults by title, in the order of docs/defects.md."""
    from .. import patches

    package = Path(patches.__file__).parent  # with the programs where it is installed, beside their tests in a checkout
    folder = next(path for path in (package / "defects", package.parent / "tests" / "defects") if path.is_dir())
    every = [defect for path in sorted(folder.glob("*.py")) for defect in parsed(path.name, path.read_text(encoding="utf-8"))]
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
