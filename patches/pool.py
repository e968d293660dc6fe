"""Pools: maxima, means and power means over windows, matched where all of Paddle's functions for them end."""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Callable, Sequence
from typing import Any

import torch
import torch.nn.functional as F

from padiff_shim.numerics.ties import Pools
from padiff_shim.table.op import Fault, Ints, Sample, each, function, op

from ._faults import single, singles
from ._windows import Pads, channels_last, numbers, padded, paddings, same, to_first, to_last

_MAX = {2: F.max_pool2d, 3: F.max_pool3d}
_AVG = {2: F.avg_pool2d, 3: F.avg_pool3d}
_ADAPTIVE = {
    "avg": {1: F.adaptive_avg_pool1d, 2: F.adaptive_avg_pool2d, 3: F.adaptive_avg_pool3d},
    "max": {2: F.adaptive_max_pool2d, 3: F.adaptive_max_pool3d},
}


def _windows(x: torch.Tensor, size: list[int], stride: list[int], pads: Pads, ceil: bool) -> None:
    """Refuses windows that Paddle has and Torch leaves out."""
    for length, window, step, (before, after) in zip(x.shape[2:], size, stride, pads):
        count = (length + before + after - window + (step - 1 if ceil else 0)) // step + 1
        if ceil and (count - 1) * step >= length + before:
            raise NotImplementedError("ceil_mode with a window that begins in the padding, which Torch leaves out")


def _means(n: int, x: Any, size: list[int], stride: list[int], pads: Pads, ceil: bool, exclusive: bool) -> Any:
    """Means over windows; ``exclusive``: of what is not padding."""
    if all(before == after for before, after in pads):
        return _AVG[n](x, size, stride, [before for before, _ in pads], ceil, not exclusive)
    if exclusive:
        sums = [
            _AVG[n](padded(tensor, pads)[0], size, stride, 0, ceil, divisor_override=1)
            for tensor in (x, torch.ones_like(x[:1, :1]))
        ]
        return sums[0] / sums[1]
    if any(after > before for before, after in pads):
        raise NotImplementedError("means with padding, of which Paddle counts no more behind than it has in front")
    return _AVG[n](padded(x, pads)[0], size, stride, 0, ceil, True)


def _pool(
    n: int, x: Any, size: Any, stride: Any, padding: Any, ceil: bool, exclusive: bool, form: str, kind: str, *how: Any
) -> Any:
    """``how``: global_pooling, adaptive, padding_algorithm."""
    whole, adaptive, algorithm = how
    last = channels_last(form, x, n)
    x = to_first(x, last)
    if kind not in _ADAPTIVE:
        raise NotImplementedError(f"pooling_type {kind!r}")
    if adaptive and kind == "max":
        raise NotImplementedError("adaptive maxima by pool2d and pool3d: Paddle's functions take max_pool2d_with_index")
    if adaptive or whole:
        return to_last(_ADAPTIVE[kind][n](x, [1] * n if whole else numbers(size, n, "output_size")), last)
    size, stride, pads = numbers(size, n, "kernel_size"), numbers(stride, n, "stride"), paddings(padding, algorithm, n, last=last)
    if pads is None:
        pads = same(x.shape[2:], size, stride)
    _windows(x, size, stride, pads, ceil)
    if kind == "avg":
        return to_last(_means(n, x, size, stride, pads, ceil, exclusive), last)
    x, both = padded(x, pads, -math.inf)
    return to_last(_MAX[n](x, size, stride, both, 1, ceil), last)


def _with_index(
    n: int, x: Any, size: Any, stride: Any, padding: Any, whole: bool, adaptive: bool, ceil: bool
) -> tuple[torch.Tensor, torch.Tensor]:
    """Maxima and their places in a plane, which Paddle has in int32."""
    if adaptive or whole:
        out, places = _ADAPTIVE["max"][n](x, [1] * n if whole else numbers(size, n, "output_size"), return_indices=True)
        return out, places.int()
    size, stride, both = numbers(size, n, "kernel_size"), numbers(stride, n, "stride"), numbers(padding, n, "padding")
    _windows(x, size, stride, [(width, width) for width in both], ceil)
    out, places = _MAX[n](x, size, stride, both, 1, ceil, return_indices=True)
    return out, places.int()


def _power(n: int, x: Any, size: Any, stride: Any, padding: Any, ceil: bool, exclusive: bool, form: str, *how: Any) -> Any:
    """``how``: pooling_type, global_pooling, adaptive, padding_algorithm, norm_type."""
    last = channels_last(form, x, n)
    pads = paddings(padding, how[3], n, last=last)
    if pads is None or any(map(sum, pads)) or ceil or how[1] or how[2] or math.isinf(how[4]):
        raise NotImplementedError("power means with padding, ceil_mode or an infinite power: Torch has none")
    out = F.lp_pool2d(to_first(x, last), float(how[4]), numbers(size, n, "kernel_size"), numbers(stride, n, "stride"))
    return to_last(out, last)


