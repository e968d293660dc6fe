"""A decoder that goes over segments with a memory of the last ones (Dai et al., 2019), ported to Paddle."""

import paddle
import paddle.nn.functional as F
from paddle import nn


class Layer(nn.Layer):
    def __init__(self, d, heads):
        super().__init__()
        self.heads, self.size = heads, d // heads
        self.query, self.both = nn.Linear(d, d, bias_attr=False), nn.Linear(d, 2 * d, bias_attr=False)
        self.out, self.norm1, self.norm2 = nn.Linear(d, d, bias_attr=False), nn.LayerNorm(d), nn.LayerNorm(d)
        self.up, self.down = nn.Linear(d, 2 * d), nn.Linear(2 * d, d)
        slopes = paddle.to_tensor([2.0 ** -(head + 1) for head in range(heads)])
        self.slope = self.create_parameter([heads], default_initializer=nn.initializer.Assign(slopes))

    def forward(self, x, memory=None):
        b, n, d = x.shape
        seen = x if memory is None else paddle.concat([memory, x], axis=1)
        total = seen.shape[1]
        q = self.query(x).reshape([b, n, self.heads, self.size]).transpose([0, 2, 1, 3])
        k, v = self.both(seen).reshape([b, total, 2, self.heads, self.size]).transpose([2, 0, 3, 1, 4])
        back = paddle.arange(total).unsqueeze(0) - paddle.arange(total - n, total).unsqueeze(1)
        scores = paddle.matmul(q, k, transpose_y=True) * self.size**-0.5
        scores = scores + self.slope.reshape([-1, 1, 1]) * back.clip(max=0).astype(x.dtype)
        scores = scores.masked_fill(back > 0, float("-inf"))
        mixed = paddle.matmul(F.softmax(scores), v).transpose([0, 2, 1, 3]).reshape([b, n, d])
        x = self.norm1(x + self.out(mixed))
        return self.norm2(x + self.down(F.relu(self.up(x))))


class Memory(nn.Layer):
    def __init__(self, words=15, d=8, heads=2, layers=2, length=3):
        super().__init__()
        self.length = length
        self.embed, self.scale = nn.Embedding(words, d), d**0.5
        self.layers = nn.LayerList([Layer(d, heads) for _ in range(layers)])
        self.bias = self.create_parameter([words], is_bias=True)

    def forward(self, ids):
        memories, logits = [None] * len(self.layers), []
        for start in range(0, ids.shape[1], 4):
            x = self.embed(ids[:, start : start + 4]) * self.scale
            for place, layer in enumerate(self.layers):
                seen = memories[place]
                whole = x if seen is None else paddle.concat([seen, x], axis=1)
                memories[place] = whole[:, -self.length :].detach()
                x = layer(x, seen)
            logits.append(paddle.matmul(x, self.embed.weight, transpose_y=True) + self.bias)
        return {"logits": paddle.concat(logits, axis=1), "memories": memories}
