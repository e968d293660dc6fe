"""Compare mode end to end: records, sites, gradients, carrying, actions, sampling."""

import gc

import numpy as np
import paddle
import pytest
import torch
from encoder import model, randn, train
from noninterference import harmed
from paddle.nn import functional as F

import padiff_shim
from padiff_shim import testing
from padiff_shim.frameworks.versions import IS_3
from padiff_shim.verdicts import Verdict

pytestmark = [pytest.mark.bitexact, pytest.mark.usefixtures("undone")]


@pytest.mark.compat
def test_each_result_and_each_gradient_has_a_record():
    net, x = model(1), randn(5, 16)
    with padiff_shim.compare("torch") as run:
        net(x).sum().backward()
    calls = list(run.calls)
    forward = [call for call in calls if call.phase == "forward"]
    assert [call.op for call in forward] == ["layer_norm", "linear", "gelu", "linear", "add", "sum"]
    assert [call.index for call in calls] == list(range(len(calls)))
    gradients = {}
    for call in calls:
        if call.phase == "backward":
            gradients.setdefault((call.call, call.op), set()).add(call.tensor)
    assert gradients[forward[1].call, "linear"] == {"grad:x", "grad:weight", "grad:bias"}
    assert gradients[forward[0].call, "layer_norm"] == {"grad:x", "grad:scale", "grad:bias"}
    assert gradients[forward[4].call, "add"] == {"grad:x", "grad:y"}
    assert all(call.verdict in (Verdict.EQUAL, Verdict.ROUNDING) for call in calls), run.markdown()
    assert {call.layer for call in forward} == {"0.norm", "0.up", "0", "0.down", ""}
    assert {call.file.rpartition("/")[2] for call in calls} == {"test_compare.py", "encoder.py"}
    assert forward[1].site.endswith("in forward")
    assert forward[1].to_dict()["inputs"][1] == {"name": "weight", "shape": [32, 16], "dtype": "float32", "strides": "contiguous"}


@pytest.mark.compat
def test_reference_with_compare_is_the_same_thing():
    with padiff_shim.reference("torch", compare=True) as run:
        paddle.exp(randn(3))
    assert [call.op for call in run.calls] == ["exp"]


@pytest.mark.compat
@pytest.mark.parametrize("options", [{}, {"shadow": True}, {"every": 3}, {"budget": "10%"}], ids=str)
def test_training_is_bit_identical_with_and_without_comparing(options):
    net = model()
    optimizer = paddle.optimizer.AdamW(1e-2, parameters=net.parameters())
    train(net, optimizer, 1)
    differ, compared, run = harmed(lambda: train(net, optimizer), state=[net, optimizer], **options)
    assert not differ
    assert compared > 20
    if not options:
        assert len(run.calls) > 100
        assert {call.step for call in run.calls} == {0, 1, 2}


def test_harm_would_be_seen():
    x = randn(8, 8, grad=False)
    with testing.planted("sum", lambda out, *_: out + 1):  # the program goes on with it
        assert harmed(lambda: paddle.sum(x, axis=0))[0] == ["result"]


@pytest.mark.compat
def test_gradients_of_three_uses_of_one_tensor_keep_their_order():
    def program():
        x = randn(6, 6)
        w = [randn(6, 6, seed=seed) for seed in range(1, 5)]
        (sum(((x @ v).tanh() * 3.7 for v in w), x * 1.1)[:3].sum() + x[2:].exp().sum()).backward()
        return x.grad

    assert not harmed(program)[0]


@pytest.mark.compat
def test_the_incoming_gradient_is_the_true_one_even_where_paddle_reuses_its_memory():
    x = randn(4, 4)
    seen = []
    with padiff_shim.compare("torch") as run:
        y = F.relu(x * 2.0)
        y.register_hook(lambda grad: seen.append(grad.numpy().copy()))
        (y * randn(4, 4, grad=False, seed=3)).sum().backward()
    assert seen
    assert {call.verdict for call in run.calls.filter(op="relu", phase="backward")} <= {Verdict.EQUAL, Verdict.ROUNDING}
    assert len(run.calls.filter(op="relu", phase="backward")) == 1


@pytest.mark.compat
def test_carrying_torch_gives_torchs_results_and_gradients():
    net, values = model(), np.random.default_rng(0).standard_normal((5, 16)).astype("float32")

    def results():
        x = paddle.to_tensor(values, stop_gradient=False)
        y = net(x)
        y.sum().backward()
        results = [y.numpy(), x.grad.numpy(), *(p.grad.numpy() for p in net.parameters())]
        net.clear_gradients()
        return results

    with padiff_shim.reference("torch"):
        expected = results()
    with padiff_shim.compare("torch", carry="torch"):
        ours = results()
    assert ours[0].tobytes() == expected[0].tobytes()
    for mine, theirs in zip(ours, expected, strict=True):
        np.testing.assert_allclose(mine, theirs, rtol=1e-5, atol=1e-6)
        if IS_3:
            assert mine.tobytes() == theirs.tobytes()


