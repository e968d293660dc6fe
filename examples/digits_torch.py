"""The Torch twin of digits_paddle: the same model, batches, schedule and update rule, written the way Torch users do.

It takes its weights from the Paddle model (`load_paddle_state`), so that whatever differs afterwards comes from the kernels.
"""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from digits_data import (
    Config,
    Data,
    Metrics,
    batches,
    learning_rate_factor,
    load_data,
    parse_args,
    print_epoch,
    steps_per_epoch,
)
from torch import nn

CLASSES = 10
ROWS = COLUMNS = 8


class Attention(nn.Module):
    """Multi-head self-attention."""

    def __init__(self, config: Config):
        super().__init__()
        self.heads = config.heads
        self.query = nn.Linear(config.width, config.width)
        self.key = nn.Linear(config.width, config.width, bias=False)
        self.value = nn.Linear(config.width, config.width)
        self.output = nn.Linear(config.width, config.width)

    def split_heads(self, x):
        batch, length, width = x.shape
        return x.reshape(batch, length, self.heads, width // self.heads).permute(0, 2, 1, 3)

    def forward(self, x):
        query, key, value = (self.split_heads(project(x)) for project in (self.query, self.key, self.value))
        scores = torch.matmul(query, key.transpose(-1, -2)) / math.sqrt(query.shape[-1])
        context = torch.matmul(F.softmax(scores, dim=-1), value)
        return self.output(context.permute(0, 2, 1, 3).reshape(x.shape))


class EncoderLayer(nn.Module):
    """Attention and a feed-forward part, each behind a LayerNorm and beside a residual."""

    def __init__(self, config: Config):
        super().__init__()
        self.norm1 = nn.LayerNorm(config.width)
        self.attention = Attention(config)
        self.norm2 = nn.LayerNorm(config.width)
        self.linear1 = nn.Linear(config.width, 4 * config.width)
        self.linear2 = nn.Linear(4 * config.width, config.width)
        self.dropout = nn.Dropout(config.dropout)

    def forward(self, x):
        x = x + self.dropout(self.attention(self.norm1(x)))
        return x + self.dropout(self.linear2(F.gelu(self.linear1(self.norm2(x)))))


class Classifier(nn.Module):
    """Rows of pixels to the logits of the ten digits."""

    def __init__(self, config: Config):
        super().__init__()
        self.embed = nn.Linear(COLUMNS, config.width)
        self.position = nn.Parameter(0.02 * torch.randn(ROWS, config.width))
        self.layers = nn.ModuleList([EncoderLayer(config) for _ in range(config.layers)])
        self.norm = nn.LayerNorm(config.width)
        self.head = nn.Linear(config.width, CLASSES)

    def forward(self, images):
        x = self.embed(images) + self.position
        for layer in self.layers:
            x = layer(x)
        return self.head(self.norm(x).mean(dim=1))


def build_model(config: Config) -> Classifier:
    """A model whose weights depend on the seed alone."""
    torch.manual_seed(config.seed)
    return Classifier(config)


def turned(model: nn.Module) -> set[str]:
    """Names of the weights that Paddle keeps as [in, out] and Torch as [out, in]."""
    return {f"{name}.weight" for name, module in model.named_modules() if isinstance(module, nn.Linear)}


def load_paddle_state(model: nn.Module, state: dict[str, np.ndarray]) -> None:
    """Take over the weights of a Paddle state dict, given as arrays."""
    transposed = turned(model)
    arrays = {name: array.T if name in transposed else array for name, array in state.items()}
    model.load_state_dict({name: torch.tensor(np.ascontiguousarray(array)) for name, array in arrays.items()})


def paddle_state(model: Classifier) -> dict[str, np.ndarray]:
    """A copy of the weights as Paddle would hold them."""
    transposed = turned(model)
    arrays = {name: tensor.detach().numpy() for name, tensor in model.state_dict().items()}
    return {name: (array.T if name in transposed else array).copy() for name, array in arrays.items()}


def build_optimizer(model: Classifier, config: Config, total_steps: int):
    """AdamW and its schedule: warmup, then cosine decay."""
    optimizer = torch.optim.AdamW(model.parameters(), lr=config.learning_rate, weight_decay=config.weight_decay)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: learning_rate_factor(step, config, total_steps))
    return optimizer, schedule


@torch.no_grad()
def evaluate(model: Classifier, data: Data) -> Metrics:
    """Loss and accuracy on the test images."""
    model.eval()
    logits = model(torch.from_numpy(data.test_images))
    loss = F.cross_entropy(logits, torch.from_numpy(data.test_labels))
    model.train()
    guesses = logits.numpy().argmax(axis=-1)
    return Metrics(loss.item(), float((guesses == data.test_labels).mean()), logits.numpy())


def save_checkpoint(path: Path, model: Classifier, optimizer, schedule, epochs_done: int) -> None:
    """Write all that training needs to go on."""
    path.parent.mkdir(parents=True, exist_ok=True)
    parts = {"model": model, "optimizer": optimizer, "schedule": schedule}
    part = path.with_suffix(".part")
    torch.save({name: value.state_dict() for name, value in parts.items()} | {"epochs_done": epochs_done}, part)
    part.replace(path)


def load_checkpoint(path: Path, model: Classifier, optimizer, schedule) -> int:
    """Restore model, optimizer and schedule; return how many epochs they have behind them."""
    state = torch.load(path)
    for name, value in {"model": model, "optimizer": optimizer, "schedule": schedule}.items():
        value.load_state_dict(state[name])
    return state["epochs_done"]


def train(model: Classifier, data: Data, config: Config, on_step=None, on_epoch=None, checkpoint: Path | None = None) -> None:
    """Train, and report: on_step(step, loss, logits, model) after each update, on_epoch(epoch, metrics, model)."""
    optimizer, schedule = build_optimizer(model, config, config.epochs * steps_per_epoch(data, config))
    done = load_checkpoint(checkpoint, model, optimizer, schedule) if checkpoint and checkpoint.exists() else 0
    step = done * steps_per_epoch(data, config)
    for epoch in range(done, config.epochs):
        for images, labels in batches(data, config, epoch):
            logits = model(torch.from_numpy(images))
            loss = F.cross_entropy(logits, torch.from_numpy(labels))
            optimizer.zero_grad()
            loss.backward()
            if config.clip_norm is not None:
                torch.nn.utils.clip_grad_norm_(model.parameters(), config.clip_norm)
            optimizer.step()
            schedule.step()
            if on_step:
                on_step(step, loss.item(), logits.detach().numpy(), model)
            step += 1
        if checkpoint:
            save_checkpoint(checkpoint, model, optimizer, schedule, epoch + 1)
        metrics = evaluate(model, data)
        if on_epoch:
            on_epoch(epoch, metrics, model)


def main() -> None:
    """Train from Torch's own random weights, as the command line says."""
    config, checkpoint = parse_args(__doc__.splitlines()[0])
    train(build_model(config), load_data(), config, on_epoch=print_epoch, checkpoint=checkpoint)


if __name__ == "__main__":
    main()
