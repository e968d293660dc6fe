"""Origins in a backward's sums, in tables, in a branch that is recomputed, and in clipping by hand."""

import importlib
import importlib.util
import sys

import numpy as np
import pytest
import torch
import torch.utils.checkpoint
from helpers import classes, sampled

import padiff_shim
from padiff_shim.proof.bits.formulation import BACKWARD, FUSED, GROUPING, NUMBERS, ROUNDING
from padiff_shim.weights.rules import split

PORT = """
import math

import paddle
import paddle.nn as nn
import paddle.nn.functional as F
from paddle.distributed.fleet.utils import recompute


class Activation(paddle.autograd.PyLayer):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return F.silu(x)

    @staticmethod
    def backward(ctx, gradient):
        (x,) = ctx.saved_tensor()
        s = F.sigmoid(x)
        return gradient * s * (1 + x * (1 - s))


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


def ask(folder, body, original, port=PORT, times=2, **options):
    """What is said of a port, and of the same port with what is printed written into it."""
    path = folder / "port.py"
    path.write_text(port.replace("{body}", "".join(f"        {line}\n" for line in body.splitlines())))
    answers = []
    for _ in range(times):
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


class Holding(Net):
    def __init__(self):
        super().__init__()
        angles = np.outer(np.arange(64), 1 / 10000 ** (np.arange(24) / 24))
        self.register_buffer("table", torch.tensor(np.cos(angles), dtype=torch.float32))

    def forward(self, x):
        return (x + self.down(torch.nn.functional.silu(self.up(x)))) * self.table[:33]


HOLDING = PORT.replace(
    "    def silu",
    (
        '        inverse = 1.0 / 10000 ** (paddle.arange(24, dtype="float32") / 24)\n'
        '        angles = paddle.outer(paddle.arange(96, dtype="float32"), inverse)\n'
        '        self.register_buffer("cosines", paddle.cos(angles), persistable=False)\n\n'
        "    def silu"
    ),
)


class Making(Net):
    def forward(self, x):
        angles = torch.outer(torch.arange(33).float(), 1 / 10000 ** (torch.arange(24) / 24))
        return (x + self.down(torch.nn.functional.silu(self.up(x)))) * torch.cos(angles)


WIDER = HOLDING.replace('"float32"', '"float64"').replace("paddle.cos(angles)", 'paddle.cos(angles).astype("float32")')


@pytest.mark.rows(2)
@pytest.mark.parametrize(
    ("read", "original", "port"),
    [
        ("self.cosines[:33]", Holding, HOLDING),
        ("self.cosines[paddle.arange(33)]", Holding, HOLDING),
        ("F.embedding(paddle.arange(33), self.cosines)", Holding, HOLDING),
        ("self.cosines[:33]", Making, WIDER),
    ],
)
def test_a_table_that_was_there_before_the_run(tmp_path, read, original, port):
    (answer,) = ask(tmp_path, f"return (x + self.down(F.silu(self.up(x)))) * {read}", original, port, times=1)
    (origin,) = answer.origins
    assert origin.cause == NUMBERS
    assert origin.change
    assert origin.patch is None
    assert answer.mended, str(answer)
    assert not answer.identical


@pytest.mark.rows(1)
@pytest.mark.parametrize("original", [Blocks, Checkpointed])
def test_a_recomputed_branch_has_each_origin_once(tmp_path, original):
    answer, behind = ask(tmp_path, "return recompute(self.block, self.down(paddle.tanh(self.up(x))))", original)
    (origin,) = answer.origins
    assert (origin.cause, origin.differs) == (FUSED, "both")
    assert "layers)" not in str(origin)  # once, and once more in the backward
    assert behind.identical, str(behind)


class Blocked(Net):
    def forward(self, x):
        return self.block(x)


class GroupNormed(Net):
    def forward(self, x):
        h = self.up(x).unsqueeze(-1)
        return self.down(torch.nn.functional.group_norm(h, 4).squeeze(-1))


class Classified(Net):
    def forward(self, x):
        h = self.down(torch.tanh(self.up(x)))
        return torch.nn.functional.binary_cross_entropy_with_logits(h, torch.ones_like(h))


class Summed(Net):
    def forward(self, x):
        h = self.down(self.up(x))
        return x + h + (torch.relu(h) + torch.sigmoid(h))


class Gated(Net):
    def forward(self, x):
        h = self.down(self.up(x))
        return torch.sigmoid(h) * x * 0.3 + h


class Halves(Net):
    def forward(self, x):
        return self.down(torch.cat([torch.nn.functional.glu(self.up(x)), torch.nn.functional.elu(self.up(x))[:, :20]], -1))


class Rotated(Net):
    def forward(self, x):
        h = torch.view_as_complex(self.up(x).reshape(33, 20, 2).contiguous())
        angles = torch.outer(torch.arange(33).float(), 1.0 / (10000 ** (torch.arange(20).float() / 20)))
        return self.down(torch.view_as_real(h * torch.polar(torch.ones_like(angles), angles)).flatten(1))


ROTATION = (
    "h = self.up(x).reshape([33, 20, 2])\n"
    'f = 1.0 / (10000 ** (paddle.arange(20, dtype="float32") / 20))\n'
    'angles = paddle.outer(paddle.arange(33, dtype="float32"), f)\n'
    "c, s = paddle.cos(angles), paddle.sin(angles)\n"
    "u, v = h[..., 0], h[..., 1]\n"
    "return self.down(paddle.stack([u * c - v * s, u * s + v * c], -1).reshape([33, 40]))"
)


class Normalized(Net):
    def __init__(self):
        super().__init__()
        self.register_buffer("mean", torch.linspace(-1, 1, 40))
        self.register_buffer("variance", torch.linspace(0.5, 2, 40))

    def forward(self, x):
        return self.down(torch.nn.functional.batch_norm(self.up(x), self.mean, self.variance))


class Resized(Net):
    def forward(self, x):
        h = torch.nn.functional.interpolate(self.up(x).reshape(3, 11, 5, 8), scale_factor=2, mode="nearest")
        return self.down(torch.nn.functional.avg_pool2d(h, 3, 2, 1).reshape(33, 40))


class Repeated(Net):
    def forward(self, x):
        q = self.up(torch.tanh(x)).view(3, 11, 5, 8).transpose(1, 2)
        k = self.down(torch.relu(self.up(x))).view(3, 11, 3, 8).mean(2, keepdim=True).transpose(1, 2)
        k = k[:, :, None].expand(3, 1, 5, 11, 8).reshape(3, 5, 11, 8)
        w = torch.softmax(torch.matmul(q, k.transpose(2, 3)) / 2.05, dim=-1)
        return self.down(torch.matmul(w, q).transpose(1, 2).reshape(33, 40))


REPEATED = (
    "q = self.up(paddle.tanh(x)).reshape([3, 11, 5, 8]).transpose([0, 2, 1, 3])\n"
    "k = self.down(F.relu(self.up(x))).reshape([3, 11, 3, 8]).mean(2, keepdim=True)\n"
    "k = paddle.tile(k, [1, 1, 5, 1]).transpose([0, 2, 1, 3])\n"
    "w = F.softmax(paddle.matmul(q / 2.05, k.transpose([0, 1, 3, 2])), -1)\n"
    "return self.down(paddle.matmul(w, q).transpose([0, 2, 1, 3]).reshape([33, 40]))"
)


class Interleaved(Net):
    def forward(self, x):
        q, k = (self.up(y).view(3, 11, 5, 8).transpose(1, 2) for y in (torch.tanh(x), x))
        k = torch.stack([-k[..., 1::2], k[..., ::2]], -1).flatten(-2)
        w = torch.softmax(torch.matmul(q, k.transpose(2, 3)) / 2.05, dim=-1)
        return self.down(torch.matmul(w, q).transpose(1, 2).reshape(33, 40))


INTERLEAVED = (
    "q, k = [self.up(y).reshape([3, 11, 5, 8]).transpose([0, 2, 1, 3]) for y in (paddle.tanh(x), x)]\n"
    "k = paddle.stack([-k[..., 1::2], k[..., ::2]], -1).flatten(-2)\n"
    "w = F.softmax(paddle.matmul(q / 2.05, k, transpose_y=True), -1)\n"
    "return self.down(paddle.matmul(w, q).transpose([0, 2, 1, 3]).reshape([33, 40]))"
)


class RepeatedBehind(Net):
    def forward(self, x):
        q, k = (self.up(y).view(3, 11, 5, 8).transpose(1, 2) for y in (torch.tanh(x), x))
        left, right = k.chunk(2, -1)
        k = (k * 0.7 + torch.cat([-right, left], -1) * 0.3)[:, :, None].expand(3, 5, 2, 11, 8).reshape(3, 10, 11, 8)
        w = torch.softmax(torch.matmul(torch.cat([q, q], 1), k.transpose(2, 3)) * 8**-0.5, dim=-1)
        return self.down(torch.matmul(w, torch.cat([q, q], 1))[:, :5].transpose(1, 2).reshape(33, 40))


REPEATED_BEFORE = (
    "q, k = [self.up(y).reshape([3, 11, 5, 8]).transpose([0, 2, 1, 3]) for y in (paddle.tanh(x), x)]\n"
    "t = k.repeat_interleave(2, 1)\nleft, right = t.chunk(2, -1)\nt = t * 0.7 + paddle.concat([-right, left], -1) * 0.3\n"
    "w = F.softmax(paddle.matmul(paddle.concat([q, q], 1), t, transpose_y=True) * 8**-0.5, -1)\n"
    "return self.down(paddle.matmul(w, paddle.concat([q, q], 1))[:, :5].transpose([0, 2, 1, 3]).reshape([33, 40]))"
)


class Attending(Net):
    def forward(self, x):
        q, k = (self.up(y).view(3, 11, 5, 8).transpose(1, 2) for y in (torch.tanh(x), x))
        w = torch.softmax(torch.matmul(q, k.transpose(2, 3)) * 8**-0.5, dim=-1)
        return self.down(torch.matmul(w, k).transpose(1, 2).reshape(33, 40))


ATTENTION = (
    "q, k = [self.up(y).reshape([3, 11, 5, 8]) for y in (paddle.tanh(x), x)]\n"
    "return self.down(F.scaled_dot_product_attention(q, k, k).reshape([33, 40]))"
)


class Sloped(Net):
    def forward(self, x):
        q, k = (self.up(y).view(3, 11, 5, 8).transpose(1, 2).reshape(15, 11, 8) for y in (torch.tanh(x), x))
        slopes = torch.outer(torch.tensor([0.5, 0.25, 0.125, 0.1, 0.05]), torch.arange(11).float())
        w = torch.softmax(slopes[:, None].repeat(3, 1, 1).baddbmm(q, k.transpose(1, 2), alpha=8**-0.5), -1)
        return self.down(torch.bmm(w, k).view(3, 5, 11, 8).transpose(1, 2).reshape(33, 40))


SLOPES = (
    "q, k = [self.up(y).reshape([3, 11, 5, 8]).transpose([0, 2, 1, 3]) for y in (paddle.tanh(x), x)]\n"
    'b = paddle.outer(paddle.to_tensor([0.5, 0.25, 0.125, 0.1, 0.05]), paddle.arange(11, dtype="float32")).unsqueeze(1)\n'
    "w = F.softmax(paddle.matmul(q, k, transpose_y=True) * 8**-0.5 + b, -1)\n"
    "return self.down(paddle.matmul(w, k).transpose([0, 2, 1, 3]).reshape([33, 40]))"
)


class Parted(Net):
    def forward(self, x):
        a, b = (part.contiguous() for part in self.up(x).chunk(2, -1))
        y = torch.nn.functional.silu(a) * b
        return self.down(torch.cat([y, y], -1))


PARTS = "y = F.swiglu(self.up(x))\nreturn self.down(paddle.concat([y, y], -1))"


class Squared(Net):
    def forward(self, x):
        h = self.up(x)
        return self.down(h.pow(2) * (1 / h.pow(2).mean(-1, keepdim=True)))


class Diverging(Net):
    def forward(self, x):
        p = torch.log_softmax(self.down(self.up(x)), -1)
        return torch.nn.functional.kl_div(p, torch.softmax(x, -1), reduction="batchmean")


class Weighed(Net):
    def forward(self, x):
        m = (torch.arange(33) < 11).float().unsqueeze(-1)
        return self.down((self.up(x) * m).sum(0, keepdim=True) / m.sum())


class Normed(Net):
    def forward(self, x):
        y = self.down(self.up(x)).float()
        y = y * torch.rsqrt((y * y).mean(-1, keepdim=True) + 1e-6)
        return y.to(x.dtype) * self.down.bias


class HalfTurned(Net):
    def forward(self, x):
        y = self.down(self.up(x))
        angles = torch.linspace(0, 1, 24).unsqueeze(0)
        cos, sin = angles.cos().to(x.dtype), angles.sin().to(x.dtype)
        return y * cos + torch.cat([-y[:, 12:], y[:, :12]], -1) * sin


HALF_TURNED = (
    "y = self.down(self.up(x))\na = paddle.linspace(0, 1, 24).expand([33, 24])\n"
    "c, s = paddle.cos(a).astype(x.dtype), paddle.sin(a).astype(x.dtype)\nh = paddle.concat([-y[:, 12:], y[:, :12]], -1)\n"
    'y = y.astype("float32") * c + h.astype("float32") * s\nreturn y.astype(x.dtype)'
)
FUSED_NORM = (
    "y, b = self.down(self.up(x)), self.down.bias\n"
    "return paddle.incubate.nn.functional.fused_rms_norm_ext(y, b, 1e-6)[0].astype(x.dtype)"
)
SQUARE = "h = self.up(x)\nreturn self.down(h * h / (h * h).mean(-1, keepdim=True))"
DIVERGENCE = (
    "p = F.softmax(self.down(self.up(x)), -1)\nq = F.softmax(x, -1)\nreturn (q * (paddle.log(q) - paddle.log(p))).sum() / 33"
)
WEIGHED = (
    "m = (paddle.arange(33) < 11).astype('float32')\n"
    "return self.down(paddle.einsum('t,td->d', m / m.sum(), self.up(x)).unsqueeze(0))"
)
NORMALIZED = (
    "m, v = paddle.linspace(-1, 1, 40), paddle.linspace(0.5, 2, 40)\nreturn self.down((self.up(x) - m) / paddle.sqrt(v + 1e-5))"
)
RESIZED = (
    "h = self.up(x).reshape([3, 11, 5, 1, 8, 1]).expand([3, 11, 5, 2, 8, 2]).reshape([3, 11, 10, 16])\n"
    "return self.down(F.avg_pool2d(h, 3, 2, 1, exclusive=False).reshape([33, 40]))"
)
GROUPS = (
    "h = self.up(x)\ng = h.reshape([33, 4, 10])\nm = g.mean(-1, keepdim=True)\nv = ((g - m) ** 2).mean(-1, keepdim=True)\n"
    "return self.down(((g - m) / paddle.sqrt(v + 1e-5)).reshape([33, 40]))"
)
ONES = "return F.softplus(-self.down(paddle.tanh(self.up(x)))).mean()"
SUM = "h = self.down(self.up(x))\nreturn paddle.add_n([x, h, F.relu(h), F.sigmoid(h)])"
GATE = 'h = self.down(self.up(x))\ng = F.sigmoid(h.astype("float32")) * x.astype("float32") * 0.3\nreturn g.astype(x.dtype) + h'
GLU = (
    "a, b = self.up(x).chunk(2, -1)\ng = self.up(x)\n"
    "return self.down(paddle.concat([a * F.sigmoid(b), paddle.where(g > 0, g, paddle.exp(g) - 1)[:, :20]], -1))"
)


@pytest.mark.parametrize(
    ("body", "original", "dtype"),
    sampled([
        (GROUPS, GroupNormed, "float32"),
        (GROUPS, GroupNormed, "bfloat16"),
        (ONES, Classified, "float32"),
        (SUM, Summed, "float32"),
        (GATE, Gated, "bfloat16"),
        (GLU, Halves, "float32"),
        ("return x + self.down(Activation.apply(self.up(x)))", Blocked, "float32"),
        ("return x + self.down(Activation.apply(self.up(x)))", Blocked, "bfloat16"),
        (ROTATION, Rotated, "float32"),
        (NORMALIZED, Normalized, "float32"),
        (SQUARE, Squared, "float32"),
        (SQUARE, Squared, "bfloat16"),
        (DIVERGENCE, Diverging, "float32"),
        (DIVERGENCE, Diverging, "bfloat16"),
        (WEIGHED, Weighed, "float32"),
        (RESIZED, Resized, "float32"),
        (REPEATED, Repeated, "float32"),
        (HALF_TURNED, HalfTurned, "bfloat16"),
        (INTERLEAVED, Interleaved, "float32"),
        (REPEATED_BEFORE, RepeatedBehind, "float32"),
        (ATTENTION, Attending, "float32"),
        (SLOPES, Sloped, "float32"),
        (PARTS, Parted, "float32"),
        (FUSED_NORM, Normed, "bfloat16"),
    ], 7),
)  # fmt: skip
def test_the_originals_calls_are_written_in_the_words_of_the_op_table(tmp_path, body, original, dtype):
    answer, behind = ask(tmp_path, body, original, dtype=dtype)
    assert answer.mended, str(answer)
    assert behind.identical, str(behind)
    assert (tmp_path / "port.py.orig").read_text().count(body.splitlines()[-1]) == 1


class TrainedNorm(Net):
    def __init__(self):
        super().__init__()
        self.norm = torch.nn.BatchNorm1d(24)

    def forward(self, x):
        return self.block(self.norm(x))


class Masked(Net):
    def forward(self, x):
        y = self.block(x)
        scores = torch.matmul(y, y.mT) * 24**-0.5
        scores = scores.masked_fill(torch.triu(torch.ones(33, 33, dtype=torch.bool), 1), float("-inf"))
        return torch.matmul(torch.softmax(scores, -1), y)


class Shortcut(Net):
    def __init__(self):
        super().__init__()
        self.wide, self.short = torch.nn.Conv2d(1, 16, 3, padding=1), torch.nn.Conv2d(1, 16, 1)

    def forward(self, x):
        y = self.wide(self.block(x).reshape(3, 1, 11, 24))
        return self.short(x.reshape(3, 1, 11, 24)) + y


@pytest.mark.rows(2)
@pytest.mark.parametrize(
    ("layers", "body", "original"),
    [
        ("self.norm = nn.BatchNorm1D(24)", "return self.block(self.norm(x))", TrainedNorm),
        (
            "",
            "y = self.block(x)\n"
            "scores = paddle.matmul(y, y, transpose_y=True) * 24 ** -0.5\n"
            'scores = scores + paddle.triu(paddle.full([33, 33], -1e9, dtype="float32"), 1)\n'
            "return paddle.matmul(F.softmax(scores, -1), y)",
            Masked,
        ),
        (
            "self.wide, self.short = nn.Conv2D(1, 16, 3, padding=1), nn.Conv2D(1, 16, 1)",
            "y = self.wide(self.block(x).reshape([3, 1, 11, 24]))\nreturn self.short(x.reshape([3, 1, 11, 24])) + y",
            Shortcut,
        ),
    ],
    ids=["running statistics", "signs of zeros", "equal gradients of two layers"],
)
def test_what_is_no_origin(tmp_path, layers, body, original):
    port = PORT.replace("nn.Linear(40, 24)\n", f"nn.Linear(40, 24)\n        {layers}\n")
    answer, behind = ask(tmp_path, body, original, port)
    assert [origin.cause for origin in answer.origins] == [FUSED]
    assert behind.identical, str(behind)


class Residual(Net):
    def forward(self, x):
        y = self.down(self.up(x))
        wide = y.float()
        scale = torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + 1e-6)
        return y + self.down(self.up((wide * scale).to(x.dtype)))


def test_a_value_that_is_cast_for_each_reader(tmp_path):
    body = (
        "y = self.down(self.up(x))\n"
        'scale = paddle.rsqrt(y.astype("float32").pow(2).mean(-1, keepdim=True) + 1e-6)\n'
        'return y + self.down(self.up((scale * y).astype("bfloat16")))'
    )
    answer, behind = ask(tmp_path, body, Residual, dtype="bfloat16")
    (origin,) = answer.origins
    assert (origin.cause, origin.differs, origin.paddle.line) == (ROUNDING, "gradient", 36)
    assert behind.identical, str(behind)


def test_a_change_that_assigns_a_name_that_it_reads(tmp_path):
    body = (
        'y = self.down(self.up(x)).astype("float32")\n'
        "y = y * paddle.rsqrt((y * y).mean(-1, keepdim=True) + 1e-6)\n"
        'return (y * self.down.bias.astype("float32")).astype(x.dtype)'
    )
    answer, behind = ask(tmp_path, body, Normed, dtype="bfloat16")
    assert answer.mended, str(answer)
    assert behind.identical, str(behind)


ONE_PRODUCT = """
import paddle
import paddle.nn as nn
import paddle.nn.functional as F


