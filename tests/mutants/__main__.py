"""``PYTHONPATH=tests python -m mutants``: plant the faults one at a time, and count those that the tests find.

Each fault has a copy of the tree's tracked files to itself, in which the tests of its own room run first. What a fast test finds is
found by all; the slow tests are asked for the rest.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import sys
from collections.abc import Sequence
from concurrent.futures import as_completed
from pathlib import Path
from typing import Any

from .copies import HERE, Copy, Ended, commit_of, copied, tracked, workers
from .faults import AREAS, FAULTS, Fault

MARKS = {"fast": "not slow and not long", "slow": "slow and not long"}
LIMIT = 6 * 3600.0  # seconds of a process; a test that hangs ends by itself
# Room -> folder of its tests, where that has another name.
TESTED_IN = {"patches": "table", "patching": "intercept", "substitution": "dispatch", "runs": "modes"}
_AREA = {fault.name: area for area, faults in AREAS.items() for fault in faults}


def options() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(prog="mutants", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("paths", nargs="*", metavar="PATH", help="only these test files or folders")
    parser.add_argument("--suite", choices=("fast", "all"), default="all", help="without the slow tests, or with them")
    parser.add_argument("--fault", nargs="+", metavar="NAME", choices=sorted(_AREA), help="only these faults")
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1, help="copies at a time")
    parser.add_argument(
        "--out", type=Path, metavar="FILE", help="one line of JSON for each fault; those that it has are not run again"
    )
    parser.add_argument("--tree", type=Path, metavar="FOLDER", default=HERE.parents[1], help="another checkout")
    wanted = parser.parse_args()
    wanted.paths = [os.path.normpath(path) for path in wanted.paths]
    wanted.tree = wanted.tree.resolve()
    for path in wanted.paths:
        if not (wanted.tree / path).exists():
            parser.error(f"there is no {path}")
    return wanted


def fits(fault: Fault, tree: Path) -> bool:
    """Whether a tree has the snippet once; says so where not."""
    path = tree / fault.file
    count = path.read_text().count(fault.old) if path.exists() else 0
    if count != 1:
        print(f"{fault.name}: {fault.file} has its snippet {count} times", file=sys.stderr)
    return count == 1


def test_files(tree: Path, paths: Sequence[str]) -> list[str]:
    """The test files of a tree, or those below the given paths."""
    names = [name for name in tracked(tree) if name.startswith("tests/") and Path(name).match("test_*.py")]
    return [name for name in names if not paths or any(Path(name).is_relative_to(path) for path in paths)]


def tests_of(fault: Fault) -> str:
    """The folder of the tests of a fault's room."""
    top, room = fault.file.split("/")[:2]
    room = top if top == "patches" else room
    return f"tests/{TESTED_IN.get(room, room)}/"


class Trials:
    """Runs tests on faults."""

    def __init__(self, wanted: argparse.Namespace) -> None:
        self._tree, self._suite = wanted.tree, wanted.suite
        self._files = test_files(wanted.tree, wanted.paths)
        self.commit = commit_of(wanted.tree)

    def record(self, fault: Fault, before: dict[str, Any]) -> dict[str, Any]:
        """What finds a fault. ``before``: what is known of it from another run."""
        record = {"fault": fault.name, "area": _AREA[fault.name], "commit": self.commit, **before}
        with copied(self._tree) as copy:
            path = copy.root / fault.file
            path.write_text(path.read_text().replace(fault.old, fault.new))
            for part in ("fast", "slow"):
                if part not in record and (part == "fast" or self._suite == "all"):
                    record[part] = self._ask(copy, fault, part)
                if record.get(part, {}).get("killed"):
                    break
        return record

    def _ask(self, copy: Copy, fault: Fault, part: str) -> dict[str, Any]:
        """Let one part of the suite run on a copy with a fault, until a test fails that passes without it."""
        result: dict[str, Any] = {"killed": False, "seconds": 0}
        left_out: list[str] = []

        def ask(tests: Sequence[str], where: Copy = copy) -> Ended:
            ended = where.test(["-x", "-m", MARKS[part], *(f"--deselect={test}" for test in left_out), *tests], LIMIT)
            result["seconds"] = round(result["seconds"] + ended.seconds)
            return ended

        near = [name for name in self._files if name.startswith(tests_of(fault))]
        for batch in filter(None, (near, [name for name in self._files if name not in near])):
            while (ended := ask(batch)).status not in (0, 5):  # all passed, or none of them is of this part
                test = (ended.failures() or [ended.last()])[0]
                if not test:
                    return {**result, "how": f"pytest ended with status {ended.status}: {ended.text[-500:]}"}
                again = ask([file_of(test)])
                with copied(self._tree) as plain:
                    if again.status not in (0, 5) and ask([file_of(test)], plain).status in (0, 5):
                        return {**result, "killed": True, "by": test}
                left_out.append(test)
                result.setdefault("otherwise", []).append(test)  # the machine's doing, or that of what ran before
        return result


