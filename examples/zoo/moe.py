"""A mixture of experts behind attention (Mixtral; Jiang et al., 2024): a router, the two best of four experts for each token."""

import paddle
import paddle.nn as pnn
import paddle.nn.functional as PF
import torch
import torch.nn as tnn
import torch.nn.functional as TF

from .gpt import LENGTH, WORDS, batch as batch, paddle_step as paddle_step, torch_step as torch_step
from .training import Recipe

D, EXPERTS, CHOSEN, LAYERS, HIDDEN = 40, 4, 2, 2, 48
RECIPE = Recipe(rate=3e-3, schedule="cosine", decay=0.1)


class PaddleExperts(pnn.Layer):
    def __init__(self):
        super().__init__()
        self.router = pnn.Linear(D, EXPERTS, bias_attr=False)
        normal = pnn.initializer.Normal(std=0.1)
        self.gate, self.up = (self.create_parameter([EXPERTS, D, HIDDEN], default_initializer=normal) for _ in range(2))
        self.down = self.create_parameter([EXPERTS, HIDDEN, D], default_initializer=normal)

    def forward(self, x):
        tokens = x.reshape([-1, D])
        probabilities = PF.softmax(self.router(tokens), axis=-1)
        chosen, places = paddle.topk(probabilities, CHOSEN, axis=-1)
        chosen = chosen / chosen.sum(-1, keepdim=True)
        every = tokens.unsqueeze(0).expand([EXPERTS, tokens.shape[0], D])
        gate, up = paddle.bmm(every, self.gate), paddle.bmm(every, self.up)
        hidden = PF.silu(gate) * up
        made = paddle.bmm(hidden, self.down).transpose([1, 0, 2])
        made = paddle.take_along_axis(made, places.unsqueeze(-1).expand([-1, -1, D]), axis=1, broadcast=False)
        mixed = (made * chosen.unsqueeze(-1)).sum(1)
        return mixed.reshape(x.shape)


class PaddleBlock(pnn.Layer):
    def __init__(self):
        super().__init__()
        self.norm1, self.norm2 = pnn.LayerNorm(D), pnn.LayerNorm(D)
        self.q, self.k, self.v, self.out = (pnn.Linear(D, D) for _ in range(4))
        self.experts = PaddleExperts()

    def attend(self, x):
        q, k, v = self.q(x), self.k(x), self.v(x)
        scores = paddle.matmul(q, k, transpose_y=True) / D**0.5
        return self.out(paddle.matmul(PF.softmax(scores, axis=-1), v))

    def forward(self, x):
        x = x + self.attend(self.norm1(x))
        return x + self.experts(self.norm2(x))


class PaddleMoe(pnn.Layer):
    def __init__(self):
        super().__init__()
        self.words, self.places = pnn.Embedding(WORDS, D), pnn.Embedding(LENGTH, D)
        self.blocks = pnn.LayerList([PaddleBlock() for _ in range(LAYERS)])
        self.norm = pnn.LayerNorm(D)
        self.head = pnn.Linear(D, WORDS, bias_attr=False)

    def forward(self, tokens):
        x = self.words(tokens) + self.places(paddle.arange(tokens.shape[1]))
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x))


class TorchExperts(tnn.Module):
    def __init__(self):
        super().__init__()
        self.router = tnn.Linear(D, EXPERTS, bias=False)
        self.gate, self.up = (tnn.Parameter(0.1 * torch.randn(EXPERTS, D, HIDDEN)) for _ in range(2))
        self.down = tnn.Parameter(0.1 * torch.randn(EXPERTS, HIDDEN, D))

    def forward(self, x):
        tokens = x.reshape([-1, D])
        probabilities = TF.softmax(self.router(tokens), dim=-1)
        chosen, places = torch.topk(probabilities, CHOSEN, dim=-1)
        chosen = chosen / chosen.sum(-1, keepdim=True)
        every = tokens.unsqueeze(0).expand([EXPERTS, tokens.shape[0], D])
        gate, up = torch.bmm(every, self.gate), torch.bmm(every, self.up)
        hidden = TF.silu(gate) * up
        made = torch.bmm(hidden, self.down).permute([1, 0, 2])
        made = torch.gather(made, 1, places.unsqueeze(-1).expand([-1, -1, D]))
        mixed = (made * chosen.unsqueeze(-1)).sum(1)
        return mixed.reshape(x.shape)


class TorchBlock(tnn.Module):
    def __init__(self):
        super().__init__()
        self.norm1, self.norm2 = tnn.LayerNorm(D), tnn.LayerNorm(D)
        self.q, self.k, self.v, self.out = (tnn.Linear(D, D) for _ in range(4))
        self.experts = TorchExperts()

    def attend(self, x):
        q, k, v = self.q(x), self.k(x), self.v(x)
        scores = torch.matmul(q, k.mT) / D**0.5
        return self.out(torch.matmul(TF.softmax(scores, dim=-1), v))

    def forward(self, x):
        x = x + self.attend(self.norm1(x))
        return x + self.experts(self.norm2(x))


class TorchMoe(tnn.Module):
    def __init__(self):
        super().__init__()
        self.words, self.places = tnn.Embedding(WORDS, D), tnn.Embedding(LENGTH, D)
        self.blocks = tnn.ModuleList([TorchBlock() for _ in range(LAYERS)])
        self.norm = tnn.LayerNorm(D)
        self.head = tnn.Linear(D, WORDS, bias=False)

    def forward(self, tokens):
        x = self.words(tokens) + self.places(torch.arange(tokens.shape[1]))
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x))


paddle_model, torch_model = PaddleMoe, TorchMoe
