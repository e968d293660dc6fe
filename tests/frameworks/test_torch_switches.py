"""What a program has set of Torch's own around its Paddle code: inference mode, autocast, a default device, Torch's modes."""

import textwrap

import forked
import numpy as np
import paddle
import paddle.nn.functional as F
import pytest
import torch
from paddle.distributed.fleet.utils import recompute
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.overrides import TorchFunctionMode

import padiff_shim
from padiff_shim.frameworks.torch_state import LooksOn, disturbed, flags, undisturbed

pytestmark = pytest.mark.compat


class Doubled(TorchFunctionMode):
    """A mode that changes what Torch computes."""

    def __torch_function__(self, function, types, args=(), kwargs=None):
        result = function(*args, **(kwargs or {}))
        return result * 2 if function in (torch.matmul, F.gelu) else result


AROUND = {
    "no_grad": torch.no_grad,
    "inference_mode": torch.inference_mode,
    "autocast": lambda: torch.autocast("cpu", dtype=torch.bfloat16),
    "device": lambda: torch.device("meta"),
    "function mode": Doubled,
    "dispatch mode": FakeTensorMode,
}


class Bent(paddle.autograd.PyLayer):
    """Asks for gradients of a graph of its own in its backward."""

    @staticmethod
    def forward(ctx, x, weight):
        ctx.save_for_backward(x, weight)
        return F.gelu(paddle.matmul(x, weight))

    @staticmethod
    def backward(ctx, grad):
        with paddle.enable_grad():
            x, weight = (tensor.detach() for tensor in ctx.saved_tensor())
            x.stop_gradient = weight.stop_gradient = False
            return tuple(paddle.grad([F.gelu(paddle.matmul(x, weight))], [x, weight], [grad]))


def numbers(*shape, seed):
    return np.random.default_rng(seed).standard_normal(shape).astype("float32")


def trained():
    """Two steps of what meets each kind of door: linear, views, writes, PyLayer, recompute, optimizers, gradients of gradients."""
    layer = paddle.nn.Linear(8, 8)
    layer.weight.set_value(numbers(8, 8, seed=1))
    parameters = layer.parameters()
    optimizer = paddle.optimizer.AdamW(0.1, parameters=parameters, grad_clip=paddle.nn.ClipGradByGlobalNorm(0.1))
    seen = []
    for step in range(2):
        x = paddle.to_tensor(numbers(4, 8, seed=step + 2), stop_gradient=False)
        y = recompute(lambda x: F.gelu(layer(x)), x * 1.0)
        y = Bent.apply(y, layer.weight * 0.5)
        y.register_hook(lambda grad: grad * 0.5)
        z = y.tanh()
        (first,) = paddle.grad([(z * z).sum()], [y], create_graph=True)
        written = z[:, ::2] * 1.0
        written[0] = 0.5
        ((first * first).sum() + written.max()).backward()
        seen += [x.grad, *(leaf.grad for leaf in parameters), written]
        optimizer.step()
        optimizer.clear_grad()
    return [tensor.numpy() for tensor in (*seen, *parameters)]


def outcome(mode, around):
    with mode("torch") as run, around():
        values = trained()
    counts = run.to_dict()
    return values, {key: value for key, value in counts.items() if key in ("ops", "native", "verdicts")}


@pytest.mark.rows(4)
@pytest.mark.parametrize("mode", [padiff_shim.reference, padiff_shim.compare])
@pytest.mark.parametrize("around", AROUND)
def test_paddle_code_does_not_depend_on_it(around, mode):
    expected, counted = outcome(mode, torch.enable_grad)
    results, counts = outcome(mode, AROUND[around])
    assert [result.tobytes() for result in results] == [value.tobytes() for value in expected]
    assert counts == counted


@pytest.mark.parametrize("around", AROUND)
def test_a_backward_after_the_mode(around):
    def gradient(around):
        x = paddle.to_tensor(numbers(4, 8, seed=1), stop_gradient=False)
        with padiff_shim.reference("torch"):
            y = (F.gelu(x) @ x.t()).sum()
        with around():
            y.backward()
        return x.grad.numpy().tobytes()

    assert gradient(AROUND[around]) == gradient(torch.enable_grad)


def test_torch_is_as_it_was_afterwards():
    @undisturbed
    def raising():
        assert not disturbed()
        assert (torch.ones(3, 3) @ torch.ones(3, 3)).dtype is torch.float32
        raise ZeroDivisionError

    with torch.inference_mode(), torch.autocast("cpu", dtype=torch.bfloat16), torch.device("meta"), Doubled(), FakeTensorMode():
        with pytest.raises(ZeroDivisionError):
            raising()
        assert torch.is_inference_mode_enabled()
        assert torch.is_autocast_enabled("cpu")
        assert torch._C._len_torch_function_stack() == 2
        assert torch._C._len_torch_dispatch_stack() == 1
    assert not disturbed()


def test_the_first_modes_of_a_process_are_opened_there():
    program = """
        import paddle, torch, padiff_shim

        def gradients():
            x = paddle.ones([3, 4])
            x.stop_gradient = False
            paddle.tanh(x).max().backward()

        for opened in (padiff_shim.compare, padiff_shim.reference):
            with torch.inference_mode(), torch.device("meta"), opened("torch"):
                gradients()
        with padiff_shim.reference("torch"):
            gradients()
        """
    done = forked.run(["-c", textwrap.dedent(program)])
    assert done.returncode == 0, done.stderr


class Seen(LooksOn):
    """Names what is computed."""

    def __init__(self):
        super().__init__()
        self.names = []

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        self.names.append(function._schema.name)
        return function(*args, **(kwargs or {}))


@pytest.mark.parametrize("around", ["dispatch mode", "autocast", "device"])
def test_what_looks_on_stays_open_and_the_programs_own_are_put_aside(around):
    x, weight = (paddle.to_tensor(numbers(4, 4, seed=seed), stop_gradient=False) for seed in (0, 1))
    with padiff_shim.reference("torch") as run:
        plain = F.gelu(paddle.matmul(x, weight))
        for order in (1, -1):
            seen = Seen()
            first, second = (seen, AROUND[around]())[::order]
            with first, second:
                result = F.gelu(paddle.matmul(x, weight))
            assert [name for name in seen.names if name in ("aten::mm", "aten::gelu")] == ["aten::mm", "aten::gelu"]
            assert np.array_equal(result.numpy(), plain.numpy())
    assert run.native == {}


@pytest.mark.skipif(not hasattr(torch.backends.mkldnn, "matmul"), reason="this Torch has one switch for all backends")
def test_a_precision_that_was_set_for_one_backend_is_no_error():
    plain, before = flags(), torch.backends.mkldnn.matmul.fp32_precision
    torch.backends.mkldnn.matmul.fp32_precision = "bf16"
    try:
        shown = flags()
    finally:
        torch.backends.mkldnn.matmul.fp32_precision = before
    assert shown.keys() == plain.keys()
    assert shown["torch.float32_matmul_precision"] == "set by backend"
    assert flags() == plain
