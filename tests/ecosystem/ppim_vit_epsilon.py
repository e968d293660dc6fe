"""ppim's ViT divides by the root of the variance and 1e-5.

Line: ppim 1.1.0, ppim/models/vit.py:159, `epsilon=1e-5`
Original: timm 1.0.19, timm/layers/norm.py, `LayerNorm` with `eps=1e-6`, which timm/models/vision_transformer.py takes
Write: `epsilon=1e-6`
"""

import numpy as np
import paddle
import torch

paddle.set_device("cpu")
paddle.set_default_dtype("float64")
draw = np.random.default_rng(0)
x = 0.01 * draw.standard_normal((4, 32))
original = torch.nn.LayerNorm(32, eps=1e-6).double()(torch.tensor(x)).detach().numpy()
port = paddle.nn.LayerNorm(32, epsilon=1e-5)(paddle.to_tensor(x)).numpy()
mended = paddle.nn.LayerNorm(32, epsilon=1e-6)(paddle.to_tensor(x)).numpy()
print(f"{abs(port - original).max():.1e} apart as it is, {abs(mended - original).max():.1e} as it is to be written")
raise SystemExit(int(not np.allclose(port, original, 0, 1e-9)))
