"""Proofs of ports that lie on several ranks: right ones are proven, and of a fault its layer, its line and its cause are named."""

import json

import numpy as np
import paddle
import pytest
import ranks
import torch
from helpers import ROOT, classes

import padiff_shim
from padiff_shim import ArgumentError, FileError

CORRECT, DIFFERS, WEIGHTS, UNKNOWN = "CODE_CORRECT_WITHIN_ROUNDING", "CODE_DIFFERS", "WEIGHTS_DIFFER", "NOT_COMPARABLE"
SUM, BIAS, ORDER = "a sum over ranks is missing", "each rank adds the bias", "slices in another order"
GRADIENTS, FACTOR, RESULT = "gradients are not combined over ranks", "gradients by another factor", "another result of the ranks"
# A layout and its fault -> the layer of the first difference, a word of its line's source, and the cause.
FAULTS = {
    "tensor-bias": ("blocks.0.down", "self.bias", BIAS),
    "tensor-reduce": ("blocks.1.down", "partial", SUM),
    "tensor-backward": ("blocks.1.norm", "", SUM),
    "attention-scale": ("attention", "divisor", RESULT),
    "fused-order": ("gated", "silu", RESULT),
    "data-sum": ("blocks.1.down", "", FACTOR),
    "data-alone": ("blocks.0.up", "", GRADIENTS),
    "data-none": ("blocks.1.down", "", GRADIENTS),
    "reducer-around": ("blocks.1.down", "", GRADIENTS),
    "experts-gate": ("mixture.gate", "", GRADIENTS),
    "pipeline-scale": ("head", "", FACTOR),
    "pipeline-sent": ("blocks.0.down", "", FACTOR),
    "scaled-buffer": ("", "self.factors", RESULT),
}
QUICK_RIGHT, QUICK_FAULTS = ["attention"], ["tensor-bias", "data-alone"]
RIGHT = [
    "tensor",
    "reducer",
    "fused",
    "fused-rule",
    "data",
    "experts",
    "pipeline",
    "inside",
    "scaled",
    "scaled-adds",
    "scaled-rounded",
]
OTHERS = {"tensor-order": WEIGHTS, "experts-order": WEIGHTS, "scaled-drawn": UNKNOWN}


def proofs(folder, names, number=2):
    """Name -> the proof that all ranks have got."""
    ranks.run([ROOT / "tests" / "rank_proofs.py", folder, *names], number)
    by_rank = [{name: json.loads((folder / f"{name}-rank{rank}.json").read_text()) for name in names} for rank in range(number)]
    assert all(other == by_rank[0] for other in by_rank)
    return by_rank[0]


def is_right(proof, number=2):
    assert proof["verdict"] == CORRECT, proof["headline"]
    assert proof["right"]
    assert proof["ranks"] == number
    assert not proof["mistakes"]
    assert proof["first"] is None
    assert 0 < proof["differences"]["float64"] < 1e-14 < proof["differences"]["float32"] < 1e-5
    assert all(stage["right"] for stage in proof["stages"])
    assert {"weights", "forward", "backward"} <= {stage["name"] for stage in proof["stages"]}


def is_wrong(proof, name):
    layer, source, cause = FAULTS[name]
    assert proof["verdict"] == DIFFERS, proof["headline"]
    assert not proof["right"]
    (mistake,) = proof["mistakes"]
    assert (mistake["cause"], mistake["layers"]) == (cause, [layer])
    assert source in (mistake["paddle"] or {"source": ""})["source"]


@pytest.fixture(scope="module")
def quick(tmp_path_factory):
    return proofs(tmp_path_factory.mktemp("proofs"), [*QUICK_RIGHT, *QUICK_FAULTS])


@pytest.fixture(scope="module")
def further(tmp_path_factory):
    return proofs(tmp_path_factory.mktemp("proofs"), [*RIGHT, *(name for name in FAULTS if name not in QUICK_FAULTS), *OTHERS])


@pytest.mark.parametrize("name", QUICK_RIGHT)
def test_a_right_port_is_proven(quick, name):
    is_right(quick[name])


@pytest.mark.parametrize("name", QUICK_FAULTS)
def test_a_fault_is_named(quick, name):
    is_wrong(quick[name], name)


