"""Are ports that others wrote equal to their originals bit for bit, and if not, do the printed changes make them so?

`python examples/demo_ecosystem.py` proves each pair of `examples/ports`, asks for its bits, writes the changes into a copy of the
port's library, and asks again with that copy. Each question runs in a process of its own; what was answered stays in `.ecosystem/`,
so that a run that is cut short goes on. At the end docs/ecosystem.md is written, with the differences of `tests/ecosystem`.
"""

from __future__ import annotations

import argparse
import ast
import importlib.metadata
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
import traceback
import warnings
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from demo_ports import environment, limited
from ports.pair import Pair
from ports.registry import PAIRS
from rich.console import Console
from tables import new_progress

ROOT = Path(__file__).resolve().parent.parent
PAGE, ANSWERS, SHOWN = ROOT / "docs/ecosystem.md", ROOT / ".ecosystem", ROOT / "tests/ecosystem"
SECONDS = 900
DTYPES = ("float32", "bfloat16")
RESULT = "result of the pair: "


def alone(pair: Pair, dtype: str, folder: Path | None) -> None:
    """Ask for a pair's bits in this process; ``folder``: where the port's library is copied to, with the changes."""
    limited()
    warnings.simplefilter("ignore")
    import padiff_shim
    from padiff_shim.proof.bits.result import patched

    with padiff_shim.reference():  # tables that constructors make
        port, original, inputs = pair.build()
    names = {"port": f"{versioned(port)} {type(port).__name__}", "original": f"{versioned(original)} {type(original).__name__}"}
    start = time.perf_counter()
    try:
        proof = padiff_shim.prove(port, original, inputs, dtype=dtype, phase="both" if pair.backward else "forward")
        bits = proof.bits()
    except (RuntimeError, ValueError) as error:
        line = own_line(error)
        if dtype == DTYPES[0] or not line:
            raise
        refused = f"`{line}`: {cell(str(error).strip().splitlines()[0])}"
        print(RESULT + json.dumps({**names, "refused": refused, "seconds": time.perf_counter() - start}))
        return
    seconds = time.perf_counter() - start
    print(proof, bits, sep="\n")
    origins = [
        {
            "what": str(origin),
            "where": f"{shortened(origin.paddle.file)}:{origin.paddle.line}" if origin.paddle else "",
            "change": origin.change,
            "reason": origin.reason,
            "written": origin.patch is not None,
        }
        for origin in bits.origins
    ]
    answer = {
        **names,
        "verdict": proof.verdict.name,
        "gap": proof.differences.get("native"),
        "headline": (bits if bits.comparable else proof).headline,
        "comparable": bits.comparable,
        "identical": bits.identical,
        "same": [bits.results, bits.gradients],
        "in_memory": bits.mended,
        "notes": list(bits.notes),
        "origins": origins,
        "seconds": seconds,
    }
    if folder is not None and bits.patches:
        for file, source in patched(
            bits.patches, {patch.file: Path(patch.file).read_text("utf-8") for patch in bits.patches}
        ).items():
            exchange(Path(file), source, folder)
    print(RESULT + json.dumps(answer, default=str))


def own_line(error: Exception) -> str:
    """The last line of the pair's own at which a framework raised an error; "" of any other."""
    from padiff_shim.dispatch.call_site import is_library

    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if frame.filename != __file__]
    last = next((frame for frame in reversed(frames) if not is_library(frame.filename)), None)
    of_framework = str(error).startswith("(NotFound)") or "/torch/" in frames[-1].filename
    return f"{shortened(last.filename)}:{last.lineno}" if last is not None and of_framework else ""


def versioned(model: Any) -> str:
    """The library of a model's class, with its version."""
    package = type(model).__module__.partition(".")[0]
    names = importlib.metadata.packages_distributions().get(package) or [package]
    return f"{names[0]} {importlib.metadata.version(names[0])}"


def root_of(file: Path) -> Path:
    """The folder of the path of imports in which a file's package lies."""
    return max((Path(entry) for entry in sys.path if entry and file.is_relative_to(entry)), key=lambda entry: len(entry.parts))


def shortened(file: str) -> str:
    return Path(file).relative_to(root_of(Path(file))).as_posix()


