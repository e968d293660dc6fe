"""Proofs of models whose weights lie otherwise: rules for values, gradients and updates, and weights without partner."""

import sys
from pathlib import Path

import numpy as np
import paddle
import pytest
import torch

import padiff_shim
from padiff_shim import ProofVerdict, prove
from padiff_shim.dispatch.frames import top
from padiff_shim.proof.plans import OnTorch
from padiff_shim.weights import split

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "weights"))
from layer_pairs import scrambled
from test_experts import PaddleMixture, TorchMixture, X as TOKENS
from test_fused_layouts import Apart, AtOnce, X as STATES, grouped, plain

pytestmark = pytest.mark.compat

X = np.random.default_rng(0).standard_normal((3, 8)).astype("float32")


class Original(torch.nn.Module):
    """A bare weight [8, 2, 4]."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.q, self.out = torch.nn.Parameter(torch.randn(8, 2, 4)), torch.nn.Linear(8, 8)

    def forward(self, x):
        return self.out(torch.tanh(x @ self.q.reshape(8, 8)))


class Port(paddle.nn.Layer):
    """The same as [8, 8], of which it makes another matrix before it is used."""

    def __init__(self, used=lambda weight: weight):
        super().__init__()
        self.q, self.out, self.used = self.create_parameter([8, 8]), paddle.nn.Linear(8, 8), used

    def forward(self, x):
        return self.out(paddle.tanh(x @ self.used(self.q)))


def square(output):
    return (output * output).mean()


FLAT = [("q", lambda value: value.flatten(1))]
# What the port does to its weight, the rule, and whether it only moves elements.
WAYS = {
    "flat": (lambda weight: weight, lambda value: value.flatten(1), True),
    "turned": (lambda weight: weight.t(), lambda value: value.flatten(1).t(), True),
    "columns exchanged": (
        lambda weight: weight[:, [*range(4, 8), *range(4)]],
        lambda value: value.flip(1).flatten(1),
        True,
    ),
    "scaled": (lambda weight: weight * 2, lambda value: value.flatten(1) / 2, False),
    "shifted": (lambda weight: weight - 1, lambda value: value.flatten(1) + 1, False),
}


@pytest.mark.parametrize("way", WAYS)
def test_a_right_port_behind_a_rule(way):
    """Outputs and gradients: J^T g' is g, also where the rule scales."""
    used, rule, moves = WAYS[way]
    proof = prove(Port(used), Original(), X, rules=[("q", rule)])
    assert proof, str(proof)
    assert {stage.name: stage.right for stage in proof.stages}["backward"]
    if moves:
        assert prove(Port(used), Original(), X, rules=[("q", rule)], phase="train", optimizer="AdamW", steps=2, loss=square)


def test_a_scaled_weight_is_trained_otherwise():
    """The gradient is half as large and the weight, too: a step of SGD is not; said, with the rule that is the reason."""
    used, rule, _ = WAYS["scaled"]
    proof = prove(Port(used), Original(), X, rules=[("q", rule)], phase="train", optimizer="SGD", loss=square)
    assert proof.verdict is ProofVerdict.CODE_DIFFERS
    assert {stage.name: stage.right for stage in proof.stages}["backward"]
    assert any("move elements" in note and "q" in note for note in proof.notes)
    used, rule, _ = WAYS["shifted"]
    assert prove(Port(used), Original(), X, rules=[("q", rule)], phase="train", optimizer="SGD", loss=square)  # this one is


def test_a_rule_that_is_no_affine_map_has_no_gradient():
    def root(value):
        return value.flatten(1).abs() ** (1 / 3) * value.flatten(1).sign()

    proof = prove(Port(lambda weight: weight**3), Original(), X, rules=[("q", root)])
    assert proof, str(proof)
    assert any("no affine map" in note and note.endswith(": q") for note in proof.notes)


