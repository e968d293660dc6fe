"""A graph convolution (Kipf and Welling, 2017) and a graph attention (Velickovic et al., 2018), ported to Paddle."""

import paddle
import paddle.nn.functional as F
from paddle import nn


class GCN(nn.Layer):
    def __init__(self, d, out):
        super().__init__()
        self.linear = nn.Linear(d, out, bias_attr=False)
        self.bias = self.create_parameter([out], is_bias=True)

    def forward(self, x, source, target):
        n = x.shape[0]
        loops = paddle.arange(n, dtype=source.dtype)
        source, target = paddle.concat([source, loops]), paddle.concat([target, loops])
        degree = paddle.zeros([n], dtype=x.dtype)
        degree = paddle.scatter(degree, target, paddle.ones(target.shape, dtype=x.dtype), overwrite=False)
        inverse = degree**-0.5
        norm = paddle.gather(inverse, source) * paddle.gather(inverse, target)
        messages = paddle.gather(self.linear(x), source) * norm.unsqueeze(-1)
        out = paddle.zeros([n, messages.shape[1]], dtype=x.dtype)
        return paddle.index_add(out, target, 0, messages) + self.bias


class GAT(nn.Layer):
    def __init__(self, d, heads, size):
        super().__init__()
        self.heads, self.size = heads, size
        self.linear = nn.Linear(d, heads * size, bias_attr=False)
        self.left, self.right = self.create_parameter([heads, size]), self.create_parameter([heads, size])

    def forward(self, x, source, target):
        h = self.linear(x).reshape([-1, self.heads, self.size])
        left, right = paddle.sum(h * self.left, axis=-1), paddle.sum(h * self.right, axis=-1)
        score = paddle.exp(F.leaky_relu(left[source] + right[target], negative_slope=0.2))
        total = paddle.index_add(paddle.zeros([x.shape[0], self.heads], dtype=x.dtype), target, 0, score)
        weight = score / (total[target] + 1e-16)
        out = paddle.index_add(paddle.zeros_like(h), target, 0, h[source] * weight.unsqueeze(-1))
        return out.reshape([-1, self.heads * self.size])


class Net(nn.Layer):
    def __init__(self, d=5, hidden=8, classes=3):
        super().__init__()
        self.one, self.two, self.head = GCN(d, hidden), GAT(hidden, 2, 4), nn.Linear(hidden, classes)

    def forward(self, x, edges):
        source, target = edges[0], edges[1]
        x = F.relu(self.one(x, source, target))
        x = F.elu(self.two(x, source, target))
        return F.log_softmax(self.head(x), axis=-1)
