"""Proximal policy optimisation (Schulman et al., 2017): a clipped loss, a value loss with a backward of its own, an entropy."""

import paddle
import paddle.nn as pnn
import paddle.nn.functional as PF
import torch
import torch.nn as tnn
import torch.nn.functional as TF

from .tensors import paddle_batch, torch_batch
from .training import Recipe, paddle_optimizer, torch_optimizer

ACTIONS, CLIP, EPOCHS = 4, 0.2, 2
RECIPE = Recipe("Adam", rate=3e-3, schedule="cosine", clip=0.5)
DRAWN = ("actions", "before", "advantages", "returns")  # what the training finds by acting


class PaddlePolicy(pnn.Layer):
    def __init__(self):
        super().__init__()
        self.body = pnn.Sequential(pnn.Linear(8, 32), pnn.Tanh(), pnn.Linear(32, 32), pnn.Tanh())
        self.actor = pnn.Linear(32, ACTIONS)
        self.critic = pnn.Linear(32, 1)

    def forward(self, x):
        x = self.body(x)
        return self.actor(x), self.critic(x)


class TorchPolicy(tnn.Module):
    def __init__(self):
        super().__init__()
        self.body = tnn.Sequential(tnn.Linear(8, 32), tnn.Tanh(), tnn.Linear(32, 32), tnn.Tanh())
        self.actor = tnn.Linear(32, ACTIONS)
        self.critic = tnn.Linear(32, 1)

    def forward(self, x):
        x = self.body(x)
        return self.actor(x), self.critic(x)


paddle_model, torch_model = PaddlePolicy, TorchPolicy


def batch(rng):
    return {
        "states": rng.standard_normal((32, 8)),
        "actions": rng.integers(0, ACTIONS, (32, 1)),
        "before": rng.standard_normal((32, 1)) * 0.1 - 1.4,
        "advantages": rng.standard_normal((32, 1)),
        "returns": rng.standard_normal((32, 1)),
    }


def paddle_step(model, states, actions, before, advantages, returns):
    logits, values = model(states)
    logs = PF.log_softmax(logits, axis=-1)
    ratio = paddle.exp(paddle.take_along_axis(logs, actions, axis=1) - before)
    clipped = paddle.clip(ratio, 1 - CLIP, 1 + CLIP)
    policy = -paddle.minimum(ratio * advantages, clipped * advantages).mean()
    value = PF.smooth_l1_loss(values, returns)
    entropy = -(logs.exp() * logs).sum(axis=-1).mean()
    value.backward(retain_graph=True)
    return [logits, values, ratio], policy - 0.01 * entropy


@paddle.no_grad()
def paddle_rollout(model, states):
    """Act by the policy; the action that the state's signs ask for is worth 1."""
    logits, values = model(states)
    logs = PF.log_softmax(logits, axis=-1)
    actions = paddle.multinomial(logs.exp(), 1)
    wanted = 2 * (states[:, :1] > 0).astype("int64") + (states[:, 1:2] > 0).astype("int64")
    returns = (actions == wanted).astype(states.dtype)
    advantages = returns - values
    advantages = (advantages - advantages.mean()) / (advantages.square().mean().sqrt() + 1e-8)
    return {
        "actions": actions,
        "before": paddle.take_along_axis(logs, actions, axis=1),
        "advantages": advantages,
        "returns": returns,
    }


def paddle_train(model, batches, on_step):
    optimizer, schedule = paddle_optimizer(model.parameters(), RECIPE, len(batches))
    for place, states in enumerate(batches):
        if place % EPOCHS == 0:
            states = paddle_batch(model, states)["states"]
            batch = {"states": states, **paddle_rollout(model, states)}
        _, loss = paddle_step(model, **batch)
        loss.backward()
        optimizer.step()
        optimizer.clear_grad()
        schedule.step()
        on_step(loss)


def torch_step(model, states, actions, before, advantages, returns):
    logits, values = model(states)
    logs = TF.log_softmax(logits, dim=-1)
    ratio = torch.exp(torch.gather(logs, 1, actions) - before)
    clipped = torch.clip(ratio, 1 - CLIP, 1 + CLIP)
    policy = -torch.minimum(ratio * advantages, clipped * advantages).mean()
    value = TF.smooth_l1_loss(values, returns)
    entropy = -(logs.exp() * logs).sum(dim=-1).mean()
    value.backward(retain_graph=True)
    return [logits, values, ratio], policy - 0.01 * entropy


@torch.no_grad()
def torch_rollout(model, states):
    """Act by the policy; the action that the state's signs ask for is worth 1."""
    logits, values = model(states)
    logs = TF.log_softmax(logits, dim=-1)
    actions = torch.multinomial(logs.exp(), 1)
    wanted = 2 * (states[:, :1] > 0).to(torch.int64) + (states[:, 1:2] > 0).to(torch.int64)
    returns = (actions == wanted).to(states.dtype)
    advantages = returns - values
    advantages = (advantages - advantages.mean()) / (advantages.square().mean().sqrt() + 1e-8)
    return {"actions": actions, "before": torch.gather(logs, 1, actions), "advantages": advantages, "returns": returns}


def torch_train(model, batches, on_step):
    optimizer, schedule = torch_optimizer(model.parameters(), RECIPE, len(batches))
    for place, states in enumerate(batches):
        if place % EPOCHS == 0:
            states = torch_batch(model, states)["states"]
            batch = {"states": states, **torch_rollout(model, states)}
        optimizer.zero_grad()
        _, loss = torch_step(model, **batch)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), RECIPE.clip)
        optimizer.step()
        schedule.step()
        on_step(loss)
