"""Buffers that a port computes otherwise than its original."""

import numpy as np
import paddle
import pytest
import torch

from padiff_shim import prove


class _Masked(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.fc, self.norm = torch.nn.Linear(4, 4), torch.nn.BatchNorm1d(4)
        self.register_buffer("mask", torch.tril(torch.ones(4, 4)))

    def forward(self, x):
        return self.norm(self.fc(x)) @ self.mask


class _MaskedPort(paddle.nn.Layer):
    def __init__(self, made):
        super().__init__()
        self.fc, self.norm = paddle.nn.Linear(4, 4), paddle.nn.BatchNorm1D(4)
        self.register_buffer("mask", made(paddle.ones([4, 4])))

    def forward(self, x):
        return self.norm(self.fc(x)) @ self.mask


@pytest.mark.parametrize(("made", "noted"), [(paddle.tril, False), (paddle.triu, True)], ids=["equal", "other mask"])
def test_a_buffer_that_the_port_makes_otherwise_is_noted(made, noted):
    """The transfer covers it; running statistics that begin apart are nobody's mistake."""
    original = _Masked()
    original.norm.running_mean += 1.0
    proof = prove(_MaskedPort(made), original, np.ones((3, 4), "float32"))
    assert bool(proof)
    assert any("mask (largest difference 1)" in note for note in proof.notes) == noted
    assert not any("_mean" in note for note in proof.notes)
