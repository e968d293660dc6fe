"""Small Paddle programs that know nothing of the shim: every spelling by which the ops of the table are reached.

``PROGRAMS`` maps a name to a function of :class:`Data`; it returns a tensor or a list of tensors. Programs whose functions the
installed Paddle lacks are left out.
"""

from __future__ import annotations

import types

import numpy as np
import paddle
import paddle.nn.functional as F
from paddle import _C_ops, matmul  # taken before any mode is open
from paddle.nn.functional import layer_norm as imported_layer_norm, linear as imported_linear

KEPT = types.SimpleNamespace(mul=paddle.multiply, div=_C_ops.divide, table={"relu": F.relu, "gelu": F.gelu}, sum=paddle.sum)


class Kept(paddle.nn.Layer):
    """A layer that keeps its activation function on itself, as many models do."""

    def __init__(self):
        super().__init__()
        self.fc = paddle.nn.Linear(4, 4)
        self.activation = getattr(F, "gelu")  # noqa: B009  # looked up by name, as configuration files do
        self.norm = paddle.nn.LayerNorm(4)

    def forward(self, x):
        return self.norm(self.activation(self.fc(x)))


def _layers():
    """With the same values in each process, and no random number fewer for whoever comes next."""
    state, nn = paddle.get_rng_state(), paddle.nn
    paddle.seed(0)
    made = types.SimpleNamespace(
        linear=nn.Linear(4, 3),
        bare=nn.Linear(4, 3, bias_attr=False),
        norm=nn.LayerNorm(4),
        norm_bare=nn.LayerNorm([3, 4], weight_attr=False, bias_attr=False),
        mlp=nn.Sequential(nn.Linear(4, 8), nn.GELU(), nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 2), nn.Tanh(), nn.Softmax()),
        mha=nn.MultiHeadAttention(8, 2),
        encoder=nn.TransformerEncoder(nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0, activation="gelu"), 2),
        decoder=nn.TransformerDecoderLayer(8, 2, 16, dropout=0.0),
        kept=Kept(),
        embedding=nn.Embedding(5, 4),
    )
    paddle.set_rng_state(state)
    return made


LAYERS = _layers()  # before any mode is open: in whichever test came first it counted their random numbers


class Data:
    """The tensors and layers that programs use; made anew for each run, always with the same values."""

    def __init__(self, grad=False):
        random = np.random.RandomState(0)

        def tensor(*shape, positive=False):
            values = random.rand(*shape) + 0.5 if positive else random.randn(*shape)
            return paddle.to_tensor(np.asarray(values, "float32"), stop_gradient=not grad)

        self.x, self.y, self.p = tensor(4, 4), tensor(4, 4), tensor(4, 4, positive=True)
        self.v, self.u, self.s = tensor(4), tensor(4), tensor()
        self.a, self.b, self.c = tensor(2, 3, 4), tensor(2, 4, 5), tensor(2, 3, 5)
        self.seq = tensor(2, 5, 8)
        self.array = random.randn(4, 4).astype("float32")
        self.int = paddle.to_tensor(np.arange(1, 13).reshape(3, 4))
        self.mask = paddle.to_tensor(random.rand(4, 4) > 0.5)
        self.label = paddle.to_tensor(np.array([0, 1, 2, 3]))
        self.nn = LAYERS


def _inplace(name):
    def program(t):
        value = t.p.detach().clone()
        return getattr(value, name)(*([] if name in UNARY_INPLACE else [t.y.detach()]))

    return program


def _augmented_divide(t):
    value = t.x * 1.0
    value /= t.p
    value /= 3
    value += 1
    value -= t.y
    value *= 2
    value **= 2
    return value


def _closure(t):
    multiply = _C_ops.multiply
    return (lambda value: multiply(value, value))(t.x)


UNARY_INPLACE = ("exp_", "sqrt_", "rsqrt_", "tanh_", "scale_", "square_")

