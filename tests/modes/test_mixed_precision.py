"""Automatic mixed precision on a CPU: what acts in reference mode, what stays off elsewhere, and what is left behind."""

import contextlib
import threading
import warnings

import numpy as np
import paddle
import pytest
import torch
import torch.nn.functional as TF
from helpers import same

import padiff_shim
from padiff_shim.dispatch import frames
from padiff_shim.frameworks import autocast
from padiff_shim.frameworks.autocast import grad_tracer

F = paddle.nn.functional
pytestmark = [pytest.mark.bitexact, pytest.mark.compat, pytest.mark.filterwarnings("error:amp_guard can only:UserWarning")]

LOW = ("bfloat16", "float16")
OFF = "amp_guard can only be enabled"
FUSES_BIAS = autocast.fuses_bias()
PADDLE_2 = paddle.__version__.startswith("2.")


def state():
    """All that a guard sets."""
    tracer = grad_tracer()
    here = autocast.HERE
    lists = tuple(map(frozenset, tracer._get_amp_op_list()))
    return str(tracer._amp_level), tracer._amp_dtype, lists, getattr(tracer, "_use_promote", None), here.level, here.on, here.depth


@pytest.fixture(autouse=True)
def _as_before():
    """No test leaves a trace in Paddle's tracer or in our state."""
    before = state()
    yield
    assert state() == before


def values(*shape, seed=0):
    return np.random.default_rng(seed).standard_normal(shape).astype("float32")


def pair(*shape, seed=0):
    """A leaf in Paddle and in Torch."""
    array = values(*shape, seed=seed)
    return paddle.to_tensor(array, stop_gradient=False), torch.tensor(array, requires_grad=True)


def guard(low, **options):
    return paddle.amp.auto_cast(dtype=low, **options)


def twin_guard(low, *, cached=True):
    return torch.autocast("cpu", dtype=getattr(torch, low), cache_enabled=cached)


def name(tensor):
    return str(tensor.dtype).rpartition(".")[2]


# What acts.


@pytest.mark.parametrize("definitions", ["paddle", "torch"])
@pytest.mark.parametrize("low", LOW)
def test_a_product_and_its_gradients_are_the_twins(low, definitions):
    (x, tx), (w, tw) = pair(5, 7), pair(7, 3, seed=1)
    with padiff_shim.reference("torch", definitions=definitions) as run:
        with guard(low):
            y = paddle.matmul(x, w)
            z = paddle.tanh(y) + y
        z.sum().backward()
    with twin_guard(low):
        ty = torch.matmul(tx, tw)
        tz = torch.tanh(ty) + ty
    tz.sum().backward()
    assert [name(tensor) for tensor in (y, z, x.grad)] == [low, low, "float32"]
    assert same(z, tz)
    assert same(x.grad, tx.grad)
    assert same(w.grad, tw.grad)
    assert not run.native
    assert not run.warnings


@pytest.mark.parametrize("low", LOW)
def test_a_weight_that_is_used_twice(low):
    """Paddle casts it at each use, and adds its gradients in float32; Torch casts it once, and adds them in the low dtype."""
    gradients = {}
    for definitions in ("paddle", "torch"):
        (x, tx), (w, tw) = pair(5, 7), pair(7, 7, seed=1)
        with padiff_shim.reference("torch", definitions=definitions):
            with guard(low):
                z = paddle.matmul(paddle.matmul(x, w), w)
            z.sum().backward()
        with twin_guard(low, cached=definitions == "torch"):
            tz = torch.matmul(torch.matmul(tx, tw), tw)
        tz.sum().backward()
        assert same(z, tz)
        assert same(w.grad, tw.grad)
        gradients[definitions] = w.grad
    assert not same(gradients["paddle"], gradients["torch"])


def test_the_cache_ends_with_the_outermost_guard():
    """A weight that changed is cast anew."""
    (x, _), (w, tw) = pair(4, 3), pair(3, 2, seed=1)
    with padiff_shim.reference("torch", definitions="torch"):
        for factor in (1.0, 3.0):
            with paddle.no_grad():
                w.set_value(paddle.to_tensor(values(3, 2, seed=1) * factor))
            with guard("bfloat16"), guard("bfloat16"):
                y = paddle.matmul(x, w)
            with twin_guard("bfloat16"), torch.no_grad():
                assert same(y, torch.matmul(torch.tensor(x.numpy()), tw * factor))


