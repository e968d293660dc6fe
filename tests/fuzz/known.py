"""Differences between a program under the shim and natively that are known and accepted, each with its reason.

A difference that no entry explains fails the run; how often each was needed is printed with the counts.
"""

from __future__ import annotations

import ast
import re
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
    others: tuple[str, ...] = ()  # all that differs

    @property
    def made(self) -> str:
        """The line that made the variable that differs."""
        return self._made(self.text.partition(":")[0].partition(".")[0])

    def _made(self, name: str) -> str:
        return next((line for line in self.lines if re.match(rf"(with .*?: )?(\w+, )*{name}(, \w+)* = ", line)), "")

    @property
    def origins(self) -> list[str]:
        """The lines that made the variable that differs, and what it was made of."""
        lines = [self.made]
        for line in lines:
            lines += [made for name in re.findall(r"\bt\d+\b", line) if (made := self._made(name)) not in (*lines, "")]
        return lines

    @property
    def recomputed_elsewhere(self) -> bool:
        """Whether recompute without reentry met a change of modes: an error, and what follows from it."""
        parts = ("errors:", "left behind", ".grad", "is_leaf", "stop_gradient", "only natively", "seen[")
        return self.changing and self.has("use_reentrant=False") and any(part in self.text for part in parts)

    @property
    def walked_on(self) -> bool:
        """Whether a paddle.grad went where Paddle does not go, and met a hook or a counted write there."""
        hook = self.text.startswith("seen[") and "only here" in self.text and self.has("paddle.grad(")
        unmade = "paddle.grad(" in self.made and self.text.endswith("only natively")
        return hook or self.refused_further_on or (self.has("paddle.grad(", "allow_unused=True") and unmade)

    @property
    def refused_further_on(self) -> bool:
        """Whether the errors differ only where a paddle.grad came to what cannot be run, and natively to nothing."""
        natively, here = self.errors
        found = {line: text for line, _, text in natively}
        beyond = set()
        for line, _, text in here:
            nothing = UNUSED in found[line] if line in found else "allow_unused=True" in self.lines[line]
            if nothing and "paddle.grad(" in self.lines[line] and any(part in text for part in (MODIFIED, LACKING)):
                beyond.add(line)
        left = [[one[:2] for one in errors if one[0] not in beyond] for errors in (natively, here)]
        return bool(beyond) and left[0] == left[1]

    @property
    def refused_by_torch(self) -> bool:
        """Whether a backward was refused that reads what was written since, as in Torch: an error, and what follows from it."""
        refused = any(f"op '{op}' has been modified" in one.partition(", here ")[2] for one in self.others for op in READ_BY_TORCH)
        return refused and (".grad" in self.text or self.text.startswith(("errors:", "seen[")))

    @property
    def of_a_sibling(self) -> bool:
        """Whether a gradient of one result of a call was asked for by another one: natively zeros."""
        unused = UNUSED in self.text.partition(", here ")[2] and UNUSED not in self.text.partition(", here ")[0]
        unmade = "paddle.grad(" in self.made and (self.text.endswith("only natively") or "here NoneType" in self.text)
        return any(map(self.has, SEVERAL)) and (unused or unmade)

    @property
    def of_a_leaf_that_was(self) -> bool:
        """Whether it is the gradient of a tensor that an in-place op took into a graph."""
        name = self.text.partition(".")[0]
        return ".grad" in self.text and any(re.match(rf"{name}(\[.*\] = |\.[a-z]+_\(| [+*]= )", line) for line in self.lines)

    @property
    def of_two_pairs_of_hooks(self) -> bool:
        """Whether Paddle has refused a second pair of hooks: an error, and what follows from it."""
        refused = any("only one pair of hooks is allowed" in one.partition(", here ")[0] for one in self.others)
        return refused and any(part in self.text for part in ("errors:", "only here", ".grad", "seen["))

    @property
    def after_an_error(self) -> bool:
        """Whether gradients differ, or what was made of them."""
        gradients = ".grad" in self.text or self.text.startswith("seen[") or any(".grad" in line for line in self.origins)
        return gradients or (".value:" in self.text and self.has("o.step()"))

    @property
    def of_a_gradient(self) -> bool:
        """Whether a gradient differs in reference mode, or is accused in compare mode."""
        if self.text.startswith("accused"):
            return "grad:" in self.text
        return not self.exact and (".grad:" in self.text or self.text.startswith("seen["))

    @property
    def errors(self) -> tuple[list[tuple[int, str, str]], list[tuple[int, str, str]]]:
        """The errors, natively and here: (line, type, text); none where they are not what differs."""
        return _errors(self.text)

    @property
    def refused_for_another_reason(self) -> bool:
        """Whether the errors differ only by the reason for which a backward is refused that has several."""
        natively, here = self.errors
        same_lines = [one[0] for one in natively] == [one[0] for one in here]
        parted = [pair for pair in zip(natively, here) if pair[0][:2] != pair[1][:2]]
        return bool(parted) and same_lines and all(any(part in one[-1] for part in REFUSALS) for pair in parted for one in pair)

    @property
    def of_several_dtypes(self) -> bool:
        """Whether the errors differ only by those of Paddle's optimizers over leaves of several dtypes; or the values, for that."""
        natively, here = next((both for both in map(_errors, self.others) if any(both)), ([], []))
        refused = [(line, *rest) for line, *rest in natively if "o.step()" in self.lines[line] and "type of data" in rest[-1]]
        only = bool(refused) and [one[:2] for one in natively if one not in refused] == [one[:2] for one in here]
        return only and (".value:" in self.text or self.text.startswith("errors:"))

    def has(self, *parts: str) -> bool:
        """Whether one line of the program holds all of these."""
        return any(all(part in line for part in parts) for line in self.lines)


