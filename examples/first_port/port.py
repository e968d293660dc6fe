"""The same in Paddle, as a first port may be: with a forgotten epsilon, and with SiLU by its formula."""

import paddle
import paddle.nn.functional as F


class Classifier(paddle.nn.Layer):
    """Embeds tokens, and looks at each by a gated layer."""

    def __init__(self) -> None:
        super().__init__()
        self.words, self.norm = paddle.nn.Embedding(50, 16), paddle.nn.LayerNorm(16)
        self.up, self.head = paddle.nn.Linear(16, 64), paddle.nn.Linear(64, 4)

    def forward(self, tokens: paddle.Tensor) -> paddle.Tensor:
        """Logits of four classes."""
        h = self.up(self.norm(self.words(tokens)))
        h = h * F.sigmoid(h)
        return self.head(h.mean(1))
