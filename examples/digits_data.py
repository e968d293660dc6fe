"""What both digit classifiers share and neither framework is needed for: settings, data, batches, learning rate."""

from __future__ import annotations

import argparse
import math
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np


@dataclass(frozen=True)
class Config:
    """Everything that decides a training run."""

    epochs: int = 10
    batch_size: int = 64
    seed: int = 0
    layers: int = 3
    width: int = 48
    heads: int = 4
    dropout: float = 0.0
    learning_rate: float = 4e-3
    warmup_steps: int = 20
    weight_decay: float = 0.01
    clip_norm: float | None = 1.0


class Data(NamedTuple):
    """Images [n, 8, 8] of float32 in 0 to 1, labels [n] of int64."""

    train_images: np.ndarray
    train_labels: np.ndarray
    test_images: np.ndarray
    test_labels: np.ndarray


class Metrics(NamedTuple):
    """A model on the test images."""

    loss: float
    accuracy: float
    logits: np.ndarray


def load_data(test_share: float = 0.2) -> Data:
    """Scikit-learn's handwritten digits; the last ones, by other writers, are for testing."""
    from sklearn.datasets import load_digits

    digits = load_digits()
    images = (digits.images / digits.images.max()).astype(np.float32)
    labels = digits.target.astype(np.int64)
    cut = round(len(images) * (1 - test_share))
    return Data(images[:cut], labels[:cut], images[cut:], labels[cut:])


def batches(data: Data, config: Config, epoch: int) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """The training batches of an epoch, in an order that depends on the seed and the epoch alone."""
    order = np.random.default_rng([config.seed, epoch]).permutation(len(data.train_images))
    for start in range(0, len(order), config.batch_size):
        chosen = order[start : start + config.batch_size]
        yield data.train_images[chosen], data.train_labels[chosen]


def steps_per_epoch(data: Data, config: Config) -> int:
    """How many batches an epoch has; the last one may be smaller."""
    return math.ceil(len(data.train_images) / config.batch_size)


def learning_rate_factor(step: int, config: Config, total_steps: int) -> float:
    """Linear warmup, then a cosine down to zero, as a factor of the base learning rate."""
    if step < config.warmup_steps:
        return (step + 1) / config.warmup_steps
    done = (step - config.warmup_steps) / max(1, total_steps - config.warmup_steps)
    return 0.5 * (1.0 + math.cos(math.pi * min(1.0, done)))


def parse_args(description: str) -> tuple[Config, Path | None]:
    """The command line of a training script: its settings and the checkpoint to write, and to go on from."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--epochs", type=int, default=Config.epochs)
    parser.add_argument("--batch-size", type=int, default=Config.batch_size)
    parser.add_argument("--seed", type=int, default=Config.seed, help="of the weights and the order of batches")
    parser.add_argument("--dropout", type=float, default=Config.dropout)
    parser.add_argument("--out", type=Path, help="folder of the checkpoint; one that is there is gone on from")
    args = parser.parse_args()
    config = Config(epochs=args.epochs, batch_size=args.batch_size, seed=args.seed, dropout=args.dropout)
    return config, args.out and args.out / "checkpoint"


def print_epoch(epoch: int, metrics: Metrics, model: object) -> None:
    """The line that a script prints when an epoch is done (`on_epoch` of both scripts)."""
    print(f"epoch {epoch + 1}: test loss {metrics.loss:.4f}, accuracy {metrics.accuracy:.2%}", flush=True)
