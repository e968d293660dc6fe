"""Two runs of a training as people write it: right ones are equal but for rounding, and a planted mistake is named first."""

import numpy as np
import pytest
from helpers import thinned
from recorded_trainings import averaged, classifier, llama, scaled, unet, vit

from padiff_shim import diff
from padiff_shim.recording.reading import read

FINGERPRINT = {"values": "fingerprint"}
# Training, arguments of both sides, arguments of Paddle's alone.
RIGHT = {
    "llama": (llama, {"blocks": 2}, {}),
    "llama fingerprints": (llama, {"inside": True, **FINGERPRINT}, {}),
    "llama of two libraries": (llama, {"inside": True}, {"faults": ("before",)}),
    "llama of nested layers": (llama, {}, {"faults": ("nested", "before")}),
    "llama of numbered layers": (llama, {"inside": True}, {"faults": ("numbered",)}),
    "llama fused": (llama, {"faults": {"fused": "causal"}}, {}),
    "llama accumulates": (llama, {"parts": 2}, {}),
    "llama tied": (llama, {"tied": True}, {}),
    "llama frozen": (llama, {"frozen": True}, {}),
    "llama resumed": (llama, {"begin": 2}, {}),
    "llama without model": (llama, {"whole": False}, {}),
    "vit": (vit, {}, {}),
    "vit smooth": (vit, {"smooth": 0.1}, {"faults": ("composed",)}),
    "vit noted": (vit, {"noted": True, **FINGERPRINT}, {}),
    "vit uneven": (vit, {}, {"cuts": (3, 1)}),
    "vit equal samples": (vit, {"equal": True}, {"cuts": (1, 1, 1, 1)}),
    "vit order": (vit, {}, {"faults": ("order",)}),
    "unet": (unet, {}, {}),
    "unet fingerprints": (unet, FINGERPRINT, {}),
    "classifier": (classifier, {}, {}),
    "classifier clips": (classifier, {"clips": True}, {}),
    "classifier clips each": (classifier, {"clips": "each"}, {}),
    "classifier fingerprints": (classifier, FINGERPRINT, {}),
    "classifier parameters": (classifier, {"parameters": True}, {}),
    "averaged": (averaged, {}, {}),
    "averaged fingerprints": (averaged, FINGERPRINT, {}),
    "averaged from the last on": (averaged, {}, {"faults": ("backwards",)}),
    "scaler": (scaled, {}, {"scale": 256.0}),
    "scaler fingerprints": (scaled, FINGERPRINT, {"scale": 256.0}),
    "scaler skips": (scaled, {"bad": 2}, {}),
    "scaler skips, fingerprints": (scaled, {"bad": 2, **FINGERPRINT}, {}),
}
ALWAYS = (
    "llama of two libraries",
    "llama of nested layers",
    "llama fused",
    "vit uneven",
    "unet fingerprints",
    "classifier clips",
    "averaged fingerprints",
    "scaler skips",
)
MEANT = (".reshape([4, 6, 4, 4])", ".transpose([0, 2, 1, 3]).reshape([4, 6, 16])")
# The same, kind of reason, step, a line's or a tensor's name of the first difference, numbers.
WRONG = {
    "heads": (llama, {"blocks": 2}, {"faults": ("heads",)}, "arrangement", 0, "multiply", {"write": MEANT[0]}),
    "pairs": (llama, {}, {"faults": ("pairs",)}, "arrangement", 0, "scale", {"write": ".reshape([4, 6, 4, 2, 2])[:, :, :, 1]"}),
    "pairs, fingerprints": (llama, FINGERPRINT, {"faults": ("pairs",)}, "layer", 0, "blocks.0.out", {"behind": "blocks.0.v"}),
    "axis, fingerprints": (llama, FINGERPRINT, {"faults": ("axis",)}, "layer", 0, "blocks.0.out", {"behind": "blocks.0.v"}),
    "summed": (llama, {}, {"faults": ("summed",)}, "arguments", 0, "cross_entropy", {"reduction": ["'sum'", "'mean'"]}),
    "batch, fingerprints": (llama, FINGERPRINT, {"faults": ("batch",)}, "batch size", None, "", {"a": 3, "b": 4}),
    "rules": (averaged, {"rms": True}, {}, "optimizer", 0, "enter.weight", {}),
    "base": (llama, {}, {"faults": ("base",)}, "table", 0, "cos", {"tensor": "x"}),
    "detach, fingerprints": (llama, FINGERPRINT, {"faults": ("detach",)}, "gradient", 0, "blocks.0.out.weight", {}),
    "twice": (llama, {}, {"faults": ("twice",)}, "update", 0, "", {"a": 2, "b": 1}),
    "twice, fingerprints": (llama, FINGERPRINT, {"faults": ("twice",)}, "update", 0, "", {"a": 2, "b": 1}),
    "merge": (llama, {}, {"faults": ("merge",)}, "arrangement", 0, "linear", {"write": MEANT[1]}),
    "interleaved": (
        vit, {}, {"faults": ("interleaved",)}, "arrangement", 0, "matmul",
        {"write": ".reshape([4, 5, 3, 4, 4])[:, :, 0].transpose([0, 2, 1, 3])"},
    ),
    "turned": (
        unet, {}, {"faults": ("turned",)}, "order of operands", 0, "conv2d",
        {"write": "concat([generator.up, generator], axis=1)"},
    ),
    "exchanged": (
        llama, {"faults": {"fused": "causal"}}, {"faults": {"fused": "causal", "exchanged": 1}}, "order of operands", 0,
        "scaled_dot_product_attention", {},
    ),
    "mask of two libraries": (llama, {}, {"faults": ("before", "mask")}, "mask", 0, "", {"b": 240}),
    "lost": (llama, {}, {"faults": ("lost",)}, "calls", 0, "", {"side": "a", "call": "subtract"}),
    "weight": (
        vit, {"smooth": 0.1}, {"faults": ("weight",)}, "arguments", 0, "", {"label_smoothing": [0.2, 0.1]},
    ),
    "grouped": (llama, {}, {"faults": ("grouped",)}, "norm", 0, "gradient norm", {"side": "a", "groups": 2}),
    "half": (llama, {}, {"faults": ("half",)}, "dtype", None, "", {"side": "a", "dtype": "bfloat16"}),
    "half, fingerprints": (llama, FINGERPRINT, {"faults": ("half",)}, "dtype", None, "", {"side": "a", "dtype": "bfloat16"}),
    "pooled": (vit, {}, {"faults": ("pooled",)}, "operand", 0, "linear", {"a": "mean", "b": "add[:, 0]"}),
    "no mask": (
        llama, {"faults": {"fused": "causal"}}, {"faults": {"fused": None}}, "mask", 0, "scaled_dot_product_attention",
        {"a": None, "b": 1, "write": "is_causal=True"},
    ),
    "another diagonal": (
        llama, {"faults": {"fused": "causal"}}, {"faults": {"fused": 1}}, "mask", 0, "scaled_dot_product_attention",
        {"a": 2, "b": 1, "write": "is_causal=True"},
    ),
    "early": (llama, {"count": 5}, {"faults": ("early",)}, "learning rate", 0, "", {}),
    "decay of norms": (llama, {}, {"faults": ("decay",)}, "weight decay", None, "", {"a": 0.1, "b": 0, "since": 0}),
    "clip": (llama, {}, {"faults": ("clip",)}, "clipping", 0, "embed.weight", {"b": 0.5}),
    "thawed": (llama, {"frozen": True}, {"faults": ("thawed",)}, "not trained", 0, "embed.weight", {"side": "b"}),
    "untied": (llama, {"tied": True}, {"faults": ("untied",)}, "tied weight", 0, "embed.weight", {"side": "a"}),
    "later data": (llama, {}, {"faults": ("later",)}, "order of batches", 0, "embedding", {"ahead": 1}),
    "shuffled": (vit, {}, {"faults": ("shuffled",)}, "order of batches", 1, "", {}),
    "shuffled, fingerprints": (vit, FINGERPRINT, {"faults": ("shuffled",)}, "order of batches", 1, "", {}),
    "moments": (llama, {"begin": 2}, {"faults": ("moments",)}, "optimizer state", 0, "", {"side": "a"}),
    "moments, fingerprints": (
        llama, {"begin": 2, **FINGERPRINT}, {"faults": ("moments",)}, "optimizer state", 0, "", {"side": "a"},
    ),
    "schedule": (llama, {"begin": 2}, {"faults": ("schedule",)}, "learning rate", 0, "", {"b": 1e-2}),
    "undivided": (
        llama, {"parts": 2, "clips": False, "whole": False}, {"faults": ("undivided",)}, "scale", 0, "loss", {"factor": 2.0},
    ),
    "undivided, fingerprints": (
        llama, {"parts": 2, "clips": False, "whole": False, **FINGERPRINT}, {"faults": ("undivided",)}, "scale", 0, "loss",
        {"factor": 2.0},
    ),
    "undivided batches": (llama, {}, {"parts": 2, "faults": ("undivided",)}, "batch size", 0, "its 2 batches", {"factor": 2.0}),
    "undivided batches, fingerprints": (
        llama, {"clips": False, **FINGERPRINT}, {"parts": 2, "faults": ("undivided",)}, "batch size", 0, "its 2 batches",
        {"factor": 2.0},
    ),
    "lamb": (llama, {}, {"faults": ("lamb",)}, "optimizer", 0, "", {"optimizer": ["Lamb", "Adam"]}),
    "lamb, fingerprints": (llama, FINGERPRINT, {"faults": ("lamb",)}, "optimizer", 0, "", {"optimizer": ["Lamb", "Adam"]}),
    "shift": (llama, {"blocks": 2}, {"faults": ("shift",)}, "labels", 0, "cross_entropy", {}),
    "shift of nested layers": (llama, {}, {"faults": ("nested", "before", "shift")}, "labels", 0, "cross_entropy", {}),
    "decay of biases": (vit, {}, {"faults": ("decay",)}, "weight decay", 0, "", {"a": 1e-2, "b": 0}),
    "smooth": (vit, {}, {"smooth": 0.1}, "arguments", 0, "cross_entropy", {"label_smoothing": [0.1, 0.0]}),
    "composed": (
        vit, {"smooth": 0.1}, {"smooth": 0.2, "faults": ("composed",)}, "arguments", 0, "scale", {"label_smoothing": [0.2, 0.1]},
    ),
    "average": (vit, {"noted": True}, {"decay": 0.5}, "arguments", 1, "multiply", {"y": ["0.5", "0.9"]}),
    "exchanged averages": (averaged, {}, {"rates": (0.99, 0.9)}, "arguments", 1, "multiply", {"y": ["0.99", "0.9"]}),
    "detach": (averaged, {}, {"faults": ("detach",)}, "graph ends", 0, "linear", {"side": "a"}),
    "no_grad": (averaged, {}, {"faults": ("no_grad",)}, "graph ends", 0, "linear", {"side": "a"}),
    "note": (averaged, {}, {"accuracy": 0.3}, "note", 0, "accuracy", {}),
    "note, fingerprints": (averaged, FINGERPRINT, {"accuracy": 0.3}, "note", 0, "accuracy", {}),
    "unet momentum, fingerprints": (
        unet, FINGERPRINT, {"faults": ("momentum",)}, "arguments", None, "generator.norm", {"layer": "generator.norm"},
    ),
    "groups": (unet, {}, {"faults": ("groups",)}, "arguments", 0, "group_norm", {"groups": ["2", "4"]}),
    "momentum": (unet, {}, {"faults": ("momentum",)}, "arguments", None, "generator.norm._mean", {"momentum": ["0.1", "0.1"]}),
    "rate": (unet, {}, {"faults": ("rate",)}, "learning rate", 0, "", {"a": 1e-3, "b": 2e-3}),
    "limit": (unet, {}, {"faults": ("clip",)}, "clipping", 1, "", {"a": 0.1, "b": 0.01}),
    "kept": (unet, {}, {"faults": ("kept",)}, "not cleared", 2, "", {"side": "a"}),
    "kept, fingerprints": (unet, FINGERPRINT, {"faults": ("kept",)}, "gradient", 2, "judge.3.bias", {"step": 2}),
    "turned, fingerprints": (
        unet, FINGERPRINT, {"faults": ("turned",)}, "layer", 0, "generator.leave", {"behind": "generator.up", "step": 0},
    ),
    "classifier kept": (classifier, {}, {"faults": ("kept",)}, "not cleared", 1, "", {"side": "a"}),
    "classifier kept, clips": (classifier, {"clips": True}, {"faults": ("kept",)}, "not cleared", 1, "", {"side": "a"}),
    "classifier momentum": (classifier, {}, {"faults": ("momentum",)}, "arguments", 0, "batch_norm", {"momentum": ["0.1", "0.1"]}),
    "classifier momentum, parameters": (
        classifier, {"parameters": True}, {"faults": ("momentum",)}, "arguments", 0, "batch_norm", {"momentum": ["0.1", "0.1"]},
    ),
    "classifier eval": (classifier, {}, {"faults": ("eval",)}, "arguments", 0, "batch_norm", {"training": ["False", "True"]}),
    "classifier pool": (classifier, {}, {"faults": ("pool",)}, "calls", 0, "pool2d", {"a": "avg_pool2d", "b": "max_pool2d"}),
    "classifier average": (classifier, {}, {"faults": ("average",)}, "arguments", 1, "multiply", {"y": ["0.99", "0.9"]}),
    "too large a scale": (scaled, {}, {"scale": 2.0**30}, "skipped step", 0, "", {"side": "a"}),
    "too large a scale, fingerprints": (scaled, FINGERPRINT, {"scale": 2.0**30}, "skipped step", 0, "", {"side": "a"}),
    "infinite data": (scaled, {}, {"bad": 2}, "skipped step", 2, "", {"side": "a"}),
    "infinite data, fingerprints": (scaled, FINGERPRINT, {"bad": 2}, "skipped step", 2, "", {"side": "a"}),
}  # fmt: skip

