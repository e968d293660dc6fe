"""Ports of models that the library had never seen: right ones that are written otherwise, and ones with a mistake each.

A mistake is planted into the port's source. What is asserted: the verdict, the call and the line of the first mistake, its cause.
"""

import numpy as np
import paddle
import pytest
import torch
from helpers import thinned
from planting import FRESH, loaded, planted

from padiff_shim import prove

pytestmark = [pytest.mark.bitexact, pytest.mark.usefixtures("undone")]
SHAPES = {
    "unet": ("UNet", (2, 3, 16, 16)),
    "ssm": ("Mamba", (2, 7, 12)),
    "moe": ("MoE", (2, 9, 12)),
    "xl": ("RelAttention", (2, 5, 16), (2, 3, 16)),
}
TRANSPOSED, BY_HAND = (
    "self.u1 = nn.Conv2DTranspose(2 * c, c, 4, stride=2",
    (
        "self.norm(self.conv(x))",
        "self.by_hand(self.conv(x))",
        "    def forward(self, x):\n        return F",
        """    def by_hand(self, x):
        b, c, h, w = x.shape
        g = x.reshape([b, self.norm._num_groups, -1])
        centred = g - g.mean(-1, keepdim=True)
        g = (centred / paddle.sqrt((centred**2).mean(-1, keepdim=True) + 1e-5)).reshape(x.shape)
        return g * self.norm.weight.reshape([1, c, 1, 1]) + self.norm.bias.reshape([1, c, 1, 1])

    def forward(self, x):
        return F""",
    ),
)
LOOP = """        out = paddle.zeros_like(flat)
        for number, expert in enumerate(self.experts):
            rows, place = paddle.nonzero(chosen == number, as_tuple=True)
            rows, place = rows.flatten(), place.flatten()
            if rows.shape[0]:
                out = paddle.index_add(out, rows, 0, expert(flat[rows]) * weights[rows, place].unsqueeze(-1))
"""
DENSE = """        out = 0
        for number, expert in enumerate(self.experts):
            out = out + expert(flat) * (weights * (chosen == number).astype(weights.dtype)).sum(-1, keepdim=True)
"""
SHIFT = """        x = paddle.concat([paddle.zeros([b, h, q, 1], dtype=x.dtype), x], axis=-1)
        return x.reshape([b, h, k + 1, q])[:, :, 1:].reshape([b, h, q, k])"""
GATHERED = """        at = paddle.clip(paddle.arange(k).unsqueeze(0) + (q - 1 - paddle.arange(q)).unsqueeze(1), max=k - 1)
        return paddle.take_along_axis(x, at.unsqueeze(0).unsqueeze(0).expand([b, h, q, k]), 3)"""
ALONG = "[..., :length]"

