"""PaddleClas' MobileViT divides by the root of the variance and 1e-6 behind its transformers.

Line: paddleclas 2.6.0, ppcls/arch/backbone/model_zoo/mobilevit.py:239, `epsilon=1e-6`
Original: timm 1.0.19, timm/models/mobilevit.py:217, `nn.LayerNorm(transformer_dim)`, with 1e-5
Write: `nn.LayerNorm(embed_dim, weight_attr=w_attr_1, bias_attr=b_attr_1)`
"""

import numpy as np
import paddle
import torch

paddle.set_device("cpu")
paddle.set_default_dtype("float64")
x = 1e-2 * np.random.default_rng(0).standard_normal((2, 5, 8))
original = torch.nn.functional.layer_norm(torch.tensor(x), (8,)).numpy()
centred = paddle.to_tensor(x) - paddle.to_tensor(x).mean(-1, keepdim=True)
port, mended = ((centred / (centred.square().mean(-1, keepdim=True) + epsilon).sqrt()).numpy() for epsilon in (1e-6, 1e-5))
print(f"{abs(port - original).max():.1e} apart as it is, {abs(mended - original).max():.1e} as it is to be written")
raise SystemExit(int(not np.allclose(port, original, 0, 1e-9)))
