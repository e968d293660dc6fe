"""PARL's PPO and MADDPG clip each tensor by its own norm.

Line: parl 2.2.1, parl/algorithms/paddle/ppo.py:75, maddpg.py:76 and 80, `ClipGradByNorm`
Original: parl 2.2.1, parl/algorithms/torch/ppo.py:146, maddpg.py:172 and 182, `clip_grad_norm_`, by the norm of all gradients
Write: `nn.ClipGradByGlobalNorm(self.max_grad_norm)`, in maddpg.py `nn.ClipGradByGlobalNorm(clip_norm=0.5)`
"""

import numpy as np
import paddle
import torch

paddle.set_device("cpu")
paddle.set_default_dtype("float64")
draw = np.random.default_rng(0)
gradients = [
    1e5 * draw.standard_normal((4, 3)),
    1e5 * draw.standard_normal(3),
]  # beside which the 1e-6 of clip_grad_norm_ is nothing

parameters = [torch.nn.Parameter(torch.zeros(gradient.shape, dtype=torch.float64)) for gradient in gradients]
for parameter, gradient in zip(parameters, gradients):
    parameter.grad = torch.tensor(gradient)
torch.nn.utils.clip_grad_norm_(parameters, 0.5)
original = np.concatenate([parameter.grad.numpy().ravel() for parameter in parameters])


tensors = [paddle.to_tensor(gradient) for gradient in gradients]
by_itself = [tensor * (0.5 / tensor.norm()).clip(max=1.0) for tensor in tensors]  # ClipGradByNorm, which has no float64 on a CPU
port = np.concatenate([tensor.numpy().ravel() for tensor in by_itself])
clipped = paddle.nn.ClipGradByGlobalNorm(0.5)([(paddle.create_parameter(tensor.shape, "float64"), tensor) for tensor in tensors])
mended = np.concatenate([gradient.numpy().ravel() for _, gradient in clipped])
print(f"{abs(port - original).max():.1e} apart as it is, {abs(mended - original).max():.1e} as it is to be written")
raise SystemExit(int(not np.allclose(port, original, 0, 1e-9)))
