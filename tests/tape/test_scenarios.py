"""Programs of a few lines, run as random ones are: of what a mode holds of them, everything that can be seen is as natively.

Each is a kind that random programs draw too seldom: a write, a hook or a gradient that is asked for, beside a certain other one.
"""

import itertools
from collections import Counter

import numpy as np
import pytest
from fuzz.execute import NATIVE, Plan, differences, run, whole
from helpers import in_turn, needs

from padiff_shim.frameworks.versions import IS_3

pytestmark = [pytest.mark.compat, pytest.mark.usefixtures("undone")]
INSIDE, COMPARED = whole("reference"), whole("compare")
CARRIED = whole("compare", "carry='torch'")
OPEN, CLOSE = "+++", "---"  # where a mode begins that is not open from the first line on, and where it ends


def close(name, fact, natively, here):
    """Whether rounding explains a difference."""
    return (
        isinstance(natively, np.ndarray)
        and isinstance(here, np.ndarray)
        and (natively.shape, natively.dtype) == (here.shape, here.dtype)
        and np.allclose(here, natively, *((1e-9, 1e-7) if natively.dtype == "float64" else (1e-4, 1e-5)), equal_nan=True)
    )


def seen_of(lines, plan):
    """A run, in which what hooks were shown is counted tensor by tensor: of two that no way connects, either may be first."""
    outcome, counts, values = run(lines, plan), Counter(), {}
    for key, fact in outcome.values.items():
        if key.startswith("seen["):
            name = key.partition(" ")[2]
            key = f"{name}, shown {counts[name]}"
            counts[name] += 1
        values[key] = fact
    outcome.values = values
    return outcome


def check(text, *modes):
    """That a program does in each of these modes what it does natively."""
    lines, places = [], {OPEN: 0}
    for line in text.strip().splitlines():
        if line in (OPEN, CLOSE):
            places[line] = len(lines)
        else:
            lines.append(line)
    native = seen_of(lines, NATIVE)
    assert not native.errors or native.errors[0][1] not in ("NameError", "SyntaxError"), native.errors
    for mode in modes:
        events = {places[OPEN]: mode.events[0], **({places[CLOSE]: [("close", "m0")]} if CLOSE in places else {})}
        other = seen_of(lines, Plan(mode.name, events))
        assert differences(native, other, None if mode.exact else close) == [], mode


# --- whole programs, in float64 ---------------------------------------------------------------------------------------------

