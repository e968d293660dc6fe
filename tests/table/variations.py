"""Calls of the op table with one argument exchanged for another, which Paddle may refuse: natively, then in a mode.

``python variations.py MODE PART PARTS`` prints a line for each call that Paddle refuses and the mode answers, or the other way
round, that ends with another kind of error, or whose results and gradients differ, and at the end how many were made.
"""

import math
import resource
import sys
from functools import partial

import driven
import numpy as np
import paddle
from helpers import entries, flat, takes
from trials import held

import padiff_shim
from padiff_shim.dispatch.dtypes import has_kernel
from padiff_shim.dispatch.entry_point import located, spelled, typed
from padiff_shim.dispatch.frames import paused
from padiff_shim.table.signature import parse

MODES = {
    "reference": partial(padiff_shim.reference, "torch"),
    "compare": partial(padiff_shim.compare, "torch", progress=False),
    "carry": partial(padiff_shim.compare, "torch", carry="torch", progress=False),
}
NUMBERS = (0, 1, -1, 2, 3, 7, 99, -99, 0.0, 0.5, -1.5, math.inf, -math.inf, math.nan)
OTHERS = (None, True, "no such word", "", [], [0], [1, 1], [0, 0, 0], (2,), {})
WORDS = ("mean", "sum", "none", "batchmean", "same", "valid", "constant", "reflect", "replicate", "circular", "NCHW", "NHWC", "NCL")
DTYPES = ("int64", "int32", "bool", "float64", "complex64")
MEMORY, SECONDS = 24 * 2**30, 20  # that a call may take
ROUNDINGS = 400 * 2.0**-24


def attributes(value):
    """What takes the place of an attribute."""
    others = [*NUMBERS, *OTHERS]
    if isinstance(value, str):
        others += [word for word in WORDS if word != value]
    if isinstance(value, (list, tuple)):
        items = list(value)
        others += [items[:-1], [*items, 1], [-item if isinstance(item, (int, float)) else item for item in items]]
        others += [[item] * len(items) for item in (0, -1, 9, 1.5, "x", None)]
    return [other for other in others if type(other) is not type(value) or repr(other) != repr(value)]


def shapes(shape):
    """What takes the place of an operand's shape."""
    others = [(*shape, 1), (*shape, 2), (1, *shape), shape[1:], shape[:-1], (), tuple(size + 1 for size in shape), (0, *shape[1:])]
    others += [(*shape[:-1], shape[-1] + 1), (shape[0] + 1, *shape[1:])] if shape else []
    return [other for other in dict.fromkeys(others) if other != shape]


def exchanges(op, entry, sample):
    """(text, attributes by name, operands by place) of what is exchanged; nothing at first, so that the mode knows the op."""
    yield "as it is", {}, {}
    taken = {aliases[0] for aliases, _ in parse(entry.params)}
    for name, value in zip(op.names[op.leading :], op.attributes(sample)):
        for other in attributes(value) if name in taken else ():
            yield f"{name}={other!r}", {name: other}, {}
    for place, operand in enumerate(sample.operands):
        yield f"operand {place}: None", {}, {place: None}
        if operand is None or isinstance(operand, (int, float)):
            continue
        for other in shapes(operand if isinstance(operand, tuple) else operand.shape):
            yield f"operand {place}: of shape {other}", {}, {place: other}
        for dtype in DTYPES:
            yield f"operand {place}: {dtype}", {}, {place: dtype}


class Variation:
    """A sample of an op at an entry point with arguments exchanged."""

    def __init__(self, op, entry, sample, attributes, operands):
        self.op, self.entry, self.sample, self.attributes = op, entry, sample, attributes
        arrays = enumerate(sample.arrays(np.random.default_rng(0)))
        self.arrays = [_exchanged(array, operands.get(place, array)) for place, array in arrays]

    def outcome(self):
        """The results, then the gradients."""
        tensors = [paddle.to_tensor(array) if isinstance(array, np.ndarray) else array for array in self.arrays]
        leaves = [tensor for tensor in tensors if isinstance(tensor, paddle.Tensor) and _is_float(tensor)]
        for leaf in leaves:
            leaf.stop_gradient = not self.op.gradient
        arguments = self.op.arguments(self.sample, tensors)
        arguments = [*arguments[: self.op.leading], *(typed(value, paddle) for value in arguments[self.op.leading :])]
        arguments = {**dict(zip(self.op.names, arguments)), **self.attributes}
        chosen = {*self.op.names[: self.op.leading], *self.sample.attrs, *self.attributes}
        results = located(self.entry)(*spelled(self.entry, arguments, chosen))
        results = list(results) if isinstance(results, (list, tuple)) else [results]
        described = [_described(result) for result in results]
        ends = [end for end in flat(results) if _is_float(end) and not end.stop_gradient and end._is_initialized()]
        if ends:
            with paused():
                incoming = [paddle.ones_like(end) for end in ends]
            paddle.autograd.backward(ends, incoming)
            described += [None if leaf.grad is None else _described(leaf.grad) for leaf in leaves]
        return described


