"""PaddleFormers' Gemma3 turns local attention by the base of the global one.

Line: paddleformers 1.2.0, paddleformers/transformers/gemma3_text/modeling.py:491 and 615, one `Gemma3RotaryEmbedding`
    for all layers
Original: transformers 5.3.0, transformers/models/gemma3/modeling_gemma3.py:582, a rotary embedding for each kind of
    attention: base 10,000 for sliding, 1,000,000 for full
Write: a second `Gemma3RotaryEmbedding` with the local base, for layers of `sliding_attention`
"""

import numpy as np
import paddle
import torch

paddle.set_device("cpu")
paddle.set_default_dtype("float64")
draw = np.random.default_rng(0)
SIZE, places = 8, np.arange(6.0)


def angles(framework, base):
    """Of a rotary embedding."""
    steps = framework.arange(0, SIZE, 2, dtype=framework.float64) / SIZE
    held = framework.to_tensor(places) if framework is paddle else framework.tensor(places)
    return framework.cos(held[:, None] * (1.0 / base**steps)[None, :]).numpy()


original, port, mended = angles(torch, 10_000.0), angles(paddle, 1_000_000.0), angles(paddle, 10_000.0)
print(f"{abs(port - original).max():.1e} apart as it is, {abs(mended - original).max():.1e} as it is to be written")
raise SystemExit(int(not np.allclose(port, original, 0, 1e-9)))
