"""What is computed of a square weight lies transposed in Paddle, as the weight does. That is no mistake; one is told once."""

import numpy as np
import paddle
import paddle.nn.functional as PF
import pytest
import torch
import torch.nn.functional as TF
from helpers import classes
from torch.nn.utils import parametrizations

from padiff_shim import prove

pytestmark = [pytest.mark.bitexact, pytest.mark.usefixtures("undone")]
D = 12
X = np.random.default_rng(0).standard_normal((5, D))


def normed(norm):
    class Original(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.mix, self.norm = norm(torch.nn.Linear(D, D)), torch.nn.LayerNorm(D)

        def forward(self, x):
            return self.mix(self.norm(self.mix(x)))

    return Original()


class Normed(paddle.nn.Layer):
    def __init__(self, dim):
        super().__init__()
        self.mix, self.norm = paddle.nn.utils.weight_norm(paddle.nn.Linear(D, D), dim=dim), paddle.nn.LayerNorm(D)

    def forward(self, x):
        return self.mix(self.norm(self.mix(x)))


NORMS = {"a hook": torch.nn.utils.weight_norm, "a parametrization": parametrizations.weight_norm}


@pytest.mark.rows(2)
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("norm", NORMS.values(), ids=NORMS)
@pytest.mark.parametrize("phase", ["both", "train"])
def test_a_weight_norm_of_a_square_linear_is_right(norm, phase):
    training = {"loss": lambda out: (out**2).mean(), "optimizer": "AdamW", "steps": 2} if phase == "train" else {}
    proof = prove(Normed(1), normed(norm), X, phase=phase, **training)
    assert proof, proof


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("norm", NORMS.values(), ids=NORMS)
def test_a_weight_norm_along_the_other_axis_is_one_mistake(norm):
    proof = prove(Normed(0), normed(norm), X)
    assert not proof, proof
    assert (proof.complete, len(proof.mistakes)) == (True, 1), proof


class Weighed(torch.nn.Module):
    def __init__(self, weigh):
        super().__init__()
        self.mix, self.weigh = torch.nn.Linear(D, D), weigh
        self.low, self.high = torch.nn.Parameter(torch.ones(3, D)), torch.nn.Parameter(torch.ones(D, 3))

    def forward(self, x):
        return TF.linear(x, self.weigh(self.mix.weight, self.low, self.high), self.mix.bias) + (self.high @ self.low).sum()


class PortedWeighed(paddle.nn.Layer):
    def __init__(self, weigh):
        super().__init__()
        self.mix, self.weigh = paddle.nn.Linear(D, D), weigh
        self.low, self.high = self.create_parameter([3, D]), self.create_parameter([D, 3])

    def forward(self, x):
        return PF.linear(x, self.weigh(self.mix.weight, self.low, self.high), self.mix.bias) + (self.high @ self.low).sum()


def standardized(weight, axis):
    return (weight - weight.mean(axis, keepdim=True)) / weight.std(axis, keepdim=True)


RIGHT = {
    "scaled": (lambda w, low, high: w * 0.5 + w**2, lambda w, low, high: w * 0.5 + w**2),
    "of length one": (lambda w, low, high: TF.normalize(w, dim=1), lambda w, low, high: PF.normalize(w, axis=0)),
    "standardized": (lambda w, low, high: standardized(w, 1), lambda w, low, high: standardized(w, 0)),
    "softmax": (lambda w, low, high: w.softmax(-1), lambda w, low, high: PF.softmax(w, 0)),
    "of low rank": (lambda w, low, high: w + high @ low, lambda w, low, high: w + paddle.matmul(low, high, True, True)),
}


@pytest.mark.parametrize("name", RIGHT)
def test_what_is_made_of_a_square_weight_is_right(name):
    original, port = RIGHT[name]
    proof = prove(PortedWeighed(port), Weighed(original), X, weights="random")
    assert proof, proof


WRONG = {
    "of low rank": (lambda w, low, high: w + high @ low, lambda w, low, high: w + high @ low),
    "scaled": (lambda w, low, high: w * 0.5, lambda w, low, high: (w * 0.5).t()),
    "softmax": (lambda w, low, high: w.softmax(-1), lambda w, low, high: PF.softmax(w, -1)),
}


@pytest.mark.parametrize("name", WRONG)
def test_what_is_made_of_it_otherwise_is_one_mistake(name):
    original, port = WRONG[name]
    proof = prove(PortedWeighed(port), Weighed(original), X, weights="random")
    assert not proof, proof
    assert (proof.complete, len(proof.mistakes)) == (True, 1), proof


def returning(self, x):
    return self.mix(x), self.mix.weight * 2


def ported_returning(self, x):
    return self.mix(x), (self.mix.weight.t() if self.turned else self.mix.weight) * 2


PortedReturning, Returning = classes(ported_returning, returning, mix=("Linear", D, D))


def test_what_a_port_returns_lies_as_the_original_returns_it():
    assert prove(PortedReturning(turned=True), Returning(), X)
    proof = prove(PortedReturning(turned=False), Returning(), X)
    assert not proof, proof
    assert (proof.complete, len(proof.mistakes)) == (True, 1), proof
    assert proof.mistakes[0].text.startswith("the first operand (mix.weight) holds"), proof


class OwnLinear(paddle.nn.Layer):
    """A port's own layer, which holds its weight as Torch does."""

    def __init__(self, turned):
        super().__init__()
        self.weight, self.bias, self.turned = self.create_parameter([D, D]), self.create_parameter([D], is_bias=True), turned

    def forward(self, x):
        return paddle.matmul(x, self.weight, transpose_y=self.turned) + self.bias


@pytest.mark.parametrize("turned", [True, False])
def test_a_square_weight_of_an_own_layer_lies_as_it_is_used(turned):
    proof = prove(OwnLinear(turned), torch.nn.Linear(D, D), X)
    assert proof
    assert any("layer_map" in note for note in proof.notes) is turned
