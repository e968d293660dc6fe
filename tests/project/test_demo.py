"""The demo's Transformer: gradients under the shim are the Torch twin's at every step, and the demo says so."""

import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import paddle
import pytest
import torch
from helpers import PATIENCE

import padiff_shim

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "examples"))

import digits_paddle  # noqa: E402
import digits_torch  # noqa: E402
import run_demo  # noqa: E402
from digits_data import Config, load_data  # noqa: E402

SMALL = Config(epochs=1, batch_size=256, layers=2, width=16)


@pytest.mark.bitexact
def test_gradients_of_tied_layers_are_the_twins():
    """Each weight gets four contributions, one depth is used by four ops: the order of the sums decides the last bits."""
    layer, twin = digits_paddle.EncoderLayer(SMALL), digits_torch.EncoderLayer(SMALL)
    digits_torch.load_paddle_state(twin, run_demo.paddle_state(layer))
    values = np.random.default_rng(0).standard_normal((8, 8, SMALL.width), dtype=np.float32)

    def deep(layer, x):
        depths = [x]
        for _ in range(4):
            depths.append(layer(depths[-1]))
        shared = depths[1]
        return ((shared * depths[2] + shared * depths[3] + shared * depths[4]) ** 2).mean()

    with padiff_shim.reference("torch"):
        deep(layer, paddle.to_tensor(values)).backward()
    deep(twin, torch.tensor(values)).backward()
    turned = digits_torch.turned(twin)
    for name, parameter in layer.named_parameters():
        theirs = twin.get_parameter(name).grad
        assert parameter.grad.numpy().tobytes() == (theirs.t() if name in turned else theirs).numpy().tobytes(), name


def test_other_weights_are_not_called_identical():
    model, twin = digits_paddle.build_model(SMALL), digits_torch.build_model(SMALL)
    digits_torch.load_paddle_state(twin, run_demo.paddle_state(model))
    with torch.no_grad():
        twin.embed.weight[0, 0] += 1.0
    with padiff_shim.reference("torch"):
        same = run_demo.same_gradients(model, twin, load_data(), SMALL)
    assert same.shared < same.of
    assert same.whole < same.of


@pytest.mark.slow
@pytest.mark.bitexact
def test_the_demo_compares_gradients():
    command = [sys.executable, str(ROOT / "examples" / "run_demo.py"), "--epochs", "1"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=PATIENCE)
    assert done.returncode == 0, done.stdout + done.stderr
    row = re.search(r"from the same gradient of the logits +(\d+) of (\d+) +(\d+) of (\d+)", done.stdout)
    assert row, done.stdout
    _, natively, ours, all_of_them = map(int, row.groups())
    assert natively == ours == all_of_them
    assert "DIFFERENT" not in done.stdout
