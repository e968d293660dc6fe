"""Greedy generation of both models: the tokens that each chooses, going on with its own."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import paddle
import torch

from ..errors import ArgumentError, PadiffShimError, described
from ..text import tr
from ..trees import as_array, is_tensor, leaves
from .agreement import Array
from .programs import Arguments, ModelSide, PaddleSide, TorchSide, error_text, named_tensors

Generate = tuple[Callable[..., Any], Callable[..., Any]]  # Paddle's and Torch's: of a model, its arguments and a number of tokens


def generation_of(generate: Any) -> Generate | None:
    """``generate=`` as a pair of functions, or None.

    Raises:
        ArgumentError: it is not accepted.
    """
    if generate is None or (isinstance(generate, tuple) and len(generate) == 2 and all(map(callable, generate))):
        return generate
    raise ArgumentError(
        "generate= is a pair of functions (Paddle's, Torch's) of a model, its arguments and a number of tokens, "
        "which return new tokens; got {generate}",
        generate=described(generate),
    )


class GenerationUnchecked(PadiffShimError):
    """Generation was not compared; the message says why."""


@dataclass(frozen=True)
class GenerationRow:
    """Tokens that both models generate.

    Attributes:
        kernels: of the port: ``"substituted"`` (Torch's) or ``"native"``.
        sequences, tokens: how many sequences, and how many tokens of each.
        same: tokens that are equal, of all.
        first: the first token that differs, from 1; None if none does.
    """

    kernels: str
    sequences: int
    tokens: int
    same: int
    first: int | None


def generation(
    original: TorchSide, port: PaddleSide, tokens: int, generate: Generate | None, *, natively: bool
) -> tuple[list[GenerationRow], list[str]]:
    """A row for the port on Torch's kernels, one for it natively, and notes.

    Args:
        tokens: how many each sequence gets.
        generate: functions that return new tokens, Paddle's and Torch's; None: both models' method ``generate``.
        natively: whether the port's forward runs on Paddle's kernels.

    Raises:
        GenerationUnchecked: nothing was asked for, a model cannot generate, or fails.
    """
    if not tokens:
        raise GenerationUnchecked(tr("no tokens were asked for"))
    if generate is None:
        for side, who in ((port, tr("port")), (original, tr("original"))):
            if not callable(getattr(side.model, "generate", None)):
                raise GenerationUnchecked(tr("the {who} has no method generate, and no generate= was passed", who=who))
    ways = generate or (_by_paddle, _by_torch)
    expected = _tokens(original, ways[1], tokens, tr("original"))
    actual = _tokens(port, ways[0], tokens, tr("port"))
    rows, notes = [_row("substituted", actual, expected)], list[str]()
    if not natively:
        return rows, notes
    port.shim = False
    try:
        rows.append(_row("native", _tokens(port, ways[0], tokens, tr("port")), expected))
    except GenerationUnchecked as error:
        notes.append(tr("natively nothing is generated: {error}", error=error))
    finally:
        port.shim = True
    return rows, notes


def _tokens(side: ModelSide, way: Callable[..., Any], tokens: int, who: str) -> Array:
    """The new tokens of each sequence."""
    try:
        result = side.ask(lambda model, arguments: way(model, arguments, tokens))
    except GenerationUnchecked:
        raise
    except Exception as error:
        raise GenerationUnchecked(tr("the {who}'s generation fails: {error}", who=who, error=error_text(error))) from error
    first = result if is_tensor(result) or isinstance(result, np.ndarray) else next((tensor for _, tensor in leaves(result)), None)
    made = None if first is None else as_array(first)
    if made is None or made.ndim != 2 or made.dtype.kind not in "iu":
        raise GenerationUnchecked(tr("the {who}'s generation returns no tokens of the form [sequences, tokens]", who=who))
    return made


def _row(kernels: str, actual: Array, expected: Array) -> GenerationRow:
    """What is equal; a generation that ends earlier differs where it ends."""
    length = max(actual.shape[1], expected.shape[1])
    padded = [np.pad(tokens.astype("int64"), ((0, 0), (0, length - tokens.shape[1])), constant_values=-1 - side)
              for side, tokens in enumerate((actual, expected))]  # fmt: skip
    if actual.shape[0] != expected.shape[0]:
        return GenerationRow(kernels, expected.shape[0], length, 0, 1)
    same = padded[0] == padded[1]
    columns = np.flatnonzero(~same.all(0))
    return GenerationRow(kernels, same.shape[0], length, int(same.sum()), int(columns[0]) + 1 if columns.size else None)


def _prompt(arguments: Arguments) -> Any:
    """The tokens to begin with: ``input_ids``, or the first argument of whole numbers."""
    named = named_tensors(arguments)
    prompts = [tensor for name, tensor in named if name == "input input_ids"]
    prompts += [tensor for _, tensor in named if as_array(tensor).dtype.kind in "iu" and len(tensor.shape) == 2]
    if not prompts:
        raise GenerationUnchecked(tr("no argument of whole numbers is a prompt"))
    return prompts[0]


def _masks(arguments: Arguments) -> dict[str, Any]:
    return {name: value for name, value in arguments[1].items() if name == "attention_mask"}


def _by_torch(model: Any, arguments: Arguments, tokens: int) -> Any:
    """As transformers' models generate: they return the prompt, too."""
    prompt = _prompt(arguments)
    with torch.no_grad():
        made = model.generate(prompt, max_new_tokens=tokens, do_sample=False, num_beams=1, **_masks(arguments))
    return made[:, prompt.shape[1] :]


def _by_paddle(model: Any, arguments: Arguments, tokens: int) -> Any:
    """As PaddleFormers' and paddlenlp's models generate: they return new tokens and scores."""
    prompt = _prompt(arguments)
    with paddle.no_grad():
        made = model.generate(prompt, max_new_tokens=tokens, decode_strategy="greedy_search", **_masks(arguments))
    return made[0] if isinstance(made, (tuple, list)) else made
