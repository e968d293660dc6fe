"""paddle.vision's InceptionV3 normalizes with 1e-5.

Line: paddlepaddle 3.3.1, paddle/vision/models/inceptionv3.py, its `ConvNormActivation` layers, which make
    `BatchNorm2D` with the default `epsilon=1e-5`
Original: torchvision 0.28.0, torchvision/models/inception.py:402, `nn.BatchNorm2d(out_channels, eps=0.001)`
Write: `norm_layer=functools.partial(nn.BatchNorm2D, epsilon=1e-3)` in each of them
"""

import numpy as np
import paddle
import torch

paddle.set_device("cpu")
paddle.set_default_dtype("float64")
draw = np.random.default_rng(0)
x = draw.standard_normal((2, 3, 4, 4))
original = torch.nn.BatchNorm2d(3, eps=0.001).double().eval()(torch.tensor(x)).detach().numpy()
port, mended = paddle.nn.BatchNorm2D(3), paddle.nn.BatchNorm2D(3, epsilon=1e-3)
port.eval(), mended.eval()
port, mended = port(paddle.to_tensor(x)).numpy(), mended(paddle.to_tensor(x)).numpy()
print(f"{abs(port - original).max():.1e} apart as it is, {abs(mended - original).max():.1e} as it is to be written")
raise SystemExit(int(not np.allclose(port, original, 0, 1e-9)))
