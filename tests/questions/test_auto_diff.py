"""PaDiff's calls, of its published versions, and what they are answered with."""

import functools
import re

import forked
import numpy as np
import paddle
import pytest
import torch
from helpers import ROOT

from padiff_shim import ArgumentError, UnknownNameError, auto_diff, prove
from padiff_shim.questions import auto_diff as module

pytestmark = pytest.mark.compat


def residual(base, nn, change=lambda output: output):
    class Residual(base):
        def __init__(self):
            super().__init__()
            self.inner, self.head, self.act = nn.Linear(12, 12), nn.Linear(12, 5), nn.ReLU()

        def forward(self, x):
            return change(self.head(self.act(self.inner(x)) + x))

    return Residual()


def pair(change=lambda output: output):
    return residual(paddle.nn.Layer, paddle.nn, change), residual(torch.nn.Module, torch.nn)


def inputs(*names, shape=(6, 12)):
    values = np.random.default_rng(0).random(shape).astype("float32")
    return tuple({name: tensor(values) for name in names or ("x",)} for tensor in (paddle.to_tensor, torch.tensor))


def adams(port, original, rates=(0.001, 0.001)):
    ours = paddle.optimizer.Adam(learning_rate=rates[0], parameters=port.parameters())
    return [ours, torch.optim.Adam(lr=rates[1], params=original.parameters())]


def flipped(output):
    return output.flip([1])  # all means stay


@pytest.mark.rows(1)
@pytest.mark.parametrize(("change", "right"), [(lambda output: output, True), (flipped, False)])
def test_the_calls_of_both_versions(change, right, capsys):
    port, original = pair(change)
    assert auto_diff(port, original, inputs(), auto_weights=True, options={"atol": 1e-4}) is right
    assert auto_diff(port, original, inputs(), True, {"diff_phase": "forward", "compare_mode": "strict"}) is right
    assert auto_diff(original, port, inputs()[::-1], auto_init=True, atol=1e-4, rtol=0, single_step=True) is right
    assert auto_diff(base_model=original, raw_model=port, inputs=inputs()[::-1]) is right
    assert auto_diff(layer=port, module=original, example_inp=inputs(), layer_map={}) is right
    words = [line for line in capsys.readouterr().out.splitlines() if line.endswith("!!!")]
    assert words == [f"[AutoDiff] {'SUCCESS' if right else 'FAILED'} !!!"] * 5


def test_the_answer_is_the_proofs(capsys):
    port, original = pair(lambda output: output * 2)
    assert auto_diff(port, original, inputs()) is False
    assert prove(port, original, inputs()[0]).headline in capsys.readouterr().out


@pytest.fixture
def proving(monkeypatch):
    """What `prove` is called with."""
    calls = []
    monkeypatch.setattr(module, "prove", lambda *args, **words: calls.append((args, words)))
    return calls


def test_whose_weights_are_taken(proving):
    """The older form takes the Torch module's, the newer one the first model's."""
    port, original = pair()
    for weights, call in {
        "torch->paddle": [
            lambda: auto_diff(port, original, inputs()),
            lambda: auto_diff(port, original, inputs(), True, {"atol": 1}),
            lambda: auto_diff(layer=port, module=original, example_inp=inputs(), options={"atol": 1}),
            lambda: auto_diff(original, port, inputs()[::-1], atol=1),
        ],
        "paddle->torch": [
            lambda: auto_diff(port, original, inputs(), atol=1),
            lambda: auto_diff(base_model=port, raw_model=original, inputs=inputs(), auto_init=True),
        ],
        "as-is": [
            lambda: auto_diff(port, original, inputs(), False),
            lambda: auto_diff(original, port, inputs()[::-1], auto_init=False),
        ],
    }.items():
        for ask in call:
            ask()
            args, words = proving.pop()
            assert args[:2] == (port, original)
            assert words["weights"] == weights


def test_pairs_in_the_order_of_the_models(proving):
    port, original = pair()
    losses, arrays = [lambda output: 1, lambda output: 2], inputs()
    auto_diff(original, port, arrays[::-1], losses)
    args, words = proving.pop()
    assert words["loss"] == (losses[1], losses[0])
    assert [args[2](framework) for framework in ("paddle", "torch")] == list(arrays)


def test_layers_by_objects_and_names(proving):
    port, original = pair()
    for layer_map in ({port.inner: original.inner}, {original.inner: port.inner}, {"inner": "inner"}):
        auto_diff(port, original, inputs(), layer_map=layer_map)
        assert proving.pop()[1]["layer_map"] == {"inner": "inner"}


