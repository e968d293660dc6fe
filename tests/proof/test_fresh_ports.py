"""Ports of models that the library had never seen: some say float32 themselves, hold whole numbers, draw, loop.

Right ones are never accused, however they are written and in no phase; of a mistake that is planted into the port's source there is
one finding, at its line, and its cause is named.
"""

import numpy as np
import paddle
import pytest
import torch
from helpers import sampled, thinned
from planting import FRESH, loaded, planted
from zoo.pairs import arrays_of, drop_nothing

from padiff_shim import prove
from padiff_shim.proof.findings import Cause

pytestmark = [pytest.mark.bitexact, pytest.mark.usefixtures("undone")]


def normal(*shape, seed=0):
    return np.random.default_rng(seed).standard_normal(shape).astype("float32")


def whole(top, *shape, seed=0):
    return np.random.default_rng(seed).integers(0, top, shape)


def sentences():
    source = whole(19, 2, 6) + 1
    source[1, 4:] = 0
    return source, whole(20, 2, 4)


def tagged():
    mask = np.ones((3, 5), "int64")
    mask[1, 3:] = mask[2, 4:] = 0
    return whole(20, 3, 5), whole(4, 3, 5), mask


INPUTS = {
    "convnext": ("ConvNeXt", lambda: normal(3, 3, 16, 16)),
    "seq2seq": ("Seq2Seq", sentences),
    "gqa": ("Decoder", lambda: whole(30, 2, 7)),
    "gnn": ("Net", lambda: (normal(7, 5), np.stack([whole(7, 15), whole(7, 15, seed=1)]))),
    "perceiver": ("Perceiver", lambda: normal(2, 12, 3)),
    "memory": ("Memory", lambda: whole(15, 2, 12)),
    "wavenet": ("WaveNet", lambda: (np.clip(normal(2, 12) / 2, -1, 1), normal(2, 4, 12))),
    "crf": ("Tagger", tagged),
    "stn": ("Reader", lambda: (normal(2, 1, 8, 8), whole(5, 2, 3) + 1, np.array([3, 2]))),
    "ssm": ("Mamba", lambda: normal(2, 7, 12)),
    "moe": ("MoE", lambda: normal(2, 9, 12)),
    "xl": ("RelAttention", lambda: (normal(2, 5, 16), normal(2, 3, 16, seed=1))),
}
# Models of the zoo: what of a batch they are called with.
ZOO = {"diffusion": ("images", "steps"), "swin": ("images",), "unet": ("images",)}
BY_HAND = (
    "self.norm1(self.conv1(x))",
    "self.by_hand(self.conv1(x))",
    "    def forward(self, x):\n        x = PF",
    """    def by_hand(self, x):
        b, c, h, w = x.shape
        g = x.reshape([b, self.norm1._num_groups, -1])
        centred = g - g.mean(-1, keepdim=True)
        g = (centred / paddle.sqrt((centred**2).mean(-1, keepdim=True) + 1e-5)).reshape(x.shape)
        return g * self.norm1.weight.reshape([1, c, 1, 1]) + self.norm1.bias.reshape([1, c, 1, 1])

    def forward(self, x):
        x = PF""",
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

OTHERWISE = {
    "unet: group norm by hand": BY_HAND,
    "ssm: in another order": (
        "(h * C[:, t].unsqueeze(1)).sum(-1)",
        "paddle.einsum('bin,bn->bi', h, C[:, t])",
        "dt.unsqueeze(-1) * B.unsqueeze(2) * x.unsqueeze(-1)",
        "(dt * x).unsqueeze(-1) * B.unsqueeze(2)",
    ),
    "moe: every expert": (LOOP, DENSE),
    "moe: softmax of the chosen": (
        "paddle.topk(F.softmax(self.router(flat), axis=-1), self.k, axis=-1)",
        "paddle.topk(self.router(flat), self.k, axis=-1)",
        "weights / weights.sum(-1, keepdim=True)",
        "F.softmax(weights, axis=-1)",
    ),
    "xl: gathered in place of shifted": (SHIFT, GATHERED),
    "xl: additive mask": (
        'paddle.where(mask, paddle.full_like(scores, float("-inf")), scores)',
        "scores + mask.astype(scores.dtype) * -1e9",
    ),
}
# What is exchanged, by what, a part of the port's guilty line, and of what the mistake says.
WRONG = {
    "ssm: halves exchanged": (
        "x, z = ",
        "z, x = ",
        "z, x = ",
        "another operand: z, x, where the original has x, z",
    ),
    "ssm: parts exchanged": ("dt, B, C = ", "dt, C, B = ", "dt, C, B = ", "another operand: C, B, where the original has B, C"),
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
        "another operand: self.up, self.gate, where the original has self.gate, self.up",
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
        "another operand: self.u.unsqueeze(1), where the original has self.v[:, None]",
    ),
    "xl: mask": (
        "1 + total - length",
        "total - length",
        "paddle.where",
        "another constant: condition (triu(diagonal=4)) holds True at [0, 0, 0, 3] against False (40 of 320",
    ),
    "xl: base": (
        "10000 **",
        "1000 **",
        "inverse = ",
        "another attribute: 1000 ** ... against 10000 ** ...",
    ),
    "xl: positions": ("total - 1, -1, -1,", "0, total, 1,", "angles = ", "they are the same in another order"),
    "xl: shift": ("[:, :, 1:].", "[:, :, :-1].", "[:, :, :-1]", "write [:, :, 1:]"),
    "convnext: eps": (
        "epsilon=1e-6):",
        "epsilon=1e-5):",
        "F.layer_norm(",
        "another attribute: epsilon=1e-05 against eps=1e-06 (write epsilon=1e-06)",
    ),
    "convnext: per channel": (
        "[x.shape[0]] + [1] * (x.ndim - 1)",
        "x.shape[:2] + [1] * (x.ndim - 2)",
        "paddle.rand(shape",
        "where the original has keep, paddle.rand((x.shape[0], 1, 1, 1), dtype=x.dtype)",
    ),
    "seq2seq: mask": (
        "(1 - mask.astype(energy.dtype))",
        "mask.astype(energy.dtype)",
        "energy",
        "logical_not (4 times)",
    ),
    "seq2seq: no tanh": (
        "F.tanh(self.bridge(paddle.concat([last[0], last[1]], axis=-1)))",
        "self.bridge(paddle.concat([last[0], last[1]], axis=-1))",
        "F.tanh(self.query",
        "an op is missing: the original calls tanh here, the port does not",
    ),
    "seq2seq: order": (
        "[state, context, words[:, step]]",
        "[state, words[:, step], context]",
        "logits.append",
        "operands swapped: the operands of concat are exchanged (write x=[state, context, words[:, step]]) (4 times)",
    ),
    "perceiver: of the queries": (
        "self.self_attention(h, h)",
        "self.self_attention(h, x)",
        "self.kv(context)",
        "comes from add (line 62), in the original from layer_norm",
    ),
    "memory: mask": (
        "back > 0",
        "back > 1",
        "masked_fill",
        "another attribute: 1, where the original has 0",
    ),
    "wavenet: padding": (
        "[self.dilation, 0]",
        "[0, self.dilation]",
        "F.pad",
        "another attribute: pad=[0, 1] against [self.dilation, 0] (write pad=[self.dilation, 0]) (in 6 layers)",
    ),
    "wavenet: shifted": ("logits[:, :, :-1]", "logits[:, :, 1:]", "logits[:, :, 1:]", "write [:, :, :-1]"),
    "crf: transposed": ("self.transitions.unsqueeze(0)", "self.transitions.t().unsqueeze(0)", "scores = ", "another"),
    "perceiver: keys and values": (
        "k, v = self.kv",
        "v, k = self.kv",
        "v, k = self.kv",
        "another operand: ",
    ),
    "perceiver: gelu of the other": (
        "x * F.gelu(gate)",
        "F.gelu(x) * gate",
        "F.gelu(x)",
        "another operand: F.gelu(x), gate, where the original has x, F.gelu(gate)",
    ),
    "wavenet: gates": (
        "F.tanh(a) * F.sigmoid(b)",
        "F.tanh(b) * F.sigmoid(a)",
        "F.tanh(b)",
        "another operand: b, a, where the original has a, b",
    ),
    "gnn: ends": (
        "left[source] + right[target]",
        "left[target] + right[source]",
        "left[target]",
        "indices (unbind(dim=0)) holds",
    ),
    "seq2seq: off by one": (
        "words = self.target(target)",
        "words = self.target(paddle.roll(target, 1, 1))",
        "words[:, step], context",
        "comes from select (line 40), in the original from embedding (line 32), also at line 41 (4 times)",
    ),
    "seq2seq: mixed by energies": (
        "weights.unsqueeze(1), memory",
        "energy.unsqueeze(1), memory",
        "energy.unsqueeze(1)",
        "another operand: the first operand comes from add (line 18), in the original from softmax (line 14) (4 times)",
    ),
    "seq2seq: softmax over the batch": (
        "F.softmax(energy, axis=-1)",
        "F.softmax(energy, axis=0)",
        "F.softmax(energy",
        "another attribute: axis=0 against dim=-1 (write axis=-1) (4 times)",
    ),
    "gqa: values turned": (
        "        k = k * cos + rotate_half(k) * sin\n",
        "        k = k * cos + rotate_half(k) * sin\n        v = v * cos + rotate_half(v) * sin\n",
        "v = v * cos",
        "an op too many: the port calls mul here, the original does not (in 2 layers)",
    ),
    "unet: groups": (
        "norm1 = pnn.GroupNorm(4",
        "norm1 = pnn.GroupNorm(2",
        "self.norm1(",
        "another attribute: num_groups=2 against group=4 (write num_groups=4) (in 5 layers)",
    ),
    "unet: operands of concat": (
        "[second, self.up2(x)]",
        "[self.up2(x), second]",
        "self.up2(x), second",
        "operands swapped: the operands of concat are exchanged",
    ),
    "unet: corners": ("corners=False", "corners=True", "interpolate", "another attribute: align_corners=True against False"),
    "swin: roll back": (
        "paddle.roll(x, [self.shift, self.shift]",
        "paddle.roll(x, [-self.shift, -self.shift]",
        "paddle.roll(x",
        "another attribute: shifts=[-2, -2]",
    ),
    "swin: merge": (
        "x[:, 1::2, 0::2], x[:, 0::2, 1::2]",
        "x[:, 0::2, 1::2], x[:, 1::2, 0::2]",
        "paddle.concat(",
        "operands swapped: the operands of concat are exchanged",
    ),
    "swin: norm behind": (
        "self.down(PF.gelu(self.up(self.norm2(x))))",
        "self.norm2(self.down(PF.gelu(self.up(x))))",
        "self.norm2(self.down(",
        "an op in another place: self.up, PF.gelu, self.down, self.norm2, "
        "where the original has self.norm2, self.up, PF.gelu, self.down",
    ),
    "diffusion: steps": (
        "/ (D // 2))",
        "/ (D // 2 - 1))",
        "rates = ",
        "another attribute",
    ),
    "diffusion: bilinear": ('mode="nearest"', 'mode="bilinear"', "interpolate", "another attribute: mode='bilinear'"),
    "stn: border": (', padding_mode="border"', "", "grid_sample", "another attribute: padding_mode='zeros' against 'border'"),
    "stn: circular": (', padding_mode="circular"', "", "self.conv(image)", "padding_mode='zeros' against 'circular'"),
    "stn: blank": ("blank=0", "blank=5", "ctc_loss", "blank=5 against 0"),
}


