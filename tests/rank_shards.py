"""Trainings that lie on several ranks, recorded: ``python rank_shards.py FOLDER NAME...``; imported, the same on one rank.

A name is a layout and a fault: ``tensor``, ``tensor-order``, ``data-sum``... Weights are drawn whole and then sliced, so that
every layout trains the same model.
"""

import pathlib
import sys

import numpy as np
import paddle
import paddle.distributed as dist
import paddle.nn.functional as F
from paddle import nn
from paddle.autograd import PyLayer

import padiff_shim

WIDTH, HIDDEN, WORDS, BATCH, LENGTH, STEPS = 8, 16, 12, 4, 5, 2
DRAWN = np.random.default_rng(0)
IDS = DRAWN.integers(0, WORDS, (STEPS, BATCH, LENGTH + 1))
WHOLE = {
    f"{path}.{name}": (DRAWN.standard_normal(shape) * 0.4).astype("float32")
    for path, shapes in (
        ("words", {"weight": (WORDS, WIDTH)}),
        *((f"blocks.{place}.norm", {"weight": (WIDTH,), "bias": (WIDTH,)}) for place in range(2)),
        *((f"blocks.{place}.up", {"weight": (WIDTH, HIDDEN), "bias": (HIDDEN,)}) for place in range(2)),
        *((f"blocks.{place}.down", {"weight": (HIDDEN, WIDTH), "bias": (WIDTH,)}) for place in range(2)),
        ("head", {"weight": (WIDTH, WORDS)}),
    )
    for name, shape in shapes.items()
}


class Copy(PyLayer):
    """Identity forward, a sum over the ranks backward."""

    @staticmethod
    def forward(context, x, reduced):
        context.reduced = reduced
        return x.clone()

    @staticmethod
    def backward(context, gradient):
        gradient = gradient.clone()
        if context.reduced:
            dist.all_reduce(gradient)
        return gradient


class Reduce(PyLayer):
    """A sum over the ranks forward, identity backward."""

    @staticmethod
    def forward(context, x):
        y = x.clone()
        dist.all_reduce(y)
        return y

    @staticmethod
    def backward(context, gradient):
        return gradient.clone()


class Share:
    """What this rank holds: ``number`` of ``count`` slices of the split weights."""

    def __init__(self, number=0, count=1, fault=""):
        self.number, self.count, self.fault = number, count, fault

    def of(self, layer, name, axis=None):
        """Give a layer the parameter of this name, or this rank's slice of it."""
        values = WHOLE[name]
        if axis is not None and self.count > 1:
            turned = self.fault == "order" and name == "blocks.1.up.weight"
            values = np.split(values, self.count, axis)[self.count - 1 - self.number if turned else self.number]
        parameter = layer.create_parameter(list(values.shape), is_bias=values.ndim == 1)
        parameter.set_value(np.ascontiguousarray(values))
        if axis is not None and self.count > 1:
            parameter.is_distributed, parameter.split_axis = True, axis
        setattr(layer, name.rpartition(".")[2], parameter)


class Column(nn.Layer):
    def __init__(self, name, share):
        super().__init__()
        self.share = share
        share.of(self, f"{name}.weight", 1)
        share.of(self, f"{name}.bias", 0)

    def forward(self, x):
        return F.linear(Copy.apply(x, self.share.fault != "backward") if self.share.count > 1 else x, self.weight, self.bias)


class Row(nn.Layer):
    def __init__(self, name, share):
        super().__init__()
        self.share, self.name = share, name
        share.of(self, f"{name}.weight", 0)
        share.of(self, f"{name}.bias")

    def forward(self, x):
        if self.share.count == 1:
            return F.linear(x, self.weight, self.bias)
        if self.share.fault == "bias":
            return Reduce.apply(F.linear(x, self.weight, self.bias))
        partial = paddle.matmul(x, self.weight)
        if self.share.fault != "reduce" or self.name != "blocks.1.down":
            partial = Reduce.apply(partial)
        return partial + self.bias


class Words(nn.Layer):
    """An embedding whose vocabulary is split."""

    def __init__(self, share):
        super().__init__()
        self.share = share
        share.of(self, "words.weight", 0)

    def forward(self, ids):
        if self.share.count == 1:
            return F.embedding(ids, self.weight)
        size = self.weight.shape[0]
        local = ids - self.share.number * size
        inside = ((local >= 0) & (local < size)).astype("float32").unsqueeze(-1)
        return Reduce.apply(F.embedding(local.clip(0, size - 1), self.weight) * inside)


class Block(nn.Layer):
    def __init__(self, name, share):
        super().__init__()
        self.norm = nn.LayerNorm(WIDTH)
        self.norm.weight.set_value(WHOLE[f"{name}.norm.weight"])
        self.norm.bias.set_value(WHOLE[f"{name}.norm.bias"])
        self.up, self.down = Column(f"{name}.up", share), Row(f"{name}.down", share)

    def forward(self, x):
        return x + self.down(F.gelu(self.up(self.norm(x))))


class Head(nn.Layer):
    def __init__(self):
        super().__init__()
        Share().of(self, "head.weight")

    def forward(self, x):
        return F.linear(x, self.weight)


class Net(nn.Layer):
    def __init__(self, share):
        super().__init__()
        self.words, self.head = Words(share), Head()
        self.blocks = nn.LayerList([Block(f"blocks.{place}", share) for place in range(2)])

    def forward(self, ids):
        x = self.words(ids)
        for block in self.blocks:
            x = block(x)
        return self.head(x)


def train(folder, model, ids, *, loss_scale=1.0, before_step=lambda model: None, layer=None, **options):
    """Record a training on this rank's part of the data: ids ``[STEPS, samples, LENGTH + 1]``."""
    optimizer = paddle.optimizer.SGD(0.1, parameters=model.parameters())
    with padiff_shim.record(folder, model, gradients=True, **options) as recording:
        for batch in map(paddle.to_tensor, ids):
            logits = (layer or model)(batch[:, :-1])
            loss = F.cross_entropy(logits.reshape([-1, WORDS]), batch[:, 1:].reshape([-1]))
            recording.note("loss", loss)
            (loss * loss_scale).backward()
            before_step(model)
            optimizer.step()
            optimizer.clear_grad()


def tensor(folder, fault):
    """Megatron's tensor parallelism."""
    options = {"values": "digest"} if fault == "digest" else {}
    train(folder, Net(Share(dist.get_rank(), dist.get_world_size(), fault)), IDS, **options)


def data(folder, fault):
    """Each rank has a part of the batch, and sums its gradients with the others'."""
    number = dist.get_world_size()

    def sum_gradients(model):
        for name, parameter in model.named_parameters():
            if fault != "alone" or name != "blocks.0.up.bias":
                dist.all_reduce(parameter.grad)

    scale = 1.0 if fault == "sum" else 1 / number
    model = Net(Share())
    train(folder, model, np.split(IDS, number, 1)[dist.get_rank()], loss_scale=scale, before_step=sum_gradients)


def reducer(folder, fault):
    """The same by :class:`paddle.DataParallel`."""
    model = Net(Share())
    train(folder, model, np.split(IDS, dist.get_world_size(), 1)[dist.get_rank()], layer=paddle.DataParallel(model))


LAYOUTS = {"tensor": tensor, "data": data, "reducer": reducer}


def main():
    dist.init_parallel_env()
    for name in sys.argv[2:]:
        layout, _, fault = name.partition("-")
        LAYOUTS[layout](pathlib.Path(sys.argv[1]) / name, fault)


if __name__ == "__main__":
    main()