def test_a_tolerance_is_kept_to_the_letter():
    port, original = pair(lambda output: output + 1e-3)
    assert auto_diff(port, original, inputs(), atol=1.1e-3, diff_phase="forward") is True
    assert auto_diff(port, original, inputs(), atol=0.9e-3, rtol=0, diff_phase="forward") is False
    assert auto_diff(port, original, inputs(), diff_phase="forward") is False


def test_losses():
    label = np.random.default_rng(1).random((6, 5)).astype("float32")
    losses = [
        functools.partial(paddle.nn.MSELoss(), label=paddle.to_tensor(label)),
        functools.partial(torch.nn.MSELoss(), target=torch.tensor(label)),
    ]
    assert auto_diff(*pair(), inputs(), loss_fn=losses) is True
    assert auto_diff(*pair(), inputs(), loss_fn=[lambda output: 1.5 * output.mean(), losses[1]]) is False


def test_trainings():
    """By copies of new optimizers: the caller's models and optimizers stay as they are."""
    port, original = pair()
    before = port.head.weight.numpy()
    optimizers = adams(port, original)
    for _ in range(2):
        assert auto_diff(port, original, inputs(), optimizer=optimizers, steps=3) is True
    assert auto_diff(original, port, inputs()[::-1], optimizers=optimizers[::-1], steps=1) is True
    assert auto_diff(port, original, inputs(), optimizer=adams(port, original, (0.001, 0.002)), steps=2) is False
    assert (port.head.weight.numpy() == before).all()
    optimizers[0].step()


def stepped(port, original):
    optimizers = adams(port, original)
    port(inputs()[0]["x"]).sum().backward()
    optimizers[0].step()
    return optimizers


@pytest.mark.parametrize(
    ("words", "named"),
    [
        ({"options": {"atol": 1}, "atol": 2}, "atol="),
        ({"auto_weights": True, "auto_init": True}, "auto_init="),
        ({"options": 3}, "options="),
        ({"compare_mode": "mean"}, "equal= of prove"),
        ({"diff_phase": "backward"}, "Accepted: both, forward"),
        ({"atol": -1}, "atol="),
        ({"rtol": "1e-3"}, "rtol="),
        ({"steps": 0}, "steps="),
        ({"single_step": 1}, "single_step="),
        ({"auto_weights": "yes"}, "auto_init="),
        ({"loss_fn": lambda output: output}, "loss_fns="),
        ({"optimizer": [lambda: None] * 2}, "optimizer=function"),
        ({"layer_map": [1]}, "layer_map="),
        ({"layer_map": {"inner": "iner"}}, "inner"),
        ({"inputs": 3, "example_inp": 4}, "example_inp="),
    ],
)
def test_refusals(words, named):
    port, original = pair()
    with pytest.raises(ArgumentError, match=named):
        auto_diff(**{"layer": port, "module": original, **({} if "inputs" in words else {"example_inp": inputs()}), **words})


def test_refused_models_and_optimizers():
    port, original = pair()
    with pytest.raises(ArgumentError, match="record and diff"):
        auto_diff(port, port, inputs())
    with pytest.raises(ArgumentError, match="call it"):
        auto_diff(port, torch.nn.Linear, inputs())
    with pytest.raises(ArgumentError, match="inputs="):
        auto_diff(port, original)
    with pytest.raises(UnknownNameError, match="'atol'"):
        auto_diff(port, original, inputs(), atoll=1)
    with pytest.raises(ArgumentError, match="atol= and rtol="):
        auto_diff(port, original, inputs(), optimizer=adams(port, original), atol=1)
    with pytest.raises(ArgumentError, match="pass a new one"):
        auto_diff(port, original, inputs(), optimizer=stepped(port, original))


def test_the_program_of_the_page(tmp_path):
    page = (ROOT / "docs/prove.md").read_text(encoding="utf-8").partition("## Calls of PaDiff")[2].partition("## What it")[0]
    blocks = re.findall(r"^```(\w*)\n(.*?)^```", page, re.DOTALL | re.MULTILINE)
    (tmp_path / "example.py").write_text(blocks[0][1], encoding="utf-8")
    printed = forked.run(["example.py"], cwd=tmp_path, COLUMNS="300", warm=True).stdout
    assert [line for _, output in blocks[1:] for line in output.splitlines() if line not in printed] == []
