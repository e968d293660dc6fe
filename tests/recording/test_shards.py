"""Recordings of several ranks, put together and compared with those of one: what is right is the same, and a fault is found."""

import pytest
import rank_shards
import ranks
import torch
from helpers import ROOT

from padiff_shim import diff, record

FAULTS = {
    "tensor-order": ("op", "blocks.1.up"),
    "tensor-reduce": ("op", "blocks.1.down"),
    "tensor-bias": ("op", "blocks.0.down"),
    "tensor-backward": ("gradient", "blocks.1.norm.bias"),
    "data-sum": ("step gradient", "blocks.1.down.bias"),
    "data-alone": ("step gradient", "blocks.0.up.bias"),
}
RIGHT = ["tensor", "data", "reducer"]
RTOL = 1e-5


class Original(torch.nn.Module):
    """The model in Torch, on one rank."""

    def __init__(self):
        super().__init__()
        width, hidden, words = rank_shards.WIDTH, rank_shards.HIDDEN, rank_shards.WORDS
        self.words = torch.nn.Embedding(words, width)
        self.head = torch.nn.Linear(width, words, bias=False)
        parts = {"norm": lambda: torch.nn.LayerNorm(width), "up": lambda: torch.nn.Linear(width, hidden)}
        parts["down"] = lambda: torch.nn.Linear(hidden, width)
        self.blocks = torch.nn.ModuleList(torch.nn.ModuleDict({name: make() for name, make in parts.items()}) for _ in range(2))
        with torch.no_grad():
            for name, parameter in self.named_parameters():
                whole = torch.from_numpy(rank_shards.WHOLE[name])
                parameter.copy_(whole.T if whole.ndim == 2 and name != "words.weight" else whole)

    def forward(self, ids):
        x = self.words(ids)
        for block in self.blocks:
            x = x + block["down"](torch.nn.functional.gelu(block["up"](block["norm"](x))))
        return self.head(x)


def train_torch(folder):
    model = Original()
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    with record(folder, model, gradients=True) as recording:
        for ids in map(torch.from_numpy, rank_shards.IDS):
            logits = model(ids[:, :-1]).reshape(-1, rank_shards.WORDS)
            loss = torch.nn.functional.cross_entropy(logits, ids[:, 1:].reshape(-1))
            recording.note("loss", loss)
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """A folder with a recording of each layout and fault on two ranks, and of one rank in Paddle and in Torch."""
    folder = tmp_path_factory.mktemp("shards")
    ranks.run([ROOT / "tests" / "rank_shards.py", folder, *RIGHT, *FAULTS, "tensor-digest"])
    rank_shards.train(folder / "whole", rank_shards.Net(rank_shards.Share()), rank_shards.IDS)
    train_torch(folder / "torch")
    return folder


@pytest.mark.parametrize("whole", ["whole", "torch"])
@pytest.mark.parametrize("name", RIGHT)
def test_right_layouts_are_the_same_within_rounding(runs, name, whole):
    difference = diff(runs / name, runs / whole, rtol=RTOL, shards="auto")
    assert difference, difference.headline
    assert {"op", "layer", "gradient", "step gradient", "note"} <= {row.any.kind for row in difference.compared}
    reasons = {reason for _, reason in difference.not_joined}
    assert reasons <= {"partial results of ranks whose whole is equal", "no partner in b"}
    assert not any(tensor.startswith(("layer", "gradient", "step", "note")) for tensor, _ in difference.not_joined)
    assert bool(diff(runs / whole, runs / name, rtol=RTOL, shards="auto"))


@pytest.mark.parametrize("whole", ["whole", "torch", "tensor"])
@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_of_a_rank_is_the_first_difference(runs, name, whole):
    difference = diff(runs / name, runs / whole, rtol=RTOL, shards="auto")
    assert not difference
    first = difference.first
    assert (first.any.kind, first.any.layer or first.any.name) == FAULTS[name], difference.headline


@pytest.mark.parametrize("whole", ["whole", "torch"])
def test_split_digests_are_never_the_same(runs, whole):
    difference = diff(runs / "tensor-digest", runs / whole, rtol=RTOL, shards="auto")
    assert not difference
    assert difference.headline.startswith("NOT COMPARABLE: record values")
