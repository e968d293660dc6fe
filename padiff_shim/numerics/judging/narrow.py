"""Whole ops that ran in a narrower format than that of their operands and result."""

from __future__ import annotations

import numpy as np
import torch

from ..oracle.precision import FORMATS, KINDS, represented, rounded
from .trial import Errors, Trial

NARROWER = {
    torch.float64: ("float32", "tf32", "fp16", "bf16"),  # each one's numbers are among those before it, but for the range
    torch.float32: ("tf32", "fp16", "bf16"),
    torch.float16: ("bf16",),
    torch.bfloat16: (),
}
INSIDE = 0.999  # this part of the outputs has to fit
MANY = 8  # different outputs that are all numbers of a narrower format


def narrow_format(trial: Trial, errors: Errors) -> str | None:
    """``"bf16-output"`` or ``"bf16-arithmetic"``, say.

    Every sampled result is a number of a narrower format, and right for arithmetic in it: the whole op ran in that format.

    That says something only of outputs whose own rounding is much finer than the format: what cancels has few digits as it is.
    """
    if errors.rho_max < 4:
        return None
    finite = np.isfinite(errors.y) & (errors.y != 0)
    y, unit = errors.y[finite], trial.unit[finite]
    if np.unique(y).size < MANY:
        return None
    own = KINDS[trial.quantity.dtype].format
    ideal = rounded(trial.value, "float32" if own.bits == 24 else "float64")
    for form in reversed(NARROWER[trial.quantity.dtype]):
        if not represented(y, form) or represented(ideal[np.isfinite(ideal)], form):
            continue
        coarse = FORMATS[form].unit
        if np.unique(y[np.abs(y) * coarse > 4 * unit]).size < MANY:
            continue
        error = np.nan_to_num(np.abs(errors.y - trial.value))
        if float(np.mean(error <= trial.found.bound(trial.factors[0], coarse, coarse).reshape(-1))) < INSIDE:
            continue
        only = bool((error <= trial.found.bound(trial.factors[0], None, coarse).reshape(-1)).all())
        return f"{form}-output" if only else f"{form}-arithmetic"
    return None
