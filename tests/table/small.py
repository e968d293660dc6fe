"""Calls of the op table on operands without elements, without axes and of one element, in every dtype: natively, then in a mode.

``python small.py MODE PART PARTS`` prints a line for each call that differs, or ends the process in the mode alone, and at the end
how many were made. The calls run in a process of their own: where it ends, the next goes on behind its call. (Not in one that is
forked where the package is imported: calls stay native there.)
"""

import itertools
import sys
from functools import partial

import driven
import numpy as np
import paddle
from helpers import entries, flat, located, takes
from trials import held

import padiff_shim
from padiff_shim.dispatch.dtypes import has_kernel
from padiff_shim.dispatch.entry_point import spelled, typed
from padiff_shim.dispatch.frames import paused
from padiff_shim.table.samples import Bools, Ints

MODES = {"reference": partial(padiff_shim.reference, "torch"), "compare": partial(padiff_shim.compare, "torch", progress=False)}
DTYPES = (
    "float32",
    "float64",
    "float16",
    "bfloat16",
    "complex64",
    "complex128",
    "int64",
    "int32",
    "int16",
    "int8",
    "uint8",
    "bool",
)
UNITS = {"float32": 2.0**-24, "complex64": 2.0**-24, "float64": 2.0**-53, "complex128": 2.0**-53}
HALVES, HALF = ("float16", "bfloat16"), 2.0**-8 / 12  # of a value that is rounded once; few elements are added
ROUNDINGS = 200
DIFFERENTIABLE = (paddle.float16, paddle.bfloat16, paddle.float32, paddle.float64, paddle.complex64, paddle.complex128)
NO_KERNEL = (RuntimeError, AssertionError, TypeError, ValueError)


def _without(place):
    """Shapes with one axis without elements."""
    return lambda shape: tuple(0 if at == place % len(shape) else size for at, size in enumerate(shape)) if shape else shape


REAL_PART = "real parts of nothing"  # views without memory: whoever asks for their strides, or exports them, ends the process
# Form -> the shape of an operand, from that of the sample's; of the first operand alone where the form says so.
FORMS = {
    "its own shape": tuple,
    "first axis of 0": _without(0),
    "last axis of 0": _without(-1),
    "axes of 0": lambda shape: (0,) * len(shape),
    "one element": lambda shape: (1,) * len(shape),
    "0-D": lambda shape: (),
    "one axis of 0": lambda shape: (0,),
    REAL_PART: _without(0),
    "the first 0-D": lambda shape: (),
    "the first of one element": lambda shape: (1,) * len(shape),
}


class SmallCall:
    """A sample of an op with other shapes and another dtype at an entry point."""

    def __init__(self, op, entry, sample, form, dtype, grad):
        self.gradients = 0  # how many of what comes out, at the end, are gradients
        self.op, self.entry, self.sample, self.form, self.dtype, self.grad = op, entry, sample, form, dtype, grad
        rng = np.random.default_rng(0)
        forms = [form, *["its own shape" if form.startswith("the first") else form] * len(sample.operands)]
        self.arrays = [self._array(operand, FORMS[form], rng) for operand, form in zip(sample.operands, forms)]

    def _array(self, operand, form, rng):
        if operand is None or isinstance(operand, (int, float)):
            return operand
        shape = form(operand if isinstance(operand, tuple) else operand.shape)
        if isinstance(operand, Bools):
            return np.ones(shape, "bool")
        if isinstance(operand, Ints):
            return np.full(shape, operand.low, operand.dtype)
        low, high = (self.sample.within or (0.5, 2.0)) if isinstance(operand, tuple) else (operand.low, operand.high)
        values = rng.uniform(low, high, (1, *shape)).reshape(shape)
        if self.dtype.startswith("complex"):
            values = values * (1 + 0.5j)
        return values.astype("float32" if self.dtype == "bfloat16" else self.dtype)

    def _tensor(self, array, operand):
        tensor = paddle.to_tensor(array)
        if self.form == REAL_PART and tensor.is_floating_point():  # detached, as a leaf is
            tensor = paddle.real(paddle.to_tensor(array.astype("complex128" if self.dtype == "float64" else "complex64"))).detach()
        if isinstance(operand, (Ints, Bools)):
            return tensor
        if self.dtype in ("bfloat16", "float16"):
            tensor = tensor.astype(self.dtype)
        tensor.stop_gradient = not self.grad
        return tensor

    def outcome(self):
        """What comes out: results, then gradients."""
        pairs = list(zip(self.arrays, self.sample.operands))
        tensors = [self._tensor(*pair) if isinstance(pair[0], np.ndarray) else pair[0] for pair in pairs]
        arguments = self.op.arguments(self.sample, tensors)
        arguments = [*arguments[: self.op.leading], *(typed(value, paddle) for value in arguments[self.op.leading :])]
        chosen = {*self.op.names[: self.op.leading], *self.sample.attrs}
        results = flat(located(self.entry)(*spelled(self.entry, dict(zip(self.op.names, arguments)), chosen)))
        described = [_described(result) for number, result in enumerate(results) if self.op.results[number:] != self.op.scratch]
        ends = [result for result in results if not result.stop_gradient and result.is_floating_point()]
        if not (self.grad and ends):
            return described
        with paused():
            incoming = [paddle.ones(end.shape, "float32").astype(end.dtype) for end in ends]
        paddle.autograd.backward(ends, incoming)
        leaves = [tensor for tensor, (array, _) in zip(tensors, pairs) if isinstance(array, np.ndarray)]
        self.gradients = len(leaves)
        return described + [None if leaf.grad is None else _described(leaf.grad) for leaf in leaves]