@pytest.mark.parametrize("phase", ["forward", "both", "train"])
def test_a_mistake_behind_a_rule_is_found(phase):
    more = {"optimizer": "AdamW", "loss": square} if phase == "train" else {}
    proof = prove(Port(lambda weight: weight * 1.5), Original(), X, rules=FLAT, phase=phase, **more)
    assert proof.verdict is ProofVerdict.CODE_DIFFERS
    assert len(proof.mistakes) == 1
    assert "1.5" in str(proof.mistakes[0])


class Detached(Port):
    def forward(self, x):
        return self.out(paddle.tanh(x @ (self.q.detach() * 0.5 + self.q * 0.5)))


def test_a_wrong_gradient_behind_a_rule_is_found():
    assert prove(Detached(), Original(), X, rules=FLAT, phase="forward")
    proof = prove(Detached(), Original(), X, rules=FLAT)
    assert proof.verdict is ProofVerdict.CODE_DIFFERS
    assert {stage.name: stage.right for stage in proof.stages}["backward"] is False


def test_a_wrong_rule_is_another_weight():
    proof = prove(Port(), Original(), X, rules=[("q", lambda value: value.flatten(1).t())])
    assert proof.verdict is ProofVerdict.CODE_DIFFERS
    assert "another weight" in proof.answer


def test_weights_of_the_port():
    """The rule takes the values that ``weights`` names first."""
    rules = [("q", lambda value: value.reshape(8, 2, 4))]
    assert prove(Port(), Original(), X, rules=rules, weights="paddle->torch")
    more = {"phase": "train", "optimizer": "AdamW", "loss": square, "steps": 2}
    assert prove(Port(), Original(), X, rules=rules, weights="paddle->torch", **more)


def test_weights_as_they_are():
    original, port = Original(), Port()
    padiff_shim.transfer_weights(original, port, rules=FLAT)
    assert prove(port, original, X, rules=FLAT, weights="as-is")
    port.q.set_value(port.q + 1)
    proof = prove(port, original, X, rules=FLAT, weights="as-is")
    assert proof.verdict is ProofVerdict.WEIGHTS_DIFFER
    assert "q: largest difference 1" in proof.reason


def test_a_rule_that_cannot_be_applied_is_refused():
    with pytest.raises(padiff_shim.TransferError, match=r"q .*8, 8.*2, 2, 4"):
        prove(Port(), Original(), X, rules=[("q", lambda value: value[:2])])
    with pytest.raises(padiff_shim.ArgumentError, match="rules="):
        prove(Port(), Original(), X, rules="q")


# -- fused


@pytest.mark.rows(1)
@pytest.mark.parametrize("how", [plain, grouped])
def test_a_fused_projection(how):
    proof = prove(AtOnce(how), scrambled(Apart()), STATES)
    assert proof, str(proof)
    assert any("as its use shows (rules=[('qkv_proj', split('q_proj', 'k_proj', 'v_proj'" in note for note in proof.notes)
    more = {"phase": "train", "optimizer": "AdamW", "loss": square, "steps": 2}
    assert prove(AtOnce(how), scrambled(Apart()), STATES, **more)


@pytest.mark.slow
@pytest.mark.parametrize("how", [plain, grouped])
def test_a_mistake_in_the_layer_of_a_fused_projection_is_the_one_that_is_found(how):
    """Not the layout, which would be another weight."""
    proof = prove(AtOnce(how, scale=1.0), scrambled(Apart()), STATES, phase="forward")
    assert proof.verdict is ProofVerdict.CODE_DIFFERS
    assert all("weight" not in str(mistake.cause) for mistake in proof.mistakes), str(proof)


def test_values_tell_how_weights_lie_as_they_are():
    """Of a layer that no use decides: there is none behind it."""

    class Silent(AtOnce):
        def forward(self, x):
            return self.o_proj(self.qkv_proj(x)[..., :12])

    original, port = scrambled(Apart()), Silent(grouped)
    padiff_shim.transfer_weights(original, port, rules=[("qkv_proj", split("q_proj", "k_proj", "v_proj", groups=2))])
    proof = prove(port, original, STATES, weights="as-is", phase="forward")
    assert proof.verdict is ProofVerdict.CODE_DIFFERS
    assert prove(port, original, STATES, phase="forward").verdict is ProofVerdict.NOT_COMPARABLE


