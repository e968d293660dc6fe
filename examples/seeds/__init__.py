"""The accuracy cases that users reported, rebuilt small: what Paddle computes natively and under the shim, against Torch.

config.py      sizes of the models
compare.py     runs one case on both frameworks and measures every step
report.py      prints steps as the reports did, and tables
weights.py     random and trained-like weights, the same for both frameworks
*_paddle.py    the models in Paddle; *_torch.py, the same in Torch
seed_00?.py    the cases of each report
"""
