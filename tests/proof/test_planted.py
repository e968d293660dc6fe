"""The mistakes that the demo plants still have their place in the models of the zoo."""

import importlib
import re
import sys
from pathlib import Path

import pytest
from helpers import sampled

sys.path.append(str(Path(__file__).resolve().parents[2] / "examples"))
demo = importlib.import_module("demo_prove")
training = importlib.import_module("demo_prove_training")
arguments = importlib.import_module("planted_arguments")
lines = importlib.import_module("planted_lines")
PLANTS = {f"{plant.op.name}-{plant.argument}": plant for plant in arguments.plants()}


@pytest.mark.parametrize("model", demo.MODELS)
def test_each_mistake_changes_the_paddle_half(model):
    module = importlib.import_module(f"zoo.{model}")
    source = Path(module.__file__).read_text(encoding="utf-8").partition("class Torch")[0]
    assert len(demo.MODELS[model]) >= 15
    for row in demo.MODELS[model]:
        assert row.change or (row.old in source and row.new != row.old), row.name
    assert {*demo.TOGETHER[model]} <= {row.name for row in demo.MODELS[model]}


@pytest.mark.parametrize(
    ("model", "name"), [("gpt", "gelu by erf"), ("gpt", "weight not taken over"), ("bert", "mask the other way round")]
)
def test_a_row_of_the_demo(model, name, tmp_path):
    (planted,) = (row for row in demo.MODELS[model] if row.name == name)
    row = demo.wrong_port(model, [planted], tmp_path)
    assert (row.located, row.named) == ((True,), (True,))


@pytest.mark.usefixtures("undone")
@pytest.mark.parametrize("name", ["kl_div-reduction", "leaky_relu-negative_slope", "softmax-axis"])
def test_what_is_written_for_a_wrong_argument_mends_it(name):
    """`examples/planted_arguments.py` counts them all."""
    answer = arguments.answered(PLANTS[name])
    assert answer is not None
    assert answer.mended, answer


@pytest.mark.rows(9)
@pytest.mark.filterwarnings("ignore")
@pytest.mark.usefixtures("undone")
@pytest.mark.parametrize("name", sampled(lines.LINES, 16))
def test_what_is_written_for_wrong_lines_mends_them(name, tmp_path):
    assert lines.steps_to_mend(name, tmp_path)


def test_the_page_has_a_row_for_each_family_with_every_argument():
    """`examples/planted_arguments.py --table` writes it."""
    page = (Path(__file__).resolve().parents[2] / "docs" / "prove.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| (\w+) \| (.*) \|$", page.partition("| family |")[2].partition("###")[0], re.MULTILINE)
    named = {
        (name, word)
        for _, cells in rows
        for name, words in re.findall(r"`(\w+)` ([\w, ()]+)", cells)
        for word in re.findall(r"\w+", words)
    }
    planted = {(plant.function.__name__.strip("_"), plant.argument) for plant in PLANTS.values()}
    assert len(named & planted) >= 150, planted - named  # the others give whole numbers, or the same with another value
    assert {family for family, _ in rows} <= set(arguments.families())


@pytest.mark.slow
def test_a_training_of_the_demo():
    (planted,) = (row for row in training.MISTAKES if row.name == "no clipping")
    assert training.training("gpt", planted).good