def exchange(file: Path, source: str, folder: Path) -> None:
    """Put a changed file into a copy of its package, which is made of links to everything else."""
    root = root_of(file)
    place = file.relative_to(root)
    if not (folder / place.parts[0]).exists():
        leave = shutil.ignore_patterns("__pycache__")
        shutil.copytree(root / place.parts[0], folder / place.parts[0], copy_function=os.symlink, ignore=leave)
    (folder / place).unlink()
    (folder / place).write_text(source, "utf-8")


def apart(pair: Pair, dtype: str, copy: Path, *, write: bool) -> dict[str, Any]:
    """Ask in a process of its own. ``copy``: the folder of changed libraries, which is written, or read."""
    command = [sys.executable, "-W", "ignore", __file__, "--alone", pair.name, "--dtypes", dtype, *["--copy", str(copy)] * write]
    start = time.perf_counter()
    try:
        done = subprocess.run(
            command, env=environment(pair, *[str(copy)] * (not write)), capture_output=True, text=True, timeout=SECONDS
        )
    except subprocess.TimeoutExpired:
        return {"failed": f"no end in {SECONDS} s", "seconds": time.perf_counter() - start}
    for line in done.stdout.splitlines():
        if line.startswith(RESULT):
            return json.loads(line.removeprefix(RESULT))
    last = (done.stderr.strip().splitlines() or [f"exit status {done.returncode}"])[-1]
    return {"failed": last, "log": done.stderr[-4000:], "seconds": time.perf_counter() - start}


def answers_file(pair: Pair, dtype: str) -> Path:
    """Where the answer of a pair stays."""
    return ANSWERS / f"{re.sub(r'[^0-9A-Za-z]+', '-', pair.name)}-{dtype}.json"


def asked(pair: Pair, dtype: str, *, again: bool) -> dict[str, Any]:
    """The answer as the port is, with ``changed``: that of the copy with the changes."""
    place = answers_file(pair, dtype)
    if place.exists() and not again:
        return json.loads(place.read_text("utf-8"))
    with tempfile.TemporaryDirectory() as folder:
        answer = apart(pair, dtype, Path(folder), write=True)
        if any(Path(folder).iterdir()):
            answer["changed"] = apart(pair, dtype, Path(folder), write=False)
    head = subprocess.run(["git", "rev-parse", "--short=8", "HEAD"], capture_output=True, text=True, cwd=ROOT)
    answer["state"] = head.stdout.strip()
    place.parent.mkdir(exist_ok=True)
    place.write_text(json.dumps(answer, indent=1), "utf-8")
    return answer


Row = tuple[Pair, str, dict[str, Any]]


def each(console: Console, pairs: Sequence[Pair], dtypes: Sequence[str], *, again: bool) -> Iterator[Row]:
    """The rows in order, with a bar."""
    work = [(pair, dtype) for pair in pairs for dtype in dtypes]
    with new_progress(console, transient=True) as progress:
        bar = progress.add_task("", total=len(work))
        for pair, dtype in work:
            progress.update(bar, description=f"{pair.name} {dtype}")
            yield pair, dtype, asked(pair, dtype, again=again)
            progress.advance(bar)


def afterwards(answer: dict[str, Any]) -> str:
    """Whether the copy is identical, and if not, why."""
    if answer["identical"]:
        return "is equal as it is"
    if not answer["comparable"]:
        return cell(answer["headline"])
    changed = answer.get("changed", answer)
    if "failed" in changed:
        return f"the copy fails: {cell(changed['failed'])}"
    if changed["identical"]:
        return "yes"
    same = ", ".join(f"{have} of {of} {noun}" for (have, of), noun in zip(changed["same"], ("results", "gradients")) if of)
    return f"{same}{'; all in memory' if answer['in_memory'] else ''}; left: {left_over(changed)}"


def left_over(answer: dict[str, Any]) -> str:
    """The origins without lines to write, and why there are none."""
    lines = dict.fromkeys(f"`{origin['where']}` ({why_left(origin)})" for origin in answer["origins"])
    return "; ".join([*lines, *(cell(note) for note in answer["notes"][:1])]) or "no line found"


