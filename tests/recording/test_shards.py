"""Recordings of several ranks, put together and compared with those of one: what is right is the same, and a fault is found."""

import json
import shutil

import pytest
import rank_shards
import ranks
import torch
from helpers import ROOT, thinned

from padiff_shim import diff, record

# A layout and its fault -> kind and layer, or kind and name, of the first difference, and its reason.
FAULTS = {
    "tensor-order": ("op", "blocks.1.up", "order"),
    "tensor-reduce": ("op", "blocks.1.down", "partial sums"),
    "tensor-bias": ("op", "blocks.0.down", "bias"),
    "tensor-backward": ("gradient", "blocks.1.norm.bias", "backward"),
    "data-sum": ("step gradient", "blocks.1.down.bias", "scale"),
    "data-alone": ("step gradient", "blocks.0.up.bias", "shares"),
    "pipeline-scale": ("gradient", "head.weight", "scale"),
    "pipeline-sent": ("gradient", "blocks.0.down.bias", "scale"),
    "pipeline-later": ("op", "blocks.1", None),  # of one of both micro-batches; a norm alone hides it
}
OF_GRIDS = {
    "grid-order": ("op", "blocks.1.up"),
    "grid-reduce": ("op", "blocks.1.down"),
    "grid-backward": ("gradient", "blocks.1.norm.bias"),
    "grid-scale": ("gradient", "head.weight"),
    "grid-sent": ("gradient", "blocks.0.down.bias"),
}
OF_EXPERTS = {
    "experts-order": ("op", "mixture.experts.0"),
    "experts-gate": ("step gradient", "mixture.gate.weight"),
    "packed-order": ("op", "mixture.experts.0"),
    "packed-weight": ("op", "mixture.experts.2"),
}
OTHERS = ["accumulated-scale", "packed", "experts", *OF_EXPERTS, "fused", "fused-order", "tensor-digest", "tensor-calls"]
RIGHT = ["tensor", "data", "data-turns", "accumulated", "owners", "reducer", "pipeline", "meshed"]
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
    ranks.run([ROOT / "tests" / "rank_shards.py", folder, *FAULTS, *OTHERS, *RIGHT])
    rank_shards.train(folder / "whole", rank_shards.Net(rank_shards.Share()), rank_shards.IDS)
    rank_shards.train(folder / "parts", rank_shards.Net(rank_shards.Share()), rank_shards.IDS, parts=2, loss_scale=0.5)
    rank_shards.train(folder / "quarters", rank_shards.Net(rank_shards.Share()), rank_shards.IDS, parts=4, loss_scale=0.25)
    rank_shards.train(folder / "gated", rank_shards.GatedNet(rank_shards.Share()), rank_shards.IDS)
    rank_shards.train(folder / "mixture", rank_shards.MixtureNet(rank_shards.Share()), rank_shards.IDS)
    rank_shards.train(folder / "capacity", rank_shards.MixtureNet(rank_shards.Share(), 16), rank_shards.IDS)
    train_torch(folder / "torch")
    return folder


@pytest.mark.rows(3)
@pytest.mark.parametrize("whole", ["whole", pytest.param("torch", marks=pytest.mark.slow)])
@pytest.mark.parametrize("name", RIGHT)
def test_right_layouts_are_the_same_within_rounding(runs, name, whole):
    difference = diff(runs / name, runs / whole, rtol=RTOL, shards="auto")
    assert difference, difference.answer
    assert {"op", "layer", "gradient", "step gradient", "note"} <= {row.any.kind for row in difference.compared}
    assert not any(tensor.startswith(("layer", "gradient", "step", "note")) for tensor, _ in difference.not_joined)
    assert not difference.settings.differences, "an optimizer of a stage has the stage's parameters"
    assert name not in RIGHT[::4] or diff(runs / whole, runs / name, rtol=RTOL, shards="auto"), "either run may be the first"


def test_fleets_mesh_is_recorded(runs):
    paths = sorted((runs / "meshed").glob("records-*.jsonl"))
    meshes = [json.loads(path.read_text().splitlines()[0])["mesh"] for path in paths]
    assert [(mesh["data"], mesh["model"]) for mesh in meshes] == [(0, 0), (0, 1)]


def test_gradients_that_one_rank_alone_updates_are_compared(runs):
    compared = {
        row.any.name
        for row in diff(runs / "owners", runs / "whole", rtol=RTOL, shards="auto").compared
        if row.any.kind == "step gradient"
    }
    assert compared == {name for name in rank_shards.WHOLE if not name.startswith(("mixture", "gated"))}


@pytest.mark.parametrize("rank", [0, 1])
def test_a_rank_without_a_recording_is_a_hole(runs, tmp_path, rank):
    shutil.copytree(runs / "pipeline", tmp_path / "lost")
    for path in (tmp_path / "lost").glob(f"*-rank{rank}-*"):
        path.unlink()
    difference = diff(tmp_path / "lost", tmp_path / "lost", rtol=RTOL, shards="auto")
    assert not difference
    assert difference.answer.startswith("INCOMPLETE"), difference.answer
    assert not diff(tmp_path / "lost", runs / "whole", rtol=RTOL, shards="auto")
    faulty = diff(tmp_path / "lost", runs / "pipeline-scale", rtol=RTOL, shards="auto")
    assert faulty.answer.startswith("INCOMPLETE"), faulty.answer
    assert "DIFFERENT" not in faulty.answer


