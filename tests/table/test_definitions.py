"""Where Paddle's and Torch's functions of one name mean different things: Paddle's meaning by default, Torch's on request."""

import numpy as np
import paddle
import paddle.nn.functional as F
import pytest
import torch
from helpers import same

import padiff_shim
from padiff_shim.catalogue.registry import ops
from padiff_shim.errors import PadiffShimError
from padiff_shim.frameworks.versions import IS_3
from padiff_shim.table.samples import Floats, Ints, Sample
from padiff_shim.verdicts import Verdict

pytestmark = [pytest.mark.compat, pytest.mark.bitexact]


@pytest.mark.parametrize("definitions", ["torch", "paddle"])
def test_leaky_relu_at_zero_has_torchs_slope(definitions):
    """A layer without bias gives zeros wherever its input is zero: the edge of an image."""
    values = np.array([0.0, -0.0, 1.0, -1.0], dtype="float32")

    def gradient():
        x = paddle.to_tensor(values, stop_gradient=False)
        F.leaky_relu(x, 0.25).sum().backward()
        return x.grad.numpy().tolist()

    assert gradient() == [1.0, 1.0, 1.0, 0.25]
    with padiff_shim.reference("torch", definitions=definitions, strict=True):
        ours = gradient()
    side = torch.tensor(values, requires_grad=True)
    torch.nn.functional.leaky_relu(side, 0.25).sum().backward()
    assert ours == side.grad.tolist() == [0.25, 0.25, 1.0, 0.25]


def test_an_embedding_answers_zeros_at_its_padding():
    table, tokens = np.ones((3, 2), dtype="float32"), np.array([0, 1, 0, 2])

    def step():
        weight = paddle.to_tensor(table, stop_gradient=False)
        result = F.embedding(paddle.to_tensor(tokens), weight, padding_idx=0)
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
        rows = F.embedding(paddle.to_tensor(tokens), side, padding_idx=padding_idx)
    rows.sum().backward()
    return rows.detach().numpy(), side.grad.numpy()


@pytest.mark.parametrize("padding_idx", [1, -2, None])
def test_torchs_embedding_reads_its_padding(padding_idx):
    weight, tokens = np.random.default_rng(0).standard_normal((4, 3)).astype("float32"), np.array([[0, 1], [2, 1]])
    with padiff_shim.reference("torch", definitions="torch", strict=True) as run:
        ours = looked_up(paddle, weight, tokens, padding_idx)
    for mine, theirs in zip(ours, looked_up(torch, weight, tokens, padding_idx)):
        np.testing.assert_array_equal(mine, theirs)
    assert not run.warnings


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


def test_every_call_is_asked():
    """The first calls of a kind go another way than the next ones."""
    weight, tokens = paddle.zeros([4, 3]), paddle.to_tensor([0, 1])
    weight.stop_gradient = False
    with padiff_shim.reference("torch") as run:
        for _ in range(4):
            F.embedding(tokens, weight, padding_idx=1)
        assert not run.warnings
        with paddle.no_grad():
            weight.set_value(paddle.ones([4, 3]))
        F.embedding(tokens, weight, padding_idx=1)
    assert "the padding (padding_idx=1) reads as zeros" in "".join(run.warnings)


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


def test_torchs_mean_over_no_labels():
    x, label = paddle.zeros([2, 3]), paddle.to_tensor([1, 1])
    with padiff_shim.reference("torch", definitions="torch"):
        assert np.isnan(float(F.nll_loss(x, label, ignore_index=1)))
    with padiff_shim.reference("torch") as run:
        assert float(F.nll_loss(x, label, ignore_index=1)) == 0
    assert ["nll_loss" in warning for warning in run.warnings] == [True]


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


RNG = np.random.default_rng(8)
X = RNG.standard_normal((6, 5)).astype("float32")
PADDED = np.array([0, -100, 2, 3, -100, 4])
SHARES = RNG.dirichlet(np.ones(5), 6).astype("float32")
WEIGHTS = RNG.uniform(0.5, 2, 5).astype("float32")
OVER_ALL = "cross_entropy: ignored labels (ignore_index=-100) count in the mean, which Torch takes over the others"


def leaf(values):
    tensor = paddle.to_tensor(values)
    tensor.stop_gradient = False
    return tensor


def of_twin(label, **how):
    """Torch's loss and gradient."""
    x = torch.tensor(X, requires_grad=True)
    keywords = {name: torch.from_numpy(value) if isinstance(value, np.ndarray) else value for name, value in how.items()}
    loss = torch.nn.functional.cross_entropy(x, torch.from_numpy(label), **keywords)
    loss.sum().backward()
    return loss.detach(), x.grad


def of_shim(label, definitions, **how):
    """The loss and gradient under the shim, and the run."""
    x = leaf(X)
    keywords = {name: paddle.to_tensor(value) if isinstance(value, np.ndarray) else value for name, value in how.items()}
    with padiff_shim.reference("torch", strict=True, definitions=definitions) as run:
        loss = F.cross_entropy(x, paddle.to_tensor(label), **keywords)
        loss.sum().backward()
    return loss.detach(), x.grad, run


def test_padding_counts_as_in_the_installed_paddle():
    """Paddle 3 divides by all labels, as a twin would that takes the mean itself; Paddle 2.6 by the others."""
    loss, grad, run = of_shim(PADDED, "paddle")
    x = torch.tensor(X, requires_grad=True)
    expected = torch.nn.functional.cross_entropy(x, torch.from_numpy(PADDED), reduction="none").mean()
    expected.backward()
    theirs = (expected.detach(), x.grad) if IS_3 else of_twin(PADDED)
    assert same(loss, theirs[0])
    assert same(grad, theirs[1])
    assert run.warnings == ([f'{OVER_ALL}; definitions="torch" computes that'] if IS_3 else [])


