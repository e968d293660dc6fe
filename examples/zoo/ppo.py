"""The clipped loss of proximal policy optimisation (Schulman et al., 2017), with a value loss and the entropy of the policy."""

import paddle
import paddle.nn as pnn
import paddle.nn.functional as PF
import torch
import torch.nn as tnn
import torch.nn.functional as TF

ACTIONS, CLIP = 4, 0.2


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