@pytest.mark.parametrize("parts", ["parts", "quarters"])
def test_micro_batches_that_hold_other_samples(runs, parts):
    """Of two ranks' first micro-batches the samples are 0 and 2, of one rank's 0 and 1, or 0: the step's are the same."""
    difference = diff(runs / "accumulated", runs / parts, rtol=RTOL, shards="auto")
    assert difference, difference.answer
    assert not difference.not_joined
    faulty = diff(runs / "accumulated-scale", runs / parts, rtol=RTOL, shards="auto")
    assert not faulty
    assert "step gradient" in {row.any.kind for row in faulty.differing}
    assert not {"op", "layer", "gradient"}.intersection(
        row.any.kind for row in faulty.differing if row.any.layer and not row.any.step
    )


def test_micro_batches_are_one_batch(runs):
    assert diff(runs / "parts", runs / "whole", rtol=RTOL, shards="auto")
    assert diff(runs / "parts", runs / "pipeline", rtol=RTOL, shards="auto")


def test_experts_are_numbered_over_the_ranks(runs):
    difference = diff(runs / "experts", runs / "mixture", rtol=RTOL, shards="auto")
    assert difference, difference.answer
    compared = {row.any.layer or row.any.name for row in difference.compared}
    assert {f"mixture.experts.{number}" for number in range(rank_shards.EXPERTS)} <= compared


@pytest.mark.rows(2)
@pytest.mark.parametrize("name", ["experts", "packed"])
@pytest.mark.parametrize("whole", ["mixture", "capacity"])
def test_experts_whose_tokens_lie_in_other_places(runs, name, whole):
    """Each rank, and the run on one rank, fill an expert's places from the first one on, or leave those of other tokens empty."""
    difference = diff(runs / name, runs / whole, rtol=RTOL, shards="auto")
    assert difference, difference.answer
    compared = {row.any.layer for row in difference.compared if row.any.kind == "op"}
    assert {f"mixture.experts.{number}" for number in range(rank_shards.EXPERTS)} <= compared
    assert diff(runs / "capacity", runs / "mixture", rtol=RTOL, shards="auto"), "one rank each"
    first_differs(runs / "packed-weight", runs / whole, OF_EXPERTS["packed-weight"])


def test_a_recording_without_layers(runs):
    difference = diff(runs / "tensor-calls", runs / "whole", rtol=RTOL, shards="auto")
    assert difference, difference.answer
    first_differs(runs / "tensor-calls", runs / "tensor-reduce", ("op", "blocks.1.down"))


def test_slices_of_fused_weights(runs):
    difference = diff(runs / "fused", runs / "gated", rtol=RTOL, shards="auto")
    assert difference, difference.answer
    joined = {row.any.layer or row.any.name: row.joined for row in difference.compared}
    assert "fused 1:1" in joined["gated.up"]
    assert "fused 1:1" in joined["gated.up.weight"]
    assert diff(runs / "fused", runs / "gated", rtol=RTOL, shards={"gated.up*": "-1:1:1"})
    first_differs(runs / "fused-order", runs / "gated", ("op", "gated"))


@pytest.mark.parametrize("whole", thinned(["whole", "torch", "tensor"], "torch"))
@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_of_a_rank_is_the_first_difference(runs, name, whole):
    *place, reason = FAULTS[name]
    difference = first_differs(runs / name, runs / whole, tuple(place))
    assert whole == "tensor" or reason is None or difference.reason.kind == reason, difference.answer


@pytest.mark.parametrize("name", OF_EXPERTS)
def test_a_fault_among_experts_is_the_first_difference(runs, name):
    first_differs(runs / name, runs / "mixture", OF_EXPERTS[name])


def first_differs(faulty, whole, place):
    difference = diff(faulty, whole, rtol=RTOL, shards="auto")
    assert not difference
    first = difference.first
    assert (first.any.kind, first.any.layer or first.any.name) == place[:2], difference.answer
    return difference


@pytest.mark.parametrize("whole", ["whole", "torch"])
def test_split_digests_are_never_the_same(runs, whole):
    difference = diff(runs / "tensor-digest", runs / whole, rtol=RTOL, shards="auto")
    assert not difference
    assert difference.answer.startswith("NOT COMPARABLE")


@pytest.mark.slow
@pytest.mark.parametrize("layout", ["tensor", "data", "experts"])
def test_four_ranks(tmp_path, layout):
    """Tensor parallelism in pairs with shares of the batch, four shares, and experts in pairs whose gradients are summed across."""
    faults = {"tensor": "bias", "data": "alone", "experts": "order"}
    ranks.run([ROOT / "tests" / "rank_shards.py", tmp_path, layout, f"{layout}-{faults[layout]}"], 4)
    model = (rank_shards.MixtureNet if layout == "experts" else rank_shards.Net)(rank_shards.Share())
    rank_shards.train(tmp_path / "whole", model, rank_shards.IDS)
    assert diff(tmp_path / layout, tmp_path / "whole", rtol=RTOL, shards="auto")
    first_differs(tmp_path / f"{layout}-{faults[layout]}", tmp_path / "whole", (FAULTS | OF_EXPERTS)[f"{layout}-{faults[layout]}"])


@pytest.mark.slow
def test_stages_whose_weights_are_split(tmp_path):
    """A pipeline of two stages with tensor parallelism in each: four ranks, none of which has a block's weights whole."""
    ranks.run([ROOT / "tests" / "rank_shards.py", tmp_path, "grid", *OF_GRIDS], 4)
    rank_shards.train(tmp_path / "whole", rank_shards.Net(rank_shards.Share()), rank_shards.IDS)
    train_torch(tmp_path / "torch")
    for whole in ("whole", "torch"):
        difference = diff(tmp_path / "grid", tmp_path / whole, rtol=RTOL, shards="auto")
        assert difference, difference.answer
        for name, place in OF_GRIDS.items():
            first_differs(tmp_path / name, tmp_path / whole, place)
