"""Compare mode and results that are no plain tensors: static graphs, outputs not asked for, None, lists, sparse tensors, texts."""

import contextlib

import numpy as np
import paddle
import pytest
from helpers import Call, entries, flat, has_defect, in_turn, same, thinned

import padiff_shim
from padiff_shim.comparison import plan
from padiff_shim.dispatch.dtypes import has_kernel
from padiff_shim.frameworks.versions import IS_3
from padiff_shim.verdicts import HARD

pytestmark = [pytest.mark.usefixtures("undone"), pytest.mark.compat, pytest.mark.filterwarnings("ignore")]

MODES = {
    "reference": padiff_shim.reference,
    "compare": padiff_shim.compare,
    "compare, nothing sampled": lambda: padiff_shim.compare("torch", steps=7),
    "compare, shadow": lambda: padiff_shim.compare("torch", shadow=True),
}


class Net(paddle.nn.Layer):
    def __init__(self):
        super().__init__()
        self.conv, self.norm, self.linear = paddle.nn.Conv2D(1, 2, 3), paddle.nn.BatchNorm2D(2), paddle.nn.Linear(8, 3)

    def forward(self, x):
        hidden = paddle.nn.functional.relu(self.norm(self.conv(x)))
        hidden = paddle.einsum("ijk,kl->ijl", hidden.flatten(2), paddle.ones([4, 4]))
        return paddle.nn.functional.softmax(self.linear(hidden.flatten(1)) * 2.0 + paddle.exp(-hidden.mean()))


def net():
    paddle.seed(1)
    made = Net()
    made.eval()
    return made


X = np.random.default_rng(0).standard_normal((2, 1, 4, 4)).astype("float32")


@pytest.mark.rows(4)
@pytest.mark.parametrize("full", [False, True], ids=["SOT", "AST"])
@pytest.mark.parametrize("mode", MODES)
def test_a_function_compiled_inside_a_mode(mode, full):
    with MODES[mode]():
        inside = paddle.jit.to_static(net(), full_graph=full)(paddle.to_tensor(X))
    np.testing.assert_allclose(inside.numpy(), net()(paddle.to_tensor(X)).numpy(), rtol=1e-4)


@pytest.mark.parametrize("mode", MODES)
def test_a_model_saved_inside_a_mode(mode, tmp_path):
    spec = [paddle.static.InputSpec([None, 1, 4, 4], "float32")]
    model = net()
    with MODES[mode]() as run:
        paddle.jit.save(model, str(tmp_path / "net"), input_spec=spec)
        assert set(run.native) <= {"Executor.run"}, "nothing was computed; 2.6 has an executor write the file"
        loaded = paddle.jit.load(str(tmp_path / "net"))(paddle.to_tensor(X))
    np.testing.assert_allclose(loaded.numpy(), net()(paddle.to_tensor(X)).numpy(), rtol=1e-4)


@pytest.mark.parametrize("mode", MODES)
def test_a_static_program_built_and_run_inside_a_mode(mode):
    paddle.enable_static()
    try:
        with MODES[mode]() as run, paddle.static.program_guard(paddle.static.Program(), paddle.static.Program()):
            data = paddle.static.data("x", [2, 2], "float32")
            data.stop_gradient = False
            result = paddle.einsum("ij,jk->ik", paddle.exp(paddle.matmul(data, data)), data + 1.0)
            parts = [result, *paddle.split(result, 2), paddle.topk(result, 1)[0]]
            grads = paddle.static.gradients([paddle.sum(result)], [data])
            results = paddle.static.Executor().run(feed={"x": np.zeros((2, 2), "float32")}, fetch_list=[*parts, *grads])
    finally:
        paddle.disable_static()
    assert results[0].tolist() == [[2.0, 2.0], [2.0, 2.0]]
    assert list(run.native) == ["Executor.run"]  # one call, whose reason says that its ops are not seen


def least_squares(**options):
    return paddle.linalg.lstsq(paddle.ones([4, 3]), paddle.ones([4, 2]), **options)


