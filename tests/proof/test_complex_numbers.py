"""Programs of complex numbers, which the table declares for few ops: spectra, rotary positions."""

import paddle
import pytest
import torch
from test_sceptics import numbers, pair

from padiff_shim import ProofVerdict, prove

pytestmark = [pytest.mark.compat, pytest.mark.usefixtures("undone")]

LENGTH, WIDTH = 6, 8


def rotary(base=1e4, turned=False):
    """Positions as Llama's own code has them: pairs of numbers are turned as complex ones."""

    def port(self, x):
        steps = 1.0 / base ** (paddle.arange(0, WIDTH, 2, dtype="float32") / WIDTH)
        angles = paddle.outer(paddle.arange(LENGTH, dtype="float32"), steps)
        turns = paddle.polar(paddle.ones_like(angles), angles)
        query = paddle.as_complex(self.q(x).reshape([-1, LENGTH, WIDTH // 2, 2]))
        return paddle.as_real(query * (turns.conj() if turned else turns)).flatten(2)

    def original(self, x):
        steps = 1.0 / 1e4 ** (torch.arange(0, WIDTH, 2).float() / WIDTH)
        angles = torch.outer(torch.arange(LENGTH).float(), steps)
        turns = torch.polar(torch.ones_like(angles), angles)
        query = torch.view_as_complex(self.q(x).reshape(-1, LENGTH, WIDTH // 2, 2))
        return torch.view_as_real(query * turns).flatten(2)

    return pair(port, original, q=("Linear", WIDTH, WIDTH))


def spectrum(change=lambda spectrum: spectrum, **words):
    """What follows of a spectrum; ``words``: of the port's transform."""

    def port(self, x):
        waves = change(paddle.fft.rfft(x, **words))
        return self.out((waves * waves).abs() + paddle.angle(waves))

    def original(self, x):
        waves = torch.fft.rfft(x)
        return self.out((waves * waves).abs() + torch.angle(waves))

    return pair(port, original, out=("Linear", 5, 3))


def test_right_ports_are_proven():
    assert prove(*rotary(), numbers(2, LENGTH, WIDTH)).verdict is ProofVerdict.CODE_CORRECT
    assert prove(*spectrum(), numbers(8, 8)).verdict is ProofVerdict.CODE_CORRECT


@pytest.mark.parametrize(
    ("models", "text", "source"),
    [
        (lambda: rotary(base=500.0), "500 ** ... against 10000 ** ...", "steps = 1.0 / base"),
        (lambda: rotary(turned=True), "conj", "turns.conj()"),
    ],
    ids=["base", "turned"],
)
def test_a_mistake_in_rotary_positions(models, text, source):
    proof = prove(*models(), numbers(2, LENGTH, WIDTH))
    assert len(proof.mistakes) == 1, str(proof)
    assert text in proof.mistakes[0].text
    assert source in proof.mistakes[0].paddle.source


@pytest.mark.parametrize(
    ("models", "text", "source"),
    [
        (lambda: spectrum(norm="ortho"), "write norm='backward'", "rfft"),
        (lambda: spectrum(lambda waves: waves.conj()), "the port calls conj here, the original does not", "change"),
        (lambda: spectrum(lambda waves: waves * 1.01), "the port calls mul(other=1.01) here, the original does not", "change"),
    ],
    ids=["norm", "conj", "scale"],
)
def test_a_mistake_in_a_spectrum(models, text, source):
    proof = prove(*models(), numbers(8, 8))
    assert len(proof.mistakes) == 1, str(proof)
    assert text in proof.mistakes[0].text
    assert proof.mistakes[0].paddle.file == __file__


def test_a_transform_along_another_axis():
    def port(self, x):
        return self.out(paddle.fft.rfft(x, axis=-1).abs())

    def original(self, x):
        return self.out(torch.fft.rfft(x, dim=0).abs().T)

    proof = prove(*pair(port, original, out=("Linear", 5, 3)), numbers(8, 8))
    assert len(proof.mistakes) == 1, str(proof)
    assert "write axis=0" in proof.mistakes[0].text
    assert "rfft" in proof.mistakes[0].paddle.source


def test_a_transform_along_other_axes():
    def port(self, x):
        return self.out(paddle.fft.fft2(x, axes=(0, 1)).abs())

    def original(self, x):
        return self.out(torch.fft.fft2(x).abs())

    proof = prove(*pair(port, original, out=("Linear", 8, 3)), numbers(8, 8, 8))
    assert len(proof.mistakes) == 1, str(proof)
    assert "write axes=[-2, -1]" in proof.mistakes[0].text
