"""PaddleClas' Swin shifts a window that is as large as the image.

Line: paddleclas 2.6.0, ppcls/arch/backbone/legendary_models/swin_transformer.py:352, `self.shift_size = shift_size`
Original: timm 1.0.19, timm/models/swin_transformer.py, `SwinTransformerBlock._calc_window_shift`: no shift along an
    axis that one window covers
Write: `self.shift_size = 0 if min(input_resolution) <= window_size else shift_size`
"""

import numpy as np
import paddle
import torch

paddle.set_device("cpu")
paddle.set_default_dtype("float64")
draw = np.random.default_rng(0)
WINDOW, SHIFT = 4, 2
x, mask = draw.standard_normal((1, WINDOW, WINDOW, 3)), np.full((16, 16), -100.0)
parts = np.zeros((WINDOW, WINDOW))
for rows in (slice(0, -WINDOW), slice(-WINDOW, -SHIFT), slice(-SHIFT, None)):
    for columns in (slice(0, -WINDOW), slice(-WINDOW, -SHIFT), slice(-SHIFT, None)):
        parts[rows, columns] = parts.max() + 1
mask[parts.reshape(-1, 1) == parts.reshape(1, -1)] = 0.0  # tokens of unlike parts do not see each other


def attended(tokens, framework, mask):
    """Attention within the one window."""
    rows = tokens.reshape([16, 3])
    return (framework.nn.functional.softmax(rows @ rows.T + mask, -1) @ rows).reshape([1, WINDOW, WINDOW, 3])


original = attended(torch.tensor(x), torch, 0.0).numpy()
rolled = paddle.roll(paddle.to_tensor(x), (-SHIFT, -SHIFT), (1, 2))
port = paddle.roll(attended(rolled, paddle, paddle.to_tensor(mask)), (SHIFT, SHIFT), (1, 2)).numpy()
mended = attended(paddle.to_tensor(x), paddle, 0.0).numpy()
print(f"{abs(port - original).max():.1e} apart as it is, {abs(mended - original).max():.1e} as it is to be written")
raise SystemExit(int(not np.allclose(port, original, 0, 1e-9)))
