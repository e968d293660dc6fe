"""Trainings that lie on several ranks, recorded: ``python rank_shards.py FOLDER NAME...``; imported, the same on one rank.

A name is a layout and a fault: ``tensor``, ``tensor-order``, ``data-sum``... Weights are drawn whole and then sliced, so that
every layout trains the same model, and those with experts another one.
"""

import pathlib
import sys

import numpy as np
import paddle
import paddle.distributed as dist
import paddle.nn.functional as F
from paddle import nn
from paddle.autograd import PyLayer
from paddle.distributed import fleet

import padiff_shim

WIDTH, HIDDEN, WORDS, BATCH, LENGTH, STEPS, EXPERTS = 8, 16, 12, 4, 5, 2, 4
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
        ("mixture.gate", {"weight": (WIDTH, EXPERTS)}),
        *((f"mixture.experts.{place}", {"weight": (WIDTH, WIDTH), "bias": (WIDTH,)}) for place in range(EXPERTS)),
        ("gated.up", {"weight": (WIDTH, 2 * HIDDEN)}),
        ("gated.down", {"weight": (HIDDEN, WIDTH), "bias": (WIDTH,)}),
    )
    for name, shape in shapes.items()
}


def gathered(x, members):
    """The tensors of some ranks; all ranks call this. gloo's own groups cannot overlap in Paddle: two pairs of four ranks, and two
    others."""
    parts = []
    dist.all_gather(parts, x.contiguous())
    return [parts[rank] for rank in members]


def add_up(x, members):
    """Write the sum of some ranks' tensors into this rank's."""
    if isinstance(members, Turn):
        members.called(True)
        members = members.ranks
    if len(members) == dist.get_world_size():
        dist.all_reduce(x)
    else:
        x.set_value(sum(part.numpy() for part in gathered(x, members)))


class Turn:
    """Ranks that add up tensors of one shape among them while the others wait: gloo's own groups time out in Paddle."""

    def __init__(self, ranks, shape):
        self.ranks, self.shape = ranks, shape

    @staticmethod
    def called(go_on):
        """Whether one of the ranks says that a sum is to come."""
        return any(part.item() for part in gathered(paddle.to_tensor([float(go_on)]), range(dist.get_world_size())))

    def run(self, work):
        """Do work that adds up, or wait until the others have done it."""
        if dist.get_rank() in self.ranks:
            result = work()
            self.called(False)
            return result
        while self.called(False):
            gathered(paddle.zeros(self.shape), self.ranks)
        return None


class Copy(PyLayer):
    """Identity forward, a sum over the ranks backward."""

    @staticmethod
    def forward(context, x, group):
        context.group = group
        return x.clone()

    @staticmethod
    def backward(context, gradient):
        gradient = gradient.clone()
        if context.group is not None:
            add_up(gradient, context.group)
        return gradient


class Reduce(PyLayer):
    """A sum over the ranks forward, identity backward."""

    @staticmethod
    def forward(context, x, group):
        y = x.clone()
        add_up(y, group)
        return y

    @staticmethod
    def backward(context, gradient):
        return gradient.clone()


class Share:
    """What this rank holds: ``number`` of ``count`` slices of the split weights, the others on the ranks of a ``group``."""

    def __init__(self, number=0, count=1, fault="", group=None):
        self.number, self.count, self.fault, self.group = number, count, fault, group

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
        if self.share.count > 1:
            x = Copy.apply(x, None if self.share.fault == "backward" else self.share.group)
        return F.linear(x, self.weight, self.bias)


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
            return Reduce.apply(F.linear(x, self.weight, self.bias), self.share.group)
        partial = paddle.matmul(x, self.weight)
        if self.share.fault != "reduce" or self.name != "blocks.1.down":
            partial = Reduce.apply(partial, self.share.group)
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
        return Reduce.apply(F.embedding(local.clip(0, size - 1), self.weight) * inside, self.share.group)


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


class Expert(nn.Layer):
    def __init__(self, number):
        super().__init__()
        Share().of(self, f"mixture.experts.{number}.weight")
        Share().of(self, f"mixture.experts.{number}.bias")

    def forward(self, x):
        return F.gelu(F.linear(x, self.weight, self.bias))


