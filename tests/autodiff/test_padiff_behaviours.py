"""What PaDiff's own public tests ask of its functions, asked of ours: both published call forms.

Each test names the file and test of PaDiff that it rebuilds (0.2.0, and the newest snapshot of its 0.3).
"""

import functools

import numpy as np
import paddle
import pytest
import torch
from padiff_models import (
    PaddleAttention,
    PaddleConv,
    PaddleLSTMs,
    TorchAttention,
    TorchConv,
    TorchLSTMs,
    TorchResNet18,
    arithmetic,
    branches,
    chain,
    inputs,
    pair,
    residual,
    several,
    words,
)

from padiff_shim.autodiff import LayerMap, assign_weight, auto_diff, check_dataloader, check_grad, check_weight, create_model

pytestmark = pytest.mark.compat
LOOSE = {"atol": 1e-4}


def classic(port, original, arguments, **more):
    """0.2's call."""
    return auto_diff(port, original, arguments, auto_weights=True, **{"options": LOOSE, **more})


def newer(base, other, arguments, **more):
    """0.3's call."""
    return auto_diff(base, other, arguments, auto_init=True, **{**LOOSE, **more})


FORMS = pytest.mark.parametrize("call", [classic, newer])


@FORMS
def test_simplenet1_success(call):
    assert call(*pair(residual), inputs("x")) is True


def test_simplenet1_failed():
    port, original = pair(residual)
    assert auto_diff(port, original, inputs("x"), auto_weights=False, options={"atol": 1e-4}) is False
    assert auto_diff(port, original, inputs("x"), auto_init=False, atol=1e-4) is False


@FORMS
def test_simplenet2_success(call):
    """Called in another order."""
    (port, _), (_, original) = pair(branches()), pair(branches(order=(1, 0)))
    assert call(port, original, inputs("x")) is True


@FORMS
def test_simplenet3_success(call):
    """A layer that is called twice."""
    assert call(*pair(branches(shared=True)), inputs("x")) is True


def hooked(change):
    """A change of gradients in the Paddle half."""

    def register(tensor):
        if isinstance(tensor, paddle.Tensor):
            tensor.register_hook(change)
        return tensor

    return register


@FORMS
def test_simplenet4(call):
    assert call(*pair(branches(shared=True)), inputs("x")) is True
    assert call(*pair(branches(change=hooked(lambda gradient: 2 * gradient), shared=True)), inputs("x")) is False


@FORMS
def test_simplenet5_success(call):
    assert call(*pair(several()), inputs("x")) is True


@FORMS
def test_multi_input(call):
    assert call(*pair(several(second=True)), inputs("x", "y")) is True


@FORMS
def test_inplace(call):
    port, original = pair(residual)
    original.act = torch.nn.ReLU(inplace=True)
    assert call(port, original, inputs("x")) is True


def test_diff_phase():
    port, original = pair(residual)
    assert classic(port, original, inputs("x"), options={"atol": 1e-4, "diff_phase": "forward"}) is True
    assert all(parameter.grad is None for parameter in original.parameters())
    port, original = (create_model(model) for model in pair(residual))
    assert auto_diff(port, original, inputs("x"), diff_phase="forward", atol=1e-4) is True
    assert all(parameter.grad is None for parameter in original.parameters(recursively=True))


@FORMS
def test_loss_fn(call):
    label = np.random.default_rng(1).random(5).astype("float32")

    def ours(output, label):
        return output.mean() - paddle.to_tensor(label).mean()

    def theirs(output, label):
        return output.mean() - torch.tensor(label).mean()

    losses = [functools.partial(ours, label=label), functools.partial(theirs, label=label)]
    assert call(*pair(residual), inputs("x"), loss_fn=losses) is True
    wide = np.random.default_rng(1).random((6, 5)).astype("float32")
    losses = [
        functools.partial(paddle.nn.MSELoss(), label=paddle.to_tensor(wide)),
        functools.partial(torch.nn.MSELoss(), target=torch.tensor(wide)),
    ]
    assert call(*pair(residual), inputs("x"), loss_fn=losses) is True
    assert call(*pair(residual), inputs("x"), loss_fn=[lambda output: 1.5 * output.mean(), losses[1]]) is False