LEAVES = """
t1 = make([3, 4], 'float64', 1, True)
t2 = make([4, 2], 'float64', 2, True)
t3 = make([2, 2], 'float64', 3, True)
"""
PROGRAMS = {
    "accumulation": """
for factor in (1.0, 2.0): (t1 @ t2 * factor).sum().backward()
t1.clear_gradient()
t4 = paddle.tanh(t1 @ t2).sum()
t4.backward(retain_graph=True)
t5 = t1.grad.clone()
t4.backward(retain_graph=True)
t4.backward()
""",
    "freed": "t4 = (t1 * t1).exp().sum()\nt4.backward()\nt4.backward()",
    "stopped": """
t4 = t2.detach()
t5 = t1 @ t4
t6 = t5.detach() @ t3
with paddle.no_grad(): t7 = t1 @ t2
(t5.sum() + t6.sum()).backward()
t8, t9 = paddle.tanh(t4), t4 @ t3
""",
    "hooked": """
t4 = t1 * 2.0
t5 = t4 @ t2
for name, tensor in (('t1', t1), ('t4', t4), ('t5', t5)): tensor.register_hook(watch(name, 2.0))
t5.register_hook(watch('t5 again'))
t5.register_hook(lambda grad: grad * 100.0).remove()
F.softmax(t5).pow(2).sum().backward()
""",
    "retained": """
t4 = t1 @ t2
t5 = F.gelu(t4)
t4.retain_grads(); t5.retain_grads()
(t5 * t5).sum().backward()
""",
    "used twice": """
t4 = make([3, 3], 'float64', 4, True, 5.0)
t5 = make([3, 3], 'float64', 5)
p6 = [t4 @ t4, t4 + t4, t4 * t4, t4 / t4, t4 - t4, t4 ** (t4 / 5), t4 @ t4.t()]
n7 = [paddle.grad((part * t5).sum(), t4)[0].numpy() for part in p6]
""",
    "partial": """
t4 = t1 @ t2
t5 = (t4 * t4).mean()
t6 = paddle.grad(t5, [t2], retain_graph=True)[0]
n7 = [None if grad is None else grad.numpy() for grad in paddle.grad(t5, [t1, t3, t4], retain_graph=True, allow_unused=True)]
t8 = paddle.grad(t5, [t1, t3], retain_graph=True)[0]
t9 = paddle.grad([t4, t5], [t1], grad_outputs=[make([3, 2], 'float64', 4), None], retain_graph=True)[0]
""",
    "blocked by no_grad_vars": "t4 = paddle.grad(F.linear(t1, t2, t3[0]).sum(), [t1], no_grad_vars=[t2])[0]",
    "two losses": """
t4 = F.layer_norm(t1, [4])
t5, t6 = (t4 @ t2).sum(), (t4 @ t2 @ t3).exp().mean()
t5.backward(retain_graph=True)
t6.backward()
paddle.autograd.backward([paddle.tanh(t1).sum(), (t1 * t1).sum()], [None, None])
""",
    "branches that meet, and one to which no gradient comes": """
t4, t5, t6 = make([2, 1, 4], 'float64', 4, True, 4.0), make([3, 1], 'float64', 5, True), make([], 'float64', 6, True)
t7, t8 = paddle.exp(t4 / 4), paddle.tanh(t5)
t9 = t7 * t8
t9.stop_gradient = True
((t7 + t8) / (t9 + 9.0)).sum().backward(retain_graph=True)
(t7.logsumexp() + (t4 * t5 + t6 - t5 / t4).pow(2).mean()).backward()
""",
    "a generator and a critic": """
p4, p5 = layer(2, 3, 4), layer(3, 1, 5)
o, a = (paddle.optimizer.SGD(0.1, parameters=part.parameters()) for part in (p4, p5))
t6, t7 = make([5, 2], 'float32', 6), make([5, 3], 'float32', 7)
for _ in range(3): \
  (p5(paddle.tanh(p4(t6)).detach()).mean() - p5(t7).mean()).backward(); a.step(); a.clear_grad(); \
  (-p5(paddle.tanh(p4(t6))).mean()).backward(); o.step(); o.clear_grad(); a.clear_grad()
""",
    "a gradient penalty": """
t4 = paddle.tanh(t1 @ t2)
t5 = paddle.grad(t4, t1, create_graph=True)[0]
(t4.mean() + ((t5.pow(2).sum(axis=1).sqrt() - 1.0) ** 2).mean()).backward()
t6 = make([3, 2], 'float64', 6, True)
t7 = paddle.grad(paddle.tanh(t1 @ t2), t1, grad_outputs=t6, create_graph=True)[0]
t8 = paddle.grad((t7 * t7).sum(), t6)[0]
""",
    "a PyLayer": "Cube.apply(Cube.apply(t1) @ t2).sum().backward()",
    "a PyLayer that is walked again": """
t4 = Cube.apply(t1 * 2.0).sum()
t5, t6 = (paddle.grad(t4, [t1], retain_graph=True)[0] for _ in range(2))
t4.backward()
""",
    **{
        f"a PyLayer that returns {name}": f"""
t4 = t1 + 1.0
t5, t6 = Beside.apply(t1 * 2.0, t4, {marked})
(t5 * t6 + t4 * 3.0).sum().backward()
"""
        for name, marked in (("what it was given", False), ("what is marked", True))
    },
    "outputs that come twice": "t4 = t1 * 3.0\nt5 = paddle.grad([t4, t4], [t1])[0]",
    "no_grad_vars that depend on the input": "t4 = F.relu(t1)\nt5 = paddle.grad([(t1 * t4).sum()], [t1], no_grad_vars=[t4])[0]",
    "it begins at what was written into": """
t4 = t1 * 1.5
t4[:, 0] = t4[:, 0] + 1.0
t4[:, 1:3] = t4[:, 1:3] * 2.0
paddle.autograd.backward([t4], [paddle.ones_like(t4)])
""",
    "two results of a native call, each by itself": """
t4, t5 = paddle.linalg.eigh(t1 @ t1.t())
t4.sum().backward(retain_graph=True)
t5.sum().backward()
t6 = paddle.grad(F.elu(t1).sum(), t1, create_graph=True)[0]
t7 = paddle.grad(t6.sum(), t1)[0]
""",
    "a third result that holds no memory": """
t4, t5, t6 = make([6, 5], 'float32', 4, True), make([4, 5], 'float32', 5, True), make([4, 1], 'float32', 6, True)
t7 = F.hsigmoid_loss(t4 * 2.0, paddle.to_tensor([0, 1, 2, 3, 4, 0]), 5, t5, t6)
(t7 * t7).sum().backward()
""",
    **{
        f"a result of {name} that is written again": f"""
t4 = (t1 * t1 + 1.0).{name}()
t4.add_(paddle.ones([3, 4], 'float64'))
(t4 * 2.0).sum().backward()
"""
        for name in ("exp_", "tanh_", "sigmoid_", "sqrt_", "rsqrt_", "reciprocal_", "tan_", "cauchy_")
    },
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_program(name):
    check(f"{LEAVES.strip()}\n{PROGRAMS[name].strip()}", INSIDE)


# --- writes into a graph: each hook sees the whole gradient once -----------------------------------------------------------

WRITTEN = """
t1 = make([2, 3], 'float32', 1, True)
t2 = make([2, 3], 'float32', 2, True)
t3 = t1 * 2.0
t4 = t2 * 3.0
t3.register_hook(watch('t3')); t4.register_hook(watch('t4')); t1.register_hook(watch('t1'))
t5 = t3 * 1.0
t5.stop_gradient = {stopped}
{write}
(t5.reshape([6]) * t3.reshape([6]) * t4.reshape([6])).sum().backward()
"""
WRITES = [
    "t5[::-1] = t4",
    "t5[..., ::-1] = t4",
    "t5[::-1][...] = t4 * t5",
    "t6 = t5[0]; t6[...] = t4[1]",
    "t5[1:] = t4[:1]",
    "t5[0, 1] = 5.0",
    "t5[t5 > 0.5] = 0.0",
    "t5[:, ::2] = t4[:, ::2]",
    "t5[paddle.to_tensor([0])] = t4[:1]",
    "t5[0].zero_()",
    "t5.reshape_([3, 2])",
    "t5.scatter_(paddle.to_tensor([0]), t4[:1])",
    "t5.put_along_axis_(paddle.to_tensor([[0, 0, 0]]), t4[:1], 0)",
    "t5.masked_fill_(t5 > 0.5, 0.0)",
    "t5.fill_diagonal_(1.0)",
    "t5.index_put_((paddle.to_tensor([0]),), t4[:1])",
    "paddle.assign(t4, t5)",
    "paddle.where_(t5 > 0.5, t5, t4)",
]


@pytest.mark.parametrize("stopped", [False, True])  # what was made before goes on behind a write that wants a gradient
@pytest.mark.parametrize("write", WRITES)
def test_each_hook_sees_the_whole_gradient_once(write, stopped):
    check(WRITTEN.format(write=write, stopped=stopped), INSIDE)


STOPPED = """
t1 = make([3, 3], 'float32', 1, True)
t2 = make([3, 3], 'float32', 2)
t3 = t1 * 1.0
{write}
{backward}
"""
INTO_STOPPED = [
    "t2[0] = t3[0]",
    "t2[:] = t3",
    "t2[t2[:, 0] > 0.0] = t3[0]",
    "t2[paddle.to_tensor([0, 1])] = t3[:2]",
    "t2[..., ::2] = t3[:, ::2]",
    "t2[..., ::-1] = t3",
    "t2[0] = t3[0]; t2[1] = t3[1] * 3.0",
    "t2.scatter_(paddle.to_tensor([0, 1]), t3[:2])",
    "paddle.where_(t2 > 0.5, t2, t3)",
    "t2.add_(t3)",
    "t2.multiply_(t3)",
    "t2.multiply_(t3); t2.multiply_(t3)",
    "t2.lerp_(t3, 0.25)",
    "paddle.assign(t3, output=t2)",
]
BACKWARDS = [
    "(t2 * 2).sum().backward()",
    "t4 = (t2 * t2).sum(); t4.backward(retain_graph=True); t4.backward()",
    "t5, = paddle.grad((t2 * t2).sum(), t1)",
    "t2.register_hook(watch('t2')); (t2 * t2).sum().backward()",
]


@pytest.mark.parametrize(("write", "backward"), in_turn(INTO_STOPPED, BACKWARDS))
def test_what_wanted_no_gradient_has_that_of_its_value_before(write, backward):
    check(STOPPED.format(write=write, backward=backward), INSIDE)


FURTHER_WRITES = {
    "into a tensor that wanted no gradient": """
t1 = make([2, 2], 'float32', 1, True)
t2 = t1 * t1
t3 = paddle.zeros([2, 2])
t3[0] = t2[1]
t3[1] = t2[0] * 2.0
t2.register_hook(watch('t2'))
(t3 * t2).sum().backward()
""",
    **{
        f"{write} on a stopped tensor": f"""
t1 = make([2], 'float32', 1, True)
t2 = make([2], 'float32', 2, True)
t3 = t1 * t1
t3.stop_gradient = True
t3.{write}(t2 * 2.0)
(t3 * 3.0).sum().backward()
"""
        for write in ("add_", "multiply_", "subtract_")
    },
    "a hook of before one through a view": """
t1 = make([2, 2], 'float32', 1, True)
t2 = t1 * t1
t3 = t2.sum()
t2.register_hook(watch('before'))
t2[0].zero_()
t2.register_hook(watch('behind'))
(t3 + (t2 * 3.0).sum()).backward()
""",
    "into a view, by an op that the table lacks": """
t1 = make([3, 2], 'float32', 1, True)
t2 = (t1 * 2.0).transpose([1, 0])
t2.register_hook(watch('t2'))
t2.lerp_(paddle.ones([2, 3]), 0.25)
(t2 * t2).sum().backward()
""",
    "of what a backward reads, and of a leaf": """
t1 = make([2], 'float32', 1, True)
t2 = t1 * t1
t3 = t2 * t2
t2[0] = 5.0
t3.sum().backward()
t1[0] = (t2 * 1.0)[0]
""",
    **{
        f"a partial gradient behind {write} through a view": f"""
t1 = make([2, 2], 'float32', 1, True)
t2 = t1 * 3.0
t3 = t2 * 5.0
t4 = t2[0]
t4.{write}
t5 = paddle.grad([t3.sum(), t4.sum()], [t2], retain_graph=True)[0]
t6 = paddle.grad([t3.sum()], [t2])[0]
"""
        for write in ("add_(t4)", "scale_(2.0)", "tanh_()")
    },
    **{
        f"in another dtype, of what retains its gradient{' and has a hook' if hook else ''}": f"""
t1 = make([6], 'float32', 1, True)
y = Twice.apply(t1)
y.retain_grads()
t3 = paddle.exp(y.astype('float64'))
y.add_(t3)
{hook}
(t3 * t3).sum().backward()
n1, n2 = y.grad.numpy(), str(y.dtype)
"""
        for hook in ("", "y.register_hook(lambda grad: grad * 2.0)")
    },
}


@pytest.mark.parametrize("kind", FURTHER_WRITES)
def test_a_write(kind):
    check(FURTHER_WRITES[kind], INSIDE, COMPARED)


WITH_OUT = """
t1 = make([3], 'float32', 1, True)
t2 = paddle.exp(t1)
t3 = t2 + t2
{before}
{call}
t4 = paddle.exp(t3).sum()
t5 = paddle.grad([t4], [t2], retain_graph=True, allow_unused=True)[0]
t4.backward()
t6 = paddle.grad([t3.sum()], [t3])[0]
"""


@needs("paddle.add out")
@pytest.mark.parametrize("before", ["", CLOSE], ids=["in the mode", "behind it"])
@pytest.mark.parametrize(
    "call",
    ["paddle.multiply(t3, t3, out=t3)", "paddle.multiply(t3, t2, out=t3)", "paddle.multiply(t2, t2, out=t3)",
     "t7 = t3 * 3.0; paddle.add(t2, t2, out=t3)"],
)  # fmt: skip
def test_what_is_written_by_out_has_its_own_gradient(call, before):
    """Paddle gives the tensor another node, without counting a write."""
    check(WITH_OUT.format(call=call, before=before), INSIDE, COMPARED)


# --- hooks and retained gradients ------------------------------------------------------------------------------------------

OWN = """
t1 = make([2], 'float32', 1, True)
t2 = t1 * 1.0
t3 = {made}
t3.register_hook(watch('t3', {factor}))
{derivative}
"""
MADE = ["t2 * 2.0", "Twice.apply(t2)"]
ASKED = [
    "(t3 * 1.0).sum().backward()",
    "t3.backward(paddle.ones([2]))",
    "t3.retain_grads(); (t3 * 1.0).sum().backward()",
    "t3.retain_grads(); t3.register_hook(watch('again', 3.0)); (t3 * 1.0).sum().backward()",
    "t3.register_hook(watch('again', 3.0)); t3.retain_grads(); (t3 * 1.0).sum().backward()",
    "t3.retain_grads(); t4 = paddle.grad([(t3 * 1.0).sum()], [t2])[0]",
    "t3.retain_grads(); (t3 * 1.0).sum().backward(retain_graph=True); ((t3 * 1.0).sum() + (t3 ** 2).sum()).backward()",
    "n1 = paddle.grad([(t3 * 1.0).sum()], [t3])[0].numpy()",
    "n1 = paddle.grad([t3[0]], [t3])[0].numpy()",
    "n1, n2 = [grad.numpy() for grad in paddle.grad([(t3 * 1.0).sum()], [t3, t2])]",
    "t4, t5 = paddle.grad([(t3 ** 2).sum()], [t2, t3], create_graph=True)",
    "t4 = paddle.grad([(t3 * 1.0).sum()], [t2])[0]",
    "t4 = paddle.grad([t3], [t3])[0]",
    "t4, t5 = paddle.grad([(t3 ** 2).sum()], [t3, t2], create_graph=True); t6 = paddle.grad([(t4 ** 2).sum()], [t2])[0]",
]
# Natively a second backward through a PyLayer ends the process.
CASES = [case for case in itertools.product(MADE, ASKED) if "Twice" not in case[0] or "retain_graph" not in case[1]]


@pytest.mark.parametrize("factor", [10.0, None], ids=["answers", "looks on"])
@pytest.mark.parametrize(("made", "derivative"), CASES)
def test_what_hooks_answer_is_the_tensors_own_gradient(made, derivative, factor):
    check(OWN.format(made=made, derivative=derivative, factor=factor), INSIDE)


OUTSIDE = """
t1 = make([2, 2], 'float32', 1, True)
t2 = {below}
t3 = t2{view}
---
t4 = paddle.exp(t3)
{used}
"""
USED = [
    "t3.register_hook(watch('t3', 2.0)); t4.sum().backward()",
    "t3.register_hook(watch('t3', 2.0)).remove(); t4.sum().backward()",
    "n1 = t3.register_hook(watch('t3', 2.0)); t3.register_hook(watch('again', 2.0)); n1.remove(); t4.sum().backward()",
    "t3.retain_grads(); t4.sum().backward()",
    "t3.register_hook(watch('t3', 2.0)); t3.retain_grads(); t4.sum().backward()",
    "t3.retain_grads(); (t4.sum() + (t3 * 3.0).sum()).backward()",
    "t3.register_hook(watch('t3', 2.0)); t5 = paddle.grad([t4.sum()], [t3])[0]",
    "t3.register_hook(watch('t3', 2.0)); t6 = make([1], 'float32', 3, True);"
    " t5 = paddle.grad([(t4 * t6).sum()], [t6], no_grad_vars=[t3])[0]",
]


@pytest.mark.parametrize("below", ["t1", "t1 * 1.0"], ids=["of a leaf", "of a result"])
@pytest.mark.parametrize("view", ["[0]", ".transpose([1, 0])", ".reshape([4])"])
@pytest.mark.parametrize("used", USED)
def test_views_that_are_used_when_the_mode_was_closed(used, view, below):
    check(OUTSIDE.format(used=used, view=view, below=below), INSIDE)


OF_VIEWS = """
t1 = make({shape}, 'float32', 1, True)
t2 = {below}
t3 = t2{view}
t3.register_hook(watch('t3', {factor}))
t3.retain_grads()
t3.register_hook(watch('removed')).remove()
{backward}
"""


@pytest.mark.parametrize("view", [".transpose([1, 0])", "[:]", "[0:2]"])
def test_hooks_and_retained_gradients_of_views(view):
    backward = "(t3 * 3.0 + F.selu(t3)).sum().backward()"
    check(OF_VIEWS.format(shape=[2, 2], below="paddle.tanh(t1)", view=view, factor=None, backward=backward), INSIDE)


@pytest.mark.parametrize("below", ["t1", "t1 * 2.0"], ids=["of a leaf", "of a result"])
@pytest.mark.parametrize("view", ["[:]", "[...]", "[:, :]", "[0:1]", "[0:5]", "[::1]", "[::2]"])
def test_all_of_a_row_is_the_tensor_itself_only_where_it_is_so_natively(view, below):
    backward = "t2.retain_grads(); (t3.sum() + (t2 * 5.0).sum()).backward()"
    check(OF_VIEWS.format(shape=[1, 4], below=below, view=view, factor=3.0, backward=backward), INSIDE)


@pytest.mark.parametrize(
    "made",
    ["t1.transpose([1, 0])", "t1.transpose([1, 0]).reshape([3, 2, 1])[0]", "F.selu(t1.reshape([6]))", "paddle.tanh(t1).t()"],
)
@pytest.mark.parametrize("retain", [True, False])
def test_a_second_backward_ends_as_natively(made, retain):
    backward = f"t2.backward(paddle.ones(t2.shape), retain_graph={retain})\nt2.backward(paddle.ones(t2.shape))"
    check(f"t1 = make([2, 3], 'float32', 1, True)\nt2 = {made}\n{backward}", INSIDE)


# Results that nothing was made of, beside one that something was: what their hooks are shown natively, and may answer.
UNUSED = """
t1 = paddle.to_tensor([[3.0, 1.0, 0.5], [1.0, -2.0, 0.25], [0.5, 0.25, 1.0]], stop_gradient=False)
p2 = {split}
note = lambda i: lambda grad: n3.append((i, grad.numpy()))
n3 = []
for i, part in enumerate(p2): part.register_hook(note(i)); {answer}; part.register_hook(note(i)); {retain}
{backward}
"""
SPLITS = ["paddle.chunk({}, 3, axis=1)", "paddle.split({}, [1, 2], axis=1)", "paddle.unbind({}, axis=1)", "paddle.linalg.eigh({})"]


@pytest.mark.parametrize("retain", [False, True], ids=["of a leaf", "retained"])
@pytest.mark.parametrize(
    "backward",
    ["p2[0].sum().backward()", "t3 = p2[0].sum(); t3.backward(retain_graph=True); t3.backward()",
     "n4 = paddle.grad(p2[0].sum(), t1)[0].numpy()"],
)  # fmt: skip
@pytest.mark.parametrize(("split", "answers"), in_turn(SPLITS, ([], ["grad * 2.0"], ["grad + 3.0"], ["grad + 3.0", "grad * 2.0"])))
def test_hooks_on_unused_results_are_called_as_natively(split, answers, backward, retain):
    answer = "; ".join(f"part.register_hook(lambda grad: {answer})" for answer in answers) or "None"
    parts = {"split": split.format("t1 * 1.0" if retain else "t1"), "retain": "part.retain_grads()" if retain else "None"}
    check(UNUSED.format(**parts, answer=answer, backward=backward), INSIDE)


@pytest.mark.parametrize("split", SPLITS)
def test_no_gradient_passes_through_a_result_that_nothing_was_made_of(split):
    """Beside one that something was: a partial gradient met an error there."""
    backward = "t3 = paddle.grad([p2[0].sum()], [t1], no_grad_vars=[p2[1]])[0]"
    check(UNUSED.format(split=split.format("t1 * 1.0"), answer="None", retain="None", backward=backward), INSIDE)


# --- modes around a part of a program ---------------------------------------------------------------------------------------

PARTS = {
    "a root of Paddle's and one of the tape, of one value": """
t3 = F.elu(t1)
+++
t4 = (t3 @ t2).sum()
---
t5 = (t3 * t3).sum()
paddle.autograd.backward([t5, t4])
""",
    "the value is used inside on both sides": "t3 = F.elu(t1)\n+++\nt4 = t3 @ t2\n(F.elu(t3) + t4).sum().backward()",
    "the backward alone": "t3 = F.elu(t1 @ t2).sum()\n+++\nt3.backward()",
    "the forward's first op alone": """
t3 = t1 @ t2
---
t4 = F.elu(t3) + t3 * t3
t5, t6 = paddle.grad(t4.sum(), [t1, t2])
""",
    "a value is written behind it": "t3 = F.tanh(t1 @ t2)\nt4 = t3.sum()\n---\nt3.add_(paddle.ones([4, 4]))\nt4.backward()",
    "several roots": """
t3 = t1 @ t2
paddle.autograd.backward([F.tanh(t3).sum(), F.elu(t3)], [None, paddle.ones([4, 4]) * 2])
""",
    "a root and what was made of it": "t3 = t1 @ t2\npaddle.autograd.backward([F.tanh(t3), t3])",
    "hooks behind it": """
t3 = t1 @ t2
---
t3.register_hook(lambda grad: grad * 3)
t4 = F.tanh(t3)
t3.register_hook(lambda grad: grad * 5).remove()
t4.sum().backward()
""",
    "hooks in their order": """
t3 = t1 @ t2
t3.register_hook(lambda grad: grad + 1)
t3.register_hook(lambda grad: grad * 5)
t3.retain_grads()
t3.register_hook(lambda grad: grad * 7)
F.tanh(t3).sum().backward()
""",
    "a hook on a leaf of several uses": """
t4 = make([4], 'float32', 3, True)
t2.register_hook(watch('t2', 2.0))
+++
(F.linear(t1, t2, t4) + t1 @ t2 + F.elu(t2) * t2 + t2.t()).sum().backward()
""",
    "no_grad_vars": """
t3 = t1 @ t2
t4 = (t3 * t1).sum()
t5 = paddle.grad(t4, [t1], no_grad_vars=[t3], retain_graph=True)[0]
n1 = paddle.grad(t4, [t1, t2], no_grad_vars=[t3], allow_unused=True, retain_graph=True)
t6 = paddle.grad(t4, [t2], no_grad_vars=[t3])[0]
""",
    **{
        f"recompute, use_reentrant={reentrant}": f"""
t3 = recompute(lambda x: F.gelu(x @ t2), t1 * 1.5, use_reentrant={reentrant}, preserve_rng_state=False)
(t3 * t3).sum().backward()
"""
        for reentrant in (True, False)
    },
    **{
        f"recompute, use_reentrant={reentrant}, around its {part}": f"""
t3 = recompute(lambda x: F.gelu(x @ t2), t1 * 1.5, use_reentrant={reentrant}, preserve_rng_state=False)
{CLOSE if part == "forward" else OPEN}
(t3 * t3).sum().backward()
"""
        for reentrant, part in ((True, "forward"), (False, "forward"), (True, "backward"))
    },
    "a PyLayer's forward": "t3 = Cube.apply(t1 @ t2)\n---\nF.tanh(t3).sum().backward()",
}


@pytest.mark.skipif(not IS_3, reason="some of these programs need what 2.6 lacks")
@pytest.mark.parametrize("name", PARTS)
def test_a_mode_around_a_part(name):
    leaves = "t1 = make([4, 4], 'float32', 1, True)\nt2 = make([4, 4], 'float32', 2, True)"
    check(f"{leaves}\n{PARTS[name].strip()}", INSIDE)


# --- what paddle.grad walks, and gradients of gradients ---------------------------------------------------------------------

PRUNED = """
t1 = make([3, 4], 'float32', 1, True)
t2 = t1 * 2.0
t2.register_hook(watch('t2'))
t3 = paddle.tanh(paddle.exp(t2))
{within}
t4 = (t1 * paddle.exp(t3)).sum()
{derivative}
"""


@pytest.mark.parametrize("within", ["", CLOSE], ids=["in the mode", "behind it"])
@pytest.mark.parametrize(
    "derivative",
    [
        "t3.backward(paddle.ones_like(t3)); t5 = paddle.grad([t4], [t3])[0]",
        "t5, t6 = paddle.grad([t4], [t3, t1])",
        "t5 = paddle.grad([t4], [t1])[0]",
    ],
)
def test_no_gradient_goes_where_paddle_prunes(derivative, within):
    """Nothing is shown to hooks there, and what an earlier backward has freed there is no error."""
    check(PRUNED.format(derivative=derivative, within=within), INSIDE)


def test_no_second_derivative_is_asked_for_below_the_only_input():
    """An index with steps has none in Paddle, and in a graph behind a write it is Paddle's own."""
    check(
        """
t1 = make([3, 4], 'float32', 1, True)
t2 = paddle.exp(t1)
t3 = t2[::2]
t2[0] = 0.5
t4 = paddle.exp(t3)
t5 = paddle.grad([t4.sum()], [t4], create_graph=True)[0]
""",
        INSIDE,
    )


INDEPENDENT = """
t1 = make([3, 4], 'float32', 1, True)
t2 = paddle.tanh(paddle.exp(t1))
t3 = paddle.grad([t2.sum()], [t2], create_graph=True, allow_unused=True)[0]
t3.sum().backward()
t2.backward(paddle.ones_like(t2))
"""


@pytest.mark.parametrize("options", ["", "ops=['tanh']", "ops=['tanh', 'exp']", "exclude=['sum']"])
def test_a_gradient_of_a_sum_does_not_free_what_was_summed(options):
    check(INDEPENDENT, whole("reference", options))


def test_a_gradient_that_depends_on_its_operand_leads_to_it():
    lines = INDEPENDENT.replace("[t2.sum()]", "[(t2 * t2).sum()]").replace("paddle.exp(t1)", "t1").splitlines()
    check("\n".join(lines[:-1]).replace("t3.sum()", "(t3 * t3).sum()"), whole("reference", "ops=['tanh']"))


@pytest.mark.parametrize("ops", [["tanh"], ["sin", "tanh"], ["sin", "sum", "tanh"], None], ids=str)
@pytest.mark.parametrize("written", ["t2.tanh_()", "t2.detach().fill_(0.5)"])
def test_where_no_gradient_leads_on_nothing_is_walked(written, ops):
    """A sum's gradient does not depend on what was added up: what that was made of has no gradient, and may have been written."""
    text = f"""
t1 = make([3], 'float32', 1, True)
t2 = paddle.exp(paddle.sin(t1))
{written}
t3 = paddle.grad([t2.sum()], [t2], create_graph=True)[0]
paddle.tanh(t3).sum().backward()
"""
    check(text, whole("reference", f"ops={ops}"))


PENALTY = """
t1 = make([3], 'float32', 1, True)
t2 = {made}
{prepared}
---
t3 = paddle.grad((t2 * t2 * t2).sum(), t1, create_graph=True)[0]
(t3 * t3).sum().backward()
"""
PREPARED = [
    "",
    "t2.register_hook(lambda grad: None)",
    "t2.register_hook(lambda grad: grad * 2)",
    "t2.retain_grads()",
    "t2.add_(paddle.ones([3]))",
    "t2.retain_grads(); t2.multiply_(paddle.full([3], 2.0))",
    "t2.add_(paddle.ones([3])).multiply_(paddle.full([3], 2.0))",
    "t2[1:].add_(paddle.ones([2]))",
    "t2 = t2[1:]; t2.register_hook(lambda grad: None)",
]


@pytest.mark.parametrize("prepared", PREPARED)
def test_second_gradients_pass_through_what_was_exchanged(prepared):
    check(PENALTY.format(prepared=prepared, made="paddle.sin(t1)"), INSIDE)


def test_a_retained_gradient_that_two_turns_bring():
    """Torch's tanh leads from its gradient to its result, and the ops outside lead there once more: the last turn stood alone."""
    check(PENALTY.format(prepared="t2.retain_grads()", made="paddle.tanh(t1)"), INSIDE)


# --- buffers that a program fills part by part, each from the parts before --------------------------------------------------

BUFFERS = {
    "vander": "t9 = paddle.vander(t1[0], 4)",
    "vander, increasing": "t9 = paddle.vander(t1[:, 1], 3, increasing=True)",
    "columns": """
t9 = paddle.zeros([4, 4]); t9[:, 0] = t1[0]
for t in range(1, 4): t9[:, t] = t9[:, t - 1] * t9[:, t - 1] + t1[t]
""",
    "rows, which lie contiguous: refused": """
t9 = paddle.zeros([4, 4]); t9[0] = t1[0]
for t in range(1, 4): t9[t] = t9[t - 1] * t1[t]
""",
    "in its own columns": """
t9 = t1 * 1.0
for t in range(1, 4): t9[:, t] = t9[:, t] * t9[:, t - 1]
""",
    "running products": "t9 = t1 * 1.0; t9[:, 1:] = paddle.cumprod(t9[:, 1:], dim=1)",
    "halves, as rotary embeddings in place": """
t9 = t1 * 1.0
t2, t3 = t9[:, :2], t9[:, 2:]
t4 = t2 * t1[:, 2:] - t3 * t1[:, :2]
t9[:, :2] = t4
t9[:, 2:] = t3 * t3
""",
    "steps": """
t9 = t1 * 1.0
t9[:, ::2] = paddle.exp(t9[:, 1::2]) * t9[:, 1::2]
t9[:, 1::2] = paddle.tanh(t9[:, ::2]) * t9[:, ::2]
""",
    "transposed": "t2 = t1 * 1.0; t3 = t2.t(); t4 = t3 * t3; t2[0] = 0.0; t9 = t4 + t2",
    "products": "t2 = t1 * 1.0; t3 = t2[:, 1:] @ t2[:, :3].t(); t2[:, 0] = t3[:, 0]; t9 = t3 + t2.sum()",
    "norms": "t2 = t1 * 1.0; t3 = F.layer_norm(t2[:, :3], 3); t2[:, :3] = t3; t9 = t2 * t1",
    "added to": "t9 = t1 * 1.0; t2 = t9[:, 1:3]; t3 = t2 * t2; t9[:, 1:3] += t3",
    "by an op in place": "t2 = t1 * 1.0; t3 = t2[:, 1]; t4 = t3 * t3; t2.scale_(2.0); t9 = t4 + t2",
    "read by an op in place": """
t2, t3 = t1 * 1.0, t1[:, :2] * 2.0
t4 = t2[:, 1:3]
t3.lerp_(t4, t4 * 2.0)
t2[:, 1:3] = 0.0
t9 = t3 + t2[:, :2]
""",
    "filled": "t2 = t1 * 1.0; t3 = t2[:, 1]; t4 = t3 * t3; paddle.assign(t1 * 3.0, output=t2); t9 = t4 + t2",
    "constants": "t2 = paddle.ones([4, 4]); t3 = t1[:, 0] * t2[:, 1]; t2[:, 1] = 5.0; t9 = t3 + t2[0]",
    "second derivatives": """
t2 = t1 * 1.0
t3 = t2[:, 1] * t2[:, 1] * t2[:, 1]
t2[:, 1] = 0.0
t4 = paddle.grad((t3 * t3).sum(), t1, create_graph=True)[0]
t9 = t4 * t4
""",
}


@pytest.mark.parametrize("name", BUFFERS)
def test_a_strided_part_is_kept_as_it_was_when_read(name):
    leaf = "t1 = paddle.to_tensor((np.arange(16) * 5 % 16 / 16 + 0.5).reshape(4, 4).astype('float32'), stop_gradient=False)"
    check(f"{leaf}\n{BUFFERS[name].strip()}\n(t9 * t9).sum().backward()", INSIDE, COMPARED, CARRIED)


# --- gradients through whole numbers, which Torch's graph cannot have -------------------------------------------------------

WHOLE_NUMBERS = [
    "t2.astype('int32').astype('float32') * 4.0",
    "t2.astype('bool').astype('float32') * 3.0",
    "t2.astype('int64').sum().astype('float32')",
    "(t2.astype('int32').astype('float32') * t2).sum()",
    "t2.astype('int32').reshape([2, 2])[1:].astype('float32')",
    "(t3 := t2.astype('int32'), t3.__setitem__(0, 5))[0].astype('float32')",
    "paddle.concat([t2.astype('int32'), paddle.ones([1], 'int32')]).astype('float32')",
]


@pytest.mark.parametrize("below", ["t1 * 2.0", "t1"], ids=["computed", "leaf"])
@pytest.mark.parametrize("backward", ["t9.backward()", "t9.backward(retain_graph=True); t9.backward()"], ids=["once", "twice"])
@pytest.mark.parametrize("made", WHOLE_NUMBERS)
def test_gradients_pass_through_whole_numbers(made, backward, below):
    leaf = "t1 = paddle.to_tensor([1.5, -2.5, 3.2, 0.7], stop_gradient=False)\nt1.register_hook(watch('t1'))"
    check(f"{leaf}\nt2 = {below}\nt9 = ({made}).sum()\n{backward}", INSIDE)


def test_paddle_grad_of_a_way_through_whole_numbers():
    text = """
t1 = paddle.to_tensor([1.5, -2.5], stop_gradient=False)
t2 = t1 * t1
t3 = (t2.astype('int32').astype('float32') * t2).sum()
n4, t5 = paddle.grad(t3, [t2, t1], create_graph=True); n4 = n4.numpy()
t6 = paddle.grad(t5.sum(), t1)[0]
"""
    check(text, INSIDE)


def test_second_derivatives_through_an_op_in_place_that_stays_native():
    text = """
t1 = paddle.to_tensor([1.5, -2.5], stop_gradient=False)
t2 = t1 * t1
t3 = t2 * 0.1
t3.tanh_()
t4 = paddle.grad((t3 * t3 * t2).sum(), t1, create_graph=True)[0]
t5 = paddle.grad((t4 * t4).sum(), t1)[0]
"""
    check(text, whole("reference", "exclude=['tanh']"))
