"""Comparisons in several processes in which something goes wrong: ``python rank_faults.py FOLDER``, as one of them runs it."""

import os
import pathlib
import signal
import sys

import numpy as np
import paddle
import paddle.distributed as dist
from rank_shards import Reduce

import padiff_shim

FOLDER = pathlib.Path(sys.argv[1] if __name__ == "__main__" else ".")


def steps(layer, net, number=3, rate=lambda step: 0.1, after=lambda step: None):
    optimizer = paddle.optimizer.SGD(0.1, parameters=net.parameters())
    for step in range(number):
        optimizer.set_lr(rate(step))
        x = np.random.default_rng(10 * step + dist.get_rank()).standard_normal((4, 8)).astype("float32")
        (layer(paddle.to_tensor(x)) ** 2).mean().backward()
        optimizer.step()
        optimizer.clear_grad()
        after(step)


def compared(name):
    return padiff_shim.compare("torch", log=FOLDER / name, progress=False)


def net(seed=0):
    paddle.seed(seed)
    return paddle.nn.Linear(8, 4)


class Halves(paddle.nn.Layer):
    """A layer that all ranks share, and one of which each has its own: both begin equal on all of them."""

    def __init__(self):
        super().__init__()
        self.shared, self.own = net(), paddle.nn.Linear(8, 4, bias_attr=False)

    def forward(self, x):
        return self.shared(x) + Reduce.apply(self.own(x) * (dist.get_rank() + 1.0), range(dist.get_world_size()))


def equal_shards():
    layer = Halves()
    optimizer = paddle.optimizer.SGD(0.1, parameters=layer.parameters())
    for _ in range(3):
        (layer(paddle.linspace(-1, 1, 32).reshape([4, 8])) ** 2).mean().backward()
        optimizer.step()
        optimizer.clear_grad()


def main():
    dist.init_parallel_env()
    rank = dist.get_rank()
    with compared("right"):
        layer = net()
        steps(paddle.DataParallel(layer), layer)
    with compared("not_summed"):
        layer = net()
        steps(layer, layer)
    with compared("other_weights"):
        layer = net(seed=rank)
        steps(layer, layer)
    with compared("shards"):
        layer = net()
        paddle.seed(rank)
        column, uneven = paddle.nn.Linear(8, 4), paddle.nn.Linear(8, 4 + rank)
        optimizer = paddle.optimizer.SGD(0.1, parameters=[*layer.parameters(), *column.parameters(), *uneven.parameters()])
        x = paddle.linspace(-1, 1, 32).reshape([4, 8])
        for _ in range(3):
            sum((part(x) ** 2).mean() for part in (layer, column, uneven)).backward()
            optimizer.step()
            optimizer.clear_grad()
    with compared("equal_shards"):
        equal_shards()
    with compared("other_rate"):
        layer = net()
        steps(paddle.DataParallel(layer), layer, rate=lambda step: 0.2 if rank and step == 1 else 0.1)
    with compared("written"):
        layer = net()
        steps(
            paddle.DataParallel(layer),
            layer,
            after=lambda step: layer.bias.set_value(layer.bias * 2) if rank and step == 1 else None,
        )
    with compared("killed"):
        layer = net()
        steps(paddle.DataParallel(layer), layer)
        if rank:
            sys.stdout.flush()
            os.kill(os.getpid(), signal.SIGKILL)


if __name__ == "__main__":
    main()