def _powers(n: int) -> dict[str, Fault]:
    """Power means in steps, whose powers leave the range, and those with the powers' sum in float32."""

    def formula(own: Callable[..., Any], x: torch.Tensor, *rest: Any, rounded: bool) -> torch.Tensor:
        size, stride, *_, form, _, _, _, _, p = rest
        first = to_first(x, channels_last(form, x, n))
        lies = first.detach()
        windows = lies.unfold(2, size[0], stride[0]).unfold(3, size[1], stride[1]).flatten(4)
        places = (
            torch.arange(lies[0, 0].numel(), device=x.device)
            .view(lies.shape[2:])
            .unfold(0, size[0], stride[0])
            .unfold(1, size[1], stride[1])
            .flatten(2)
        )

        def power(of: torch.Tensor, exponent: float) -> torch.Tensor:
            return singles(singles(of).pow(single(exponent))) if rounded else of.pow(exponent)

        total = power(power(windows, p).sum(-1), 1 / p)
        slope = power(windows / total.unsqueeze(-1), p - 1)
        change = (slope * (first - lies).flatten(2)[..., places]).sum(-1) if x.requires_grad else 0.0
        return to_last(total + change, channels_last(form, x, n))

    return {
        "powers": Fault(functools.partial(formula, rounded=False), precision=True),
        "powers->float32": Fault(functools.partial(formula, rounded=True), precision=True),
    }


def _divided(n: int, x: Any, size: Any, stride: Any, padding: Any, ceil: bool, exclusive: bool, divisor: Any, form: str) -> Any:
    """Means as the function has them: sums over a divisor of one's own are one call in Torch, and two more ops in Paddle."""
    size = numbers(size, n, "kernel_size")
    stride, how = size if stride is None else stride, (ceil, exclusive, form, "avg", False, False, None)
    if divisor is None:
        return _pool(n, x, size, stride, padding, *how)
    last = channels_last(form, x, n)
    pads = paddings(padding, None, n, last=last)
    if pads is None or ceil or any(before != after or (before and exclusive) for before, after in pads):
        return _pool(n, x, size, stride, padding, *how) * math.prod(size) / divisor
    both = [before for before, _ in pads]
    return to_last(_AVG[n](to_first(x, last), size, numbers(stride, n, "stride"), both, False, True, divisor), last)


def _shares(own: Callable[..., Any], shape: Sequence[int], last: bool, *rest: Any) -> torch.Tensor:
    """One over the number of elements that each mean is of, as the formula has it: by its means of single rows along each axis."""
    n = len(shape) - 2
    sizes = shape[1:-1] if last else shape[2:]
    product, whole = torch.ones((), dtype=torch.float64), None
    for axis, size in enumerate(sizes):
        rows = torch.eye(size, dtype=torch.float64).view(size, 1, *[size if place == axis else 1 for place in range(n)])
        rows = to_last(rows.expand(size, 1, *sizes), last)
        means = to_first(own(rows, *rest), last)
        product = product * means.amax(0)
        whole = means.sum(0)
    assert whole is not None  # 1, but for windows that count their padding
    return to_last((product / whole ** (n - 1)).unsqueeze(0), last)


def _rounded_shares(n: int, place: int, divisor: int | None = None) -> dict[str, Fault]:
    """Means whose gradient holds one over the number of elements in float32.

    ``place``: of the data format among the arguments; ``divisor``: of another divisor, which is a factor of its own.
    """

    def formula(own: Callable[..., Any], x: torch.Tensor, *rest: Any) -> torch.Tensor:
        if "max" in rest:
            raise NotImplementedError("means")
        mean = own(x, *rest)
        plain = [None if at == divisor else value for at, value in enumerate(rest)]
        share = _shares(own, x.shape, rest[place][-1] == "C" and rest[place] != "NC", *plain)
        return mean.detach() + (singles(share) / share).to(mean) * (mean - mean.detach())

    return {"1/n->float32": Fault(formula, precision=True)}


def _older(name: str, params: str) -> str:
    """The legacy form: one tensor, then attributes."""
    return f"{name}: {params.replace('x ', 'x * ', 1)}"


def _over_three(params: str) -> str:
    return params.replace("1,1", "1,1,1").replace("0,0", "0,0,0").replace("NCHW", "NCDHW")


