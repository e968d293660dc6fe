"""Which test files come by which fault, and how long they take.

Each file runs in a process of its own: in one process the product keeps what it has learnt, and only the first file would come by
the place where it is learnt.
"""

from __future__ import annotations

import ast
import itertools
import json
import queue
from collections.abc import Iterable, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from .copies import Copy, commit_of, copied, tracked, workers
from .faults import Fault
from .hits import function_at

LIMIT = 3600.0  # seconds of a file
_LOG = "reach.log"


class Reach:
    """What was measured, in a file; without one every test file counts as reaching every fault, at no cost."""

    def __init__(self, path: Path | None) -> None:
        self.path = path
        held = json.loads(path.read_text()) if path is not None and path.exists() else {}
        self.commit: str = held.get("commit", "")
        self.seconds: dict[str, float] = held.get("seconds", {})
        self.slow: dict[str, float] = held.get("slow", {})  # seconds of the tests that are marked slow
        self.reach: dict[str, list[str]] = held.get("reach", {})
        self.failing: list[str] = held.get("failing", [])  # tests that fail without a fault

    def write(self) -> None:
        """After each file, so that a run cut short can go on."""
        assert self.path is not None
        names = ("commit", "seconds", "slow", "reach", "failing")
        self.path.parent.mkdir(parents=True, exist_ok=True)
        beside = self.path.with_name(self.path.name + ".new")
        beside.write_text(json.dumps({name: getattr(self, name) for name in names}, indent=1, sort_keys=True))
        beside.replace(self.path)

    def files(self, fault: Fault, among: Iterable[str]) -> list[str]:
        """Those of the test files that may come by a fault: also the ones that were not there when it was measured."""
        reaching = self.reach.get(fault.name)
        return [name for name in among if reaching is None or name in reaching or name not in self.seconds]


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


def measure(tree: Path, path: Path, faults: Sequence[Fault], paths: Sequence[str], count: int) -> Reach:
    """Run the test files in copies with all probes; what is in the file already, of the same commit, is left out."""
    reach, commit = Reach(path), commit_of(tree)
    if reach.commit != commit:
        reach = Reach(None)
        reach.path, reach.commit = path, commit
    reach.reach = {fault.name: reach.reach.get(fault.name, []) for fault in faults}
    names = [name for name in test_files(tree, paths) if name not in reach.seconds]
    with ExitStack() as stack, workers(count) as pool:
        copies: queue.SimpleQueue[Copy] = queue.SimpleQueue()
        for _ in range(count):
            copy = stack.enter_context(copied(tree))
            everywhere = probe(copy, faults)
            copies.put(copy)
        plain = stack.enter_context(copied(tree))

        def run(name: str) -> tuple[str, list[str], Any]:
            copy = copies.get()
            log = copy.root / _LOG
            log.unlink(missing_ok=True)
            ended = copy.test(["-m", "not long", name], LIMIT)
            hits = log.read_text().split() if log.exists() else []
            copies.put(copy)
            return name, [*everywhere, *hits], ended

        for number, (name, hits, ended) in zip(itertools.count(1), pool.map(run, names)):
            if ended.status not in (0, 1, 5):
                print(f"{name}: pytest ended with status {ended.status}\n{ended.text[-2000:]}", flush=True)
            failures = ended.failures()
            if failures:  # because of the probes, or without them as well?
                reach.failing += plain.test(["-m", "not long", *failures], LIMIT).failures()
            for hit in set(hits) & set(reach.reach):
                reach.reach[hit].append(name)
            reach.seconds[name] = sum(outcome["seconds"] for outcome in ended.outcomes)
            reach.slow[name] = sum(outcome["seconds"] for outcome in ended.outcomes if outcome["slow"])
            reach.write()
            print(f"{number}/{len(names)} {name}: {ended.seconds:.0f} s, reaches {len(set(hits))}", flush=True)
    if reach.failing:
        print("these tests fail without any fault, and are left out:", *reach.failing, sep="\n  ")
    return reach