def test_a_comparison_tells_of_padding():
    with padiff_shim.compare("torch") as run:
        F.cross_entropy(paddle.to_tensor(X), paddle.to_tensor(PADDED))
        F.cross_entropy(paddle.to_tensor(X), paddle.to_tensor(PADDED), reduction="none")
    assert run.warnings == ([OVER_ALL] if IS_3 else [])
    assert {call.verdict for call in run.calls} <= {Verdict.EQUAL, Verdict.ROUNDING}


TORCHS = {
    "padding": (PADDED, {}, {}),
    "labels with an axis": (PADDED[:, None], {}, {}),
    "smoothing": (np.maximum(PADDED, 0), {"label_smoothing": 0.1}, {"label_smoothing": 0.1}),
    "smoothing beside a label to ignore": (
        np.maximum(PADDED, 0),
        {"label_smoothing": 0.1, "ignore_index": 2},
        {"label_smoothing": 0.1, "ignore_index": 2},
    ),
    "weighted shares": (SHARES, {"soft_label": True, "weight": WEIGHTS}, {"weight": WEIGHTS}),
}


@pytest.mark.parametrize("case", TORCHS)
def test_torchs_definition_of_cross_entropy(case):
    label, ours, theirs = TORCHS[case]
    loss, grad, run = of_shim(label, "torch", **ours)
    expected = of_twin(label[:, 0] if label.shape == (6, 1) else label, **theirs)
    assert same(loss, expected[0])
    assert same(grad, expected[1])
    assert not run.warnings


@pytest.mark.parametrize("case", [case for case in TORCHS if "axis" not in case])
def test_paddles_definition_is_native_paddles(case):
    label, how, _ = TORCHS[case]
    x = leaf(X)
    keywords = {name: paddle.to_tensor(value) if isinstance(value, np.ndarray) else value for name, value in how.items()}
    native = F.cross_entropy(x, paddle.to_tensor(label), **keywords)
    native.backward()
    loss, grad, _ = of_shim(label, "paddle", **how)
    np.testing.assert_allclose(loss.numpy(), native.numpy(), rtol=1e-6)
    np.testing.assert_allclose(grad.numpy(), x.grad.numpy(), rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("definitions", ["paddle", "torch"])
def test_running_variances(definitions):
    x, count = RNG.standard_normal((4, 3, 5)).astype("float32"), 20
    ours, theirs = paddle.nn.BatchNorm1D(3, data_format="NCL"), torch.nn.BatchNorm1d(3)
    with padiff_shim.reference("torch", strict=True, definitions=definitions) as run:
        outputs = [ours(paddle.to_tensor(x * factor)) for factor in (1, 2)]
        ours.eval()
        outputs.append(ours(paddle.to_tensor(x)))
    expected = [theirs(torch.from_numpy(x * factor)) for factor in (1, 2)]
    theirs.eval()
    expected.append(theirs(torch.from_numpy(x)))
    assert run.substituted == {"batch_norm": 3}
    assert all(same(tensor.detach(), other.detach()) for tensor, other in zip(outputs[:2], expected[:2], strict=True))
    assert same(ours._mean, theirs.running_mean)
    alike = definitions == "torch"
    assert same(ours._variance, theirs.running_var) == same(outputs[2].detach(), expected[2].detach()) == alike
    if not alike:
        share = (theirs.running_var.numpy() - 0.81) * (count - 1) / count + 0.81
        np.testing.assert_allclose(ours._variance.numpy(), share, rtol=1e-5)


def test_modes_of_both_definitions_one_in_the_other():
    def loss():
        return F.cross_entropy(paddle.to_tensor(X), paddle.to_tensor(PADDED))

    with padiff_shim.reference("torch"):
        before = loss()
        with padiff_shim.reference("torch", definitions="torch"):
            inner = loss()
        after = loss()
    assert same(inner, of_twin(PADDED)[0])
    assert same(before, after.numpy())
    assert same(before, inner.numpy()) == (not IS_3)


def test_the_option_is_checked():
    with pytest.raises(PadiffShimError, match="definitions"):
        padiff_shim.reference("torch", definitions="jax")
    with pytest.raises(PadiffShimError, match="belongs to reference"):
        padiff_shim.reference("torch", definitions="torch", compare=True)


def test_names_of_ops_take_torchs_definition_for_these_alone():
    label = paddle.to_tensor([1, -100, 2])
    norm = paddle.nn.BatchNorm1D(4)
    x = paddle.to_tensor(np.random.default_rng(0).standard_normal((3, 4)).astype("float32"))
    results = {}
    for definitions in ("paddle", ["batch_norm"], "cross_entropy", ["torch", "paddle"], []):
        norm._variance.set_value(paddle.ones([4]))
        with padiff_shim.reference("torch", definitions=definitions):
            norm(x)
            loss = F.cross_entropy(x, label)
        results[str(definitions)] = norm._variance.numpy(), loss.item()
    ours, theirs = results["paddle"], results["['torch', 'paddle']"]
    assert not np.array_equal(ours[0], theirs[0])
    assert (ours[1] != theirs[1]) is IS_3
    for name, variance, loss in (("['batch_norm']", theirs, ours), ("cross_entropy", ours, theirs), ("[]", ours, ours)):
        np.testing.assert_array_equal(results[name][0], variance[0])
        assert results[name][1] == loss[1]
    with pytest.raises(padiff_shim.UnknownNameError, match="batch_norm"):
        padiff_shim.reference("torch", definitions=["batch_norms"])
