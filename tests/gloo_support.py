"""What Paddle computes on gloo with two ranks, and what it refuses: ``gloo_support.py collectives|mp|pp|sharding``, as a rank.

Prints a line for each: its name, a tab, and ``works`` or the error, which for a wrong result is that result.
"""

import sys

import paddle
import paddle.distributed as dist
from paddle import nn


def check(tensor, expected):
    if tensor.tolist() != expected:
        raise ValueError(f"{tensor.tolist()} instead of {expected}")


def reduce_scatter(x, out):
    dist.reduce_scatter(out, list(x.split(2)))


def alltoall(x, out):
    parts = []
    dist.alltoall(parts, list(x.split(2)))


def alltoall_single(x, out):
    dist.alltoall_single(paddle.zeros_like(x), x)


def send_and_recv(x, out):
    received = paddle.zeros_like(x)
    if dist.get_rank() == 0:
        dist.send(x, 1)
    else:
        dist.recv(received, 0)
        check(received, [1, 2, 3, 4])


def all_gather(x, out):
    parts = []
    dist.all_gather(parts, x)
    check(parts[0], [1, 2, 3, 4])


def all_reduce(dtype):
    def run(x, out):
        total = x.astype(dtype)
        dist.all_reduce(total)
        check(total.astype("float32"), [12, 14, 16, 18])

    return run


def collectives():
    dist.init_parallel_env()
    functions = {function.__name__: function for function in (reduce_scatter, alltoall, alltoall_single, send_and_recv, all_gather)}
    functions |= {f"all_reduce {dtype}": all_reduce(dtype) for dtype in ("float32", "bfloat16", "float16")}
    for name, function in functions.items():
        report(name, function, paddle.arange(1, 5, dtype="float32") + 10 * dist.get_rank(), paddle.zeros([2]))


def fleet_of(dimension):
    """Fleet with both ranks along a dimension."""
    from paddle.distributed import fleet

    strategy = fleet.DistributedStrategy()
    degrees = dict.fromkeys(("dp_degree", "mp_degree", "pp_degree", "sharding_degree"), 1)
    strategy.hybrid_configs = {**degrees, f"{dimension}_degree": 2}
    fleet.init(is_collective=True, strategy=strategy)
    return fleet


def mp():
    layers, x = fleet_of("mp").meta_parallel, paddle.ones([2, 8])
    report("ColumnParallelLinear", lambda: layers.ColumnParallelLinear(8, 16, has_bias=True, gather_output=False)(x))
    report("RowParallelLinear", lambda: layers.RowParallelLinear(16, 8, has_bias=True, input_is_parallel=True)(x))
    report("VocabParallelEmbedding", lambda: layers.VocabParallelEmbedding(16, 8)(paddle.arange(16)))
    report("ParallelCrossEntropy", lambda: layers.ParallelCrossEntropy()(x, paddle.zeros([2, 1], "int64")))


def pp():
    fleet = fleet_of("pp")
    parallel = fleet.meta_parallel

    def train():
        stages = [parallel.LayerDesc(nn.Linear, 8, 8), parallel.LayerDesc(nn.Linear, 8, 8)]
        model = fleet.distributed_model(parallel.PipelineLayer(layers=stages, num_stages=2, loss_fn=nn.MSELoss()))
        optimizer = fleet.distributed_optimizer(paddle.optimizer.SGD(0.1, parameters=model.parameters()))
        model.train_batch((paddle.ones([2, 8]), paddle.ones([2, 8])), optimizer)

    report("PipelineLayer", train)


def sharding():
    fleet_of("sharding")
    for level in ("os", "os_g", "p_g_os"):
        model = nn.Linear(8, 8)
        optimizer = paddle.optimizer.AdamW(0.1, parameters=model.parameters())
        report(f"group_sharded_parallel {level}", dist.sharding.group_sharded_parallel, model, optimizer, level)


def report(name, function, *args):
    try:
        function(*args)
        outcome = "works"
    except Exception as error:
        outcome = " ".join(str(error).split())
    print(name, outcome, sep="\t", flush=True)


if __name__ == "__main__":
    {"collectives": collectives, "mp": mp, "pp": pp, "sharding": sharding}[sys.argv[1]]()
