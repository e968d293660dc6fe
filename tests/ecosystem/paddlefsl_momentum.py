"""PaddleFSL's ConvBlock keeps a tenth of its running statistics, where the original keeps nine.

Line: paddlefsl 1.1.0, paddlefsl/backbones/conv.py:67, `momentum=0.1`
Original: learn2learn 0.2.0, learn2learn/vision/models/cnn4.py:73, `BatchNorm2d` with Torch's momentum, the share of the new
Write: `momentum=0.9`
"""

import numpy as np
import paddle
import torch

paddle.set_device("cpu")
paddle.set_default_dtype("float64")
x = 0.1 * np.random.default_rng(0).standard_normal((4, 3, 5, 5))  # Paddle holds statistics in float32
original = torch.nn.BatchNorm2d(3, dtype=torch.float64)
port, mended = (paddle.nn.BatchNorm2D(3, momentum=momentum, epsilon=1e-5) for momentum in (0.1, 0.9))
original(torch.from_numpy(x))
port(paddle.to_tensor(x))
mended(paddle.to_tensor(x))
wanted = original.running_mean.numpy()
apart, after = (abs(layer._mean.numpy() - wanted).max() for layer in (port, mended))
print(f"{apart:.1e} apart as it is, {after:.1e} as it is to be written")
raise SystemExit(int(apart > 1e-9))
