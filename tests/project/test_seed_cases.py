"""The accuracy cases that users reported: under the shim nothing differs from Torch.

Where native Paddle differs is a fact of the machine (MKL, the instruction set), so nothing here presumes it.
"""

import functools
import io
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import paddle
import pytest
import torch
from helpers import PATIENCE, sampled
from rich.console import Console

import padiff_shim
from padiff_shim.frameworks.versions import IS_3, VERSION
from padiff_shim.verdicts import Verdict

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "examples"))

import demo_seeds  # noqa: E402
from seeds import report, seed_000, seed_001, seed_002, seed_003  # noqa: E402
from seeds.compare import Case, Steps, measure  # noqa: E402
from seeds.config import Ctrl  # noqa: E402
from seeds.ctrl_paddle import CtrlPaddle  # noqa: E402
from seeds.ctrl_torch import CtrlTorch, positional_encoding  # noqa: E402
from seeds.weights import build_twins, trained_like  # noqa: E402

pytestmark = [pytest.mark.compat, pytest.mark.bitexact]

NARROW = Ctrl(width=64, feed_forward=128, vocabulary=128)
CASES = {
    **seed_000.cases(NARROW),
    **seed_001.cases(),
    **seed_002.cases(NARROW),
    **seed_003.cases(),
}
CTRL = {title for title in CASES if "CTRL" in title}
REFORMER = {title for title in CASES if "Reformer" in title}


@functools.cache
def result(title):
    """Each case is measured once, whichever test comes first."""
    return measure(title, CASES[title]())


def natively_different(title):
    return {row.step for row in result(title).rows if row.native.max > 0}


@pytest.mark.every_row
@pytest.mark.parametrize("title", sampled(CASES, 2))
def test_every_step_is_torchs_under_the_shim(title):
    judged = result(title).judged
    assert judged
    assert [row for row in judged if not row.shim.identical] == []


@pytest.mark.rows(2)
@pytest.mark.parametrize("title", sorted(CTRL))
def test_ctrl_differs_nowhere_before_the_first_layer(title):
    assert len(result(title).rows) == NARROW.layers + 3  # the embeddings, the layers, logits and loss
    states = {f"hidden state {number}" for number in range(1, NARROW.layers + 1)}
    assert natively_different(title) <= {*states, "logits", "loss"}


@pytest.mark.parametrize("title", sorted(REFORMER))
def test_reformer_differs_nowhere_but_where_it_rounds(title):
    """0 in the report's table: the embeddings, which both streams of the first layer start from, indices and masks."""
    steps = {row.step for row in result(title).rows}
    moved = {step for step in steps if isinstance(step, int) and (step in (0, 19, 21) or step % 26 in (9, 11))}
    assert natively_different(title) <= steps - moved
    assert len(steps) == (54 if "Reformer-2" in title else 15)


@pytest.mark.parametrize("title", seed_001.cases())
def test_kernels_suspected_by_001_are_innocent(title):
    """Both kernels round as well as their sums allow; only Paddle's sums over an axis are worse, which is a known difference."""
    with padiff_shim.compare("torch") as run:
        CASES[title]().paddle(Steps())
    assert len(run.calls)
    accused = [call for call in run.calls if call.verdict not in (Verdict.EQUAL, Verdict.ROUNDING)]
    assert {(call.verdict, call.quirk) for call in accused} <= {(Verdict.LOW_ACCURACY, "sequential sum")}, run


def test_scalars_in_float64_differ_natively():
    """On every machine: Paddle rounds the number to float32, and operators that round once have one right result."""
    steps = {"np.sqrt(80) / x", "abs(x) ** np.sqrt(80)"}
    if VERSION < (3, 3):  # the product with the rounded reciprocal
        steps |= {"x / np.sqrt(80)"}
    if not IS_3:
        steps |= {"x + np.sqrt(80)", "x - np.sqrt(80)"}
    title = "000: division by np.sqrt(80), float64"
    assert natively_different(title) == steps
    (power,) = (row for row in result(title).rows if row.step == "abs(x) ** np.sqrt(80)")
    assert power.native.max > 1e-3


def test_positions_are_judged_with_their_sines():
    case = result("000: positional encoding, float64")
    assert {row.step for row in case.rows if row.aside} == {"table of each framework"}
    assert all(row.shim.max == 0 for row in case.rows if row.step in ("sin", "cos"))


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_gradients_of_ctrls_last_layer_are_torchs(dtype):
    """Beyond it Paddle's engine adds the gradients of query, key, value and residual in another order than Torch's."""
    config = NARROW._replace(layers=2)
    table = positional_encoding(config.positions, config.width, getattr(torch, dtype)).numpy()
    model, twin = build_twins(lambda: CtrlPaddle(config, table), lambda: CtrlTorch(config), trained_like, dtype, seed=5)
    ids = np.random.default_rng(5).integers(0, config.vocabulary, (2, 24))
    twin(torch.from_numpy(ids), torch.ones(2, 24), lambda step, x: x).backward()
    turned = {f"{name}.weight" for name, module in twin.named_modules() if isinstance(module, torch.nn.Linear)}
    theirs = {name: parameter.grad.T if name in turned else parameter.grad for name, parameter in twin.named_parameters()}

    with padiff_shim.reference("torch"):
        model(paddle.to_tensor(ids), paddle.ones([2, 24]), lambda step, x: x).backward()
    shim = {name: parameter.grad.numpy() for name, parameter in model.named_parameters()}
    last = [name for name in theirs if name.startswith(("layers.1.", "norm.", "head.")) and "norm1" not in name]
    assert len(last) == 18
    assert [name for name in last if not np.array_equal(shim[name], theirs[name].numpy())] == []


def test_demo_fails_on_a_step_that_differs():
    """The last bit of one number is enough; a step set aside is not judged."""
    above_one = np.nextafter(np.ones(3), 2)
    nearly = Case(
        lambda steps: steps.note("a", paddle.to_tensor(above_one)),
        lambda steps: steps.note("a", torch.ones(3, dtype=torch.float64)),
    )
    console = Console(record=True, width=80, file=io.StringIO())
    failed = measure("nearly", nearly)
    assert not demo_seeds.conclude(console, [failed, result("001: example 3, N(0, 1)")])
    assert demo_seeds.conclude(console, [result("001: example 3, N(0, 1)")])
    assert not demo_seeds.conclude(console, [measure("aside", Case(nearly.paddle, nearly.torch, {"a": "why"}))])
    report.print_steps(console, failed, demo_seeds.plain)
    text = console.export_text()
    assert "Under the shim 1 of 2 rows are exactly 0" in text
    assert "max dif:  2.220446049250313e-16   2.220446049250313e-16" in text
    assert "Not counted: a: why." in text


@pytest.mark.slow
def test_demo_runs():
    """As `make demo-seeds` does."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    command = [sys.executable, str(ROOT / "examples" / "demo_seeds.py")]
    done = subprocess.run(command, env=environment, cwd=ROOT, capture_output=True, text=True, timeout=PATIENCE)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    assert "Under the shim 368 of 368 rows are exactly 0" in done.stdout
    assert "mean dif" not in done.stdout, "steps are shown with --verbose"
    assert "\x1b" not in done.stdout + done.stderr
