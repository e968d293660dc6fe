"""Where Paddle's and Torch's functions of one name mean different things, and what stands in docs/ops.md about it."""

import numpy as np
import paddle
import pytest
import torch

import padiff_shim
from padiff_shim.catalogue.registry import ops
from padiff_shim.table.samples import Floats, Ints, Sample


@pytest.mark.compat
@pytest.mark.parametrize("definitions", ["torch", "paddle"])
def test_leaky_relu_at_zero_has_torchs_slope(definitions):
    """A layer without bias gives zeros wherever its input is zero: the edge of an image."""
    values = np.array([0.0, -0.0, 1.0, -1.0], dtype="float32")

    def gradient():
        x = paddle.to_tensor(values, stop_gradient=False)
        paddle.nn.functional.leaky_relu(x, 0.25).sum().backward()
        return x.grad.numpy().tolist()

    assert gradient() == [1.0, 1.0, 1.0, 0.25]
    with padiff_shim.reference("torch", definitions=definitions, strict=True):
        ours = gradient()
    side = torch.tensor(values, requires_grad=True)
    torch.nn.functional.leaky_relu(side, 0.25).sum().backward()
    assert ours == side.grad.tolist() == [0.25, 0.25, 1.0, 0.25]


@pytest.mark.compat
def test_an_embedding_answers_zeros_at_its_padding():
    table, tokens = np.ones((3, 2), dtype="float32"), np.array([0, 1, 0, 2])

    def step():
        weight = paddle.to_tensor(table, stop_gradient=False)
        result = paddle.nn.functional.embedding(paddle.to_tensor(tokens), weight, padding_idx=0)
        result.sum().backward()
        return result.numpy()[:, 0].tolist(), weight.grad.numpy()[:, 0].tolist()

    native = step()
    with padiff_shim.reference("torch", strict=True):
        assert step() == native == ([0.0, 1.0, 0.0, 1.0], [0.0, 1.0, 1.0])
    side = torch.ones(3, 2, requires_grad=True)
    result = torch.nn.functional.embedding(torch.tensor(tokens), side, padding_idx=0)
    result.sum().backward()
    assert result[:, 0].tolist() == [1.0, 1.0, 1.0, 1.0]
    assert side.grad[:, 0].tolist() == native[1]


def looked_up(framework, weight, tokens, padding_idx):
    """Rows of a table, and its gradient."""
    if framework is torch:
        side = torch.tensor(weight, requires_grad=True)
        rows = torch.nn.functional.embedding(torch.tensor(tokens), side, padding_idx=padding_idx)
    else:
        side = paddle.to_tensor(weight, stop_gradient=False)
        rows = paddle.nn.functional.embedding(paddle.to_tensor(tokens), side, padding_idx=padding_idx)
    rows.sum().backward()
    return rows.detach().numpy(), side.grad.numpy()


@pytest.mark.compat
@pytest.mark.parametrize("padding_idx", [1, -2, None])
def test_torchs_embedding_reads_its_padding(padding_idx):
    weight, tokens = np.random.default_rng(0).standard_normal((4, 3)).astype("float32"), np.array([[0, 1], [2, 1]])
    with padiff_shim.reference("torch", definitions="torch", strict=True) as run:
        ours = looked_up(paddle, weight, tokens, padding_idx)
    for mine, theirs in zip(ours, looked_up(torch, weight, tokens, padding_idx)):
        np.testing.assert_array_equal(mine, theirs)
    assert not run.warnings


@pytest.mark.compat
def test_a_padding_with_weights_is_told_of():
    weight, tokens = np.ones((4, 3), "float32"), np.array([0, 1])
    says = "embedding: the padding (padding_idx=1) reads as zeros, in Torch as what the weight holds there"
    with padiff_shim.reference("torch") as run:
        looked_up(paddle, weight, tokens, 1)
    assert run.warnings == [f'{says}; definitions="torch" computes that']
    with padiff_shim.compare("torch") as compared:
        looked_up(paddle, weight, tokens, 1)
    assert compared.warnings == [says]
    weight[1] = 0
    with padiff_shim.reference("torch") as run:
        looked_up(paddle, weight, tokens, 1)
        looked_up(paddle, np.ones((4, 3), "float32"), tokens, 3)
    assert not run.warnings, "a row of zeros, or one that is not looked up"


