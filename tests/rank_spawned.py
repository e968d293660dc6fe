"""A function that a mode decorates, run in processes that Paddle starts: by its launcher, or by ``spawn`` with a first argument."""

import os
import sys

import paddle
import paddle.distributed as dist
import rank_faults

import padiff_shim


@padiff_shim.reference("torch")
def train():
    dist.init_parallel_env()
    net = rank_faults.net()
    rank_faults.steps(paddle.DataParallel(net), net)
    total = paddle.concat([parameter.flatten() for parameter in net.parameters()]).sum()
    shares = []
    dist.all_gather(shares, total)
    with padiff_shim.reference("torch") as run:
        paddle.tanh(total)
    assert run.substituted == {"tanh": 1}
    assert float(shares[0]) == float(shares[1])
    text = f"rank {dist.get_rank()} of {dist.get_world_size()} has trained\n"
    os.write(1, text.encode())  # in one piece; print may write the line's end apart, after another rank's line


if __name__ == "__main__":
    if len(sys.argv) > 1:
        dist.spawn(train, nprocs=2, backend="gloo")
    else:
        train()
