"""PaddleFormers' gpt_oss gives experts the weights of other tokens.

Line: paddleformers 1.2.0, paddleformers/transformers/gpt_oss/modeling.py:162 and 166, `routing_weights.transpose([0,
    1])`, which leaves the axes as they are
Original: transformers 5.3.0, transformers/models/gpt_oss/modeling_gpt_oss.py, `routing_weights.transpose(0, 1)`
Write: `routing_weights.transpose([1, 0])`
"""

import numpy as np
import paddle
import torch

paddle.set_device("cpu")
paddle.set_default_dtype("float64")
draw = np.random.default_rng(0)
weights, states = draw.random((6, 4)), draw.standard_normal((4, 6, 3))  # of 6 tokens to 4 experts; what experts make of tokens
original = (torch.tensor(states) * torch.tensor(weights).transpose(0, 1).reshape(4, -1)[..., None]).sum(0).numpy()
held = paddle.to_tensor(weights)
port = (paddle.to_tensor(states) * held.transpose([0, 1]).reshape((4, -1))[..., None]).sum(0).numpy()
mended = (paddle.to_tensor(states) * held.transpose([1, 0]).reshape((4, -1))[..., None]).sum(0).numpy()
print(f"{abs(port - original).max():.1e} apart as it is, {abs(mended - original).max():.1e} as it is to be written")
raise SystemExit(int(not np.allclose(port, original, 0, 1e-9)))
