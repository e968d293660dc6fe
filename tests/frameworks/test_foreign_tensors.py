"""Tensors that have no twin in Torch: the call is Paddle's, whichever way of the substitution they reach."""

import paddle
import paddle.nn.functional as F
import pytest

import padiff_shim
from padiff_shim.frameworks.versions import IS_3

pytestmark = [
    pytest.mark.usefixtures("undone"),
    pytest.mark.skipif(not IS_3, reason="2.6 has few of these"),
    pytest.mark.filterwarnings("ignore"),
]


def selected_rows():
    """The gradient of a sparse embedding."""
    table = paddle.nn.Embedding(5, 3, sparse=True)
    table(paddle.to_tensor([1, 1])).sum().backward()
    return table.weight.grad


def distributed():
    mesh = paddle.distributed.ProcessMesh([0])
    return paddle.distributed.shard_tensor(paddle.ones([2, 2]), mesh, [paddle.distributed.Replicate()])


# Tensors without a twin; what is done with them; why they stay native.
FOREIGN = {
    "sparse": (lambda: paddle.eye(3).to_sparse_coo(2), paddle.square, "sparse tensor"),
    "selected rows": (selected_rows, lambda t: paddle.scale(t, 2.0), "sparse tensor"),
    "distributed": (distributed, lambda t: t * 2.0, "distributed tensor"),
    "weight": (distributed, lambda t: F.linear(paddle.ones([1, 2]), t), "distributed tensor"),
    "sparse, times a number": (lambda: paddle.eye(3).to_sparse_coo(2), lambda t: t * 2.0, "sparse tensor"),
    "reversed float8": (
        lambda: paddle.ones([2, 2]).astype("float8_e4m3fn")[:, ::-1],
        paddle.exp,
        "cannot be shared through DLPack (NotImplementedError)",
    ),
}


@pytest.mark.parametrize("mode", [padiff_shim.reference, padiff_shim.compare])
@pytest.mark.parametrize("known", [False, True], ids=["first", "dtype known"])
@pytest.mark.parametrize(("make", "call", "why"), FOREIGN.values(), ids=FOREIGN)
def test_what_cannot_cross_gets_paddles_answer(make, call, why, known, mode):
    def answer():
        try:
            return str(call(make()))
        except Exception as error:
            return type(error)

    expected = answer()
    with mode("torch") as run:
        if known:  # the short way of a call whose dtype rule is known
            for _ in range(2):
                call(paddle.ones([2, 2]))
        assert answer() == expected
    if isinstance(expected, str):  # what raised is counted nowhere
        assert any(why in reasons for reasons in run.native.values()), run.native