PROGRAMS = {
    # matmul, every spelling
    "matmul": lambda t: paddle.matmul(t.x, t.y),
    "matmul imported": lambda t: matmul(t.x, t.y),
    "matmul transposes": lambda t: paddle.matmul(t.x, t.y, True, True),
    "matmul keywords": lambda t: paddle.matmul(x=t.x, y=t.y, transpose_y=True),
    "matmul broadcast": lambda t: paddle.matmul(t.a, t.x),
    "matmul 1-D 1-D": lambda t: paddle.matmul(t.v, t.u),
    "matmul 2-D 1-D": lambda t: paddle.matmul(t.x, t.v),
    "matmul 1-D 2-D": lambda t: paddle.matmul(t.v, t.x),
    "@": lambda t: t.x @ t.y,
    "@ view": lambda t: t.x.t() @ t.y[:, 1:3],
    "Tensor.matmul": lambda t: t.x.matmul(t.y),
    "_C_ops.matmul": lambda t: _C_ops.matmul(t.x, t.y, False, False),
    "linalg.matmul": lambda t: paddle.linalg.matmul(t.x, t.y) if hasattr(paddle.linalg, "matmul") else t.x.matmul(t.y),
    "tensor.linalg.matmul": lambda t: __import__("sys").modules["paddle.tensor.linalg"].matmul(t.x, t.y),
    "mm": lambda t: paddle.mm(t.x, t.y),
    "Tensor.mm": lambda t: t.x.mm(t.y),
    "bmm": lambda t: paddle.bmm(t.a, t.b),
    "Tensor.bmm": lambda t: t.a.bmm(t.b),
    "mv": lambda t: paddle.mv(t.x, t.v),
    "Tensor.mv": lambda t: t.x.mv(t.v),
    "dot": lambda t: paddle.dot(t.v, t.u),
    "dot batch": lambda t: t.x.dot(t.y),
    "inner": lambda t: paddle.inner(t.x, t.y),
    "outer": lambda t: paddle.outer(t.v, t.u),
    "addmm": lambda t: paddle.addmm(t.x, t.y, t.x, beta=0.5, alpha=2.0),
    "Tensor.addmm": lambda t: t.x.addmm(t.y, t.x),
    "baddbmm": lambda t: paddle.baddbmm(t.c, t.a, t.b),
    "einsum": lambda t: paddle.einsum("bij,bjk->bik", t.a, t.b),
    "einsum trace": lambda t: paddle.einsum("ij,jk,kl->il", t.x, t.y, t.x),
    "multi_dot": lambda t: paddle.linalg.multi_dot([t.x, t.y, t.x]),
    "vecdot": lambda t: paddle.linalg.vecdot(t.x, t.y),
    "tensordot": lambda t: paddle.tensordot(t.x, t.y, axes=1),
    "matrix_power by @": lambda t: t.x @ t.x @ t.x,
    "kron-like outer": lambda t: t.v.outer(t.u).flatten(),
    # linear
    "F.linear": lambda t: F.linear(t.x, t.y, t.v),
    "F.linear no bias": lambda t: F.linear(t.a, t.y),
    "F.linear imported": lambda t: imported_linear(x=t.x, weight=t.y),
    "nn.Linear": lambda t: t.nn.linear(t.x),
    "nn.Linear no bias": lambda t: t.nn.bare(t.a),
    "nn.Linear 1-D": lambda t: t.nn.linear(t.v.unsqueeze(0)),
    "mlp": lambda t: t.nn.mlp(t.x),
    "kept activation": lambda t: t.nn.kept(t.x),
    "embedding and linear": lambda t: t.nn.linear(t.nn.embedding(t.label)),
    # layer_norm
    "F.layer_norm": lambda t: F.layer_norm(t.x, 4),
    "F.layer_norm full": lambda t: F.layer_norm(t.x, [4], t.v, t.u, 1e-6),
    "F.layer_norm imported": lambda t: imported_layer_norm(t.a, [3, 4]),
    "nn.LayerNorm": lambda t: t.nn.norm(t.a),
    "nn.LayerNorm bare": lambda t: t.nn.norm_bare(t.a),
    # reductions
    "sum": lambda t: paddle.sum(t.x),
    "sum axis": lambda t: t.a.sum(axis=[0, -1], keepdim=True),
    "sum kept": lambda t: KEPT.sum(t.a, 1),
    "sum dtype": lambda t: t.x.sum(dtype="float64"),
    "sum of bool": lambda t: t.mask.sum(),
    "sum of int": lambda t: t.int.sum(0),
    "mean": lambda t: paddle.mean(t.x),
    "mean axis": lambda t: t.a.mean(-1, keepdim=True),
    "mean two axes": lambda t: paddle.mean(t.a, axis=[0, 2]),
    "logsumexp": lambda t: paddle.logsumexp(t.x),
    "logsumexp axis": lambda t: t.a.logsumexp(-1, keepdim=True),
    "builtin sum": lambda t: sum([t.x, t.y, t.x]),
    # division and the other operators
    "/": lambda t: t.x / t.p,
    "/ scalar": lambda t: t.x / 3,
    "scalar /": lambda t: 2.5 / t.p,
    "/ 0-D": lambda t: t.x / t.s,
    "/ numpy scalar": lambda t: t.x / np.float32(3),
    "/ int tensors": lambda t: t.int / t.int,
    "int / scalar": lambda t: t.int / 7,
    "scalar / int": lambda t: 1 / t.int,
    "divide": lambda t: paddle.divide(t.x, t.p),
    "Tensor.divide": lambda t: t.x.divide(t.p),
    "divide kept": lambda t: KEPT.div(t.x, t.p),
    "__rtruediv__": lambda t: t.p.__rtruediv__(2.0),
    "augmented": _augmented_divide,
    "+": lambda t: t.x + t.v,
    "+ scalar": lambda t: t.x + 2.5,
    "scalar +": lambda t: 1 + t.x,
    "add": lambda t: paddle.add(t.x, t.y),
    "Tensor.add": lambda t: t.x.add(t.y),
    "- ": lambda t: t.x - t.y,
    "scalar -": lambda t: 1.0 - t.x,
    "subtract": lambda t: paddle.subtract(t.x, t.y),
    "* ": lambda t: t.x * t.v,
    "scalar *": lambda t: 2 * t.x,
    "multiply": lambda t: paddle.multiply(t.x, t.y),
    "multiply kept": lambda t: KEPT.mul(t.x, t.y),
    "multiply in a closure": _closure,
    "int +": lambda t: t.int + t.int,
    "int *": lambda t: t.int * 3,
    "**": lambda t: t.p**t.y,
    "** scalar": lambda t: t.x**2,
    "** fraction": lambda t: t.p**0.5,
    "scalar **": lambda t: 2.0**t.x,
    "pow": lambda t: paddle.pow(t.p, 1.5),
    "pow tensor": lambda t: paddle.pow(t.p, t.y),
    "Tensor.pow": lambda t: t.p.pow(3),
    "neg": lambda t: -t.x,
    "paddle.neg": lambda t: paddle.neg(t.x),
    "scale": lambda t: paddle.scale(t.x, 2.0, 1.0, bias_after_scale=False),
    "numpy on the left": lambda t: t.array * t.x,
    "numpy on the right": lambda t: t.x + paddle.to_tensor(t.array),
    # elementwise
    "exp": lambda t: paddle.exp(t.x),
    "Tensor.exp": lambda t: t.x.exp(),
    "sqrt": lambda t: paddle.sqrt(t.p),
    "rsqrt": lambda t: t.p.rsqrt(),
    "square": lambda t: paddle.square(t.x),
    "tanh": lambda t: paddle.tanh(t.x),
    "F.tanh": lambda t: F.tanh(t.x),
    "relu": lambda t: F.relu(t.x),
    "nn.ReLU": lambda t: paddle.nn.ReLU()(t.x),
    "relu in a table": lambda t: KEPT.table["relu"](t.x),
    "gelu": lambda t: F.gelu(t.x),
    "gelu tanh": lambda t: F.gelu(t.x, approximate=True),
    "gelu in a table": lambda t: KEPT.table["gelu"](t.x),
    "softmax": lambda t: F.softmax(t.x),
    "softmax axis": lambda t: F.softmax(t.a, axis=1),
    "nn.Softmax": lambda t: paddle.nn.Softmax(0)(t.x),
    "gelu by hand": lambda t: 0.5 * t.x * (1.0 + paddle.tanh(0.7978845608 * (t.x + 0.044715 * paddle.pow(t.x, 3.0)))),
    "rms norm by hand": lambda t: t.x * (t.x.square().mean(-1, keepdim=True) + 1e-6).rsqrt(),
    # attention and other things that call the ops inside
    "attention by hand": lambda t: F.softmax(t.a @ t.a.transpose([0, 2, 1]) / 2.0, -1) @ t.a,
    "MultiHeadAttention": lambda t: t.nn.mha(t.seq, t.seq, t.seq),
    "TransformerEncoder": lambda t: t.nn.encoder(t.seq),
    "TransformerDecoderLayer": lambda t: t.nn.decoder(t.seq, t.seq),
    "cosine_similarity": lambda t: F.cosine_similarity(t.x, t.y),
    "nansum": lambda t: paddle.nansum(t.x),
    "var": lambda t: t.x.var(),
    "std": lambda t: t.x.std(axis=0),
    "norm": lambda t: paddle.linalg.norm(t.x),
    "cross_entropy": lambda t: F.cross_entropy(t.x, t.label),
    "mse_loss": lambda t: F.mse_loss(t.x, t.y),
    "l1_loss": lambda t: F.l1_loss(t.x, t.y),
    "smooth_l1_loss": lambda t: F.smooth_l1_loss(t.x, t.y),
    "binary_cross_entropy_with_logits": lambda t: F.binary_cross_entropy_with_logits(t.x, t.p),
    "kl_div": lambda t: F.kl_div(t.x, t.p),
    "normalize": lambda t: F.normalize(t.x),
    "lerp": lambda t: paddle.lerp(t.x, t.y, 0.3),
    "add_n": lambda t: paddle.add_n([t.x, t.y]),
    "conv2d": lambda t: F.conv2d(t.x.reshape([1, 1, 4, 4]), t.y[:2, :2].reshape([1, 1, 2, 2])),
    "moves only": lambda t: paddle.concat([t.x.t(), t.y[:2]]).reshape([-1]).flip(0),
    # in place
    **{f"Tensor.{name}": _inplace(name) for name in (*UNARY_INPLACE, "add_", "subtract_", "multiply_", "divide_")},
    "Tensor.pow_": lambda t: t.p.detach().clone().pow_(2.0),
}

NEEDS = {
    "baddbmm": hasattr(paddle, "baddbmm"),
    "vecdot": hasattr(paddle.linalg, "vecdot"),
    "Tensor.pow_": hasattr(paddle.Tensor, "pow_"),
    "Tensor.divide_": hasattr(paddle.Tensor, "divide_"),
    "Tensor.square_": hasattr(paddle.Tensor, "square_"),
    "Tensor.multiply_": hasattr(paddle.Tensor, "multiply_"),
}
for _name, _there in NEEDS.items():
    if not _there:
        PROGRAMS.pop(_name, None)