@pytest.mark.parametrize("low", LOW)
def test_black_white_and_neither(low):
    x, w = pair(4, 6)[0], pair(6, 6, seed=1)[0]
    with padiff_shim.reference("torch"), guard(low):
        y = paddle.matmul(x, w)  # white
        assert name(y) == low
        assert name(F.softmax(y)) == name(paddle.exp(y)) == name(y.sum()) == "float32"  # black
        assert name(F.relu(y)) == name(y * 2.0) == name(y + y) == low  # in neither list: the widest operand's
        assert name(y + x) == name(paddle.concat([x, y])) == "float32"
        assert name(F.relu(x)) == "float32"


@pytest.mark.parametrize("low", LOW)
def test_a_bias_as_paddle_adds_it_on_a_gpu(low):
    """Of a convolution by an op of its own; of a Linear so in Paddle 2.6, within the product in Paddle 3.3."""
    x, w, b = pair(2, 3, 6, 6)[0], pair(4, 3, 3, 3, seed=1)[0], pair(4, seed=2)[0]
    v, c = pair(6, 5, seed=3)[0], pair(5, seed=4)[0]
    half = getattr(torch, low)
    with padiff_shim.reference("torch") as run, guard(low):
        image, bare = F.conv2d(x, w, b), F.conv2d(x, w)
        row = F.linear(x, v, c)
    tx, tw, tb = (torch.tensor(side.numpy()) for side in (x, w, b))
    wanted = TF.conv2d(tx.to(half), tw.to(half))
    assert same(bare, wanted)
    assert same(image, wanted + tb[:, None, None])
    assert name(image) == "float32"
    assert name(row) == (low if FUSES_BIAS else "float32")
    assert not run.native


@pytest.mark.parametrize("low", LOW)
def test_a_convolutional_net_by_torchs_definition(low):
    (x, tx), (w, tw), (b, tb) = pair(2, 3, 8, 8), pair(4, 3, 3, 3, seed=1), pair(4, seed=2)
    (v, tv), (c, tc) = pair(4, 5, seed=3), pair(5, seed=4)
    linear = torch.tensor(tv.detach().numpy().T.copy(), requires_grad=True)
    with padiff_shim.reference("torch", definitions="torch"):
        with guard(low):
            hidden = F.max_pool2d(F.relu(F.conv2d(x, w, b)), 2)
            out = F.linear(hidden.mean([2, 3]), v, c)
            loss = F.cross_entropy(out, paddle.to_tensor([1, 3]))
        loss.backward()
    with twin_guard(low):
        thidden = TF.max_pool2d(TF.relu(TF.conv2d(tx, tw, tb)), 2)
        tout = TF.linear(thidden.mean((2, 3)), linear, tc)
        tloss = TF.cross_entropy(tout, torch.tensor([1, 3]))
    tloss.backward()
    assert same(out, tout)
    assert same(loss, tloss)
    for leaf, twin in ((x, tx), (w, tw), (b, tb), (c, tc)):
        assert same(leaf.grad, twin.grad)
    assert same(v.grad, linear.grad.T.contiguous())


@pytest.mark.parametrize("definitions", ["paddle", "torch"])
@pytest.mark.parametrize("low", LOW)
def test_attention(low, definitions):
    if not hasattr(F, "scaled_dot_product_attention"):
        pytest.skip("this Paddle has none")
    (x, tx), (w, tw) = pair(2, 5, 12), pair(12, 36, seed=1)
    causal = not PADDLE_2  # a causal mask is a kernel that Paddle 2.6 has on a GPU only
    with padiff_shim.reference("torch", definitions=definitions) as run:
        with guard(low):
            q, k, v = paddle.matmul(x, w).reshape([2, 5, 3, 2, 6]).unbind(2)
            out = F.scaled_dot_product_attention(q, k, v, is_causal=causal)
        out.sum().backward()
    with twin_guard(low):
        sides = torch.matmul(tx, tw).reshape(2, 5, 3, 2, 6).unbind(2)
        tout = TF.scaled_dot_product_attention(*(side.transpose(1, 2) for side in sides), is_causal=causal).transpose(1, 2)
    tout.sum().backward()
    assert name(out) == low
    assert same(out, tout.contiguous())
    assert same(w.grad, tw.grad)
    assert not run.native


