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
        return trial.differing(plan or whole("reference")), trial.lines, trial.failed


def left_of(lines, differs, failed=True, changing=False):
    return unexplained(lines, differs, exact=False, failed=failed, changing=changing, counts={})


class Case(NamedTuple):
    """A program, and what differs in it.

    Attributes:
        lines: the program, in the first line of which t1 is made if none of its own does it.
        shows: what one difference begins with, or holds; "" if there is none.
        elsewhere: (old, new) in the lines of programs that explain the same differences not.
        otherwise: (old, new) in differences that are not explained, all or those that hold the old words.
        failed: whether a backward was refused.
        plan: under which modes it runs.
    """

    lines: str
    shows: str
    elsewhere: tuple[tuple[str, str], ...] = ()
    otherwise: tuple[tuple[str, str], ...] = ()
    failed: bool | None = False
    plan: Plan | None = None


PENALTY = "t2 = {}\nt3 = t2 * t5\nt4 = paddle.grad([t3.sum()], [t2], create_graph=True)[0]\nt4.sum().backward()"
STRIDED = "t2 = {}\nt3 = F.layer_norm(t2, t2.shape[-1])\nt2.add_(t3)\nt2.sum().backward()"
GONE = "(t1 * t1).sum().backward()\nt2 = t1.grad\n{} t2\nt1.sum().backward()"
NORM = (
    "t2 = make([4], 'float32', 2, True)\nt3 = F.layer_norm(t1, 4, t2, t2)\nt4 = paddle.exp(t3).sum()\nt5 = paddle.grad([t4], {})[0]"
)
STOPPED = "t2 = paddle.tanh(t1)\nt3 = recompute(block, t2, use_reentrant=True)\nt2.stop_gradient = {}\nt3.sum().backward()"
BROADCAST = "t2 = paddle.{}(t1)\nt3 = make([3, 1], 'float32', 3, True)\nt2[...] = t3\nt2.sum().backward()"
SIBLING = "t2, t3 = {}[:2]\nt4 = paddle.grad([t2.sum()], [t3], allow_unused=True)[0]"
SECOND = "t2 = paddle.square(t1)\nt2.{}()\nt3 = paddle.grad([t2.sum()], [t1], create_graph=True)[0]\nt3.sum().backward()"
NUMBER = "t1 = make([], 'float32', 1, True)\nt2 = paddle.grad([t1.sum()], [t1], create_graph=True)[0]\nt2.sum().backward()"
INTO_IT = f"{NUMBER}\nt3 = make([4], 'float32', 3)\nt3[0] = t2[0]\nt2.sum().backward()"
HALF = (
    "t2 = paddle.tanh(t1)\nt3 = paddle.exp(t2)\nt4 = t2.astype('float16')\nt5 = t4 + t3\nt6 = t5 + t4\n"
    "t7 = paddle.grad([t6.sum()], [t3], create_graph=True, allow_unused=True)[0]\nt8 = paddle.exp(t7)"
)
FORWARD = Plan("around the forward", {0: [("open", "reference", "m0", "")], 3: [("close", "m0")]})
BACKWARD = Plan("around the backward", {2: [("open", "reference", "m0", "")]})
FIRST = Plan("the first op alone", {0: [("open", "reference", "m0", "")], 2: [("close", "m0")]})
BEHIND = (
    "t2 = recompute(block, paddle.exp(t1), use_reentrant=False)\nt3 = paddle.exp(t1)\n"
    "paddle.autograd.backward([t3.sum(), t2.sum()])\nt4 = t1.grad"
)
MIXED = "t2 = make([3, 1], 'float32', 2, True)\nt3, t4 = Mix.apply(t1, t2)\n(t3 * t3).sum().backward()"
TYPES = (
    "t1 = make([2, 4, 3], 'float16', 1, True)\nt2 = make([4, 3], 'float32', 2, True)\nt3 = t1[::2]\nt3.add_(t2)\n"
    "t4 = paddle.exp(t3)\nt5 = paddle.tanh(t4)\nt6 = paddle.tanh(t2)"
)
ELSEWHERE = "t2 = paddle.tanh(t1)\nt2.sum().backward()\nt3 = paddle.tanh(t1)\nt3.sum().backward()"

