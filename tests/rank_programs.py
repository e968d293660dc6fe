"""Trainings in several processes, as one of these runs them: ``python rank_programs.py FOLDER NAME...``.

Each is run natively, in each mode, and as the Torch program that it corresponds to, where it has one. What was trained goes to
``FOLDER/NAME-WAY-RANK.npz``, what a run counted to a file ``.json`` beside it.
"""

import contextlib
import functools
import json
import os
import pathlib
import sys
import traceback

import numpy as np
import paddle
import paddle.distributed as dist
import paddle.nn.functional as F
import torch
from paddle import nn
from paddle.distributed import fleet

import padiff_shim

FOLDER = pathlib.Path(sys.argv[1] if __name__ == "__main__" else ".")
WAYS = {
    "native": contextlib.nullcontext,
    "reference": lambda: padiff_shim.reference("torch", optimizer="torch"),
    "island": lambda: padiff_shim.reference("torch", exclude=["relu", "gelu"]),
    "compare": lambda: padiff_shim.compare("torch", log=FOLDER / "log", progress=False),
    "carry": lambda: padiff_shim.compare("torch", log=FOLDER / "log-carry", carry="torch", progress=False),
}
STEPS = 3


def numbers(step, width=8):
    """This rank's batch."""
    return np.random.default_rng(100 * step + dist.get_rank()).standard_normal((4, width)).astype("float32")


class Net(nn.Layer):
    """Three layers, of which ``kind`` says what is odd: an in-place op, a shared weight, an unused layer, a part that changes."""

    def __init__(self, kind=""):
        super().__init__()
        self.first, self.norm, self.last = nn.Linear(8, 8), nn.LayerNorm(8), nn.Linear(8, 8)
        self.kind, self.calls = kind, 0

    def forward(self, x):
        hidden = self.first(x)
        if "inplace" in self.kind:
            F.relu_(hidden)  # excluded from the mode, this writes with Paddle's kernel into what is on the tape
        hidden = F.gelu(self.norm(hidden))
        self.calls += 1
        if "shared" in self.kind:
            hidden = self.first(hidden)
        if "unused" in self.kind or ("changing" in self.kind and self.calls % 2):
            return hidden
        out = self.last(hidden)
        return {"out": [F.relu_(out) if "tail" in self.kind else out]} if "nested" in self.kind else out


class Twin(torch.nn.Module):
    """The same in Torch."""

    def __init__(self, net):
        super().__init__()
        self.first, self.norm, self.last = torch.nn.Linear(8, 8), torch.nn.LayerNorm(8), torch.nn.Linear(8, 8)
        padiff_shim.transfer_weights(net, self)
        self.kind = net.kind

    def forward(self, x):
        hidden = self.first(x)
        hidden = torch.nn.functional.gelu(self.norm(hidden))
        return self.last(self.first(hidden) if "shared" in self.kind else hidden)


def fresh(kind=""):
    paddle.seed(0)
    return Net(kind)


def out_of(result):
    return result["out"][0] if isinstance(result, dict) else result


def trained(net):
    return {name: parameter.numpy().copy() for name, parameter in net.named_parameters()}


def train(layer, net, optimizer, *, parts=1, batch=numbers, meanwhile=contextlib.nullcontext):
    """``parts`` batches a step; ``meanwhile``: open while all but the last of them go backward."""
    for step in range(STEPS):
        for part in range(parts):
            with meanwhile() if part < parts - 1 else contextlib.nullcontext():
                (out_of(layer(paddle.to_tensor(batch(step * parts + part)))) ** 2).mean().backward()
        optimizer.step()
        optimizer.clear_grad()
    return trained(net)


def data_parallel(kind="", parts=1, unsynced=False, rule=paddle.optimizer.AdamW, **options):
    def run():
        net = fresh(kind)
        layer = paddle.DataParallel(net, **options)
        optimizer = rule(0.01, parameters=net.parameters())
        return train(layer, net, optimizer, parts=parts, meanwhile=layer.no_sync if unsynced else contextlib.nullcontext)

    return run


def twin(kind="", parts=1, unsynced=False, rule=torch.optim.AdamW, **options):
    def run():
        module = Twin(fresh(kind))
        layer = torch.nn.parallel.DistributedDataParallel(module, **options)
        rate = {"lr": 0.01, "weight_decay": 0.01} if rule is torch.optim.AdamW else {"lr": 0.01}
        optimizer = rule(module.parameters(), **rate)
        for step in range(STEPS):
            for part in range(parts):
                with layer.no_sync() if unsynced and part < parts - 1 else contextlib.nullcontext():
                    (layer(torch.from_numpy(numbers(step * parts + part))) ** 2).mean().backward()
            optimizer.step()
            optimizer.zero_grad()
        parameters = {name: parameter.detach().numpy() for name, parameter in module.named_parameters()}
        return {name: value.T if value.ndim == 2 else value for name, value in parameters.items()}

    return run


