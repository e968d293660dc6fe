"""Autocast of substituted calls. On the CPU Paddle's autocast does nothing but float32, so the decision is tested on the tracer's
state, and the whole on a GPU."""

import contextlib

import numpy as np
import paddle
import pytest
import torch
from paddle.base import core

import padiff_shim
from padiff_shim.dispatch import frames
from padiff_shim.frameworks import autocast as amp
from padiff_shim.frameworks.autocast import grad_tracer

pytestmark = pytest.mark.bitexact

PADDLE_2 = paddle.__version__.startswith("2.")
LEVELS = {name: getattr(core.AmpLevel, name) for name in ("O0", "OD", "O1", "O2")}
LOW = ("float16", "bfloat16")


@contextlib.contextmanager
def autocast(level="O1", dtype="float16", white=("matmul_v2", "linear"), black=("softmax", "reduce_sum"), promote=True):
    """The tracer's state as paddle.amp.auto_cast sets it on a GPU."""
    tracer = grad_tracer()
    lists = tuple(set(names) for names in tracer._get_amp_op_list())
    names = [name for name in ("_amp_level", "_amp_dtype", "_use_promote") if hasattr(tracer, name)]
    before = {name: getattr(tracer, name) for name in names}
    try:
        tracer._amp_level, tracer._amp_dtype = LEVELS[level], dtype
        if "_use_promote" in before:
            tracer._use_promote = promote
        tracer._set_amp_op_list(set(white), set(black))
        yield tracer
    finally:
        tracer._set_amp_op_list(*lists)
        for name, value in before.items():
            setattr(tracer, name, value)


def chosen(tracer, op, *dtypes, gpu=True):
    return amp.destination(tracer, op, list(dtypes), on_accelerator=gpu)


@pytest.fixture(autouse=True)
def _without_kernel_lists(monkeypatch):
    """A CPU wheel lists no GPU kernels, and a GPU wheel those of its own; the test that needs a list sets it."""
    monkeypatch.setattr(amp, "_unsupported", lambda name, dtype: False)


def test_o2_without_promotion_casts_all_but_black():
    with autocast("O2", "bfloat16", promote=False) as tracer:
        if not hasattr(tracer, "_use_promote"):
            pytest.skip("this Paddle always promotes")
        assert chosen(tracer, "elementwise_add", "float32", "bfloat16") == "bfloat16"
        assert chosen(tracer, "softmax", "bfloat16") == "float32"


@pytest.mark.compat
def test_layer_norm_follows_its_first_input_and_keeps_its_weights():
    with autocast("O1", "float16", black=()) as tracer:
        assert chosen(tracer, "layer_norm", "float16", "float32", "float32") == "float16"
        assert chosen(tracer, "layer_norm", "float32", "float16", "float16") == "float32"
    assert amp.casts("layer_norm", "float16", ["float32", "float32", "float32"]) == ["float16", None, None]
    assert amp.casts("layer_norm", "float32", ["float32", "float16", "bfloat16"]) == [None, "float32", "float32"]
    assert amp.casts("matmul_v2", "float16", ["float32", "float16"]) == ["float16", None]


@pytest.mark.compat
def test_the_old_version_looked_at_float16_only():
    with autocast("O1", "bfloat16", black=()) as tracer:
        expected = "float32" if PADDLE_2 else "bfloat16"
        assert chosen(tracer, "layer_norm", "bfloat16", "float32", "float32") == expected


@pytest.mark.compat
def test_only_castable_dtypes_are_cast():
    assert amp.casts("matmul_v2", "float16", ["float64", "int64", "bool", "float32", "bfloat16"]) == [
        None, None, None, "float16", "float16",
    ]  # fmt: skip


@pytest.mark.compat
@pytest.mark.parametrize("low", LOW)
def test_the_cpu_always_gets_float32(low):
    for level in ("O1", "O2", "OD"):
        with autocast(level, low) as tracer:
            for op in ("matmul_v2", "elementwise_add", "softmax", "layer_norm"):
                assert chosen(tracer, op, "float32", low, gpu=False) == "float32"
                assert chosen(tracer, op, low, gpu=False) == "float32"


