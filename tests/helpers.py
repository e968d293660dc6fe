"""Tensors for the op table's samples, on both sides, in any dtype and layout."""

import functools
import inspect
import os
import pathlib
import re
import textwrap

import forked
import numpy as np
import paddle
import pytest
import torch
from _pytest.mark import ParameterSet
from forked import PATIENCE as PATIENCE, WATCHDOG as WATCHDOG

from padiff_shim.catalogue.defects import defects
from padiff_shim.catalogue.registry import families, ops
from padiff_shim.dispatch.dtypes import has_kernel
from padiff_shim.dispatch.entry_point import located as located, present_entry, spelled, takes as takes, typed
from padiff_shim.frameworks.versions import IS_3
from padiff_shim.tested import PADDLES

ROOT = pathlib.Path(__file__).resolve().parents[1]
LAYOUTS = ("contiguous", "transposed", "sliced", "expanded")
EVERY = os.environ.get("PADIFF_TESTS_TRIALS") == "all"  # `make test-all`


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
    if layout == "expanded" and values.ndim > 0 and values.size:
        held = tensor(np.ascontiguousarray(values[:1]))
        if isinstance(held, torch.Tensor):
            return held.expand(values.shape)
        return paddle.as_strided(held, list(values.shape), [0, *(size // values.itemsize for size in held.numpy().strides[1:])])
    return tensor(values)


def leaf(values, layout, grad, dtype=None):
    """Paddle's leaf of these values; ``dtype="bfloat16"`` is one that NumPy does not have."""
    tensor = lay_out(values, layout, paddle.to_tensor).detach()
    tensor = tensor if dtype is None else tensor.astype(dtype)
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


def _shortened(value):
    if not isinstance(value, np.ndarray) or value.dtype != np.float32:
        return value
    return np.asarray(np.asarray(value).view(np.uint32) & np.uint32(0xFFFF0000)).view(np.float32)  # 0-D ones stay arrays


class Call:
    """One sample of one op as a call of an entry point."""

    def __init__(self, op, entry, sample, dtype="float32", layout="contiguous", grad=False, seed=0, values=None):
        self.op, self.entry, self.sample, self.layout = op, entry, sample, layout
        self.cast = dtype if dtype == "bfloat16" else None
        self.values = sample.arrays(np.random.default_rng(seed), "float32" if self.cast else dtype) if values is None else values
        if self.cast:  # what bfloat16 holds: Paddle 2.6 and Torch round the rest otherwise
            self.values = [_shortened(value) for value in self.values]
        self.tensors = [self._leaf(value, grad) if isinstance(value, np.ndarray) else value for value in self.values]
        arguments = op.arguments(sample, self.tensors)
        self.attributes = [typed(value, torch) for value in arguments[op.leading :]]
        arguments = [*arguments[: op.leading], *(typed(value, paddle) for value in arguments[op.leading :])]
        self.args = spelled(entry, dict(zip(op.names, arguments)), {*op.names[: op.leading], *sample.attrs})
        self.refusal = None
        self.before = self.args[0].shape if not op.operands and entry.inplace else None

    def _leaf(self, values, grad):
        floating = values.dtype.kind == "f"
        return leaf(values, self._lies(values), grad and floating, self.cast if floating else None)

    def _lies(self, values):
        """Paddle 2.6 reads strided indices as if they were contiguous."""
        return self.layout if IS_3 or values.dtype.kind == "f" else "contiguous"

    def run(self):
        result = located(self.entry)(*self.args)
        return result[0] if self.entry.returns_list else result

    def _twin(self, values, ours):
        result = twin(values, self._lies(values), ours)
        return result.to(torch.bfloat16) if self.cast and result.is_floating_point() else result

    def torch(self, grad=False):
        """The formula on the same values and strides: result and leaves."""
        leaves = [self._twin(v, t) if isinstance(v, np.ndarray) else v for v, t in zip(self.values, self.tensors)]
        sides = list(leaves)
        if self.op.layouts:
            sides[1] = leaves[1] = leaves[1].t().contiguous().clone()  # a leaf, never a view
        for side in leaves:
            if isinstance(side, torch.Tensor) and side.is_floating_point() and grad:
                side.requires_grad_()
        operands = self.op.arguments(self.sample, sides)[: self.op.leading]
        return self.op(*operands, *self.attributes), leaves


def flat(result):
    """One result or several, some of them perhaps in lists: those that are tensors."""
    leaves = [leaf for item in result for leaf in flat(item)] if isinstance(result, (list, tuple)) else [result]
    return [leaf for leaf in leaves if isinstance(leaf, (paddle.Tensor, torch.Tensor))]


def has_defect(name):
    """Whether the Paddle that is installed is one of those on which this defect of docs/defects.md was seen."""
    return paddle.__version__ in defects()[name].paddle


def says(printed, wanted):
    """Every line of ``wanted`` stands in what was printed, in order; what a machine may change is left out with a …"""
    rest = [" ".join(line.split()) for line in printed.splitlines()]
    for line in wanted.strip().splitlines():
        parts = [" ".join(part.split()) for part in line.split("…")]
        pattern = re.compile(".*".join(map(re.escape, parts)) + ("" if line.endswith("…") else "$"))
        place = next((at for at, line in enumerate(rest) if pattern.match(line)), None)
        assert place is not None, f"{line!r} is not in\n{printed}"
        rest = rest[place + 1 :]


def thinned(table, *names):
    """The keys of a table as parameters of a test: these always, the others where ``slow`` tests run."""
    assert set(names) <= set(table), f"not in the table: {set(names) - set(table)}"
    return [pytest.param(key, marks=() if key in names else pytest.mark.slow) for key in table]


def some(choices, number):
    """All choices for a table's first case, and for the others one of them in turn; in `make test-all` all for each."""
    return choices if EVERY or not number else [choices[number % len(choices)]]


def sampled(cases, each):
    """Every ``each``-th parameter of a test, the others where ``slow`` tests run: one mechanism does the same with all."""
    return [_case(case, slow=number % each > 0) for number, case in enumerate(cases)]


def in_turn(cases, choices):
    """Each case with one of the choices in turn, and with the others where ``slow`` tests run, as parameters of a test."""
    choices = list(choices)
    return [
        _case(case, choice, slow=(number - place) % len(choices) > 0)
        for number, case in enumerate(cases)
        for place, choice in enumerate(choices)
    ]


def _case(*parts, slow):
    """One parameter of several, with the marks of all and a name of theirs."""
    parts = [ParameterSet.extract_from(part, force_tuple=not isinstance(part, tuple)) for part in parts]
    names = [part.id or "-".join(map(str, part.values)) for part in parts]
    marks = [mark for part in parts for mark in part.marks] + [pytest.mark.slow] * slow
    name = "-".join(names) if len(parts) > 1 else parts[0].id
    return pytest.param(*(value for part in parts for value in part.values), id=name, marks=marks)


def by_first_doors(doors):
    """(op, entry) as parameters of a test: of each op its first one always, further ones where ``slow`` tests run."""
    first = {op.name: entry for op, entry in reversed(doors)}
    return [
        pytest.param(op, entry, id=entry.target.removeprefix("paddle."), marks=() if first[op.name] is entry else pytest.mark.slow)
        for op, entry in doors
    ]


def tried(table, needed):
    """The names of a table as parameters of a test; ``needed``: name -> what of Paddle it :func:`needs`."""
    return [pytest.param(name, marks=needs(needed[name])) if name in needed else name for name in table]


def needs(target):
    """Skips a test where the installed Paddle has no ``"randn_like"``, or no such parameter: ``"var correction"``."""
    offered = offers(*target.split())
    assert offered or paddle.__version__ != PADDLES[-1], f"misspelled: the newest Paddle has no {target}, either"
    return pytest.mark.skipif(not offered, reason=f"Paddle {paddle.__version__} has no {target}")


def offers(name, parameter=None):
    """Whether there is ``paddle.<name>``, and takes this parameter."""
    try:
        function = functools.reduce(getattr, name.split("."), paddle)
    except AttributeError:
        return False
    return parameter is None or parameter in inspect.signature(function).parameters


def entries():
    """(op, entry) pairs that this Paddle has. With PADIFF_TESTS_ENTRIES=first an op's first one alone, and its first in place."""
    first = os.environ.get("PADIFF_TESTS_ENTRIES") == "first"  # `make smoke-compat`, `make smoke-isa`
    for op in ops().values():
        seen = set()
        for entry in op.entries:
            here = present_entry(entry)
            if here is not None and not (first and here.inplace in seen):
                seen.add(here.inplace)
                yield op, here


def running():
    """Names of the ops whose forward and backward can be run in one process here."""
    ends = {"norm_except_dim"}  # its backward alone ends the process: "one gradient alone" in docs/defects.md
    return [name for name, op in ops().items() if has_kernel(op) and name not in ends]


def of_families(pairs):
    """Family -> the first of the (op, entry) pairs of each op that can run here; families without any are left out."""
    first = {op.name: (op, entry) for op, entry in reversed(pairs) if has_kernel(op)}
    table = {family: [first[name] for name in names if name in first] for family, names in families().items()}
    return {family: members for family, members in table.items() if members}


def array(tensor):
    """Its values in NumPy, which knows no bfloat16: then in float32, exactly."""
    if isinstance(tensor, torch.Tensor):
        tensor = tensor.detach()
        return (tensor.float() if tensor.dtype == torch.bfloat16 else tensor).numpy()
    if isinstance(tensor, np.ndarray):
        return tensor
    return (tensor.astype("float32") if tensor.dtype == paddle.bfloat16 else tensor).numpy()


def same(ours, theirs):
    """Equal bit for bit (NaN equals NaN)."""
    ours, theirs = array(ours), array(theirs)
    return ours.shape == theirs.shape and ours.dtype == theirs.dtype and np.array_equal(ours, theirs, equal_nan=True)


def in_child(program, timeout=PATIENCE, *, opened=True):
    """Run a program in a process of its own: a crash or a hang must not take the suite along. ``opened``: see ``forked.run``."""
    head = "import paddle, padiff_shim, torch\nimport paddle.nn.functional as F\n"
    return forked.run(["-c", head + textwrap.dedent(program)], timeout=timeout, warm=True, opened=opened)


def leaves_in(dtype, *shape, seed=0):
    """A leaf of Paddle's and one of Torch's, in a dtype, with the same values."""
    torchs = torch.from_numpy(np.random.default_rng(seed).standard_normal(shape).astype("float32")).to(getattr(torch, dtype))
    paddles = paddle.to_tensor(torchs.float().numpy()).astype(dtype)
    paddles.stop_gradient = False
    return paddles, torchs.requires_grad_()


def numbers(*shape, seed=0):
    return np.random.default_rng(seed).standard_normal(shape).astype("float32")


def classes(port, original, **layers):
    """Models' classes (Paddle's, Torch's) of these forwards; ``layers``: name -> (name of the class in ``paddle.nn``, sizes).

    What one of them is called with are further attributes.
    """

    def make(base, nn, forward):
        class Made(base):
            def __init__(self, **attributes):
                super().__init__()
                for name, (kind, *sizes) in layers.items():
                    setattr(self, name, getattr(nn, kind if nn is paddle.nn else re.sub(r"(\d)D$", r"\1d", kind))(*sizes))
                for name, value in attributes.items():
                    setattr(self, name, value)

        Made.forward = forward
        return Made

    return make(paddle.nn.Layer, paddle.nn, port), make(torch.nn.Module, torch.nn, original)


def pair(port, original, **layers):
    """A model of each of these :func:`classes`, Torch's always with the same weights."""
    torch.manual_seed(0)
    return tuple(made() for made in classes(port, original, **layers))