@functools.cache
def initialized(dimension):
    """Fleet, with all ranks along one dimension. Once for all modes: each time Paddle connects every rank to every other anew."""
    strategy = fleet.DistributedStrategy()
    degrees = dict.fromkeys(("dp_degree", "mp_degree", "pp_degree", "sharding_degree"), 1)
    strategy.hybrid_configs = {**degrees, dimension: dist.get_world_size()}
    fleet.init(is_collective=True, strategy=strategy)


def fleet_data_parallel():
    initialized("dp_degree")
    net = fresh()
    optimizer = fleet.distributed_optimizer(paddle.optimizer.AdamW(0.01, parameters=net.parameters()))
    return train(fleet.distributed_model(net), net, optimizer)


def sharded():
    """Stage 1: each rank updates its share of the parameters and sends it to the others."""
    initialized("sharding_degree")
    net = fresh()
    optimizer = paddle.optimizer.AdamW(0.01, parameters=net.parameters())
    return train(fleet.distributed_model(net), net, fleet.distributed_optimizer(optimizer))


def by_hand():
    """Gradients that the program itself sums over the ranks."""
    from paddle.distributed.fleet.utils.hybrid_parallel_util import fused_allreduce_gradients

    net = fresh()
    optimizer = paddle.optimizer.SGD(0.01, parameters=net.parameters())
    for step in range(STEPS):
        (net(paddle.to_tensor(numbers(step))) ** 2).mean().backward()
        fused_allreduce_gradients(net.parameters(), None)
        optimizer.step()
        optimizer.clear_grad()
    return trained(net)


def collectives():
    """Tensors of the tape in collectives, which write in place."""
    x = paddle.to_tensor(numbers(0))
    x.stop_gradient = False
    total = F.gelu(x).detach()
    dist.all_reduce(total)
    gathered = []
    dist.all_gather(gathered, F.gelu(total))
    first = paddle.tanh(gathered[0] + gathered[-1])
    dist.broadcast(first, 0)
    F.gelu(x * first).sum().backward()
    return {"total": total.numpy(), "first": first.numpy(), "gradient": x.grad.numpy()}


def hooks():
    """A hook of a parameter sees one gradient a backward: this rank's."""
    net, seen = fresh("shared"), []
    layer = paddle.DataParallel(net)
    for parameter in net.parameters():
        parameter.register_hook(lambda grad: seen.append(float(grad.abs().sum())))
    train(layer, net, paddle.optimizer.SGD(0.01, parameters=net.parameters()))
    return {"seen": np.array(sorted(seen))}


SGD = {"rule": paddle.optimizer.SGD}, {"rule": torch.optim.SGD}
TRAININGS = {
    "plain": (data_parallel(), twin()),
    "sgd": (data_parallel(**SGD[0]), twin(**SGD[1])),
    "shared": (data_parallel("shared"), twin("shared")),
    "accumulating": (data_parallel(parts=2), twin(parts=2)),
    "no_sync": (data_parallel(parts=2, unsynced=True), twin(parts=2, unsynced=True)),
    "unused": (data_parallel("unused", find_unused_parameters=True), None),
    "changing": (data_parallel("changing", find_unused_parameters=True), None),
    "inplace": (data_parallel("inplace shared"), None),
    "tail": (data_parallel("tail nested"), None),
    "fleet": (fleet_data_parallel, twin()),
    "sharded": (sharded, None),
    "by_hand": (by_hand, None),
    "collectives": (collectives, None),
    "hooks": (hooks, None),
}


def main():
    dist.init_parallel_env()
    rank = dist.get_rank()
    if any(TRAININGS[name][1] for name in sys.argv[2:]):
        store = f"tcp://127.0.0.1:{os.environ['TWIN_PORT']}"
        torch.distributed.init_process_group("gloo", init_method=store, rank=rank, world_size=dist.get_world_size())
    for name in sys.argv[2:]:
        program, other = TRAININGS[name]
        for way, mode in WAYS.items():
            with mode() as run:
                np.savez(FOLDER / f"{name}-{way}-{rank}.npz", **program())
            if way == "reference":
                (FOLDER / f"{name}-{way}-{rank}.json").write_text(json.dumps(run.to_dict()))
        if other is not None:
            np.savez(FOLDER / f"{name}-twin-{rank}.npz", **other())


if __name__ == "__main__":
    try:
        main()
    except BaseException:
        traceback.print_exc()
        sys.stderr.flush()
        os._exit(1)  # the others must not wait for this one
