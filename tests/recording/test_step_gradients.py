"""Gradients as an optimizer's step uses them, beside those that a backward leaves."""

import re

import numpy as np
import paddle
import pytest
import torch

import padiff_shim
from padiff_shim.recording.reading import merged, read

pytestmark = [pytest.mark.compat, pytest.mark.usefixtures("undone")]
X = np.arange(8, dtype="float32").reshape(2, 4)


def weights(folder, kind):
    return [tensor.values() for tensor in merged(read(folder)[0].steps()).tensors if (tensor.kind, tensor.name) == (kind, "weight")]


def paddle_step(folder, factor=2.0, clips="", inside=True, **options):
    """A step whose gradients the program multiplies, as a sum over ranks does."""
    layer = paddle.nn.Linear(4, 3)
    layer.weight.set_value(paddle.ones([4, 3]))
    made = {"norm": paddle.nn.ClipGradByGlobalNorm, "value": lambda most: paddle.nn.ClipGradByValue(max=most)}
    clip = made[clips](1.0) if clips and inside else None
    optimizer = paddle.optimizer.AdamW(0.1, parameters=layer.parameters(), grad_clip=clip)
    with padiff_shim.record(folder, layer, **({"gradients": True} | options if "values" not in options else options)):
        layer(paddle.to_tensor(X)).sum().backward()
        layer.weight.grad.set_value(layer.weight.grad * factor)
        if clips and not inside:
            getattr(paddle.nn.utils, f"clip_grad_{clips}_")(layer.parameters(), 1.0)
        optimizer.step()


def torch_step(folder, clips="", most=1.0, **options):
    layer = torch.nn.Linear(4, 3)
    torch.nn.init.ones_(layer.weight)
    torch.nn.init.zeros_(layer.bias)
    optimizer = torch.optim.AdamW(layer.parameters(), 0.1)
    with padiff_shim.record(folder, layer, **options):
        layer(torch.from_numpy(X)).sum().backward()
        layer.weight.grad *= 2
        if clips == "norm":
            torch.nn.utils.clip_grad_norm_(layer.parameters(), most)
        elif clips:
            torch.nn.utils.clip_grad_value_(layer.parameters(), 1.0)
        optimizer.step()
    assert torch.nn.utils.clip_grad_norm_.__wrapped__.__code__.co_names, "nothing of Torch stays redirected"


def test_a_sum_over_ranks_that_is_forgotten_is_the_first_difference(tmp_path):
    steps = {"summed": 2.0, "again": 2.0, "forgotten": 1.0}
    native = [vars(kind).get("step") for kind in (paddle.optimizer.Optimizer, paddle.optimizer.AdamW)]
    for name, factor in steps.items():
        paddle_step(tmp_path / name, factor, calls=False)
    assert [vars(kind).get("step") for kind in (paddle.optimizer.Optimizer, paddle.optimizer.AdamW)] == native
    (left,), (used,) = weights(tmp_path / "summed", "gradient"), weights(tmp_path / "summed", "step gradient")
    assert np.array_equal(2 * left, used)
    assert padiff_shim.diff(tmp_path / "summed", tmp_path / "again")
    difference = padiff_shim.diff(tmp_path / "summed", tmp_path / "forgotten")
    assert not difference
    assert (difference.first.any.kind, difference.first.any.name) == ("step gradient", "weight")
    assert not [row for row in difference.differing if row.any.kind == "gradient"]
    assert difference.reason.numbers["factor"] == pytest.approx(2)
    assert "sum over ranks" in difference.reason.text


PRESETS = {"values": {"gradients": True, "calls": False}, "calls": {"gradients": True}, "fingerprint": {"values": "fingerprint"}}


@pytest.mark.parametrize("preset", PRESETS)
@pytest.mark.parametrize("clips", ["norm", "value"])
@pytest.mark.parametrize("inside", [True, False], ids=["in step", "before step"])
def test_both_frameworks_pair_before_and_behind_their_clipping(clips, inside, preset, tmp_path):
    paddle_step(tmp_path / "paddle", clips=clips, inside=inside, **PRESETS[preset])
    torch_step(tmp_path / "torch", clips=clips, **PRESETS[preset])
    difference = padiff_shim.diff(tmp_path / "torch", tmp_path / "paddle", rtol=1e-6)
    assert difference, str(difference)
    paired = {kind: {row.any.name for row in difference.compared if row.any.kind == kind} for kind in ("step gradient", "note")}
    recorded = read(tmp_path / "torch")[0], read(tmp_path / "paddle")[0]
    if preset == "fingerprint":
        list(map(list, (recorded[0].steps(), recorded[1].steps())))
        kinds = [[(tensor.kind, tensor.name) for tensor in side.described if tensor.kind != "input"] for side in recorded]
        assert ("clipped gradient", "bias") in kinds[0]
        assert (("note", "gradient norm") in kinds[0]) is (clips == "norm")
        assert sorted(kinds[0]) == sorted(kinds[1])
    else:
        assert paired["step gradient"] == {"weight", "bias"}
        assert paired["note"] == ({"gradient norm"} if clips == "norm" else set())
        used, clipped = (weights(tmp_path / "paddle", kind)[0] for kind in ("step gradient", "clipped gradient"))
        assert np.abs(clipped).max() < np.abs(used).max()
        for side in recorded:
            calls = {tensor.name for tensor in merged(side.steps()).tensors if tensor.kind == "op"}
            assert calls <= {"linear", "sum", "scale", "multiply"}, "nothing of the clipping itself"


