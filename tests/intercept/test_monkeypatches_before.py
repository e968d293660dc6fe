"""What somebody else changed in Paddle before a mode was ever opened: each in a process of its own."""

import textwrap
from pathlib import Path

import forked
import pytest
import torch
from helpers import in_turn

import padiff_shim

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


@pytest.mark.rows(3)
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
    done = forked.run(["-c", source], warm=True, opened=False)
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
    done = forked.run(["-c", textwrap.dedent(source)], warm=True, opened=False)
    assert done.returncode == 0, done.stderr[-3000:]


def test_a_dtype_under_the_name_of_another_one_is_refused(monkeypatch):
    """Torch's own functions ask for it by that name: whatever is computed then is of another dtype."""
    with padiff_shim.compare("torch", progress=False):
        pass
    monkeypatch.setattr(torch, "float64", torch.float32)
    for mode in (padiff_shim.compare, padiff_shim.reference):
        with pytest.raises(padiff_shim.BackendError, match="float64"), mode("torch"):
            raise AssertionError("opened")


DTYPES = {  # what libraries write into both frameworks: names of their own, and dtypes that NumPy gives another name
    "uint16": "torch.uint16 = torch.bfloat16",
    "names of Torch": "torch.half, torch.long, torch.uint32 = torch.bfloat16, torch.int32, torch.int32",
    "names of Paddle": "paddle.uint16, paddle.half, paddle.long = 'uint16', paddle.bfloat16, paddle.int32",
    "Paddle's dtypes as strings": "for name in 'float16 bfloat16 float32 int64 bool'.split(): setattr(paddle, name, name)",
}


FIRST = [pytest.param(False, id="behind the first opening"), pytest.param(True, id="before it")]


@pytest.mark.rows(2)
@pytest.mark.parametrize(("change", "first"), in_turn(DTYPES, FIRST))
def test_dtypes_are_the_frameworks_own_whatever_others_write_into_their_modules(change, first, tmp_path):
    program = """
    import copy
    import numpy as np, paddle, torch
    opened, half = {first} or __import__("padiff_shim").install(), paddle.ones([1], "bfloat16").dtype
    {change}
    import padiff_shim

    class Port(paddle.nn.Layer):
        def __init__(self):
            super().__init__()
            self.words, self.out = paddle.nn.Embedding(5, 8), paddle.nn.Linear(8, 3)
        def forward(self, x):
            return paddle.nn.functional.gelu(self.out(self.words(x)))

    class Original(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.words, self.out = torch.nn.Embedding(5, 8), torch.nn.Linear(8, 3)
        def forward(self, x):
            return torch.nn.functional.gelu(self.out(self.words(x)))

    words, port, original = np.array([[0, 3, 1]]), Port(), Original()
    for dtype in ("float32", "bfloat16"):
        proof = padiff_shim.prove(Port(), Original(), words, dtype=dtype, phase="both")
        assert proof.verdict == "CODE_CORRECT", proof.answer
    original.bfloat16(), port.to(dtype="bfloat16")
    assert padiff_shim.transfer_weights(original, port).check(original, port)
    with padiff_shim.reference("torch") as run:
        low = port(paddle.to_tensor(words))
        low.sum().backward()
    assert low.dtype == port.out.weight.grad.dtype == half and not run.native, run.native
    assert torch.equal(torch.tensor(low.astype("float32").numpy()), original(torch.tensor(words)).float())
    with padiff_shim.compare("torch", log={folder}, progress=False) as run:
        paddle.nn.functional.gelu(paddle.ones([3]) * 0.3).astype("bfloat16")
    assert run.coverage()["checked_calls"] and not run.by_line(), run
    """
    source = textwrap.dedent(program).replace("{change}", DTYPES[change]).replace("{first}", str(first))
    done = forked.run(["-c", source.replace("{folder}", repr(str(tmp_path / "log")))], opened=False)
    assert done.returncode == 0, done.stderr[-3000:]


@pytest.mark.rows(1)
@pytest.mark.parametrize("change", DTYPES)
def test_dtypes_that_others_write_while_a_mode_is_open_change_nothing(change):
    program = """
    import numpy as np, paddle, torch, padiff_shim
    half, net = paddle.ones([1], "bfloat16").dtype, paddle.nn.Linear(8, 3)
    x = paddle.to_tensor(np.random.default_rng(0).standard_normal([4, 8]).astype("float32"))

    def trained(dtype):
        net.clear_gradients()
        result = paddle.nn.functional.softmax(net(x) if dtype == "float32" else net.to(dtype=dtype)(x.astype(dtype)))
        (result * result).sum().backward()
        return [tensor.astype("float32").numpy() for tensor in (result, net.weight.grad)], net.weight.grad.dtype

    with padiff_shim.reference("torch") as run:
        low = trained("bfloat16")
        net.to(dtype="float32")
        before = trained("float32")
        {change}
        after, again = trained("float32"), trained("bfloat16")
    assert low[1] == again[1] == half and not run.native, run.native
    for (first, _), (second, _) in ((before, after), (low, again)):
        assert all(map(np.array_equal, first, second))
    net.to(dtype="float32")
    with padiff_shim.compare("torch", progress=False) as compared:
        trained("float32")
        {change}
        trained("float32")
    assert compared.coverage()["checked_calls"] and not compared.by_line(), compared
    """
    done = forked.run(["-c", textwrap.dedent(program).replace("{change}", DTYPES[change])], warm=True, opened=False)
    assert done.returncode == 0, done.stderr[-3000:]
