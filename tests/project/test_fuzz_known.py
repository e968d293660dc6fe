"""Differences of random programs that are known: each entry explains its own, and no other."""

from collections import Counter

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


def left_of(lines, differs, failed=True):
    return unexplained(lines, differs, exact=False, failed=failed, changing=False, counts={})


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


def test_what_was_made_of_gradients_behind_a_refused_recompute_goes_with_it():
    lines = [
        PROGRAM[0],
        "t2 = recompute(block, paddle.exp(t1), use_reentrant=False)",
        "t3 = paddle.exp(t1)",
        "paddle.autograd.backward([t3.sum(), t2.sum()])",
        "t4 = t1.grad",
    ]
    plan = Plan("around the backward", {2: [("open", "reference", "m0", "")]})
    differs = differences(lines, plan)[0]
    assert any(difference.startswith("t4.") for difference in differs)
    assert unexplained(lines, differs, exact=False, failed=True, changing=True, counts={}) == []


def test_a_gradient_that_a_pylayer_has_made_may_want_none_natively():
    lines = [PROGRAM[0], "t2 = Twice.apply(t1)", "paddle.exp(t2).sum().backward()", "t3 = t1.grad", "t4 = paddle.exp(t3)"]
    differs = differences(lines)[0]
    assert "t3.stop_gradient: natively True, here False" in differs
    assert left_of(lines, differs, failed=False) == []
    without = [line.replace("Twice.apply", "paddle.exp") for line in lines]
    assert left_of(without, differs, failed=False) == differs


# Natively the first backward frees nothing here: its first node refuses it.
FREED = {
    "an island refuses it": ["t3 = paddle.exp(t1)", "t4 = t3 + t3", "t4[0] = t4[0]", "t4.sum().backward()", "t3.sum().backward()"],
    "only Paddle refuses it": [
        "t3 = t1 * 1.0",
        "t3.multiply_(t3)",
        "t4 = paddle.exp(t3)",
        "t4.sum().backward()",
        "t3.sum().backward()",
    ],
}


@pytest.mark.parametrize("kind", FREED)
def test_what_a_refused_backward_has_freed_is_no_finding(kind):
    differs = differences([PROGRAM[0], *FREED[kind]])[0]
    assert any("errors: " in difference and "The TensorWrappers of" in difference.partition(", here ")[2] for difference in differs)
    assert left_of([PROGRAM[0], *FREED[kind]], differs) == []


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


PENALTY = ["t2 = paddle.exp(t1)", "t3 = t2 * {}", "t4 = paddle.grad([t3.sum()], [t2], create_graph=True)[0]", "t4.sum().backward()"]


def test_zeros_of_a_second_derivative_that_torch_has_not_are_known():
    lines = [PROGRAM[0], "t5 = make([3, 4], 'float32', 2, True)", *(line.format("t5") for line in PENALTY)]
    differs = differences(lines)[0]
    assert "t1.grad: natively zeros, here None" in differs
    assert left_of(lines, differs) == []
    lost = [difference.replace("zeros", "an array") for difference in differs]
    assert left_of(lines, lost, failed=False) == lost


def test_zeros_of_a_second_derivative_that_paddle_has_not_are_known():
    lines = [PROGRAM[0], "t2 = paddle.tanh(t1)", "t3 = t2.abs() + 0.5"]
    lines += ["t4 = paddle.grad([t3.sum()], [t2], create_graph=True)[0]", "paddle.exp(t4).sum().backward()"]
    differs = differences(lines)[0]
    assert "t1.grad: natively None, here zeros" in differs
    assert left_of(lines, differs, failed=False) == []
    squared = [line.replace("t2.abs()", "t2 ** 2") for line in lines]
    assert left_of(squared, differs, failed=False) == differs


STEP = "o = paddle.optimizer.SGD(0.1, parameters=[t1]); o.step(); o.clear_grad()"


VALUES = "t1.value: natively [1.0], here [2.0]"


@pytest.mark.parametrize(
    ("lines", "left"),
    [([STEP, "t2.sum().backward()", STEP], 0), ([STEP, STEP], 1), (["t2.sum().backward()", STEP], 1)],
    ids=["between", "without a backward", "behind"],
)
def test_a_step_counts_as_a_write_where_a_backward_and_another_step_follow(lines, left):
    assert len(left_of([PROGRAM[0], "t2 = t1 / (t1.abs() + 0.5)", *lines], [VALUES], failed=False)) == left


STRIDED = ["t2 = {}", "t3 = F.layer_norm(t2, t2.shape[-1])", "t2.add_(t3)", "t2.sum().backward()"]


@pytest.mark.parametrize("view", ["t1[..., ::-1]", "t1.transpose([1, 0])", "paddle.exp(t1)"])
def test_a_strided_operand_of_which_paddle_keeps_a_copy_may_be_refused(view):
    lines = [PROGRAM[0], *(line.format(view) for line in STRIDED)]
    differs = differences(lines)[0]
    assert bool(differs) is ("exp" not in view)
    assert left_of(lines, differs, failed=False) == []


