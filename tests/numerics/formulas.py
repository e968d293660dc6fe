"""Formulas that no rounding model covers, each with an honest kernel that computes it in other steps or in another order."""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import torch
import torch.nn.functional as F

from padiff_shim import numerics
from padiff_shim.verdicts import Side, Verdict

INNOCENT = (Verdict.EQUAL, Verdict.ROUNDING)

LABELS = torch.from_numpy(np.random.default_rng(5).integers(0, 20, 12))


class Formula(NamedTuple):
    """``kernel``, ``other``: functions of float operands of these shapes. ``smooth``: their gradients are compared, too."""

    kernel: Callable[..., torch.Tensor]
    other: Callable[..., torch.Tensor]
    shapes: tuple[tuple[int, ...], ...]
    smooth: bool = True


def _reversed_convolution(x, w):
    return F.conv2d(x.flip(1), w.flip(1), padding=1)


def _pool(x):
    return F.pad(x, (1, 1, 1, 1)).unfold(2, 3, 2).unfold(3, 3, 2).flip(-1).sum((-2, -1)) / 9


def _batch_norm(x, w, b):
    mean = x.mean((0, 2, 3), keepdim=True)
    variance = ((x - mean) ** 2).mean((0, 2, 3), keepdim=True)
    return (x - mean) / torch.sqrt(variance + 1e-5) * w[:, None, None] + b[:, None, None]


def _evaluated(x, w, b):
    return F.batch_norm(x, torch.full_like(w, 0.3), torch.full_like(w, 1.7), w, b, False)


def _folded(x, w, b):
    """A multiplication and an addition with folded constants, as kernels for inference do."""
    scale = w / torch.sqrt(torch.full_like(w, 1.7) + 1e-5)
    return x * scale[:, None, None] + (b - 0.3 * scale)[:, None, None]


def _group_norm(x, w, b):
    rows = x.reshape(x.shape[0], 2, -1)
    rows = rows - rows.mean(-1, keepdim=True)
    rows = rows / torch.sqrt((rows * rows).mean(-1, keepdim=True) + 1e-5)
    return rows.reshape(x.shape) * w[:, None, None] + b[:, None, None]


def _entropy(x):
    top = x.amax(1, keepdim=True)
    return (torch.log(torch.exp(x - top).sum(1)) + (top - x.gather(1, LABELS[:, None])).squeeze(1)).flip(0).mean()


def _log_softmax(x):
    centred = x - x.amax(-1, keepdim=True)
    return centred - torch.log(torch.exp(centred).flip(-1).cumsum(-1)[..., -1:])


def _one_by_one(x):
    results = [x[..., 0]]
    for i in range(1, x.shape[-1]):
        results.append(results[-1] + x[..., i])
    return torch.stack(results, -1)


def _lstm(x, wi, wh, bi, bh):
    state = torch.zeros(1, x.shape[0], wh.shape[1], dtype=x.dtype)
    return torch._VF.lstm(x, (state, state), [wi, wh, bi, bh], True, 1, 0.0, False, False, True)[0]


def _cells(x, wi, wh, bi, bh):
    h = c = torch.zeros(x.shape[0], wh.shape[1], dtype=x.dtype)
    results = []
    for t in range(x.shape[1]):
        i, f, g, o = (x[:, t].flip(1) @ wi.flip(1).t() + (h.flip(1) @ wh.flip(1).t() + (bi + bh))).chunk(4, 1)
        c = torch.sigmoid(f) * c + torch.sigmoid(i) * torch.tanh(g)
        h = torch.sigmoid(o) * torch.tanh(c)
        results.append(h)
    return torch.stack(results, 1)


def _resized(x):
    return F.interpolate(x, scale_factor=2, mode="bilinear", align_corners=True)


def _resized_in_turn(x):
    """Rows and columns one after the other, by weights."""

    def weights(n):
        place = torch.arange(2 * n, dtype=x.dtype) * (n - 1) / (2 * n - 1)
        return torch.clamp(1 - (place[:, None] - torch.arange(n, dtype=x.dtype)).abs(), min=0)

    return weights(x.shape[-2]) @ x @ weights(x.shape[-1]).t()


IMAGE, WEIGHT = (4, 6, 9, 9), (6,)
FORMULAS: dict[str, Formula] = {
    "conv2d": Formula(lambda x, w: F.conv2d(x, w, padding=1), _reversed_convolution, ((2, 12, 7, 7), (5, 12, 3, 3))),
    "avg_pool2d": Formula(lambda x: F.avg_pool2d(x, 3, 2, 1), _pool, (IMAGE,)),
    "max_pool2d": Formula(lambda x: F.max_pool2d(x, 3), lambda x: x.unfold(2, 3, 3).unfold(3, 3, 3).amax((-2, -1)), (IMAGE,)),
    "batch_norm, training": Formula(lambda x, w, b: F.batch_norm(x, None, None, w, b, True), _batch_norm, (IMAGE, WEIGHT, WEIGHT)),
    "batch_norm": Formula(_evaluated, _folded, (IMAGE, WEIGHT, WEIGHT)),
    "group_norm": Formula(lambda x, w, b: F.group_norm(x, 2, w, b), _group_norm, (IMAGE, WEIGHT, WEIGHT)),
    "cross_entropy": Formula(lambda x: F.cross_entropy(x, LABELS), _entropy, ((12, 20),)),
    "log_softmax": Formula(lambda x: F.log_softmax(x, -1), _log_softmax, ((12, 20),)),
    "sigmoid": Formula(torch.sigmoid, lambda x: 0.5 * torch.tanh(0.5 * x) + 0.5, ((30, 40),), smooth=False),
    "silu": Formula(F.silu, lambda x: x / (1 + torch.exp(-x)), ((30, 40),)),
    "p_norm": Formula(lambda x: torch.linalg.vector_norm(x, 2, -1), lambda x: (x * x).flip(-1).sum(-1).sqrt(), ((12, 200),)),
    "cumsum": Formula(lambda x: x.cumsum(-1), _one_by_one, ((6, 60),)),
    "interpolate": Formula(_resized, _resized_in_turn, ((2, 3, 6, 7),)),
    "lstm": Formula(_lstm, _cells, ((3, 6, 10), (32, 10), (32, 8), (32,), (32,))),
}


def drawn(shapes, seed, dtype=torch.float32, scale=1.0):
    """Normal operands."""
    rng = np.random.default_rng(seed)
    return [torch.from_numpy(np.asarray(scale * rng.standard_normal(shape))).to(dtype) for shape in shapes]


def gradient(kernel, position):
    """The gradient of one operand as a function of the operands and the incoming gradient."""

    def run(*tensors: Any) -> torch.Tensor:
        *operands, grad = tensors
        operands = [t.detach().requires_grad_() for t in operands]
        with torch.enable_grad():
            return torch.autograd.grad(kernel(*operands), operands[position], grad)[0]

    return run


def judged(kernel, operands, paddle, torch_=None, *, paddle_kernel=None, seed=3, **options):
    """The generic judge's verdict; Torch's result is the kernel's own unless it is given."""
    theirs = kernel(*operands) if torch_ is None else torch_
    kernels = {"torch_kernel": kernel, "paddle_kernel": paddle_kernel, "operands": operands}
    return numerics.fallback(paddle, theirs, rng=np.random.default_rng(seed), **kernels, **options)


def sides(wrong, right, side):
    """(Paddle's, Torch's) result, of which this side's is wrong."""
    return (wrong, right) if side is Side.PADDLE else (right, wrong)
