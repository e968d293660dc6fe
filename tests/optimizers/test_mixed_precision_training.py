"""Trainings in mixed precision on a CPU beside their Torch twins: scaler, master weights, steps that are skipped."""

import numpy as np
import paddle
import pytest
import torch
import torch.nn.functional as TF
from helpers import same
from trainings import KINDS, batch, nets, unequal

import padiff_shim
from padiff_shim.frameworks import autocast

F = paddle.nn.functional
pytestmark = [pytest.mark.bitexact, pytest.mark.compat]

LABELS = np.array([0, 3, 1, 4, 2, 0, 1, 3])


def shim(definitions="paddle"):
    return padiff_shim.reference("torch", optimizer="torch", definitions=definitions)


def labelled(step):
    x = batch(step)
    return x, np.resize(LABELS, len(x))


def scalers(scale, every=2):
    port = paddle.amp.GradScaler(init_loss_scaling=scale, incr_every_n_steps=every)
    return port, torch.amp.GradScaler("cpu", init_scale=scale, growth_interval=every)


def linear(layer, rows):
    """Paddle 2.6 adds the bias by an op of its own, at O1 in float32."""
    return layer(rows) if autocast.fuses_bias() else TF.linear(rows, layer.weight) + layer.bias


def as_paddle_casts(twin, x):
    """What Paddle's lists make of Linear, GELU, LayerNorm, Linear at O1, inside of Torch's autocast without its cache."""
    first, gelu, norm, last = twin
    return linear(last, norm(gelu(linear(first, x)).float()))


@pytest.mark.parametrize("definitions", ["paddle", "torch"])
@pytest.mark.parametrize(("kind", "scale"), [("adamw", 2.0**10), ("momentum", 2.0**10), ("adamw", 1000.0)])
def test_a_training_with_a_scaler(kind, scale, definitions):
    """Infinities in the third and fourth step: both are skipped, the scale falls, and grows again."""
    port, twin = nets()
    optimizer, twin_optimizer = KINDS[kind].build(port), KINDS[kind].twin(twin)
    scales = []
    with shim(definitions) as run:
        scaler, other = scalers(scale)
        for step in range(8):
            x, labels = labelled(step)
            x[0, 0] = np.inf if step in (2, 3) else x[0, 0]
            with paddle.amp.auto_cast(dtype="float16"):
                loss = F.cross_entropy(port(paddle.to_tensor(x)), paddle.to_tensor(labels))
            scaler.scale(loss).backward()
            if step % 2:
                scaler.unscale_(optimizer)
            scaler.step(optimizer)
            scaler.update()
            with torch.autocast("cpu", dtype=torch.float16, cache_enabled=definitions == "torch"):
                tx = torch.tensor(x)
                out = as_paddle_casts(twin, tx).float() if definitions == "paddle" else twin(tx)
                tloss = TF.cross_entropy(out, torch.tensor(labels))
            other.scale(tloss).backward()
            other.step(twin_optimizer)
            other.update()
            assert same(loss, tloss), step
            assert not unequal(port, twin), step
            scales.append(scaler._scale.item())
            assert scales[-1] == other.get_scale()
            optimizer.clear_grad()
            twin_optimizer.zero_grad()
    assert scales == [scale * factor for factor in (1, 2, 1, 0.5, 0.5, 1, 1, 2)]
    assert scaler._scale.shape == [1]
    assert run.optimizers[optimizer.type] == {"torch": 6 * 6}
    assert not run.native
    assert not run.warnings


def test_minimize_lowers_the_scale_after_several_infinities():
    """``decr_every_n_nan_or_inf``, which Torch's scaler does not have."""
    port, _ = nets()
    optimizer = KINDS["sgd"].build(port)
    with shim():
        scaler = paddle.amp.GradScaler(init_loss_scaling=64.0, decr_every_n_nan_or_inf=2, incr_every_n_steps=100)
        scales = []
        for step in range(4):
            x, labels = labelled(step)
            x[0, 0] = np.inf
            with paddle.amp.auto_cast(dtype="float16"):
                loss = F.cross_entropy(port(paddle.to_tensor(x)), paddle.to_tensor(labels))
            scaled = scaler.scale(loss)
            scaled.backward()
            scaler.minimize(optimizer, scaled)
            optimizer.clear_grad()
            scales.append(scaler._scale.item())
    assert scales == [64.0, 32.0, 32.0, 16.0]


def _twin_of_o2(twin, low):
    """The twin's weights in the low dtype, of LayerNorm only where Paddle casts those, and float32 masters of all that are cast."""
    masters = []
    for index, layer in enumerate(twin):
        cast = index != 2 or low == torch.bfloat16
        for parameter in layer.parameters():
            parameter.data = parameter.data.to(low) if cast else parameter.data
            masters.append(parameter.detach().float().requires_grad_() if cast else parameter)  # of what is rounded, as Paddle's
    return masters