def _is_float(tensor):
    return tensor.dtype in (paddle.float32, paddle.float64, paddle.complex64, paddle.complex128)


def _exchanged(array, other):
    if isinstance(other, tuple):
        return np.resize(array, other) if np.size(array) else np.zeros(other, array.dtype)
    return array.astype(other) if isinstance(other, str) else other


def _described(result):
    """Of a tensor its shape, dtype, flag and values; of others the type."""
    if isinstance(result, (list, tuple)):
        return [_described(item) for item in result]
    if not isinstance(result, paddle.Tensor):
        return type(result).__name__
    if not result._is_initialized():
        return "a tensor without memory"
    with paused():
        return (*result.shape, str(result.dtype), result.stop_gradient), result.detach().numpy()


def _difference(call, native, other, exact):
    """In what two outcomes differ; empty where they do not."""
    if isinstance(native, type) or isinstance(other, type):
        return "" if native is other else f"{_spoken(native)}, in the mode {_spoken(other)}"
    if len(native) != len(other):
        return f"{len(native)} results and gradients, in the mode {len(other)}"
    return next(filter(None, map(partial(_apart, call, exact=exact), native, other)), "")


def _apart(call, native, other, *, exact):
    if isinstance(native, list) and isinstance(other, list):
        return _difference(call, native, other, exact)
    if not (isinstance(native, tuple) and isinstance(other, tuple)):
        return "" if native == other else f"{_spoken(native)}, in the mode {_spoken(other)}"
    if native[0] != other[0]:
        return f"{native[0]}, in the mode {other[0]}"
    if not exact and not (held(call.op, "float32") and held(call.op, "float32", gradient=True)):
        return ""
    mine, yours = (values[1].astype("complex128") for values in (native, other))
    if exact:
        return "" if np.array_equal(mine, yours, equal_nan=True) else f"values {mine.ravel()[:3]}, in the mode {yours.ravel()[:3]}"
    finite = np.isfinite(mine)
    size = max(1.0, np.abs(mine[finite]).max(initial=0.0))
    near = np.abs(mine - yours)[finite].max(initial=0.0) <= ROUNDINGS * size
    return "" if near and (finite == np.isfinite(yours)).all() else f"values {mine.ravel()[:3]}, in the mode {yours.ravel()[:3]}"


def _spoken(outcome):
    if isinstance(outcome, list):
        return str([_spoken(part) for part in outcome])
    return str(outcome[0]) if isinstance(outcome, tuple) else getattr(outcome, "__name__", str(outcome))


def calls(part, parts):
    """(name, what makes a :class:`Variation`) at each op's first entry point: a sample as it is, and a part of the exchanges."""
    seen = set()
    for op, entry in entries():
        samples = [sample for sample in op.samples if takes(op, entry, sample)]
        plain = not (op.random or op.operands or entry.inplace or entry.arrange or entry.pairs) and has_kernel(op)
        if not samples or not plain or op.name in seen:
            continue
        seen.add(op.name)
        for number, sample in enumerate(samples[:2]):
            for place, (text, attributes, operands) in enumerate(exchanges(op, entry, sample)):
                if place and (place + len(seen)) % parts != part:
                    continue
                name = f"{entry.target.removeprefix('paddle.')}, sample {number}, {text}"
                yield name, partial(Variation, op, entry, sample, attributes, operands)


def made(mode, part, parts, begin):
    """The calls of a part from number ``begin`` on."""
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    driven.made(calls(part, parts), MODES[mode], _difference, begin, exact=mode == "compare", seconds=SECONDS)


if __name__ == "__main__":
    driven.main(__file__, made, *sys.argv[1:])