OF_EACH_KIND = {row[3]: name for name, row in reversed(WRONG.items())}


def both(folder, training, shared, own):
    training(folder / "paddle", "paddle", **{**shared, **own})
    training(folder / "torch", "torch", **shared)
    return diff(folder / "paddle", folder / "torch", rtol=1e-3)


@pytest.mark.parametrize("name", thinned(RIGHT, *ALWAYS))
def test_a_right_training_is_equal_or_rounding_explains_all(name, tmp_path):
    difference = both(tmp_path, *RIGHT[name])
    assert not any(row.any.name.endswith("_variance") for row in difference.differing)
    if not difference:
        assert difference.reason is not None
        assert difference.reason.kind == "rounding", difference.answer
        assert "until" not in difference.reason.numbers, difference.answer


@pytest.mark.rows(8)
@pytest.mark.parametrize("name", thinned(WRONG, *OF_EACH_KIND.values()))
def test_a_mistake_is_named_with_step_place_and_reason(name, tmp_path):
    *pair, kind, step, place, numbers = WRONG[name]
    difference = both(tmp_path, *pair)
    assert not difference
    reason, first = difference.reason, difference.first
    assert reason is not None, difference.answer
    assert reason.kind == kind, difference.answer
    assert {key: reason.numbers[key] for key in numbers} == {
        key: value if isinstance(np.ravel(value)[0], str | type(None)) else pytest.approx(value, rel=1e-3, abs=1e-3)
        for key, value in numbers.items()
    }
    assert step is None or step in (first.any.step, reason.numbers.get("step")), difference.answer
    assert place in str(difference.answer)
    assert (reason.brief or reason.text) in difference.headline, "the first line has the reason"


