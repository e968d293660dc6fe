"""kernels read beyond operands of too few elements

Operands of too few elements are neither broadcast nor refused: the kernels read beyond their end, and lu_solve writes there. For
lu_solve this is the C op; paddle.linalg.lu_solve refuses.

Section: Unwritten memory
Ops: gammainc, gammaincc, add_n, triangular_solve, lu_solve
Seen on: Paddle 2.6.2, 3.0.0, 3.1.1, 3.2.2, 3.3.1; CPU
Effect: foreign memory; the process may end later
Under the shim: No change; Torch refuses, and the run lists the call.
"""

import numpy as np
import paddle


def right(call, *values):
    try:
        result = call()
    except (ValueError, RuntimeError):
        return
    assert values, "an answer of operands that do not fit"
    np.testing.assert_allclose(result.numpy(), values, rtol=1e-5)


x, y = paddle.to_tensor([2.0]), paddle.to_tensor([1.0, 2.0, 3.0])

# %% gammainc
right(lambda: paddle.gammainc(x, y), 0.2642411, 0.5939942, 0.8008517)
# %% gammaincc
right(lambda: paddle.gammaincc(x, y), 0.7357589, 0.4060058, 0.1991483)
# %% add_n
right(lambda: paddle.add_n([x[0], y]), 3.0, 4.0, 5.0)
# %% triangular_solve
right(lambda: paddle.linalg.triangular_solve(paddle.ones([1, 1]), paddle.ones([3, 1])))
# %% lu_solve
right(lambda: paddle._C_ops.lu_solve(paddle.ones([1, 1]), *paddle.linalg.lu(paddle.eye(3)), "N"))