@pytest.mark.compat
def test_every_call_is_asked():
    """The first calls of a kind go another way than the next ones."""
    weight, tokens = paddle.zeros([4, 3]), paddle.to_tensor([0, 1])
    weight.stop_gradient = False
    with padiff_shim.reference("torch") as run:
        for _ in range(4):
            paddle.nn.functional.embedding(tokens, weight, padding_idx=1)
        assert not run.warnings
        with paddle.no_grad():
            weight.set_value(paddle.ones([4, 3]))
        paddle.nn.functional.embedding(tokens, weight, padding_idx=1)
    assert "the padding (padding_idx=1) reads as zeros" in "".join(run.warnings)


@pytest.mark.compat
@pytest.mark.parametrize("name", [name for name, op in ops().items() if op.definition is not None and op.differs is not None])
def test_what_is_defined_otherwise_is_told_of(name):
    """Wherever both definitions of a sample are apart by more than rounding, the run says so."""
    op, apart = ops()[name], 0
    for sample in [*op.samples, *ODD.get(name, ())]:
        arrays = sample.arrays(np.random.default_rng(0))
        operands = [torch.tensor(value) if isinstance(value, np.ndarray) else value for value in arrays]
        arguments = [*op.arguments(sample, operands)]
        if op.probes:  # what the installed Paddle would answer: here, that all labels count
            arguments[-1] = True
        try:
            ours, theirs = op(*arguments), op.definition(*arguments)
        except (RuntimeError, ValueError, IndexError, NotImplementedError):
            continue
        if not torch.allclose(ours, theirs, rtol=1e-5, atol=1e-6):
            apart += 1
            assert op.differs(*arguments), sample
    assert apart


ODD = {
    "nll_loss": (Sample((5, 4), Ints((5,), 2, 3), ignore_index=2),),
    "cross_entropy": (Sample((5, 4), Floats((5, 4), 0.25, 0.25), Floats((4,), 0.5, 2.0), soft_label=True, reduction="sum"),),
}


@pytest.mark.compat
def test_torchs_mean_over_no_labels():
    x, label = paddle.zeros([2, 3]), paddle.to_tensor([1, 1])
    with padiff_shim.reference("torch", definitions="torch"):
        assert np.isnan(float(paddle.nn.functional.nll_loss(x, label, ignore_index=1)))
    with padiff_shim.reference("torch") as run:
        assert float(paddle.nn.functional.nll_loss(x, label, ignore_index=1)) == 0
    assert ["nll_loss" in warning for warning in run.warnings] == [True]


@pytest.mark.compat
def test_weighted_shares_that_are_labels():
    functional = paddle.nn.functional
    x, label = np.random.default_rng(0).standard_normal((6, 3)).astype("float32"), np.array([0, 1, 2, 0, 1, 1])
    weight = np.array([1.0, 2.0, 3.0], "float32")
    shares = functional.label_smooth(functional.one_hot(paddle.to_tensor(label), 3), epsilon=0.1)
    with padiff_shim.reference("torch", definitions="torch") as run:
        functional.cross_entropy(paddle.to_tensor(x), shares, weight=paddle.to_tensor(weight), soft_label=True)
    assert "smoothed labels" in "".join(run.warnings)
    with padiff_shim.reference("torch", definitions="torch") as run:
        ours = functional.cross_entropy(
            paddle.to_tensor(x), paddle.to_tensor(label), weight=paddle.to_tensor(weight), label_smoothing=0.1
        )
    theirs = torch.nn.functional.cross_entropy(torch.tensor(x), torch.tensor(label), torch.tensor(weight), label_smoothing=0.1)
    assert float(ours) == float(theirs)
    assert not run.warnings