class Gate(nn.Layer):
    def __init__(self):
        super().__init__()
        Share().of(self, "mixture.gate.weight")

    def forward(self, x):
        return F.softmax(F.linear(x, self.weight))


class Fused(nn.Layer):
    """Gate and up in one product; each rank has its slices of both."""

    def __init__(self, share):
        super().__init__()
        self.share, whole = share, WHOLE["gated.up.weight"]
        halves = [whole] if share.fault == "order" else np.split(whole, 2, 1)
        own = np.concatenate([np.split(half, share.count, 1)[share.number] for half in halves], 1)
        self.weight = self.create_parameter(list(own.shape))
        self.weight.set_value(own)

    def forward(self, x):
        return F.linear(Copy.apply(x, self.share.group) if self.share.count > 1 else x, self.weight)


class Gated(nn.Layer):
    def __init__(self, share):
        super().__init__()
        self.up, self.down = Fused(share), Row("gated.down", share)

    def forward(self, x):
        gate, up = self.up(x).chunk(2, -1)
        return self.down(F.silu(gate) * up)


class GatedNet(nn.Layer):
    def __init__(self, share):
        super().__init__()
        self.words, self.gated, self.head = Words(Share()), Gated(share), Head()

    def forward(self, ids):
        x = self.words(ids)
        return self.head(x + self.gated(x))


class Exchange(PyLayer):
    """Part r of each rank's tensor to rank r of a group; by all_gather, since gloo has no alltoall."""

    @staticmethod
    def forward(context, x, group, number):
        context.group, context.number = group, number
        return paddle.stack([part[number] for part in gathered(x, group)])

    @staticmethod
    def backward(context, gradient):
        return paddle.stack([part[context.number] for part in gathered(gradient, context.group)])


class Mixture(nn.Layer):
    """Each token goes to one of the experts, of which each rank of a group has its share; as many places as tokens for each.

    A token has its own place, or (``packed``) the next of the expert's, of which ``capacity`` are filled from the first one on.
    """

    def __init__(self, share, capacity=0):
        super().__init__()
        self.share, self.capacity, count = share, capacity, EXPERTS // share.count
        first = count * (share.count - 1 - share.number if share.fault == "order" else share.number)
        self.gate, self.experts = Gate(), nn.LayerList([Expert(first + place) for place in range(count)])

    def forward(self, x):
        ranks, count, tokens = self.share.count, len(self.experts), x.shape[0]
        weights = self.gate(x)
        chosen = F.one_hot(weights.argmax(-1), EXPERTS)
        places = paddle.eye(tokens).unsqueeze(1) * chosen.unsqueeze(-1)
        if self.capacity:
            number = (chosen.cumsum(0) * chosen - 1).astype("int64")
            places = F.one_hot(number.clip(0), tokens) * chosen.unsqueeze(-1)
            tokens = self.capacity
            places = places[:, :, :tokens]
        sent = paddle.einsum("tep,tw->epw", places, x).reshape([ranks, count, tokens, WIDTH])
        if ranks > 1:
            sent = Exchange.apply(sent, self.share.group, self.share.number)
        results = [expert(sent[:, place].reshape([-1, WIDTH])) for place, expert in enumerate(self.experts)]
        back = paddle.stack([result.reshape([ranks, tokens, WIDTH]) for result in results], 1)
        if ranks > 1:
            back = Exchange.apply(back, self.share.group, self.share.number)
        best = (weights * chosen).sum(-1, keepdim=True)
        return best * paddle.einsum("tep,epw->tw", places, back.reshape([EXPERTS, tokens, WIDTH]))


class MixtureNet(nn.Layer):
    def __init__(self, share, capacity=0):
        super().__init__()
        self.words, self.mixture, self.head = Words(Share()), Mixture(share, capacity), Head()

    def forward(self, ids):
        x = self.words(ids)
        return self.head(x + self.mixture(x.reshape([-1, WIDTH])).reshape(x.shape))


class Stage(nn.Layer):
    """One block of the model, which counts its blocks from 0, with what stands before the first or behind the last."""

    def __init__(self, number, share=None):
        super().__init__()
        self.words = Words(share or Share()) if number == 0 else None
        self.blocks = nn.LayerList([Block(f"blocks.{number}", share or Share())])
        self.head = Head() if number == 1 else None

    def forward(self, x):
        x = self.blocks[0](x if self.words is None else self.words(x))
        return x if self.head is None else self.head(x)