@pytest.mark.parametrize("definitions", ["paddle", "torch"])
def test_custom_lists(definitions):
    x, w = pair(4, 6)[0], pair(6, 6, seed=1)[0]
    with padiff_shim.reference("torch", definitions=definitions):
        with guard("bfloat16", custom_white_list={"gelu"}, custom_black_list={"matmul_v2"}):
            assert name(F.gelu(x)) == "bfloat16"
            assert name(paddle.matmul(x.astype("bfloat16"), w)) == "float32"
        with guard("bfloat16"):
            assert name(F.gelu(x)) == "float32"
            assert name(paddle.matmul(x, w)) == "bfloat16"


def test_a_loss_is_computed_in_its_parts():
    """Paddle subtracts in the low dtype, squares in float32."""
    with padiff_shim.reference("torch") as run, guard("bfloat16"):
        x, y = (paddle.to_tensor(values(6, 5, seed=seed)).astype("bfloat16") for seed in (1, 2))
        loss = F.mse_loss(x, y)
        plain = F.mse_loss(x.astype("float32"), y.astype("float32"))
    tx, ty = (torch.tensor(values(6, 5, seed=seed)).bfloat16() for seed in (1, 2))
    assert same(loss, (tx - ty).float().square().mean())
    assert same(plain, TF.mse_loss(tx.float(), ty.float()))
    assert run.substituted["mse_loss"] == 1
    assert run.substituted["square"] == 1


def test_nested_and_disabled_regions():
    x, w = pair(4, 6)[0], pair(6, 6, seed=1)[0]

    def product():
        return name(paddle.matmul(x, w))

    with padiff_shim.reference("torch"):
        assert product() == "float32"
        with guard("bfloat16"):
            assert product() == "bfloat16"
            with guard("bfloat16", enable=False):
                assert product() == "float32"
                with guard("float16"):
                    assert product() == "float16"
            assert product() == "bfloat16"
            with guard("bfloat16", level="O0"):
                assert product() == "float32"
            with guard("bfloat16", level="OD"):
                assert product() == "bfloat16"
                assert name(F.relu(x.astype("bfloat16"))) == "float32"
        assert product() == "float32"


def test_o2_casts_everything_without_promotion():
    x = pair(4, 6)[0]
    with padiff_shim.reference("torch"), guard("bfloat16", level="O2"):
        assert name(F.relu(x)) == "float32"
        assert name(F.softmax(x.astype("bfloat16"))) == "bfloat16"
    if hasattr(grad_tracer(), "_use_promote"):
        with padiff_shim.reference("torch"), guard("bfloat16", level="O2", use_promote=False):
            assert name(F.relu(x)) == "bfloat16"


def test_what_is_cast_nowhere():
    """In-place ops, casts and float64; views keep their dtype."""
    x = paddle.to_tensor(values(4, 6))
    with padiff_shim.reference("torch"), guard("bfloat16"):
        low = x.astype("bfloat16")
        assert name(low.reshape([6, 4])) == name(low[1:]) == name(low.clone()) == name(low.transpose([1, 0])) == "bfloat16"
        assert name(paddle.exp_(x.clone()) if hasattr(paddle, "exp_") else x.clone().exp_()) == "float32"
        assert name(paddle.matmul(x.astype("float64"), x.astype("float64").t())) == "float64"


def test_what_stays_native_is_cast_as_on_a_gpu():
    """Where Paddle has no kernel in the low dtype, in float32, as Paddle does on a GPU."""
    x, w = pair(4, 6)[0], pair(6, 6, seed=1)[0]
    with padiff_shim.reference("torch", exclude=["exp", "matmul", "concat"]) as run, guard("bfloat16"):
        low = x.astype("bfloat16")
        out = paddle.exp(low)  # black
        product = paddle.matmul(x, w)  # white, and natively of float32 alone
        both = paddle.concat([low, x])
    assert [name(tensor) for tensor in (out, product, both)] == ["float32", "float32", "float32"]
    assert set(run.native) == {"exp", "matmul"}  # concat rounds nothing
    with padiff_shim.reference("torch", exclude="mse_loss"), guard("bfloat16"):
        assert name(F.mse_loss(low, low * 2.0)) == "float32"  # a function in Python, whose parts are seen
    out.sum().backward()
    assert name(x.grad) == "float32"


