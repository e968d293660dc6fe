"""Convolutions and their transposes, each with its bias as the one function that it is in Torch.

Paddle adds the bias in an op of its own and spells paddings in many ways; a Torch program has one call. ``nn.Conv2D`` and
``nn.Conv3D`` call neither ``F.conv2d`` nor ``F.conv3d`` but what these two share, so that is an entry point, too.
"""

from __future__ import annotations

import functools
from typing import Any

import torch.nn.functional as F

from padiff_shim.table.op import Entry, Op, Sample, c_op, function, op

from ._faults import severed
from ._windows import FORMATS, channels_last, numbers, padded, paddings, same, to_first, to_last

_CONV = {1: F.conv1d, 2: F.conv2d, 3: F.conv3d}
_TRANSPOSED = {1: F.conv_transpose1d, 2: F.conv_transpose2d, 3: F.conv_transpose3d}
_SAME = '"SAME" puts any dilation aside'


def _conv(
    n: int, x: Any, weight: Any, bias: Any, stride: Any, padding: Any, algorithm: Any, dilation: Any, groups: int, form: str
) -> Any:
    """``torch.nn.functional.conv<n>d``."""
    last = channels_last(form, x, n)
    x, stride, dilation = to_first(x, last), numbers(stride, n, "stride"), numbers(dilation, n, "dilation")
    pads = paddings(padding, algorithm, n, last=last)
    as_torch = pads is None and stride == [1] * n
    if pads is None:
        dilation, pads = [1] * n, same(x.shape[2:], weight.shape[2:], stride)
    x, both = padded(x, pads, rest=as_torch)
    return to_last(_CONV[n](x, weight, bias, stride, both, dilation, groups), last)


def _transpose(n: int, x: Any, weight: Any, bias: Any, stride: Any, padding: Any, more: Any, size: Any, *how: Any) -> Any:
    """``torch.nn.functional.conv_transpose<n>d``: unequal paddings are cropped from its result, a given size is output padding."""
    algorithm, groups, dilation, form = how
    last = channels_last(form, x, n)
    x, stride, dilation = to_first(x, last), numbers(stride, n, "stride"), numbers(dilation, n, "dilation")
    kernel, pads = weight.shape[2:], paddings(padding, algorithm, n, last=last)
    if pads is None:
        dilation, pads = [1] * n, same(x.shape[2:], kernel, stride)
    extra = numbers(more or 0, n, "output_padding")
    least = [(s - 1) * step - sum(pad) + d * (k - 1) + 1 for s, step, pad, d, k in zip(x.shape[2:], stride, pads, dilation, kernel)]
    if size is not None and not (isinstance(size, (list, tuple)) and not size):
        extra = [wanted - small for wanted, small in zip(numbers(size, n, "output_size"), least)]
        if any(not 0 <= more < step for more, step in zip(extra, stride)):
            raise ValueError("output_size outside of what the stride allows")
    common = [min(pad) for pad in pads]
    out = _TRANSPOSED[n](x, weight, bias, stride, common, extra, groups, dilation)
    for axis, (shared, small, pad, add) in enumerate(zip(common, least, pads, extra), 2):
        out = out.narrow(axis, pad[0] - shared, small + add) if pad[0] != pad[1] else out
    return to_last(out, last)


def _shared(name: str, n: int) -> Entry:
    """What ``nn.Conv2D`` and ``nn.Conv3D`` call, for both and with their depthwise kinds."""
    own = f"channel_dim=1 op_type='{name}' use_cudnn=True use_mkldnn=False"
    kinds = (name, f"depthwise_{name}")
    return Entry(
        "paddle.nn.functional.conv._conv_nd",
        f"{_params(n)} {own}",
        arrange=lambda *arguments: arguments[:9],
        when=("op_type", kinds),
    )


