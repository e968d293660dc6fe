"""Public questions: every script runs, and answers what docs/measurements.md promises of it on any machine."""

import ast
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "examples"))

import demo_questions as demo  # noqa: E402

pytestmark = pytest.mark.usefixtures("undone")


@pytest.mark.bitexact
@pytest.mark.parametrize("name", demo.ORDER)
def test_a_question_is_answered_as_promised(name):
    answer = demo.answered(name)
    assert demo.missing(demo.question(name).QUESTION, answer) == [], answer.printed
    assert answer.headline in answer.printed


def test_every_script_is_asked_and_the_page_is_what_they_say():
    names = {path.stem for path in demo.FOLDER.glob("*_*.py") if not path.stem.startswith("_")}
    assert names == set(demo.ORDER)
    assert len(demo.ORDER) >= 15
    assert demo.PAGE.read_text(encoding="utf-8").endswith(demo.page()), "python examples/demo_questions.py --page writes it"


@pytest.mark.parametrize("name", demo.ORDER)
def test_a_question_is_rebuilt_in_thirty_lines(name):
    source = (demo.FOLDER / f"{name}.py").read_text()
    (about,) = (
        node
        for node in ast.parse(source).body
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name) and node.targets[0].id == "QUESTION"
    )
    lines = range(about.lineno - 1, about.end_lineno or 0)
    code = [line for place, line in enumerate(source.splitlines()) if line.strip() and place not in lines]
    assert len(code) <= 30


def test_what_is_not_as_promised_is_told():
    question = demo.question("paddle_34763").QUESTION
    wrong = demo.Answer("ROUNDING", "", "nothing", 1.0)
    assert len(demo.missing(question, wrong)) == len(question.quotes) + 1
    assert demo.missing(question._replace(quotes=(), verdict="ROUNDING", tolerance=0.4), wrong) == ["the tolerance is 1, not 0.4"]
