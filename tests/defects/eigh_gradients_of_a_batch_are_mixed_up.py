"""eigh gradients of a batch are mixed up

For a batch of matrices, eigh uses the gradients of the first matrix's eigenvalues for all; eigvalsh uses them in the wrong order.

Section: Gradients
Ops: eigh, eigvalsh
Seen on: Paddle 2.6.2, 3.3.1; CPU
Effect: 2 instead of 4
Known difference: eigenvalues of several matrices
Under the shim: Torch's gradient; compare names it.
"""

import numpy as np
import paddle


def near(function):
    x = paddle.to_tensor([[[1.0, 0.0], [0.0, 2.0]], [[3.0, 0.0], [0.0, 5.0]]], "float64", stop_gradient=False)
    function(x).backward(paddle.to_tensor([[1.0, 2.0], [3.0, 4.0]], "float64"))
    np.testing.assert_allclose(x.grad.numpy()[1], [[3.0, 0.0], [0.0, 4.0]], atol=1e-9)


# %% eigh
near(lambda x: paddle.linalg.eigh(x)[0])
# %% eigvalsh
near(paddle.linalg.eigvalsh)