def _errors(text: str) -> tuple[list[tuple[int, str, str]], list[tuple[int, str, str]]]:
    if not text.startswith("errors: natively "):
        return [], []
    natively, here = map(ast.literal_eval, text.removeprefix("errors: natively ").split(", here "))
    return natively, here


@dataclass(frozen=True)
class Known:
    """A difference that is accepted."""

    reason: str
    explains: Callable[[Seen], bool]


UNCOUNTED = (".set_value(", "paddle.assign(", ".copy_(", "initializer.", "out=", "o.step()")
INTERNAL = ("There is no grad op for", "MetaTensor is not initialized", "Invalid slot_id for GradTensorHolder")
READ_BY_TORCH = ("einsum",)
MODIFIED = "has been modified by an inplace operation"
LACKING = "doesn't have any grad op"
UNUSED = "does not appear in the backward graph"
SEVERAL = ("Mix.apply(", "paddle.split(", ".chunk(", ".unbind()")  # what makes several results in one call
REFUSALS = ("The TensorWrappers of", MODIFIED)

KNOWN = (
    Known(
        "an error ends a backward at another place, with other gradients accumulated before it",
        lambda seen: not seen.exact and seen.failed and seen.after_an_error,
    ),
    Known(
        "Paddle refuses as an input of paddle.grad what it has returned, a no_grad_var, a PyLayer's results but the first",
        lambda seen: (
            not seen.exact
            and any(part in seen.text for part in (*INTERNAL, "only here"))
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
        lambda seen: (
            not seen.exact
            and seen.has("paddle.as_strided(")
            and (seen.of_a_gradient or any("paddle.grad(" in line for line in seen.origins))
        ),
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
            and any(part in line for line in seen.origins for part in (".reshape(", ".flatten("))
        ),
    ),
    Known(
        "the gradient of what wanted none before an in-place op: Paddle's is of the values before, the tape's of those after",
        lambda seen: not seen.exact and seen.of_a_leaf_that_was,
    ),
    Known(
        "a PyLayer's backward under paddle.grad: Paddle asks it for None where an operand leads to no input, with an error",
        lambda seen: not seen.exact and "backward function should return None at" in seen.text.partition(", here ")[0],
    ),
    Known(
        "of several results of one call Paddle's gradient of one by another is zeros; in Torch the other is unused",
        lambda seen: not seen.exact and seen.of_a_sibling,
    ),
    Known(
        "what a PyLayer's backward makes is a leaf where paddle.grad gives it back with a graph; under the tape it is none",
        lambda seen: (
            not seen.exact
            and (".is_leaf: natively True" in seen.text or (".grad: " in seen.text and seen.text.endswith("here None")))
            and any("create_graph=True" in line for line in seen.origins)
            and (seen.has(".apply(") or seen.has("use_reentrant=True"))
        ),
    ),
    Known(
        "what a hook returns has a graph natively, with which paddle.grad gives it back without one being asked for",
        lambda seen: (
            not seen.exact
            and ".is_leaf: natively False" in seen.text
            and any("paddle.grad(" in line and "create_graph" not in line for line in seen.origins)
            and seen.has(".register_hook(")
        ),
    ),
    Known(
        "Paddle runs no paddle.grad within a block that is recomputed without reentry: it unpacks by a second pair of hooks",
        lambda seen: (
            not seen.exact and any("only one pair of hooks is allowed" in one.partition(", here ")[0] for one in seen.others)
        ),
    ),
    Known(
        "Torch's backward reads an operand of which Paddle's has a copy: where it was written since, it is refused, as in Torch",
        lambda seen: not seen.exact and seen.refused_by_torch,
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
        seen = Seen(difference, lines, exact, failed, changing, tuple(found))
        entry = next((entry for entry in KNOWN if entry.explains(seen)), None)
        if entry is None:
            left.append(difference)
        else:
            counts[entry.reason] = counts.get(entry.reason, 0) + 1
    return left
