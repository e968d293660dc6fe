"""Random programs in plain Torch: what the replay tells apart, and what it leaves out since Torch cannot say it."""

import paddle
import pytest
from fuzz.check import quiet
from fuzz.replay.run import compared

PROGRAM = ["t1 = make([3, 4], 'float32', 1, True)", "t2 = paddle.tanh(t1)", "t2.sum().backward()"]


def unlike_torch(*lines):
    with quiet(), paddle.enable_grad():
        return compared([*PROGRAM[:2], *lines, PROGRAM[2]], {})[1]


# Off by one bit, or at all, under the mode.
UNLIKE_TORCH = {
    "t3.value": "t3 = paddle.tanh(t1) * (1.0 + 2.0**-23 if modes.top() else 1.0)",
    "t1.grad": "t2.register_hook((lambda grad: grad * (1.0 + 2.0**-23)) if modes.top() else (lambda grad: grad))",
    "seen t1 1": "t1.register_hook(watch('t1')) if modes.top() else None",
    "t3: in Torch torch.float32, here paddle.float64": "t3 = t1.astype('float64' if modes.top() else 'float32')",
    "line 4 in Torch: ValueError": "t3 = t1 * 2 if modes.top() else int('x')",
}


@pytest.mark.bitexact
@pytest.mark.parametrize("what", UNLIKE_TORCH)
def test_what_is_not_torchs_is_seen(what):
    lines = ("from padiff_shim.dispatch import frames as modes", UNLIKE_TORCH[what])
    assert any(what in line for line in unlike_torch(*lines))


def test_what_torch_cannot_say_is_taken_out_and_counted():
    counts = {}
    lines = [*PROGRAM[:2], "t3 = paddle.as_strided(t1, [2], [1], 1)", "t4 = t3 * 2.0", "t5 = t1 * 2.0", "t6 = t7 + 1.0"]
    with quiet():
        texts, unexplained = compared(lines, counts)
    assert unexplained == []
    assert [line for line in texts if line in lines] == [*lines[:2], lines[4]]
    assert counts["not in Torch: as_strided between two elements"] == 1


@pytest.mark.parametrize("line", ["t1.set_value(t2)", "t1.copy_(t2, False)"])
def test_an_uncounted_write_of_a_view_of_itself_is_not_replayed(line):
    counts = {}
    with quiet():
        texts, unexplained = compared(["t1 = make([4, 4], 'float32', 1, False)", "t2 = t1.transpose([1, 0])", line], counts)
    assert unexplained == []
    assert line not in texts
    assert counts["not in Torch: an in-place op that reads what it writes"] == 1


def test_an_in_place_op_on_elements_that_lie_on_one_another_is_not_replayed():
    counts, line = {}, "t2.tanh_()"
    with quiet():
        view = "t2 = paddle.as_strided(t1, [2, 2], [1, 1])"
        texts, unexplained = compared(["t1 = make([3, 4], 'float32', 1, False)", view, line], counts)
    assert unexplained == []
    assert line not in texts
    assert counts["not in Torch: an in-place op on a view that shows an element several times"] == 1


@pytest.mark.parametrize(("write", "reasons"), [("t2.tanh_()", 1), ("t2 = paddle.tanh(t2)", 0)])
def test_a_hook_that_paddle_finds_no_more_is_not_replayed(write, reasons):
    counts, lines = {}, [PROGRAM[0], "t2 = paddle.exp(t1)[0]", "h1 = t2.register_hook(watch('t2'))", write, "h1.remove()"]
    with quiet():
        texts, unexplained = compared([*lines, "t2.sum().backward()"], counts)
    assert unexplained == []
    assert ("h1.remove()" in texts) is not bool(reasons)
    assert sum(count for what, count in counts.items() if "a hook that is removed" in what) == reasons