ODD = {
    **(
        {"lstsq": least_squares, "lstsq gelsd": lambda: least_squares(driver="gelsd")}
        if not has_defect("lstsq returns residuals without full rank")
        else {}
    ),
    "einsum of one operand": lambda: paddle.einsum("ij->ji", paddle.ones([2, 3])),
    "einsum of three": lambda: paddle.einsum("ij,jk,kl->il", paddle.ones([2, 3]), paddle.ones([3, 4]), paddle.ones([4, 2])),
    "batch_norm": lambda: paddle.nn.BatchNorm1D(3)(paddle.ones([4, 3])),
    "batch_norm eval": lambda: paddle.nn.functional.batch_norm(paddle.ones([4, 3]), paddle.zeros([3]), paddle.ones([3])),
    "group_norm": lambda: paddle.nn.GroupNorm(1, 3)(paddle.ones([4, 3, 2])),
    "layer_norm without weights": lambda: paddle.nn.functional.layer_norm(paddle.ones([4, 3]), [3]),
    "lstm": lambda: paddle.nn.LSTM(3, 4)(paddle.ones([2, 5, 3])),
    "lstm with lengths": lambda: paddle.nn.GRU(3, 4)(paddle.ones([2, 5, 3]), sequence_length=paddle.to_tensor([5, 2])),
    "unique": lambda: paddle.unique(paddle.ones([4]), return_index=True, return_inverse=True, return_counts=True),
    "unique_consecutive": lambda: paddle.unique_consecutive(paddle.ones([4])),
    "svd": lambda: paddle.linalg.svd(paddle.eye(3)),
    "qr of r": lambda: paddle.linalg.qr(paddle.eye(3), mode="r"),
    "lu": lambda: paddle.linalg.lu(paddle.eye(3), get_infos=IS_3),  # 2.6 tells it in a shape of its own
    "eig": lambda: paddle.linalg.eig(paddle.eye(3)),
    "dropout in eval": lambda: paddle.nn.functional.dropout(paddle.ones([4]), training=False),
    "max_pool with mask": lambda: paddle.nn.functional.max_pool2d(paddle.ones([1, 1, 4, 4]), 2, return_mask=True),
    "warpctc": lambda: paddle.nn.functional.ctc_loss(
        paddle.ones([5, 1, 3]), paddle.ones([1, 2], "int32"), paddle.to_tensor([5]), paddle.to_tensor([2])
    ),
    "attention": lambda: paddle.nn.functional.scaled_dot_product_attention(*[paddle.ones([1, 4, 2, 8])] * 3),
    "cross_entropy": lambda: paddle.nn.functional.cross_entropy(paddle.ones([4, 3]), paddle.zeros([4], "int64")),
    "sparse coo": lambda: paddle.ones([3, 3]).to_sparse_coo(2).to_dense(),
    "sparse matmul": lambda: paddle.sparse.matmul(paddle.eye(3).to_sparse_csr(), paddle.ones([3, 2])),
    "sparse relu": lambda: paddle.sparse.nn.functional.relu(paddle.eye(3).to_sparse_coo(2)).to_dense(),
    "zero-size": lambda: paddle.exp(paddle.zeros([0, 3])),
    "meshgrid": lambda: paddle.meshgrid(paddle.ones([2]), paddle.ones([3])),
    "split": lambda: paddle.split(paddle.ones([4, 2]), 2),
    "unbind": lambda: paddle.unbind(paddle.ones([4, 2])),
    "nms": lambda: paddle.vision.ops.nms(paddle.to_tensor([[0.0, 0.0, 1.0, 1.0], [0.0, 0.0, 1.0, 1.0]]), 0.3),
    "viterbi": lambda: paddle.text.viterbi_decode(paddle.ones([1, 4, 3]), paddle.ones([3, 3]), paddle.to_tensor([4]), False),
    "stft": lambda: paddle.signal.stft(paddle.ones([1, 64]), 16).abs(),
    "embedding, sparse gradient": lambda: sparse_gradient(),
}


def sparse_gradient():
    layer = paddle.nn.Embedding(5, 3, sparse=True)
    (layer(paddle.to_tensor([1, 2])) * paddle.ones([3])).sum().backward()
    return


def shapes(results):
    if isinstance(results, (list, tuple)):
        return [shapes(item) for item in results]
    if not isinstance(results, paddle.Tensor):
        return results
    return results.numpy().shape if results._is_initialized() else "uninitialised"


