"""A port under ``auto_cast`` beside its original under ``torch.autocast``: on a CPU both act."""

import contextlib

import paddle
import pytest
import torch

import padiff_shim

pytestmark = pytest.mark.bitexact
AUTOCAST = {
    "as the original": lambda: paddle.amp.auto_cast(dtype="bfloat16"),
    "forgotten": contextlib.nullcontext,
    "of another dtype": lambda: paddle.amp.auto_cast(dtype="float16"),
}


class Original(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.up, self.norm, self.down = torch.nn.Linear(8, 16), torch.nn.LayerNorm(16), torch.nn.Linear(16, 4)

    def forward(self, x):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            return self.down(torch.softmax(self.norm(self.up(x)), -1))


class Port(paddle.nn.Layer):
    def __init__(self, guard):
        super().__init__()
        self.guard = guard
        self.up, self.norm, self.down = paddle.nn.Linear(8, 16), paddle.nn.LayerNorm(16), paddle.nn.Linear(16, 4)

    def forward(self, x):
        with self.guard():
            return self.down(paddle.nn.functional.softmax(self.norm(self.up(x)), -1))


@pytest.mark.parametrize("how", AUTOCAST)
def test_a_proof_sees_whether_the_port_casts_as_its_original(how):
    torch.manual_seed(0)
    proof = padiff_shim.prove(Port(AUTOCAST[how]), Original(), torch.randn(5, 8))
    text = str(proof)
    if how == "as the original":
        assert text.startswith("CODE_CORRECT: bit for bit on Torch's kernels")
        assert "6 gradients identical bit for bit" in text
    else:
        assert text.startswith("CODE_DIFFERS")
    if how == "forgotten":
        assert 'paddle.amp.auto_cast(dtype="bfloat16")' in text
