"""Ordinary models, each written in Paddle and in Torch: what `demo_models.py` compares.

A module gives `paddle_model()`, `torch_model()`, `batch(rng)` (NumPy arrays by name) and a step in either framework,
`paddle_step(model, **tensors)` and `torch_step(model, **tensors)`: (outputs, loss). Parameters have the same names in both. Those
that are trained have a `RECIPE`, and loops of their own where `training.py` does not serve.
The last of `PAIRS` has trained weights, which are a package of their own (requirements/demo.txt). docs/models.md has an
example for each family of models; `conformer`, `crnn`, `detector`, `diffusion`, `qwen` and `swin` are for it, and have no step.
"""

PAIRS = (
    "resnet", "mobilenet", "densenet", "unet", "gpt", "llama", "t5", "bert", "vit", "tagger", "vae",
    "gan", "wgan", "ppo", "reformer", "minilm",
)  # fmt: skip