NUMBER = ["t1 = make([], 'float32', 1, True)", "t2 = paddle.grad([t1.sum()], [t1], create_graph=True)[0]", "t2.sum().backward()"]


def test_an_index_into_a_number_beside_another_difference_is_known():
    lines = [*NUMBER, "t3 = make([4], 'float32', 3)", "t3[0] = t2[0]", NUMBER[-1]]
    differs = differences(lines)[0]
    assert [difference.partition(":")[0] for difference in differs] == ["errors"]
    assert left_of(lines, differs, failed=False) == []
    other = differs[0].replace("TensorWrappers", "other")
    assert left_of(lines, [other], failed=False) == [other]


GONE = ["(t1 * t1).sum().backward()", "t2 = t1.grad", "{} t2", "t1.sum().backward()"]


@pytest.mark.parametrize(("line", "same"), [("t1 +=", False), ("t3 = t1 +", True)])
def test_a_leaf_of_which_no_name_is_left_may_get_no_more_gradients(line, same):
    lines = [PROGRAM[0], *(part.format(line) for part in GONE)]
    differs = differences(lines)[0]
    assert [difference.partition(":")[0] for difference in differs] == ([] if same else ["t2.value"])
    assert left_of(lines, differs, failed=False) == []
    lines = [part.replace("t1 +=", "t3 = t1 +") for part in lines]
    assert left_of(lines, differs, failed=False) == differs


NORM = ["t2 = make([4], 'float32', 2, True)", "t3 = F.layer_norm(t1, 4, t2, t2)", "t4 = paddle.exp(t3).sum()"]


@pytest.mark.parametrize("wanted", ["[t1]", "[t1, t2]"])
def test_a_gradient_of_a_norm_whose_weight_is_not_asked_for_is_known(wanted):
    lines = [PROGRAM[0], *NORM, f"t5 = paddle.grad([t4], {wanted})[0]"]
    differs = differences(lines)[0]
    assert [difference.partition(":")[0] for difference in differs] == (["t5.value"] if "t2" not in wanted else [])
    assert left_of(lines, differs, failed=False) == []
    without = [line.replace("t1, 4, t2, t2", "t1, 4") for line in lines]
    assert left_of(without, differs, failed=False) == differs


WATCHED = ["{}.register_hook(watch('{}'))", "t3 = paddle.exp(t2)", "(t3 * t1).sum().backward()"]


def test_a_leafs_hook_may_see_two_parts_of_a_gradient_through_a_mode_that_was_closed():
    lines = [*PROGRAM[:2], *(line.format("t1", "t1") for line in WATCHED)]
    around = Plan("the first op alone", {0: [("open", "reference", "m0", "")], 2: [("close", "m0")]})
    differs = differences(lines, around)[0]
    assert "seen[1] t1: only here" in differs
    for changing, wanted in ((True, []), (False, differs)):
        assert unexplained(lines, differs, exact=False, failed=False, changing=changing, counts={}) == wanted
    others = [difference.replace(" t1", " t2") for difference in differs]
    assert unexplained(lines, others, exact=False, failed=False, changing=True, counts={}) == others


@pytest.mark.parametrize(("line", "same"), [("t2.stop_gradient = True", False), ("t2.stop_gradient = False", True)])
def test_a_recomputed_block_whose_operand_wants_no_gradient_any_more_fails_natively(line, same):
    lines = [*PROGRAM[:2], "t3 = recompute(block, t2, use_reentrant=True)", line, "t3.sum().backward()"]
    differs = differences(lines)[0]
    assert bool(differs) is not same
    assert left_of(lines, differs, failed=False) == []


@pytest.mark.parametrize("function", ["sin", "tanh"])  # of tanh Torch's backward reads the result, which is written
def test_a_value_that_is_broadcast_as_it_is_set_has_no_gradient_natively(function):
    lines = [PROGRAM[0], f"t2 = paddle.{function}(t1)", "t3 = make([3, 1], 'float32', 3, True)", "t2[...] = t3", PROGRAM[2]]
    differs, program, failed = differences(lines)
    assert unexplained(program, differs, exact=False, failed=failed, changing=False, counts={}) == []
    others = [line.replace("Input dimension size should be equal to", "") for line in differs]
    assert left_of(program, others, failed=False) == others


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


def test_a_sum_of_gradients_in_float16_may_be_met_where_paddle_prunes():
    lines = [
        PROGRAM[0],
        "t2 = paddle.tanh(t1)",
        "t3 = paddle.exp(t2)",
        "t4 = t2.astype('float16')",
        "t5 = t4 + t3",
        "t6 = t5 + t4",
        "t7 = paddle.grad([t6.sum()], [t3], create_graph=True, allow_unused=True)[0]",
        "t8 = paddle.exp(t7)",
    ]
    plan = Plan("around the forward", {0: [("open", "reference", "m0", "")], 3: [("close", "m0")]})
    differs = differences(lines, plan)[0]
    assert any("is not registered" in difference for difference in differs)
    assert unexplained(lines, differs, exact=False, failed=False, changing=True, counts={}) == []
    others = [difference.replace("is not registered", "is not there") for difference in differs]
    assert unexplained(lines, others, exact=False, failed=False, changing=True, counts={}) != []


