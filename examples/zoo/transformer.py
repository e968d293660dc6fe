"""The Transformer of `make demo` on handwritten digits, trained by its own scripts."""

import digits_paddle
import digits_torch
import paddle.nn.functional as PF
import torch.nn.functional as TF
from digits_data import Config

from .handwriting import cached, labelled


def config(steps=1):
    """The demo's, with dropout, for one epoch of so many steps."""
    return Config(epochs=1, batch_size=-(-len(cached().train_images) // steps), dropout=0.1, warmup_steps=max(1, steps // 10))


def data(dtype):
    """Images of a dtype."""
    return cached()._replace(train_images=cached().train_images.astype(dtype), test_images=cached().test_images.astype(dtype))


def paddle_model():
    return digits_paddle.Classifier(config())


def torch_model():
    return digits_torch.Classifier(config())


def batch(rng):
    images, labels = labelled(rng, 16)
    return {"images": images[:, 0], "labels": labels}


def paddle_step(model, images, labels):
    logits = model(images)
    return [logits], PF.cross_entropy(logits, labels)


def torch_step(model, images, labels):
    logits = model(images)
    return [logits], TF.cross_entropy(logits, labels)


def paddle_train(model, batches, on_step):
    dtype = str(model.position.dtype).removeprefix("paddle.")
    digits_paddle.train(model, data(dtype), config(len(batches)), on_step=lambda step, loss, logits, model: on_step(loss))


def torch_train(model, batches, on_step):
    dtype = str(model.position.dtype).removeprefix("torch.")
    digits_torch.train(model, data(dtype), config(len(batches)), on_step=lambda step, loss, logits, model: on_step(loss))