def outcome(call):
    """The shapes of what a call gives, or the error that Paddle raises for it."""
    try:
        return shapes(call())
    except Exception as error:
        return type(error)


@pytest.mark.parametrize("mode", MODES)
def test_calls_with_odd_results_run_as_natively(mode):
    native = {name: outcome(call) for name, call in ODD.items()}
    with MODES[mode]():
        assert {name: outcome(call) for name, call in ODD.items()} == native


def test_elements_counts_what_holds_numbers():
    uninit = paddle.Tensor()
    assert plan.elements([None, "text", 3, uninit, [paddle.ones([2, 3]), None], (paddle.ones([]), paddle.zeros([0, 4]))]) == 7
    assert plan.elements(paddle.eye(3).to_sparse_coo(2)) == 9


SAMPLINGS = {
    "every": {"every": 2},
    "first": {"first": 1},
    "steps": {"steps": 5},
    "budget": {"budget": 1e-9},
    "ranks": {"ranks": [3]},
    "layers": {"layers": "nope"},
    "ops": {"ops": "rsqrt"},
    "shadow": {"every": 2, "shadow": True},
}


def twice(op, entry, grad):
    """The results and gradients of two equal calls; nothing where Paddle refuses the sample at this entry."""
    collected = []
    for _ in range(2):
        call = Call(op, entry, op.samples[0], "float32", "contiguous", grad)
        with contextlib.suppress(ValueError, TypeError, RuntimeError, SystemError):  # Paddle's backward of some legacy doors fails
            results = flat(call.run())
            collected += results
            wanted = [tensor for tensor in results if not tensor.stop_gradient]
            if wanted:  # through all of them: some of Paddle's backwards end the process otherwise
                paddle.autograd.backward(wanted, [paddle.ones_like(result) for result in wanted])
                collected += [leaf.grad for leaf in call.tensors if isinstance(leaf, paddle.Tensor) and leaf.grad is not None]
    return [tensor.numpy() for tensor in collected]


@pytest.mark.parametrize(("options", "grad"), in_turn(thinned(SAMPLINGS, "every"), [False, True]))
def test_every_entry_runs_as_natively_whether_sampled_or_not(options, grad):
    pairs = [(op, entry) for op, entry in entries() if not (grad and entry.inplace) and op.samples and has_kernel(op)]
    native = [twice(op, entry, grad) for op, entry in pairs]
    with padiff_shim.compare("torch", **SAMPLINGS[options]) as run:
        compared = [twice(op, entry, grad) for op, entry in pairs]
    for (op, entry), mine, theirs in zip(pairs, compared, native):
        assert len(mine) == len(theirs), entry.target
        if grad and op.name == "masked_fill":  # its value's gradient is memory that nobody wrote
            continue
        assert all(map(same, mine, theirs)), entry.target
    assert not [warning for warning in run.warnings if "shadow was not" in warning or "failed" in warning]


BIASED = {
    "linear": ((4, 5), (5, 3)),
    "conv1d": ((2, 4, 6), (3, 4, 3)),
    "conv2d": ((2, 4, 6, 6), (3, 4, 3, 3)),
    "conv3d_transpose": ((1, 3, 4, 4, 4), (3, 3, 3, 3, 3)),
}


@pytest.mark.parametrize("kinds", [("float32", "float64"), ("float64", "float32")], ids="-".join)
@pytest.mark.parametrize("name", BIASED)
def test_a_product_with_a_bias_of_another_dtype_is_two_ops(name, kinds):
    """It is one of the operands' own dtype: nobody is wrong who rounds it to that."""
    paddle.seed(3)
    x, w, b = (paddle.randn(shape).astype(kind) for shape, kind in zip((*BIASED[name], (3,)), (kinds[0], *kinds)))

    def result():
        try:
            return getattr(paddle.nn.functional, name)(x, w, b).numpy()
        except Exception as error:  # some Paddles refuse it
            return type(error)

    native = result()
    for mode in (padiff_shim.compare, padiff_shim.reference):
        with mode("torch") as run:
            np.testing.assert_array_equal(result(), native)
        assert "several float dtypes" in str(run)
        assert not [call for call in getattr(run, "calls", ()) if call.verdict in HARD]
