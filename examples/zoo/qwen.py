"""A Qwen3 decoder (Yang et al., 2025): Llama's, with a norm over each head of queries and keys before the rotation."""

import paddle.nn as pnn
import torch.nn as tnn

from . import llama
from .gpt import batch as batch
from .llama import LAYERS, SIZE


class PaddleBlock(llama.PaddleBlock):
    def __init__(self):
        super().__init__()
        self.q_norm, self.k_norm = llama.PaddleRMSNorm(SIZE), llama.PaddleRMSNorm(SIZE)


class PaddleQwen(llama.PaddleLlama):
    def __init__(self):
        super().__init__()
        self.blocks = pnn.LayerList([PaddleBlock() for _ in range(LAYERS)])


class TorchBlock(llama.TorchBlock):
    def __init__(self):
        super().__init__()
        self.q_norm, self.k_norm = llama.TorchRMSNorm(SIZE), llama.TorchRMSNorm(SIZE)


class TorchQwen(llama.TorchLlama):
    def __init__(self):
        super().__init__()
        self.blocks = tnn.ModuleList([TorchBlock() for _ in range(LAYERS)])


paddle_model, torch_model = PaddleQwen, TorchQwen
