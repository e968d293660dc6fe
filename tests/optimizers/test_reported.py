"""Four reports that an optimizer of Paddle's and its Torch twin part, rebuilt: under ``optimizer="torch"`` they do not."""

import numpy as np
import paddle
import pytest
import torch
from helpers import same
from trainings import backward, nets, turned, unequal

import padiff_shim

pytestmark = [pytest.mark.bitexact, pytest.mark.compat]


def after_a_backward(step, build, twins):
    """The parameters' greatest distance to the twin's, and names of those that are not equal, after steps of both."""
    ours, twin = nets()
    mine, theirs = build(ours.parameters()), twins(twin.parameters())
    with step as run:
        for index in range(5):
            backward(ours, twin, index)
            mine.step()
            theirs.step()
            mine.clear_grad()
            theirs.zero_grad()
    pairs = zip(ours.parameters(), twin.parameters(), strict=True)
    return max(np.abs(turned(tensor.numpy()) - two.detach().numpy()).max() for tensor, two in pairs), unequal(ours, twin), run


REPORTS = {
    "Adamax": (  # epsilon is added in another place
        lambda params: paddle.optimizer.Adamax(0.01, epsilon=1e-2, parameters=params),
        lambda params: torch.optim.Adamax(params, lr=0.01, eps=1e-2),
        "another",
    ),
    "Adadelta": (  # Paddle 2.2 left the learning rate out
        lambda params: paddle.optimizer.Adadelta(0.5, epsilon=1e-6, rho=0.9, parameters=params),
        lambda params: torch.optim.Adadelta(params, lr=0.5, rho=0.9, eps=1e-6),
        "same",
    ),
    "Adam with decay": (  # beta1 is 0, which leaves no power to count steps by
        lambda params: paddle.optimizer.Adam(
            0.01, beta1=0.0, beta2=0.99, parameters=params, weight_decay=paddle.regularizer.L2Decay(1e-4)
        ),
        lambda params: torch.optim.Adam(params, lr=0.01, betas=(0.0, 0.99), weight_decay=1e-4),
        "same",
    ),
}


@pytest.mark.parametrize("report", REPORTS)
def test_nothing_is_apart_with_torchs_definition(report):
    build, twins, _ = REPORTS[report]
    apart, names, run = after_a_backward(padiff_shim.reference("torch", optimizer="torch"), build, twins)
    assert (apart, names) == (0, [])
    assert not run.native


@pytest.mark.parametrize("report", REPORTS)
def test_the_definition_explains_what_is_apart(report):
    """With Paddle's definition on Torch's kernels a difference is there where the definitions differ, and nowhere else."""
    build, twins, definition = REPORTS[report]
    apart, names, _ = after_a_backward(padiff_shim.reference("torch"), build, twins)
    assert (apart > 1e-4) == bool(names) == (definition == "another")


def test_adamw_with_groups_after_the_gradients_were_cleared():
    """A chain of three embeddings, two of them in groups of their own; the step comes when the gradients have been set to zero."""
    draw = np.random.default_rng(7)
    values = [draw.standard_normal(shape).astype("float32") for shape in ((1, 16), (16, 16), (16, 1))]
    layers = [paddle.nn.Embedding(*value.shape) for value in values]
    for layer, value in zip(layers, values, strict=True):
        layer.weight.set_value(value)
    twins = [torch.nn.Parameter(torch.tensor(value)) for value in values]
    left, middle, _ = (layer.weight for layer in layers)
    groups = [{"params": left}, {"params": middle, "weight_decay": 0.0001, "learning_rate": 0.5, "beta1": 0.8}]
    mine = paddle.optimizer.AdamW(0.1, parameters=groups, beta1=0.9, beta2=0.98, epsilon=1e-6, weight_decay=0.1)
    theirs = torch.optim.AdamW(
        [{"params": [twins[0]]}, {"params": [twins[1]], "weight_decay": 0.0001, "lr": 0.1 * 0.5, "betas": (0.8, 0.98)}],
        lr=0.1, betas=(0.9, 0.98), eps=1e-6, weight_decay=0.1,
    )  # fmt: skip
    with padiff_shim.reference("torch", optimizer="torch") as run:
        for index in range(4):
            loss = paddle.square(paddle.einsum("ab,bc,cd->ad", *(layer.weight for layer in layers)) - 2.0)
            twin_loss = torch.square(torch.einsum("ab,bc,cd->ad", *twins) - 2.0)
            assert same(loss, twin_loss)
            loss.backward()
            twin_loss.backward()
            if index % 2:
                mine.clear_grad()
                theirs.zero_grad(set_to_none=False)
            mine.step()
            theirs.step()
            mine.clear_grad()
            theirs.zero_grad(set_to_none=False)
            assert all(same(layer.weight.numpy(), twin) for layer, twin in zip(layers, twins, strict=True))
    assert run.optimizers == {"adamw": {"torch": 8}}
