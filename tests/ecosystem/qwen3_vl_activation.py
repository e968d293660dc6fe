"""PaddleFormers' Qwen3-VL takes SiLU in its vision tower by default.

Line: paddleformers 1.2.0, paddleformers/transformers/qwen3_vl/configuration.py:34, `hidden_act="silu"`
Original: transformers 5.3.0, transformers/models/qwen3_vl/configuration_qwen3_vl.py:32,
    `hidden_act="gelu_pytorch_tanh"`
Write: `hidden_act="gelu_pytorch_tanh"`
"""

import numpy as np
import paddle
import torch

paddle.set_device("cpu")
paddle.set_default_dtype("float64")
draw = np.random.default_rng(0)
x = draw.standard_normal((2, 8))
original = torch.nn.functional.gelu(torch.tensor(x), approximate="tanh").numpy()
port = paddle.nn.functional.silu(paddle.to_tensor(x)).numpy()
mended = paddle.nn.functional.gelu(paddle.to_tensor(x), approximate=True).numpy()
print(f"{abs(port - original).max():.1e} apart as it is, {abs(mended - original).max():.1e} as it is to be written")
raise SystemExit(int(not np.allclose(port, original, 0, 1e-9)))