_CALL = "x|input weight bias=None stride=1 padding=0 dilation=1 groups=1 data_format={!r}"
_KERNEL = "x|input weight|filter stride|strides padding|paddings padding_algorithm {} data_format={!r}"
_LEGACY = (
    "{}: x weight * stride|strides=[1,1] padding|paddings=[0,0] padding_algorithm='EXPLICIT' dilation|dilations=[1,1] groups=1 "
    "data_format='NCHW' fuse_relu_before_depthwise_conv=False"
)


def convolution(n: int, *, transposed: bool = False, **options: Any) -> Op:
    """``torch.nn.functional.conv<n>d``, depthwise convolutions among them, or ``conv_transpose<n>d``."""
    params, name, formula = (
        (_transposed_params(n), f"conv{n}d_transpose", _transpose) if transposed else (_params(n), f"conv{n}d", _conv)
    )
    declare = op(params, name=name, c=False, tensors=3, promote="alike", products=True, note=_SAME, **options)
    return declare(functools.partial(formula, n))


def _of_three(legacy: str) -> str:
    """A legacy form with the defaults of three axes."""
    return legacy.replace("1,1", "1,1,1").replace("0,0", "0,0,0").replace("NCHW", "NCDHW")


def _params(n: int) -> str:
    """The parameters of an op over ``n`` axes, with the defaults that all of its entry points take."""
    return (
        f"x weight bias=None stride={[1] * n} padding={[0] * n} padding_algorithm='EXPLICIT' dilation={[1] * n} groups=1 "
        f"data_format={FORMATS[n][0]!r}"
    ).replace(", ", ",")


conv1d = convolution(
    1,
    amp="conv2d",
    faults=severed(1),
    more_entries=(function("paddle.nn.functional.conv1d", _CALL.format("NCL")),),
    samples=(
        Sample((2, 4, 9), (6, 4, 3), (6,)),
        Sample((2, 4, 9), (6, 2, 3), None, stride=2, padding=[1, 2], groups=2),
        Sample((2, 4, 9), (6, 4, 4), (6,), padding="SAME"),
        Sample((2, 9, 4), (6, 4, 3), (6,), dilation=2, padding=2, data_format="NLC"),
    ),
    refusals=(Sample((2, 4, 9), (6, 3, 3), None), Sample((2, 4), (6, 4, 3), None)),
)

conv2d = convolution(
    2,
    faults=severed(1),
    more_entries=(
        function("paddle.nn.functional.conv2d", _CALL.format("NCHW")),
        _shared("conv2d", 2),
        c_op("conv2d", _KERNEL.format("dilation|dilations groups", "NCHW")),
        c_op("depthwise_conv2d", _KERNEL.format("groups dilation|dilations", "NCHW")),
    ),
    legacy=(_LEGACY.format("conv2d"), _LEGACY.format("depthwise_conv2d")),
    samples=(
        Sample((2, 3, 6, 7), (4, 3, 3, 3), (4,)),
        Sample((2, 3, 6, 7), (4, 3, 3, 2), None, stride=[2, 2], padding=[1, 1]),
        Sample((2, 4, 6, 7), (8, 1, 3, 3), (8,), padding=[1, 2], groups=4),
        Sample((2, 4, 6, 7), (4, 2, 3, 3), None, padding=[1, 2, 0, 1], stride=[2, 1], groups=2),
        Sample((2, 3, 6, 7), (4, 3, 3, 2), (4,), dilation=[1, 2]),
        Sample((2, 3, 6, 7), (6, 1, 3, 3), None, groups=3, stride=[1, 2]),
        Sample((2, 3, 6, 7), (4, 3, 2, 2), None, padding_algorithm="SAME", stride=[2, 1], dilation=[1, 2]),
        Sample((1, 3, 1, 1), (5, 3, 1, 1), (5,)),
    ),
    refusals=(Sample((2, 3, 6, 7), (4, 2, 3, 3), None), Sample((2, 3, 6), (4, 3, 3), None)),
)

