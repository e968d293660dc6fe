"""Programs of complex numbers, which the table declares for few ops: spectra, rotary positions."""

import math

import numpy as np
import paddle
import pytest
import torch
from helpers import numbers, pair

from padiff_shim import ProofVerdict, prove
from padiff_shim.proof.findings import Cause

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
    assert "[0]" in proof.mistakes[0].text  # with axis=0 alone the line raises
    assert "rfft" in proof.mistakes[0].paddle.source


ANGLES = {  # of a time embedding, as ports write its sines and cosines
    "polar": lambda e: paddle.polar(paddle.ones_like(e), e),
    "exp": lambda e: paddle.exp(paddle.complex(paddle.zeros_like(e), e)),  # Paddle's kernel for complex128 has float32's digits
    "cast": lambda e: paddle.exp(e.astype("complex64") * 1j),
    "parts": lambda e: paddle.complex(e.cos(), e.sin()),
}


def embedding(turn, *, base=10000.0, exchanged=False, doubled=1):
    def port(self, x, t):
        steps = paddle.pow(paddle.to_tensor(base), -paddle.arange(8, dtype="float32") / 8)
        turns = turn(t.astype("float32").unsqueeze(1) * steps * doubled)
        parts = [turns.imag(), turns.real()]
        return x + self.t(paddle.concat(parts[::-1] if exchanged else parts, -1))

    def original(self, x, t):
        angles = t[:, None].float() * torch.exp(-math.log(10000) * torch.arange(8).float() / 8)
        return x + self.t(torch.cat([angles.sin(), angles.cos()], -1))

    return pair(port, original, t=("Linear", 16, 8))


def times():
    return numbers(3, 8), np.array([3, 500, 999])


@pytest.mark.parametrize("turn", ANGLES.values(), ids=ANGLES)
def test_angles_of_complex_numbers(turn):
    assert prove(*embedding(turn), times())


@pytest.mark.rows(4)
@pytest.mark.parametrize("mistake", [{"base": 1000.0}, {"exchanged": True}, {"doubled": 2}], ids=["base", "exchanged", "doubled"])
@pytest.mark.parametrize("turn", ANGLES.values(), ids=ANGLES)
def test_a_mistake_in_angles_of_complex_numbers(turn, mistake):
    proof = prove(*embedding(turn, **mistake), times())
    assert proof.verdict is ProofVerdict.CODE_DIFFERS
    assert proof.mistakes[0].paddle.file == __file__


@pytest.mark.parametrize("wrong", [False, True])
def test_a_sum_over_complex_channels(wrong):
    """Of a Fourier neural operator: zeros of complex64 are joined to it."""

    def port(self, x):
        weight = paddle.as_complex(self.w.weight.T.contiguous().reshape([4, 4, 5, 2]))
        waves = paddle.einsum("bix,iox->box", paddle.fft.rfft(x)[..., :5], weight.conj() if wrong else weight)
        return paddle.fft.irfft(paddle.concat([waves, paddle.zeros([2, 4, 4], "complex64")], -1), n=16)

    def original(self, x):
        waves = torch.zeros(2, 4, 9, dtype=torch.cfloat)
        weight = torch.view_as_complex(self.w.weight.reshape(4, 4, 5, 2))
        waves[..., :5] = torch.einsum("bix,iox->box", torch.fft.rfft(x)[..., :5], weight)
        return torch.fft.irfft(waves, n=16)

    assert bool(prove(*pair(port, original, w=("Linear", 40, 4)), numbers(2, 4, 16))) is not wrong


def test_a_conjugate_that_is_missing():
    def port(self, x):
        return paddle.fft.irfft(paddle.fft.rfft(self.a(x)) * paddle.fft.rfft(self.b(x)))

    def original(self, x):
        return torch.fft.irfft(torch.fft.rfft(self.a(x)) * torch.conj(torch.fft.rfft(self.b(x))))

    (mistake,) = prove(*pair(port, original, a=("Linear", 16, 16), b=("Linear", 16, 16)), numbers(4, 16)).mistakes
    assert mistake.cause is Cause.MISSING
    assert "paddle.conj(" in mistake.write


@pytest.mark.parametrize("base", [1e4, 1e3])
def test_cosines_and_sines_are_compared_with_complex_numbers(base):
    """The layer holds them in attributes; the original holds complex numbers."""

    def angles(base):
        return np.outer(np.arange(2 * LENGTH), 1.0 / base ** (np.arange(0, WIDTH, 2) / WIDTH))

    def original(self, x):
        query = torch.view_as_complex(self.q(x).reshape(-1, LENGTH, WIDTH // 2, 2))
        return torch.view_as_real(query * self.turns[:LENGTH]).flatten(2)

    def port(self, x):
        left, right = self.q(x).reshape([-1, LENGTH, WIDTH // 2, 2]).unbind(-1)
        cos, sin = self.cos[:LENGTH].unsqueeze(0), self.sin[:LENGTH].unsqueeze(0)
        return paddle.stack([left * cos - right * sin, left * sin + right * cos], -1).flatten(2)

    ours, theirs = pair(port, original, q=("Linear", WIDTH, WIDTH))
    theirs.turns = torch.tensor(np.exp(1j * angles(1e4)), dtype=torch.complex64)
    ours.cos, ours.sin = (paddle.to_tensor(part(angles(base)).astype("float32")) for part in (np.cos, np.sin))
    proof = prove(ours, theirs, numbers(2, LENGTH, WIDTH))
    assert bool(proof) is (base == 1e4), str(proof)
    assert {mistake.cause for mistake in proof.mistakes} == (set() if proof else {Cause.BUFFER})