class Port(nn.Layer):
    def __init__(self):
        super().__init__()
        self.qkv_proj, self.o_proj = nn.Linear(24, 48, bias_attr=None), nn.Linear(24, 24)

    def forward(self, x):
{body}        q, k, v = [t.reshape([3, 11, -1, 6]) for t in (q, k, v)]
        k, v = [t.repeat_interleave(2, axis=2) for t in (k, v)]
        q, k, v = [t.transpose([0, 2, 1, 3]) for t in (q, k, v)]
        scores = F.softmax(paddle.matmul(q, k, transpose_y=True) * 6**-0.5, -1)
        return self.o_proj(paddle.matmul(scores, v).transpose([0, 2, 1, 3]).reshape([33, 24]))
"""


class Separate(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.q_proj, self.k_proj, self.v_proj, self.o_proj = (torch.nn.Linear(24, width) for width in (24, 12, 12, 24))

    def forward(self, x):
        q, k, v = (layer(x).view(3, 11, -1, 6) for layer in (self.q_proj, self.k_proj, self.v_proj))
        k, v = (t.repeat_interleave(2, dim=2) for t in (k, v))
        q, k, v = (t.transpose(1, 2) for t in (q, k, v))
        scores = torch.softmax(torch.matmul(q, k.transpose(-1, -2)) * 6**-0.5, -1)
        return self.o_proj(torch.matmul(scores, v).transpose(1, 2).reshape(33, 24))


WHOLE = [
    (
        "q, k, v = paddle.split(self.qkv_proj(x), [24, 12, 12], axis=-1)",
        "F.linear(x, w.split([24, 12, 12], -1)[0], b.split([24, 12, 12], -1)[0])",
        (),
    ),
    (
        "y = self.qkv_proj(x).reshape([33, 2, 24])\nq, k, v = paddle.split(y, [12, 6, 6], axis=-1)",
        "paddle.unflatten(w, -1, [2, 24]).split([12, 6, 6], -1)[0].flatten(-2)",
        [("qkv_proj", split("q_proj", "k_proj", "v_proj", groups=2))],
    ),
]


@pytest.mark.rows(1)
@pytest.mark.parametrize(("body", "written", "rules"), WHOLE)
def test_one_product_with_several_weights(tmp_path, body, written, rules):
    answer, behind = ask(tmp_path, body, Separate, ONE_PRODUCT, rules=rules or None)
    (origin,) = answer.origins
    assert (origin.cause, origin.differs, origin.paddle.line) == (GROUPING, "gradient", 13)
    assert written in origin.change
    assert answer.mended, str(answer)
    assert behind.identical, str(behind)


TWO_WIDTHS = """
import paddle
import paddle.nn as nn
import paddle.nn.functional as F