def loss_of(logits, ids):
    return F.cross_entropy(logits.reshape([-1, WORDS]), ids[:, 1:].reshape([-1]))


def train(folder, model, ids, *, parts=1, loss_scale=1.0, before_step=lambda model: None, layer=None, **options):
    """Record a training on this rank's part of the data: ids ``[STEPS, samples, LENGTH + 1]``; ``parts`` of each step's batch."""
    optimizer = paddle.optimizer.SGD(0.1, parameters=model.parameters())
    with padiff_shim.record(folder, model, gradients=True, **options) as recording:
        for batch in ids:
            for part in map(paddle.to_tensor, np.split(batch, parts)):
                loss = loss_of((layer or model)(part[:, :-1]), part)
                recording.note("loss", loss)
                (loss * loss_scale).backward()
            before_step(model)
            optimizer.step()
            optimizer.clear_grad()


def pairs():
    """This rank's number in its pair of ranks, the ranks of the pair, and the ranks with its number in all pairs."""
    rank, count = dist.get_rank(), dist.get_world_size()
    return rank % 2, (rank - rank % 2, rank - rank % 2 + 1), tuple(range(rank % 2, count, 2))


def sum_gradients(members=None, left_out="", across=()):
    """Sums the gradients of a model's parameters over ranks; ``across``: those of experts."""

    def summed(model):
        for name, parameter in model.named_parameters():
            if name != left_out:
                add_up(parameter.grad, across if "experts" in name else members or range(dist.get_world_size()))

    return summed


