"""A Reformer (Kitaev et al., 2020) with LSH attention: places are sorted by hashes, gathered, cut to chunks, and put back.

What is moved there lies in memory as each framework likes, and the sums that follow are taken in that order. The random
rotations of the hashes are an input.
"""

import paddle
import paddle.nn as pnn
import paddle.nn.functional as PF
import torch
import torch.nn as tnn
import torch.nn.functional as TF

WORDS, D, HEADS, LAYERS, LENGTH = 97, 32, 2, 2, 32
SIZE, ROUNDS, BUCKETS, CHUNK = D // HEADS, 2, 8, 8


class PaddleLsh(pnn.Layer):
    def __init__(self):
        super().__init__()
        self.query_key, self.value, self.out = (pnn.Linear(D, D, bias_attr=False) for _ in range(3))

    def order(self, vectors, rotations):
        """The places [batch, heads, rounds * length] sorted by round, bucket and place."""
        turned = paddle.einsum("bhls,hsrn->bhrln", vectors.detach(), rotations)
        buckets = paddle.argmax(paddle.concat([turned, -turned], axis=-1), axis=-1)
        buckets = (buckets + BUCKETS * paddle.arange(ROUNDS).reshape([ROUNDS, 1])).flatten(2)
        return paddle.argsort(buckets * LENGTH + paddle.arange(ROUNDS * LENGTH) % LENGTH, axis=-1)

    def chunks(self, x, places):
        x = paddle.take_along_axis(x, places.unsqueeze(-1).expand([-1, -1, -1, SIZE]), axis=2)
        return x.reshape([x.shape[0], HEADS, -1, CHUNK, SIZE])

    def near(self, x):
        """Each chunk behind the one before it."""
        return paddle.concat([paddle.concat([x[:, :, -1:], x[:, :, :-1]], axis=2), x], axis=3)

    def forward(self, x, rotations):
        batch = x.shape[0]
        vectors, value = (f(x).reshape([batch, LENGTH, HEADS, SIZE]).transpose([0, 2, 1, 3]) for f in (self.query_key, self.value))
        order = self.order(vectors, rotations)
        back, places = paddle.argsort(order, axis=-1), order % LENGTH
        query, value = self.chunks(vectors, places), self.near(self.chunks(value, places))
        key = self.near(query * paddle.rsqrt((query**2).mean(axis=-1, keepdim=True) + 1e-6)) / SIZE**0.5
        scores = paddle.matmul(query, key, transpose_y=True)
        ours = places.reshape([batch, HEADS, -1, CHUNK])
        theirs = self.near(ours.unsqueeze(-1)).transpose([0, 1, 2, 4, 3])
        ours = ours.unsqueeze(-1)
        scores = paddle.where(ours >= theirs, scores, paddle.full_like(scores, -1e9))
        scores = paddle.where(ours != theirs, scores, paddle.full_like(scores, -1e5))
        total = paddle.logsumexp(scores.flatten(0, 1), axis=-1, keepdim=True)  # Paddle's takes four axes at most
        total = total.reshape([batch, HEADS, -1, CHUNK, 1])
        attended = paddle.matmul(paddle.exp(scores - total), value).reshape([batch, HEADS, ROUNDS * LENGTH, SIZE])
        attended = paddle.take_along_axis(attended, back.unsqueeze(-1).expand([-1, -1, -1, SIZE]), axis=2)
        total = paddle.take_along_axis(total.reshape([batch, HEADS, ROUNDS * LENGTH]), back, axis=2)
        attended = attended.reshape([batch, HEADS, ROUNDS, LENGTH, SIZE])
        total = total.reshape([batch, HEADS, ROUNDS, LENGTH, 1])
        whole = paddle.logsumexp(total.flatten(0, 1), axis=1, keepdim=True).reshape([batch, HEADS, 1, LENGTH, 1])
        attended = (attended * paddle.exp(total - whole)).sum(axis=2)
        return self.out(attended.transpose([0, 2, 1, 3]).reshape([batch, LENGTH, D]))


class PaddleBlock(pnn.Layer):
    def __init__(self):
        super().__init__()
        self.norm1, self.norm2 = pnn.LayerNorm(D), pnn.LayerNorm(D)
        self.attention = PaddleLsh()
        self.up, self.down = pnn.Linear(D, 4 * D), pnn.Linear(4 * D, D)

    def forward(self, left, right, rotations):
        left = left + self.attention(self.norm1(right), rotations)
        return left, right + self.down(PF.relu(self.up(self.norm2(left))))


class PaddleReformer(pnn.Layer):
    def __init__(self):
        super().__init__()
        self.words, self.places = pnn.Embedding(WORDS, D), pnn.Embedding(LENGTH, D)
        self.blocks = pnn.LayerList([PaddleBlock() for _ in range(LAYERS)])
        self.norm = pnn.LayerNorm(2 * D)
        self.head = pnn.Linear(2 * D, WORDS)

    def forward(self, tokens, rotations):
        left = right = self.words(tokens) + self.places(paddle.arange(LENGTH))
        hidden = []
        for block, rotation in zip(self.blocks, rotations):
            left, right = block(left, right, rotation)
            hidden += [left, right]
        return self.head(self.norm(paddle.concat([left, right], axis=-1))), hidden


