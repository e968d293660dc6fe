"""Train a small Transformer encoder on handwritten digits: an ordinary Paddle program.

Each image is read as eight tokens, its rows. `python examples/digits_paddle.py --out runs/digits` trains, evaluates after
every epoch and leaves a checkpoint; called again with more --epochs it goes on from there.
"""

from __future__ import annotations

import math
from pathlib import Path

import paddle
import paddle.nn.functional as F
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
from paddle import nn

CLASSES = 10
ROWS = COLUMNS = 8


class Attention(nn.Layer):
    """Multi-head self-attention."""

    def __init__(self, config: Config):
        super().__init__()
        self.heads = config.heads
        self.query = nn.Linear(config.width, config.width)
        # No bias: it would shift all scores of a query alike, and softmax takes that away again. Its gradient would be
        # rounding noise, which Adam blows up to full steps.
        self.key = nn.Linear(config.width, config.width, bias_attr=False)
        self.value = nn.Linear(config.width, config.width)
        self.output = nn.Linear(config.width, config.width)

    def split_heads(self, x):
        batch, length, width = x.shape
        return x.reshape([batch, length, self.heads, width // self.heads]).transpose([0, 2, 1, 3])

    def forward(self, x):
        query, key, value = (self.split_heads(project(x)) for project in (self.query, self.key, self.value))
        scores = paddle.matmul(query, key, transpose_y=True) / math.sqrt(query.shape[-1])
        context = paddle.matmul(F.softmax(scores, axis=-1), value)
        return self.output(context.transpose([0, 2, 1, 3]).reshape(x.shape))


class EncoderLayer(nn.Layer):
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


class Classifier(nn.Layer):
    """Rows of pixels to the logits of the ten digits."""

    def __init__(self, config: Config):
        super().__init__()
        self.embed = nn.Linear(COLUMNS, config.width)
        self.position = self.create_parameter([ROWS, config.width], default_initializer=nn.initializer.Normal(std=0.02))
        self.layers = nn.LayerList([EncoderLayer(config) for _ in range(config.layers)])
        self.norm = nn.LayerNorm(config.width)
        self.head = nn.Linear(config.width, CLASSES)

    def forward(self, images):
        x = self.embed(images) + self.position
        for layer in self.layers:
            x = layer(x)
        return self.head(self.norm(x).mean(axis=1))


def build_model(config: Config) -> Classifier:
    """A model whose weights depend on the seed alone."""
    paddle.seed(config.seed)
    return Classifier(config)


def build_optimizer(model: Classifier, config: Config, total_steps: int):
    """AdamW with clipping by the global norm, and its schedule: warmup, then cosine decay."""
    schedule = paddle.optimizer.lr.LambdaDecay(config.learning_rate, lambda step: learning_rate_factor(step, config, total_steps))
    clip = None if config.clip_norm is None else nn.ClipGradByGlobalNorm(config.clip_norm)
    optimizer = paddle.optimizer.AdamW(schedule, parameters=model.parameters(), weight_decay=config.weight_decay, grad_clip=clip)
    return optimizer, schedule


@paddle.no_grad()
def evaluate(model: Classifier, data: Data) -> Metrics:
    """Loss and accuracy on the test images."""
    model.eval()
    logits = model(paddle.to_tensor(data.test_images))
    loss = F.cross_entropy(logits, paddle.to_tensor(data.test_labels))
    model.train()
    guesses = logits.numpy().argmax(axis=-1)
    return Metrics(loss.item(), float((guesses == data.test_labels).mean()), logits.numpy())


def save_checkpoint(path: Path, model: Classifier, optimizer, epochs_done: int) -> None:
    """Write all that training needs to go on."""
    path.parent.mkdir(parents=True, exist_ok=True)
    state = {"model": model.state_dict(), "optimizer": optimizer.state_dict(), "epochs_done": epochs_done}
    part = path.with_suffix(".part")
    paddle.save(state, str(part))
    part.replace(path)  # at once, so that an interrupted run leaves the last good one


def load_checkpoint(path: Path, model: Classifier, optimizer) -> int:
    """Restore model and optimizer; return how many epochs they have behind them.

    Paddle's optimizer goes by generated names: in a process that has trained another model before, build and train under
    `paddle.utils.unique_name.guard()`.
    """
    state = paddle.load(str(path))
    model.set_state_dict(state["model"])
    optimizer.set_state_dict(state["optimizer"])
    return state["epochs_done"]


def train(model: Classifier, data: Data, config: Config, on_step=None, on_epoch=None, checkpoint: Path | None = None) -> None:
    """Train, and report: on_step(step, loss, logits, model) after each update, on_epoch(epoch, metrics, model)."""
    optimizer, schedule = build_optimizer(model, config, config.epochs * steps_per_epoch(data, config))
    done = load_checkpoint(checkpoint, model, optimizer) if checkpoint and checkpoint.exists() else 0
    step = done * steps_per_epoch(data, config)
    for epoch in range(done, config.epochs):
        for images, labels in batches(data, config, epoch):
            logits = model(paddle.to_tensor(images))
            loss = F.cross_entropy(logits, paddle.to_tensor(labels))
            loss.backward()
            optimizer.step()
            optimizer.clear_grad()
            schedule.step()
            if on_step:
                on_step(step, loss.item(), logits.numpy(), model)
            step += 1
        if checkpoint:
            save_checkpoint(checkpoint, model, optimizer, epoch + 1)
        metrics = evaluate(model, data)
        if on_epoch:
            on_epoch(epoch, metrics, model)


def main() -> None:
    """Train as the command line says."""
    config, checkpoint = parse_args(__doc__.splitlines()[0])
    train(build_model(config), load_data(), config, on_epoch=print_epoch, checkpoint=checkpoint)


if __name__ == "__main__":
    main()