def proven(kind, port, **options):
    torch.manual_seed(0)
    paddle.seed(0)
    if kind in ZOO:
        original, model, batch = port.torch_model(), port.paddle_model(), arrays_of(port, np.random.default_rng(0), "float32")
        drop_nothing(original)
        drop_nothing(model)
        return prove(model, original, tuple(batch[name] for name in ZOO[kind]), **options)
    name, inputs = INPUTS[kind]
    original = getattr(loaded(FRESH / f"{kind}_torch.py"), name)()
    return prove(getattr(port, name)(), original, inputs(), **options)


ALWAYS = (
    "gnn: ends", "gqa: values turned", "stn: border", "swin: roll back",
    "wavenet: shifted", "ssm: parts exchanged", "ssm: no softplus", "moe: the other weight",
    "xl: mask", "xl: shift",
)  # fmt: skip


# Of the dearer ports mistakes are found in every run.
RIGHT = ("convnext", "seq2seq", "gnn", "perceiver", "ssm", "xl")


@pytest.mark.parametrize("kind", thinned([*INPUTS, *ZOO], *RIGHT))
def test_a_right_port_is_never_accused(kind, tmp_path):
    port = planted(kind, (), tmp_path)
    for options in ({"weights": "random"}, {"phase": "train", "optimizer": "AdamW", "steps": 2}):
        proof = proven(kind, port, **options)
        assert proof, str(proof)