conv3d = convolution(
    3,
    more_entries=(
        function("paddle.nn.functional.conv3d", _CALL.format("NCDHW")),
        _shared("conv3d", 3),
        c_op("conv3d", _KERNEL.format("groups dilation|dilations", "NCDHW")),
    ),
    legacy=_of_three(_LEGACY.format("conv3d")),
    samples=(
        Sample((2, 2, 4, 5, 4), (4, 2, 3, 2, 3), (4,)),
        Sample((1, 4, 4, 5, 4), (4, 2, 3, 3, 3), None, stride=[2, 2, 2], padding=[1, 1, 1], groups=2),
        Sample((1, 2, 4, 5, 4), (3, 2, 3, 3, 3), (3,), padding=[1, 0, 1, 2, 0, 1]),
    ),
)


_T_OP = (
    "stride={1} padding={0} output_padding=[] output_size=[] padding_algorithm='EXPLICIT' groups=1 dilation={1} data_format={2!r}"
)
_T_KERNEL = (
    "x|input weight|filter stride|strides padding|paddings output_padding output_size padding_algorithm groups dilation|dilations "
    "data_format"
)
_T_LEGACY = (
    "{}: x weight * stride|strides=[1,1] padding|paddings=[0,0] output_padding=[] output_size=[] padding_algorithm='EXPLICIT' "
    "groups=1 dilation|dilations=[1,1] data_format='NCHW'"
)
_T_CALL = "x weight bias=None stride=1 padding=0 output_padding=0 {} output_size=None data_format={!r}"


def _transposed_params(n: int) -> str:
    return ("x weight bias=None " + _T_OP.format([0] * n, [1] * n, FORMATS[n][0])).replace(", ", ",")


def _transposed_samples(*spatial: int) -> tuple[Sample, ...]:
    """Over each axis: strides, output padding, groups, a given size."""
    n = len(spatial)
    x, two, both = (2, 4, *spatial), [2] * n, (3,) * n
    return (
        Sample(x, (4, 3, *both), (3,)),
        Sample(x, (4, 2, *both), (4,), stride=two, padding=[1] * n, output_padding=[1] * n, groups=2),
        Sample(x, (4, 1, *both), None, stride=two, groups=4),
        Sample(x, (4, 3, *both), (3,), stride=two, output_size=[2 * size + 2 for size in spatial]),
        Sample(x, (4, 3, *both), None, dilation=two, padding=[1, 0] * n),
    )


conv1d_transpose = convolution(
    1,
    transposed=True,
    amp="conv2d_transpose",
    more_entries=(function("paddle.nn.functional.conv1d_transpose", _T_CALL.format("groups=1 dilation=1", "NCL")),),
    samples=_transposed_samples(5),
    refusals=(Sample((2, 4, 5), (4, 3, 3), None, output_size=[50]),),
)

conv2d_transpose = convolution(
    2,
    transposed=True,
    more_entries=(
        function("paddle.nn.functional.conv2d_transpose", _T_CALL.format("dilation=1 groups=1", "NCHW")),
        c_op("conv2d_transpose", _T_KERNEL),
        c_op("depthwise_conv2d_transpose", _T_KERNEL),
    ),
    legacy=(_T_LEGACY.format("conv2d_transpose"), _T_LEGACY.format("depthwise_conv2d_transpose")),
    samples=(*_transposed_samples(4, 3), Sample((2, 4, 3, 4), (4, 3, 3, 2), (3,), padding=[1, 1], data_format="NHWC")),
    refusals=(Sample((2, 4, 4, 3), (4, 3, 3, 3), None, output_size=[50, 50]), Sample((2, 3, 4, 3), (4, 3, 3, 3), None)),
)

conv3d_transpose = convolution(
    3,
    transposed=True,
    more_entries=(
        function("paddle.nn.functional.conv3d_transpose", _T_CALL.format("groups=1 dilation=1", "NCDHW")),
        c_op("conv3d_transpose", _T_KERNEL),
    ),
    legacy=_of_three(_T_LEGACY.format("conv3d_transpose")),
    samples=_transposed_samples(3, 2, 3),
)