def _forward_of_o2(twin, x, low):
    first, gelu, norm, last = twin
    weight, bias = norm.weight, norm.bias
    hidden = gelu(linear(first, x.to(low)))
    if weight.dtype is low:
        hidden = TF.layer_norm(hidden, (13,), weight, bias)
    else:
        hidden = TF.layer_norm(hidden.float(), (13,), weight, bias).to(low)
    return linear(last, hidden)


@pytest.mark.parametrize("low", ["float16", "bfloat16"])
def test_o2_with_master_weights(low):
    port, twin = nets()
    half = getattr(torch, low)
    with shim() as run:
        optimizer = KINDS["adamw"].build(port)
        port, optimizer = paddle.amp.decorate(port, optimizer, level="O2", dtype=low)
        masters = _twin_of_o2(twin, half)
        twin_optimizer = torch.optim.AdamW(masters, lr=optimizer.get_lr(), weight_decay=0.02)
        scaler = paddle.amp.GradScaler(init_loss_scaling=256.0, use_dynamic_loss_scaling=False)
        for step in range(6):
            x, labels = labelled(step)
            x[0, 0] = np.inf if step == 2 else x[0, 0]
            with paddle.amp.auto_cast(level="O2", dtype=low):
                loss = F.cross_entropy(port(paddle.to_tensor(x)), paddle.to_tensor(labels))
            scaler.scale(loss).backward()
            scaler.step(optimizer)
            scaler.update()
            tloss = TF.cross_entropy(_forward_of_o2(twin, torch.tensor(x), half), torch.tensor(labels))
            (tloss * torch.tensor([256.0])).backward()
            gradients = [parameter.grad for parameter in twin.parameters()]
            for gradient in gradients:
                gradient.mul_(1 / 256)
            if all(torch.isfinite(gradient).all() for gradient in gradients):
                for master, parameter in zip(masters, twin.parameters()):
                    master.grad = parameter.grad.float()
                twin_optimizer.step()
                with torch.no_grad():
                    for master, parameter in zip(masters, twin.parameters()):
                        parameter.copy_(master)
            else:
                assert step == 2
            assert same(loss, tloss), step
            for parameter, other in zip(port.parameters(), twin.parameters()):
                assert same(parameter.t() if parameter.ndim == 2 else parameter, other.detach()), step
            optimizer.clear_grad()
            twin.zero_grad()
    assert not run.native
    assert run.optimizers["adamw"] == {"torch": 5 * 6}


def test_gradients_in_float32_behind_a_backward():
    """``master_grad`` of decorate."""
    port, _ = nets()
    global_state = __import__("sys").modules["paddle.amp.auto_cast"].amp_global_state()
    if not hasattr(global_state, "use_master_grad"):
        pytest.skip("this Paddle has none")
    before = dict(vars(global_state))
    try:
        with shim():
            optimizer = KINDS["adamw"].build(port)
            port, optimizer = paddle.amp.decorate(port, optimizer, level="O2", dtype="bfloat16", master_grad=True)
            x, labels = labelled(0)
            with paddle.amp.auto_cast(level="O2", dtype="bfloat16"):
                loss = F.cross_entropy(port(paddle.to_tensor(x)), paddle.to_tensor(labels))
            loss.backward()
            assert {str(parameter.grad.dtype) for parameter in port.parameters()} == {"paddle.float32"}
            optimizer.step()
    finally:
        vars(global_state).update(before)


@pytest.mark.parametrize("low", ["float16", "bfloat16"])
def test_a_scaler_of_bfloat16_disables_itself_as_on_a_gpu(low):
    with shim() as run:
        scaler = paddle.amp.GradScaler(init_loss_scaling=8.0)
        loss = paddle.to_tensor(1.0)
        with paddle.amp.auto_cast(dtype=low):
            pass
        if low == "float16":
            assert scaler.scale(loss).item() == 8.0
        else:
            with pytest.warns(UserWarning, match="not recommended to use dynamic loss scaling"):
                scaler.scale(loss)
            assert scaler.scale(loss).item() == 1.0
    assert not run.warnings


def test_a_scaler_that_was_made_outside_does_not_scale_and_the_run_says_so():
    with pytest.warns(UserWarning, match="AmpScaler can only be enabled"):
        scaler = paddle.amp.GradScaler()
    with shim() as run:
        for _ in range(2):
            assert scaler.scale(paddle.to_tensor(3.0)).item() == 3.0
    assert len(run.warnings) == 1
    assert "GradScaler does not scale" in run.warnings[0]


def test_the_scalers_state_is_paddles():
    with shim():
        state = paddle.amp.GradScaler(init_loss_scaling=1024.0).state_dict()
        again = paddle.amp.GradScaler(init_loss_scaling=2.0)
        again.load_state_dict(state)
    assert again._scale.item() == 1024.0
