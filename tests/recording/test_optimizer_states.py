"""What optimizers keep for parameters: moments and master weights, behind each step."""

import numpy as np
import paddle
import pytest
import torch

import padiff_shim
from padiff_shim.recording.reading import merged, read

pytestmark = [pytest.mark.compat, pytest.mark.usefixtures("undone")]
X = np.arange(8, dtype="float32").reshape(2, 4) / 8
# Paddle's optimizer with its options, Torch's, and the states of both.
PAIRS = {
    "AdamW": ({"weight_decay": 0.01}, "AdamW", {}, {"moment1", "moment2"}),
    "Momentum": ({"momentum": 0.9}, "SGD", {"momentum": 0.9}, {"velocity"}),
    "Adagrad": ({"epsilon": 1e-10}, "Adagrad", {}, {"moment"}),
    "Adamax": ({}, "Adamax", {}, {"moment", "inf_norm"}),
    "Adadelta": ({"rho": 0.9}, "Adadelta", {}, {"avg_squared_grad", "avg_squared_update"}),
}


def weight():
    return np.random.default_rng(7).standard_normal((4, 3)).astype("float32")


def paddle_steps(folder, kind="AdamW", options=None, before=None, low=False):
    layer = paddle.nn.Linear(4, 3)
    layer.weight.set_value(paddle.to_tensor(weight()))
    layer.bias.set_value(paddle.zeros([3]))
    layer = layer.to(dtype="bfloat16") if low else layer
    optimizer = getattr(paddle.optimizer, kind)(0.1, parameters=layer.parameters(), **(options or {}))
    with padiff_shim.record(folder, layer, calls=False, layers=False, gradients=True, states=True):
        for step in range(2):
            layer(paddle.to_tensor(X).astype(layer.weight.dtype)).astype("float32").square().sum().backward()
            if before is not None and step == 1:
                before(layer, optimizer)
            optimizer.step()
            optimizer.clear_grad()
    return layer, optimizer


def torch_steps(folder, kind, options):
    layer = torch.nn.Linear(4, 3)
    layer.weight.data = torch.from_numpy(weight()).t().contiguous()
    torch.nn.init.zeros_(layer.bias)
    optimizer = getattr(torch.optim, kind)(layer.parameters(), lr=0.1, **options)
    with padiff_shim.record(folder, layer, calls=False, layers=False, gradients=True, states=True):
        for _ in range(2):
            layer(torch.from_numpy(X)).square().sum().backward()
            optimizer.step()
            optimizer.zero_grad()


def states(folder):
    return [tensor for tensor in merged(read(folder)[0].steps()).tensors if tensor.kind == "optimizer state"]


@pytest.mark.parametrize("kind", PAIRS)
def test_both_frameworks_pair_by_paddles_names(kind, tmp_path):
    options, twin, its_options, names = PAIRS[kind]
    paddle_steps(tmp_path / "paddle", kind, options)
    torch_steps(tmp_path / "torch", twin, its_options)
    recorded = [{(tensor.name, tensor.tensor, tensor.step) for tensor in states(tmp_path / side)} for side in ("paddle", "torch")]
    assert recorded[0] == recorded[1] == {(name, state, step) for name in ("weight", "bias") for state in names for step in (0, 1)}
    difference = padiff_shim.diff(tmp_path / "torch", tmp_path / "paddle", rtol=2e-5)  # Paddle rounds 1 - beta2 in float32
    assert difference, str(difference)
    assert sum(row.any.kind == "optimizer state" for row in difference.compared) == len(recorded[0])


def test_a_state_that_is_off_is_first_where_gradients_are_equal(tmp_path):
    def forgets(layer, optimizer):
        moment = optimizer._accumulators["moment1"][layer.weight.name]
        moment.set_value(moment * 0.5)

    paddle_steps(tmp_path / "a")
    paddle_steps(tmp_path / "again")
    paddle_steps(tmp_path / "b", before=forgets)
    assert padiff_shim.diff(tmp_path / "a", tmp_path / "again")
    difference = padiff_shim.diff(tmp_path / "a", tmp_path / "b")
    first = difference.first.any
    assert (first.kind, first.name, first.tensor, first.step) == ("optimizer state", "weight", "moment1", 1)
    assert [row.any.name for row in difference.differing] == ["weight"]
    assert (difference.reason.kind, difference.reason.numbers) == ("update", {"state": "moment1"})


def test_master_weights_are_those_of_the_optimizer(tmp_path):
    with padiff_shim.reference("torch"):  # Paddle has no such kernel of its own on a CPU
        layer, optimizer = paddle_steps(tmp_path, options={"multi_precision": True}, low=True)
    masters = [tensor for tensor in states(tmp_path) if tensor.tensor == "master_weight" and tensor.name == "weight"]
    assert [tensor.dtype for tensor in masters] == ["float32", "float32"]
    assert np.array_equal(masters[-1].values(), optimizer._master_weights[layer.weight.name].numpy())


def test_states_need_a_model(tmp_path):
    with pytest.raises(padiff_shim.ArgumentError, match="states=True needs model="):
        padiff_shim.record(tmp_path, states=True)
