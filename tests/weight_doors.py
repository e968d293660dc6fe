"""Every entry point of this Paddle that may write into a weight, found by asking Paddle; as a program, it goes through them all.

A door is tried with many argument forms, most of which it refuses: whatever it does, `F.linear` inside the mode has to answer as
torch does on the values that the weight then has. Prints, as JSON, the doors that wrote and those after which the answer was stale.
"""

import contextlib
import inspect
import itertools
import json
import sys
import warnings

import numpy as np
import paddle
import paddle.nn.functional as F
import torch

import padiff_shim
from padiff_shim.frameworks.memory import to_torch

SHAPE = [4, 3]
FIRST = paddle.ones([1, 4])
KINDS = ("parameter", "differentiable", "constant")
DESTINATIONS = ("out", "output")
NAMESPACES = tuple(
    f"paddle{name}" for name in ("", ".Tensor", ".linalg", ".nn.functional", ".nn.init", ".special", ".signal", ".fft")
)


def new_weight(kind):
    if kind == "parameter":
        return paddle.create_parameter(SHAPE, "float32", default_initializer=paddle.nn.initializer.Uniform(-0.9, 0.9))
    weight = paddle.uniform(SHAPE, "float32", -0.9, 0.9)
    weight.stop_gradient = kind == "constant"
    return weight


def values():
    """By the name of a parameter, what a door is given for it: one after the other."""
    tensor, rows, index = paddle.full(SHAPE, 0.25), paddle.ones([2, 3]), paddle.to_tensor([1, 0])
    cells, everywhere = paddle.zeros(SHAPE, "int64"), paddle.to_tensor(np.eye(*SHAPE).astype(bool))
    square, row = paddle.full([4, 4], 0.5), paddle.ones([1, 3])
    kinds = {
        "x input": [tensor, np.ones(SHAPE, "float32"), [tensor[:2], tensor[2:]], square],
        "y other weight a b real imag abs angle": [tensor, paddle.ones(SHAPE, "int32"), paddle.ones([3]), square],
        "value values src updates": [0.5, tensor, rows, row],
        "index indices": [index, cells, (paddle.to_tensor([1]),)],
        "mask condition": [everywhere],
        "axis dim n k num_rows": [0, 1, 4],
        "p probs q max_norm val scale min max nan fill_value start stop": [0.5, 1],
        "arr": [tensor],
        "shape": [SHAPE, [3, 4]],
        "perm": [[1, 0]],
        "num": [12],
        "dtype": ["float64", "float32"],
        "func": [lambda value: value + 1],
        "sorted_sequence": [paddle.arange(4.0)],
    }
    return {name: arguments for names, arguments in kinds.items() for name in names.split()}


VALUES = values()
CRASHES = ".reconstruct_from_"  # it empties its argument: natively the next use ends the process


def found(*namespaces):
    """The public functions that have a signature, each under one of its names."""
    seen = set()
    for namespace in namespaces:
        owner = paddle
        for part in namespace.split(".")[1:]:
            owner = getattr(owner, part, None)
        for name in dir(owner) if owner is not None else ():
            function = getattr(owner, name)
            if name.startswith("_") or not callable(function) or inspect.isclass(function) or function in seen:
                continue
            seen.add(function)
            try:
                yield f"{namespace}.{name}", function, inspect.signature(function).parameters
            except (TypeError, ValueError):  # `copy_` and accessors of C++: given wrong arguments they end the process
                continue


