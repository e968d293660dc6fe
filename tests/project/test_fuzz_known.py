"""Differences of random programs that are known: each entry explains its own, and no other."""

from collections import Counter
from typing import NamedTuple

import paddle
import pytest
from fuzz.check import Trial, quiet
from fuzz.execute import Plan, whole
from fuzz.known import unexplained
from fuzz.progress import Progress

PROGRAM = ["t1 = make([3, 4], 'float32', 1, True)", "t2 = paddle.tanh(t1)", "t2.sum().backward()"]


def differences(lines, plan=None):
    with quiet(), paddle.enable_grad():
        trial = Trial(lines, Progress(), Counter()).within()[0]
        return trial.differing(plan or whole("reference")), trial.lines


def left_of(lines, differs, changing=False):
    return unexplained(lines, differs, exact=False, changing=changing, counts={})


class Case(NamedTuple):
    """A program, and what differs in it.

    Attributes:
        lines: the program, in the first line of which t1 is made if none of its own does it.
        shows: what one difference begins with, or holds; "" if there is none.
        elsewhere: (old, new) in the lines of programs that explain the same differences not.
        otherwise: (old, new) in differences that are not explained, all or those that hold the old words.
        plan: under which modes it runs.
    """

    lines: str
    shows: str
    elsewhere: tuple[tuple[str, str], ...] = ()
    otherwise: tuple[tuple[str, str], ...] = ()
    plan: Plan | None = None


PENALTY = "t2 = {}\nt3 = t2 * t5\nt4 = paddle.grad([t3.sum()], [t2], create_graph=True)[0]\nt4.sum().backward()"
STRIDED = "t2 = {}\nt3 = F.layer_norm(t2, t2.shape[-1])\nt2.add_(t3)\nt2.sum().backward()"
GONE = "(t1 * t1).sum().backward()\nt2 = t1.grad\n{} t2\nt1.sum().backward()"
NORM = (
    "t2 = make([4], 'float32', 2, True)\nt3 = F.layer_norm(t1, 4, t2, t2)\nt4 = paddle.exp(t3).sum()\nt5 = paddle.grad([t4], {})[0]"
)
SIBLING = "t2, t3 = {}[:2]\nt4 = paddle.grad([t2.sum()], [t3], allow_unused=True)[0]"
SECOND = "t2 = paddle.square(t1)\nt2.{}()\nt3 = paddle.grad([t2.sum()], [t1], create_graph=True)[0]\nt3.sum().backward()"
HALF = (
    "t2 = paddle.tanh(t1)\nt3 = paddle.exp(t2)\nt4 = t2.astype('float16')\nt5 = t4 + t3\nt6 = t5 + t4\n"
    "t7 = paddle.grad([t6.sum()], [t3], create_graph=True, allow_unused=True)[0]\nt8 = paddle.exp(t7)"
)
FORWARD = Plan("around the forward", {0: [("open", "reference", "m0", "")], 3: [("close", "m0")]})
MIXED = "t2 = make([3, 1], 'float32', 2, True)\nt3, t4 = Mix.apply(t1, t2)\n(t3 * t3).sum().backward()"

CASES = {
    "a PyLayer's gradient may want none natively": Case(
        "t2 = Twice.apply(t1)\npaddle.exp(t2).sum().backward()\nt3 = t1.grad\nt4 = paddle.exp(t3)",
        "t3.stop_gradient: natively True, here False",
        elsewhere=(("Twice.apply", "paddle.exp"),),
    ),
    "a second derivative that Torch has not": Case(
        "t5 = make([3, 4], 'float32', 2, True)\n" + PENALTY.format("paddle.exp(t1)"),
        "t1.grad: natively zeros, here None",
        otherwise=(("zeros", "an array"),),
    ),
    "a second derivative that Paddle has not": Case(
        "t2 = paddle.tanh(t1)\nt3 = t2.abs() + 0.5\n"
        "t4 = paddle.grad([t3.sum()], [t2], create_graph=True)[0]\npaddle.exp(t4).sum().backward()",
        "t1.grad: natively None, here zeros",
        elsewhere=(("t2.abs()", "t2 ** 2"),),
    ),
    "a strided operand, backwards": Case(STRIDED.format("t1[..., ::-1]"), "errors: "),
    "a strided operand, turned": Case(STRIDED.format("t1.transpose([1, 0])"), "errors: "),
    "an operand that lies densely": Case(STRIDED.format("paddle.exp(t1)"), ""),
    "a leaf without a name": Case(GONE.format("t1 +="), "t2.value: ", elsewhere=(("t1 +=", "t3 = t1 +"),)),
    "a leaf with its name": Case(GONE.format("t3 = t1 +"), ""),
    "a norm whose weight is not asked for": Case(NORM.format("[t1]"), "t5.value: ", elsewhere=(("t1, 4, t2, t2", "t1, 4"),)),
    "a norm whose weight is asked for": Case(NORM.format("[t1, t2]"), ""),
    "a sum of gradients in float16": Case(
        HALF, "is not registered", otherwise=(("is not registered", "is not there"),), plan=FORWARD
    ),
    "another result of unbind": Case(
        SIBLING.format("paddle.unbind(t1, axis=1)"), ":", elsewhere=(("paddle.unbind(t1, axis=1)", "(t1, t1)"),)
    ),
    "another result of vsplit": Case(
        SIBLING.format("paddle.vsplit(t1, 3)"), ":", elsewhere=(("paddle.vsplit(t1, 3)", "(t1, t1)"),)
    ),
    "another result of no call": Case(SIBLING.format("(t1 * 1.0, t1 * 2.0)"), ""),
    "a gradient of the shape that was broadcast to": Case(
        f"t1 = make([2, 3, 4], 'float32', 1, True)\n{MIXED}",
        "t2.grad's dtype and shape",
        otherwise=(("t2", "t3"), ("2, 3, 4", "2, 4, 4")),
    ),
    "a second derivative through square_": Case(SECOND.format("square_"), ":"),
    "a second derivative through tanh_": Case(SECOND.format("tanh_"), ""),
}


@pytest.mark.parametrize("name", CASES)
def test_what_differs_is_explained_and_nothing_else(name):
    case = CASES[name]
    first = [] if case.lines.startswith("t1 = make") else PROGRAM[:1]
    differs, lines = differences([*first, *case.lines.splitlines()], case.plan)
    assert bool(differs) is bool(case.shows)
    assert any(case.shows in difference for difference in differs) or not case.shows
    changing = case.plan is not None
    assert left_of(lines, differs, changing) == []
    for old, new in case.elsewhere:
        others = [*first, *case.lines.replace(old, new).splitlines()]
        assert left_of(others, differs, changing) == differs
    for old, new in case.otherwise:
        others = [difference.replace(old, new) for difference in differs]
        assert others != differs
        assert left_of(lines, others, changing) != []