class Attention(nn.Layer):
    def __init__(self, width):
        super().__init__()
        self.q, self.kv = nn.Linear(width, width), nn.Linear(width, 2 * width)

    def forward(self, x):
        q, (k, v) = self.q(x), self.kv(x).chunk(2, -1)
        return F.softmax(paddle.matmul(q, k, transpose_y=True), -1) @ v


class Port(nn.Layer):
    def __init__(self):
        super().__init__()
        self.first, self.up, self.second = Attention(16), nn.Linear(16, 32), Attention(32)

    def forward(self, x):
{body}
"""


class Attention(torch.nn.Module):
    def __init__(self, width):
        super().__init__()
        self.q, self.k, self.v = (torch.nn.Linear(width, width) for _ in range(3))

    def forward(self, x):
        return torch.softmax(self.q(x) @ self.k(x).transpose(-1, -2), -1) @ self.v(x)


class TwoWidths(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.up, self.second = Attention(16), torch.nn.Linear(16, 32), Attention(32)

    def forward(self, x):
        return self.second(self.up(self.first(x[:32].reshape(2, 24, 16))))


class OneProduct(Attention):
    def __init__(self, width):
        super().__init__(width)
        self.kv = torch.nn.Linear(width, 2 * width)
        del self.k, self.v

    def forward(self, x):
        k, v = self.kv(x).chunk(2, -1)
        return torch.softmax(self.q(x) @ k.transpose(-1, -2), -1) @ v


class InTwoWays(TwoWidths):
    def __init__(self):
        super().__init__()
        self.second = OneProduct(32)


IN_TWO_LAYERS = "return self.second(self.up(self.first(x[:32].reshape([2, 24, 16]))))"


@pytest.mark.slow
def test_a_line_that_the_original_writes_in_two_ways(tmp_path):
    answer, behind = ask(tmp_path, IN_TWO_LAYERS, InTwoWays, TWO_WIDTHS)
    assert answer.mended
    assert not behind.identical
    assert answer.notes


TAKEN_BY_NUMBER = """q, kv = self.q(x), self.kv(x).reshape([x.shape[0], -1, 2, x.shape[2]]).transpose([2, 0, 1, 3])
        k, v = kv[0], kv[1]"""


@pytest.mark.rows(1)
@pytest.mark.parametrize("taken", ["q, (k, v) = self.q(x), self.kv(x).chunk(2, -1)", TAKEN_BY_NUMBER])
def test_one_product_in_layers_of_two_widths_is_one_change(tmp_path, taken):
    port = TWO_WIDTHS.replace("q, (k, v) = self.q(x), self.kv(x).chunk(2, -1)", taken)
    (answer,) = ask(tmp_path, IN_TWO_LAYERS, TwoWidths, port, times=1)
    (origin,) = (origin for origin in answer.origins if origin.cause == GROUPING)
    assert origin.paddle.line == 13
    assert origin.patch is not None, str(answer)


class Routed(Net):
    def forward(self, x):
        chosen = torch.nn.functional.one_hot(torch.topk(x[:, :4], 2, -1)[1], 4).permute(2, 1, 0)
        out = torch.zeros_like(x)
        for expert in (0, 1):
            rows = torch.where(chosen[expert])[1]
            out = out.index_add(0, rows, self.down(torch.tanh(self.up(x[rows]))))
        return out


def test_rows_that_are_taken_in_another_order(tmp_path):
    body = (
        "chosen = F.one_hot(paddle.topk(x[:, :4], 2, -1)[1], 4).transpose([2, 0, 1])\n"
        "out = paddle.zeros_like(x)\n"
        "for expert in (0, 1):\n"
        "    rows = paddle.where(chosen[expert])[0].flatten()\n"
        "    out = paddle.index_add(out, rows, 0, self.down(paddle.tanh(self.up(x[rows]))))\n"
        "return out"
    )
    (answer,) = ask(tmp_path, body, Routed, times=1)
    assert answer.origins
    assert {(origin.cause, origin.differs, origin.paddle.line) for origin in answer.origins} == {(GROUPING, "gradient", 38)}
    assert all(origin.patch for origin in answer.origins), str(answer)


SEVERAL = ONE_PRODUCT.replace(
    "self.qkv_proj, self.o_proj = nn.Linear(24, 48, bias_attr=None), nn.Linear(24, 24)",
    ("self.q_proj, self.k_proj, self.v_proj, self.o_proj = (nn.Linear(24, width) for width in (24, 12, 12, 24))"),
)


class Whole(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.qkv_proj, self.o_proj = torch.nn.Linear(24, 48), torch.nn.Linear(24, 24)

    def forward(self, x):
        q, k, v = (t.reshape(3, 11, -1, 6) for t in self.qkv_proj(x).split([24, 12, 12], -1))
        k, v = (t.repeat_interleave(2, dim=2) for t in (k, v))
        q, k, v = (t.transpose(1, 2) for t in (q, k, v))
        scores = torch.softmax(torch.matmul(q, k.transpose(-1, -2)) * 6**-0.5, -1)
        return self.o_proj(torch.matmul(scores, v).transpose(1, 2).reshape(33, 24))


@pytest.mark.rows(1)
@pytest.mark.parametrize(
    "body",
    [
        "q = self.q_proj(x)\nk = self.k_proj(x)\nv = self.v_proj(x)",
        "part1 = x\nq, k, v = self.q_proj(part1), self.k_proj(part1), self.v_proj(part1)",
    ],
)
def test_several_products_where_the_original_has_one(tmp_path, body):
    answer, behind = ask(tmp_path, body, Whole, SEVERAL)
    (origin,) = answer.origins
    assert (origin.cause, origin.differs) == (GROUPING, "gradient")
    assert "paddle.concat([self.q_proj.weight, self.k_proj.weight, self.v_proj.weight], -1)" in origin.patch.after
    assert behind.identical, str(behind)


CHANNELS = """
import paddle
import paddle.nn as nn


