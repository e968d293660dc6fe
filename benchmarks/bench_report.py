"""What reading and showing a long run costs: writing its page, opening it, loading its log. Seconds, and memory at the peak.

Each line is measured in a process of its own, so that its peak is its own; "nothing" is the same process with an empty run. Seconds
are those of the processor (one thread), but for the browser's, which pass while one waits. The records are made up
(`tests/report_data.py`), one in a hundred with a verdict that stands out.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")  # read when the frameworks are imported

import padiff_shim  # imports neither framework, and nothing else here may: memory is measured

ROOT = Path(__file__).resolve().parents[1]
MARK = "<!-- below: written by bench_report.py -->"
HEADER = ["what", "records", "seconds", "peak MiB", "file MiB"]
KINDS = 5000  # records that differ; a longer log repeats them with other numbers
LISTED = 17_500  # records that a page holds one by one


def made(count: int) -> Iterator[dict[str, Any]]:
    """The header and so many records."""
    sys.path.insert(0, str(ROOT / "tests"))
    import report_data

    yield {**report_data.HEADER, "id": "made up"}
    kinds = list(report_data.run_of(KINDS))
    for index in range(count):
        yield {**kinds[index % KINDS], "index": index, "call": index // 2, "step": index // 100}


JUDGED = ("verdict", "side", "hypothesis", "alternatives", "modifiers", "quirk", "muted", "reason", "born", "stats")


def put(folder: Path, count: int) -> Path:
    """A log of made-up records, written as a run writes it: what is known of a call before its verdict once for each kind."""
    from padiff_shim.runlog.encoding import WrittenFields, encode

    folder.mkdir()
    known: dict[int, WrittenFields] = {}
    with open(folder / "calls-rank0-pid1.jsonl", "wb") as file:
        for number, record in enumerate(made(count)):
            if not number:
                file.write(encode(record))
                continue
            kind = number % KINDS
            if kind not in known:
                counted = ("type", "index", "call", "step", *JUDGED)
                known[kind] = WrittenFields({name: value for name, value in record.items() if name not in counted})
            file.write(encode(record, known[kind]))
        file.write(encode({"type": "end", "coverage": {}}))
    return folder


def load(folder: Path, page: Path) -> float:
    """Processor seconds of reading and checking every record of a log."""
    start = time.process_time()
    padiff_shim.load(folder)
    return time.process_time() - start


def scan(folder: Path, page: Path) -> float:
    """Processor seconds of one pass for the records that meet a condition."""
    run = padiff_shim.load(folder)
    start = time.process_time()
    run.calls.filter(at_least="LOW_ACCURACY", layer="encoder")
    return time.process_time() - start


def gate(folder: Path, page: Path) -> float:
    """Processor seconds of holding a log against a baseline, its reading included."""
    baseline = page.with_suffix(".jsonl")
    padiff_shim.gate(folder, baseline, update=True)
    start = time.process_time()
    padiff_shim.gate(folder, baseline)
    return time.process_time() - start


def write(folder: Path, page: Path) -> float:
    """Processor seconds of ``page``."""
    run = padiff_shim.load(folder)
    start = time.process_time()
    run.save(page)
    return time.process_time() - start


def child(what: str, folder: Path, page: Path) -> None:
    """Measure one thing in this process."""
    seconds = {"load": load, "scan": scan, "gate": gate, "write": write}[what](folder, page)
    print(json.dumps([seconds, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**10]))  # Linux counts KiB


def measured(what: str, folder: Path, page: Path) -> tuple[float, float]:
    """Seconds and peak MiB of one thing in a process of its own."""
    command = [sys.executable, __file__, "--child", what, str(folder), str(page)]
    done = subprocess.run(command, check=True, capture_output=True, text=True, env={**os.environ, "PYTHONPATH": str(ROOT)})
    seconds, peak = json.loads(done.stdout)
    return seconds, peak


def opened(page: Path, rounds: int = 3) -> float | None:
    """Seconds until headless Chromium shows the page, the best of some; None where there is no Chromium, or no Playwright."""
    binary = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        return None
    if binary is None:
        return None
    times = []
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=binary, args=["--no-sandbox", "--disable-gpu"])
        for _ in range(rounds):
            context = browser.new_context(viewport={"width": 1440, "height": 900}, offline=True)
            tab = context.new_page()
            start = time.perf_counter()
            tab.goto(page.as_uri())
            tab.wait_for_selector("html[data-ready]", timeout=120_000)
            times.append(time.perf_counter() - start)
            context.close()
        browser.close()
    return min(times)


def rows(folder: Path, short: int, long: int) -> Iterator[list[str]]:
    """The lines of the table."""

    def line(what: str, count: int, seconds: float, peak: float | None = None, size: float | None = None) -> list[str]:
        return [what, f"{count:,}", f"{seconds:.1f}", *("" if figure is None else f"{figure:.1f}" for figure in (peak, size))]

    def mib(path: Path) -> float:
        return path.stat().st_size / 2**20

    page = folder / "report.html"
    empty, middle, full = (put(folder / str(count), count) for count in (0, short, long))
    yield line("load: nothing", 0, *measured("load", empty, page))
    for count, log in ((short, middle), (long, full)):
        yield line("load", count, *measured("load", log, page), mib(log / "calls-rank0-pid1.jsonl"))
    yield line("calls.filter", long, *measured("scan", full, page))
    yield line("gate", long, *measured("gate", full, page))
    for count, log in ((short, middle), (long, full)):
        yield line("page", count, *measured("write", log, page), mib(page))
        seconds = opened(page)
        listed = min(count, LISTED)
        yield (
            line("open the page", listed, seconds)
            if seconds is not None
            else ["open the page", f"{listed:,}", "no Chromium", "", ""]
        )


def main() -> int:
    """Measure, print, and write Markdown if asked."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--short", type=int, default=100_000, help="records of the shorter log")
    parser.add_argument("--long", type=int, default=1_000_000, help="records of the longer log")
    parser.add_argument("--markdown", type=Path, metavar="FILE", help="also write the table there, below its mark if it has one")
    parser.add_argument("--child", nargs=3, metavar=("WHAT", "LOG", "PAGE"), help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.child:
        child(args.child[0], *map(Path, args.child[1:]))
        return 0
    with tempfile.TemporaryDirectory() as folder:
        table = ("Long runs", HEADER, list(rows(Path(folder), args.short, args.long)))
    from bench_call import markdown, shown  # both frameworks come with it
    from machine import machine
    from rich.console import Console

    console = Console(width=None if sys.stdout.isatty() else 130)
    console.print(shown(*table), "")
    facts = machine()
    console.print("\n".join(facts), highlight=False)
    if args.markdown:
        text = args.markdown.read_text().partition(MARK)[0] if args.markdown.exists() else ""
        lines = ["Measured on", *[f"- {fact}" for fact in facts], "", markdown(*table)]
        args.markdown.write_text(f"{text}{MARK}\n" + "\n".join(lines).rstrip() + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
