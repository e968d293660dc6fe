"""Calls of every entry point of the op table, forward and backward, in one process: ``python sweep.py MODE PART PARTS [AFTER]``.

For a process whose memory is watched (glibc's checking malloc, valgrind): the name of each call is printed before it is made, so
that the last one is where the process ended. Layers come first, then every ``PARTS``-th call from the ``PART``-th on.
``AFTER``: those behind the call of that name.
"""

import contextlib
import faulthandler
import itertools
import sys
import warnings
from functools import partial

import numpy as np
import paddle
import paddle.nn.functional as F
from helpers import Call, entries, flat, takes

import padiff_shim
from padiff_shim.auditing import cases
from padiff_shim.auditing.cases import PROGRAMS
from padiff_shim.dispatch.dtypes import has_kernel
from padiff_shim.dispatch.frames import paused

MODES = {
    "native": contextlib.nullcontext,
    "reference": partial(padiff_shim.reference, "torch"),
    "compare": partial(padiff_shim.compare, "torch", progress=False),
}
DTYPES = ("float32", "float64", "float16", "bfloat16")
FATAL = ("norm_except_dim",)  # programs whose backward ends the process natively: docs/defects.md


def back(run, *arguments, **options):
    """A call, and the backward from all of its results that have one."""
    ends = [end for end in flat(run(*arguments, **options)) if not end.stop_gradient and end.is_floating_point()]
    with paused():
        grads = [paddle.to_tensor(np.ones(end.shape, "float32")).astype(end.dtype) for end in ends]
    if ends:
        paddle.autograd.backward(ends, grads)


def leaf(*shape):
    return paddle.to_tensor(np.random.default_rng(0).standard_normal(shape).astype("float32"), stop_gradient=False)


def at_door(op, entry, sample, dtype, grad):
    back(Call(op, entry, sample, dtype, grad=grad).run)


def of_doors():
    """Each sample at each door; the first in every dtype."""
    for op, entry in entries():
        samples = [sample for sample in op.samples if takes(op, entry, sample)] if has_kernel(op) and not op.random else []
        for number, sample in enumerate(samples):
            for dtype, grad in itertools.product(DTYPES[: 2 if number else None], (False, True)):
                yield (f"{entry.target} {number} {dtype} {grad}", partial(at_door, op, entry, sample, dtype, grad))


def audited(program):
    arrays = program.sample.arrays(np.random.default_rng(0))
    operands = [cases.tensor(array, "contiguous", "float32", True) if isinstance(array, np.ndarray) else array for array in arrays]
    back(eval, program.source, {**cases._prelude(), **dict(zip(cases.NAMES, operands))})


def of_programs():
    """Ops that no sample can draw operands for."""
    for name, programs in PROGRAMS.items():
        for number, program in enumerate(programs if name not in FATAL else ()):
            yield f"{name} program {number}", partial(audited, program)


def convolved(n, function, kernel, bias, how):
    groups, transposed = how["groups"], "transpose" in function
    weight = leaf(4, 6 // groups, *[kernel] * n) if transposed else leaf(6, 4 // groups, *[kernel] * n)
    back(getattr(F, function), leaf(2, 4, *[9] * n), weight, leaf(6) if bias else None, **how)


def of_convolutions(n):
    """From 4 to 6 channels, with every way to pad."""
    for kernel, stride, padding, dilation, groups, bias in itertools.product(
        (1, 3, 5), (1, 2), (0, 1, 2), (1, 2), (1, 2), (False, True)
    ):
        how = {"stride": stride, "padding": padding, "dilation": dilation, "groups": groups}
        yield f"conv{n}d {kernel} {bias} {how}", partial(convolved, n, f"conv{n}d", kernel, bias, how)
        for more in range(max(stride, dilation)):
            more = {**how, "output_padding": more}
            yield f"conv{n}d_transpose {kernel} {bias} {more}", partial(convolved, n, f"conv{n}d_transpose", kernel, bias, more)


def pooled(function, n, **how):
    back(getattr(F, function), leaf(2, 4, *[6] * n), **how)


def of_pools(n):
    """Windows over six elements; not those that lie behind the last one: docs/defects.md."""
    kinds = (("max", {}), ("max", {"return_mask": True}), ("avg", {}), ("avg", {"exclusive": False}), ("lp", {"norm_type": 2}))
    for kernel, stride, padding, ceil, (kind, more) in itertools.product((1, 2, 3), (1, 2), (0, 1), (False, True), kinds):
        behind = ceil and stride > kernel
        if 2 * padding <= kernel and not behind and hasattr(F, f"{kind}_pool{n}d"):
            how = {"kernel_size": kernel, "stride": stride, "padding": padding, "ceil_mode": ceil, **more}
            yield f"{kind}_pool{n}d {how}", partial(pooled, f"{kind}_pool{n}d", n, **how)
    for size, kind in itertools.product((1, 2, 5), ("max", "avg")):
        yield f"adaptive_{kind}_pool{n}d {size}", partial(pooled, f"adaptive_{kind}_pool{n}d", n, output_size=size)


def layered(kind, sizes, how, shape):
    back(kind(*sizes, **how), leaf(*shape))


def of_layers():
    """Decoders, as they are written."""
    how = {"stride": 2, "padding": 2, "output_padding": 1}
    for n in (1, 2, 3):
        kind = getattr(paddle.nn, f"Conv{n}DTranspose")
        yield f"{kind.__name__}", partial(layered, kind, (8, 6, 5), how, (2, 8, *[6] * n))
    yield "Conv2DTranspose of 64", partial(layered, paddle.nn.Conv2DTranspose, (64, 32, 5), how, (1, 64, 8, 8))


def calls():
    """(name, call), in order."""
    windows = [part for n in (1, 2, 3) for part in (of_convolutions(n), of_pools(n))]
    return itertools.chain(of_doors(), of_programs(), *windows)


def main(mode, part, parts, after=None):
    faulthandler.enable()
    warnings.simplefilter("ignore")
    paddle.disable_signal_handler()  # which waits for ever where malloc is what found the error
    if mode != "native":
        padiff_shim.install()
    chosen = itertools.chain(of_layers(), itertools.islice(calls(), int(part), None, int(parts)))
    if after is not None:
        chosen = itertools.dropwhile(lambda each: each[0] != after, chosen)
        next(chosen)
    for name, call in chosen:
        print(name, flush=True)
        with MODES[mode](), contextlib.suppress(Exception):
            call()
    print("the end")


if __name__ == "__main__":
    main(*sys.argv[1:])