class TorchLsh(tnn.Module):
    def __init__(self):
        super().__init__()
        self.query_key, self.value, self.out = (tnn.Linear(D, D, bias=False) for _ in range(3))

    def order(self, vectors, rotations):
        """The places [batch, heads, rounds * length] sorted by round, bucket and place."""
        turned = torch.einsum("bhls,hsrn->bhrln", vectors.detach(), rotations)
        buckets = torch.argmax(torch.cat([turned, -turned], dim=-1), dim=-1)
        buckets = (buckets + BUCKETS * torch.arange(ROUNDS).reshape([ROUNDS, 1])).flatten(2)
        return torch.argsort(buckets * LENGTH + torch.arange(ROUNDS * LENGTH) % LENGTH, dim=-1)

    def chunks(self, x, places):
        x = torch.gather(x, 2, places.unsqueeze(-1).expand([-1, -1, -1, SIZE]))
        return x.reshape([x.shape[0], HEADS, -1, CHUNK, SIZE])

    def near(self, x):
        """Each chunk behind the one before it."""
        return torch.cat([torch.cat([x[:, :, -1:], x[:, :, :-1]], dim=2), x], dim=3)

    def forward(self, x, rotations):
        batch = x.shape[0]
        vectors, value = (f(x).reshape([batch, LENGTH, HEADS, SIZE]).permute([0, 2, 1, 3]) for f in (self.query_key, self.value))
        order = self.order(vectors, rotations)
        back, places = torch.argsort(order, dim=-1), order % LENGTH
        query, value = self.chunks(vectors, places), self.near(self.chunks(value, places))
        key = self.near(query * torch.rsqrt((query**2).mean(dim=-1, keepdim=True) + 1e-6)) / SIZE**0.5
        scores = torch.matmul(query, key.transpose(-1, -2))
        ours = places.reshape([batch, HEADS, -1, CHUNK])
        theirs = self.near(ours.unsqueeze(-1)).permute([0, 1, 2, 4, 3])
        ours = ours.unsqueeze(-1)
        scores = torch.where(ours >= theirs, scores, torch.full_like(scores, -1e9))
        scores = torch.where(ours != theirs, scores, torch.full_like(scores, -1e5))
        total = torch.logsumexp(scores, dim=-1, keepdim=True)
        attended = torch.matmul(torch.exp(scores - total), value).reshape([batch, HEADS, ROUNDS * LENGTH, SIZE])
        attended = torch.gather(attended, 2, back.unsqueeze(-1).expand([-1, -1, -1, SIZE]))
        total = torch.gather(total.reshape([batch, HEADS, ROUNDS * LENGTH]), 2, back)
        attended = attended.reshape([batch, HEADS, ROUNDS, LENGTH, SIZE])
        total = total.reshape([batch, HEADS, ROUNDS, LENGTH, 1])
        whole = torch.logsumexp(total, dim=2, keepdim=True)
        attended = (attended * torch.exp(total - whole)).sum(dim=2)
        return self.out(attended.permute([0, 2, 1, 3]).reshape([batch, LENGTH, D]))


class TorchBlock(tnn.Module):
    def __init__(self):
        super().__init__()
        self.norm1, self.norm2 = tnn.LayerNorm(D), tnn.LayerNorm(D)
        self.attention = TorchLsh()
        self.up, self.down = tnn.Linear(D, 4 * D), tnn.Linear(4 * D, D)

    def forward(self, left, right, rotations):
        left = left + self.attention(self.norm1(right), rotations)
        return left, right + self.down(TF.relu(self.up(self.norm2(left))))


class TorchReformer(tnn.Module):
    def __init__(self):
        super().__init__()
        self.words, self.places = tnn.Embedding(WORDS, D), tnn.Embedding(LENGTH, D)
        self.blocks = tnn.ModuleList([TorchBlock() for _ in range(LAYERS)])
        self.norm = tnn.LayerNorm(2 * D)
        self.head = tnn.Linear(2 * D, WORDS)

    def forward(self, tokens, rotations):
        left = right = self.words(tokens) + self.places(torch.arange(LENGTH))
        hidden = []
        for block, rotation in zip(self.blocks, rotations):
            left, right = block(left, right, rotation)
            hidden += [left, right]
        return self.head(self.norm(torch.cat([left, right], dim=-1))), hidden


paddle_model, torch_model = PaddleReformer, TorchReformer


def batch(rng):
    return {
        "tokens": rng.integers(0, WORDS, (4, LENGTH)),
        "following": rng.integers(0, WORDS, (4, LENGTH)),
        "rotations": rng.standard_normal((LAYERS, HEADS, SIZE, ROUNDS, BUCKETS // 2)),
    }


def paddle_step(model, tokens, following, rotations):
    logits, hidden = model(tokens, rotations)
    return [logits, *hidden], PF.cross_entropy(logits.reshape([-1, WORDS]), following.reshape([-1]))


def torch_step(model, tokens, following, rotations):
    logits, hidden = model(tokens, rotations)
    return [logits, *hidden], TF.cross_entropy(logits.reshape([-1, WORDS]), following.reshape([-1]))
