"""Layers that were given no initializer begin as Torch's do, in a mode that takes Torch's definitions."""

import numpy as np
import paddle
import pytest
import torch
from padiff_shim.patches.initializer import LAYERS

import padiff_shim

pytestmark = [pytest.mark.compat, pytest.mark.usefixtures("undone")]
nn = paddle.nn
MADE = {
    "Linear": (5, 7),
    "Conv1D": (4, 6, 3),
    "Conv2D": (4, 6, (3, 2)),
    "Conv3D": (2, 3, 2),
    "Conv1DTranspose": (4, 6, 3),
    "Conv2DTranspose": (4, 6, 3),
    "Conv3DTranspose": (2, 4, 2),
    "Embedding": (9, 4),
    "Bilinear": (3, 4, 5),
}
TWINS = {name: name for name in ("Linear", "Embedding", "Bilinear")} | {
    f"Conv{n}D{kind}": f"Conv{kind}{n}d" for n in (1, 2, 3) for kind in ("", "Transpose")
}


def parameters(layer):
    """Weight and bias as Torch has them."""
    weight, bias = layer.weight, getattr(layer, "bias", None)
    if isinstance(layer, torch.nn.Module):
        return [side.detach().numpy() for side in (weight, bias) if side is not None]
    weight = weight.numpy().T if isinstance(layer, nn.Linear) else weight.numpy()
    return [weight] + ([] if bias is None else [bias.numpy().reshape(-1)])


def made(name, mode=None, **options):
    if mode is None:
        torch.manual_seed(5)
        return getattr(torch.nn, TWINS[name])(*MADE[name], **options)
    with padiff_shim.reference("torch", **mode):
        paddle.seed(5)
        return getattr(nn, name)(*MADE[name], **options)


def test_every_layer_of_the_table_is_tried():
    assert set(MADE) == set(LAYERS)


@pytest.mark.parametrize("name", LAYERS)
@pytest.mark.parametrize("definitions", ["torch", "initial_weights"])
def test_bit_for_bit_with_torchs_numbers(name, definitions):
    ours, theirs = made(name, {"definitions": definitions, "random": "torch"}), made(name)
    assert len(parameters(ours)) == len(parameters(theirs))
    for mine, twin in zip(parameters(ours), parameters(theirs)):
        np.testing.assert_array_equal(mine, twin)


@pytest.mark.parametrize("name", LAYERS)
def test_torchs_range_with_paddles_numbers(name):
    ours, theirs = made(name, {"definitions": "torch"}), made(name)
    for mine, twin in zip(parameters(ours), parameters(theirs)):
        assert not np.array_equal(mine, twin)
        assert (
            abs(mine).max() <= max(2.5 * abs(twin).max(), 1e-6) if name == "Embedding" else abs(mine).max() <= abs(twin).max() * 2
        )


def test_groups_and_padding_and_no_bias():
    options = {"groups": 2, "bias_attr": False}
    ours = made("Conv2D", {"definitions": "torch", "random": "torch"}, **options)
    theirs = made("Conv2D", groups=2, bias=False)
    np.testing.assert_array_equal(ours.weight.numpy(), theirs.weight.detach().numpy())
    ours = made("Embedding", {"definitions": "torch", "random": "torch"}, padding_idx=2)
    np.testing.assert_array_equal(ours.weight.numpy(), made("Embedding", padding_idx=2).weight.detach().numpy())


def test_a_whole_model_and_a_class_of_the_programs_own():
    class Own(nn.Linear):
        def __init__(self):
            super().__init__(4, 4)
            self.scale = self.create_parameter([4, 4])

    with padiff_shim.reference("torch", definitions="torch", random="torch"):
        paddle.seed(1)
        model = nn.Sequential(nn.Linear(4, 4), nn.LayerNorm(4), Own())
    torch.manual_seed(1)
    twins = [torch.nn.Linear(4, 4), torch.nn.Linear(4, 4)]
    for ours, theirs in zip((model[0], model[2]), twins):
        for mine, twin in zip(parameters(ours), parameters(theirs)):
            np.testing.assert_array_equal(mine, twin)
    assert abs(model[2].scale.numpy()).max() > 1 / np.sqrt(4), "Xavier's, as the program made it"


@pytest.mark.parametrize("mode", [{}, {"random": "torch"}, {"definitions": "batch_norm"}])
def test_without_it_they_begin_as_paddles(mode):
    assert not made("Linear", mode).bias.numpy().any()


def test_what_the_program_chose_stands():
    constant = nn.initializer.Constant(0.25)
    ours = made("Linear", {"definitions": "torch"}, weight_attr=constant, bias_attr=paddle.ParamAttr(initializer=constant))
    assert (ours.weight.numpy() == 0.25).all()
    assert (ours.bias.numpy() == 0.25).all()
    nn.initializer.set_global_initializer(constant, constant)
    try:
        assert (made("Conv2D", {"definitions": "torch"}).weight.numpy() == 0.25).all()
    finally:
        nn.initializer.set_global_initializer(None)


def test_attention_is_told_of():
    with padiff_shim.reference("torch", definitions="torch") as run:
        attention = nn.MultiHeadAttention(8, 2)
    assert "MultiHeadAttention" in run.warnings[0]
    assert not attention.q_proj.bias.numpy().any()