class Port(nn.Layer):
    def __init__(self):
        super().__init__()
        self.up, self.conv = nn.Linear(24, 72), nn.Conv2D(8, 8, 3, padding=1, groups=8)
        self.weight, self.bias = self.create_parameter([8]), self.create_parameter([8], is_bias=True)

    def forward(self, x):
        x = self.up(x).reshape([33, 8, 9, 1]).tile([1, 1, 1, 9])
        mean = x.mean(1, keepdim=True)
        variance = (x - mean).pow(2).mean(1, keepdim=True)
        x = (x - mean) / paddle.sqrt(variance + 1e-6)
        x = self.weight[:, None, None] * x + self.bias[:, None, None]
        return self.conv(x)
"""


class Channels(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.up, self.conv = torch.nn.Linear(24, 72), torch.nn.Conv2d(8, 8, 3, padding=1, groups=8)
        self.weight, self.bias = torch.nn.Parameter(torch.randn(8)), torch.nn.Parameter(torch.randn(8))

    def forward(self, x):
        x = self.up(x).view(33, 8, 9, 1).repeat(1, 1, 1, 9).permute(0, 2, 3, 1)
        x = torch.nn.functional.layer_norm(x, (8,), self.weight, self.bias, 1e-6)
        return self.conv(x.permute(0, 3, 1, 2))


def test_a_layout_that_another_change_brings_is_no_origin_of_its_own(tmp_path):
    answer, behind = ask(tmp_path, "", Channels, CHANNELS)
    (origin,) = answer.origins
    assert "layer_norm" in origin.change
    assert origin.contribution == pytest.approx(1.0)
    assert behind.identical, str(behind)


def scaled(self, x):
    """As a new norm holds them: ones, with which products are exact, and zeros, with which sums are."""
    return self.up(x) * (self.norm.weight + self.norm.bias)


def scaled_twice(self, x):
    y = self.up(x)
    return y * self.norm.weight + y * self.norm.bias


ScaledTwice, Scaled = classes(scaled_twice, scaled, up=("Linear", 24, 24), norm=("LayerNorm", 24))


def test_weights_of_one_number_hide_no_origin():
    port = ScaledTwice()
    proof = padiff_shim.prove(port, Scaled(), INPUTS)
    bits = proof.bits()
    assert proof.verdict is padiff_shim.ProofVerdict.CODE_CORRECT
    assert [origin.paddle.source for origin in bits.origins] == ["return y * self.norm.weight + y * self.norm.bias"]
    assert bits.mended, str(bits)
    assert "norm.weight" in str(bits.notes)
    assert not any(row.substituted.max_abs for row in proof.drift().rows)  # which holds ones and zeros again
    assert bool((port.norm.weight == 1).all())


class Viewed(Net):
    def forward(self, x):
        h = self.up(x)
        h = h.view(11, 3, 40)
        return self.down((torch.nn.functional.silu(h) * 0.5).view(33, 40))


@pytest.mark.slow
def test_values_that_are_overwritten_in_place(tmp_path):
    body = (
        "h = self.up(x)\nh = h.reshape_([11, 3, 40])\ny = h * F.sigmoid(h)\ny.scale_(0.5)\nreturn self.down(y.reshape_([33, 40]))"
    )
    answer, behind = ask(tmp_path, body, Viewed)
    assert answer.mended, str(answer)
    assert behind.identical, str(behind)


ATTENTION = """
import paddle
import paddle.nn.functional as F


