"""When two models count as equal: no default lets a wrong one pass, and none accuses a right one."""

import numpy as np
import paddle
import pytest
import torch
from padiff_models import inputs, pair, residual

from padiff_shim import auto_diff
from padiff_shim.autodiff import check_dataloader
from padiff_shim.autodiff.differences import Tolerance

pytestmark = pytest.mark.compat


def reversed_port():
    """A port whose output is the original's, reversed along its features: all means are the same."""
    port, original = pair(residual)
    port.register_forward_post_hook(lambda layer, arguments, output: output.flip([1]))
    return port, original


@pytest.mark.parametrize(
    "options", [{}, {"atol": 1e-4}, {"rtol": 1e-3}, {"atol": 1e-4, "single_step": True}, {"kernels": "native"}]
)
def test_a_reversed_output_never_passes_unasked(options):
    assert auto_diff(*reversed_port(), inputs("x"), explain=False, **options) is False
    assert auto_diff(*reversed_port(), inputs("x"), True, {**options, "diff_phase": "forward"}) is False


def test_means_are_compared_only_by_name():
    options = {"atol": 1e-4, "diff_phase": "forward"}
    assert auto_diff(*reversed_port(), inputs("x"), compare_mode="mean", **options) is True
    assert auto_diff(*reversed_port(), inputs("x"), compare_mode="abs_mean", **options) is True


class Handwritten(torch.nn.Module):
    """LayerNorm by hand: the same mathematics, rounded otherwise."""

    def __init__(self):
        super().__init__()
        self.inner, self.norm = torch.nn.Linear(12, 12), torch.nn.LayerNorm(12)

    def forward(self, x):
        x = self.inner(x)
        centred = x - x.mean(-1, keepdim=True)
        spread = (centred * centred).mean(-1, keepdim=True) + 1e-5
        return centred * spread.rsqrt() * self.norm.weight + self.norm.bias


class Port(paddle.nn.Layer):
    def __init__(self, epsilon=1e-5):
        super().__init__()
        self.inner, self.norm = paddle.nn.Linear(12, 12), paddle.nn.LayerNorm(12, epsilon=epsilon)

    def forward(self, x):
        return self.norm(self.inner(x))


def weighted(output):
    """A loss that not every rounding hides in: its gradients are of many sizes."""
    return (output * output).mean()


def test_without_a_tolerance_rounding_passes_and_a_mistake_does_not(capsys):
    arguments, losses = inputs("x"), [weighted, weighted]
    assert auto_diff(Port(), Handwritten(), arguments, loss_fn=losses) is True
    assert auto_diff(Port(epsilon=1.01e-5), Handwritten(), arguments, loss_fn=losses) is False
    assert "CODE_DIFFERS" in capsys.readouterr().out


def test_a_tolerance_is_kept_to_the_letter():
    port, original = pair(residual)
    port.register_forward_post_hook(lambda layer, arguments, output: output + 1e-3)
    options = {"diff_phase": "forward", "explain": False}
    assert auto_diff(port, original, inputs("x"), atol=1.1e-3, **options) is True
    assert auto_diff(port, original, inputs("x"), atol=0.9e-3, rtol=0, **options) is False


def test_outputs_of_other_shapes_and_numbers_differ(capsys):
    port, original = pair(residual)
    hook = port.register_forward_post_hook(lambda layer, arguments, output: output[:1])
    assert auto_diff(port, original, inputs("x"), atol=1, diff_phase="forward") is False
    assert "shapes [1, 5] and [6, 5]" in capsys.readouterr().out
    hook.remove()
    port.register_forward_post_hook(lambda layer, arguments, output: (output, output))
    assert auto_diff(port, original, inputs("x"), atol=1, diff_phase="forward", explain=False) is False


def test_a_gradient_on_one_side_alone_is_a_difference(capsys):
    port, original = pair(residual)
    original.inner.weight.requires_grad_(False)
    assert auto_diff(port, original, inputs("x"), atol=1) is False
    assert "there is none" in capsys.readouterr().out


