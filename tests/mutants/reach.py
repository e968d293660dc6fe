"""Which test files come by which fault, and how long they take: one run of the suite with a probe at each fault.

What the product learns once in a process is noted for the file that came first. So the files of a fault's own room always count as
reaching it.
"""

from __future__ import annotations

import ast
import json
from collections.abc import Iterable, Sequence
from pathlib import Path

from .copies import Copy, commit_of, copied, tracked
from .faults import Fault
from .hits import function_at

LIMIT = 6 * 3600.0  # seconds
# Room -> folder of its tests, where that has another name.
TESTED_IN = {"patches": "table", "patching": "intercept", "substitution": "dispatch", "runs": "modes"}
_LOG = "reach.log"


class Reach:
    """What was measured, in a file; without one every test file counts as reaching every fault, at no cost."""

    def __init__(self, path: Path | None) -> None:
        held = json.loads(path.read_text()) if path is not None else {}
        self.commit: str = held.get("commit", "")
        self.seconds: dict[str, float] = held.get("seconds", {})
        self.slow: dict[str, float] = held.get("slow", {})  # seconds of the tests that are marked slow
        self.reach: dict[str, list[str]] = held.get("reach", {})
        self.failing: list[str] = held.get("failing", [])  # tests that fail without a fault

    def files(self, fault: Fault, among: Iterable[str]) -> list[str]:
        """Those of the test files that may come by a fault: also the ones that were not there when it was measured."""
        reaching = self.reach.get(fault.name)
        room = f"tests/{tests_of(fault)}/"
        return [name for name in among if reaching is None or name in reaching or name.startswith(room) or name not in self.seconds]


def tests_of(fault: Fault) -> str:
    """The folder of the tests of a fault's room."""
    top, room = fault.file.split("/")[:2]
    room = top if top == "patches" else room
    return TESTED_IN.get(room, room)


def test_files(tree: Path, paths: Sequence[str]) -> list[str]:
    """The test files of a tree, or those below the given paths."""
    names = [name for name in tracked(tree) if name.startswith("tests/") and Path(name).match("test_*.py")]
    return [name for name in names if not paths or any(Path(name).is_relative_to(path) for path in paths)]


def line_of(fault: Fault, text: str) -> int:
    """The line on which the snippet begins to say something."""
    place = text.index(fault.old) + len(fault.old) - len(fault.old.lstrip())
    return text.count("\n", 0, place) + 1


def probe(copy: Copy, faults: Sequence[Fault]) -> list[str]:
    """Make a copy note what is reached; returns the faults that no function holds, which every test reaches."""
    places: dict[str, dict[str, int]] = {}
    everywhere = []
    for fault in faults:
        text = (copy.root / fault.file).read_text()
        line = line_of(fault, text)
        if function_at(ast.parse(text), line) is None:
            everywhere.append(fault.name)
        else:
            places.setdefault(fault.file, {})[fault.name] = line
    helper = (Path(__file__).parent / "hits.py").read_text()
    more = f"\nLOG = {str(copy.root / _LOG)!r}\nPLACES.update({places!r})\nbegin()\n"
    (copy.root / "padiff_shim/_reach.py").write_text(helper + more)
    package = copy.root / "padiff_shim/__init__.py"
    first = "from __future__ import annotations\n"
    text = package.read_text()
    assert text.count(first) == 1
    package.write_text(text.replace(first, first.rstrip() + "; import padiff_shim._reach\n"))
    return everywhere


def measure(tree: Path, path: Path, faults: Sequence[Fault], paths: Sequence[str], count: int) -> None:
    """Run the tests in a copy with all probes, in ``count`` processes, and write what they come by."""
    reach: dict[str, set[str]] = {fault.name: set() for fault in faults}
    seconds: dict[str, float] = dict.fromkeys(test_files(tree, paths), 0.0)
    slow = dict(seconds)
    with copied(tree) as copy, copied(tree) as plain:
        everywhere = probe(copy, faults)
        ended = copy.test(["-m", "not long", "-n", str(count), "--dist", "worksteal", *paths], LIMIT)
        if ended.status not in (0, 1):
            raise SystemExit(f"pytest ended with status {ended.status}\n{ended.text[-2000:]}")
        log = copy.root / _LOG
        for line in log.read_text().splitlines() if log.exists() else ():
            name, _, file = line.partition(" ")
            reach[name] |= {file} if file else set(seconds)
        for name in everywhere:
            reach[name] |= set(seconds)
        for outcome in ended.outcomes:
            file = outcome["test"].partition("::")[0]
            seconds[file] += outcome["seconds"]
            slow[file] += outcome["seconds"] * outcome["slow"]
        failures = ended.failures()  # because of the probes, or without them as well?
        failing = plain.test(["-m", "not long", *failures], LIMIT).failures() if failures else []
    if failing:
        print("these tests fail without any fault, and are left out:", *failing, sep="\n  ")
    content = {
        "commit": commit_of(tree),
        "seconds": seconds,
        "slow": slow,
        "reach": {name: sorted(files) for name, files in reach.items()},
        "failing": failing,
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(content, indent=1, sort_keys=True))
