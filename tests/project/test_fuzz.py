"""Random programs are the same under the shim; and the machinery that says so sees a difference."""

import json
import random
import subprocess
from collections import Counter
from pathlib import Path

import forked
import paddle
import pytest
from fuzz import FOUND, RUNNING, blocks
from fuzz.blocks import Block
from fuzz.calls import templated
from fuzz.check import Failure, Trial, quiet
from fuzz.execute import NATIVE, Plan, run, whole
from fuzz.generate import Program
from fuzz.known import KNOWN, LISTED, unused
from fuzz.programs import drawn
from fuzz.progress import Progress
from fuzz.shrink import smallest
from fuzz.source import alone
from fuzz.tables import TEMPLATES
from fuzz.words import Nothing

from padiff_shim import testing


def failures(numbers):
    records = [*Block(numbers, "0", 12).records()]
    assert [record["program"] for record in records] == [*numbers]
    return [record["failure"] for record in records if "failure" in record]


def test_random_programs():
    assert failures(range(32)) == []


@pytest.mark.slow
@pytest.mark.parametrize(("first", "last"), [(32, 300), (300, 500)])
def test_hundreds_of_random_programs(first, last):
    assert failures(range(first, last)) == []


def test_the_templates_are_of_nearly_nine_hundred_apis():
    assert len({name for template in TEMPLATES for name in template.apis}) > 880
    assert len({template.text for template in TEMPLATES}) == len(TEMPLATES)


def ran(template, seed):
    """Whether a program that begins with this template runs without an error."""
    choose = random.Random(seed).randrange
    program = Program(choose, Progress(), ())
    program.pick = lambda options: template if options is TEMPLATES else options[choose(len(options))]
    try:
        templated(program)
    except Nothing:
        return False
    return bool(program.lines) and run(program.lines, NATIVE).errors == []


@pytest.mark.slow
def test_every_template_runs_natively():
    with quiet():
        idle = [template.text for template in TEMPLATES if not any(ran(template, seed) for seed in range(60))]
    assert idle == []


@pytest.mark.parametrize("number", [2, 3, 15])
def test_a_seed_draws_the_same_program_again(number):
    with quiet():
        programs = [drawn("7", number, 12, Progress()) for _ in range(2)]
        other = drawn("8", number, 12, Progress())
    assert programs[0] == programs[1]
    assert programs[0].lines != other.lines


@pytest.mark.parametrize("number", [2, 3, 15])
def test_a_program_runs_alone(number):
    with quiet():
        lines = drawn("7", number, 12, Progress()).lines
        native = run(lines, NATIVE)
    variables = [name for name, facts in native.values.items() if name.startswith("t") and "value" in facts]
    printing = [f"print({name!r}, list({name}.shape))" for name in variables]
    done = forked.run(["-c", "\n".join([alone(lines, {line for line, *_ in native.errors}), *printing])])
    assert done.returncode == 0, done.stderr[-2000:]
    shapes = [f"{name} {native.values[name]['shape']}" for name in variables]
    assert done.stdout.splitlines()[-len(shapes) :] == shapes


def ending(monkeypatch, plan, numbers):
    """Processes that run two programs and end in the third, which ``numbers`` says."""

    def run_worker(arguments, **_):
        folder, first = Path(arguments[2]), int(arguments[4])
        done = [] if first else [{"program": number, "lines": 1, "counts": {}} for number in range(2)]
        (folder / FOUND).write_text("".join(json.dumps(record) + "\n" for record in done))
        (folder / RUNNING).write_text(f"{numbers[0] if not first else 9}\n{plan}\nt1 = make([3])\nt2 = paddle.tanh(t1)")
        if first:
            (folder / FOUND).write_text(json.dumps({"program": first, "lines": 1, "counts": {}}) + "\n")
        return subprocess.CompletedProcess([], 0 if first else -11, "", "SIGSEGV")

    monkeypatch.setattr(blocks.forked, "run", run_worker)


@pytest.mark.parametrize(
    ("plan", "number", "kind"),
    [
        ("compare() around all {}", 2, "compare(): ended the process with status -11: paddle.tanh"),
        (blocks.DRAWN, 2, None),
        ("native", 2, None),
        ("native", 1, "natively: ended the process with status -11: paddle.tanh"),  # between two programs
    ],
)
def test_a_program_that_ends_its_process_is_a_failure_unless_it_does_natively(monkeypatch, plan, number, kind):
    ending(monkeypatch, plan, [number])
    records = [*Block(range(4), "0", 12).records()]
    assert [record["program"] for record in records] == [0, 1, 2, 3]
    assert [record.get("failure", {}).get("kind") for record in records] == [None, None, kind, None]
    assert list(records[2]["counts"]) == ([] if kind else ["Paddle ended the process natively: paddle.tanh"])


