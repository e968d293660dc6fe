"""How good the verdict is: clean pairs of kernels and planted faults, judged by the library and by the rules that others use.

The faults, the problems and the oracle that says how large a fault is stand in ``benchmarks/faults``. One thread; deterministic for
given seeds.
"""

from __future__ import annotations

import argparse
import os
import platform
import sys
import time
import warnings
from collections import Counter, defaultdict
from collections.abc import Iterable
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")  # read when the frameworks are imported

import numpy as np

with warnings.catch_warnings():
    warnings.filterwarnings("ignore", message="No ccache found")  # Paddle's advice for compiling; nothing is compiled here
    import paddle
import torch
from faults.catalogue import FAULTS
from faults.kernels import paddle_kernel, torch_kernel
from faults.plan import problems
from faults.score import RULES, Outcome, clean_pairs, counts, defect, generic_verdict, planted, verdict_of
from machine import processor
from rich.console import Console
from rich.progress import track

from padiff_shim.verdicts import HARD, Verdict

MARK = "<!-- below: written by bench_verdict.py -->"
CLASSES = [v for v in Verdict if v is not Verdict.UNVERIFIED] + [Verdict.UNVERIFIED]
KINDS = ("clean", "precision", "arithmetic", "semantics", "element", "unlisted")
SIZES = ((1, 2), (2, 4), (4, 8), (8, 16), (16, 64), (64, 1024), (1024, np.inf))


def percent(part: int, whole: int, digits: int = 1) -> str:
    """A share in per cent, never rounded up to 100 or down to 0."""
    if not whole:
        return ""
    if part in (0, whole):
        return f"{100 * part // whole} %"
    edge = 10.0**-digits
    return f"{min(max(100 * part / whole, edge), 100 - edge):.{digits}f} %"


def table(head: Iterable[str], rows: Iterable[Iterable[object]]) -> str:
    """A table in Markdown."""
    lines = [list(head), *([str(cell) for cell in row] for row in rows)]
    lines.insert(1, ["---"] * len(lines[0]))
    return "\n".join("| " + " | ".join(line) + " |" for line in lines) + "\n"


def matrix(outcomes: list[Outcome]) -> str:
    """Expected kind against verdict."""
    counted = counts(outcomes)
    rows = [[kind, sum(counted[kind, c] for c in CLASSES), *(counted[kind, c] or "" for c in CLASSES)] for kind in KINDS]
    return table(["planted", "n", *map(str, CLASSES)], rows)


def by_fault(faults: list[Outcome]) -> str:
    """Detection of each fault, beside the rules that look at the difference alone."""
    rows = []
    for fault in FAULTS:
        seen = [o for o in faults if o.fault is fault and o.visible]
        if seen:
            shares = [percent(sum(o.others[rule] for o in seen), len(seen), 0) for rule in RULES]
            sizes = np.median([o.size for o in seen])
            named = Counter(o.judged.hypothesis for o in seen if o.judged.hypothesis).most_common(2)
            names = ", ".join(f"{name} {count}" for name, count in named)
            rows.append(
                [
                    fault.name,
                    fault.kind,
                    len(seen),
                    f"{sizes:.2g}",
                    percent(sum(o.detected for o in seen), len(seen)),
                    *shares,
                    names,
                ]
            )
    return table(["fault", "kind", "visible", "median size", "verdict", *RULES, "named"], rows)


def by_size(faults: list[Outcome]) -> str:
    """Misses by the size of the fault in rounding units."""
    rows = []
    for low, high in SIZES:
        seen = [o for o in faults if low <= o.size < high or (high == np.inf and o.size == np.inf)]
        missed = sum(not o.detected for o in seen)
        others = [percent(sum(not o.others[rule] for o in seen), len(seen)) for rule in RULES]
        rows.append([f"{low} to {high:g}", len(seen), missed, percent(missed, len(seen)), *others])
    return table(["size, units of B1", "visible faults", "missed", "share", *(f"{rule} misses" for rule in RULES)], rows)


def clean_table(clean: list[Outcome]) -> str:
    """Clean pairs by kernel: how often each rule complains."""
    rows = []
    for kernel in dict.fromkeys(o.kernel for o in clean):
        seen = [o for o in clean if o.kernel == kernel]
        soft = sum(o.flagged and not o.false_alarm for o in seen)
        shares = [percent(sum(o.others[rule] for o in seen), len(seen)) for rule in RULES]
        rows.append([kernel, len(seen), sum(o.false_alarm for o in seen), soft, *shares])
    return table(["pair", "n", "hard classes", "LOW_ACCURACY, LOCAL_SUSPECT", *(f"{rule} complains" for rule in RULES)], rows)