def why_left(origin: dict[str, Any]) -> str:
    """Why there are no lines for an origin."""
    if not origin["change"]:
        return f"no change known: {origin['reason']}"
    if "table that was there before" in origin["what"]:
        return "reads a table that the constructors make by other means, of too many numbers for a line"
    return "the change is no line of this file"


def cell(words: str) -> str:
    return " ".join(words.split()).replace("|", "\\|").replace("<", "&lt;")[:200]


def cells(dtype: str, answer: dict[str, Any]) -> tuple[str, ...]:
    """A row of the page's table."""
    if "failed" in answer:
        return (dtype, f"**failed**: {cell(answer['failed'])}", "", "", "", "", f"{answer['seconds']:.0f}")
    if "refused" in answer:
        return (dtype, "does not run", "", "", "", answer["refused"], f"{answer['seconds']:.0f}")
    origins = answer["origins"]
    gap = "" if answer["gap"] is None else f"{answer['gap']:.1e}" if answer["gap"] else "0"
    verdict = f"`{answer['verdict']}`"
    changes = f"{sum(bool(origin['change']) for origin in origins)}, {sum(origin['written'] for origin in origins)} written"
    counts = (str(len(origins)), changes if origins else "") if answer["comparable"] else ("", "")
    return dtype, verdict, gap, *counts, afterwards(answer), f"{answer['seconds']:.0f}"


HEAD = ("port", "original", "dtype", "verdict", "native gap", "origins", "changes", "equal afterwards", "seconds")
_TEXT = """\
# Ports of Paddle's libraries

What is proven of ports that others published, and where they differ from their originals in more than rounding. Written by
`make ecosystem`: each pair in a process of its own, on a CPU, with small configurations and random weights of trained size.
Measured with this library at commit {state}, and a row that names another commit at that one. Since e3309db6 pairs are
constructed within `padiff_shim.reference()`, so that tables that a constructor makes come from Torch's kernels, too.
Where a maintainer can act stands [below](#what-differs).

## What is proven

{pairs} pairs of {libraries} libraries in {rows} runs, {narrow} of these in bfloat16. {not_run} do not run in bfloat16 on a CPU:
a framework refuses the line that the table names. Of the others {answered} were answered without a failure ({share:.0f} %).{open}

| of these runs | |
| --- | --- |
| equal bit for bit as the port is | {equal} |
| the same mathematics, other bits | {rounding} |
| something else is computed | {differing} |
| not compared: weights without a partner | {refused} |

In the {rounding} runs with other bits {origins} lines make them. For {changed} of these ({changed_share:.0f} %; in bfloat16 for
{narrow_changed} of {narrow_origins}) a change is known that gives the original's bits on the line's operands; with all changes
{in_memory} of the {rounding} runs are equal bit for bit in memory. {written} changes are lines to write; a copy of the library with
these is equal in {whole} runs.

- **Verdict**: [what each means](prove.md). **Native gap**: the largest difference of outputs and gradients, each framework on its
  own kernels.
- **Origins**: lines of the port that make other bits of equal operands, forward and backward
  ([`prove --bits`](prove.md#bits)). **Changes**: for how many one is known, and how many of these are lines to write.
- **Equal afterwards**: results and gradients that are the original's bit for bit with the lines written into a copy of the library,
  and what is left. **Seconds**: on a machine that did other work beside it.

"""


