"""Public questions about differences between Paddle and Torch, rebuilt from their threads and answered by this library.

`python examples/demo_questions.py` answers all, `... 35123 609` some, `--verbose` prints what the library prints. `--page` writes
docs/measurements.md. Exit status 1: an answer is not the promised one.
"""

from __future__ import annotations

import argparse
import importlib
import sys
import warnings
from pathlib import Path
from typing import Any, NamedTuple

with warnings.catch_warnings():
    warnings.filterwarnings("ignore", message="No ccache found")  # Paddle's advice for compiling; nothing is compiled here
    import paddle
import torch
from questions import Question
from rich.console import Console

import padiff_shim
from padiff_shim.progress import Waiting

FOLDER = Path(__file__).with_name("questions")
PAGE = Path(__file__).resolve().parents[1] / "docs" / "measurements.md"
ORDER = (
    "paddle_35123",
    "paddle_52599",
    "paddle_35118",
    "paddle_67238",
    "paddle_56834",
    "paddle_34763",
    "paddle_75041",
    "paddlescience_868",
    "paddle_35498",
    "x2paddle_609",
    "paddle_45780",
    "paddle_45825",
    "paddle_48596",
    "paddle_36746",
    "paddle_36781",
    "paddle_26578",
    "paddle_42979",
)
HEAD = """\
## Public questions
Users asked in public issue trackers why Paddle and Torch differ. A script of at most 30 lines in
[examples/questions](../examples/questions) rebuilds each thread and asks `compare` or `prove`: `make demo-questions`, or
`python examples/demo_questions.py --verbose 35123 609` for some. Where a thread needs another machine, mostly a GPU, the script
emulates it in place of Paddle's kernel (`padiff_shim.testing.planted`). Where the answer is rounding, the last column is the
smallest safe `atol` for a test of that call (within a factor of two).

"""


class Answer(NamedTuple):
    """What the library said."""

    verdict: str
    headline: str
    printed: str
    allowed: float | None


def question(name: str) -> Any:
    """The module of a question."""
    return importlib.import_module(f"questions.{name}")


def answered(name: str) -> Answer:
    """Ask, and read the last answer."""
    answer = question(name).ask()
    last = answer[-1]
    printed = "\n".join(map(str, answer))
    if isinstance(last, padiff_shim.Proof):
        return Answer(str(last.verdict), last.headline, printed, None)
    findings = [finding for finding in last.by_line() if not finding.apart]
    verdict = str(findings[0].worst["verdict"]) if findings else "ROUNDING"
    largest = last.rounding(1)
    return Answer(verdict, last.headline, printed, largest[0].stats.get("allowed") if largest else None)


def missing(question: Question, answer: Answer) -> list[str]:
    """What was promised, and is not so."""
    lacking = [f"{quote!r} is not printed" for quote in question.quotes if quote not in answer.printed]
    if answer.verdict != question.verdict:
        lacking.append(f"the verdict is {answer.verdict}, not {question.verdict}")
    if question.tolerance is not None:
        allowed = answer.allowed or 0.0
        if not question.tolerance / 2 <= allowed <= question.tolerance * 2:
            lacking.append(f"the tolerance is {allowed:.2g}, not {question.tolerance:.2g}")
    return lacking


def page() -> str:
    """The last section of docs/measurements.md."""
    rows = []
    for name in ORDER:
        asked_question = question(name).QUESTION
        tolerance = "" if asked_question.tolerance is None else f"{asked_question.tolerance:.1e}"
        thread = f"[{asked_question.thread}]({asked_question.link})<br>{asked_question.title}"
        rows.append(f"| {thread} | {asked_question.saw} | {asked_question.verdict} | {asked_question.answer} | {tolerance} |\n")
    head = ("| thread | what was seen | verdict | answer | atol needed |\n", "|---|---|---|---|---:|\n")
    return "".join((HEAD, *head, *rows))


def chosen(wanted: list[str]) -> list[str]:
    """Names of questions by their numbers or names.

    Raises:
        ValueError: there is none of that name.
    """
    chosen = []
    for word in wanted:
        names = [name for name in ORDER if word in (name, name.partition("_")[2])]
        if not names:
            raise ValueError(f"there is no question {word!r}; there are {', '.join(ORDER)}")
        chosen += names
    return chosen or list(ORDER)


def main() -> int:
    """Ask all, print the answers."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("questions", nargs="*", help="numbers of threads (default: all)")
    parser.add_argument("--verbose", action="store_true", help="print all that the library prints")
    parser.add_argument("--page", action="store_true", help="write its section of docs/measurements.md, and ask nothing")
    options = parser.parse_args()
    if options.page:
        text = PAGE.read_text(encoding="utf-8")
        PAGE.write_text(text[: text.index("## Public questions")] + page(), encoding="utf-8")
        return 0
    try:
        names = chosen(options.questions)
    except ValueError as error:
        parser.error(str(error))
    torch.set_num_threads(1)
    warnings.filterwarnings("ignore", message="When training, we now always track")  # Paddle's BatchNorm says so at every call
    paddle.set_device("cpu")
    console, wrong = Console(highlight=False, markup=False), 0
    for name in names:
        asked_question = question(name).QUESTION
        with Waiting(f"asking {asked_question.thread}"):
            answer = answered(name)
        console.rule(f"{asked_question.thread}: {asked_question.title}")
        console.print(
            f"seen:   {asked_question.saw}" + (f"\nhere:   emulated: {asked_question.emulated}" if asked_question.emulated else "")
        )
        console.print(answer.printed if options.verbose else f"says:   {answer.headline}", style="" if options.verbose else "bold")
        console.print(f"that is: {asked_question.answer}")
        lacking = missing(asked_question, answer)
        wrong += bool(lacking)
        for line in lacking:
            console.print(f"NOT AS PROMISED: {line}", style="red")
    console.rule()
    console.print(f"{len(names) - wrong} of {len(names)} questions answered as docs/measurements.md promises.")
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main())