def test_an_in_place_op_that_is_refused_may_leave_another_dtype():
    lines = [
        "t1 = make([2, 4, 3], 'float16', 1, True)",
        "t2 = make([4, 3], 'float32', 2, True)",
        "t3 = t1[::2]",
        "t3.add_(t2)",
        "t4 = paddle.exp(t3)",
        "t5 = paddle.tanh(t4)",
        "t6 = paddle.tanh(t2)",
    ]
    differs = differences(lines)[0]
    assert left_of(lines, differs, failed=False) == []
    other = "t6.value: natively 1.0, here 2.0"
    assert left_of(lines, [*differs, other], failed=False) == [other]


@pytest.mark.parametrize(("write", "left"), [("square_", False), ("tanh_", True)])
def test_a_second_derivative_through_an_in_place_op_is_known(write, left):
    line = "t3 = paddle.grad([t2.sum()], [t1], create_graph=True)[0]"
    lines = [PROGRAM[0], "t2 = paddle.square(t1)", f"t2.{write}()", line, "t3.sum().backward()"]
    differs = differences(lines)[0]
    assert bool(differs) is not left
    assert left_of(lines, differs, failed=False) == []
    other = "t1.grad: natively 1.0, here 2.0"
    assert left_of(lines, [other], failed=False) == ([other] if left else [])


def test_a_clear_grad_that_finds_nothing_natively_is_known():
    lines = [PROGRAM[0], "t2 = t1 // (t1.abs() + 0.5)", "t2.clear_grad()"]
    differs = differences(lines)[0]
    assert [difference.partition(":")[0] for difference in differs] == ["errors"]
    assert left_of(lines, differs, failed=False) == []
    others = [difference.replace("Detected nullptr grad", "other") for difference in differs]
    assert left_of(lines, others, failed=False) == others


@pytest.mark.parametrize("parts", ["paddle.unbind(t1, axis=1)", "paddle.vsplit(t1, 3)", "(t1 * 1.0, t1 * 2.0)"])
def test_a_gradient_by_another_result_of_a_call_is_known(parts):
    lines = [PROGRAM[0], f"t2, t3 = {parts}[:2]", "t4 = paddle.grad([t2.sum()], [t3], allow_unused=True)[0]"]
    differs = differences(lines)[0]
    assert bool(differs) is (" * " not in parts)
    assert left_of(lines, differs, failed=False) == []
    assert left_of([PROGRAM[0], "t2, t3 = t1, t1", lines[-1]], differs, failed=False) == differs


def test_a_pylayers_gradient_may_have_the_shape_that_its_operand_was_broadcast_to():
    lines = ["t1 = make([2, 3, 4], 'float32', 1, True)", "t2 = make([3, 1], 'float32', 2, True)"]
    lines += ["t3, t4 = Mix.apply(t1, t2)", "(t3 * t3).sum().backward()"]
    differs = differences(lines)[0]
    assert [difference.partition(": ")[0] for difference in differs] == ["t2.grad", "t2.grad's dtype and shape"]
    assert left_of(lines, differs, failed=False) == []
    for others in (
        [difference.replace("t2", "t3") for difference in differs],
        [difference.replace("2, 3, 4", "2, 4, 4") for difference in differs],
        ["t2.grad: natively [[1.0]], here [[2.0]]"],
    ):
        assert left_of(lines, others, failed=False) == others


REFUSED_NATIVELY = {
    "a recurrence": ["p2 = paddle.nn.GRU(4, 3)", "t3 = p2(t1.unsqueeze(0))[0]", "t4 = paddle.grad([t3.sum()], [t1])[0].sum()"],
    "an instance norm": [
        "p2 = paddle.nn.InstanceNorm1D(4)",
        "t3 = p2(t1.detach().unsqueeze(0).transpose([0, 2, 1]) * 1.0)",
        "t3.sum().backward()",
    ],
    "a jvp": ["t2, t3 = paddle.incubate.autograd.jvp(paddle.sin, t1.detach())", "F.hardtanh(t3).sum().backward()"],
    "a hook": ["t2, t3 = paddle.cummin(t1, axis=1)", "h1 = t2.register_hook(watch('t2', 2.0))", "(t3 + 0.5).sum().backward()"],
}


@pytest.mark.parametrize("kind", REFUSED_NATIVELY)
def test_what_paddle_alone_refuses_in_a_backward_is_known(kind):
    lines = [PROGRAM[0], *REFUSED_NATIVELY[kind]]
    differs = differences(lines)[0]
    assert any(difference.startswith("errors: natively [(") and difference.endswith("here []") for difference in differs)
    assert left_of(lines, differs) == []
    elsewhere = [*PROGRAM, "t3 = paddle.tanh(t1)", "t3.sum().backward()"]
    errors = [difference for difference in differs if difference.startswith("errors")]
    assert left_of(elsewhere, errors, failed=False) == errors
