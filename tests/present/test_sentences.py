"""Every sentence of a result passes through ``tr``, in a form from which a catalogue can be made."""

import ast
import re
import string
import sys

import messages
import parsed
import pytest
from formulations import formulations

from padiff_shim import language
from padiff_shim.text import capped, many, reader, tr

ROOMS = ("present", "report", "auditing", "proof/pages.py", "recording/pages.py", "questions")
# What documents are built of, and where a sentence stands among the arguments.
BLOCKS = {"Document": 0, "Paragraph": 0, "Section": 0, "Folded": 0, "Column": 0}
NAMES = {"a", "b", "paddle", "torch", "float64"}  # of things, in any language


def name_of(call):
    """The last part of what is called."""
    return getattr(call.func, "id", getattr(call.func, "attr", ""))


def calls():
    """(file, call, name of what is called) of these rooms."""
    for path, nodes in parsed.files("padiff_shim").items():
        if parsed.named(path).startswith(tuple(f"padiff_shim/{room}" for room in ROOMS)):
            yield from ((parsed.named(path), node, name_of(node)) for node in nodes if isinstance(node, ast.Call))


def fields(message):
    return {name for _, name, _, _ in string.Formatter().parse(message) if name is not None}


def test_messages_are_literals_with_named_fields():
    wrong, seen = [], 0
    for file, node, name in calls():
        if name != "tr":
            continue
        seen += 1
        (message,) = node.args
        passed = {keyword.arg for keyword in node.keywords}
        if isinstance(message, ast.Constant):
            right = fields(message.value) == passed if None not in passed else not any(map(str.isdigit, fields(message.value)))
        else:
            right = not isinstance(message, ast.JoinedStr)  # a word of a closed set, which is marked where it is defined
        if not right:
            wrong.append(f"{file}:{node.lineno}")
    assert seen > 150
    assert not wrong, wrong


def test_blocks_hold_no_bare_sentence():
    wrong = []
    for file, node, name in calls():
        if name in BLOCKS and len(node.args) > BLOCKS[name]:
            words = node.args[BLOCKS[name]]
            if isinstance(words, ast.JoinedStr) or (isinstance(words, ast.Constant) and words.value not in NAMES):
                wrong.append(f"{file}:{node.lineno}")
    assert not wrong, wrong


def runs_of(text, length=4):
    """Words that follow one another, without fields."""
    words = re.findall(r"[a-z][\w'.-]*|\{", text.lower())
    runs = (words[at : at + length] for at in range(len(words) - length + 1))
    return {" ".join(run) for run in runs if "{" not in run}


def test_sentences_of_results_are_pinned_by_no_other_test():
    """A better sentence costs no tests: they ask for verdict, cause, line and number; headlines.md has the headlines."""
    refusals = {*formulations(), *(text for text, _ in messages.declared())}  # and names, which are no sentences
    for nodes in parsed.files().values():
        for node in nodes:
            if isinstance(node, ast.Raise) or (isinstance(node, ast.Call) and name_of(node).endswith("Error")):
                refusals.update(part.value for part in ast.walk(node) if isinstance(part, ast.Constant))
    sentences = set()
    for (text, context), places in messages.messages().items():
        of_commands = all(name.startswith("padiff_shim/cli") for name, _ in places)
        if text not in refusals and context != language.LOGGED and not of_commands:
            sentences |= runs_of(text)
    pinned = []
    for path, nodes in parsed.files("tests").items():
        asserts = [node for node in nodes if isinstance(node, ast.Assert)] if path.parent.name != "present" else ()
        for part in (part for node in asserts for part in ast.walk(node.test)):
            text = part.value if isinstance(part, ast.Constant) and isinstance(part.value, str) else ""
            if text not in refusals and runs_of(text) & sentences:
                pinned.append(f"{parsed.named(path)}:{part.lineno}: {text}")
    assert not pinned, "\n".join(pinned)


def test_fields_are_filled_in_once():
    assert tr("{count:,} of {name}", count=2000, name="{count}") == "2,000 of {count}"
    assert tr("no {field}") == "no {field}"
    assert [many(1, "call"), many(2000, "call")] == ["1 call", "2,000 calls"]
    both = "result or gradient", "results and gradients"
    assert [many(1, *both), many(78, *both)] == ["1 result or gradient", "78 results and gradients"]


def test_digits_of_huge_ratios_are_left_out():
    ratios = 12, 1e6, 3.2e8, float("inf"), float("nan")
    assert [capped(ratio, f"{ratio:.2g}") for ratio in ratios] == ["12", "1e+06", "> 10^6", "inf", "nan"]


class Shouting:
    """A catalogue in which everything is translated."""

    def gettext(self, message):
        return re.sub(r"[a-z]+(?![^{]*\})", lambda word: word[0].upper(), message)

    def pgettext(self, context, message):
        return message.upper()


@pytest.mark.parametrize("name", ["compare", "reference"])
def test_a_catalogue_reaches_all_of_a_report(name, monkeypatch):
    from report_data import account_data

    from padiff_shim.present.text import render
    from padiff_shim.report import compare, reference
    from padiff_shim.runs.compare_run import CompareRun

    monkeypatch.setattr(sys, "argv", [])
    made = {
        "compare": lambda: compare.document(CompareRun()),
        "reference": lambda: reference.document(reference.ReferenceFigures(account_data())),
    }
    before = render(made[name](), 120)
    monkeypatch.setattr(language, "_catalogue", lambda name: Shouting())
    with reader("zh"):
        after = render(made[name](), 120)
    assert len(after.splitlines()) == len(before.splitlines())
    left = set(re.findall(r"[a-z]{4,}", after)) & set(re.findall(r"[a-z]{4,}", before))
    data = set(re.findall(r"\w+", "paddle torch train python blocks drop main forward uniformref dropout adamw gelu linear"))
    assert not {word for word in left - data if word not in str(account_data())}