def test_a_gather_keeps_no_values_of_what_it_reads():
    lines = [PROGRAM[0], "t2 = paddle.take_along_axis(t1, paddle.argsort(t1, axis=-1), axis=-1)", "t3 = t1[0]", "t3.tanh_()"]
    with quiet():
        texts, unexplained = compared([*lines, "t2.backward(paddle.ones_like(t2))"], {})
    assert unexplained == []
    assert len(texts) == 1 + len(lines) + 1


@pytest.mark.parametrize("before", [[], ["(t1 * t1).sum().backward()"]], ids=["alone", "behind a backward"])
def test_a_leaf_that_was_written_gets_the_gradient_of_an_earlier_graph(before):
    lines = [PROGRAM[0], *before, "t2 = paddle.exp(t1)", "t3 = paddle.exp(t2)", "t1.stop_gradient = True", "t1.add_(t2)"]
    with quiet():
        texts, unexplained = compared([*lines, "t3.sum().backward()"], {})
    assert unexplained == []
    assert len(texts) == 1 + len(lines) + 1


@pytest.mark.bitexact
def test_a_pylayers_result_that_is_a_leaf_has_the_gradient_that_its_hook_made():
    lines = ["t3 = Twice.apply(t1.detach())", "t3.stop_gradient = False", "h1 = t3.register_hook(watch('t3', 2.0))"]
    assert unlike_torch(*lines, "t3.retain_grads()", "t3.sum().backward()") == []


@pytest.mark.bitexact
@pytest.mark.parametrize("product", ["paddle.matmul(t2[:0], t3)", "t2[:0] @ t3"])
def test_a_product_of_nothing_in_two_dtypes_is_no_finding(product):
    assert unlike_torch("t3 = make([4], 'float64', 3)", f"t4 = {product}") == []


@pytest.mark.bitexact
def test_a_pylayer_reads_what_was_written_into_a_copy_in_the_graph():
    assert (
        unlike_torch("t3 = t2.expand([2, 3, 4])", "t3.retain_grads()", "t3.tanh_()", "t3.sum().backward(retain_graph=True)") == []
    )
    counts = {}
    lines = ["t3 = t1.clone()", "t4 = Cube.apply(t3)", "t3[0] = 0.5", "t4.sum().backward()"]
    with quiet(), paddle.enable_grad():
        texts, unexplained = compared([PROGRAM[0], *lines], counts)
    assert unexplained == []
    assert lines[-1] not in texts
    assert counts["not in Torch: a PyLayer or recompute whose operand was changed"] == 1


@pytest.mark.bitexact
def test_a_tensor_is_assigned_to_what_it_is_a_view_of():
    lines = ["t3 = make([1, 4], 'float32', 3, False)", "t4 = t3[::2]", "paddle.assign(t4.astype(t3.dtype), output=t3)"]
    assert unlike_torch(*lines) == []


@pytest.mark.bitexact
def test_a_result_that_lies_strided_in_torch_alone_can_be_viewed():
    line = "t3 = paddle.exp(t1.transpose([1, 0]))"
    assert unlike_torch(line, "t4 = t3.view([12])", "t4.sum().backward()") == []
    assert unlike_torch(line, "t4 = paddle.as_strided(t3, [2, 2], [1, 1])") == []
    assert unlike_torch("t4 = paddle.as_strided(t1.transpose([1, 0]), [2, 2], [1, 1])") == []


@pytest.mark.bitexact
@pytest.mark.parametrize("write", ["t2[0] = t1[1]", "t2[:] = t1 * 2.0", "t2.add_(t1 * 2.0)"])
def test_a_tensor_that_was_stopped_is_written_with_what_wants_a_gradient(write):
    assert unlike_torch("t2.stop_gradient = True", write, "(t2 * t2).sum().backward()") == []


@pytest.mark.parametrize("how", ["", ", keepdim=True", ", axis=0"])
def test_which_zero_is_the_largest_is_as_in_torch(how):
    lines = "t3 = make([3, 1], 'float32', 1, False)", "t4 = F.layer_norm(t3, 1)", "t4.multiply_(t3)", f"t5 = paddle.max(t4{how})"
    assert unlike_torch(*lines) == []