@pytest.mark.parametrize("side", ["paddle", "torch"])
@pytest.mark.parametrize("gradients", [False, True])
def test_a_planted_fault_is_named_with_its_layer_and_side(side, gradients):
    net, x = model(), randn(5, 16)

    def broken(result, *_):
        return result * (1 + 2.0**-10)

    with (
        testing.planted("linear", broken, side=side, layer="1.up", gradients=gradients),
        padiff_shim.compare("torch") as run,
    ):
        net(x).sum().backward()
    worst = run.worst(1)[0]
    assert (worst.op, worst.layer, str(worst.side)) == ("linear", "1.up", side)
    assert worst.phase == ("backward" if gradients else "forward")
    bad = [call for call in run.calls if call.verdict.severity >= Verdict.LOW_ACCURACY.severity]
    assert {call.layer for call in bad} == {"1.up"}
    assert run.first_divergence().index == bad[0].index


def test_the_fault_of_paddles_kernel_is_what_the_program_goes_on_with():
    x = randn(3, grad=False)
    with testing.planted("exp", lambda out, *_: out + 1), padiff_shim.compare("torch"):
        ours = paddle.exp(x)
    np.testing.assert_array_equal(ours.numpy(), paddle.exp(x).numpy() + 1)


def test_amplification_is_told_apart_from_local_error():
    x = randn(8, 64, 256, grad=False)
    w = randn(256, 64, grad=False, seed=1) * 30.0
    backwards = testing.planted("sum", lambda out, x, *_: x.flip(1).sum(1))
    with backwards, padiff_shim.compare("torch", shadow=True) as run:
        h = paddle.sum(x, axis=1)
        y = paddle.matmul(h.transpose([1, 0])[:].transpose([1, 0]), w)
    first, second = run.calls.filter(op="sum")[0], run.calls.filter(op="matmul")[0]
    assert first.stats["incoming"] == 0 < first.stats["max_abs"]
    assert second.stats["incoming"] == pytest.approx(first.stats["max_abs"], rel=1e-6)
    assert second.stats["amplification"] > 3
    assert "amplification x" in str(second)
    assert [call.op for call in run.amplifications(1)] == ["matmul"]
    assert y.shape == [8, 64]


@pytest.mark.compat
def test_ops_over_lists_and_one_tensor_twice():
    x, y = randn(3, 3), randn(3, 3, seed=1)

    def program():
        x.clear_gradient(False)
        (paddle.einsum("ij,jk->ik", x, y).sum() + paddle.matmul(x, x).sum()).backward()
        return x.grad

    assert not harmed(program)[0]
    with padiff_shim.compare("torch") as run:
        program()
    products = [*run.calls.filter(op="einsum", phase="backward"), *run.calls.filter(op="matmul", phase="backward")]
    seen = {(call.op, call.tensor) for call in products}
    assert {("einsum", "grad:operands[0]"), ("einsum", "grad:operands[1]")} <= seen
    if IS_3:
        assert {("matmul", "grad:x"), ("matmul", "grad:y")} <= seen
    assert all(call.verdict.severity <= Verdict.UNVERIFIED.severity for call in products)


@pytest.mark.compat
def test_retained_graphs_and_double_gradients():
    x = randn(4, 4)
    with padiff_shim.compare("torch") as run:
        y = paddle.matmul(x, x).tanh()
        y.sum().backward(retain_graph=True)
        y.sum().backward()
        z = (x * x).tanh()
        (grad,) = paddle.grad(z.sum(), x, create_graph=True)
        grad.sum().backward()
    assert len(run.calls.filter(op="matmul", phase="backward")) == 4
    assert all(call.verdict.severity <= Verdict.UNVERIFIED.severity for call in run.calls)


def test_nothing_is_held_after_backward():
    gc.collect()
    x = randn(256, 256)
    import weakref

    with padiff_shim.compare("torch"):
        h = x * 2.0
        gone = weakref.ref(h)
        y = paddle.matmul(h, x)
        del h
        y.sum().backward()
        del y
        gc.collect()
        assert gone() is None


@pytest.mark.compat
def test_in_place_ops_are_compared_on_the_values_before():
    x = randn(4, 4, grad=False)
    expected = paddle.exp(x).numpy()
    with padiff_shim.compare("torch") as run:
        x.exp_()
    np.testing.assert_array_equal(x.numpy(), expected)
    assert next(call.verdict for call in run.calls) in (Verdict.EQUAL, Verdict.ROUNDING)


def test_errors_of_the_program_pass_unchanged():
    with padiff_shim.compare("torch") as run, pytest.raises(ValueError, match="Input"):
        paddle.matmul(randn(2, 3), randn(4, 5))
    assert not len(run.calls)


def test_the_header_says_what_could_explain_a_difference():
    with padiff_shim.compare("torch") as run:
        paddle.exp(randn(2))
    header = run.header
    assert header["environment"]["paddle"] == paddle.__version__
    assert header["environment"]["torch"] == torch.__version__
    assert "paddle.FLAGS_use_accuracy_compatible_kernel" in header["flags"] or not IS_3
    assert header["flags"]["torch.num_threads"] == torch.get_num_threads()
