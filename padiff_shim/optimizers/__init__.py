"""Steps of optimizers and clippers answered by Torch, in the memory of Paddle's parameters and accumulators.

`update`: the words in which an optimizer is declared, and what a formula gets; `adaptive` and `descent` declare them.
`step` answers a step, `step_cache` keeps what the next one needs again, `clipping` clips gradients.

Another optimizer is one decorated formula in `adaptive` or `descent`.
"""
