"""Losses where the table's own samples cannot say it: two results, labels that are ignored, spellings by layers, saturation."""

import numpy as np
import paddle
import paddle.nn.functional as F
import pytest
import torch
from helpers import has_defect, same

import padiff_shim
from padiff_shim.frameworks.versions import IS_3

pytestmark = [pytest.mark.compat, pytest.mark.bitexact]

RNG = np.random.default_rng(3)
X, LABELS = RNG.standard_normal((6, 5)).astype("float32"), RNG.integers(0, 5, 6)


def leaf(values):
    tensor = paddle.to_tensor(values)
    tensor.stop_gradient = False
    return tensor


def twin(values):
    return torch.tensor(values, requires_grad=True)


def test_softmax_with_cross_entropy_gives_both_results():
    x, theirs = leaf(X), twin(X)
    with padiff_shim.reference("torch") as run:
        loss, softmax = F.softmax_with_cross_entropy(x, paddle.to_tensor(LABELS[:, None]), return_softmax=True)
        loss.sum().backward()
    expected = torch.nn.functional.cross_entropy(theirs, torch.from_numpy(LABELS), reduction="none")
    expected.sum().backward()
    assert same(loss.detach(), expected.detach().unsqueeze(1))
    assert same(softmax.detach(), torch.softmax(theirs.detach(), 1))
    assert same(x.grad, theirs.grad)
    assert run.substituted["cross_entropy_with_softmax"] == 1


def test_a_loss_that_saturates_natively():
    """Paddle's softmax stops at exp(-64): natively no loss is larger than about 64.7."""
    x = np.array([[0.0, 100.0]], "float32")
    with padiff_shim.reference("torch"):
        loss = F.cross_entropy(paddle.to_tensor(x), paddle.to_tensor([0]))
    assert float(loss) == 100.0