_POOL = (
    "x kernel_size|ksize stride|strides=[1,1] padding|paddings=[0,0] ceil_mode=False exclusive=True data_format='NCHW' "
    "pooling_type='max' global_pooling=False adaptive=False padding_algorithm='EXPLICIT'"
)
_INDEXED = "x kernel_size|ksize stride|strides=[1,1] padding|paddings=[0,0] global_pooling=False adaptive=False ceil_mode=False"
_LP = f"{_POOL} norm_type=2.0".replace("'max'", "'lp'")
_MEAN = "x kernel_size stride=None padding=0 ceil_mode=False exclusive=True divisor_override=None data_format='NCHW'"
_NOTE = "a maximum passes over NaN in Paddle, and of -inf alone it is the lowest finite number"
_MEANS = {"gradient float64": "Paddle rounds the share of an element in a mean to float32"}


def _maxima(n: int) -> Pools:
    """Ties of pool2d and pool3d, whose format and kind are their sixth and seventh attribute."""
    return Pools(lambda x, *how: to_first(x, channels_last(how[5], x, n)).flatten(2), when=lambda *how: how[6] == "max")


def _samples(x: tuple[int, ...]) -> tuple[Sample, ...]:
    """Strides, paddings, ceil_mode, formats, adaptive and global."""
    n = len(x) - 2
    ones, twos, threes = [1] * n, [2] * n, [3] * n
    return (
        Sample(x, kernel_size=twos, stride=twos),
        Sample(x, kernel_size=threes, stride=twos, padding=ones),
        Sample(x, kernel_size=threes, stride=twos, padding=ones, ceil_mode=True),
        Sample(x, kernel_size=threes, padding=[1, 0] * n),
        Sample(x, kernel_size=threes, stride=twos, padding_algorithm="SAME"),
        Sample(x, kernel_size=threes, padding_algorithm="VALID"),
        Sample(x, kernel_size=twos, stride=ones, data_format="NHWC" if n == 2 else "NDHWC"),
        Sample(x, kernel_size=[2, 3, 1][:n], adaptive=True),
        Sample(x, kernel_size=ones, global_pooling=True),
    )


def _kinds(samples: tuple[Sample, ...]) -> tuple[Sample, ...]:
    chosen = each(samples, pooling_type=("max", "avg"))
    chosen = tuple(sample for sample in chosen if sample.attrs["pooling_type"] == "avg" or not sample.attrs.get("adaptive"))
    return (*chosen, *(sample.also(pooling_type="avg", exclusive=False) for sample in samples[1:4]))


# Maxima that skip NaN, as Paddle's kernels compare: with ``>``, beginning at the lowest finite number.


def _scanned(n: int) -> dict[str, Fault]:
    """Maxima of windows over ``n`` axes: a NaN takes the place of what came before it, and gives way to what comes next."""

    def formula(own: Callable[..., Any], x: torch.Tensor, *rest: Any) -> torch.Tensor:
        size, stride, padding, _, _, form, kind, whole, adaptive, algorithm = rest
        if kind != "max" or adaptive:
            raise NotImplementedError("maxima of windows")
        last = channels_last(form, x, n)
        first = to_first(x, last)
        lengths, counts = first.shape[2:], to_first(own(x.detach(), *rest), last).shape[2:]
        if whole:
            size, stride, pads = list(lengths), [1] * n, [(0, 0)] * n
        else:
            size, stride = numbers(size, n, "kernel_size"), numbers(stride, n, "stride")
            pads = paddings(padding, algorithm, n, last=last) or same(lengths, size, stride)
        ends = [(count - 1) * step + 1 for count, step in zip(counts, stride)]
        beside = [(pad[0], end - 1 + window - length - pad[0]) for pad, end, window, length in zip(pads, ends, size, lengths)]
        flat = [number for pair in reversed(beside) for number in pair]
        laid, there = F.pad(first, flat), F.pad(torch.ones_like(first[:1, :1]), flat) > 0
        most = first.new_full((*first.shape[:2], *counts), torch.finfo(x.dtype).min)
        for offset in itertools.product(*map(range, size)):
            cut = (..., *(slice(begin, begin + end, step) for begin, end, step in zip(offset, ends, stride)))
            most = torch.where(there[cut] & ~(most > laid[cut]), laid[cut], most)
        return to_last(most, last)

    return {"nan-passed-over": Fault(formula, narrow=True)}


def _skipping(own: Callable[..., Any], x: torch.Tensor, *rest: Any) -> Any:
    """Maxima of what is larger than the lowest finite number."""
    lowest = torch.finfo(x.dtype).min
    return own(torch.where(x > lowest, x, lowest), *rest)


_SKIPPED = {"nan-skipped": Fault(_skipping, narrow=True)}