class Port(paddle.nn.Layer):
    def __init__(self):
        super().__init__()
        self.qkv, self.out = paddle.nn.Linear(24, 72), paddle.nn.Linear(24, 24)

    def forward(self, x):
        parts = self.qkv(x).reshape([2, 17, 3, 3, 8]).transpose([2, 0, 3, 1, 4])
        q, k, v = parts[0], parts[1], parts[2]
        scores = q.matmul(k.transpose([0, 1, 3, 2])) * 8**-0.5
        return self.out(F.softmax(scores, axis=-1).matmul(v).transpose([0, 2, 1, 3]).reshape([2, 17, 24]))
"""


class OneCall(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.qkv, self.out = torch.nn.Linear(24, 72), torch.nn.Linear(24, 24)

    def forward(self, x):
        q, k, v = self.qkv(x).reshape(2, 17, 3, 3, 8).permute(2, 0, 3, 1, 4).unbind(0)
        return self.out(torch.nn.functional.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(2, 17, 24))


def test_attention_in_one_call_is_written_for_parts_of_one_projection(tmp_path, monkeypatch):
    """The original's call is seen as its steps in float64, and its operands begin at other places of one memory."""
    (tmp_path / "attention_in_parts.py").write_text(ATTENTION, "utf-8")
    monkeypatch.syspath_prepend(str(tmp_path))
    port = importlib.import_module("attention_in_parts").Port()
    x = np.random.default_rng(0).standard_normal((2, 17, 24)).astype("float32")
    answer = padiff_shim.prove(port, OneCall(), x).bits()
    (origin,) = answer.origins
    assert answer.mended
    assert not answer.identical
    assert "scaled_dot_product_attention" in origin.change
    assert "x1" in origin.change
    assert "x3" in origin.change