def adams(port, original):
    ours = paddle.optimizer.Adam(learning_rate=0.001, parameters=port.parameters())
    return [ours, torch.optim.Adam(lr=0.001, params=original.parameters())]


@pytest.mark.parametrize("steps", [1, 10])
def test_optimizers(steps):
    """test_optimizer and test_multi_step of test_optimizer_multi_steps; test_optimizers of 0.3."""
    port, original = pair(residual)
    assert classic(port, original, inputs("x"), optimizer=adams(port, original), steps=steps) is True
    port, original = (create_model(model) for model in pair(residual))
    assert newer(port, original, inputs("x"), optimizers=adams(port.model, original.model), steps=steps) is True


def test_single_step():
    options = {"atol": 1e-5, "single_step": True}
    port, original = pair(chain)
    assert classic(port, original, inputs("x"), options=options) is True
    port, original = (create_model(model) for model in pair(chain))
    assert assign_weight(original, port) is True
    assert newer(port, original, inputs("x"), **options) is True
    wrong = branches(change=hooked(lambda gradient: gradient + 0.01), shared=True)
    assert classic(*pair(wrong), inputs("x"), options=options) is False
    assert newer(*pair(wrong), inputs("x"), **options) is False


def test_compare_paddle_models():
    first, same = (create_model(pair(branches())[0], f"branches_{number}") for number in range(2))
    other = create_model(pair(branches(order=(1, 0), relu=True))[0])
    values = paddle.to_tensor(np.random.default_rng(0).random((6, 12)).astype("float32"))
    arguments = ({"x": values}, {"x": values})
    options = {"atol": 1e-4, "auto_init": True, "single_step": True}
    assert auto_diff(first, same, arguments, **options) is True
    assert auto_diff(first, other, arguments, **options) is False


