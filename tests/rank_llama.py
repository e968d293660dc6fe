"""A small Llama on two ranks, recorded: ``python rank_llama.py FOLDER NAME...``, a name of FAULTS or of RIGHT each.

Fused grouped query, key and value; fused gate and up; a split vocabulary at both ends; clipping by the norm over all ranks. The
original, on one process in Torch, has separate layers and PyTorch's clipping.
"""

import pathlib
import sys

import numpy as np

WIDTH, HEADS, SHARED, HIDDEN, WORDS, BATCH, LENGTH, STEPS = 16, 4, 2, 24, 12, 2, 6, 3
SIZE = WIDTH // HEADS
RATE, DECAY, MOST = 2e-2, 0.1, 0.5
DRAWN = np.random.default_rng(3)
IDS = DRAWN.integers(0, WORDS, (STEPS, BATCH, LENGTH + 1))


def drawn(*shape):
    return (DRAWN.standard_normal(shape) * 0.4).astype("float32")


WHOLE = {"embed.weight": drawn(WORDS, WIDTH), "norm.weight": 1 + drawn(WIDTH), "head.weight": drawn(WIDTH, WORDS)}
for place in range(2):
    outputs = {"q": WIDTH, "k": SHARED * SIZE, "v": SHARED * SIZE, "o": WIDTH}
    WHOLE |= {f"layers.{place}.attn.{name}_proj.weight": drawn(WIDTH, size) for name, size in outputs.items()}
    WHOLE |= {f"layers.{place}.mlp.{name}_proj.weight": drawn(WIDTH, HIDDEN) for name in ("gate", "up")}
    WHOLE |= {f"layers.{place}.mlp.down_proj.weight": drawn(HIDDEN, WIDTH)}
    WHOLE |= {f"layers.{place}.norm{number}.weight": 1 + drawn(WIDTH) for number in (1, 2)}

# What is done wrong -> kind, and layer or name, of the first difference; its reason, and what was measured.
FAULTS = {
    "scale": ("op", "layers.0.attn", "arguments", {}),
    "held": ("op", "layers.0.attn", "arguments", {}),  # the same, where the fused layer itself is never called
    "axis": ("op", "layers.0.attn", "axis", {"a": -2, "b": -1}),
    "reduce": ("layer", "layers.0.attn.o_proj", "partial sums", {}),
    "epsilon": ("op", "layers.0.norm1", "arguments", {"y": ["0.01", "1e-05"]}),
    "norm": ("note", "gradient norm", "norm", {"twice": False}),
    "norm of all": ("note", "gradient norm", "norm", {"twice": True}),
    "heads": (
        "op", "layers.0.attn.o_proj", "arrangement",
        {"write": ".reshape([2, 2, 6, 4]).transpose([0, 2, 1, 3]).reshape([2, 6, 8])"},
    ),
    "fewer": ("note", "loss", "scale", {"a": 11, "b": 12}),
    "most": ("clipped gradient", "embed.weight", "clipping", {"a": 1.1 * MOST, "b": MOST}),
    "rate": ("parameter", "embed.weight", "learning rate", {"a": 0.9 * RATE, "b": RATE}),
    "decay": ("parameter", "embed.weight", "weight decay", {"a": 0.0, "b": DECAY}),
    "twice": ("gradient", "head.weight", "scale", {"factor": 2.0}),
    "copy": ("gradient", "layers.1.mlp.down_proj.weight", "backward", {}),
    "data": ("op", "embed", "data", {}),
    "frozen": ("gradient", "norm.weight", "not trained", {}),
    "again": ("parameter", "embed.weight", "update", {"a": 2, "b": 1}),
    "dropout": ("op", "layers.0.mlp.down_proj", "random numbers", {}),
    "gelu": ("op", "layers.0.mlp", "calls", {"a": "gelu", "b": "silu"}),
    "double": ("op", "layers.0", "calls", {"side": "a", "call": "multiply"}),
    "value": ("op", "layers.0.attn", "operand", {"a": "layers.0.attn.v_proj", "b": "layers.0.attn.k_proj"}),
    "gate": ("op", "layers.0.mlp", "order of operands", {"a": [f"layers.0.mlp.{name}_proj" for name in ("up", "gate")]}),
    "labels": ("note", "loss", "labels", {}),
    "labels of one": ("note", "loss", "labels", {"side": "a", "rank": 1}),
    "words": ("op", "embed", "words", {}),
    "untied": ("gradient", "embed.weight", "tied weight", {"side": "a", "own": "head.weight"}),
}  # fmt: skip
RIGHT = ("right", "recompute", "halves")  # in one batch, its blocks computed once more, in two micro-batches