pool2d = op(
    _POOL,
    name="pool2d",
    legacy=_older("pool2d", _POOL),
    note=_NOTE,
    deviations=_MEANS,
    ties=_maxima(2),
    samples=_kinds(_samples((2, 3, 7, 6))),
    faults=_scanned(2) | _rounded_shares(2, 5),
)(functools.partial(_pool, 2))

pool3d = op(
    _over_three(_POOL),
    name="pool3d",
    legacy=_older("pool3d", _over_three(_POOL)),
    note=_NOTE,
    deviations=_MEANS,
    ties=_maxima(3),
    faults=_scanned(3) | _rounded_shares(3, 5),
    samples=_kinds(_samples((1, 3, 4, 5, 4))),
)(functools.partial(_pool, 3))


_PLANES = Pools(lambda x, *how: x.flatten(2))


def _indexed(x: tuple[int, ...]) -> tuple[Sample, ...]:
    """Those that have places; 2.6 has no ceil_mode here."""
    plain, padded_, *_, adaptive, _ = _samples(x)
    return plain, padded_, adaptive


max_pool2d_with_index = op(
    _INDEXED,
    name="max_pool2d_with_index",
    legacy=_older("max_pool2d_with_index", _INDEXED),
    results=("out", "mask"),
    note=_NOTE,
    ties=_PLANES,
    faults=_SKIPPED,
    samples=_indexed((2, 3, 7, 6)),
)(functools.partial(_with_index, 2))

max_pool3d_with_index = op(
    _over_three(_INDEXED),
    name="max_pool3d_with_index",
    legacy=_older("max_pool3d_with_index", _over_three(_INDEXED)),
    results=("out", "mask"),
    note=_NOTE,
    ties=_PLANES,
    faults=_SKIPPED,
    samples=_indexed((1, 3, 4, 5, 4)),
)(functools.partial(_with_index, 3))


def _mean_samples(x: tuple[int, ...]) -> tuple[Sample, ...]:
    return (
        Sample(x, kernel_size=2),
        Sample(x, kernel_size=3, stride=1, padding=1, exclusive=False, divisor_override=5),
        Sample(x, kernel_size=2, divisor_override=3),
        Sample(x, kernel_size=3, padding=1, divisor_override=3),
        Sample(x, kernel_size=3, stride=2, padding="SAME"),
    )


def _mean_entry(n: int) -> Any:
    shared = "ceil_mode=False exclusive=True divisor_override=None"
    return function(
        f"paddle.nn.functional.avg_pool{n}d", f"x kernel_size stride=None padding=0 {shared} data_format='NC{'DHW'[3 - n :]}'"
    )


avg_pool2d = op(
    _MEAN,
    name="avg_pool2d",
    c=False,
    amp="pool2d",
    deviations=_MEANS,
    more_entries=(_mean_entry(2),),
    samples=_mean_samples((2, 3, 7, 6)),
    faults=_rounded_shares(2, 6, 5),
)(functools.partial(_divided, 2))

avg_pool3d = op(
    _over_three(_MEAN),
    name="avg_pool3d",
    c=False,
    amp="pool3d",
    deviations=_MEANS,
    more_entries=(_mean_entry(3),),
    samples=_mean_samples((1, 2, 4, 5, 4)),
    faults=_rounded_shares(3, 6, 5),
)(functools.partial(_divided, 3))

lp_pool2d = op(
    _LP,
    name="lp_pool2d",
    deviations={"float64": "Paddle sums in float32", "gradient float64": "Paddle sums in float32"},
    legacy=_older("lp_pool2d", _LP.replace("ksize", "kernel_size")),
    samples=(
        Sample((2, 3, 7, 6), kernel_size=[2, 2], stride=[2, 2], norm_type=2.0),
        Sample((2, 3, 7, 6), kernel_size=[1, 3], norm_type=3.0, positive=True),
    ),
    faults=_powers(2),
)(functools.partial(_power, 2))


@op(
    "x indices ksize stride|strides padding output_size data_format='NCHW'",
    tensors=2,
    promote="none",
    legacy="unpool: x indices * ksize stride|strides padding|paddings output_size data_format='NCHW' unpooling_type='max'",
    samples=(Sample((2, 3, 3, 2), Ints((2, 3, 3, 2), 0, 24), ksize=[2, 2], stride=[2, 2], padding=[0, 0], output_size=[6, 4]),),
)
def unpool(x: Any, indices: Any, ksize: Any, stride: Any, padding: Any, output_size: Any, form: str) -> torch.Tensor:
    """What ``torch.nn.functional.max_unpool2d`` calls once it knows the size."""
    return torch.ops.aten.max_unpool2d(x.contiguous(), indices.long().contiguous(), numbers(output_size, 2, "output_size"))
