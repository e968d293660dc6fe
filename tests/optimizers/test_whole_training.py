"""The demo's encoder, trained with AdamW, clipping and a schedule: every step's loss, gradients and parameters are the twin's."""

import sys

import paddle
import pytest
import torch
import torch.nn.functional as TF
from helpers import ROOT, same
from paddle.nn import functional as F
from trainings import turned

import padiff_shim

sys.path.insert(0, str(ROOT / "examples"))
import digits_paddle
import digits_torch
from digits_data import Config, batches, load_data

pytestmark = pytest.mark.bitexact
STEPS = 20
CONFIG = Config(width=24, heads=4, layers=2, batch_size=32, dropout=0.0, clip_norm=0.5)


@torch.no_grad()
def paddles_clip(twin):
    """The global norm by Paddle's formula; Torch's own adds 1e-6 to the norm, which is another number."""
    gradients = [parameter.grad for parameter in twin.parameters()]
    norm = torch.stack([gradient.square().sum() for gradient in gradients]).sum().sqrt()
    factor = CONFIG.clip_norm / norm.clamp(min=CONFIG.clip_norm)
    for gradient in gradients:
        gradient.mul_(factor)


CLIPS = {  # by whose definition the twin clips
    "torch": lambda twin: torch.nn.utils.clip_grad_norm_(twin.parameters(), CONFIG.clip_norm),
    "paddle": paddles_clip,
}


def check(ours, twin, grads=False):
    """Names of parameters, or of gradients, that are not the twin's."""
    transposed, theirs = digits_torch.turned(twin), dict(twin.named_parameters())
    for name, param in ours.named_parameters():
        mine = (param.grad if grads else param).numpy()
        if not same(turned(mine) if name in transposed else mine, theirs[name].grad if grads else theirs[name]):
            yield name


@pytest.mark.rows(1)
@pytest.mark.parametrize("definition", CLIPS)
def test_every_step_is_the_twins(definition):
    ours, twin = digits_paddle.build_model(CONFIG), digits_torch.build_model(CONFIG)
    digits_torch.load_paddle_state(twin, {name: tensor.numpy() for name, tensor in ours.state_dict().items()})
    mine, schedule = digits_paddle.build_optimizer(ours, CONFIG, STEPS)
    theirs, twin_schedule = digits_torch.build_optimizer(twin, CONFIG, STEPS)
    data = load_data()
    with padiff_shim.reference("torch", optimizer=definition) as run:
        for step, (images, labels) in zip(range(STEPS), batches(data, CONFIG, 0)):
            loss = F.cross_entropy(ours(paddle.to_tensor(images)), paddle.to_tensor(labels))
            twin_loss = TF.cross_entropy(twin(torch.from_numpy(images)), torch.from_numpy(labels))
            assert same(loss.reshape([]), twin_loss), step
            loss.backward()
            theirs.zero_grad()
            twin_loss.backward()
            assert list(check(ours, twin, grads=True)) == [], step
            mine.step()
            CLIPS[definition](twin)
            theirs.step()
            assert list(check(ours, twin)) == [], step
            mine.clear_grad()
            schedule.step()
            twin_schedule.step()
    assert step == STEPS - 1
    assert run.optimizers == {
        "adamw": {"torch": STEPS * len(list(twin.parameters()))},
        "clip_grad_by_global_norm": {definition: STEPS},
    }
