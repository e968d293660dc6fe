"""``PYTHONPATH=tests python -m mutants``: plant the faults one at a time, and count those that the tests find.

``--measure-reach FILE`` notes which test files come by which fault; with ``--reach FILE`` only those are run. Each fault has a copy
of the tree's tracked files to itself. What a fast test finds is found by all; the slow tests are asked for the rest.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import sys
from collections.abc import Iterator, Sequence
from concurrent.futures import as_completed
from pathlib import Path
from typing import Any

from .copies import HERE, Copy, Ended, commit_of, copied, workers
from .faults import AREAS, FAULTS, Fault
from .reach import Reach, measure, test_files

MARKS = {"fast": "not slow and not long", "slow": "slow and not long"}
FIRST = 60.0  # seconds of the first tests that run in one process; each process after it gets three times as much
PATIENCE, START = 4.0, 900.0  # a process may take so many times what was measured, and so many seconds more
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
    parser.add_argument("--reach", type=Path, metavar="FILE", help="what --measure-reach wrote")
    parser.add_argument("--measure-reach", type=Path, metavar="FILE", help="measure, and do nothing else")
    parser.add_argument("--tree", type=Path, metavar="FOLDER", default=HERE.parents[1], help="another checkout")
    wanted = parser.parse_args()
    wanted.paths = [os.path.normpath(path) for path in wanted.paths]
    wanted.tree = wanted.tree.resolve()
    for path in [wanted.tree / path for path in wanted.paths] + [wanted.reach] * (wanted.reach is not None):
        if not path.exists():
            parser.error(f"there is no {path}")
    return wanted


def fits(fault: Fault, tree: Path) -> bool:
    """Whether a tree has the snippet once; says so where not."""
    path = tree / fault.file
    count = path.read_text().count(fault.old) if path.exists() else 0
    if count != 1:
        print(f"{fault.name}: {fault.file} has its snippet {count} times", file=sys.stderr)
    return count == 1


def batches(files: Sequence[str], cost: dict[str, float]) -> Iterator[list[str]]:
    """The cheapest first; a process collects all its files before it runs one, so that the first ones are few."""
    room, batch = FIRST, list[str]()
    for name in sorted(files, key=lambda name: (cost.get(name, 0.0), name)):
        if batch and sum(cost.get(other, 0.0) for other in [*batch, name]) > room:
            yield batch
            room, batch = room * 3, []
        batch.append(name)
    if batch:
        yield batch


class Trials:
    """Runs tests on faults."""

    def __init__(self, wanted: argparse.Namespace) -> None:
        self._tree, self._suite = wanted.tree, wanted.suite
        self._reach = Reach(wanted.reach)
        self._files = test_files(wanted.tree, wanted.paths)
        self.commit = commit_of(wanted.tree)
        if self._reach.commit not in ("", self.commit):
            print(f"the reach was measured at {self._reach.commit}, this is {self.commit}", file=sys.stderr)

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
        """Let one part of the suite run on a copy with a fault, until a test fails."""
        reach = self._reach
        files = reach.files(fault, self._files)
        cost = reach.slow if part == "slow" else {name: reach.seconds[name] - reach.slow[name] for name in reach.seconds}
        if part == "slow":
            files = [name for name in files if reach.slow.get(name, 1.0)]
        result: dict[str, Any] = {"killed": False, "seconds": 0, "files": len(files)}

        def ask(tests: Sequence[str], where: Copy = copy) -> Ended:
            left_out = [f"--deselect={test}" for test in (*reach.failing, *result.get("once", ())) if file_of(test) in tests]
            limit = PATIENCE * sum(cost.get(name, 120.0) for name in tests) + START
            ended = where.test(["-x", "-m", MARKS[part], *left_out, *tests], limit)
            result["seconds"] = round(result["seconds"] + ended.seconds)
            return ended

        for batch in batches(files, cost):
            while (ended := ask(batch)).status == 1:
                (test,) = ended.failures()[:1] or batch[:1]
                again = ask([file_of(test)])
                if again.status not in (0, 5):
                    return {**result, "killed": True, "by": test}
                result.setdefault("once", []).append(test)  # it failed because of the machine, or of what ran before
            if ended.status in (0, 5):  # all passed, or none of them is of this part
                continue
            result["how"] = "hangs" if ended.status is None else f"pytest ended with status {ended.status}"
            with copied(self._tree) as plain:
                if ask(batch, plain).status == ended.status:
                    return {**result, "how": f"{result['how']} without the fault, too: {ended.text[-500:]}"}
            return {**result, "killed": True, "by": (ended.failures() or [ended.last()])[0]}
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
            more += f"; failed once alone: {', '.join(result['once'])}" if "once" in result else ""
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
    """Measure, or run the faults that have no result yet."""
    planted = [fault for fault in FAULTS if wanted.fault is None or fault.name in wanted.fault]
    faults = [fault for fault in planted if fits(fault, wanted.tree)]
    if wanted.measure_reach is not None:
        measure(wanted.tree, wanted.measure_reach, faults, wanted.paths, wanted.workers)
        return int(len(faults) < len(planted))
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