def test_gradients_of_inputs_are_compared():
    """Of the inputs that want one."""

    class Torch(torch.nn.Module):
        def forward(self, x):
            return x * 1.0

    class Paddle(paddle.nn.Layer):
        def __init__(self, factor):
            super().__init__()
            self.factor = factor

        def forward(self, x):
            result = x * 1.0
            result.register_hook(lambda gradient: gradient * self.factor)
            return result

    for factor, equal in ((1.0, True), (2.0, False)):
        arguments = inputs("x")
        arguments[0]["x"].stop_gradient = False
        arguments[1]["x"].requires_grad_()
        assert auto_diff(Paddle(factor), Torch(), arguments, atol=1e-6, explain=False) is equal


@pytest.mark.parametrize("unbiased", [True, False])
def test_models_without_parameters(unbiased):
    """There is nothing to go back to, and so nothing of a backward to compare."""

    class Torch(torch.nn.Module):
        def forward(self, x):
            return x / x.std(-1, keepdim=True)

    class Paddle(paddle.nn.Layer):
        def forward(self, x):
            return x / x.std(-1, unbiased=unbiased, keepdim=True)

    assert auto_diff(Paddle(), Torch(), inputs("x")) is unbiased


@pytest.mark.parametrize("kernels", ["native", "torch"])
def test_single_step_judges_each_layer(kernels, capsys):
    """A wrong layer behind another wrong one is found by itself, and the one before it is not blamed."""
    port, original = pair(residual)
    port.head.register_forward_post_hook(lambda layer, arguments, output: output * 1.001)
    assert auto_diff(port, original, inputs("x"), atol=1e-5, single_step=True, diff_phase="forward", kernels=kernels) is False
    assert "Residual.head" in capsys.readouterr().out


def test_the_optimizers_are_compared(capsys):
    port, original = pair(residual)
    optimizers = [
        paddle.optimizer.SGD(learning_rate=0.1, parameters=port.parameters()),
        torch.optim.SGD(original.parameters(), lr=0.2),
    ]
    assert auto_diff(port, original, inputs("x"), optimizers=optimizers, atol=1e-5, steps=3) is False
    printed = capsys.readouterr().out
    assert "Diff found in Weights Stage, step 0" in printed


def test_functions_as_optimizers():
    port, original = pair(residual)
    ours = paddle.optimizer.SGD(learning_rate=0.1, parameters=port.parameters())
    theirs = torch.optim.SGD(original.parameters(), lr=0.1)
    functions = [lambda: (ours.step(), ours.clear_grad()), lambda: (theirs.step(), theirs.zero_grad())]
    assert auto_diff(port, original, inputs("x"), optimizers=functions, atol=1e-5, steps=2) is True


def test_tolerances():
    strict = Tolerance(0.0, 1e-7)
    nothing = np.zeros((0, 3), "float32")
    assert not strict.difference(None, None)
    assert not strict.difference(nothing, nothing)
    assert not strict.difference(np.array([np.nan, np.inf]), np.array([np.nan, np.inf]))
    assert strict.difference(np.array([np.inf]), np.array([-np.inf]))
    assert strict.difference(np.array([np.nan]), np.array([0.0]))
    assert strict.difference(nothing, np.zeros(3, "float32"))
    assert strict.difference(np.array([1, 2]), np.array([1, 3]))
    assert not strict.difference(np.array([1.0]), np.array([1.0 + 1e-8]))
    assert "atol=1.0e-03" in strict.difference(np.array([0.0]), np.array([1e-3]))


def test_batches_of_structures():
    values = np.arange(6.0)
    assert (
        check_dataloader([{"x": paddle.to_tensor(values), "n": (values,)}], [{"x": torch.tensor(values), "n": (values,)}]) is True
    )
    assert check_dataloader([{"x": values}], [{"y": values}]) is False
    assert check_dataloader([values], [values + 1e-3], atol=1e-2) is True
    assert check_dataloader([values], [values[::-1]]) is False
    assert check_dataloader([values], [values[::-1]], compare_mode="mean") is True
