"""Vision models in both frameworks with equal weights: one step, from the same gradient of the logits."""

import sys
from pathlib import Path

import numpy as np
import paddle
import pytest
import torch
from helpers import same

import padiff_shim

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "examples"))
from zoo import pairs

MODELS = ["resnet", "densenet", "mobilenet", "unet"]


def step(model, images, arriving, tensor):
    logits = model(tensor(images))
    logits.backward(tensor(arriving))
    return logits.detach()


@pytest.mark.compat
@pytest.mark.bitexact
@pytest.mark.parametrize("training", [True, False], ids=["train", "eval"])
@pytest.mark.parametrize("name", MODELS)
def test_one_step(name, training):
    pair = pairs.build(name, "float32")
    images = pair.arrays["images"]
    for model in (pair.paddle, pair.torch):
        model.train() if training else model.eval()
    arriving = np.random.default_rng(1).standard_normal(pair.torch(torch.from_numpy(images)).shape).astype("float32")
    pair = pairs.build(name, "float32")  # the running statistics are as they were
    for model in (pair.paddle, pair.torch):
        model.train() if training else model.eval()
    with padiff_shim.reference("torch", strict=True) as run:
        ours = step(pair.paddle, images, arriving, paddle.to_tensor)
    theirs = step(pair.torch, images, arriving, torch.from_numpy)
    assert same(ours, theirs)
    parameters, state = dict(pair.paddle.named_parameters()), pair.paddle.state_dict()
    for path, parameter in pair.torch.named_parameters():
        gradient = parameter.grad.t().contiguous() if path in pair.turned else parameter.grad
        assert same(parameters[pairs.paddle_name(path)].grad, gradient), path
    for path, buffer in pair.torch.named_buffers():
        if path.endswith("running_mean"):
            assert same(state[pairs.paddle_name(path)], buffer), path
    assert run.substituted["conv2d"] > 10
    assert run.substituted["group_norm" if name == "unet" else "batch_norm"] > 8