@pytest.mark.rows(1)
@pytest.mark.parametrize("name", sampled(OTHERWISE, 2))
def test_a_right_port_is_proven_however_it_is_written(name, tmp_path):
    kind = name.partition(":")[0]
    proof = proven(kind, planted(kind, OTHERWISE[name], tmp_path))
    assert proof, str(proof)


@pytest.mark.rows(5)
@pytest.mark.parametrize("name", thinned(WRONG, *ALWAYS))
def test_a_mistake_is_one_finding(name, tmp_path):
    *exchanged, line, text = WRONG[name]
    kind = name.partition(":")[0]
    proof = proven(kind, planted(kind, exchanged, tmp_path), weights="random")
    assert not proof
    mistake, *more = proof.mistakes
    assert line in mistake.paddle.source, str(proof)
    assert text in str(mistake), str(proof)
    assert more == [], str(proof)


@pytest.mark.slow
def test_beside_values_that_are_exchanged_other_mistakes_stay_findings(tmp_path):
    gates, bound = WRONG["wavenet: gates"][:2], WRONG["wavenet: padding"][:2]
    proof = proven("wavenet", planted("wavenet", (*gates, *bound), tmp_path), weights="random")
    assert {mistake.cause for mistake in proof.mistakes} == {Cause.ATTRIBUTE, Cause.OPERAND}, str(proof)


@pytest.mark.slow
def test_behind_what_is_too_much_other_mistakes_stay_findings(tmp_path):
    *turned, _, text = WRONG["gqa: values turned"]
    turned[1] += "        v = F.tanh(v)\n"
    product = "return self.o(mixed", "return F.relu(mixed"
    port = planted(
        "gqa", (*turned, "F.softmax(scores, axis=-1)", "F.softmax(scores, axis=-2)", "F.silu(", "F.gelu(", *product), tmp_path
    )
    proof = proven("gqa", port, weights="random")
    causes = [str(mistake) for mistake in proof.mistakes]
    assert len(causes) == 5, str(proof)
    for cause in (
        text,
        "the original calls linear here, the port does not",
        "an op too many: the port calls tanh here, the original does not",
        "axis=-2 against dim=-1",
        "gelu(approximate='none') in place of silu",
    ):
        assert any(cause in shown for shown in causes), str(proof)
