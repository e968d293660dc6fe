"""The words in which equal mathematics with different bits is declared.

A formulation is one computation that people write in several ways::

    declare = declaring(LAYOUT)
    declare(
        "transposed key of a product",
        "q k",
        "paddle.matmul(q, k, transpose_y=True)",
        ("paddle.matmul(q, k.transpose([0, 1, 3, 2]).contiguous())", "torch.matmul(q, k.mT.contiguous())"),
        samples=(Sample((2, 4, 33, 80), (2, 4, 33, 80)), Sample((1, 2, 5, 8), (1, 2, 6, 8))),
        may_differ={"float32": FORWARD},
    ).because(
        "the library's product has another kernel, with another order of sums, for each layout of its operands",
        "PaddleFormers nn/attention/eager_attention.py",
    )
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from padiff_shim.proof.bits.formulation import BACKWARD, BOTH, FUSED, GROUPING, LAYOUT, NUMBERS, ROUNDING, TRAINING
from padiff_shim.table.samples import Sample

CAUSES: Mapping[str, str] = {
    LAYOUT: "The layout of an operand: strides, a transposed weight, the axes before a reduction",
    GROUPING: "Grouping: one product or several, a sum in parts, a mean or a sum and a division",
    ROUNDING: "Where it is rounded: casts, scales, divisions and roots",
    FUSED: "Composed of several calls, or one call",
    BACKWARD: "Accumulation in the backward: by which ways, and in which order, a gradient comes back",
    NUMBERS: "Numbers: the dtype of a scalar, how a constant or a table is made",
    TRAINING: "Optimizer, clipping, accumulation over micro-batches and ranks",
}


@dataclass(frozen=True)
class Spelling:
    """One way to write it, for each framework.

    ``paddle`` and ``torch`` are Python source: lines that end with an expression, which is the result (a tensor, or a tuple of
    tensors). The operands of the formulation are names in it, and ``paddle`` or ``torch``, ``F`` (that framework's functional
    module) and ``math``. Under ``reference("torch")`` the first is bit for bit the second, in the forward and in every gradient.
    Dtypes are written as ``"float32"`` in Paddle and ``torch.float32`` in Torch, so that a run in float64 can widen them.
    ``torch`` is declared where it is not what :func:`in_torchs_names` makes of ``paddle``.
    """

    paddle: str
    torch: str = ""

    def __post_init__(self) -> None:
        object.__setattr__(self, "torch", self.torch or in_torchs_names(self.paddle))


_NAMES = (
    (r'"(bool|u?int\d+|b?float\d+)"', r"torch.\1"),
    (r"\.astype\(", ".to("),
    (r"\baxis=", "dim="),
    (r"\bepsilon=", "eps="),
    (r"\bpaddle\.concat\(", "torch.cat("),
    (r"\b(?:paddle|F)\.sigmoid\(", "torch.sigmoid("),
    (r"\bapproximate=True", 'approximate="tanh"'),
    (r"\b(\w+), transpose_y=True", r"\1.mT"),
    (r"(?<=F\.linear\()(\w+), w\b", r"\1, w.t().contiguous()"),  # Paddle's weight lies [in, out]
    (r"\bpaddle\.grad\(", "torch.autograd.grad("),
    (r"\.max\(-1, keepdim", ".amax(-1, keepdim"),
    (r"\bpaddle\.((?:zeros|ones)\(\[(?:[^][]|\[[^][]*\])*\](?: \* 2)?|full\(\[\d*\], \w), ", r"torch.\1, dtype="),
    (r"\b(index_select|index_add)\((.+?), (\w), 0\b", r"\1(\2, 0, \3"),
    (r"\bpaddle\.take_along_axis\((\w), (.+?), -1\)", r"torch.gather(\1, -1, \2)"),
    (r"\bpaddle\.", "torch."),
)


def in_torchs_names(source: str) -> str:
    """Paddle's source with Torch's names, as far as the two differ in names alone."""
    for name, torchs in _NAMES:
        source = re.sub(name, torchs, source)
    return source


@dataclass(frozen=True, eq=False)
class Declared:
    """Equal mathematics that is written in several ways.

    Args:
        name: what is computed, in a few words; unique.
        cause: one of :data:`CAUSES`.
        operands: the names of the operands, in the order in which the samples have them.
        spellings: two or more. The first is held against each of the others.
        samples: operands to try it with; the first shows the bits.
        differs: dtype -> ``FORWARD``, ``GRADIENT`` or ``BOTH``: which bits differ on the first sample, on every
            machine, since each step is rounded as its own definition says.
        may_differ: the same where it depends on the machine's kernels (blocks of a product, lanes of a sum). Declared is what was
            seen on one machine; no test demands it, and on other machines other dtypes may differ.
        why: one sentence.
        seen: where it was found: files of public libraries, or public threads.
    """

    name: str
    cause: str
    operands: str
    spellings: tuple[Spelling, ...]
    samples: tuple[Sample, ...]
    why: str = ""
    seen: str = ""
    differs: Mapping[str, str] = field(default_factory=dict)
    may_differ: Mapping[str, str] = field(default_factory=dict)

    def because(self, why: str, seen: str = "") -> Declared:
        """The same with its reason."""
        return replace(self, why=why, seen=seen)

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the operands."""
        return tuple(self.operands.split())

    @property
    def dtypes(self) -> tuple[str, ...]:
        """The dtypes in which it is tried."""
        return (*self.differs, *(dtype for dtype in self.may_differ if dtype not in self.differs))


def declaring(cause: str) -> Callable[..., Declared]:
    """Declares formulations of a cause: name, operands, and spellings, each Paddle's source or a pair of Paddle's and Torch's.

    Without ``samples`` it is tried with matrices of one shape; without ``differs`` and ``may_differ`` the bits differ in both
    dtypes, forward and backward.
    """

    def declare(
        name: str, operands: str, *spellings: str | tuple[str, str], samples: tuple[Sample, ...] = (), **fields: Any
    ) -> Declared:
        written = tuple(Spelling(text) if isinstance(text, str) else Spelling(*text) for text in spellings)
        shapes = [[shape] * len(operands.split()) for shape in ((33, 57), (5, 7))]
        if fields.keys().isdisjoint({"differs", "may_differ"}):
            fields["differs"] = {"float32": BOTH, "bfloat16": BOTH}
        return Declared(name, cause, operands, written, samples or tuple(Sample(*each) for each in shapes), **fields)

    return declare
