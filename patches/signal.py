"""Windows over signals: frames, their sum, and the short-time Fourier transform."""

from __future__ import annotations

from collections.abc import Sequence

import torch
import torch.nn.functional as F

from padiff_shim.table.op import Sample, function, op


@op(
    "x frame_length hop_length axis=-1",
    legacy="frame: x * frame_length hop_length axis=-1",
    samples=(
        Sample((2, 3, 12), frame_length=4, hop_length=3),
        Sample((12,), frame_length=4, hop_length=2),
        Sample((12, 3), frame_length=4, hop_length=2, axis=0),
    ),
)
def frame(x: torch.Tensor, frame_length: int, hop_length: int, axis: int) -> torch.Tensor:
    """Windows of a signal as views: [..., length, windows], or [windows, length, ...] for ``axis=0``."""
    if axis == 0:
        return x.unfold(0, frame_length, hop_length).movedim(-1, 1)
    return x.unfold(-1, frame_length, hop_length).mT


@op(
    "x hop_length axis=-1",
    legacy="overlap_add: x * hop_length axis=-1",
    samples=(Sample((2, 4, 3), hop_length=2), Sample((4, 5), hop_length=4), Sample((3, 4, 2), hop_length=1, axis=0)),
)
def overlap_add(x: torch.Tensor, hop_length: int, axis: int) -> torch.Tensor:
    """Windows [..., length, windows] (or [windows, length, ...]) added up where they lay, by ``F.fold``."""
    x = x if axis == -1 else x.movedim((1, 0), (-2, -1))
    length, windows = x.shape[-2:]
    if hop_length > length:
        raise ValueError("windows with gaps between them")
    total = (windows - 1) * hop_length + length
    rows = x.reshape(-1, length, windows)
    added = F.fold(rows, (1, total), (1, length), stride=(1, hop_length)).reshape(*x.shape[:-2], total)
    return added if axis == -1 else added.movedim(-1, 0)


@op(
    "x output_sizes kernel_sizes strides paddings dilations",
    legacy="fold: x * output_sizes kernel_sizes strides paddings dilations",
    samples=(
        Sample((2, 12, 9), output_sizes=[4, 4], kernel_sizes=[2, 2], strides=[1, 1], paddings=[0, 0, 0, 0], dilations=[1, 1]),
        Sample((1, 8, 4), output_sizes=[4, 4], kernel_sizes=[2, 2], strides=[2, 2], paddings=[0, 0, 0, 0], dilations=[1, 1]),
    ),
)
def fold(
    x: torch.Tensor,
    output_sizes: Sequence[int],
    kernel_sizes: Sequence[int],
    strides: Sequence[int],
    paddings: Sequence[int],
    dilations: Sequence[int],
) -> torch.Tensor:
    """``F.fold``; Paddle's paddings are those of all four sides."""
    top, left, bottom, right = paddings
    if (top, left) != (bottom, right):
        raise NotImplementedError("paddings that are not the same on opposite sides")
    return F.fold(x, tuple(output_sizes), tuple(kernel_sizes), tuple(dilations), (top, left), tuple(strides))


@op(
    "x kernel_sizes strides paddings dilations",
    exact=True,
    samples=(
        Sample((2, 3, 5, 4), kernel_sizes=[2, 3], strides=[1, 1], paddings=[0, 0, 0, 0], dilations=[1, 1]),
        Sample((1, 2, 5, 6), kernel_sizes=[2, 2], strides=[2, 1], paddings=[1, 0, 1, 0], dilations=[1, 2]),
        Sample((1, 2, 5, 6), kernel_sizes=[2, 2], strides=[2, 2], paddings=[1, 0, 0, 2], dilations=[1, 1]),
    ),
)
def unfold(
    x: torch.Tensor, kernel_sizes: Sequence[int], strides: Sequence[int], paddings: Sequence[int], dilations: Sequence[int]
) -> torch.Tensor:
    """``F.unfold``, whose gradients add up where windows overlap."""
    top, left, bottom, right = paddings
    if (top, left) != (bottom, right):
        x, top, left = F.pad(x, (left, right, top, bottom)), 0, 0
    return F.unfold(x, tuple(kernel_sizes), tuple(dilations), (top, left), tuple(strides))


def _window(
    x: torch.Tensor, n_fft: int, hop: int | None, length: int | None, window: torch.Tensor | None
) -> tuple[int, int, torch.Tensor]:
    """Paddle's defaults: a hop of a quarter, and a window of ones."""
    real = x.real.dtype if x.is_complex() else x.dtype
    size = n_fft if length is None else length
    return n_fft // 4 if hop is None else hop, size, torch.ones(size, dtype=real, device=x.device) if window is None else window


@op(
    "x window n_fft hop_length=None win_length=None center=True pad_mode='reflect' normalized=False onesided=None",
    c=False,
    promote="same",
    complex=True,
    more_entries=(
        function(
            "paddle.signal.stft",
            "x n_fft hop_length=None win_length=None window=None center=True pad_mode='reflect' normalized=False onesided=None",
        ),
    ),
)
def stft(
    x: torch.Tensor,
    window: torch.Tensor | None,
    n_fft: int,
    hop_length: int | None,
    win_length: int | None,
    center: bool,
    pad_mode: str,
    normalized: bool,
    onesided: bool | None,
) -> torch.Tensor:
    """``torch.stft``."""
    hop, size, window = _window(x, n_fft, hop_length, win_length, window)
    return torch.stft(x, n_fft, hop, size, window, center, pad_mode, normalized, onesided, return_complex=True)


@op(
    "x window n_fft hop_length=None win_length=None center=True normalized=False onesided=True length=None return_complex=False",
    c=False,
    promote="same",
    complex=True,
    more_entries=(
        function(
            "paddle.signal.istft",
            "x n_fft hop_length=None win_length=None window=None center=True normalized=False onesided=True length=None "
            "return_complex=False",
        ),
    ),
)
def istft(
    x: torch.Tensor,
    window: torch.Tensor | None,
    n_fft: int,
    hop_length: int | None,
    win_length: int | None,
    center: bool,
    normalized: bool,
    onesided: bool,
    length: int | None,
    return_complex: bool,
) -> torch.Tensor:
    """``torch.istft``."""
    hop, size, window = _window(x, n_fft, hop_length, win_length, window)
    return torch.istft(x, n_fft, hop, size, window, center, normalized, onesided, length, return_complex)
