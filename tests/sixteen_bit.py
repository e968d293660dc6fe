"""The ops that do not run in 16 bits on a CPU, and why: tests/table/test_halves.py tries every op.

Paddle's CPU has few kernels in float16 and bfloat16; reference mode takes Torch's. Here are the ops that neither has.
"""

from __future__ import annotations

TORCH = "Torch has no such kernel on a CPU"
BACKWARD = "Torch has no backward of it on a CPU"
PADDLE = "Paddle's own function refuses the dtype, whatever kernels there are"
BOTH = ("bfloat16", "float16")

# Op -> the reason, and the dtypes in which it raises.
HALVES: dict[str, tuple[str, tuple[str, ...]]] = {
    **dict.fromkeys(
        """cholesky_solve ctc_loss det inverse lu_solve pinv slogdet slogdet_v2 solve svdvals triangular_solve""".split(),  # noqa: SIM905
        (TORCH, BOTH),
    ),
    **dict.fromkeys(("avg_pool3d", "local_response_norm"), (TORCH, ("bfloat16",))),
    **dict.fromkeys(("i1", "i1e"), (BACKWARD, BOTH)),
    **dict.fromkeys(("cosine_embedding_loss", "gaussian_nll_loss", "matrix_exp", "nan_to_num"), (PADDLE, BOTH)),
    **dict.fromkeys(("cumulative_trapezoid", "trapezoid"), (PADDLE, ("bfloat16",))),
}
# What Paddle 2.6 does not refuse, or has no kernel of its own for, where a later one is otherwise.
OLDER: dict[str, tuple[str, tuple[str, ...]]] = {"avg_pool3d": (TORCH, BOTH), "local_response_norm": (TORCH, BOTH)}