def test_what_paddle_asks_is_answered():
    with padiff_shim.reference("torch"):
        with guard("bfloat16", level="O2"):
            tracer = grad_tracer()
            assert (tracer._amp_level.name, tracer._amp_dtype) == ("O2", "bfloat16")
            if hasattr(paddle.amp, "is_autocast_enabled"):
                assert paddle.amp.is_autocast_enabled()
        assert grad_tracer()._amp_level.name == "O0"


@pytest.mark.parametrize("reentrant", [True, False])
def test_recompute_runs_its_forward_again_under_the_same_guard(reentrant):
    from paddle.distributed.fleet.utils import recompute

    if PADDLE_2 and not reentrant:
        pytest.skip("recompute without reentry keeps a random state, which Paddle 2.6 does on a GPU only")

    def block(x, w):
        return F.gelu(paddle.matmul(F.gelu(paddle.matmul(x, w)), w))

    def step(way):
        x, w = pair(4, 6)[0], pair(6, 6, seed=1)[0]
        with padiff_shim.reference("torch"):
            with guard("bfloat16"):
                loss = way(block, x, w).sum()
            loss.backward()
        return loss, x.grad, w.grad

    plain = step(lambda function, *operands: function(*operands))
    again = step(lambda function, *operands: recompute(function, *operands, use_reentrant=reentrant))
    assert same(plain[0], again[0])
    assert same(plain[1], again[1])
    assert name(again[2]) == "float32"


# Where it begins and ends.


def test_an_error_leaves_the_state_as_it_was():
    x = pair(4, 6)[0]
    with padiff_shim.reference("torch"):
        with pytest.raises(ZeroDivisionError), guard("float16"), guard("bfloat16", level="O2"):
            raise ZeroDivisionError
        assert not autocast.HERE.on
        assert name(paddle.matmul(x, x.t())) == "float32"
        with pytest.raises(ValueError, match="level should be"), guard("float16", level="O7"):
            pass
        with pytest.raises(ValueError, match="float16"), guard("float32"):
            pass


def test_a_guard_that_outlives_the_mode():
    """Outside it is off, as natively; in the next mode on; and gone when it is left."""
    x = pair(4, 6)[0]
    stack = contextlib.ExitStack()
    with padiff_shim.reference("torch"):
        stack.enter_context(guard("bfloat16"))
        assert name(paddle.matmul(x, x.t())) == "bfloat16"
    assert name(paddle.matmul(x, x.t())) == "float32"
    assert grad_tracer()._amp_level.name == "O0"
    with padiff_shim.reference("torch") as run:
        assert name(paddle.matmul(x, x.t())) == "bfloat16"
        assert not run.warnings
    stack.close()
    with padiff_shim.reference("torch"):
        assert name(paddle.matmul(x, x.t())) == "float32"


def test_a_guard_that_was_entered_before_the_mode_stays_off_and_the_run_says_so():
    x = pair(4, 6)[0]
    with pytest.warns(UserWarning, match=OFF), guard("bfloat16"), padiff_shim.reference("torch") as run:
        assert name(paddle.matmul(x, x.t())) == "float32"
    assert len(run.warnings) == 1
    with guard("bfloat16", enable=False), padiff_shim.reference("torch") as run:
        pass
    assert not run.warnings


def test_a_comparison_stays_native_and_says_so_in_one_line():
    x = pair(4, 6)[0]
    with padiff_shim.compare("torch") as run:
        for _ in range(3):
            with pytest.warns(UserWarning, match=OFF), guard("bfloat16"):
                assert name(paddle.matmul(x, x.t())) == "float32"
        with guard("bfloat16", enable=False):
            pass
    assert len([line for line in run.warnings if "mixed precision stays off" in line]) == 1
    assert run.coverage()["checked_calls"] == 3
    with padiff_shim.reference("torch"), guard("bfloat16"), padiff_shim.compare("torch"):
        assert name(paddle.matmul(x, x.t())) == "float32"