CASES = {
    "gradients behind a refused recompute": Case(BEHIND, "t4.", failed=True, plan=BACKWARD),
    "a PyLayer's gradient may want none natively": Case(
        "t2 = Twice.apply(t1)\npaddle.exp(t2).sum().backward()\nt3 = t1.grad\nt4 = paddle.exp(t3)",
        "t3.stop_gradient: natively True, here False",
        elsewhere=(("Twice.apply", "paddle.exp"),),
    ),
    # Natively the first backward frees nothing here: its first node refuses it.
    "freed by a backward that an island refuses": Case(
        "t3 = paddle.exp(t1)\nt4 = t3 + t3\nt4[0] = t4[0]\nt4.sum().backward()\nt3.sum().backward()", "errors: ", failed=True
    ),
    "freed by a backward that only Paddle refuses": Case(
        "t3 = t1 * 1.0\nt3.multiply_(t3)\nt4 = paddle.exp(t3)\nt4.sum().backward()\nt3.sum().backward()", "errors: ", failed=True
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
    "an index into a number": Case(INTO_IT, "errors: ", otherwise=(("TensorWrappers", "other"),)),
    "a leaf without a name": Case(GONE.format("t1 +="), "t2.value: ", elsewhere=(("t1 +=", "t3 = t1 +"),)),
    "a leaf with its name": Case(GONE.format("t3 = t1 +"), ""),
    "a norm whose weight is not asked for": Case(NORM.format("[t1]"), "t5.value: ", elsewhere=(("t1, 4, t2, t2", "t1, 4"),)),
    "a norm whose weight is asked for": Case(NORM.format("[t1, t2]"), ""),
    "a recomputed operand that wants none any more": Case(STOPPED.format("True"), "errors: "),
    "a recomputed operand that wants one": Case(STOPPED.format("False"), ""),
    "a value that is broadcast as it is set": Case(
        BROADCAST.format("sin"), "errors: ", otherwise=(("Input dimension size should be equal to", ""),), failed=None
    ),
    "and of which Torch's backward reads the result": Case(
        BROADCAST.format("tanh"), "errors: ", otherwise=(("Input dimension size should be equal to", ""),), failed=None
    ),
    "a sum of gradients in float16": Case(
        HALF, "is not registered", otherwise=(("is not registered", "is not there"),), plan=FORWARD
    ),
    "a clear_grad that finds nothing": Case(
        "t2 = t1 // (t1.abs() + 0.5)\nt2.clear_grad()", "errors: ", otherwise=(("Detected nullptr grad", "other"),)
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
    "a dtype that a refused op in place leaves": Case(TYPES, ":"),
    "a second derivative through square_": Case(SECOND.format("square_"), ":"),
    "a second derivative through tanh_": Case(SECOND.format("tanh_"), ""),
    **{
        f"Paddle alone refuses a backward: {name}": Case(lines, "errors: natively [(", elsewhere=((lines, ELSEWHERE),), failed=True)
        for name, lines in {
            "a recurrence": "p2 = paddle.nn.GRU(4, 3)\nt3 = p2(t1.unsqueeze(0))[0]\nt4 = paddle.grad([t3.sum()], [t1])[0].sum()",
            "an instance norm": "p2 = paddle.nn.InstanceNorm1D(4)\n"
            "t3 = p2(t1.detach().unsqueeze(0).transpose([0, 2, 1]) * 1.0)\nt3.sum().backward()",
            "a jvp": "t2, t3 = paddle.incubate.autograd.jvp(paddle.sin, t1.detach())\nF.hardtanh(t3).sum().backward()",
            "a hook": "t2, t3 = paddle.cummin(t1, axis=1)\nh1 = t2.register_hook(watch('t2', 2.0))\n(t3 + 0.5).sum().backward()",
        }.items()
    },
}


@pytest.mark.parametrize("name", CASES)
def test_what_differs_is_explained_and_nothing_else(name):
    case = CASES[name]
    first = [] if case.lines.startswith("t1 = make") else PROGRAM[:1]
    differs, lines, failed = differences([*first, *case.lines.splitlines()], case.plan)
    assert bool(differs) is bool(case.shows)
    assert any(case.shows in difference for difference in differs) or not case.shows
    changing = case.plan is not None
    assert left_of(lines, differs, failed if case.failed is None else case.failed, changing) == []
    for old, new in case.elsewhere:
        others = [*first, *case.lines.replace(old, new).splitlines()]
        errors = [difference for difference in differs if case.lines != old or difference.startswith("errors")]
        assert left_of(others, errors, failed=False, changing=changing) == errors
    for old, new in case.otherwise:
        others = [difference.replace(old, new) for difference in differs]
        assert others != differs
        assert left_of(lines, others, failed=bool(failed and case.failed is None), changing=changing) != []


def test_of_two_reasons_to_refuse_a_backward_either_may_be_named():
    natively = (1, "SystemError", "(Fatal) The TensorWrappers of ExpGradNode do not exist.")
    here = (1, "RuntimeError", "(PermissionDenied) Tensor _ has been modified by an inplace operation.")
    texts = [f"errors: natively {[natively]}, here {errors}" for errors in ([here], [(1, "ValueError", "")], [(2, *here[1:])])]
    assert left_of(PROGRAM, texts) == texts[1:]


# Of t4 the graph is freed; t5 was written after t6 had read it.
REFUSED = ["t4 = paddle.exp(t1)", "t4.sum().backward()", "t5 = paddle.exp(t1)", "t6 = paddle.exp(t5)", "t5.tanh_()"]


@pytest.mark.parametrize("roots", [("t4",), ("t6",), ("t4", "t6"), ("t6", "t4")], ids=" ".join)
def test_a_backward_that_has_to_be_refused_is_refused(roots):
    lines = [PROGRAM[0], *REFUSED, f"paddle.autograd.backward([{', '.join(f'{root}.sum()' for root in roots)}])"]
    differs = differences(lines)[0]
    assert left_of(lines, differs) == []
    assert len(roots) == 2 or not any(difference.startswith("errors") for difference in differs)


@pytest.mark.parametrize(
    ("factor", "left"),
    [("make([4, 3], 'float32', 2, False)", 0), ("np.float32(0.75)", 0), ("make([4, 3], 'float32', 2, True)", 1)],
    ids=["another wants no gradient", "another is a number", "all want one"],
)
def test_a_product_may_be_written_where_torch_reads_it_not(factor, left):
    made = ["t3 = t1 * np.float32(0.75)"] if factor.startswith("np.") else [f"t2 = {factor}", "t3 = t1 * t2"]
    lines = [PROGRAM[0], *made, "t1[0].exp_()", "t3.sum().backward()"]
    refused = f"errors: natively [({len(lines) - 1}, 'RuntimeError', 'it has been modified by an inplace operation')], here []"
    assert len(left_of(lines, [refused])) == left


STEP = "o = paddle.optimizer.SGD(0.1, parameters=[t1]); o.step(); o.clear_grad()"


VALUES = "t1.value: natively [1.0], here [2.0]"


@pytest.mark.parametrize(
    ("lines", "left"),
    [([STEP, "t2.sum().backward()", STEP], 0), ([STEP, STEP], 1), (["t2.sum().backward()", STEP], 1)],
    ids=["between", "without a backward", "behind"],
)
def test_a_step_counts_as_a_write_where_a_backward_and_another_step_follow(lines, left):
    assert len(left_of([PROGRAM[0], "t2 = t1 / (t1.abs() + 0.5)", *lines], [VALUES], failed=False)) == left


def test_a_leafs_hook_may_see_two_parts_of_a_gradient_through_a_mode_that_was_closed():
    lines = [*PROGRAM[:2], "t1.register_hook(watch('t1'))", "t3 = paddle.exp(t2)", "(t3 * t1).sum().backward()"]
    differs = differences(lines, FIRST)[0]
    assert "seen[1] t1: only here" in differs
    assert left_of(lines, differs, failed=False, changing=True) == []
    assert left_of(lines, differs, failed=False) == differs
    others = [difference.replace(" t1", " t2") for difference in differs]
    assert left_of(lines, others, failed=False, changing=True) == others


def test_an_epsilon_that_is_rounded_is_known():
    of = "error 1.5e-14, bound 3.5e-15"
    kinds = (("float64", "paddle"), ("float32", "paddle"), ("float64", "torch"))
    texts = [
        f"accused: #7 layer_norm out [4, 3] {dtype} | WRONG [{side}] | <line 10>:1 in <module> | {of}" for dtype, side in kinds
    ]
    lines = ["t1 = make([3, 4], 'float64', 1, True)", "t2 = F.layer_norm(t1, 4)", "t3 = paddle.exp(t1)"]
    assert left_of(lines, texts, failed=False) == texts[1:]
    values = ["t2.value: natively 1.0, here 2.0", "t3.value: natively 1.0, here 2.0"]
    assert left_of(lines, values, failed=False) == values[1:]
    assert left_of([line.replace("64", "32") for line in lines], values, failed=False) == values


@pytest.mark.parametrize("wanted", ["create_graph=True", "retain_graph=True"])
def test_what_a_recomputed_block_gives_as_a_leaf_is_not_written_natively(wanted):
    lines = [
        "t1 = make([3, 4], 'float32', 1, True)",
        "t3 = paddle.exp(t1)",
        "t4 = recompute(block, t3, use_reentrant=True)",
        f"t5 = paddle.grad([t4.sum()], [t3], {wanted})[0]",
        "t5[0] = 0.5",
    ]
    refused = [(4, "ValueError", "(InvalidArgument) Leaf Tensor () that doesn't stop gradient can't use inplace strategy.")]
    differs = [f"errors: natively {refused}, here []", "t5.inplace_version: natively 0, here 1"]
    assert left_of(lines, differs, failed=False) == (differs if "retain" in wanted else [])


@pytest.mark.parametrize(
    ("case", "others"),
    [
        ("a second derivative through tanh_", ["t1.grad: natively 1.0, here 2.0"]),
        ("a dtype that a refused op in place leaves", ["t6.value: natively 1.0, here 2.0"]),
        ("a gradient of the shape that was broadcast to", ["t2.grad: natively [[1.0]], here [[2.0]]"]),
    ],
)
def test_what_none_of_the_lines_explains_is_left(case, others):
    lines = CASES[case].lines.splitlines()
    lines = lines if lines[0].startswith("t1 = make") else [PROGRAM[0], *lines]
    assert left_of(lines, others, failed=False) == others
