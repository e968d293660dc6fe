"""Results that nothing was made of, beside one that something was: Paddle shows their hooks zeros, Torch shows None.

Torch's engine refuses a hook that answers None with a gradient. So what a hook makes of the zeros is added to what the node hands
on: its gradient is linear.
"""

from __future__ import annotations

from typing import Any

import torch

# Whose results Paddle's engine fills with zeros; of others (svd, a PyLayer's) hooks are shown None there, or the process ends.
_FILLED = frozenset({"SplitBackward0", "SplitWithSizesBackward0", "UnbindBackward0", "LinalgEighBackward0"})
_KEY = "padiff_shim_answers"  # in a node's metadata: what hooks made of zeros, by the number of the result


class Unused:
    """One of several results of a node, for when no gradient arrives there. It does not hold the tensor: that holds its hooks."""

    __slots__ = ("device", "dtype", "number", "shape")

    def __init__(self, side: torch.Tensor) -> None:
        self.shape, self.dtype, self.device, self.number = side.shape, side.dtype, side.device, side.output_nr

    def gradient(self) -> torch.Tensor:
        """What a hook is shown: zeros, or what the hook before it made of them."""
        answers = torch._C._current_autograd_node().metadata.get(_KEY, {})
        return answers.get(self.number, torch.zeros(self.shape, dtype=self.dtype, device=self.device))

    def answer(self, grad: torch.Tensor) -> None:
        """A hook has returned this gradient."""
        node: Any = torch._C._current_autograd_node()
        answers = node.metadata.get(_KEY)
        if answers is None:
            if not grad.any():  # with zeros in place of nothing torch may take another formula
                return
            answers = node.metadata[_KEY] = dict[Any, Any]()
            answers["hook"] = node.register_hook(_added)
        answers[self.number] = grad


def unused(side: torch.Tensor) -> Unused | None:
    """What hooks on a twin need where no gradient arrives; None where Paddle shows them none."""
    node = side.grad_fn
    return Unused(side) if node is not None and node.name() in _FILLED else None


def _added(found: tuple[torch.Tensor | None, ...], given: tuple[torch.Tensor | None, ...]) -> tuple[torch.Tensor | None, ...]:
    """Hook of a node: what hooks answered for its unused results is part of what it hands on, once."""
    node: Any = torch._C._current_autograd_node()
    answers = node.metadata.pop(_KEY)
    answers.pop("hook").remove()
    more = node(*(answers.get(number) for number in range(len(given))))
    several = more if isinstance(more, tuple) else (more,)
    return tuple(one if one is None or other is None else one + other for one, other in zip(found, several))