def main():  # noqa: C901, PLR0915 (imported without Paddle by whoever asks for its numbers alone)
    import paddle
    import paddle.distributed as dist
    import paddle.nn.functional as F
    from paddle import nn
    from paddle.distributed.fleet.utils import recompute
    from rank_shards import Copy, Reduce

    import padiff_shim

    dist.init_parallel_env()
    rank, count = dist.get_rank(), dist.get_world_size()
    everybody = tuple(range(count))

    def share(values, axis):
        return np.ascontiguousarray(np.split(values, count, axis)[rank])

    class Weight(nn.Layer):
        def __init__(self, values, split=None):
            super().__init__()
            self.weight = self.create_parameter(list(values.shape))
            self.weight.set_value(values)
            if split is not None:
                self.weight.is_distributed, self.weight.split_axis = True, split

    class Column(Weight):
        def __init__(self, values, copies=True):
            super().__init__(values, 1)
            self.copies = copies

        def forward(self, x):
            return F.linear(Copy.apply(x, everybody) if self.copies else x, self.weight)

    class Row(Weight):
        def __init__(self, values, sums=True):
            super().__init__(share(values, 0), 0)
            self.sums = sums

        def forward(self, x):
            partial = paddle.matmul(x, self.weight)
            return Reduce.apply(partial, everybody) if self.sums else partial

    class Norm(Weight):
        epsilon = 1e-5

        def forward(self, x):
            return x * paddle.rsqrt((x * x).mean(-1, keepdim=True) + self.epsilon) * self.weight

    class Embed(Weight):
        def __init__(self, values, fault):
            super().__init__(share(values, 0), 0)
            self.masks = fault != "words"

        def forward(self, ids):
            size = self.weight.shape[0]
            first = rank * size
            inside = (ids >= first) & (ids < first + size)
            local = paddle.where(inside, ids - first, paddle.zeros_like(ids))
            x = F.embedding(local, self.weight)
            return Reduce.apply(x * inside.astype("float32").unsqueeze(-1) if self.masks else x, everybody)

    class Attention(nn.Layer):
        def __init__(self, name, fault):
            super().__init__()
            q, k, v = (WHOLE[f"{name}.{letter}_proj.weight"] for letter in "qkv")
            grouped = [np.split(values, SHARED, 1) for values in (q, k, v)]
            self.qkv_proj = Column(share(np.concatenate([part for group in zip(*grouped) for part in group], 1), 1))
            self.o_proj = Row(WHOLE[f"{name}.o_proj.weight"], sums=fault != "reduce")
            self.factor, self.held = SIZE**-0.5 if fault not in ("scale", "held") else 1 / SIZE, fault == "held"
            self.axis, self.exchanged = -2 if fault == "axis" else -1, fault == "value"
            self.order = [0, 1, 2, 3, 4] if fault == "heads" else [0, 3, 1, 2, 4]

        def forward(self, x):
            batch, length, _ = x.shape
            fused = F.linear(Copy.apply(x, everybody), self.qkv_proj.weight) if self.held else self.qkv_proj(x)
            fused = fused.reshape([batch, length, SHARED // count, HEADS // SHARED + 2, SIZE])
            q, k, v = fused[:, :, :, :-2], fused[:, :, :, -2:-1], fused[:, :, :, -1:]
            q, k, v = (part.transpose([0, 2, 3, 1, 4]) for part in ((q, v, k) if self.exchanged else (q, k, v)))
            scores = paddle.matmul(q, k, transpose_y=True) * self.factor
            hidden = paddle.triu(paddle.full([length, length], -1e9), 1)
            mixed = paddle.matmul(F.softmax(scores + hidden, self.axis), v)
            return self.o_proj(mixed.transpose(self.order).reshape([batch, length, -1]))

    class Mlp(nn.Layer):
        def __init__(self, name, fault):
            super().__init__()
            self.dropped, self.gelu = 0.5 * (fault == "dropout"), fault == "gelu"
            gate, up = (share(WHOLE[f"{name}.{part}_proj.weight"], 1) for part in ("gate", "up"))
            self.gate_up_proj = Column(np.concatenate([up, gate] if fault == "gate" else [gate, up], 1))
            self.down_proj = Row(WHOLE[f"{name}.down_proj.weight"])

        def forward(self, x):
            gated = self.gate_up_proj(x)
            hidden = F.gelu(gated.chunk(2, -1)[0]) * gated.chunk(2, -1)[1] if self.gelu else F.swiglu(gated)
            return self.down_proj(F.dropout(hidden, self.dropped) if self.dropped else hidden)

    class Block(nn.Layer):
        def __init__(self, name, fault):
            super().__init__()
            self.norm1, self.norm2 = (Norm(WHOLE[f"{name}.norm{number}.weight"]) for number in (1, 2))
            self.attn, self.mlp = Attention(f"{name}.attn", fault), Mlp(f"{name}.mlp", fault)
            self.doubled = fault == "double" and name == "layers.0"
            if fault == "epsilon":
                self.norm1.epsilon = 1e-2

        def forward(self, x):
            attended = self.attn(self.norm1(x))
            x = x + (2 * attended if self.doubled else attended)
            return x + self.mlp(self.norm2(x))

    class Llama(nn.Layer):
        def __init__(self, fault):
            super().__init__()
            self.embed, self.norm = Embed(WHOLE["embed.weight"], fault), Norm(WHOLE["norm.weight"])
            self.layers = nn.LayerList([Block(f"layers.{place}", fault) for place in range(2)])
            head = WHOLE["embed.weight"].T if fault == "untied" else WHOLE["head.weight"]
            self.head = Column(share(head, 1), copies=fault != "copy")
            self.norm.weight.stop_gradient, self.again = fault == "frozen", fault == "recompute"

        def forward(self, ids):
            x = self.embed(ids)
            for block in self.layers:
                x = recompute(block, x) if self.again else block(x)
            return self.head(self.norm(x))

    def loss_of(logits, labels, count=None):
        """Cross entropy over a vocabulary of which each rank has a part."""
        size = logits.shape[-1]
        largest = logits.detach().max(-1, keepdim=True)
        dist.all_reduce(largest, op=dist.ReduceOp.MAX)
        logits = logits - largest
        total = Reduce.apply(paddle.exp(logits).sum(-1), everybody)
        local = labels - rank * size
        inside = (local >= 0) & (local < size)
        chosen = (logits * F.one_hot(local.clip(0, size - 1), size)).sum(-1) * inside.astype("float32")
        losses = paddle.log(total) - Reduce.apply(chosen, everybody)
        return losses.mean() if count is None else losses.sum() / count

    class Clip(nn.ClipGradByGlobalNorm):
        """By the norm over all ranks, as fleet's HybridParallelClipGrad."""

        fault = ""

        @paddle.no_grad()
        def _dygraph_clip(self, params_grads):
            squares = [paddle.zeros([]), paddle.zeros([])]
            for parameter, gradient in params_grads:
                split = getattr(parameter, "is_distributed", False)
                squares[split] = squares[split] + (gradient * gradient).sum()
            for values in squares[self.fault != "norm of all" :] if self.fault != "norm" else ():
                dist.all_reduce(values)
            norm = paddle.sqrt(squares[0] + squares[1])
            factor = self.clip_norm / paddle.maximum(norm, paddle.to_tensor(self.clip_norm))
            return [(parameter, gradient * factor) for parameter, gradient in params_grads]

    for name in sys.argv[2:]:
        fault = "" if name == "right" else name
        model, clip = Llama(fault), Clip(MOST * (1 + 0.1 * (fault == "most")))
        clip.fault = fault
        rate, decay = RATE * (0.9 if fault == "rate" else 1), DECAY if fault != "decay" else 0.0
        optimizer = paddle.optimizer.AdamW(rate, parameters=model.parameters(), weight_decay=decay, grad_clip=clip)
        with padiff_shim.record(pathlib.Path(sys.argv[1]) / name, model, gradients=True, parameters=True, states=True) as recording:
            for batch in map(paddle.to_tensor, np.roll(IDS, fault == "data" and rank, 1)):
                parts = batch.chunk(2) if fault == "halves" else [batch]
                for part in parts:
                    shifted = fault == "labels" or (fault == "labels of one" and rank == 1)
                    labels = part[:, :-1] if shifted else part[:, 1:]
                    loss = loss_of(model(part[:, :-1]), labels, *([BATCH * LENGTH - 1] if fault == "fewer" else []))
                    recording.note("loss", loss)
                    (loss * (2 if fault == "twice" else 1 / len(parts))).backward()
                for _ in range(2 if fault == "again" else 1):
                    optimizer.step()
                optimizer.clear_grad()


if __name__ == "__main__":
    main()
