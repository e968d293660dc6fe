"""paddle.vision's SqueezeNet, AlexNet and InceptionV3 scale by 1 - p in evaluation.

Line: paddlepaddle 3.3.1, paddle/vision/models/squeezenet.py:188, alexnet.py:145 and 153, inceptionv3.py:586,
    `Dropout(..., mode="downscale_in_infer")`
Original: torchvision 0.28.0, torchvision/models/squeezenet.py:82, alexnet.py:38 and 41, inception.py:84,
    `nn.Dropout(p=dropout)`
Write: `Dropout(p=0.5)`, in inceptionv3.py `Dropout(p=0.2)`; weights that were trained with this mode need the mode
"""

import numpy as np
import paddle
import torch

paddle.set_device("cpu")
paddle.set_default_dtype("float64")
draw = np.random.default_rng(0)
x = draw.standard_normal((2, 8))
original = torch.nn.Dropout(0.5).eval()(torch.tensor(x)).numpy()
port, mended = paddle.nn.Dropout(0.5, mode="downscale_in_infer"), paddle.nn.Dropout(0.5)
port.eval(), mended.eval()
port, mended = port(paddle.to_tensor(x)).numpy(), mended(paddle.to_tensor(x)).numpy()
print(f"{abs(port - original).max():.1e} apart as it is, {abs(mended - original).max():.1e} as it is to be written")
raise SystemExit(int(not np.allclose(port, original, 0, 1e-9)))