@pytest.mark.slow
def test_what_nothing_decides_is_said_with_what_to_write():
    class Silent(AtOnce):
        def forward(self, x):
            return self.o_proj(self.qkv_proj(x)[..., :12])

    proof = prove(Silent(grouped), scrambled(Apart()), STATES)
    assert proof.verdict is ProofVerdict.NOT_COMPARABLE
    assert "nothing tells how qkv_proj holds q_proj, k_proj, v_proj" in proof.reason
    assert "split('q_proj', 'k_proj', 'v_proj', groups=N)" in proof.reason


# -- experts


class Routed(TorchMixture):
    """Each token goes to one expert; the last is never asked."""

    def forward(self, x):
        chosen = self.gate(x)[..., :-1].argmax(-1)
        return sum((chosen == expert)[..., None] * self.experts(x, expert) for expert in range(3))


class RoutedPort(PaddleMixture):
    def forward(self, x):
        chosen = self.gate(x)[..., :-1].argmax(-1)
        return sum((chosen == number).unsqueeze(-1).astype("float32") * self.experts[number](x) for number in range(3))


def test_an_expert_that_is_not_called_has_zeros_for_a_gradient():
    """In the stack; the layer of the list has none."""
    proof = prove(RoutedPort(3, "up, gate"), scrambled(Routed(3)), TOKENS)
    assert proof, str(proof)


# -- weights without partner


class Words(torch.nn.Module):
    """A model with all that its port may do without."""

    def __init__(self, *extras):
        super().__init__()
        self.words, self.first, self.last = torch.nn.Embedding(11, 8), torch.nn.Linear(8, 8), torch.nn.Linear(8, 8)
        table = torch.arange(48.0).reshape(6, 8) / 48
        if "pooler" in extras:
            self.pooler = torch.nn.Linear(8, 5)
        if "table" in extras:
            self.register_buffer("table", table)
        if "mask" in extras:
            self.register_buffer("mask", torch.tril(torch.ones(6, 6)))
        if "frozen" in extras:
            self.positions = torch.nn.Embedding.from_pretrained(table)
        self.extras = extras

    def forward(self, ids):
        x = self.words(ids)
        if "table" in self.extras:
            x = x + self.table
        if "frozen" in self.extras:
            x = x + self.positions.weight
        return self.last(torch.relu(self.first(x)))


class WordsPort(paddle.nn.Layer):
    def __init__(self, *extras):
        super().__init__()
        wide = 9 if "wide" in extras else 8
        self.words, self.first = paddle.nn.Embedding(11, 8), paddle.nn.Linear(8, wide)
        self.last = paddle.nn.Linear(wide, 8, bias_attr=False if "no bias" in extras else None)
        if "pooler" in extras:
            self.pooler = paddle.nn.Linear(8, 5)
        if "shift" in extras:
            self.shift = self.create_parameter([8])
        self.extras = extras

    def forward(self, ids):
        x = self.words(ids)
        if "positions" in self.extras:
            x = x + paddle.arange(48, dtype="float32").reshape([6, 8]) / 48
        if "shift" in self.extras:
            x = x + self.shift
        return self.last(paddle.nn.functional.relu(self.first(x)))


IDS = np.random.default_rng(0).integers(0, 11, (2, 6))
NOTES = {
    "pooler of the original": (("pooler",), (), "torch pooler.weight [5, 8], pooler.bias [5]: without partner, and nothing that"),
    "pooler of the port": ((), ("pooler",), "paddle pooler.weight [8, 5], pooler.bias [5]: without partner, and nothing that"),
    "mask": (("mask",), (), "torch mask [6, 6]: without partner, and not trained; each side keeps its own"),
    "table": (("table",), ("positions",), "torch table [6, 8]: without partner, and not trained"),
    "frozen": (("frozen",), ("positions",), "torch positions.weight [6, 8]: without partner, and not trained"),
}


