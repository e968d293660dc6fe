"""Calls of ops whose operands no sample can draw (matrices of a kind, spectra, states): expressions over ``x``, ``y``, ``z``."""

from __future__ import annotations

from typing import NamedTuple

from ..table.samples import Floats, Ints, Sample


class Program(NamedTuple):
    """An expression in which the op is reached, and the operands that it is of (``x``, ``y``, ``z`` in order)."""

    source: str
    sample: Sample


# Stresses that leave what is decomposed without a decomposition, or with many: equal rows, zeros, no rank; gradients of sizes.
UNIQUE = frozenset(("transposed", "sliced", "large", "small", "huge", "tiny"))
_FACTORISED = """cholesky qr svd eigh eigvalsh lu lu_unpack eig eigvals lstsq cholesky_inverse ormqr householder_product inverse
slogdet_v2 lu_solve matrix_power matrix_exp multi_dot householder_product cov corrcoef
solve triangular_solve cholesky_solve det slogdet matrix_rank matrix_rank_tol matrix_rank_atol_rtol svdvals pinv corrcoef cond
spectral_norm"""
DECOMPOSITIONS = frozenset(_FACTORISED.split())

_SQUARE = Sample((4, 4))
_DEFINITE = "x @ x.transpose([1, 0]) + 4 * paddle.eye(4, dtype=x.dtype)"
_SIGNAL = Sample((2, 64))

PROGRAMS: dict[str, tuple[Program, ...]] = {
    "cross_entropy_with_softmax": (
        Program("F.softmax_with_cross_entropy(x, y)", Sample((4, 7), Ints((4, 1), 0, 7))),
        Program("F.softmax_with_cross_entropy(x, F.softmax(y), soft_label=True)", Sample((4, 7), (4, 7))),
    ),
    "cholesky": (Program(f"paddle.linalg.cholesky({_DEFINITE})", _SQUARE),),
    "qr": (Program("paddle.linalg.qr(x)", Sample((5, 3))), Program("paddle.linalg.qr(x)", _SQUARE)),
    "svd": (Program("paddle.linalg.svd(x)[1]", Sample((5, 3))),),
    "eigh": (Program("paddle.linalg.eigh(x + x.transpose([1, 0]))[0]", _SQUARE),),
    "eigvalsh": (Program("paddle.linalg.eigvalsh(x + x.transpose([1, 0]))", _SQUARE),),
    "lu": (Program("paddle.linalg.lu(x)[0]", _SQUARE),),
    "lu_unpack": (Program("paddle.linalg.lu_unpack(*paddle.linalg.lu(x))", _SQUARE),),
    "eig": (Program("paddle.linalg.eig(x.detach())", _SQUARE),),
    "eigvals": (Program("paddle.linalg.eigvals(x.detach())", _SQUARE),),
    "lstsq": (Program("paddle.linalg.lstsq(x, y)[0]", Sample((6, 3), (6, 2))),),
    "cholesky_inverse": (Program(f"paddle.linalg.cholesky_inverse(paddle.linalg.cholesky({_DEFINITE}).detach())", _SQUARE),),
    "householder_product": (Program("paddle.linalg.householder_product(x, y)", Sample((5, 3), Floats((3,), 0.5, 1.0))),),
    "ormqr": (Program("paddle.linalg.ormqr(x, y, z)", Sample((5, 3), Floats((3,), 0.5, 1.0), (5, 2))),),
    "fft_r2c": (Program("paddle.fft.rfft(x)", _SIGNAL), Program("paddle.fft.rfft2(x)", Sample((3, 8, 6)))),
    "fft_c2c": (Program("paddle.fft.fft(paddle.complex(x, y))", Sample((2, 64), (2, 64))),),
    "fft_c2r": (Program("paddle.fft.irfft(paddle.complex(x, y))", Sample((2, 33), (2, 33))),),
    "segment_pool": tuple(
        Program(f"paddle.geometric.segment_{pool}(x, y)", Sample((6, 3), Ints((6,), 0, 1)))
        for pool in ("sum", "mean", "max", "min")
    ),
    "index_put": (Program("paddle.index_put(x, (y,), z, accumulate=True)", Sample((5, 3), Ints((4,), 0, 5), (4, 3))),),
    "polar": (Program("paddle.polar(x, y)", Sample(Floats((3, 4), 0.5, 2.0), (3, 4))),),
    "cast": (Program("x.astype('float16')", Sample((3, 4))), Program("x.astype('bfloat16')", Sample((3, 4)))),
    "batch_norm": (
        Program("F.batch_norm(x, y.detach(), z.detach(), training=True)", Sample((4, 3, 5), (3,), Floats((3,), 0.5, 2.0))),
        Program("F.batch_norm(x, y.detach(), z.detach(), training=False)", Sample((4, 3, 5), (3,), Floats((3,), 0.5, 2.0))),
    ),
    "norm_except_dim": (Program("paddle.nn.utils.weight_norm_hook.norm_except_dim(x, 0)", Sample((4, 5))),),
    "rnn": tuple(Program(f"_layer(paddle.nn.{kind}, x.dtype)(x)[0]", Sample((2, 6, 4))) for kind in ("SimpleRNN", "LSTM", "GRU")),
    "stft": (Program("paddle.signal.stft(x, 16)", _SIGNAL),),
    "istft": (Program("paddle.signal.istft(paddle.signal.stft(x, 16), 16)", _SIGNAL),),
    "pdist": (Program("paddle.pdist(x)", Sample((5, 3))),),
}

# What the expressions may name beside the operands; the text of a reproducer begins with it.
PRELUDE = """\
import paddle
import paddle.nn.functional as F


def _layer(kind, dtype):
    paddle.seed(0)
    before = paddle.get_default_dtype()
    paddle.set_default_dtype(dtype)
    layer = kind(4, 3)
    paddle.set_default_dtype(before)
    return layer
"""
