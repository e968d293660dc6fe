"""What each run of a proof begins with: inputs as they were, generators, buffers; and what is put back."""

import random

import numpy as np
import paddle
import pytest
import torch
from helpers import classes

import padiff_shim
from padiff_shim.proof.programs import Inputs, ModelSide, ModelState, generators_restored, seeded

SQUARE = np.linspace(-1, 1, 9, dtype="float32").reshape(3, 3)


def drawn():
    """A number of each generator."""
    return paddle.rand([1]).item(), np.random.rand(), random.random(), torch.rand(1).item()


def test_generators_are_put_back_once_or_in_each_run():
    with generators_restored():
        wanted = drawn()
    with generators_restored():
        assert drawn() == wanted
    with seeded(3):
        numbers = drawn()
    assert numbers != wanted
    with generators_restored():
        with seeded(3):
            assert drawn() == numbers
        with seeded(3):
            assert drawn() == numbers
        drawn()
    with pytest.raises(ZeroDivisionError), generators_restored(), seeded(3):
        raise ZeroDivisionError
    assert drawn() == wanted


def test_a_proof_leaves_generators_where_they_stood():
    layer, module = paddle.nn.Linear(3, 3), torch.nn.Linear(3, 3)
    with generators_restored():
        wanted = drawn()
    assert padiff_shim.prove(layer, module, SQUARE)
    assert drawn() == wanted


@pytest.mark.parametrize("dtype", ["float32", "float64", "int64", "bool", "uint8"])
def test_inputs_are_kept_as_they_were(dtype):
    array = np.ones((2, 2), dtype)
    tensor = torch.from_numpy(np.ones((2, 2), "float64"))
    inputs = Inputs({"array": array, "tensors": [tensor, paddle.to_tensor(array), 7]})
    array[:] = 0
    tensor[:] = 0
    for framework in ("torch", "paddle"):
        for _ in range(2):
            _, keywords = inputs.of(framework, "float32")
            plain, (theirs, ours, seven) = keywords["array"], keywords["tensors"]
            assert plain.numpy().all()
            assert theirs.numpy().all()
            assert ours.numpy().all()
            assert seven == 7
            assert str(theirs.dtype).endswith("float64")
            assert str(plain.dtype).rpartition(".")[2] == ("float32" if "float" in dtype else dtype)
            plain.zero_()


def holding(model):
    return ModelState(model, layers_of, lambda held: dict(held.buffers), lambda buffer, value: None)


def layers_of(model):
    return [("", model), *model.named_sublayers()] if isinstance(model, paddle.nn.Layer) else list(model.named_modules())


@pytest.mark.parametrize("kind", ["torch", "paddle"])
def test_what_a_forward_exchanges_is_seen(kind):
    nn = torch.nn if kind == "torch" else paddle.nn
    model = nn.Sequential(nn.Linear(2, 2), nn.Sequential(nn.Linear(2, 2)))
    model.register_buffer("seen", torch.zeros(1) if kind == "torch" else paddle.zeros([1]))
    held = holding(model)

    def identities(named):
        return {name: id(tensor) for name, tensor in named}

    def look():
        held.refresh()
        assert identities(held.parameters.items()) == identities(model.named_parameters())
        assert identities(held.buffers.items()) == identities(model.named_buffers())
        assert [name for name, _ in held.layers] == [name for name, _ in layers_of(model)]

    look()
    model.seen = model.seen + 1
    look()
    model[0].weight = nn.Linear(2, 2).weight
    look()
    model[1].bias = None
    look()
    setattr(model[1], "0", nn.Linear(2, 3))
    look()
    model.more = nn.Linear(1, 1)
    look()
    model.more.register_buffer("late", model.seen)
    look()
    del model.more
    look()


class Told(torch.nn.Module):
    """A module that says itself what its parameters are."""

    def __init__(self):
        super().__init__()
        self.up, self.hidden = torch.nn.Linear(2, 2), True

    def named_parameters(self, *args, **kwargs):
        return ((name, tensor) for name, tensor in super().named_parameters(*args, **kwargs) if not self.hidden)


def test_a_layer_that_says_what_it_holds_is_asked_each_time():
    model = Told()
    held = holding(model)
    assert not held.parameters
    model.hidden = False
    held.refresh()
    assert list(held.parameters) == ["up.weight", "up.bias"]


@pytest.mark.parametrize("last", [1e-5, 1e-3], ids=["a right port", "another epsilon"])
def test_models_run_no_more_often_than_a_proof_needs(monkeypatch, last):
    """Both once, in evaluation, and for gradients of inputs, the port natively; a wrong one in float64, too, mended."""
    theirs, ours = (
        module.Sequential(module.Linear(4, 6), module.LayerNorm(6), module.Linear(6, 4), norm)
        for module, norm in ((torch.nn, torch.nn.LayerNorm(4)), (paddle.nn, paddle.nn.LayerNorm(4, epsilon=last)))
    )
    seen = []
    run = ModelSide._run
    monkeypatch.setattr(
        ModelSide, "_run", lambda self, *args, wide, **more: seen.append(wide) or run(self, *args, wide=wide, **more)
    )
    proof = padiff_shim.prove(ours, theirs, np.linspace(-0.1, 0.1, 12, dtype="float32").reshape(3, 4))
    assert bool(proof) is (last == 1e-5), str(proof)
    assert seen.count(False) <= (7 if proof else 4)
    assert seen.count(True) <= (0 if proof else 8)  # 7 where the dtypes of its calls have been asked before


@pytest.mark.slow
def test_rounding_that_changes_how_many_rows_a_call_gives_is_no_error():
    """In the run with rounding errors other rows are chosen: an unbind there has fewer results."""

    def chosen(h, x):
        return h[((h * 0.1) * 10.0 == h).any(-1) | (x.sum(-1) > 0)]

    def port(self, x):
        return sum(paddle.unbind(chosen(paddle.tanh(x), x), 0)) * 1.01

    def original(self, x):
        return sum(torch.unbind(chosen(torch.tanh(x), x), 0))

    Port, Original = classes(port, original)

    inputs = np.random.default_rng(0).standard_normal((40, 6)).astype("float32")
    proof = padiff_shim.prove(Port(), Original(), inputs, phase="forward")
    assert proof.verdict == "CODE_DIFFERS", str(proof)
    assert "1.01" in proof.mistakes[0].text