@pytest.mark.slow
@pytest.mark.parametrize("name", RIGHT)
def test_further_right_layouts_are_proven(further, name):
    is_right(further[name])


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in FAULTS if name not in QUICK_FAULTS])
def test_further_faults_are_named(further, name):
    is_wrong(further[name], name)


@pytest.mark.slow
@pytest.mark.parametrize("name", OTHERS)
def test_weights_and_random_numbers_accuse_no_code(further, name):
    assert further[name]["verdict"] == OTHERS[name], further[name]["headline"]
    assert not further[name]["mistakes"]


@pytest.mark.slow
def test_what_differs_in_weights_is_named(further):
    assert "1, 0" in further["tensor-order"]["reason"]
    assert "as mixture.experts.2.weight" in further["experts-order"]["reason"]


@pytest.mark.slow
def test_four_ranks(tmp_path):
    """Tensor parallelism with shares of the batch, or in stages, and experts in pairs whose gradients are summed across."""
    right, wrong = ("tensor", "experts", "grid"), ("tensor-bias", "experts-gate")
    answers = proofs(tmp_path, [*right, *wrong], 4)
    for name in right:
        is_right(answers[name], 4)
    for name in wrong:
        is_wrong(answers[name], name)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("fault", "error", "others"),
    [("raises", "ValueError: no such word", "rank 1 failed: ValueError: no such word"), ("killed", "", "rank 1 has ended")],
)
def test_a_rank_that_fails_ends_the_others(tmp_path, fault, error, others):
    first, second = ranks.ended([ROOT / "tests" / "rank_proofs.py", tmp_path, f"scaled-{fault}"])
    assert first.returncode
    assert second.returncode
    assert f"PadiffShimError: {'the process of ' if not error else ''}{others}" in first.stdout
    assert error in second.stdout


# ---- One process.


def pair():
    port, original = paddle.nn.Linear(4, 3), torch.nn.Linear(4, 3)
    padiff_shim.transfer_weights(original, port)
    return port, original


def loss(y):
    return (y**2).mean()


def test_a_layer_is_afterwards_what_it_was(tmp_path):
    port, original = pair()
    loss(port(paddle.ones([2, 4]))).backward()
    held = [(parameter, parameter.data_ptr(), parameter.numpy(), parameter.grad.numpy()) for parameter in port.parameters()]
    proof = padiff_shim.prove_sharded(port, original, np.eye(4), loss=loss, folder=tmp_path / "kept")
    assert proof.equal, proof.answer
    assert json.loads(json.dumps(proof.to_dict()))["ranks"] == 1
    for parameter, address, values, gradient in held:
        assert parameter.data_ptr() == address
        assert str(parameter.dtype) == "paddle.float32"
        np.testing.assert_array_equal(parameter.numpy(), values)
        np.testing.assert_array_equal(parameter.grad.numpy(), gradient)
    assert {folder.name for folder in (tmp_path / "kept").iterdir() if folder.is_dir()} == {
        f"{side}-{dtype}" for side in ("port", "original") for dtype in ("native", "float64")
    }
    with pytest.raises(FileError, match="is not empty"):
        padiff_shim.prove_sharded(port, original, np.eye(4), loss=loss, folder=tmp_path / "kept")


def test_a_small_mistake_in_a_model_of_float64():
    port, original = pair()
    wide = port.to(dtype="float64"), original.to(torch.float64)
    assert padiff_shim.prove_sharded(*wide, np.eye(4), loss=loss)
    losses = (lambda y: loss(y) * (1 + 1e-9), loss)
    assert str(padiff_shim.prove_sharded(*wide, np.eye(4), loss=losses).verdict) == DIFFERS


def test_a_gradient_that_the_port_lacks():
    port, original = pair()
    port.bias.stop_gradient = True
    proof = padiff_shim.prove_sharded(port, original, np.eye(4), loss=loss)
    assert "bias" in proof.answer
    assert str(proof.verdict) == DIFFERS


def test_a_mistake_has_its_layer():
    port, original = pair()
    wrong = paddle.nn.Sequential(port, paddle.nn.ReLU())
    model = torch.nn.Sequential(original, torch.nn.GELU())
    proof = padiff_shim.prove_sharded(wrong, model, np.eye(4), loss=loss)
    assert proof.mistakes[0].layers == ("1",)


