"""Fourier transforms: the three kernels that every function of ``paddle.fft`` reaches."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from padiff_shim.table.op import op


def _transform(kind: str, x: torch.Tensor, axes: Sequence[int], norm: str, sizes: Sequence[int] | None = None) -> torch.Tensor:
    """``torch.fft.<kind>`` for one axis, ``<kind>n`` for several: their kernels are not the same. Conjugates are written out."""
    if len(axes) == 1:
        return getattr(torch.fft, kind)(x, None if sizes is None else sizes[0], axes[0], norm).resolve_conj()
    return getattr(torch.fft, f"{kind}n")(x, sizes, tuple(axes), norm).resolve_conj()


@op(
    "x axes normalization forward onesided",
    legacy="fft_r2c: x * axes normalization forward onesided",
    promote="same",
    note="`paddle.fft.rfft`, `rfft2`, `rfftn`, and with `forward=False` `ihfft` and its like.",
)
def fft_r2c(x: torch.Tensor, axes: Sequence[int], normalization: str, forward: bool, onesided: bool) -> torch.Tensor:
    """The transform of a real tensor; ``onesided``: the half that determines the whole."""
    kinds = ("rfft", "ihfft") if onesided else ("fft", "ifft")
    return _transform(kinds[not forward], x, axes, normalization)


@op(
    "x axes normalization forward",
    legacy="fft_c2c: x * axes normalization forward",
    promote="same",
    complex=True,
    note="`paddle.fft.fft`, `ifft` and their forms for several axes.",
)
def fft_c2c(x: torch.Tensor, axes: Sequence[int], normalization: str, forward: bool) -> torch.Tensor:
    """The transform of a complex tensor."""
    return _transform("fft" if forward else "ifft", x, axes, normalization)


@op(
    "x axes normalization forward last_dim_size=0",
    legacy="fft_c2r: x * axes normalization forward last_dim_size=0",
    promote="same",
    complex=True,
    note="`paddle.fft.irfft` and its like, and with `forward=True` `hfft`.",
)
def fft_c2r(x: torch.Tensor, axes: Sequence[int], normalization: str, forward: bool, last_dim_size: int) -> torch.Tensor:
    """The real transform of one half of a Hermitian tensor; ``last_dim_size``: the length of the last axis, 0 if it is even."""
    sizes = [x.shape[axis] for axis in axes]
    sizes[-1] = last_dim_size or 2 * (sizes[-1] - 1)
    return _transform("hfft" if forward else "irfft", x, axes, normalization, sizes)
