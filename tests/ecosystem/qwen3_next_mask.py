"""PaddleFormers' Qwen3-Next looks at later tokens in its full attention, with the eager attention that is the default.

Line: paddleformers 1.2.0, paddleformers/transformers/qwen3_next/modeling.py:1073, `causal_mask = None`
Original: transformers 5.3.0, transformers/models/qwen3_next/modeling_qwen3_next.py:1048, `causal_mask = create_causal_mask(...)`
Write: `causal_mask, _ = create_causal_mask_and_row_indices(...)`, as paddleformers/transformers/qwen3/modeling.py:633
"""

import numpy as np
import paddle
import torch

paddle.set_device("cpu")
paddle.set_default_dtype("float64")
query, key, value = np.random.default_rng(0).standard_normal((3, 1, 2, 5, 4))
original = torch.nn.functional.scaled_dot_product_attention(*map(torch.tensor, (query, key, value)), is_causal=True).numpy()


def attention(mask):
    weights = paddle.matmul(paddle.to_tensor(query), paddle.to_tensor(key).transpose([0, 1, 3, 2])) * 0.5
    return paddle.matmul(paddle.nn.functional.softmax(weights + mask, axis=-1), paddle.to_tensor(value)).numpy()


port, mended = attention(0.0), attention(paddle.triu(paddle.full([5, 5], -np.inf), 1))
print(f"{abs(port - original).max():.1e} apart as it is, {abs(mended - original).max():.1e} as it is to be written")
raise SystemExit(int(not np.allclose(port, original, 0, 1e-9)))