@pytest.mark.parametrize("weight", [None, [0.5, 1.0, 2.0, 3.0, 4.0]], ids=["plain", "weighted"])
@pytest.mark.parametrize("ignored", [-100, 2])
@pytest.mark.parametrize("labels", [[0, 2, 2, 3, 1, 4], [0, -100, 2, 3, 1, 4], [2] * 6, [-100] * 6], ids=str)
def test_ignored_labels_count_as_natively(labels, ignored, weight):
    def loss():
        x, weights = leaf(X), None if weight is None else paddle.to_tensor(np.array(weight, "float32"))
        result = F.cross_entropy(x, paddle.to_tensor(labels), weight=weights, ignore_index=ignored)
        result.backward()
        return result.numpy(), x.grad.numpy()

    try:
        native = loss()
    except Exception as error:  # a label that is neither a class nor ignored
        with padiff_shim.reference("torch"), pytest.raises(type(error)):
            loss()
        return
    with padiff_shim.reference("torch", strict=True) as run:
        ours = loss()
    assert run.substituted["cross_entropy"] == run.backward["cross_entropy"] == 1
    for mine, expected in zip(ours, native):
        np.testing.assert_allclose(mine, expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("normalize", [False, True])
def test_ignored_labels_of_a_sigmoid_count_as_natively(normalize):
    labels = np.where(np.arange(12).reshape(3, 4) % 3 == 1, -1, np.arange(12).reshape(3, 4) % 2).astype("float32")

    def loss():
        x = leaf(np.linspace(-2, 2, 12, dtype="float32").reshape(3, 4))
        values = paddle._C_ops.sigmoid_cross_entropy_with_logits(x, paddle.to_tensor(labels), None, normalize, -1)
        values.sum().backward()
        return values.numpy(), x.grad.numpy()

    native = loss()
    with padiff_shim.reference("torch", strict=True) as run:
        ours = loss()
    assert run.substituted["sigmoid_cross_entropy_with_logits"] == run.backward["sigmoid_cross_entropy_with_logits"] == 1
    for mine, expected in zip(ours, native):
        np.testing.assert_allclose(mine, expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
@pytest.mark.parametrize("weight", [None, [0.5, 1.0, 2.0, 3.0, 4.0]], ids=["plain", "weighted"])
def test_ignored_labels_of_likelihoods(weight, reduction):
    """In float32: Paddle's float64 kernel would write outside of its memory, so that the table's samples ignore no label."""
    x, theirs, weights = leaf(X), twin(X), None if weight is None else np.array(weight, "float32")
    labels = np.array([0, 2, 2, 3, 1, 4])
    with padiff_shim.reference("torch") as run:
        class_weights = None if weights is None else paddle.to_tensor(weights)
        loss = F.nll_loss(x, paddle.to_tensor(labels), class_weights, ignore_index=2, reduction=reduction)
        loss.sum().backward()
    class_weights = None if weights is None else torch.from_numpy(weights)
    expected = torch.nn.functional.nll_loss(theirs, torch.from_numpy(labels), class_weights, ignore_index=2, reduction=reduction)
    expected.sum().backward()
    assert run.substituted["nll_loss"] == 1
    assert same(loss.detach(), expected.detach())
    assert same(x.grad, theirs.grad)


def test_weights_of_positives():
    label, weight = (X > 0).astype("float32"), np.linspace(0.5, 2, 5).astype("float32")
    with padiff_shim.reference("torch") as run:
        ours = F.binary_cross_entropy_with_logits(*map(paddle.to_tensor, (X, label)), pos_weight=paddle.to_tensor(weight))
        F.binary_cross_entropy_with_logits(*map(paddle.to_tensor, (X, label * 0.5)), pos_weight=paddle.to_tensor(weight))
    theirs = torch.nn.functional.binary_cross_entropy_with_logits(
        *map(torch.from_numpy, (X, label)), pos_weight=torch.from_numpy(weight)
    )
    assert same(ours, theirs)
    assert run.substituted["binary_cross_entropy_with_logits"] == 2
    assert not run.native


@pytest.mark.skipif(IS_3, reason="2.6 has no log_target=")
def test_a_name_is_no_parameter_of_a_newer_version():
    label = np.abs(X)
    with padiff_shim.reference("torch"):
        named = F.kl_div(paddle.to_tensor(X), paddle.to_tensor(label), "sum", "the name")
        plain = F.kl_div(paddle.to_tensor(X), paddle.to_tensor(label), "sum")
    assert same(named, plain.numpy())


@pytest.mark.parametrize("reduction", ["none", "sum", "mean"])
@pytest.mark.parametrize("norm_by_times", [False, True])
def test_a_text_that_does_not_fit_costs_nothing(reduction, norm_by_times):
    """Three equal letters need five steps: natively such a row is 0 and has no gradient; in Torch that is zero_infinity."""
    logits = RNG.standard_normal((6, 2, 5)).astype("float32")
    labels, lengths, sizes = np.array([[1, 2, 3], [2, 2, 2]], "int32"), np.array([6, 4]), np.array([3, 3])

    def loss():
        x = leaf(logits)
        result = F.ctc_loss(x, *map(paddle.to_tensor, (labels, lengths, sizes)), reduction=reduction, norm_by_times=norm_by_times)
        result.sum().backward()
        return result.detach(), x.grad

    native = loss()
    with padiff_shim.reference("torch", strict=True) as run:
        ours = loss()
    x = twin(logits)
    targets = (torch.from_numpy(labels).long(), torch.from_numpy(lengths), torch.from_numpy(sizes))
    result = torch.nn.functional.ctc_loss(x.log_softmax(-1), *targets, reduction=reduction, zero_infinity=True)
    result.sum().backward()
    assert run.substituted["ctc_loss"] == run.backward["ctc_loss"] == 1
    if not (norm_by_times and reduction == "mean"):
        assert same(ours[0], result.detach())
    if not norm_by_times:
        assert same(ours[1], x.grad)
    for mine, expected in zip(ours, native, strict=True):
        np.testing.assert_allclose(mine.numpy(), expected.numpy(), rtol=1e-4, atol=1e-6)


def test_a_distance_of_one_s_own_is_made_of_ops_of_the_table():
    def distance(a, b):
        return (a - b).abs().sum(-1)

    x, near, far = (paddle.to_tensor(X * factor) for factor in (1, 0.5, -1))
    with padiff_shim.reference("torch", strict=True) as run:
        F.triplet_margin_with_distance_loss(x, near, far, distance_function=distance)
    assert "triplet_margin_with_distance_loss" not in run.substituted
    assert run.substituted["abs"] == 2


@pytest.mark.parametrize("reduction", ["none", "sum", "mean"])
def test_weights_of_classes_with_a_margin(reduction):
    weight = np.linspace(0.5, 2, 5).astype("float32")

    def loss(weights):
        x = leaf(X)
        result = F.multi_margin_loss(x, paddle.to_tensor(LABELS), weight=weights, reduction=reduction)
        result.sum().backward()
        return result.detach(), x.grad

    native, wanted = loss(paddle.to_tensor(weight)), leaf(weight)
    with padiff_shim.reference("torch", strict=True):
        ours, with_gradient = loss(paddle.to_tensor(weight)), loss(wanted)
    x = twin(X)
    result = torch.nn.functional.multi_margin_loss(
        x, torch.from_numpy(LABELS), weight=torch.from_numpy(weight), reduction=reduction
    )
    result.sum().backward()
    assert same(ours[0], result.detach())
    assert same(ours[1], x.grad)
    assert wanted.grad.shape == [5]
    for value, other, third in zip(ours, native, with_gradient, strict=True):
        if not has_defect("multi_margin_loss multiplies the weights of all labels"):
            np.testing.assert_allclose(value.numpy(), other.numpy(), rtol=1e-5, atol=1e-6)
        np.testing.assert_allclose(value.numpy(), third.numpy(), rtol=1e-5, atol=1e-6)


def test_focal_loss_is_covered_whole():
    """Its gamma is a tensor of one element, where Paddle's function takes a number."""
    x, label = leaf(X), (X > 0).astype("float32")
    with padiff_shim.reference("torch", strict=True) as run:
        F.sigmoid_focal_loss(x, paddle.to_tensor(label)).backward()
    assert not run.native
    assert run.backward["pow"] == 1


def test_a_label_without_axes_stays_one():
    label, prior = paddle.full([], 0.25), paddle.full([1], 0.5)
    wanted = F.label_smooth(label, prior)
    with padiff_shim.reference("torch") as run:
        smoothed = F.label_smooth(label, prior)
    assert run.substituted == {"label_smooth": 1}
    assert smoothed.shape == wanted.shape == []


@pytest.mark.parametrize("mode", ["reference", "compare"])
@pytest.mark.parametrize(
    "loss",
    [
        lambda x, label: F.hinge_embedding_loss(x, label, reduction="none"),
        lambda x, label: F.margin_ranking_loss(x, label, label, 0.5, reduction="none"),
        lambda x, label: F.margin_ranking_loss(x, label, label, reduction="none"),
        lambda x, label: F.hinge_embedding_loss(x, label),
    ],
)
def test_a_loss_of_a_number_has_paddles_shape(mode, loss):
    """Of some Paddle makes one of one axis (docs/defects.md)."""
    x, label = leaf(np.float32(0.25)), paddle.to_tensor(-1.0)
    natively = loss(x, label)
    with getattr(padiff_shim, mode)("torch") as run:
        result = loss(x, label)
    assert result.shape == natively.shape
    assert same(result, natively)
    assert mode == "reference" or {str(call.verdict) for call in run.calls} <= {"EQUAL", "UNVERIFIED"}
