"""PaddleClas' Res2Net averages the border without its padding.

Line: paddleclas 2.6.0, ppcls/arch/backbone/model_zoo/res2net.py:114, `AvgPool2D(kernel_size=3, stride=stride,
    padding=1)`
Original: timm 1.0.19, timm/models/res2net.py:63, `nn.AvgPool2d(kernel_size=3, stride=stride, padding=1)`, which
    counts the zeros of the padding
Write: `AvgPool2D(kernel_size=3, stride=stride, padding=1, exclusive=False)`
"""

import numpy as np
import paddle
import torch

paddle.set_device("cpu")
paddle.set_default_dtype("float64")
draw = np.random.default_rng(0)
x = draw.standard_normal((1, 2, 8, 8))
original = torch.nn.AvgPool2d(3, 2, 1)(torch.tensor(x)).numpy()
port = paddle.nn.AvgPool2D(3, 2, 1)(paddle.to_tensor(x)).numpy()
mended = paddle.nn.AvgPool2D(3, 2, 1, exclusive=False)(paddle.to_tensor(x)).numpy()
print(f"{abs(port - original).max():.1e} apart as it is, {abs(mended - original).max():.1e} as it is to be written")
raise SystemExit(int(not np.allclose(port, original, 0, 1e-9)))