def page(rows: Sequence[Row]) -> str:
    """docs/ecosystem.md."""
    refused = sum("refused" in answer for _, _, answer in rows)
    answers = [answer for _, _, answer in rows if not {"failed", "refused"} & answer.keys()]
    rounding = [answer for answer in answers if answer["comparable"] and not answer["identical"]]
    every = [origin for answer in rounding for origin in answer["origins"]]
    changed = sum(bool(origin["change"]) for origin in every)
    in_16_bits = [answer for _, dtype, answer in rows if dtype == "bfloat16" and answer in rounding]
    narrow = [bool(origin["change"]) for answer in in_16_bits for origin in answer["origins"]]
    left = len(PAIRS) * len(DTYPES) - len(rows)
    (state, _), *_ = Counter(answer["state"] for _, _, answer in rows).most_common()
    text = _TEXT.format(
        pairs=len({pair.name for pair, _, _ in rows}),
        libraries=len({answer["port"].split()[0] for answer in answers}),
        rows=len(rows),
        answered=len(answers),
        share=100 * len(answers) / (len(rows) - refused),
        not_run=refused,
        state=state,
        narrow=sum(dtype == "bfloat16" for _, dtype, _ in rows),
        open=f" Not asked: {left} of {len(PAIRS) * len(DTYPES)}." if left else "",
        equal=sum(answer["identical"] for answer in answers),
        rounding=len(rounding),
        differing=sum(answer["verdict"] == "CODE_DIFFERS" and not answer["comparable"] for answer in answers),
        refused=sum(answer["verdict"] == "NOT_COMPARABLE" for answer in answers),
        origins=len(every),
        changed=changed,
        narrow_changed=sum(narrow),
        narrow_origins=len(narrow),
        changed_share=100 * changed / max(1, len(every)),
        in_memory=sum(answer["in_memory"] for answer in rounding),
        written=sum(origin["written"] for origin in every),
        whole=sum(answer.get("changed", {}).get("identical", False) for answer in rounding),
    )
    lines = [HEAD, ("---",) * len(HEAD)]
    for pair, dtype, answer in rows:
        at = dtype if answer["state"] == state else f"{dtype}, at {answer['state']}"
        lines.append((answer.get("port", pair.name), answer.get("original", ""), *cells(at, answer)))
    return text + "".join(f"| {' | '.join(line)} |\n" for line in lines) + differences()


_DIFFERENCES = """
## What differs

Found by these proofs, and by [`diff`](record.md) of recorded trainings, in published versions. Each program needs the frameworks
and NumPy alone: it writes the port's step and the original's in float64, and ends with 1 if they differ.
`python tests/ecosystem/{name}.py`.

"""


def differences() -> str:
    """The list of the programs of tests/ecosystem."""
    parts = []
    for file in sorted(SHOWN.glob("[!_]*.py")):
        title, _, body = (ast.get_docstring(ast.parse(file.read_text("utf-8"))) or "").partition("\n")
        facts = dict(re.findall(r"^(\w+): ((?:.|\n(?!\w+: ))+)", body.strip(), re.MULTILINE))
        parts.append(
            (
                f"[{title}](../tests/ecosystem/{file.name})",
                *(" ".join(facts[name].split()) for name in ("Line", "Original", "Write")),
            )
        )
    head = ("difference", "line", "original", "write")
    return _DIFFERENCES + "".join(f"| {' | '.join(line)} |\n" for line in (head, ("---",) * len(head), *parts))


def main() -> int:
    """Ask for all pairs, or those that are named, and write the page."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("pairs", nargs="*", help="parts of their names (default: all)")
    parser.add_argument("--dtypes", nargs="+", choices=DTYPES, default=list(DTYPES))
    parser.add_argument("--again", action="store_true", help="also those that were answered")
    parser.add_argument("--page", action="store_true", help="write the page of what was answered, and ask no more")
    parser.add_argument("--alone", metavar="PAIR", help="one pair in this process, with the whole answer")
    parser.add_argument("--copy", type=Path, metavar="FOLDER", help="with --alone: copy the library there, with the changes")
    options = parser.parse_args()
    if options.alone:
        alone(next(pair for pair in PAIRS if pair.name == options.alone), options.dtypes[0], options.copy)
        return 0
    if options.page:
        places = [(pair, dtype, answers_file(pair, dtype)) for pair in PAIRS for dtype in DTYPES]
        rows = [(pair, dtype, json.loads(place.read_text("utf-8"))) for pair, dtype, place in places if place.exists()]
        PAGE.write_text(page(rows), "utf-8")
        return int(any("failed" in answer for _, _, answer in rows))
    console = Console()
    chosen = [pair for pair in PAIRS if not options.pairs or any(part in pair.name for part in options.pairs)]
    rows: list[Row] = []
    for row in each(console, chosen, options.dtypes, again=options.again):
        rows.append(row)
        console.print(row[0].name, *cells(*row[1:]), sep=" | ", markup=False, highlight=False, soft_wrap=True)
    if not options.pairs:
        PAGE.write_text(page(rows), "utf-8")
    return int(any("failed" in answer for _, _, answer in rows))


if __name__ == "__main__":
    sys.exit(main())
