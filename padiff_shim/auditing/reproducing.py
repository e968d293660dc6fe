"""The programs of the defects, each in a process of its own: which of them still show theirs on this machine."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase

from ..catalogue.defects import Defect, defects
from ..errors import PadiffShimError

SECONDS = 10  # of one program: what takes longer hangs

# Imports both frameworks once and forks for each program, so that a crash costs nothing; a hang is ended by the alarm.
_SERVER = """
import json, os, signal, sys, warnings
import numpy, paddle, torch
warnings.simplefilter("ignore")
programs, seconds = json.load(sys.stdin)
events, quiet = os.dup(1), os.open(os.devnull, os.O_WRONLY)
os.dup2(quiet, 1)
os.dup2(quiet, 2)
def tell(**fields):
    os.write(events, (json.dumps(fields) + "\\n").encode())
tell(paddle=paddle.__version__, torch=torch.__version__)
for title, program in programs.items():
    child = os.fork()
    if not child:
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        signal.alarm(seconds)
        status = 0
        try:
            exec(compile(program, title, "exec"), {"__name__": "__main__"})
        except BaseException as error:
            tell(title=title, how=type(error).__name__)
            status = 1
        os._exit(status)
    status = os.waitpid(child, 0)[1]
    if os.WIFSIGNALED(status):
        tell(title=title, how=signal.Signals(os.WTERMSIG(status)).name)
"""


def ended(programs: Mapping[str, str], seconds: int = SECONDS) -> tuple[dict[str, str], dict[str, str]]:
    """How each program ended, and the versions: the name of a signal or of an error's type, "" without either.

    Raises:
        PadiffShimError: the frameworks cannot be imported.
    """
    run = subprocess.run(
        [sys.executable, "-c", _SERVER], input=json.dumps([dict(programs), seconds]), capture_output=True, text=True, check=False
    )
    lines = [json.loads(line) for line in run.stdout.splitlines()]
    if run.returncode or not lines:
        raise PadiffShimError(
            "the programs of the defects could not be run: {error}", error=run.stderr.strip()[-300:] or run.returncode
        )
    versions, *endings = lines
    return {**dict.fromkeys(programs, ""), **{ending["title"]: ending["how"] for ending in endings}}, versions


def shows_defect(defect: Defect, how: str) -> bool:
    """Whether the end of one of its programs is the defect's."""
    return any(fnmatchcase(how, pattern) for pattern in defect.ends)


@dataclass
class DefectOutcome:
    """A known defect on this machine.

    Attributes:
        name, op, known: of the defect, its op, and the known difference that it is ("" for none).
        claimed: it was seen on these versions before.
        shown: so many of its ``programs`` show it here.
        how: how they ended.
        by_processor: only kernels of some processors have it.
    """

    name: str
    op: str
    known: str
    claimed: bool
    shown: int
    programs: int
    how: str
    by_processor: bool = False

    @property
    def gone(self) -> bool:
        """It was seen on these versions, and is not seen here, whatever the processor."""
        return self.claimed and not self.shown and not self.by_processor

    @property
    def new(self) -> bool:
        """It was not claimed for these versions, and is seen here."""
        return not self.claimed and bool(self.shown)


def run_defects(chosen: Iterable[Defect] | None = None, seconds: int = SECONDS) -> list[DefectOutcome]:
    """Every defect's programs, run here."""
    wanted = list(defects().values() if chosen is None else chosen)
    endings, versions = ended({title: program for defect in wanted for title, program in defect.programs()}, seconds)
    outcomes = []
    for defect in wanted:
        hows = [endings[title] for title, _ in defect.programs()]
        claimed = versions["paddle"] in defect.paddle or versions["torch"].partition("+")[0] in defect.torch
        shown = sum(shows_defect(defect, how) for how in hows)
        how = ", ".join(dict.fromkeys(filter(None, hows)))
        outcomes.append(DefectOutcome(defect.name, defect.op, defect.known, claimed, shown, len(hows), how, defect.by_processor))
    return outcomes