def targets(clean: list[Outcome], faults: list[Outcome]) -> list[tuple[str, str, int, int, bool]]:
    """(what, aim, part, whole, reached)."""
    seen = [o for o in faults if o.visible]
    large = [o for o in seen if o.size >= 8]
    flagged = [o for o in seen if o.flagged]
    alarms, right = sum(o.false_alarm for o in clean), sum(o.right_side for o in flagged)
    detected, found_large = sum(o.detected for o in seen), sum(o.detected for o in large)
    return [
        ("clean pairs in a hard class", "0", alarms, len(clean), alarms == 0),
        ("visible faults detected", "97 %", detected, len(seen), detected >= 0.97 * len(seen)),
        ("faults of 8 units or more detected", "99 %", found_large, len(large), found_large >= 0.99 * len(large)),
        ("right side among the flagged", "98 %", right, len(flagged), right >= 0.98 * len(flagged)),
    ]


def defects(seed: int) -> str:
    """The native results that were kept out of the clean pairs, with what the verdict says of them."""
    verdicts: dict[tuple[str, ...], Counter] = defaultdict(Counter)
    for number, problem in enumerate(problems(seed)):
        name = defect(problem)
        if name:
            judged = verdict_of(problem, paddle_kernel(problem), torch_kernel(problem), number)
            verdict = f"{judged.verdict} {judged.side}" + (f" ({judged.hypothesis})" if judged.hypothesis else "")
            verdicts[problem.op, problem.wanted, problem.dtype, name][verdict] += 1
    rows = [[*key, ", ".join(f"{verdict} {n}" for verdict, n in c.most_common())] for key, c in verdicts.items()]
    return table(["op", "tensor", "dtype", "Paddle's defect", "verdicts"], rows)


def report(clean: list[Outcome], faults: list[Outcome], seeds: list[int], seconds: float, command: str) -> str:
    """The whole page below the mark."""
    versions = f"Paddle {paddle.__version__}, Torch {torch.__version__}, NumPy {np.__version__}, Python {platform.python_version()}"
    aims = [
        [what, aim, f"{part} of {whole}", percent(part, whole, 2), "yes" if ok else "**no**"]
        for what, aim, part, whole, ok in targets(clean, faults)
    ]
    return "\n".join(
        [
            f"`{command}`\n\n{versions}; {processor()}, 1 thread, {seconds:.0f} s; seeds {' '.join(map(str, seeds))}.\n",
            "## What was to be reached\n\n" + table(["", "aim", "count", "share", "reached"], aims),
            "## Verdict by what was planted (visible faults)\n\n" + matrix(clean + faults),
            "## Clean pairs\n\n" + clean_table(clean),
            "## Misses by size\n\n" + by_size(faults),
            "## Every fault\n\n" + by_fault(faults),
            "## Real defects met on the way\n\n" + defects(seeds[0]),
        ]
    )


def main() -> int:
    """Run, print, write; exit status 1 if an aim is missed."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--share", type=float, default=1.0, help="share of the faults tried on each problem")
    parser.add_argument("--clean", action="store_true", help="clean pairs alone, for many seeds in little time")
    parser.add_argument("--generic", type=int, metavar="N", help="the generic judge instead of the models, on every Nth problem")
    parser.add_argument("--markdown", type=Path, help="write the tables into this file, below its mark")
    parser.add_argument("--list", choices=["alarms", "misses", "sides"], help="print these cases one by one")
    options = parser.parse_args()
    start = time.monotonic()
    clean: list[Outcome] = []
    faults: list[Outcome] = []
    for seed in track(options.seeds, "seeds", console=Console(stderr=True)):
        chosen = list(problems(seed))[seed % (options.generic or 1) :: options.generic or 1]
        judge = generic_verdict if options.generic else verdict_of
        clean += clean_pairs(chosen, seed, judge)
        if not options.clean:
            faults += planted(chosen, seed, options.share, judge)
    command = "OMP_NUM_THREADS=1 PYTHONPATH=. .venv/bin/python benchmarks/bench_verdict.py " + " ".join(sys.argv[1:])
    page = report(clean, faults, options.seeds, time.monotonic() - start, command)
    print(page)
    if options.list:
        show(options.list, clean, [o for o in faults if o.visible])
    if options.markdown:
        head = options.markdown.read_text().partition(MARK)[0] if options.markdown.exists() else ""
        options.markdown.write_text(f"{head}{MARK}\n{page}")
    return 0 if all(ok for *_, ok in targets(clean, faults)) else 1


def show(which: str, clean: list[Outcome], faults: list[Outcome]) -> None:
    """The cases behind a figure."""
    chosen = {
        "alarms": [o for o in clean if o.judged.verdict in HARD],
        "misses": [o for o in faults if not o.detected],
        "sides": [o for o in faults if o.flagged and not o.right_side],
    }[which]
    for o in chosen:
        name = o.fault.name if o.fault else o.kernel
        verdict = f"{o.judged.verdict} {o.judged.side} {o.judged.hypothesis}"
        print(f"{name} | {o.problem} | size {o.size:.3g} | planted {o.planted} | {verdict}")
        print(f"    {o.judged.reason}")


if __name__ == "__main__":
    sys.exit(main())
