"""A port under ``auto_cast`` beside its original under ``torch.autocast``: on a CPU both act."""

import contextlib

import paddle
import pytest
import torch
from helpers import classes

import padiff_shim
from padiff_shim.proof.findings import ProofVerdict

pytestmark = pytest.mark.bitexact
AUTOCAST = {
    "as the original": lambda: paddle.amp.auto_cast(dtype="bfloat16"),
    "forgotten": contextlib.nullcontext,
    "of another dtype": lambda: paddle.amp.auto_cast(dtype="float16"),
}


def original(self, x):
    with torch.autocast("cpu", dtype=torch.bfloat16):
        return self.down(torch.softmax(self.norm(self.up(x)), -1))


def port(self, x):
    with self.guard():
        return self.down(paddle.nn.functional.softmax(self.norm(self.up(x)), -1))


Port, Original = classes(port, original, up=("Linear", 8, 16), norm=("LayerNorm", 16), down=("Linear", 16, 4))


@pytest.mark.parametrize("how", AUTOCAST)
def test_a_proof_sees_whether_the_port_casts_as_its_original(how):
    torch.manual_seed(0)
    proof = padiff_shim.prove(Port(guard=AUTOCAST[how]), Original(), torch.randn(5, 8))
    assert proof.verdict is (ProofVerdict.CODE_CORRECT if how == "as the original" else ProofVerdict.CODE_DIFFERS), str(proof)
    if how == "forgotten":
        assert 'paddle.amp.auto_cast(dtype="bfloat16")' in str(proof)


class Residual(torch.nn.Module):
    """What the norm gets is float32, so that a cast of it rounds."""

    def __init__(self):
        super().__init__()
        self.up, self.norm, self.down = torch.nn.Linear(8, 8), torch.nn.LayerNorm(8), torch.nn.Linear(8, 4)

    def forward(self, x):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            return self.down(torch.nn.functional.gelu(self.norm(x + self.up(x))))


class ListedPort(paddle.nn.Layer):
    def __init__(self, **lists):
        super().__init__()
        self.lists = lists
        self.up, self.norm, self.down = paddle.nn.Linear(8, 8), paddle.nn.LayerNorm(8), paddle.nn.Linear(8, 4)

    def forward(self, x):
        with paddle.amp.auto_cast(dtype="bfloat16", **self.lists):
            return self.down(paddle.nn.functional.gelu(self.norm(x + self.up(x))))


LISTS = {
    "none": {},
    "without effect": {"custom_white_list": {"softmax"}, "custom_black_list": {"conv2d"}},
    "a norm": {"custom_white_list": {"layer_norm"}},
    "a norm and more": {"custom_white_list": {"layer_norm", "softmax"}},
    "an activation": {"custom_white_list": {"gelu"}},
    "products": {"custom_black_list": {"matmul_v2", "linear", "linear_v2"}},
}


@pytest.mark.parametrize("lists", LISTS)
def test_custom_lists_of_the_port_are_found_with_what_to_write(lists):
    torch.manual_seed(0)
    proof = padiff_shim.prove(ListedPort(**LISTS[lists]), Residual(), torch.randn(5, 8))
    if lists in ("none", "without effect"):
        assert proof.verdict == "CODE_CORRECT", proof.answer
        return
    assert proof.verdict == "CODE_DIFFERS", proof.answer
    first, (option, names) = proof.mistakes[0], next(iter(LISTS[lists].items()))
    assert first.cause == "another dtype"
    assert first.paddle.file == __file__
    assert option in first.text
    assert any(repr(name) in first.text for name in names)


def test_the_dtype_is_that_of_the_originals_region():
    torch.manual_seed(0)
    proof = padiff_shim.prove(Port(guard=AUTOCAST["of another dtype"]), Original(), torch.randn(5, 8))
    first = proof.mistakes[0]
    assert first.cause == "another dtype"
    assert first.paddle.file == first.torch.file == __file__
    assert "bfloat16" in first.text
    assert "float32" not in first.text
    assert 'auto_cast(dtype="bfloat16")' in first.text