def test_a_call_in_fewer_digits_is_a_mistake_though_float64_agrees():
    class Half(paddle.nn.Linear):
        def forward(self, x):
            return super().forward(x.astype("float32")).astype("bfloat16").exp().astype("float32")

    class Whole(torch.nn.Linear):
        def forward(self, x):
            return super().forward(x).exp()

    port, original = Half(4, 3), Whole(4, 3)
    padiff_shim.transfer_weights(original, port)
    proof = padiff_shim.prove_sharded(port, original, np.eye(4), loss=loss)
    assert str(proof.verdict) == DIFFERS, proof.answer
    assert (str(proof.mistakes[0].cause), proof.first.a.name) == ("another dtype", "exp")


def test_gradients_that_hooks_add_up_in_float32():
    port, original = pair()
    for parameter in port.parameters():
        parameter.main_grad = paddle.ones(parameter.shape)

        def hook(gradient, parameter=parameter):
            wide = gradient.astype("float32")
            parameter.main_grad = wide if parameter.main_grad is None else parameter.main_grad + wide
            return gradient

        parameter.register_hook(hook)
    assert padiff_shim.prove_sharded(port, original, np.eye(4), loss=loss)
    assert all((parameter.main_grad.numpy() == 1).all() for parameter in port.parameters())


def normed(self, x):
    return self.norm(self.up(x))


def original_normed(self, x):
    return self.norm(self.up(x))


Normed, OriginalNormed = classes(normed, original_normed, up=("Linear", 4, 3), norm=("BatchNorm1D", 3))
Llama, OriginalLlama = classes(lambda self, x: self.llama(x), lambda self, x: self.model(x))


def test_running_statistics_are_weights_and_stay_what_they_were():
    port, original = Normed(), OriginalNormed()
    padiff_shim.transfer_weights(original, port)
    before = {name: value.numpy() for name, value in port.state_dict().items()}
    assert padiff_shim.prove_sharded(port, original, np.eye(4), loss=loss)
    for name, value in port.state_dict().items():
        np.testing.assert_array_equal(value.numpy(), before[name], name)
    port.eval()
    assert str(padiff_shim.prove_sharded(port, original, np.eye(4), loss=loss).verdict) == UNKNOWN
    original.eval()
    assert padiff_shim.prove_sharded(port, original, np.eye(4), loss=loss)
    original.norm.running_var *= 2
    proof = padiff_shim.prove_sharded(port, original, np.eye(4), loss=loss)
    assert str(proof.verdict) == WEIGHTS
    assert "norm.running_var" in proof.reason


class Inside(torch.nn.Module):
    def __init__(self, layer):
        super().__init__()
        self.deep = torch.nn.ModuleDict({"up": layer})

    def forward(self, x):
        return self.deep["up"](x)


def test_names_of_weights_that_differ_from_the_originals():
    port, original = pair()
    names = {name: f"deep.up.{name}" for name in ("weight", "bias")}
    assert padiff_shim.prove_sharded(port, Inside(original), np.eye(4), loss=loss, names=names)
    with torch.no_grad():
        original.bias += 1
    assert str(padiff_shim.prove_sharded(port, Inside(original), np.eye(4), loss=loss).verdict) == UNKNOWN
    assert str(padiff_shim.prove_sharded(port, Inside(original), np.eye(4), loss=loss, names=names).verdict) == WEIGHTS


def test_names_of_outermost_layers_that_differ_from_the_originals():
    port, original = Normed(), OriginalNormed()
    padiff_shim.transfer_weights(original, port)
    assert padiff_shim.prove_sharded(Llama(llama=port), OriginalLlama(model=original), np.eye(4), loss=loss)
    port.up.weight.set_value(port.up.weight * 2)
    assert str(padiff_shim.prove_sharded(Llama(llama=port), OriginalLlama(model=original), np.eye(4), loss=loss).verdict) == WEIGHTS


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"loss": None}, "loss= is a function"),
        ({"shards": {"w": "half"}}, "shards= maps patterns"),
        ({"names": 3}, "names= is a table"),
        ({"step": 3}, "step= is a function"),
        ({"timeout": 0}, "timeout= is a number of seconds"),
    ],
)
def test_arguments_that_are_refused(wrong, message):
    with pytest.raises(ArgumentError, match=message):
        padiff_shim.prove_sharded(*pair(), np.eye(4), **{"loss": loss, **wrong})