def tensor(folder, fault):
    """Megatron's tensor parallelism in pairs of ranks, of which each pair has a part of the batch."""
    number, group, across = pairs()
    options = {"digest": {"values": "digest"}, "calls": {"layers": False}}.get(fault, {})
    shares = dist.get_world_size() // 2
    ids = np.split(IDS, shares, 1)[dist.get_rank() // 2]
    model = Net(Share(number, 2, fault, group))
    train(folder, model, ids, loss_scale=1 / shares, before_step=sum_gradients(across), **options)


def meshed(folder, fault):
    """The same where fleet knows the mesh. Last: fleet stays initialized."""
    strategy = fleet.DistributedStrategy()
    degrees = dict.fromkeys(("dp_degree", "pp_degree", "sharding_degree"), 1)
    strategy.hybrid_configs = {**degrees, "mp_degree": dist.get_world_size()}
    fleet.init(is_collective=True, strategy=strategy)
    tensor(folder, fault)


def fused(folder, fault):
    """Tensor parallelism of a product of two fused weights."""
    number, group, _ = pairs()
    train(folder, GatedNet(Share(number, 2, fault, group)), IDS)


def data(folder, fault):
    """Each rank has a part of the batch, and sums its gradients with the others'; every other sample with ``turns``."""
    count, rank = dist.get_world_size(), dist.get_rank()
    ids = IDS[:, rank::count] if fault == "turns" else np.split(IDS, count, 1)[rank]
    before_step = sum_gradients(left_out="blocks.0.up.bias" if fault == "alone" else "")
    train(folder, Net(Share()), ids, loss_scale=1.0 if fault == "sum" else 1 / count, before_step=before_step)


def accumulated(folder, fault):
    """The same in micro-batches of a sample each, whose gradients are added up before the ranks' are."""
    count, rank = dist.get_world_size(), dist.get_rank()
    ids, parts = np.split(IDS, count, 1)[rank], BATCH // count
    scale = 1 / BATCH if fault != "scale" else 1 / parts
    train(folder, Net(Share()), ids, parts=parts, loss_scale=scale, before_step=sum_gradients())


def owners(folder, fault):
    """Each rank updates every other parameter, and sends it to all, as sharded optimizer states do."""
    count, rank, model = dist.get_world_size(), dist.get_rank(), Net(Share())
    parameters = list(model.parameters())
    optimizer = paddle.optimizer.SGD(0.1, parameters=parameters[rank::count])
    with padiff_shim.record(folder, model, gradients=True) as recording:
        for batch in IDS:
            part = paddle.to_tensor(np.split(batch, count)[rank])
            loss = loss_of(model(part[:, :-1]), part)
            recording.note("loss", loss)
            (loss / count).backward()
            sum_gradients()(model)
            optimizer.step()
            for place, parameter in enumerate(parameters):
                dist.broadcast(parameter, place % count)
                parameter.clear_grad()


def reducer(folder, fault):
    """The same by :class:`paddle.DataParallel`."""
    model = Net(Share())
    train(folder, model, np.split(IDS, dist.get_world_size(), 1)[dist.get_rank()], layer=paddle.DataParallel(model))


def experts(folder, fault):
    """Experts are split over pairs of ranks, the batch over all."""
    number, group, across = pairs()
    count = dist.get_world_size()
    before_step = sum_gradients(left_out="mixture.gate.weight" if fault == "gate" else "", across=across)
    ids = np.split(IDS, count, 1)[dist.get_rank()]
    model = MixtureNet(Share(number, 2, fault, group))
    if fault == "exchanged":
        first, second = (dict(expert.named_parameters()) for expert in model.mixture.experts)
        for name, parameter in first.items():
            values = parameter.numpy().copy()
            parameter.set_value(second[name])
            second[name].set_value(values)
    train(folder, model, ids, loss_scale=1 / count, before_step=before_step)


def packed(folder, fault):
    """The same where each rank fills an expert's places from the first one on, and leaves others empty."""
    number, group, across = pairs()
    count = dist.get_world_size()
    model = MixtureNet(Share(number, 2, fault, group), BATCH * LENGTH // count)
    if fault == "weight" and number == 1:
        model.mixture.experts[0].weight.set_value(model.mixture.experts[0].weight * 1.25)
    before_step = sum_gradients(across=across)
    train(folder, model, np.split(IDS, count, 1)[dist.get_rank()], loss_scale=1 / count, before_step=before_step)


def pipeline(folder, fault):
    """One block on each of two stages, which send by broadcasts, in two micro-batches."""
    staged(folder, fault, 1)


def grid(folder, fault):
    """The same with two ranks in each stage, which split its weights."""
    staged(folder, fault, 2)


def staged(folder, fault, width):
    """Train one of two stages, of ``width`` ranks each."""
    stage, number = divmod(dist.get_rank(), width)
    shape = [BATCH // 2, LENGTH, WIDTH]
    turns = [Turn(tuple(range(first, first + width)), shape) for first in (0, width)]
    model = Stage(stage, Share(number, width, fault, turns[stage]))
    optimizer = paddle.optimizer.SGD(0.1, parameters=model.parameters())
    with padiff_shim.record(folder, model, gradients=True) as recording:

        def last(sent, part):
            sent.stop_gradient = False
            loss = loss_of(model(sent), part)
            recording.note("loss", loss)
            (loss * (1.0 if fault == "scale" else 0.5)).backward()
            return sent.grad * 2 if fault == "sent" else sent.grad.clone()

        for batch in IDS:
            for place, part in enumerate(map(paddle.to_tensor, np.split(batch, 2))):
                hidden = turns[0].run(lambda part=part: model(part[:, :-1]))
                sent = paddle.zeros(shape) if hidden is None else hidden.detach().clone()
                if fault == "later" and place == 1:
                    sent = sent * 1.5
                dist.broadcast(sent, 0)
                gradient = turns[1].run(lambda sent=sent, part=part: last(sent, part))
                gradient = paddle.zeros(shape) if gradient is None else gradient
                dist.broadcast(gradient, width)
                turns[0].run(lambda hidden=hidden, gradient=gradient: hidden.backward(gradient))
            optimizer.step()
            optimizer.clear_grad()


LAYOUTS = {
    layout.__name__: layout
    for layout in (tensor, meshed, fused, data, accumulated, owners, reducer, experts, packed, pipeline, grid)
}


def main():
    dist.init_parallel_env()
    for name in sys.argv[2:]:
        layout, _, fault = name.partition("-")
        LAYOUTS[layout](pathlib.Path(sys.argv[1]) / name, fault)


if __name__ == "__main__":
    main()