PROGRAM = ["t1 = make([3, 4], 'float32', 1, True)", "t2 = paddle.tanh(t1)", "t2.sum().backward()"]
# What a shim that does harm might do, written into the program itself.
HARM = {
    "value": "t3 = paddle.tanh(t1) * (1.01 if modes.top() else 1.0)",
    "grad": "(t2 * (1.01 if modes.top() else 1.0)).sum().backward()",
    "errors": "assert not modes.top()",
    "stop_gradient": "t2.stop_gradient = modes.top() is not None",
    "seen": "t1.register_hook(watch('t1')) if modes.top() else None; t2.sum().backward()",
    "left behind": "paddle.set_grad_enabled(False) if modes.top() else None",
}


def differing(plan, *more):
    with quiet(), paddle.enable_grad():
        trial = Trial([*PROGRAM[:2], *more, *PROGRAM[2:]], Progress(), Counter())
        return (trial if plan.exact else trial.within()[0]).differing(plan)


@pytest.mark.parametrize("kind", ["compare", "reference"])
@pytest.mark.parametrize("what", HARM)
def test_harm_is_seen(kind, what):
    lines = ("from padiff_shim.dispatch import frames as modes", HARM[what])
    assert any(what in line for line in differing(whole(kind), *lines))


@pytest.mark.parametrize("gradients", [False, True])
def test_an_accusation_is_seen(gradients):
    with testing.planted("tanh", lambda tensor, *_: tensor * 0.5, side="torch", gradients=gradients):
        assert any(line.startswith("accused") for line in differing(whole("compare")))
    assert differing(whole("compare")) == []


def test_a_mode_that_is_left_open_or_closed_early_changes_nothing():
    assert differing(Plan("around the backward", {2: [("open", "reference", "m0", "")]})) == []
    assert differing(Plan("around the forward", {0: [("open", "reference", "m0", "")], 2: [("close", "m0")]})) == []


def test_a_failure_is_shrunk_to_the_lines_that_it_needs():
    lines = [
        "from padiff_shim.dispatch import frames as modes",
        *PROGRAM[:2],
        HARM["value"],
        "t4 = t3 * 2",
        "t5 = t1 + t2",
        PROGRAM[2],
    ]
    plan = Plan("reference", {1: [("open", "reference", "m0", "")]})
    with quiet():
        small = smallest(Failure(lines, plan, ["t3.value: natively 1, here 2"]))
    assert small.lines == [lines[number] for number in (0, 1, 3)]
    assert small.plan.events == {1: plan.events[1]}


@pytest.mark.parametrize(("factor", "explained"), [(1.0 + 2.0**-21, True), (1.001, False)])
@pytest.mark.parametrize("line", ["t3 = t2 * {}", "(t2 * {}).sum().backward()"])
def test_rounding_explains_a_few_roundoffs_and_no_more(line, factor, explained):
    lines = [*PROGRAM[:2], line.format(f"({factor} if modes.top() else 1.0)")]
    assert (differing(whole("reference"), "from padiff_shim.dispatch import frames as modes", lines[-1]) == []) is explained


CANCELLED = ["t1 = make([64], 'float32', 1, True)", "t2 = (t1 + 1000.0).sum() - 1000.0 * 64", "t3 = t2 * {}"]


def test_rounding_is_measured_in_the_program():
    """What is left of a sum is a thousand times less exact than the sum; a float64 program allows no more for it."""
    factor = "(1.0001 if modes.top() else 1.0)"
    for dtype, explained in (("float32", True), ("float64", False)):
        lines = [
            "from padiff_shim.dispatch import frames as modes",
            *(line.format(factor).replace("float32", dtype) for line in CANCELLED),
        ]
        with quiet():
            trial = Trial(lines, Progress(), Counter())
            assert (trial.differing(whole("reference")) == []) is explained


def test_a_long_run_needs_every_known_difference():
    assert unused({entry.reason: 1 for entry in (*KNOWN, *LISTED)}) == []
    assert unused({entry.reason: 1 for entry in KNOWN[1:]} | {entry.reason: 1 for entry in LISTED}) == [KNOWN[0].reason]
    assert len({entry.reason for entry in (*KNOWN, *LISTED)}) == len(KNOWN) + len(LISTED)
