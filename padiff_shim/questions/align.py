"""``padiff_shim.align``: the alignment report of a port, from weights to generation, in several dtypes."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ..arguments import one_of, whole
from ..errors import ArgumentError, PadiffShimError, described
from ..progress import Waiting
from ..proof.aligned import AlignedDtype
from ..proof.alignment import Alignment
from ..proof.findings import ProofVerdict
from ..proof.generation import Generate, generation_of
from ..proof.proof import Proof
from ..proof.prove import DTYPES, prove
from ..text import shown, tr
from ..weights.mapping import Mapping as Weights


@Waiting("aligning")
def align(
    paddle_layer: Any,
    torch_module: Any,
    inputs: Any,
    *,
    dtypes: Sequence[str] = ("float32", "bfloat16"),
    weights: str = "torch->paddle",
    loss: Callable[[Any], Any] | tuple[Callable[[Any], Any], Callable[[Any], Any]] | None = None,
    optimizer: Any = "AdamW",
    steps: int = 10,
    tokens: int = 16,
    generate: Generate | None = None,
    layer_map: Mapping[Any, Any] | None = None,
    rules: Any = None,
    seed: int = 0,
) -> Alignment:
    """Compare a port with its original in all that a pull request reports, and conclude: right, wrong (where), or not known.

    In each dtype the port is proven (:func:`padiff_shim.prove`, with ``phase="train"`` if ``steps`` is not 0), and measured tensor
    by tensor, natively, on Torch's kernels and in float64. What cannot be compared is listed with the reason.

    Args:
        paddle_layer, torch_module, inputs, weights, loss, layer_map, rules, seed: as for :func:`padiff_shim.prove`.
        dtypes: names of dtypes of floats; both models are converted to each.
        optimizer: as for :func:`padiff_shim.prove`.
        steps: how many training steps are compared; 0: none.
        tokens: how many tokens both models generate greedily; 0: none.
        generate: a pair of functions (Paddle's, Torch's) of the model, its arguments ``(positional, keywords)`` and the number of
            tokens, which return new tokens ``[sequences, tokens]``. None: the models' method ``generate``, if both have one, as
            PaddleFormers and transformers call it.

    Returns:
        An :class:`~padiff_shim.Alignment`, true if the port is right.

    Raises:
        ArgumentError: an argument that is not accepted; the message says what is.
        TransferError: the weights cannot be transferred, or a rule cannot be applied.

    Errors of the models themselves are raised unchanged in the first dtype. In the others the report names them, and the conclusion
    is NOT_KNOWN there.

    >>> import numpy, paddle, torch, padiff_shim
    >>> alignment = padiff_shim.align(paddle.nn.Linear(4, 3), torch.nn.Linear(4, 3), numpy.eye(4), steps=2)
    >>> alignment.verdict, [aligned.dtype for aligned in alignment.dtypes]
    (<AlignmentVerdict.RIGHT: 'RIGHT'>, ['float32', 'bfloat16'])
    >>> alignment.unchecked["generation"]
    'the port has no method generate, and no generate= was passed'
    """
    start = time.perf_counter()
    if isinstance(dtypes, str) or not dtypes:
        raise ArgumentError(tr("dtypes= is a list of names of dtypes, got {dtypes}", dtypes=described(dtypes)))
    for dtype in dtypes:
        one_of("dtypes", dtype, DTYPES)
    whole("steps", steps, least=0)
    whole("tokens", tokens, least=0)
    generation_of(generate)
    training = {"phase": "train", "optimizer": optimizer, "steps": steps} if steps else {"phase": "both"}
    options = {"weights": weights, "loss": loss, "layer_map": layer_map, "rules": rules, "seed": seed, **training}
    measured: list[AlignedDtype] = []
    report: Alignment | None = None
    for dtype in dict.fromkeys(dtypes):
        try:
            made = prove(paddle_layer, torch_module, inputs, dtype=dtype, **options).report(tokens=tokens, generate=generate)
        except PadiffShimError:
            raise
        except Exception as error:  # the models' own
            if report is None:
                raise
            measured.append(not_run(dtype, measured[0].weights, error))
            continue
        report = report or made
        measured += made.dtypes
    assert report is not None  # the first dtype is measured, or raises
    alignment = Alignment(report.models, report.environment, measured)
    alignment.seconds = time.perf_counter() - start
    return alignment


def not_run(dtype: str, weights: Weights, error: Exception) -> AlignedDtype:
    """A dtype in which the models do not run."""
    reason = tr("the models do not run: {error}", error=f"{type(error).__name__}: {shown(error)}")
    aligned = AlignedDtype(dtype, Proof(ProofVerdict.NOT_COMPARABLE, reason), weights)
    aligned.leave_out(reason)
    return aligned