RIGHT = {
    "unet: as it is": (),
    "unet: group norm by hand": BY_HAND,
    "unet: padded and cropped": (f"{TRANSPOSED}, padding=1", TRANSPOSED, "self.u1(m + low)", "self.u1(m + low)[:, :, 1:-1, 1:-1]"),
    "ssm: as it is": (),
    "ssm: in another order": (
        "(h * C[:, t].unsqueeze(1)).sum(-1)",
        "paddle.einsum('bin,bn->bi', h, C[:, t])",
        "dt.unsqueeze(-1) * B.unsqueeze(2) * x.unsqueeze(-1)",
        "(dt * x).unsqueeze(-1) * B.unsqueeze(2)",
    ),
    "moe: as it is": (),
    "moe: every expert": (LOOP, DENSE),
    "moe: softmax of the chosen": (
        "paddle.topk(F.softmax(self.router(flat), axis=-1), self.k, axis=-1)",
        "paddle.topk(self.router(flat), self.k, axis=-1)",
        "weights / weights.sum(-1, keepdim=True)",
        "F.softmax(weights, axis=-1)",
    ),
    "xl: as it is": (),
    "xl: gathered in place of shifted": (SHIFT, GATHERED),
    "xl: additive mask": (
        'paddle.where(mask, paddle.full_like(scores, float("-inf")), scores)',
        "scores + mask.astype(scores.dtype) * -1e9",
    ),
}
# What is exchanged, by what, a part of the port's guilty line, and of what the mistake says.
WRONG = {
    "unet: groups": (
        "groups=4",
        "groups=2",
        "self.norm(",
        "another attribute: num_groups=2 against group=4 (write num_groups=4) (in 4 layers)",
    ),
    "unet: operands of concat": (
        "[u, a]",
        "[a, u]",
        "[a, u]",
        "operands swapped: the operands of concat are exchanged",
    ),
    "unet: corners": ("corners=False", "corners=True", "interpolate", "another attribute: align_corners=True against False"),
    "unet: padding counted": (", exclusive=False", "", "avg_pool2d", "exclusive=True against count_include_pad=True"),
    "ssm: halves exchanged": (
        "x, z = ",
        "z, x = ",
        "self.conv(",
        "comes from result 2 of split (",
    ),
    "ssm: parts exchanged": ("dt, B, C = ", "dt, C, B = ", "dBx = ", "comes from result 3 of split_with_sizes"),
    "ssm: another end": (ALONG, "[..., 3:]", "[..., 3:]", "write [..., :7]"),
    "ssm: normed residual": (
        "return u + ",
        "return self.norm(u) + ",
        "return self.norm(u)",
        "), in the original from input 0",
    ),
    "ssm: no softplus": (
        "F.softplus(self.dt_proj(dt))",
        "self.dt_proj(dt)",
        "dA = ",
        "the original calls softplus(threshold=20) here, the port does not",
    ),
    "ssm: sigmoid": ("* F.silu(z)", "* F.sigmoid(z)", "F.sigmoid(z)", "another op: sigmoid in place of silu"),
    "moe: the other weight": (
        "[rows, place]",
        "[rows, 1 - place]",
        "[rows, 1 - place]",
        "another constant: indices holds 0 at [0] against 1",
    ),
    "moe: smallest": (
        ".k, axis=-1)",
        ".k, axis=-1, largest=False)",
        "paddle.topk",
        "another attribute: largest=False against True",
    ),
    "moe: gate and up": (
        "F.silu(self.gate(x)) * self.up(x)",
        "F.silu(self.up(x)) * self.gate(x)",
        "F.silu",
        "layer experts.0.gate), in the original from linear (line",
    ),
    "moe: experts of x": (
        "expert(flat[rows])",
        "expert(x.reshape([-1, x.shape[-1]])[rows])",
        "expert(x",
        "comes from input 0, in the original from layer_norm",
    ),
    "xl: one bias twice": (
        "q + self.v.",
        "q + self.u.",
        "position = ",
        "another operand: the first operand comes from add (line",
    ),
    "xl: mask": (
        "1 + total - length",
        "total - length",
        "paddle.where",
        "another constant: condition (triu(diagonal=4)) holds 1 at [0, 0, 0, 3] against 0 (40 of 320",
    ),
    "xl: base": (
        "10000 **",
        "1000 **",
        "inverse = ",
        "another attribute: 1000 ** ... against 10000 ** ...",
    ),
    "xl: positions": ("total - 1, -1, -1,", "0, total, 1,", "angles = ", "they are the same in another order"),
    "xl: shift": ("[:, :, 1:].", "[:, :, :-1].", "[:, :, :-1]", "write [:, :, 1:]"),
}
ALWAYS = (
    "unet: groups",
    "ssm: parts exchanged",
    "ssm: no softplus",
    "moe: the other weight",
    "moe: gate and up",
    "xl: mask",
    "xl: shift",
)


def proven(name, exchanged, tmp_path):
    """The proof of a port in whose source parts are exchanged, in pairs."""
    kind = name.partition(":")[0]
    port = planted(kind, exchanged, tmp_path)
    model, *shapes = SHAPES[kind]
    draw = np.random.default_rng(0)
    inputs = tuple(draw.standard_normal(shape).astype("float32") for shape in shapes)
    torch.manual_seed(0)
    original = getattr(loaded(FRESH / f"{kind}_torch.py"), model)()
    return prove(getattr(port, model)(), original, inputs)


@pytest.mark.parametrize("name", RIGHT)
def test_a_right_port_is_proven_however_it_is_written(name, tmp_path):
    proof = proven(name, RIGHT[name], tmp_path)
    assert proof, str(proof)


@pytest.mark.parametrize("name", thinned(WRONG, *ALWAYS))
def test_a_mistake_is_found_at_its_line_and_named(name, tmp_path):
    *exchanged, line, text = WRONG[name]
    proof = proven(name, exchanged, tmp_path)
    assert not proof
    first = proof.mistakes[0]
    assert line in first.paddle.source, str(proof)
    assert text in str(first), str(proof)


def test_a_backward_that_fails_natively_is_told_and_the_code_judged_all_the_same(tmp_path):
    """Paddle's own gradient of a product of a batch and a smaller one fails on some versions (docs/defects.md)."""

    class Broken(paddle.autograd.PyLayer):
        @staticmethod
        def forward(ctx, x):
            return x * 1

        @staticmethod
        def backward(ctx, gradient):
            raise ValueError("no kernel for this")

    class Port(paddle.nn.Layer):
        def __init__(self):
            super().__init__()
            self.linear = paddle.nn.Linear(4, 3)

        def forward(self, x):
            out = self.linear(x)
            return Broken.apply(out) if not self.on_torch() else out * 1

        def on_torch(self):
            from padiff_shim.dispatch.frames import top

            return top() is not None

    class Original(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.linear = torch.nn.Linear(4, 3)

        def forward(self, x):
            return self.linear(x) * 1

    proof = prove(Port(), Original(), np.random.default_rng(0).standard_normal((5, 4)))
    assert proof, str(proof)
    assert "no kernel for this" in proof.notes[0]
    assert proof.differences["native"] < 1e-5
