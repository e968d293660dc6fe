"""gather from an empty tensor reads unwritten memory

An index into a tensor without rows, which index_select, NumPy and Torch refuse, returns unwritten memory.

Section: Unwritten memory
Ops: gather, gather_nd
Seen on: Paddle 2.6.2, 3.0.0, 3.1.1, 3.2.2, 3.3.1; CPU
Effect: unwritten memory
Under the shim: No change; Torch refuses, and the run lists the call.
"""

import paddle


def refused(function, index):
    try:
        function(paddle.zeros([0, 4]), paddle.to_tensor(index))
    except (IndexError, ValueError):
        return True
    return False


# %% gather
assert refused(paddle.gather, [0])
# %% gather_nd
assert refused(paddle.gather_nd, [[0]])
