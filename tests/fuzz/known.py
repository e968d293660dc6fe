"""Differences between a program under the shim and natively that are known and accepted, each with its reason.

A difference that no entry explains fails the run; how often each was needed is printed with the counts.
"""

from __future__ import annotations

import ast
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple


class Seen(NamedTuple):
    """A difference, and where it was seen."""

    text: str
    lines: list[str]
    exact: bool  # compare mode alone
    failed: bool  # an error in a backward, the same natively
    changing: bool = False  # modes open and close in the middle

    @property
    def made(self) -> str:
        """The line that made the variable that differs."""
        name = self.text.partition(":")[0].partition(".")[0]
        return next((line for line in self.lines if line.startswith(f"{name} = ")), "")

    @property
    def recomputed_elsewhere(self) -> bool:
        """Whether recompute without reentry met a change of modes: an error, and what follows from it."""
        parts = ("errors:", "left behind", ".grad", "is_leaf", "stop_gradient", "only natively", "seen[")
        return self.changing and self.has("use_reentrant=False") and any(part in self.text for part in parts)

    @property
    def walked_on(self) -> bool:
        """Whether a paddle.grad went where Paddle does not go, and met a hook or a counted write there."""
        hook = self.text.startswith("seen[") and "only here" in self.text and self.has("paddle.grad(")
        write = self.text.startswith("errors: natively [],") and "has been modified by an inplace operation" in self.text
        unmade = "paddle.grad(" in self.made and self.text.endswith("only natively")
        return hook or (self.has("paddle.grad(", "allow_unused=True") and (write or unmade))

    @property
    def of_a_gradient(self) -> bool:
        """Whether a gradient differs in reference mode, or is accused in compare mode."""
        if self.text.startswith("accused"):
            return "grad:" in self.text
        return not self.exact and (".grad:" in self.text or self.text.startswith("seen["))

    @property
    def errors(self) -> tuple[list[tuple[int, str, str]], list[tuple[int, str, str]]]:
        """The errors, natively and here: (line, type, text); none where they are not what differs."""
        if not self.text.startswith("errors: natively "):
            return [], []
        natively, here = map(ast.literal_eval, self.text.removeprefix("errors: natively ").split(", here "))
        return natively, here

    @property
    def refused_for_another_reason(self) -> bool:
        """Whether the errors differ only by the reason for which a backward is refused that has several."""
        natively, here = self.errors
        same_lines = [one[0] for one in natively] == [one[0] for one in here]
        parted = [pair for pair in zip(natively, here) if pair[0][:2] != pair[1][:2]]
        return bool(parted) and same_lines and all(any(part in one[-1] for part in REFUSALS) for pair in parted for one in pair)

    @property
    def of_several_dtypes(self) -> bool:
        """Whether the errors differ only by those of Paddle's optimizers over leaves of several dtypes."""
        natively, here = self.errors
        refused = [(line, *rest) for line, *rest in natively if "o.step()" in self.lines[line] and "type of data" in rest[-1]]
        return bool(refused) and [one[:2] for one in natively if one not in refused] == [one[:2] for one in here]

    def has(self, *parts: str) -> bool:
        """Whether one line of the program holds all of these."""
        return any(all(part in line for part in parts) for line in self.lines)


@dataclass(frozen=True)
class Known:
    """A difference that is accepted."""

    reason: str
    explains: Callable[[Seen], bool]


UNCOUNTED = (".set_value(", "paddle.assign(", ".copy_(", "initializer.", "out=", "o.step()")
REFUSALS = ("The TensorWrappers of", "has been modified by an inplace operation")

KNOWN = (
    Known(
        "an error ends a backward at another place, with other gradients accumulated before it",
        lambda seen: not seen.exact and seen.failed and (".grad" in seen.text or seen.text.startswith("seen[")),
    ),
    Known(
        "Paddle refuses as an input of paddle.grad what paddle.grad has returned, or what is a no_grad_var, with internal errors",
        lambda seen: (
            not seen.exact
            and any(part in seen.text for part in ("There is no grad op for", "MetaTensor is not initialized", "only here"))
            and ("paddle.grad(" in seen.made or seen.text.startswith("errors:"))
        ),
    ),
    Known(
        "paddle.grad under the tape walks on where Paddle prunes what leads to no input, and meets a hook or a counted write",
        lambda seen: not seen.exact and seen.walked_on,
    ),
    Known(
        "a backward with roots made inside and outside of modes reaches a leaf twice: its hook sees two parts of the gradient",
        lambda seen: not seen.exact and seen.text.startswith("seen[") and seen.has("paddle.autograd.backward("),
    ),
    Known(
        "Paddle loses a retained gradient when the tensor below is written in place; the tape keeps it",
        lambda seen: not seen.exact and ".grad" in seen.text and "natively None" in seen.text and seen.has(".retain_grads()"),
    ),
    Known(
        "a write that Paddle does not count, between forward and backward: Paddle's gradient is one of the new values",
        lambda seen: any(seen.has(write) for write in UNCOUNTED) and seen.of_a_gradient,
    ),
    Known(
        "Paddle's optimizers keep the learning rate in the dtype of one leaf, and refuse leaves of others; Torch steps them all",
        lambda seen: not seen.exact and seen.of_several_dtypes,
    ),
    Known(
        "where a view shows an element several times, Paddle's gradient counts it once (docs/defects.md)",
        lambda seen: not seen.exact and seen.has("paddle.as_strided(") and seen.of_a_gradient,
    ),
    Known(
        "Paddle's log_softmax ends at -64 on the CPU (docs/defects.md)",
        lambda seen: not seen.exact and seen.has("F.log_softmax(") and "-64.0" in seen.text,
    ),
    Known(
        "recompute without reentry needs the same modes in its backward as in its forward; Paddle's own error says so",
        lambda seen: not seen.exact and seen.recomputed_elsewhere,
    ),
    Known(
        "a backward comes to a graph that was freed and to a tensor that was written since: the engine's order says which is named",
        lambda seen: not seen.exact and seen.refused_for_another_reason,
    ),
    Known(
        "a native part of a graph that was walked from the tape is not freed: a second backward through it succeeds",
        lambda seen: (
            not seen.exact and "The TensorWrappers of" in seen.text.partition(", here ")[0] and seen.text.endswith("here []")
        ),
    ),
    Known(
        "what a PyLayer's backward returns comes to hooks with stop_gradient set natively, and without under the tape",
        lambda seen: (
            not seen.exact
            and seen.text.startswith("seen[")
            and (".is_leaf: natively True" in seen.text or ".stop_gradient: natively True" in seen.text)
            and seen.has(".apply(")
        ),
    ),
    Known(
        "a reshape that copies shares Paddle's counter of writes with the memory that it has left; under the tape it has its own",
        lambda seen: (
            not seen.exact
            and ".inplace_version: natively" in seen.text
            and any(part in seen.made for part in (".reshape(", ".flatten("))
        ),
    ),
    Known(
        "recompute reads a tensor again that was changed in place meanwhile: its gradients are those of other values",
        lambda seen: seen.text.startswith("accused") and seen.has("use_reentrant=False"),
    ),
)


def unexplained(
    lines: list[str], found: list[str], *, exact: bool, failed: bool, changing: bool, counts: dict[str, int]
) -> list[str]:
    """The differences that no entry explains; ``counts`` notes the others."""
    left = []
    for difference in found:
        seen = Seen(difference, lines, exact, failed, changing)
        entry = next((entry for entry in KNOWN if entry.explains(seen)), None)
        if entry is None:
            left.append(difference)
        else:
            counts[entry.reason] = counts.get(entry.reason, 0) + 1
    return left
