"""paddle.vision's SqueezeNet drops the last row and column of its poolings.

Line: paddlepaddle 3.3.1, paddle/vision/models/squeezenet.py:159 and 178, `MaxPool2D(kernel_size=3, stride=2,
    padding=0)`
Original: torchvision 0.28.0, torchvision/models/squeezenet.py:45, `nn.MaxPool2d(kernel_size=3, stride=2,
    ceil_mode=True)`
Write: `MaxPool2D(kernel_size=3, stride=2, ceil_mode=True)`
"""

import numpy as np
import paddle
import torch

paddle.set_device("cpu")
paddle.set_default_dtype("float64")
draw = np.random.default_rng(0)
x = draw.standard_normal((1, 2, 8, 8))
original = torch.nn.MaxPool2d(3, 2, ceil_mode=True)(torch.tensor(x)).mean((2, 3)).numpy()
port = paddle.nn.MaxPool2D(3, 2, padding=0)(paddle.to_tensor(x)).mean((2, 3)).numpy()
mended = paddle.nn.MaxPool2D(3, 2, ceil_mode=True)(paddle.to_tensor(x)).mean((2, 3)).numpy()
print(f"{abs(port - original).max():.1e} apart as it is, {abs(mended - original).max():.1e} as it is to be written")
raise SystemExit(int(not np.allclose(port, original, 0, 1e-9)))