@pytest.mark.parametrize("kind", NOTES)
def test_what_has_no_partner_and_needs_none_is_a_note(kind):
    theirs, ours, note = NOTES[kind]
    proof = prove(WordsPort(*ours), Words(*theirs), IDS)
    assert proof, str(proof)
    assert any(note in text for text in proof.notes), proof.notes


def test_a_table_that_only_one_side_adds_is_a_mistake():
    """A note says that it has no partner, and the outputs that it has an effect."""
    proof = prove(WordsPort(), Words("table"), IDS)
    assert proof.verdict is ProofVerdict.CODE_DIFFERS
    assert "add" in proof.answer


@pytest.mark.parametrize(
    ("extra", "words"),
    [
        ("shift", "Only in the Paddle model: shift [8]"),
        ("no bias", "Only in the Torch model: last.bias [8]: its layer's partner, last, has no weight for it"),
        ("wide", "Other shapes (Torch, Paddle): first.weight [8, 8] and first.weight [8, 9] (in Torch's layout [9, 8])"),
    ],
)
def test_what_is_used_needs_a_partner(extra, words):
    proof = prove(WordsPort(extra), Words(), IDS)
    assert proof.verdict is ProofVerdict.NOT_COMPARABLE
    assert proof.reason.startswith("weights without partner: ")
    assert words in proof.reason
    assert any('rules=[("name", None)]' in note for note in proof.notes)


def test_what_a_rule_leaves_out_is_left_out():
    """Whatever it is used for: it holds zeros, or does not."""
    port = WordsPort("shift")
    port.shift.set_value(np.zeros(8, "float32"))
    proof = prove(port, Words(), IDS, rules=[("shift", None)])
    assert proof, str(proof)
    assert any("rules: shift" in note for note in proof.notes)
    port.shift.set_value(np.ones(8, "float32"))
    assert prove(port, Words(), IDS, rules=[("shift", None)]).verdict is ProofVerdict.CODE_DIFFERS


@pytest.mark.parametrize("extra", ["pooler", "shift", "no bias"])
def test_as_is_means_as_is(extra):
    original, port = Words(), WordsPort(extra)
    if extra == "no bias":
        torch.nn.init.zeros_(original.last.bias)
    left = {"pooler": "pooler", "shift": "shift", "no bias": "last.bias"}[extra]
    padiff_shim.transfer_weights(original, port, rules=[(left, None)])
    if extra == "shift":
        port.shift.set_value(np.zeros(8, "float32"))
    proof = prove(port, original, IDS, weights="as-is")
    assert proof, str(proof)
    assert any(left in note and "no partner" in note for note in proof.notes)


def test_a_constant_that_differs_as_it_is_is_code():
    """A table that the port makes wrongly is a mistake of the port, where the values that it was given would have covered it."""

    class Tabled(WordsPort):
        def __init__(self):
            super().__init__()
            self.register_buffer("table", paddle.arange(48, dtype="float32").reshape([6, 8]) / 40)

        def forward(self, ids):
            x = self.words(ids) + self.table
            return self.last(paddle.nn.functional.relu(self.first(x)))

    original, port = Words("table"), Tabled()
    table = port.table.numpy()
    padiff_shim.transfer_weights(original, port)
    port.table.set_value(table)
    proof = prove(port, original, IDS, weights="as-is")
    assert proof.verdict is ProofVerdict.CODE_DIFFERS
    assert "table" in str(proof.mistakes[0])
    assert any("stay so: table" in note for note in proof.notes)


def test_layouts_are_tried_on_torchs_kernels():
    """Where Paddle has no kernel on this machine, layers run in the trial as the port does in the proof."""

    class Lacking(AtOnce):
        def forward(self, x):
            if top() is None or not isinstance(top().plan, OnTorch):
                raise RuntimeError("(NotFound) the kernel is not registered")
            return super().forward(x)

    proof = prove(Lacking(grouped), scrambled(Apart()), STATES, phase="forward")
    assert proof.verdict in (ProofVerdict.CODE_CORRECT, ProofVerdict.CODE_CORRECT_WITHIN_ROUNDING), str(proof)