@FORMS
def test_layer_map_1(call):
    """Layers in a Sequential on one side."""
    ours = paddle.nn.Sequential(paddle.nn.Linear(4, 8), paddle.nn.LayerNorm(8), paddle.nn.Linear(8, 4))

    class Named(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.one, self.norm, self.two = torch.nn.Linear(4, 8), torch.nn.LayerNorm(8), torch.nn.Linear(8, 4)

        def forward(self, input):
            return self.two(self.norm(self.one(input)))

    assert call(ours, Named(), inputs("input", shape=(1, 4)), layer_map={}) is True


def test_layer_map_lstm():
    """test_layer_map_2 of 0.2, test_layer_map_1 of 0.3."""
    port, original = PaddleLSTMs(), TorchLSTMs()
    assert classic(port, original, words(), layer_map={port.one: original.one, port.two: original.two}) is True
    port, original = create_model(PaddleLSTMs()), create_model(TorchLSTMs())
    original.set_layer_map([original.model.one, original.model.two])
    port.set_layer_map([port.model.one, port.model.two])
    assert newer(original, port, words(first="torch")) is True


def test_layer_map_attention():
    """test_layer_map_3 of 0.2, test_layer_map_2 of 0.3."""
    port, original = PaddleAttention(), TorchAttention()
    arguments = inputs("q", "k", "v", shape=(2, 4, 16))
    assert classic(port, original, arguments, layer_map={port.attn: original.attn}) is True
    port, original = create_model(PaddleAttention()), create_model(TorchAttention())
    original.set_layer_map([original.model.attn])
    port.set_layer_map([port.model.attn])
    assert newer(original, port, arguments[::-1]) is True


def test_layer_map_4():
    """A layer that does nothing, on one side."""

    class Nothing(paddle.nn.Layer):
        def forward(self, x):
            return x

    port = paddle.nn.Sequential(Nothing(), paddle.nn.Linear(12, 5))
    original = torch.nn.Sequential(torch.nn.Linear(12, 5))
    arguments = inputs("input")
    assert classic(port, original, arguments) is True
    layer_map = LayerMap()
    layer_map.ignore(port[0])
    assert classic(port, original, arguments, layer_map=layer_map) is True


def test_layer_map_normalization():
    """test_layer_map_5 of 0.2, test_layer_map_3 of 0.3."""
    arguments = inputs("x", shape=(1, 3, 8, 8))
    port, original = PaddleConv(), TorchConv()
    port.eval(), original.eval()
    assert classic(port, original, arguments, layer_map={port.bn: original.bn}) is True
    port, original = create_model(port), create_model(original)
    port.set_layer_map([port.model.bn])
    original.set_layer_map([original.model.bn])
    assert newer(original, port, arguments[::-1]) is True


def test_auto_layer_map():
    port, original = PaddleLSTMs(), TorchLSTMs()
    layer_map = LayerMap()
    layer_map.auto(port, original)
    assert {*layer_map.map} == {port.one, port.two}
    assert classic(port, original, words(), layer_map=layer_map) is True
    port, original = create_model(PaddleLSTMs()), create_model(TorchLSTMs())
    original.auto_layer_map("base")
    port.auto_layer_map("raw")
    assert auto_diff(original, port, words(first="torch"), auto_weights=True, atol=1e-4) is True


def test_weight_and_gradient_check():
    """test_weight_grad_check of 0.2, _0 and _1 of 0.3."""
    port, original = pair(residual)
    assert classic(port, original, inputs("x")) is True
    original.zero_grad()
    assert check_weight(port, original, LOOSE) is True
    assert check_grad(port, original, LOOSE) is False
    assert classic(port, original, inputs("x")) is True
    for parameter in original.parameters():
        parameter.data = parameter * 2
    assert check_weight(port, original, LOOSE) is False
    assert check_grad(port, original, LOOSE) is True


def test_api_to_layer(capsys):
    """Functions and operators in a forward are compared, too: the one that differs is found."""
    assert classic(*pair(arithmetic()), inputs("x")) is True
    (port, _), (_, original) = pair(arithmetic(2.0)), pair(arithmetic(2.125))
    assert classic(port, original, inputs("x")) is False
    assert "x = x * factor" in capsys.readouterr().out


def test_compare_mode():
    """A tolerance that the means keep and elements do not: which of the two is asked decides."""
    (port, _), (_, original) = pair(residual), pair(residual)
    port.head.register_forward_post_hook(lambda layer, arguments, output: output.flip([1]))
    mean = {"atol": 1e-4, "compare_mode": "mean", "diff_phase": "forward"}
    assert classic(port, original, inputs("x"), options=mean) is True
    assert classic(port, original, inputs("x"), options={**mean, "compare_mode": "strict"}) is False
    assert classic(port, original, inputs("x")) is False


def test_check_dataloader():
    data = [np.random.default_rng(number).random((4, 3)).astype("float32") for number in range(4)]
    assert check_dataloader(map(paddle.to_tensor, data), map(torch.tensor, data)) is True
    assert check_dataloader(map(paddle.to_tensor, data), map(torch.tensor, [*data[:2], data[2] + 1, data[3]])) is False
    assert check_dataloader(map(paddle.to_tensor, data), map(torch.tensor, data[:3])) is False


@FORMS
def test_device_cpu_cpu(call):
    port, original = pair(residual)
    assert call(port, original.to("cpu"), inputs("x")) is True


def test_resnet18():
    """In training mode; natively the tolerance that BatchNorm's rounding needs is the machine's."""
    port, original = create_model(paddle.vision.models.resnet18()), create_model(TorchResNet18())
    assert newer(port, original, inputs("x", shape=(4, 3, 16, 16)), kernels="torch", explain=False) is True


@pytest.mark.parametrize("scale", [1.0, 1.5])
def test_weights_that_change_nothing_need_no_partner(scale, capsys):
    """PaDiff stops at an InstanceNorm2D, which has weights in Paddle and none in Torch; one that scales otherwise is a mistake."""
    port = paddle.nn.Sequential(paddle.nn.Conv2D(3, 4, 1), paddle.nn.InstanceNorm2D(4))
    port[1].scale.set_value(paddle.full([4], scale))
    original = torch.nn.Sequential(torch.nn.Conv2d(3, 4, 1), torch.nn.InstanceNorm2d(4))
    image = np.random.default_rng(0).standard_normal((2, 3, 5, 5)).astype("float32")
    right = auto_diff(port, original, ({"input": paddle.to_tensor(image)}, {"input": torch.tensor(image)}), **LOOSE)
    shown = capsys.readouterr().out
    assert right is (scale == 1.0)
    assert ("1.scale, 1.bias: without partner, and without effect" in shown) is right
    assert "1.scale" in shown
