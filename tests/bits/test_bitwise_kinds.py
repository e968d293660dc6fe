"""Origins in a backward's sums, in tables, in a branch that is recomputed, and in clipping by hand."""

import importlib.util
import sys

import numpy as np
import pytest
import torch
import torch.utils.checkpoint

import padiff_shim
from padiff_shim.table.formulation import BACKWARD, FUSED, NUMBERS

PORT = """
import math

import paddle
import paddle.nn as nn
import paddle.nn.functional as F
from paddle.distributed.fleet.utils import recompute


class Port(nn.Layer):
    def __init__(self):
        super().__init__()
        self.up, self.down = nn.Linear(24, 40), nn.Linear(40, 24)

    def silu(self, y):
        return y * F.sigmoid(y)

    def block(self, x):
        return x + self.down(self.silu(self.up(x)))

    def forward(self, x):
{body}
"""
INPUTS = np.random.default_rng(0).standard_normal((33, 24)).astype("float32")


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.up, self.down = torch.nn.Linear(24, 40), torch.nn.Linear(40, 24)

    def block(self, x):
        return x + self.down(torch.nn.functional.silu(self.up(x)))


class Chosen(Net):
    def forward(self, x):
        places = torch.arange(33).unsqueeze(-1) * torch.tensor([1, 5, 1, 1]) % 24
        return torch.gather(self.down(torch.tanh(self.up(x))), 1, places)


class Turned(Net):
    def forward(self, x):
        angles = torch.outer(torch.arange(33, dtype=torch.float32), 1 / 10000 ** (torch.arange(24, dtype=torch.float32) / 24))
        return self.block(x) * torch.cos(angles)


class Blocks(Net):
    def forward(self, x):
        return self.block(self.down(torch.tanh(self.up(x))))


class Checkpointed(Net):
    def forward(self, x):
        return torch.utils.checkpoint.checkpoint(self.block, self.down(torch.tanh(self.up(x))), use_reentrant=False)


def ask(folder, body, original, **options):
    """What is said of a port, and of the same port with what is printed written into it."""
    path = folder / "port.py"
    path.write_text(PORT.replace("{body}", "".join(f"        {line}\n" for line in body.splitlines())))
    answers = []
    for _ in range(2):
        spec = importlib.util.spec_from_file_location(f"kinds_{len(sys.modules)}", path)
        module = importlib.util.module_from_spec(spec)
        sys.modules[spec.name] = module
        spec.loader.exec_module(module)
        torch.manual_seed(0)
        answers.append(padiff_shim.prove(module.Port(), original(), INPUTS, weights="random", **options).bits())
        answers[-1].apply()
    return answers


def test_sums_of_chosen_elements_in_a_backward(tmp_path):
    body = (
        "h = self.down(paddle.tanh(self.up(x)))\n"
        "i = paddle.arange(33).unsqueeze(-1) * paddle.to_tensor([1, 5, 1, 1]) % 24\n"
        "return paddle.gather_nd(h, paddle.stack([paddle.arange(33).unsqueeze(-1).expand([33, 4]), i], -1))"
    )
    answer, behind = ask(tmp_path, body, Chosen, dtype="bfloat16")
    (origin,) = answer.origins
    assert (origin.cause, origin.differs) == (BACKWARD, "gradient")
    assert "paddle.take_along_axis(h, i, -1)" in origin.patch.after
    assert answer.mended, str(answer)
    assert behind.identical, str(behind)


def test_a_table_that_is_made_in_other_steps(tmp_path):
    body = (
        'inverse = paddle.exp(paddle.arange(24, dtype="float32") * (-math.log(10000.0) / 24))\n'
        'angles = paddle.outer(paddle.arange(33, dtype="float32"), inverse)\n'
        "return (x + self.down(F.silu(self.up(x)))) * paddle.cos(angles)"
    )
    answer, behind = ask(tmp_path, body, Turned)
    (origin,) = answer.origins
    assert origin.cause == NUMBERS
    assert origin.name.startswith("table: ")
    assert origin.patch.before.strip().startswith("inverse = ")
    assert behind.identical, str(behind)


@pytest.mark.parametrize("original", [Blocks, Checkpointed])
def test_a_recomputed_branch_has_each_origin_once(tmp_path, original):
    answer, behind = ask(tmp_path, "return recompute(self.block, self.down(paddle.tanh(self.up(x))))", original)
    (origin,) = answer.origins
    assert (origin.cause, origin.differs, origin.name) == (FUSED, "both", "SiLU by its formula")
    assert "layers)" not in str(origin)  # once, and once more in the backward
    assert behind.identical, str(behind)
