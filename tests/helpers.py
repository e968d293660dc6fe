"""Tensors for the op table's samples, on both sides, in any dtype and layout."""

import functools
import os
import pathlib
import subprocess
import sys
import textwrap

import numpy as np
import paddle
import torch

from padiff_shim.catalogue.registry import ops
from padiff_shim.frameworks.versions import IS_3
from padiff_shim.table import signature

ROOT = pathlib.Path(__file__).resolve().parents[1]
LAYOUTS = ("contiguous", "transposed", "sliced")


def lay_out(values, layout, tensor):
    """A tensor of these values by the framework's ``tensor`` function; on request a view with other strides."""
    if layout == "transposed" and values.ndim > 1:
        axes = [*range(values.ndim - 2), values.ndim - 1, values.ndim - 2]
        held = tensor(np.ascontiguousarray(np.swapaxes(values, -1, -2)))
        return held.permute(axes) if isinstance(held, torch.Tensor) else paddle.transpose(held, axes)
    if layout == "sliced" and values.ndim > 0 and values.size:
        wide = np.zeros((*values.shape[:-1], values.shape[-1] + 3), values.dtype)
        wide[..., 2:-1] = values
        return tensor(wide)[..., 2:-1]
    return tensor(values)


def leaf(values, layout, grad):
    tensor = lay_out(values, layout, paddle.to_tensor).detach()
    tensor.stop_gradient = not grad
    return tensor


def twin(values, layout, ours):
    """Torch's tensor of the same values and strides, made from NumPy alone."""
    tensor = lay_out(values, layout, torch.tensor)
    pairs = [(a, b) for a, b, size in zip(tensor.stride(), ours.strides, tensor.shape) if size > 1]
    if any(a != b for a, b in pairs) and tensor.numel():
        assert not IS_3, (layout, tensor.stride(), ours.strides)
        tensor = tensor.contiguous()  # 2.6 copies where 3.x makes a view
    # The stride of an axis of size 1 says nothing, but BLAS may be asked with it.
    return tensor.as_strided(tensor.shape, tuple(ours.strides)) if tensor.numel() else tensor


def located(entry):
    """The function or descriptor behind an entry now, or None if this Paddle does not have it."""
    return functools.reduce(lambda owner, part: getattr(owner, part, None), entry.target.split(".")[1:], paddle)


def spelled(entry, given, chosen=()):
    """The arguments as this door takes them: by position, or in the legacy form with the names of attributes.

    ``chosen``: the names of attributes that are not the op's defaults; for others the door has its own.
    """
    parsed = signature.parse(entry.params)
    if entry.pairs is None:
        own = {aliases[0]: default for aliases, default in parsed if default is not signature.REQUIRED}
        return [own[name] if name in own and name not in chosen else given[name] for name in (one[0] for one, _ in parsed)]
    args = [given[aliases[0]] for aliases, _ in parsed[: entry.pairs]]
    for aliases, _ in parsed[entry.pairs :]:
        name, value = aliases[-1], given.get(aliases[0])
        if name == "reduce_all":
            value = not isinstance(given["axis"], int) and not given["axis"]
        elif aliases[0] == "axis" and isinstance(value, int) and "reduce_all" in entry.params:
            value = [value]
        if value is not None:
            args += [name, value]
    return args


def takes(op, entry, sample):
    """Whether a sample can be spelled at this door: what the door does not take, the sample leaves out."""
    known = {aliases[0] for aliases, _ in signature.parse(entry.params)} | ({"axis"} if "reduce_all" in entry.params else set())
    defaults = {aliases[0]: default for aliases, default in signature.parse(op.params)}
    given = {} if op.operands else {name: one for name, one in zip(op.names, sample.operands) if one is not None}
    return all(name in known or value == defaults[name] for name, value in {**given, **sample.attrs}.items())


class Call:
    """One sample of one op as a call of an entry point."""

    def __init__(self, op, entry, sample, dtype, layout, grad, seed=0):
        self.op, self.entry, self.sample = op, entry, sample
        values = sample.arrays(np.random.default_rng(seed), dtype)
        self.values, self.layout = values, layout
        self.tensors = [leaf(v, layout, grad and v.dtype.kind == "f") if isinstance(v, np.ndarray) else v for v in values]
        self.attributes = op.attributes(sample)
        given = dict(zip(op.names, op.arguments(sample, self.tensors)))
        self.args = spelled(entry, given, {*op.names[: op.leading], *sample.attrs})
        self.before = self.args[0].shape if not op.operands and entry.inplace else None

    def run(self):
        result = located(self.entry)(*self.args)
        return result[0] if self.entry.returns_list else result

    def torch(self, grad):
        """The formula on the same values and strides: result and leaves."""
        leaves = [twin(v, self.layout, t) if isinstance(v, np.ndarray) else v for v, t in zip(self.values, self.tensors)]
        sides = list(leaves)
        if self.op.layouts:
            sides[1] = leaves[1] = leaves[1].t().contiguous().clone()  # a leaf, never a view
        for side in leaves:
            if isinstance(side, torch.Tensor) and side.is_floating_point() and grad:
                side.requires_grad_()
        return self.op(*self.op.arguments(self.sample, sides)), leaves


def entries():
    """(op, entry) pairs that this Paddle has."""
    for op in ops().values():
        for entry in op.entries:
            if located(entry) is not None:
                yield op, entry


def same(ours, theirs):
    """Equal bit for bit (NaN equals NaN)."""
    ours = ours.numpy() if not isinstance(ours, np.ndarray) else ours
    theirs = theirs.detach().numpy() if isinstance(theirs, torch.Tensor) else theirs
    return ours.shape == theirs.shape and ours.dtype == theirs.dtype and np.array_equal(ours, theirs, equal_nan=True)


def in_child(program, timeout=120):
    """Run a program of its own: a crash or a hang must not take the suite along."""
    head = "import paddle, padiff_shim, torch\nimport paddle.nn.functional as F\n"
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    return subprocess.run(
        [sys.executable, "-c", head + textwrap.dedent(program)],
        capture_output=True, text=True, timeout=timeout, env=environment, check=False,
    )  # fmt: skip
