"""What somebody else changed in Paddle before a mode was ever opened: each in a process of its own."""

import subprocess
import sys
import textwrap
from pathlib import Path

import pytest
from helpers import PATIENCE

ROOT = Path(__file__).resolve().parents[2]

BEFORE = {
    "attribute": """
        native = paddle.Tensor.__add__
        def mine(x, y): calls.append(1); return native(x, y)
        paddle.Tensor.__add__ = mine
        standing, path, substituted = (lambda: paddle.Tensor.__add__ is mine), "paddle.Tensor.__add__", {"linear"}
        """,
    "function, by name": """
        native = F.linear
        def mine(*args): calls.append(1); return native(*args)
        F.linear = mine
        standing, path, substituted = (lambda: F.linear is mine), "", {"add", "linear"}
        """,
    "function, by name, and the collector lists nothing of before": """
        import gc
        native = F.linear
        def mine(*args): calls.append(1); return native(*args)
        F.linear = mine
        gc.freeze()  # as servers do before they fork
        standing, path, substituted = (lambda: F.linear is mine), "", {"add", "linear"}
        """,
    "function, by code": """
        def mine(x, weight, bias=None, name=None):
            return x.matmul(weight)
        F.linear.__code__ = mine.__code__
        calls.append(1)
        standing, path = (lambda: F.linear.__code__ is mine.__code__), "paddle.nn.functional.linear"
        substituted = {"add", "matmul"}
        """,
    "C function, by name": """
        native = paddle._C_ops.matmul
        def mine(*args): calls.append(1); return native(*args)
        paddle._C_ops.matmul = mine
        paddle._C_ops.matmul(x, x, False, False)
        standing, path, substituted = (lambda: paddle._C_ops.matmul is mine), "", {"add", "linear", "matmul"}
        """,
    "layers": """
        native = paddle.nn.Layer.__call__
        def mine(self, *args): calls.append(1); return native(self, *args)
        paddle.nn.Layer.__call__ = mine
        standing, path, substituted = (lambda: paddle.nn.Layer.__call__ is mine), "", {"add", "linear"}
        """,
    "everything behind it is gone": """
        def mine(self, *args): calls.append(1); return self.forward(*args)
        paddle.nn.Layer.__call__ = mine
        standing, path = (lambda: paddle.nn.Layer.__call__ is mine), "paddle.nn.Layer.__call__"
        substituted = {"add", "linear"}
        """,
}


@pytest.mark.parametrize("change", BEFORE)
def test_changed_before_the_first_opening(change):
    program = """
    import paddle, padiff_shim
    F, calls, x = paddle.nn.functional, [], paddle.ones([2, 2])
    {change}
    with padiff_shim.reference("torch", layers="**") as run:
        pass  # the first opening
    net = paddle.nn.Sequential(paddle.nn.Identity())
    for _ in range(2):
        with padiff_shim.reference("torch") as run, padiff_shim.compare("torch", progress=False) as compared:
            net(x)
        with padiff_shim.reference("torch") as run:
            F.linear(net(x), x) + x
            if "matmul" in substituted: paddle._C_ops.matmul(x, x, False, False)
    assert calls and standing()
    assert set(run.substituted) == substituted, run.substituted
    said = [text for text in run.warnings + compared.warnings if "was changed by somebody else" in text]
    assert all(text.startswith(path) for text in said) if path else not said, said
    assert bool(said) == bool(path), (said, path)
    """
    source = textwrap.dedent(program).replace("{change}", textwrap.dedent(BEFORE[change]))
    done = subprocess.run([sys.executable, "-c", source], capture_output=True, text=True, timeout=PATIENCE, cwd=ROOT, check=False)
    assert done.returncode == 0, done.stderr[-3000:]


def test_what_was_changed_before_the_first_opening_is_taken_over_once_it_is_paddles_again():
    source = """
    import paddle, padiff_shim
    native, x = paddle.Tensor.__add__, paddle.ones([2, 2])
    paddle.Tensor.__add__ = lambda x, y: native(x, y)
    with padiff_shim.reference("torch") as run:
        x + x
    assert run.substituted == {} and len(run.warnings) == 1
    paddle.Tensor.__add__ = native
    with padiff_shim.reference("torch") as run:
        x + x
    assert run.substituted == {"add": 1} and not run.warnings
    assert paddle.Tensor.__dict__["__add__"] is native
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(source)], capture_output=True, text=True, timeout=PATIENCE, cwd=ROOT, check=False
    )
    assert done.returncode == 0, done.stderr[-3000:]
