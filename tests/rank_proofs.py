"""Proofs of ports that lie on several ranks: ``python rank_proofs.py FOLDER NAME...``, of a layout and a fault as in rank_shards.

Each rank writes its answer to each as JSON.
"""

import json
import math
import os
import pathlib
import signal
import sys

import numpy as np
import paddle
import paddle.distributed as dist
import paddle.nn.functional as F
import rank_shards
import torch
from paddle import nn
from rank_shards import IDS, LENGTH, WHOLE, WIDTH, WORDS, Share, loss_of, pairs, sum_gradients

import padiff_shim

HEADS, TOKENS = 4, IDS[0]
DRAWN = np.random.default_rng(7)
FACTORS = DRAWN.uniform(0.5, 2.0, WIDTH).astype("float32")
WHOLE |= {f"attention.{name}.weight": (DRAWN.standard_normal((WIDTH, WIDTH)) * 0.4).astype("float32") for name in "qkvo"}
WHOLE |= {f"attention.{name}.bias": (DRAWN.standard_normal(WIDTH) * 0.4).astype("float32") for name in "qkvo"}


class Attention(nn.Layer):
    """Heads are split over the ranks."""

    def __init__(self, share):
        super().__init__()
        self.share = share
        self.q, self.k, self.v = (rank_shards.Column(f"attention.{name}", share) for name in "qkv")
        self.o = rank_shards.Row("attention.o", share)

    def forward(self, x):
        q, k, v = (
            layer(x).reshape([*x.shape[:2], -1, WIDTH // HEADS]).transpose([0, 2, 1, 3]) for layer in (self.q, self.k, self.v)
        )
        divisor = WIDTH if self.share.fault == "scale" else WIDTH // HEADS
        weights = F.softmax(paddle.matmul(q, k, transpose_y=True) / math.sqrt(divisor))
        return self.o(paddle.matmul(weights, v).transpose([0, 2, 1, 3]).flatten(2))


class AttentionNet(nn.Layer):
    def __init__(self, share):
        super().__init__()
        self.words, self.attention, self.head = rank_shards.Words(share), Attention(share), rank_shards.Head()

    def forward(self, ids):
        x = self.words(ids)
        return self.head(x + self.attention(x))


# ---- The originals.


class Original(torch.nn.Module):
    """Words, then what subclasses add, then the head."""

    def __init__(self, parts):
        super().__init__()
        self.words, self.head = torch.nn.Embedding(WORDS, WIDTH), torch.nn.Linear(WIDTH, WORDS, bias=False)
        for name, part in parts.items():
            setattr(self, name, part)
        with torch.no_grad():
            for name, parameter in self.named_parameters():
                whole = torch.from_numpy(WHOLE[name])
                parameter.copy_(whole.T if whole.ndim == 2 and name != "words.weight" else whole)

    def forward(self, ids):
        return self.head(self.between(self.words(ids)))


def linear(name, bias=True):
    return torch.nn.Linear(*WHOLE[f"{name}.weight"].shape, bias=bias)


class OriginalBlock(torch.nn.Module):
    def __init__(self, name):
        super().__init__()
        self.norm = torch.nn.LayerNorm(WIDTH)
        self.up, self.down = linear(f"{name}.up"), linear(f"{name}.down")

    def forward(self, x):
        return x + self.down(torch.nn.functional.gelu(self.up(self.norm(x))))


class OriginalNet(Original):
    def __init__(self):
        super().__init__({"blocks": torch.nn.ModuleList(OriginalBlock(f"blocks.{place}") for place in range(2))})

    def between(self, x):
        for block in self.blocks:
            x = block(x)
        return x


class OriginalAttention(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.q, self.k, self.v, self.o = (linear(f"attention.{name}") for name in "qkvo")

    def forward(self, x):
        q, k, v = (layer(x).unflatten(-1, (HEADS, -1)).transpose(1, 2) for layer in (self.q, self.k, self.v))
        weights = torch.softmax(q @ k.transpose(-1, -2) / math.sqrt(WIDTH // HEADS), -1)
        return self.o((weights @ v).transpose(1, 2).flatten(2))


class OriginalAttentionNet(Original):
    def __init__(self):
        super().__init__({"attention": OriginalAttention()})

    def between(self, x):
        return x + self.attention(x)


class OriginalGated(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.up, self.down = linear("gated.up", bias=False), linear("gated.down")

    def forward(self, x):
        gate, up = self.up(x).chunk(2, -1)
        return self.down(torch.nn.functional.silu(gate) * up)


class OriginalGatedNet(Original):
    def __init__(self):
        super().__init__({"gated": OriginalGated()})

    def between(self, x):
        return x + self.gated(x)


class OriginalExpert(torch.nn.Linear):
    def forward(self, x):
        return torch.nn.functional.gelu(super().forward(x))


class OriginalGate(torch.nn.Linear):
    def forward(self, x):
        return torch.softmax(super().forward(x), -1)


class OriginalMixture(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.gate = OriginalGate(*WHOLE["mixture.gate.weight"].shape, bias=False)
        experts = self.gate.out_features
        self.experts = torch.nn.ModuleList(OriginalExpert(WIDTH, WIDTH) for _ in range(experts))

    def forward(self, x):
        weights = self.gate(x)
        chosen = torch.nn.functional.one_hot(weights.argmax(-1), len(self.experts)).to(x.dtype)
        results = torch.stack([expert(chosen[:, place, None] * x) for place, expert in enumerate(self.experts)])
        return (weights * chosen).sum(-1, keepdim=True) * (chosen.t().unsqueeze(-1) * results).sum(0)


class OriginalMixtureNet(Original):
    def __init__(self):
        super().__init__({"mixture": OriginalMixture()})

    def between(self, x):
        return x + self.mixture(x.reshape(-1, WIDTH)).reshape(x.shape)


def original_loss(logits):
    labels = torch.from_numpy(TOKENS[:, 1:]).reshape(-1)
    return torch.nn.functional.cross_entropy(logits.reshape(-1, WORDS), labels)


# ---- The ports.


def proven(port, original, tokens, step=None, **options):
    """A proof of a port that gets some of the samples."""

    def loss(logits):
        return loss_of(logits, paddle.to_tensor(tokens))

    def inputs(framework):
        return (tokens if framework == "paddle" else TOKENS)[:, :-1]

    return padiff_shim.prove_sharded(port, original, inputs, loss=(loss, original_loss), step=step, **options)


def stepping(tokens, scale, combine):
    """A step that scales the loss, and combines gradients by hand."""

    def step(layer, ids):
        loss = loss_of(layer(ids), paddle.to_tensor(tokens))
        (loss * scale).backward()
        combine(layer)
        return loss

    return step


def tensor(fault, port=rank_shards.Net, original=OriginalNet, **options):
    """Tensor parallelism in pairs of ranks, of which each pair has a part of the batch; of one pair the step is the plain one."""
    number, group, across = pairs()
    shares = dist.get_world_size() // 2
    tokens = np.split(TOKENS, shares)[dist.get_rank() // 2]
    step = stepping(tokens, 1 / shares, sum_gradients(across)) if shares > 1 else None
    return proven(port(Share(number, 2, fault, group)), original(), tokens, step, **options)


def attention(fault):
    return tensor(fault, AttentionNet, OriginalAttentionNet)


def fused(fault):
    rule = {"gated.up.weight": "1:1:1", "gated.up": "-1:1:1"}
    return tensor(fault, rank_shards.GatedNet, OriginalGatedNet, shards=rule if fault == "rule" else "auto")


def data(fault):
    count = dist.get_world_size()
    tokens = np.split(TOKENS, count)[dist.get_rank()]
    combine = sum_gradients(left_out="blocks.0.up.bias" if fault == "alone" else "")
    step = stepping(tokens, 1 if fault == "sum" else 1 / count, combine)
    return proven(rank_shards.Net(Share()), OriginalNet(), tokens, None if fault == "none" else step)


def inside(fault):
    """A step that takes its share of the whole batch itself."""
    rank, count = dist.get_rank(), dist.get_world_size()
    tokens = np.split(TOKENS, count)[rank]
    step = stepping(tokens, 1 / count, sum_gradients())

    def around(layer, ids):
        return step(layer, ids[rank * len(tokens) : (rank + 1) * len(tokens)])

    return padiff_shim.prove_sharded(rank_shards.Net(Share()), OriginalNet(), TOKENS[:, :-1], loss=original_loss, step=around)


def reducer(fault):
    """By :class:`paddle.DataParallel`; called without it, gradients stay each rank's own."""
    tokens = np.split(TOKENS, dist.get_world_size())[dist.get_rank()]
    layer = paddle.DataParallel(rank_shards.Net(Share()))
    step = stepping(tokens, 1, lambda layer: None)
    around = (lambda wrapper, ids: step(wrapper._layers, ids)) if fault == "around" else None
    proof = proven(layer, OriginalNet(), tokens, around)
    before = [parameter.numpy() for parameter in layer.parameters()]
    step(layer, paddle.to_tensor(tokens[:, :-1]))  # the program goes on with its own reducer
    gradients = [parameter.grad.numpy() for parameter in layer.parameters()]
    assert all(array.dtype == np.float32 for array in (*before, *gradients))
    parts = []
    dist.all_gather(parts, layer.parameters()[0].grad)
    assert bool((parts[0] == parts[1]).all()) is (fault != "around") or fault == "around"
    return proof


def experts(fault):
    number, group, across = pairs()
    count = dist.get_world_size()
    tokens = np.split(TOKENS, count)[dist.get_rank()]
    combine = sum_gradients(left_out="mixture.gate.weight" if fault == "gate" else "", across=across)
    return proven(
        rank_shards.MixtureNet(Share(number, 2, fault, group)), OriginalMixtureNet(), tokens, stepping(tokens, 1 / count, combine)
    )


def pipeline(fault):
    """One block on each of two stages, which send by broadcasts, in two micro-batches."""
    return staged(fault, 1)


def grid(fault):
    """The same with two ranks in each stage, which split its weights."""
    return staged(fault, 2)


def staged(fault, width):
    stage, number = divmod(dist.get_rank(), width)
    shape = [len(TOKENS) // 2, LENGTH, WIDTH]
    turns = [rank_shards.Turn(tuple(range(first, first + width)), shape) for first in (0, width)]

    def step(layer, _):
        losses = []

        def last(sent, part):
            sent.stop_gradient = False
            losses.append(loss_of(layer(sent), part))
            (losses[-1] * (1.0 if fault == "scale" else 0.5)).backward()
            return sent.grad * 2 if fault == "sent" else sent.grad.clone()

        for part in map(paddle.to_tensor, np.split(TOKENS, 2)):
            hidden = turns[0].run(lambda part=part: layer(part[:, :-1]))
            sent = paddle.zeros(shape) if hidden is None else hidden.detach().clone()
            dist.broadcast(sent, 0)
            gradient = turns[1].run(lambda sent=sent, part=part: last(sent, part))
            gradient = paddle.zeros(shape) if gradient is None else gradient
            dist.broadcast(gradient, width)
            turns[0].run(lambda hidden=hidden, gradient=gradient: hidden.backward(gradient))
        return sum(losses) / 2 if losses else None

    return proven(rank_shards.Stage(stage, Share(number, width, fault, turns[stage])), OriginalNet(), TOKENS, step)


class Scaled(nn.Layer):
    """Data parallel, with a buffer of the port's own, dropout, and errors of one rank."""

    def __init__(self, fault):
        super().__init__()
        self.net, self.fault, self.dropout = rank_shards.Net(Share()), fault, nn.Dropout(0.5)
        factors = FACTORS * (1 + 2.0**-22) if fault == "rounded" else FACTORS * 1.01 if fault == "buffer" else FACTORS
        self.register_buffer("factors", paddle.to_tensor(factors.astype("float32")), persistable=False)

    def forward(self, ids):
        if dist.get_rank() == 1 and self.fault == "raises":
            raise ValueError("no such word")
        if dist.get_rank() == 1 and self.fault == "killed":
            os.kill(os.getpid(), signal.SIGKILL)
        x = self.net.words(ids)
        if self.fault == "drawn":
            x = self.dropout(x)
        for block in self.net.blocks:
            x = block(x)
        if self.fault in ("raises", "killed"):
            dist.all_reduce(x.detach().clone())
        return self.net.head(x * self.factors)


class OriginalScaled(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.net, self.dropout = OriginalNet(), torch.nn.Dropout(0.0)
        self.register_buffer("factors", torch.from_numpy(FACTORS), persistent=False)

    def forward(self, ids):
        return self.net.head(self.net.between(self.dropout(self.net.words(ids))) * self.factors)


def scaled(fault):
    """``adds``: the returned losses add up."""
    count = dist.get_world_size()
    tokens = np.split(TOKENS, count)[dist.get_rank()]

    def step(layer, ids):
        loss = loss_of(layer(ids), paddle.to_tensor(tokens)) / count
        loss.backward()
        sum_gradients()(layer)
        return loss if fault == "adds" else loss * count

    return proven(Scaled(fault), OriginalScaled(), tokens, step)


LAYOUTS = {layout.__name__: layout for layout in (tensor, attention, fused, data, reducer, experts, pipeline, grid, inside, scaled)}


def main():
    dist.init_parallel_env()
    folder = pathlib.Path(sys.argv[1])
    for name in sys.argv[2:]:
        layout, _, fault = name.partition("-")
        try:
            proof = LAYOUTS[layout](fault)
        except Exception as error:
            print(f"{type(error).__name__}: {error}", flush=True)
            sys.exit(3)
        (folder / f"{name}-rank{dist.get_rank()}.json").write_text(json.dumps(proof.to_dict()))
        if dist.get_rank() == 0:
            print(f"{name}\n{proof}", flush=True)


if __name__ == "__main__":
    main()