def forms(parameters, skip=0):
    """Argument lists after the first ``skip``: what is required, and one optional argument more; a dozen of them."""
    rest = [p for p in parameters.values() if p.kind is p.POSITIONAL_OR_KEYWORD and p.name not in DESTINATIONS][skip:]
    required = [VALUES.get(p.name, ()) for p in rest if p.default is p.empty]
    optional = [p.name for p in rest if p.default is not p.empty and p.name in VALUES]
    complete = list(itertools.product(*required))
    complete += [(*args, value) for args in complete for name in optional[:1] for value in VALUES[name]]
    return complete[:: 1 + len(complete) // 12]


def in_place():
    """What says by its name that it writes. The C ops are reached through these: with wrong arguments they end the process."""
    for name, function, parameters in found(*NAMESPACES):
        if name.endswith("_") and not name.endswith(CRASHES):
            yield name, [lambda w, f=function, args=args: f(w, *args) for args in forms(parameters, 1)]


def redirected():
    """What takes a destination."""
    for name, function, parameters in found(*NAMESPACES):
        for keyword in set(DESTINATIONS) & set(parameters):
            attempts = [lambda w, f=function, args=args, keyword=keyword: f(*args, **{keyword: w}) for args in forms(parameters)]
            yield f"{name}({keyword}=)", attempts


def classes(module, base):
    for name, kind in list(vars(module).items()):
        if inspect.isclass(kind) and issubclass(kind, base) and kind is not base:
            yield name, kind


def updates():
    """Optimizers and initializers."""

    def step(w, kind, options):
        optimizer = kind(parameters=[w], **options)

        def closure():
            optimizer.clear_grad()
            with paddle.enable_grad():
                loss = (w * w).sum()
                loss.backward()
            return loss

        closure()
        optimizer.step(closure) if kind is paddle.optimizer.LBFGS else optimizer.step()

    for name, kind in classes(paddle.optimizer, paddle.optimizer.Optimizer):
        options = {} if name == "LBFGS" else {"learning_rate": 0.5, **({"batch_num": 1} if name == "ASGD" else {})}
        yield f"optimizer.{name}", [lambda w, kind=kind, options=options: step(w, kind, options)]
    for name, kind in classes(paddle.nn.initializer, paddle.nn.initializer.Initializer):
        options = [(np.ones(SHAPE, "float32"),)] if name in ("Assign", "NumpyArrayInitializer") else [(), (0.3,)]
        yield f"initializer.{name}", [lambda w, kind=kind, args=args: kind(*args)(w) for args in options]


def by_value():
    """What has no name to be found by."""
    ones = np.ones(SHAPE, "float32")
    dense = paddle.full(SHAPE, 2.0)

    def layer(w):
        made = paddle.nn.Linear(*SHAPE, bias_attr=False)
        made.weight = w if isinstance(w, paddle.base.framework.EagerParamBase) else made.weight
        return made

    writes = {
        "set_value": lambda w: w.set_value(ones),
        "set_value(tensor)": lambda w: w.set_value(dense),
        "set_state_dict": lambda w: layer(w).set_state_dict({"weight": dense}),
        "get_tensor().set": lambda w: w.get_tensor().set(ones, paddle.CPUPlace()),
        "copy_": lambda w: w.copy_(dense, True),
        "data =": lambda w: setattr(w, "data", dense),
        "[]": lambda w: w.__setitem__(0, 9.0),
        "[:] = tensor": lambda w: w.__setitem__(slice(None), dense),
        "_share_buffer_to": lambda w: dense._share_buffer_to(w),
        "DLPack alias": lambda w: to_torch(w).mul_(3.0),
        "permuted through an alias": lambda w: to_torch(w).copy_(to_torch(w).flip(0).clone()),
        "one bit, through an alias": lambda w: to_torch(w).view(torch.int32)[3, 2].bitwise_xor_(1),
        "the sign of a zero": lambda w: (to_torch(w).zero_(), F.linear(paddle.ones([1, 4]), w), to_torch(w).mul_(-1.0)),
    }
    for name, write in writes.items():
        yield name, [write]
        yield f"{name} of detach()", [lambda w, write=write: write(w.detach())]


def held(weight):
    """The weight's values, or None where a door left none: no memory, or a shape that is larger than it."""
    try:
        return to_torch(weight)
    except RuntimeError:
        return None


def bits(weight):
    values = held(weight)
    return None if values is None else (values.shape, values.dtype, values.clone().numpy().tobytes())


def agrees(weight):
    """Whether `F.linear` answers as torch on the weight's present values; what is no weight any longer has nothing to answer."""
    values = held(weight)
    if values is None or values.ndim != 2 or not values.is_floating_point() or not values.numel():
        return True
    x = paddle.linspace(-1, 1, 5 * weight.shape[0]).reshape([5, -1]).astype(weight.dtype)
    with paddle.no_grad():
        mine = F.linear(x, weight)
    theirs = torch.nn.functional.linear(to_torch(x), values.t().contiguous())
    return np.array_equal(mine.numpy(), theirs.numpy(), equal_nan=True)


def sweep(kind, grad):
    """The doors that wrote into a weight of this kind, and those that left the shim with old values."""
    wrote, stale = set(), set()
    for name, attempts in itertools.chain(in_place(), redirected(), updates(), by_value()):
        for attempt in attempts:
            weight = new_weight(kind)
            F.linear(FIRST, weight)
            before = bits(weight)
            with paddle.set_grad_enabled(grad), contextlib.suppress(Exception):  # some refuse after they wrote
                attempt(weight)
            if bits(weight) != before:
                wrote.add(name)
            if not agrees(weight):
                stale.add(name)
    return sorted(wrote), sorted(stale)


def main():
    warnings.simplefilter("ignore")
    paddle.seed(1)
    torch.set_num_threads(1)
    doors = {}
    for kind, grad in itertools.product(KINDS, (True, False)):
        with padiff_shim.reference("torch"):
            doors[f"{kind}, {'grad' if grad else 'no_grad'}"] = sweep(kind, grad)
    print(json.dumps(doors), file=sys.__stdout__)


if __name__ == "__main__":
    main()