@pytest.mark.compat
def test_ops_without_a_kernel_in_the_low_dtype_stay_float32(monkeypatch):
    monkeypatch.setattr(amp, "_unsupported", lambda name, dtype: name == "matmul_v2")
    with autocast() as tracer, monkeypatch.context() as on_gpu:
        on_gpu.setattr(amp.core, "is_compiled_with_cuda", lambda: True)
        assert chosen(tracer, "matmul_v2", "float32", "float32") == "float32"
        assert chosen(tracer, "linear", "float32", "float32") == "float16"


@pytest.mark.compat
def test_off():
    assert not amp.active(grad_tracer())
    with autocast("O1") as tracer:
        assert amp.active(tracer)
        with paddle.amp.auto_cast(enable=False):
            pass
    assert not amp.active(grad_tracer())


@pytest.mark.compat
@pytest.mark.parametrize("level", ["O1", "O2"])
def test_substituted_calls_on_the_cpu_compute_float32_as_paddle_does(level):
    def program():
        x = paddle.to_tensor(np.linspace(0.1, 1.0, 12, dtype="float32").reshape(3, 4), stop_gradient=False)
        w = paddle.to_tensor(np.linspace(0.5, 1.5, 8, dtype="float32").reshape(4, 2), stop_gradient=False)
        y = paddle.exp(paddle.matmul(x, w)) / 3.0
        (y + 1.0).sum().backward()
        return y, x.grad, w.grad

    with autocast(level, "bfloat16"):
        native = program()
        with padiff_shim.reference("torch") as run:
            shim = program()
    assert run.substituted["matmul"] == 1
    for mine, theirs in zip(shim, native):
        assert mine.dtype == theirs.dtype == paddle.float32
        np.testing.assert_allclose(mine.numpy(), theirs.numpy(), rtol=1e-5)


@pytest.mark.gpu
@pytest.mark.parametrize("low", LOW)
@pytest.mark.parametrize("level", ["O1", "O2"])
def test_end_to_end_on_the_gpu(level, low):
    if not (paddle.is_compiled_with_cuda() and torch.cuda.is_available()):
        pytest.skip("needs a GPU that both frameworks can use")
    paddle.set_device("gpu")
    try:
        paddle.seed(1)
        net = paddle.nn.Sequential(paddle.nn.Linear(16, 32), paddle.nn.GELU(), paddle.nn.LayerNorm(32), paddle.nn.Linear(32, 4))
        if level == "O2":
            net = paddle.amp.decorate(net, level="O2", dtype=low)
        x = paddle.rand([8, 16])

        def step():
            with paddle.amp.auto_cast(level=level, dtype=low, custom_black_list={"gelu"}):
                hidden = net[0](x)
                out = paddle.nn.functional.softmax(net(x))
                loss = (out * out).mean()
            loss.backward()
            grads = [p.grad.astype("float32") for p in net.parameters()]
            dtypes = [t.dtype for t in (hidden, out, loss)] + [p.grad.dtype for p in net.parameters()]
            net.clear_gradients()
            return [hidden.astype("float32"), out.astype("float32"), *grads], dtypes

        native, native_dtypes = step()
        with padiff_shim.reference("torch") as run:
            shim, dtypes = step()
        assert dtypes == native_dtypes
        assert run.substituted["linear"] == 3
        for mine, theirs in zip(shim, native):
            np.testing.assert_allclose(mine.numpy(), theirs.numpy(), rtol=5e-2, atol=5e-3)
    finally:
        paddle.set_device("cpu")


def test_what_is_read_of_operands_that_were_cast_is_no_rule_for_others():
    """Of an operand that autocast casts, Torch's graph keeps a copy, and Paddle's, too: it may be written before the backward."""
    x = paddle.ones([3, 4]).astype("bfloat16")
    x.stop_gradient = False

    def step(context):
        operand = x * 1.0
        with context:
            result = operand * x
        with paddle.no_grad():
            operand.fill_(0.5)
        result.sum().backward()

    with padiff_shim.reference("torch"):
        x * x
        for door in frames.top().quick:  # what was learnt so far
            door.reads.clear()
            door.substitution = None
    with padiff_shim.reference("torch") as run:
        step(autocast(white=(), black=()))
        with pytest.raises(RuntimeError, match="modified by an inplace operation"):
            step(contextlib.nullcontext())
    assert not run.native
