"""What an alignment compares in one dtype, beyond what its proof keeps: distances, losses, generated tokens."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import torch

from ..recording.tensors import md5
from ..text import tr
from ..weights.mapping import Mapping as Weights
from . import agreement
from .agreement import RunOutcome
from .distances import DriftRow, gradient_rows, layer_rows, outcomes_of, output_rows, state_rows
from .generation import Generate, GenerationRow, GenerationUnchecked, generation
from .locate import LOSS
from .programs import PaddleSide, TorchSide

if TYPE_CHECKING:
    from .proof import Proof


@dataclass
class AlignedDtype:
    """All that was compared in one dtype.

    Attributes:
        dtype: of parameters and inputs of floats.
        proof: the :class:`~padiff_shim.Proof`.
        weights: which weights belong together, and what happens on the way.
        rows: layers' results in the order of the run, outputs, and gradients of parameters.
        blocks: paths of the original's layers that stand in a list, such as a stack of decoder layers.
        losses: the loss of the original (``"torch"``), and of the port on Torch's kernels (``"substituted"``) and ``"native"``.
        generated: a row for each kind of kernels.
        hashes: (name, MD5 in the original, in the port on Torch's kernels, and natively) of layers' results, outputs and loss.
        unchecked: what was not compared, and why.
        notes: what else a reader has to know.
        fails: why the port's backward fails on Paddle's own kernels; "" if it does not.
    """

    dtype: str
    proof: Proof
    weights: Weights
    rows: list[DriftRow] = field(default_factory=list)
    blocks: list[str] = field(default_factory=list)
    losses: dict[str, float] = field(default_factory=dict)
    generated: list[GenerationRow] = field(default_factory=list)
    hashes: list[tuple[str, str, str, str]] = field(default_factory=list)
    unchecked: dict[str, str] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    fails: str = ""

    @property
    def forward(self) -> list[DriftRow]:
        """Embeddings, blocks, norms and outputs: no part of a block, and no layer that holds blocks."""
        paths = {row.torch for row in self.rows if row.kind == "layer" and row.torch}
        apart = {path for path in paths if not any(_inside(path, block) or _inside(block, path) for block in self.blocks)}
        return [row for row in self.rows if row.kind == "output" or (row.kind == "layer" and row.torch in apart)]

    @property
    def first_block(self) -> str:
        """The first block, in the order of the run, of which parts were compared; "" if there is none."""
        ended = [row.torch for row in self.rows if row.kind == "layer" and row.torch in self.blocks]
        return next((block for block in ended if any(_inside(row.torch, block) for row in self.rows if row.kind == "layer")), "")

    @property
    def parts(self) -> list[DriftRow]:
        """The parts of the first block, in the order of the run."""
        block = self.first_block
        return [row for row in self.rows if row.kind == "layer" and block and _inside(row.torch, block)]

    def leave_out(self, reason: str) -> None:
        """Nothing was compared, for this reason."""
        self.unchecked = {tr("anything"): reason}

    def first_apart(self, side: str) -> DriftRow | None:
        """The first tensor of the forward, in all layers, that differs in a bit on a side: ``"substituted"`` or ``"native"``."""
        rows = ((row, getattr(row, side)) for row in self.rows if row.kind in ("layer", "output"))
        return next((row for row, apart in rows if apart is not None and not apart.identical), None)

    @property
    def states(self) -> list[DriftRow]:
        """What optimizers keep behind the last step."""
        return [row for row in self.rows if row.kind == "optimizer state"]

    @property
    def gradients(self) -> list[DriftRow]:
        """Those of parameters."""
        return [row for row in self.rows if row.of_gradient]


def _inside(path: str, outer: str) -> bool:
    return path.startswith(f"{outer}.") if outer else bool(path)


def aligned_dtype(
    proof: Proof,
    original: TorchSide,
    port: PaddleSide,
    weights: Weights,
    *,
    back: bool,
    tokens: int,
    generate: Generate | None,
) -> AlignedDtype:
    """Measure what a proof does not keep: each tensor's distances, the losses, and the generated tokens.

    Args:
        proof: of these two sides; where nothing was run for it, nothing is measured.
        original, port: the models with equal weights.
        weights: which weights belong together.
        back: whether gradients were compared.
        tokens: how many are generated; 0: none.
        generate: see :func:`.generation.generation`.
    """
    aligned = AlignedDtype(original.dtype(), proof, weights, blocks=_blocks(original.model))
    if not proof.differences:
        aligned.leave_out(str(proof.verdict))
        return aligned
    outcomes, aligned.notes, aligned.fails = outcomes_of(original, port)
    aligned.rows = [*layer_rows(weights, outcomes), *output_rows(outcomes)]
    aligned.rows += [row for row in gradient_rows(weights, outcomes) if row.kind == "gradient of parameter"] if back else []
    aligned.rows += state_rows(weights, *proof.trained) if proof.trained else []
    aligned.hashes = list(_hashes(weights, outcomes))
    losses = {run: outcome.outputs[LOSS] for run, outcome in outcomes.items() if LOSS in outcome.outputs and "64" not in run}
    aligned.losses = {run: float(loss.reshape(-1)[0]) for run, loss in losses.items() if loss.size == 1}
    if not {"torch", "substituted"} <= set(aligned.losses):
        aligned.unchecked[tr("loss")] = tr("no loss= was passed, and not both models return a loss")
        aligned.losses = {}
    if not back:
        aligned.unchecked[tr("gradients")] = tr("only forwards were compared")
    if not proof.training:
        aligned.unchecked[tr("training")] = tr("no steps were asked for")
    try:
        aligned.generated, notes = generation(original, port, tokens, generate, natively="native" in outcomes)
        aligned.notes += notes
    except GenerationUnchecked as why:
        aligned.unchecked[tr("generation")] = why.args[0]
    return aligned


def _hashes(weights: Weights, outcomes: Mapping[str, RunOutcome]) -> Iterator[tuple[str, str, str, str]]:
    """MD5 of what layers return and of outputs, as people post them."""
    runs = [outcomes.get(run) for run in ("torch", "substituted", "native")]

    def hashed(name: str, arrays: list[Any]) -> tuple[str, str, str, str]:
        first, second, third = ("" if array is None else md5(array) for array in arrays)
        return name, first, second, third

    for path, partner in weights.layers.items():
        if not (partner or path):
            continue  # the model's results are the outputs
        layers = [[] if run is None else run.layers.get(path if run is runs[0] else partner, []) for run in runs]
        for call in range(min(len(layers[0]), len(layers[1]))):
            name = f"{partner or path} ({call + 1})" if call else partner or path
            yield hashed(name, [calls[call] if call < len(calls) else None for calls in layers])
    for path, partner in agreement.output_pairs(outcomes["torch"], outcomes["substituted"]):
        yield hashed(partner, [None if run is None else run.outputs.get(path if run is runs[0] else partner) for run in runs])


def _blocks(module: torch.nn.Module) -> list[str]:
    """The layers in a module's outermost lists."""
    lists = [
        name
        for name, layer in module.named_modules()
        if isinstance(layer, (torch.nn.ModuleList, torch.nn.Sequential)) and len(layer)
    ]
    outermost = [name for name in lists if not any(_inside(name, other) for other in lists)]
    return [f"{name}.{child}".strip(".") for name in outermost for child, _ in module.get_submodule(name).named_children()]