@pytest.mark.parametrize("shared", [{}, FINGERPRINT], ids=["values", "fingerprint"])
def test_a_note_behind_an_update_belongs_to_its_step(tmp_path, shared):
    averaged(tmp_path / "a", "torch", **shared)
    steps = [
        tensor.step
        for run in read(tmp_path / "a").values()
        for step in run.steps()
        for tensor in step.tensors
        if tensor.kind == "note"
    ]
    assert steps[:3] == [0, 1, 2]


@pytest.mark.rows(1)
@pytest.mark.parametrize("name", ["heads", "interleaved"])
def test_what_is_written_is_for_the_port_whichever_run_it_is(name, tmp_path):
    training, shared, own, _, _, _, numbers = WRONG[name]
    training(tmp_path / "paddle", "paddle", **shared, **own)
    training(tmp_path / "torch", "torch", **shared)
    assert diff(tmp_path / "torch", tmp_path / "paddle").reason.numbers["write"] == numbers["write"]


@pytest.mark.parametrize("fault", thinned(("kept", "momentum", "average", "eval", "pool"), "kept"))
def test_a_mistake_is_named_without_tolerances(fault, tmp_path):
    *_, kind, _, _, numbers = WRONG[f"classifier {fault}"]
    classifier(tmp_path / "torch", "torch")
    classifier(tmp_path / "paddle", "paddle", faults=(fault,))
    reason = diff(tmp_path / "torch", tmp_path / "paddle").reason
    turned = {"a": "b", "b": "a"}
    numbers = {
        turned.get(key, key): turned.get(value, value) if isinstance(value, str) else value[::-1] for key, value in numbers.items()
    }
    assert (reason.kind, {key: reason.numbers[key] for key in numbers}) == (kind, numbers)


def test_gradients_that_a_last_step_leaves_are_of_no_step(tmp_path):
    training = classifier(tmp_path / "torch", "torch")
    assert {tensor.step for step in read(training)[0].steps() for tensor in step.tensors if tensor.kind == "gradient"} == {0, 1, 2}


def test_what_neither_recording_has_is_said(tmp_path):
    for training, shared, own in ((llama, {"whole": False}, {}), (vit, FINGERPRINT, {"decay": 0.5})):
        difference = both(tmp_path / training.__name__, training, shared, own)
        assert difference
        assert ";" in difference.headline, "gradients without a model; an average of weights that no layer returns"
    complete = both(tmp_path / "complete", llama, {}, {})
    assert complete
    assert ";" not in complete.headline