@pytest.mark.parametrize("preset", PRESETS)
def test_another_norm_is_seen_behind_the_clipping(preset, tmp_path):
    torch_step(tmp_path / "a", clips="norm", **PRESETS[preset])
    torch_step(tmp_path / "b", clips="norm", most=0.5, **PRESETS[preset])
    difference = padiff_shim.diff(tmp_path / "a", tmp_path / "b")
    assert difference.first.any.kind == "clipped gradient"
    assert difference.differing[0].apart.relative == pytest.approx(1, rel=1e-3)


def test_a_recording_without_them_is_not_silently_the_same(tmp_path):
    paddle_step(tmp_path / "new")
    paddle_step(tmp_path / "old")
    (path,) = (tmp_path / "old").glob("records-*.jsonl")
    lines = [line for line in path.read_text().splitlines(keepends=True) if '"step gradient"' not in line]
    records = sum('"type":"tensor"' in line for line in lines)
    path.write_text("".join([*lines[:-1], re.sub(r'"records":\d+', f'"records":{records}', lines[-1])]))
    difference = padiff_shim.diff(tmp_path / "old", tmp_path / "new")
    assert difference.one_sided == {"step gradient": "b"}
    assert "step gradient (b)" in difference.answer
    assert not difference.differing


def test_main_grad_comes_first_and_a_closure_is_awaited(tmp_path):
    layer = paddle.nn.Linear(4, 3)
    optimizer = paddle.optimizer.SGD(0.1, parameters=layer.parameters())
    with padiff_shim.record(tmp_path / "main", layer, gradients=True):
        layer(paddle.to_tensor(X)).sum().backward()
        layer.weight.main_grad = layer.weight.grad * 3
        optimizer.step()
    assert np.array_equal(weights(tmp_path / "main", "step gradient")[0], layer.weight.grad.numpy() * 3)
    original = torch.nn.Linear(4, 3)
    lbfgs = torch.optim.SGD(original.parameters(), 0.1)
    with padiff_shim.record(tmp_path / "closure", original, gradients=True):
        lbfgs.step(lambda: original(torch.from_numpy(X)).sum().backward())
    assert not weights(tmp_path / "closure", "step gradient")


def trained(folder, framework, frozen=(), **options):
    """A step of two layers in either framework; parameters in ``frozen`` get no gradient."""
    paddle_side = framework == "paddle"
    nn = paddle.nn if paddle_side else torch.nn
    model = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 3))
    for name, parameter in model.named_parameters():
        values = np.full(parameter.shape, 0.5, "float32")
        if paddle_side:
            parameter.set_value(paddle.to_tensor(values))
            parameter.stop_gradient = name in frozen
        else:
            parameter.data = torch.from_numpy(values)
            parameter.requires_grad = name not in frozen
    optimizer = (paddle.optimizer.SGD if paddle_side else torch.optim.SGD)(parameters=model.parameters()) if paddle_side else None
    optimizer = optimizer or torch.optim.SGD(model.parameters(), 0.001)
    with padiff_shim.record(folder, model, **options):
        model(paddle.to_tensor(X) if paddle_side else torch.from_numpy(X)).sum().backward()
        optimizer.step()


@pytest.mark.parametrize("options", [{"gradients": True, "calls": False}, {"values": "fingerprint"}], ids=["values", "fingerprint"])
def test_a_gradient_that_one_framework_lacks_is_a_difference(options, tmp_path):
    trained(tmp_path / "torch", "torch", **options)
    trained(tmp_path / "paddle", "paddle", **options)
    assert padiff_shim.diff(tmp_path / "torch", tmp_path / "paddle", rtol=1e-5)
    trained(tmp_path / "frozen", "paddle", frozen=["1.bias"], **options)
    difference = padiff_shim.diff(tmp_path / "torch", tmp_path / "frozen", rtol=1e-5)
    assert not difference
    lacking = {row.any.name for row in difference.differing if row.b is None}
    assert lacking == {"1.bias"}, str(difference)
