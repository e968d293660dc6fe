"""What a pair of the demo is, and how its weights are drawn."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

CORRECT, DIFFERS = "CODE_CORRECT", "CODE_DIFFERS"


@dataclass(frozen=True)
class Pair:
    """A port and its original. ``build`` returns the Paddle layer, the Torch module and their inputs.

    ``expected`` and ``reason`` come from reading both sources. ``wrong`` says what is known to be wrong with today's answer,
    ``backward`` whether the port has one in evaluation.
    """

    name: str
    library: str
    build: Callable[[], tuple[Any, Any, Any]]
    expected: str = CORRECT
    reason: str = ""
    phase: str = "both"
    wrote: str = "nothing"
    wrong: str = ""
    backward: bool = True

    def judged_right(self, verdict: str) -> bool:
        """Whether prove's verdict is the expected one; a right port may round in another order."""
        return verdict == self.expected or (self.expected == CORRECT and verdict == "CODE_CORRECT_WITHIN_ROUNDING")


def trained_size(module: Any) -> Any:
    """The Torch module in evaluation mode, its weights filled with numbers of the size that training leaves.

    Matrices by N(0, 1/fan-in); gains and running variances near 1, biases and running means near 0. Everything that a library's
    own initialization leaves at 0 or 1 would hide what a port does with it.
    """
    import torch

    torch.manual_seed(0)
    with torch.no_grad():
        for weight in module.parameters():
            if not weight.requires_grad:  # a table: each side has its own
                continue
            if weight.ndim > 1:
                weight.normal_(0.0, weight[0].numel() ** -0.5)
            else:
                weight.add_(0.1 * torch.randn(weight.shape))
        for name, buffer in module.named_buffers():
            if name.endswith("running_mean"):
                buffer.normal_(0.0, 0.1)
            elif name.endswith("running_var"):
                buffer.uniform_(0.5, 1.5)
    return module.eval()
