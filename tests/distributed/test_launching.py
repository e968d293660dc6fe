"""Processes that Paddle itself starts."""

import contextlib
import pickle
import subprocess
import sys

import paddle
import pytest
import ranks
from helpers import PATIENCE, ROOT
from paddle.distributed.sharding import group_sharded_parallel

import padiff_shim

PROGRAM = str(ROOT / "tests" / "rank_spawned.py")


def finished(arguments, folder):
    done = subprocess.run(
        [sys.executable, *arguments],
        env=ranks.environment(), cwd=folder, capture_output=True, text=True, timeout=PATIENCE, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    return done.stdout


@pytest.mark.slow
def test_paddle_distributed_launch(tmp_path):
    options = ["--nproc_per_node=2", "--backend=gloo", f"--log_dir={tmp_path}"]
    output = finished(["-m", "paddle.distributed.launch", *options, PROGRAM], tmp_path)
    output += (tmp_path / "workerlog.1").read_text()
    assert {f"rank {rank} of 2 has trained" in output for rank in (0, 1)} == {True}


@pytest.mark.slow
def test_paddle_distributed_spawn(tmp_path):
    output = finished([PROGRAM, "spawn"], tmp_path)
    assert sorted(line for line in output.splitlines() if line.startswith("rank")) == [
        "rank 0 of 2 has trained",
        "rank 1 of 2 has trained",
    ]


@padiff_shim.reference("torch")
def decorated():
    return "ran"


class Holder:
    @padiff_shim.reference("torch")
    def method(self):
        return "ran"


@pytest.mark.parametrize("decorated_function", [decorated, Holder().method], ids=["function", "method"])
def test_what_a_mode_decorates_is_pickled_by_its_name(decorated_function):
    assert pickle.loads(pickle.dumps(decorated_function))() == "ran"
    assert type(pickle.loads(pickle.dumps(decorated_function))) is type(decorated_function)


@pytest.mark.skipif(paddle.is_compiled_with_cuda(), reason="docs/record.md says what the CPU's Paddle refuses")
@pytest.mark.parametrize("level", ["os", "os_g", "p_g_os"])
def test_group_sharding_is_refused_by_paddle_itself(level):
    """So says docs/record.md; the day Paddle takes it on the CPU, that page is wrong."""
    layer = paddle.nn.Linear(4, 4)
    optimizer = paddle.optimizer.AdamW(parameters=layer.parameters())
    for mode in (contextlib.nullcontext, lambda: padiff_shim.reference("torch"), lambda: padiff_shim.compare("torch")):
        with mode(), pytest.raises(AssertionError, match="only support"):
            group_sharded_parallel(layer, optimizer, level)
