"""Models that hold other values for a while, the same on both sides."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from ..trees import as_array, copied
from ..weights.mapping import Mapping
from ..weights.pairing import Pair
from ..weights.transfer import carry
from .agreement import Array
from .programs import ModelSide, PaddleSide, TorchSide, tensors_of
from .trace import Model

_RANGE = 0.05, 0.5  # of what is added to weights of one number


def rounded_numbers(side: ModelSide, model: Model, mapping: Mapping) -> dict[str, Array]:
    """The single numbers that the conversion of a model to its side's dtype has rounded, as they were before, by name.

    The other program may write them in its source, where no dtype rounds them. Not what has a partner: both hold the same there.
    """
    paired, layers = {pair.name(side.framework) for pair in mapping}, dict(side._named_layers(model))
    held = {}
    for name, tensor in tensors_of(side.model).items():
        path, _, own = name.rpartition(".")
        before = as_array(getattr(layers[path], own))
        if name not in paired and before.size == 1 and before.dtype.kind == "f" and not np.array_equal(before, as_array(tensor)):
            held[name] = before
    return held


@contextlib.contextmanager
def holding(side: ModelSide, values: dict[str, Array]) -> Iterator[None]:
    """Within it a model holds other values under some names."""
    side.rewind()
    tensors = tensors_of(side.model)
    before = {name: copied(tensors[name]) for name in values}
    try:
        for name, array in values.items():
            side.fill(tensors[name], array)
        yield
    finally:
        side.rewind()
        for name, array in before.items():
            side.fill(tensors[name], array)


@contextlib.contextmanager
def held_before(pairs: Sequence[Pair], *sides: ModelSide) -> Iterator[None]:
    """Models hold in the end what they held in these pairs before."""
    with contextlib.ExitStack() as held:
        for side in sides:
            tensors, names = tensors_of(side.model), [pair.name(side.framework) for pair in pairs]
            held.enter_context(holding(side, {name: as_array(copied(tensors[name])) for name in names}))
        yield


def fill(pairs: Sequence[Pair], mapping: Mapping, original: TorchSide, port: PaddleSide) -> None:
    """Add the same random numbers to pairs on both sides; to matrices as layers begin with them, and not to rows of zeros there."""
    source, target = (original, port) if mapping.src == "torch" else (port, original)
    generator, tensors = np.random.default_rng(0), tensors_of(source.model)
    for side in (source, target):
        side.rewind()
    for pair in pairs:
        tensor = tensors[pair.name(source.framework)]
        values = as_array(tensor)
        noise = generator.uniform(*_RANGE, values.shape)
        if values.ndim > 1 and values.any():
            noise = (values != 0) * generator.standard_normal(values.shape) * (len(values) / values.size) ** 0.5
        source.fill(tensor, (values + noise).astype(values.dtype))
    carry(replace(mapping, pairs=list(pairs)), source.model, target.model)


@contextlib.contextmanager
def without_plain_weights(mapping: Mapping, original: TorchSide, port: PaddleSide) -> Iterator[list[str]]:
    """Within it weights and statistics that hold one number hold others, the same on both sides; gives their names in the port.

    A product with ones and a sum with zeros are exact: they hide how a program rounds.
    """
    layers = original.layers
    tensors = {side: tensors_of(side.model) for side in (original, port)}
    pairs = []
    for pair in mapping:
        slots = [pair.torch_slot.weight, pair.paddle_slot.weight]
        learned = all(slot is not None and slot.trainable and not slot.buffer for slot in slots)
        statistic = hasattr(layers.get(pair.torch.rpartition(".")[0]), "running_mean")
        values = tensors[original].get(pair.torch)
        if pair.is_exact and (learned or statistic) and values is not None and pair.paddle in tensors[port]:
            array = as_array(values)
            if array.dtype.kind == "f" and array.size and (array == array.flat[0]).all():
                pairs.append(pair)
    with held_before(pairs, original, port):
        if pairs:
            fill(pairs, mapping, original, port)
        yield [pair.paddle for pair in pairs]