IN_A_LAYER = """
import paddle.nn as nn


class Port(nn.Layer):
    def __init__(self):
        super().__init__()
        self.attention, self.end = nn.MultiHeadAttention(24, 3), nn.Linear(24, 24)

    def forward(self, x):
        return self.end(x + self.attention(x.unsqueeze(0)).squeeze(0))
"""


class Attending(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.attention = torch.nn.ModuleDict({f"{name}_proj": torch.nn.Linear(24, 24) for name in ("q", "k", "v", "out")})
        self.end = torch.nn.Linear(24, 24)

    def forward(self, x):
        q, k, v = (self.attention[f"{name}_proj"](x).view(1, 33, 3, 8).transpose(1, 2) for name in "qkv")
        weights = torch.softmax(q @ k.transpose(2, 3) / 8**0.5, -1)
        return self.end(x + self.attention["out_proj"]((weights @ v).transpose(1, 2).reshape(33, 24)))


def test_a_line_of_paddles_own_layer_is_written_in_the_port(tmp_path):
    """The scale in ``nn.MultiHeadAttention``: the port gives the layer a changed ``forward``."""
    answer, behind = ask(tmp_path, "", Attending, port=IN_A_LAYER)
    (origin,) = answer.origins
    assert origin.paddle.file.endswith("port.py")
    assert "self.attention.forward = " in origin.patch.after
    assert behind.identical, str(behind)


class ScaledByOne(Net):
    def __init__(self):
        super().__init__()
        self.scale = torch.nn.Parameter(torch.tensor(1.0))

    def forward(self, x):
        return self.block(x) * self.scale


def test_a_weight_of_one_number_without_axes(tmp_path):
    port = PORT.replace("Linear(40, 24)\n", "Linear(40, 24)\n        self.scale = self.create_parameter([])\n", 1)
    answer, behind = ask(tmp_path, "return self.block(x) * self.scale", ScaledByOne, port=port)
    assert answer.mended
    assert behind.identical, str(behind)


LEFT_STRIDED_TWICE = """
import paddle.nn as nn


class Port(nn.Layer):
    def __init__(self):
        super().__init__()
        self.begin, self.rows, self.others = nn.Conv2D(4, 16, 1), nn.Linear(16, 16), nn.Linear(16, 16)
        self.norms = nn.LayerList([nn.GroupNorm(4, 16) for _ in range(3)])
        self.mixes = nn.LayerList([nn.Conv2D(16, 16, 3, padding=1) for _ in range(3)])

    def mix(self, h, place):
        return h + self.mixes[place](self.norms[place](h))

    def forward(self, x):
        h = self.mix(self.begin(x.flatten()[:768].reshape([2, 4, 8, 12])), 0)
        y = self.rows(h.transpose([0, 2, 3, 1]))
        h = self.mix(y.transpose([0, 3, 1, 2]) + h, 1)
        y = self.others(h.transpose([0, 2, 3, 1]).flatten(1, 2))
        z = y.reshape([2, 8, 12, 16]).transpose([0, 3, 1, 2])
        return self.mix(z * h, 2)
"""


class MadeDenseTwice(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.begin, self.rows, self.others = torch.nn.Conv2d(4, 16, 1), torch.nn.Linear(16, 16), torch.nn.Linear(16, 16)
        self.norms = torch.nn.ModuleList([torch.nn.GroupNorm(4, 16) for _ in range(3)])
        self.mixes = torch.nn.ModuleList([torch.nn.Conv2d(16, 16, 3, padding=1) for _ in range(3)])

    def mix(self, h, place):
        return h + self.mixes[place](self.norms[place](h))

    def forward(self, x):
        h = self.mix(self.begin(x.flatten()[:768].reshape(2, 4, 8, 12)), 0)
        y = self.rows(h.permute(0, 2, 3, 1))
        h = self.mix(y.permute(0, 3, 1, 2).contiguous() + h, 1)
        y = self.others(h.permute(0, 2, 3, 1).flatten(1, 2))
        z = y.reshape(2, 8, 12, 16).permute(0, 3, 1, 2).contiguous()
        return self.mix(z * h, 2)


@pytest.mark.slow
def test_lines_that_lay_out_what_others_read(tmp_path):
    """Two lines lay out what one line reads in several layers: each is an origin, and no line that only reads is one.

    Behind the first change a Linear calls other kernels forward, of the names of its backward's.
    """
    answer, behind = ask(tmp_path, "", MadeDenseTwice, port=LEFT_STRIDED_TWICE)
    assert answer.mended, str(answer)
    lines = [LEFT_STRIDED_TWICE.splitlines()[origin.paddle.line - 1].strip()[:5] for origin in answer.origins]
    assert lines == ["h = s", "z = y"]
    assert all(".contiguous()" in origin.patch.after for origin in answer.origins)
    assert behind.identical, str(behind)


KERNELS_OF_ONE = """
import paddle.nn as nn


class Port(nn.Layer):
    def __init__(self):
        super().__init__()
        self.head = nn.Sequential({layers})
        self.eval()

    def forward(self, x):
        x = {read}
        return self.head(x)[:, :, 0, 0]
"""


class Headed(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.head = torch.nn.Linear(24, 10)
        self.eval()

    def forward(self, x):
        return self.head(x)


@pytest.mark.parametrize(
    ("read", "before"),
    [
        ("x[:, :, None, None]", ""),
        pytest.param("x[:, :, None, None] + 0.0", "nn.Dropout(0.1), ", marks=pytest.mark.slow),  # the line keeps the dropout
    ],
)
def test_a_product_where_the_port_has_kernels_of_one(tmp_path, read, before):
    port = KERNELS_OF_ONE.replace("{read}", read).replace("{layers}", f"{before}nn.Conv2D(24, 10, 1)")
    answer, behind = ask(tmp_path, "", Headed, port=port)
    assert answer.mended, str(answer)
    (origin,) = answer.origins
    assert "linear(" in origin.patch.after
    assert ("self.head(x)" in origin.patch.after) is bool(before)
    assert behind.identical, str(behind)
