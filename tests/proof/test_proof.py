"""What a proof prints, and what is refused."""

import numpy as np
import paddle
import pytest
import torch

from padiff_shim import ArgumentError, ProofVerdict, prove
from padiff_shim.proof.proof import Proof

pytestmark = pytest.mark.usefixtures("undone")
X = np.random.default_rng(0).standard_normal((4, 6))


def original():
    torch.manual_seed(0)
    return torch.nn.Sequential(torch.nn.Linear(6, 6), torch.nn.LayerNorm(6), torch.nn.GELU())


def port(epsilon=1e-5, approximate=False):
    return paddle.nn.Sequential(paddle.nn.Linear(6, 6), paddle.nn.LayerNorm(6, epsilon=epsilon), paddle.nn.GELU(approximate))


@pytest.mark.parametrize("phase", ["forward", "both"])
def test_of_layers_of_a_framework_alone_the_line_is_that_of_the_layer(phase):
    """Nobody learns anything from the line that began the proof."""
    proof = prove(port(approximate=True), original(), X, phase=phase)
    (mistake,) = proof.mistakes
    lines = mistake.paddle, mistake.torch
    assert ["paddle/nn/layer/activation.py" in lines[0].file, "torch/nn/modules/activation.py" in lines[1].file] == [True, True]
    assert all("gelu(" in place.source for place in lines)
    assert " at paddle/nn/layer/activation.py:" in proof.answer


def test_a_page_escapes_what_it_shows():
    page = Proof(ProofVerdict.NOT_COMPARABLE, "<script>alert(1)</script>").html()
    assert "<script>" not in page


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"paddle_layer": 3}, "paddle_layer= is a paddle.nn.Layer"),
        ({"torch_module": "x"}, "torch_module= is a torch.nn.Module"),
        ({"paddle_layer": paddle.nn.ReLU}, r"the class ReLU: call it, ReLU\(...\)"),
        ({"paddle_layer": original(), "torch_module": port()}, "the Paddle layer comes first"),
        ({"inputs": None}, "inputs= is an array"),
        ({"weights": "torch"}, "unknown weights"),
        ({"phase": "back"}, "unknown phase"),
        ({"loss": 3}, "loss= is a function"),
    ],
)
def test_bad_arguments_are_named(change, message):
    arguments = {"paddle_layer": port(), "torch_module": original(), "inputs": X, **change}
    with pytest.raises(ArgumentError, match=message):
        prove(arguments.pop("paddle_layer"), arguments.pop("torch_module"), arguments.pop("inputs"), **arguments)