def test_outside_of_modes_nothing_changes():
    x = pair(4, 6)[0]
    padiff_shim.install()
    try:
        with pytest.warns(UserWarning, match=OFF), guard("bfloat16"):
            assert name(paddle.matmul(x, x.t())) == "float32"
        with pytest.warns(UserWarning, match="AmpScaler can only be enabled"):
            assert not paddle.amp.GradScaler().is_enable()
        net = paddle.nn.Linear(3, 2)
        assert name(paddle.amp.decorate(net, level="O2", dtype="bfloat16").weight) == "float32"
    finally:
        padiff_shim.uninstall()


def test_another_thread_without_a_mode():
    seen = []

    def other():
        with warnings.catch_warnings(record=True) as messages:
            warnings.simplefilter("always")
            with guard("bfloat16"):
                seen.append((autocast.HERE.on, [str(message.message)[:9] for message in messages]))

    with padiff_shim.reference("torch"), guard("bfloat16"):
        thread = threading.Thread(target=other)
        thread.start()
        thread.join()
        assert autocast.HERE.on
    assert seen == [(False, ["amp_guard"])]


def test_a_mode_that_decorates_a_function():
    x = pair(4, 6)[0]

    @padiff_shim.reference("torch")
    def step():
        with guard("float16"):
            return paddle.matmul(x, x.t())

    assert name(step()) == "float16"
    assert frames.top() is None


def test_names_are_paddles_own_again():
    import sys

    module = sys.modules["paddle.amp.auto_cast"]
    before = module._dygraph_tracer, module._is_gpu_bfloat16_supported.__code__, type(grad_tracer())._amp_level
    with padiff_shim.reference("torch"):
        assert module._dygraph_tracer is not before[0]
    assert (module._dygraph_tracer, module._is_gpu_bfloat16_supported.__code__, type(grad_tracer())._amp_level) == before


# decorate


@pytest.mark.parametrize("low", LOW)
def test_decorate_casts_a_model(low):
    with padiff_shim.reference("torch"):
        net = paddle.nn.Sequential(paddle.nn.Linear(4, 3), paddle.nn.BatchNorm1D(3), paddle.nn.LayerNorm(3), paddle.nn.Linear(3, 2))
        optimizer = paddle.optimizer.AdamW(parameters=net.parameters())
        excluded = [net[3]]
        net, optimizer = paddle.amp.decorate(net, optimizer, level="O2", dtype=low, excluded_layers=excluded)
    assert name(net[0].weight) == low
    assert name(net[1].weight) == "float32"
    assert name(net[2].weight) == ("float32" if low == "float16" else low)
    assert name(net[3].weight) == "float32"
    assert optimizer._multi_precision


@pytest.mark.parametrize("definitions", ["paddle", "torch"])
@pytest.mark.parametrize("batch", ["float32", "bfloat16"])
@pytest.mark.parametrize("kind", ["LayerNorm", "BatchNorm1D", "GroupNorm", "embedding before LayerNorm", "Linear before LayerNorm"])
def test_norms_of_a_decorated_model_run_with_weights_of_16_bits(kind, batch, definitions):
    """At O2 their weights are bfloat16, and they get what other layers make: of float32 they compute in float32."""
    norms = {"BatchNorm1D": lambda: paddle.nn.BatchNorm1D(6), "GroupNorm": lambda: paddle.nn.GroupNorm(2, 6)}
    before = {"embedding before LayerNorm": [paddle.nn.Embedding(9, 6)], "Linear before LayerNorm": [paddle.nn.Linear(6, 6)]}
    x = paddle.to_tensor([[1, 2], [3, 4]]) if kind.startswith("embedding") else paddle.to_tensor(values(4, 6)).astype(batch)
    layers = [*before.get(kind, []), norms.get(kind, lambda: paddle.nn.LayerNorm(6))(), paddle.nn.Linear(6, 3)]
    with padiff_shim.reference("torch", definitions=definitions) as run:
        net = paddle.amp.decorate(paddle.nn.Sequential(*layers), level="O2", dtype="bfloat16")
        with guard("bfloat16", level="O2"):
            out = net(x)
        out.sum().backward()
    assert name(out) == "bfloat16"
    assert {name(parameter.grad) for parameter in net.parameters() if not parameter.stop_gradient} <= {"bfloat16", "float32"}
    assert not run.native
