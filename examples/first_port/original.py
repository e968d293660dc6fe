"""A classifier of token sequences in Torch: the original of a first port."""

import numpy as np
import torch


class Classifier(torch.nn.Module):
    """Embeds tokens, and looks at each by a gated layer."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.words, self.norm = torch.nn.Embedding(50, 16), torch.nn.LayerNorm(16, eps=1e-6)
        self.up, self.head = torch.nn.Linear(16, 64), torch.nn.Linear(64, 4)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        """Logits of four classes."""
        h = torch.nn.functional.silu(self.up(self.norm(self.words(tokens))))
        return self.head(h.mean(1))


def batch() -> np.ndarray:
    """Eight sequences of twelve tokens."""
    return np.random.default_rng(0).integers(0, 50, (8, 12))