def _described(tensor):
    """(shape, dtype, stop_gradient of a float tensor, values) of a tensor."""
    with paused():
        dtype = str(tensor.dtype).rpartition(".")[2]
        values = tensor.detach().astype("float32").numpy() if dtype in ("bfloat16", "float16") else tensor.detach().numpy()
    return list(tensor.shape), dtype, tensor.stop_gradient and tensor.dtype in DIFFERENTIABLE, values


def _difference(call, native, other, exact):
    """In what two outcomes differ; None where they do not."""
    if isinstance(native, type) or isinstance(other, type):
        torch_alone = native in NO_KERNEL and call.dtype in HALVES  # Paddle's CPU has few kernels in 16 bits
        return None if native is other or torch_alone else f"{_spoken(native)}, {_spoken(other)}"
    if len(native) != len(other):
        return f"{len(native)} results, {len(other)}"
    for place, (mine, yours) in enumerate(zip(native, other)):
        gradient = place >= len(native) - call.gradients
        if (mine is None) != (yours is None) or (mine is not None and mine[:3] != yours[:3]):
            return f"{place}: {_spoken([mine])}, {_spoken([yours])}"
        # Of integers Paddle computes in float32, also where the result is float64.
        kind = "float32" if "int" in call.dtype else mine[1] if mine else ""
        bound = 0 if exact else ROUNDINGS * UNITS.get(kind, HALF)
        if mine is not None and (exact or held(call.op, mine[1], gradient=gradient)) and not _near(mine[3], yours[3], bound):
            return f"{'gradient' if gradient else 'result'} {place}: values {mine[3].ravel()[:4]}, {yours[3].ravel()[:4]}"
    return None


def _near(mine, yours, bound):
    if mine.dtype.kind not in "fc" or not bound or not mine.size:
        return np.array_equal(mine, yours, equal_nan=mine.dtype.kind in "fc")
    finite = np.isfinite(mine)
    if not np.array_equal(mine[~finite], yours[~finite], equal_nan=True):
        return False
    return bool(np.abs(mine[finite] - yours[finite]).max(initial=0) <= bound * max(1, np.abs(mine[finite]).max(initial=0)))


def _spoken(outcome):
    if isinstance(outcome, type):
        return outcome.__name__
    return str([None if each is None else each[:3] for each in outcome])


def calls():
    """(name, call) of an op's first entry point, and of its first in place."""
    seen = set()
    for op, entry in entries():
        samples = [] if op.random or not has_kernel(op) else [sample for sample in op.samples if takes(op, entry, sample)]
        if not samples or (op.name, entry.inplace) in seen:
            continue
        seen.add((op.name, entry.inplace))
        for number, form, dtype in itertools.product(range(min(2, len(samples))), FORMS, DTYPES):
            for grad in (False, True)[: 1 + dtype.startswith(("float", "bfloat", "complex"))]:
                name = f"{entry.target.removeprefix('paddle.')}, sample {number}, {form}, {dtype}{', gradient' if grad else ''}"
                yield name, partial(SmallCall, op, entry, samples[number], form, dtype, grad)


def made(mode, part, parts, begin):
    """The calls of a part from number ``begin`` on."""
    driven.made(itertools.islice(calls(), part, None, parts), MODES[mode], _difference, begin, exact=mode == "compare")


if __name__ == "__main__":
    driven.main(__file__, made, *sys.argv[1:])
