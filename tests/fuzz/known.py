"""Differences between a program under the shim and natively that are known and accepted, each with its reason.

A difference that no entry explains fails the run; how often each was needed is printed with the counts.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from .seen import Seen


@dataclass(frozen=True)
class Known:
    """A difference that is accepted."""

    reason: str
    explains: Callable[[Seen], bool]


UNCOUNTED = (".set_value(", "paddle.assign(", ".copy_(", "initializer.", "out=", "o.step()")
INTERNAL = (
    "There is no grad op for",
    "MetaTensor is not initialized",
    "Invalid slot_id for GradTensorHolder",
    "Invalid rank for GradTensorHolder",
)

KNOWN = (
    Known(
        "an error ends a backward at another place, with other gradients accumulated before it",
        lambda seen: not seen.exact and seen.failed and seen.after_an_error,
    ),
    Known(
        "Paddle refuses as an input of paddle.grad what it has returned, a no_grad_var, of several results all but the first",
        lambda seen: (
            not seen.exact
            and any(part in seen.text for part in (*INTERNAL, "only here"))
            and ("paddle.grad(" in seen.made or seen.text.startswith("errors:"))
        ),
    ),
    Known(
        "paddle.grad under the tape walks on where Paddle prunes, and meets hooks, writes, freed nodes, sums without a kernel",
        lambda seen: not seen.exact and seen.walked_on,
    ),
    Known(
        "a backward through what was made in a mode and outside reaches a leaf twice: its hook sees two parts of the gradient",
        lambda seen: not seen.exact and (seen.of_a_leafs_hook if seen.changing else seen.of_a_hook_behind_several_roots),
    ),
    Known(
        "Paddle loses a retained gradient when the tensor below is written in place; the tape keeps it",
        lambda seen: not seen.exact and ".grad" in seen.text and "natively None" in seen.text and seen.has(".retain_grads()"),
    ),
    Known(
        "Paddle goes on in the memory of a retained gradient where that of a view is the same (docs/defects.md)",
        lambda seen: seen.of_a_retained_view,
    ),
    Known(
        "what paddle.grad gives back has the memory of a retained gradient in Paddle: a write into one is one into both",
        lambda seen: not seen.exact and seen.of_a_gradient_asked_for,
    ),
    Known(
        "Paddle's gradient of a standard deviation of equal elements is NaN, Torch's 0 (docs/defects.md)",
        lambda seen: seen.text.startswith("accused") and "std grad:x" in seen.text and "NONFINITE [paddle]" in seen.text,
    ),
    Known(
        "a gradient of rounding alone, that of a sum over a softmax, is a whole step of Adam's",
        lambda seen: not seen.exact and seen.of_a_step_along_rounding,
    ),
    Known(
        "natively a recomputed block fails whose operands, asked at the backward, want no gradients any more",
        lambda seen: not seen.exact and seen.recomputed_without_gradients,
    ),
    Known(
        "an index into a number: IndexError natively, and ValueError where Paddle is asked behind Torch's refusal",
        lambda seen: not seen.exact and seen.of_an_index_into_a_number,
    ),
    Known(
        "a retained gradient wants a gradient itself natively; under the tape it wants none, for no door of Paddle's sets that",
        lambda seen: (
            not seen.exact
            and (".stop_gradient: natively False" in seen.text or ".is_leaf: natively False" in seen.text)
            and seen.has(".retain_grads()")
            and any(line.endswith(".grad") for line in seen.origins)
        ),
    ),
    Known(
        "a write that Paddle does not count, between forward and backward: Paddle's gradient is one of the new values",
        lambda seen: (
            ((any(seen.has(write) for write in UNCOUNTED) or seen.has_written_a_leaf) and seen.of_a_gradient)
            or (not seen.exact and seen.stepped and seen.has_in_order(UNCOUNTED, ("backward(", ".grad("), ("o.step()",)))
        ),
    ),
    Known(
        "Paddle's optimizers keep the learning rate in the dtype of one leaf, and refuse leaves of others; Torch steps them all",
        lambda seen: not seen.exact and seen.of_several_dtypes,
    ),
    Known(
        "where multiply_ changes a leaf's dtype, its gradient in Paddle has the one before or behind, by how the leaf was made",
        lambda seen: not seen.exact and ".grad's dtype" in seen.text and seen.has(".multiply_("),
    ),
    Known(
        "where a view shows an element several times, Paddle's gradient counts it once (docs/defects.md)",
        lambda seen: not seen.exact and seen.has("paddle.as_strided(") and (seen.of_a_gradient or seen.stepped),
    ),
    Known(
        "recompute without reentry needs the same modes in its backward as in its forward; Paddle's own error says so",
        lambda seen: not seen.exact and seen.recomputed_elsewhere,
    ),
    Known(
        "a backward meets a freed graph, a written tensor, a gradient without one: the engine's order says which is named",
        lambda seen: not seen.exact and seen.refused_for_another_reason,
    ),
    Known(
        "a native part of a graph that was walked from the tape is not freed, nor what a refused backward would have walked first",
        lambda seen: not seen.exact and seen.freed_by_paddle,
    ),
    Known(
        "a backward that is refused on its way has freed all that it was to walk, where Paddle's has freed what it has walked",
        lambda seen: not seen.exact and seen.freed_behind_a_refusal,
    ),
    Known(
        "a PyLayer that two turns of one backward come to, one behind Paddle's own nodes, is refused: Paddle runs it once",
        lambda seen: not seen.exact and seen.come_to_twice,
    ),
    Known(
        "what a PyLayer's backward returns comes to hooks and leaves with stop_gradient set natively, and without under the tape",
        lambda seen: (
            not seen.exact
            and (seen.text.startswith("seen[") or seen.made_of_gradients)
            and (".is_leaf: natively True" in seen.text or ".stop_gradient: natively True" in seen.text)
            and seen.has(".apply(")
        ),
    ),
    Known(
        "a reshape that copies shares Paddle's counter of writes with the memory that it has left; under the tape it has its own",
        lambda seen: (
            not seen.exact and ".inplace_version: natively" in seen.text and any(map(seen.has, (".reshape(", ".flatten(")))
        ),
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
        "of what a gradient does not depend on Paddle's second derivative is zeros, and Torch's of abs; in the other there is none",
        lambda seen: not seen.exact and seen.of_what_nothing_depends_on,
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
        "Paddle's backward reads what Torch's does not: where it was written since, Paddle refuses the backward",
        lambda seen: not seen.exact and seen.text.startswith("errors:") and seen.refused_by_paddle,
    ),
    Known(
        "a backward from a leaf itself: natively nothing happens unless something has led to it before",
        lambda seen: not seen.exact and ".grad" in seen.text and "natively None" in seen.text and "copy.deepcopy(" in seen.made,
    ),
    Known(
        "a leaf of which no name is left gets no more gradients in Paddle; a graph of Torch's holds the leaves that it leads to",
        lambda seen: not seen.exact and seen.of_a_leaf_that_is_gone,
    ),
    Known(
        "Paddle's gradient of a layer_norm leaves the weight out where the weight's is not asked for (docs/defects.md)",
        lambda seen: not seen.exact and seen.of_a_norm_without_its_weight,
    ),
    Known(
        "Paddle rounds the epsilon of a layer_norm to float32 (docs/defects.md)",
        lambda seen: seen.of_a_small_epsilon and (seen.text.startswith("accused") or not seen.exact),
    ),
    Known(
        "Paddle has no gradient of a value of as many axes that is broadcast as it is set (docs/defects.md)",
        lambda seen: not seen.exact and seen.of_a_value_that_is_broadcast,
    ),
    Known(
        "an in-place op between dtypes that Paddle refuses has changed the tensor's by then",
        lambda seen: not seen.exact and seen.behind_a_refused_write,
    ),
    Known(
        "Paddle's second derivative of an in-place op knows not what its operand was made of (docs/defects.md)",
        lambda seen: not seen.exact and seen.of_a_second_derivative_in_place,
    ),
    Known(
        "what paddle.grad gives with a graph behind a PyLayer is a leaf natively, which refuses an in-place op",
        lambda seen: not seen.exact and seen.refused_as_a_leaf and (seen.has(".apply(") or seen.has("use_reentrant=True")),
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