def file_of(test: str) -> str:
    """The file of a test."""
    return test.partition("::")[0]


def sentence(record: dict[str, Any]) -> str:
    """A fault's result in words."""
    parts = [f"{record['fault']}:"]
    for part in MARKS:
        if part in record:
            result = record[part]
            words = f"found by {result['by']}" if result["killed"] else "not found"
            more = f", {result['how']}" if "how" in result else ""
            more += f"; failed for other reasons: {', '.join(result['otherwise'])}" if "otherwise" in result else ""
            parts.append(f"{part} tests: {words}{more} ({result['seconds']} s);")
    return " ".join(parts).rstrip(";")


def killed(record: dict[str, Any], parts: Sequence[str]) -> bool:
    """Whether one of these parts of the suite finds a fault."""
    return any(record.get(part, {}).get("killed") for part in parts)


def settled(record: dict[str, Any], parts: Sequence[str]) -> bool:
    """Whether there is nothing left to run for these parts."""
    return killed(record, parts) or all(part in record for part in parts)


def print_summary(records: dict[str, dict[str, Any]], suite: str) -> None:
    """By area; and what was not found."""
    columns = {"fast": ["fast"], **({"all": ["fast", "slow"]} if suite == "all" else {})}
    print(f"\n{'':28}{'planted':>10}" + "".join(f"{'found by ' + name:>16}" for name in columns))
    for area in (*AREAS, "all areas"):
        those = [record for record in records.values() if area in (record["area"], "all areas")]
        counts = [sum(killed(record, parts) for record in those) for parts in columns.values()]
        print(f"{area:28}{len(those):>10}" + "".join(f"{count:>16}" for count in counts))
    shown = [(fault, records[fault.name]) for fault in FAULTS if fault.name in records]
    lists = {
        "found by slow tests alone": [fault for fault, record in shown if killed(record, ["slow"])],
        "not found": [fault for fault, record in shown if not killed(record, list(columns.values())[-1])],
    }
    for title, faults in lists.items():
        if faults:
            print(f"\n{title}:", *[f"{fault.name} ({fault.file}): {fault.what}" for fault in faults], sep="\n  ")


def main(wanted: argparse.Namespace) -> int:
    """Run the faults that have no result yet."""
    planted = [fault for fault in FAULTS if wanted.fault is None or fault.name in wanted.fault]
    faults = [fault for fault in planted if fits(fault, wanted.tree)]
    trials = Trials(wanted)
    lines = wanted.out.read_text().splitlines() if wanted.out is not None and wanted.out.exists() else []
    records = {record["fault"]: record for record in map(json.loads, lines) if record["commit"] == trials.commit}
    records = {fault.name: records[fault.name] for fault in faults if fault.name in records}
    parts = ["fast", "slow"] if wanted.suite == "all" else ["fast"]
    due = [fault for fault in faults if not settled(records.get(fault.name, {}), parts)]
    with workers(wanted.workers) as pool:
        futures = [pool.submit(trials.record, fault, records.get(fault.name, {})) for fault in due]
        for future in as_completed(futures):
            record = future.result()
            records[record["fault"]] = record
            print(sentence(record), flush=True)
            if wanted.out is not None:
                wanted.out.parent.mkdir(parents=True, exist_ok=True)
                with wanted.out.open("a") as file:
                    file.write(json.dumps(record) + "\n")
    print_summary(records, wanted.suite)
    return int(len(faults) < len(planted))


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # no process is left behind
    sys.exit(main(options()))
