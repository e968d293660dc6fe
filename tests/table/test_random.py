"""``random="torch"``: every draw is Torch's, bit for bit, in Torch's order; without it every draw is Paddle's."""

import itertools

import numpy as np
import paddle
import paddle.nn.functional as F
import paddle.nn.initializer as I
import pytest
import torch
import torch.nn.functional as TF
from helpers import in_turn, needs, same, tried
from torch.nn import init

import padiff_shim
from padiff_shim.errors import PadiffShimError, UnknownNameError
from padiff_shim.frameworks.versions import IS_3
from padiff_shim.table.reasons import DRAWN, RANDOM

pytestmark = [pytest.mark.compat, pytest.mark.bitexact]
FLOATS = ("float32", "float64")


def numbers(*shape, dtype="float32"):
    """In [0.1, 0.9)."""
    return np.random.default_rng(1).uniform(0.1, 0.9, shape).astype(dtype)


def tensor(*shape, dtype="float32", grad=False):
    return paddle.to_tensor(numbers(*shape, dtype=dtype), stop_gradient=not grad)


def empty(*shape, dtype=torch.float32):
    return torch.empty(shape, dtype=dtype)


CREATED = {
    "randn": (lambda: paddle.randn([4, 5]), lambda: torch.randn(4, 5)),
    "randn, less than a vector": (lambda: paddle.randn([3]), lambda: torch.randn(3)),
    "randn of shape []": (lambda: paddle.randn([]), lambda: torch.randn([])),
    "randn of a shape with tensors": (lambda: paddle.randn([paddle.to_tensor(2), 30]), lambda: torch.randn(2, 30)),
    "randn of a shape that is a tensor": (lambda: paddle.randn(paddle.to_tensor([2, 30])), lambda: torch.randn(2, 30)),
    "randn of nothing": (lambda: paddle.randn([0, 3]), lambda: torch.randn(0, 3)),
    "randn float64": (lambda: paddle.randn([20], "float64"), lambda: torch.randn(20, dtype=torch.float64)),
    "randn bfloat16": (lambda: paddle.randn([20], "bfloat16"), lambda: torch.randn(20, dtype=torch.bfloat16)),
    "standard_normal": (lambda: paddle.standard_normal([2, 3]), lambda: torch.randn(2, 3)),
    "rand": (lambda: paddle.rand([4, 5]), lambda: torch.rand(4, 5)),
    "rand float64": (lambda: paddle.rand([7], "float64"), lambda: torch.rand(7, dtype=torch.float64)),
    "uniform": (lambda: paddle.uniform([3, 6], min=-2, max=5.0), lambda: empty(3, 6).uniform_(-2, 5)),
    "normal": (lambda: paddle.normal(1.5, 2.0, [3, 6]), lambda: torch.normal(1.5, 2.0, (3, 6))),
    "normal of tensors": (
        lambda: paddle.normal(tensor(4, 5), tensor(4, 5)),
        lambda: torch.normal(torch.tensor(tensor(4, 5).numpy()), torch.tensor(tensor(4, 5).numpy())),
    ),
    "randint": (lambda: paddle.randint(0, 10, [7]), lambda: torch.randint(0, 10, (7,))),
    "randint int32": (lambda: paddle.randint(-5, 5, [7], "int32"), lambda: torch.randint(-5, 5, (7,), dtype=torch.int32)),
    "randint of one limit": (lambda: paddle.randint(9, shape=[2, 2]), lambda: torch.randint(9, (2, 2))),
    "randint of many": (lambda: paddle.randint(0, 2**40, [7]), lambda: torch.randint(0, 2**40, (7,))),
    "randint_like": (lambda: paddle.randint_like(tensor(3, 4), 0, 9), lambda: torch.randint_like(empty(3, 4), 0, 9)),
    "randperm": (lambda: paddle.randperm(20), lambda: torch.randperm(20)),
    "randperm int32": (lambda: paddle.randperm(20, "int32"), lambda: torch.randperm(20, dtype=torch.int32)),
}


def check_draws(ours, theirs, *operands):
    """Torch's draws, twice and backward, with draws of Torch's own between them; ``operands``: one, or none."""
    leaves = [torch.tensor(x.numpy(), requires_grad=not x.stop_gradient) for x in operands]
    with padiff_shim.reference("torch", random="torch", strict=True) as run:
        paddle.seed(11)
        drawn = [ours(*operands), torch.rand(3), ours(*operands)]
        if not drawn[0].stop_gradient:
            (drawn[0] * drawn[2]).sum().backward()
    torch.manual_seed(11)
    expected = [theirs(*leaves), torch.rand(3), theirs(*leaves)]
    assert all(same(result, other) for result, other in zip(drawn, expected))
    assert {*run.native} <= {"shape"}
    assert drawn[0].stop_gradient is not expected[0].requires_grad
    if expected[0].requires_grad:
        (expected[0] * expected[2]).sum().backward()
        assert all(same(x.grad, leaf.grad) for x, leaf in zip(operands, leaves))


@pytest.mark.parametrize("name", CREATED)
def test_created_numbers_are_torch_s(name):
    check_draws(*CREATED[name])


REDIRECTED = {
    "rand": (lambda out: paddle.rand([3, 4], out=out), lambda: torch.rand(3, 4)),
    "randn": (lambda out: paddle.randn([3, 4], out=out), lambda: torch.randn(3, 4)),
    "standard_normal": (lambda out: paddle.standard_normal([3, 4], out=out), lambda: torch.randn(3, 4)),
    "normal": (lambda out: paddle.normal(1.5, 2.0, [3, 4], out=out), lambda: torch.normal(1.5, 2.0, (3, 4))),
    "uniform": (lambda out: paddle.uniform([3, 4], min=-2, max=5.0, out=out), lambda: empty(3, 4).uniform_(-2, 5)),
    "randperm": (lambda out: paddle.randperm(12, out=out), lambda: torch.randperm(12)),
}


@pytest.mark.parametrize("name", tried(REDIRECTED, {name: f"{name} out" for name in REDIRECTED}))
def test_draws_into_a_tensor(name):
    ours, theirs = REDIRECTED[name]
    target = paddle.zeros([12], "int64") if name == "randperm" else paddle.zeros([3, 4])
    with padiff_shim.reference("torch", random="torch", strict=True) as run:
        paddle.seed(7)
        result = ours(target)
    torch.manual_seed(7)
    assert same(target, theirs())
    assert result.data_ptr() == target.data_ptr()
    assert not run.native


@needs("randn out")
def test_a_tensor_that_does_not_fit_is_paddle_s_to_fill():
    target = paddle.zeros([2, 4])
    with padiff_shim.reference("torch", random="torch") as run:
        paddle.seed(7)
        paddle.randn([3, 4], out=target)
        after = paddle.rand([3])
    torch.manual_seed(7)
    assert same(after, torch.rand(3))  # nothing was drawn for it from Torch's generator
    assert target.shape == [3, 4]
    assert run.native == {"gaussian": {"result redirected by out=": 1}}


def test_draws_of_whole_numbers_that_torch_has_not_are_counted():
    labels = paddle.to_tensor([1, 2, 3])
    with padiff_shim.reference("torch", random="torch", strict=True) as run:
        F.class_center_sample(labels, 20, 6)
    assert run.native == {"class_center_sample": {DRAWN.text: 1}}


@pytest.mark.parametrize("seed", [5, 2**40])
def test_a_seed_of_the_call_s_own(seed):
    with padiff_shim.reference("torch", random="torch"):
        torch.manual_seed(3)
        drawn = paddle.uniform([9], min=0.0, max=1.0, seed=seed)
        after = torch.rand(2)
    torch.manual_seed(3)
    assert torch.equal(after, torch.rand(2))
    assert same(drawn, torch.rand(9, generator=torch.Generator().manual_seed(seed)))


DROPPED = {
    "dropout": (lambda x: F.dropout(x, 0.3), lambda x: torch.dropout(x, 0.3, True)),
    "of nothing": (lambda x: F.dropout(x, 0.0), lambda x: torch.dropout(x, 0.0, True)),
    "of all": (lambda x: F.dropout(x, 1.0), lambda x: torch.dropout(x, 1.0, True)),
    "in evaluation": (lambda x: F.dropout(x, 0.3, training=False), lambda x: torch.dropout(x, 0.3, False)),
    "downscaled": (lambda x: F.dropout(x, 0.3, mode="downscale_in_infer"), lambda x: x * torch.empty_like(x).bernoulli_(0.7)),
    "downscaled in evaluation": (lambda x: F.dropout(x, 0.3, training=False, mode="downscale_in_infer"), lambda x: x * (1 - 0.3)),
    "of a tensor's probability": (lambda x: F.dropout(x, paddle.to_tensor(0.5)), lambda x: torch.dropout(x, 0.5, True)),
    "nn.Dropout": (lambda x: paddle.nn.Dropout(0.2)(x), lambda x: torch.nn.Dropout(0.2)(x)),
    "nn.Dropout in evaluation": (lambda x: _evaluated(paddle.nn.Dropout(0.2))(x), lambda x: torch.nn.Dropout(0.2).eval()(x)),
    "along the axes of channels": (lambda x: F.dropout(x, 0.4, axis=[0, 1]), lambda x: torch.feature_dropout(x, 0.4, True)),
    "dropout2d": (lambda x: F.dropout2d(x, 0.4), lambda x: torch.nn.functional.dropout2d(x, 0.4)),
    "nn.Dropout2D": (lambda x: paddle.nn.Dropout2D(0.4)(x), lambda x: torch.nn.Dropout2d(0.4)(x)),
    "of whole columns": (
        lambda x: F.dropout(x, 0.4, axis=3),
        lambda x: x * empty(1, 1, 1, x.shape[3], dtype=x.dtype).bernoulli_(0.6).div_(0.6),
    ),
    "of whole columns, downscaled": (
        lambda x: F.dropout(x, 0.4, axis=[3], mode="downscale_in_infer"),
        lambda x: x * empty(1, 1, 1, x.shape[3], dtype=x.dtype).bernoulli_(0.6),
    ),
}  # fmt: skip

if IS_3:  # 2.6 copies where 3.x makes a view
    DROPPED |= {
        "of transposed memory": (
            lambda x: F.dropout(x.transpose([0, 1, 3, 2]), 0.3),
            lambda x: torch.dropout(x.transpose(2, 3), 0.3, True),
        ),
        "of a part": (lambda x: F.dropout(x[:, ::2], 0.3), lambda x: torch.dropout(x[:, ::2], 0.3, True)),
    }


def _evaluated(layer):
    layer.eval()
    return layer


@pytest.mark.parametrize(("name", "grad", "dtype"), in_turn(itertools.product(DROPPED, (False, True)), FLOATS))
def test_what_dropout_drops_is_torch_s(name, grad, dtype):
    check_draws(*DROPPED[name], tensor(3, 4, 5, 6, dtype=dtype, grad=grad))


def test_without_the_option_every_draw_is_paddle_s():
    def program():
        paddle.seed(3)
        x = tensor(4, 5)
        layer = paddle.nn.Linear(5, 6)
        drawn = [paddle.randn([3]), paddle.randint(0, 9, [4]), F.dropout(x, 0.4), F.dropout(x, 0.4, axis=1), paddle.randperm(5)]
        return [tensor.numpy() for tensor in (*drawn, layer.weight, paddle.rand([2]))]

    native = program()
    before = torch.get_rng_state()
    with padiff_shim.reference("torch") as run:
        drawn = program()
    assert all(np.array_equal(result, other) for result, other in zip(drawn, native))
    assert torch.equal(before, torch.get_rng_state())
    assert run.native["dropout"] == {RANDOM.text: 1}
    assert {name: run.native[name] for name in ("gaussian", "randint", "randperm", "uniform")} == {
        "gaussian": {DRAWN.text: 1},
        "randint": {DRAWN.text: 1},
        "randperm": {DRAWN.text: 1},
        "uniform": {DRAWN.text: 3},
    }


def test_strict_mode_minds_dropout_and_not_new_numbers():
    with padiff_shim.reference("torch", strict=True):
        paddle.randn([3])
        with pytest.raises(PadiffShimError, match="dropout"):
            F.dropout(tensor(3), 0.5)


def test_paddle_s_generator_stays_where_it_is():
    paddle.seed(3)
    expected = paddle.rand([2]).numpy()
    paddle.seed(3)
    with padiff_shim.reference("torch", random="torch"):
        paddle.randn([3])
        x = tensor(2, 3, grad=True)
        F.dropout(x, 0.5).sum().backward()
        F.dropout(x, 0.5, axis=1)
    assert np.array_equal(paddle.rand([2]).numpy(), expected)


def test_a_bad_generator():
    with pytest.raises(UnknownNameError, match=r"random 'numpy'.*paddle, torch"):
        padiff_shim.reference("torch", random="numpy")
    with pytest.raises(PadiffShimError, match="random= belongs to reference"):
        padiff_shim.reference("torch", random="torch", compare=True)


SAMPLED = {
    "bernoulli": (lambda x: paddle.bernoulli(x), lambda x: torch.bernoulli(x.detach())),
    "multinomial": (lambda x: paddle.multinomial(x, 3), lambda x: torch.multinomial(x, 3)),
    "multinomial with replacement": (lambda x: paddle.multinomial(x, 9, True), lambda x: torch.multinomial(x, 9, True)),
    "poisson": (lambda x: paddle.poisson(x), lambda x: torch.poisson(x)),
    "dirichlet": (lambda x: paddle._C_ops.dirichlet(x), lambda x: torch._sample_dirichlet(x.detach())),
    "gumbel_softmax": (lambda x: F.gumbel_softmax(x, 0.5), lambda x: TF.gumbel_softmax(x, 0.5)),
    "gumbel_softmax, hard": (lambda x: F.gumbel_softmax(x, hard=True, axis=0), lambda x: TF.gumbel_softmax(x, hard=True, dim=0)),
    "rrelu": (lambda x: F.rrelu(x - 0.5), lambda x: TF.rrelu(x - 0.5, training=True)),
    "rrelu in evaluation": (lambda x: F.rrelu(x - 0.5, training=False), lambda x: TF.rrelu(x - 0.5, training=False)),
    "alpha_dropout": (lambda x: F.alpha_dropout(x, 0.3), lambda x: TF.alpha_dropout(x, 0.3, True)),
    "alpha_dropout of nothing": (lambda x: F.alpha_dropout(x, 0.0) * 1, lambda x: TF.alpha_dropout(x, 0.0, True) * 1),
    "alpha_dropout in evaluation": (lambda x: F.alpha_dropout(x, 0.3, False), lambda x: TF.alpha_dropout(x, 0.3, False)),
    "nn.AlphaDropout": (lambda x: paddle.nn.AlphaDropout(0.3)(x), lambda x: torch.nn.AlphaDropout(0.3)(x)),
}
if IS_3:
    SAMPLED |= {
        "bernoulli of one probability": (lambda x: paddle.bernoulli(x, 0.3), lambda x: torch.bernoulli(x, 0.3).detach()),
        "binomial": (
            lambda x: paddle.binomial(paddle.full([4, 5], 9), x),
            lambda x: torch.binomial(torch.full((4, 5), 9, dtype=x.dtype), x.detach()).long(),
        ),
        "standard_gamma": (lambda x: paddle.standard_gamma(x), lambda x: torch._standard_gamma(x.detach())),
        "feature_alpha_dropout": (
            lambda x: F.feature_alpha_dropout(x.reshape([2, 2, 5]), 0.3),
            lambda x: TF.feature_alpha_dropout(x.reshape(2, 2, 5), 0.3, True),
        ),
        "dropout1d": (
            lambda x: F.dropout1d(x.reshape([2, 2, 5]), 0.5),
            lambda x: x.reshape(2, 2, 5) * torch.empty((1, 2, 1), dtype=x.dtype).bernoulli_(0.5).div_(0.5),
        ),
        "randn_like": (lambda x: paddle.randn_like(x), lambda x: torch.randn_like(x)),
        "rand_like": (lambda x: paddle.rand_like(x), lambda x: torch.rand_like(x)),
        "log_normal": (lambda x: paddle.log_normal(1.0, 0.5, [4, 5]), lambda x: torch.empty(4, 5).log_normal_(1.0, 0.5)),
    }


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("grad", [False, True])
@pytest.mark.parametrize(
    "name", tried(SAMPLED, {"dropout1d": "nn.functional.dropout1d", "randn_like": "randn_like", "rand_like": "rand_like"})
)
def test_samples_are_torch_s(name, grad, dtype):
    check_draws(*SAMPLED[name], tensor(4, 5, dtype=dtype, grad=grad))


OVERWRITTEN = {
    "uniform_": (lambda x: x.uniform_(-1.0, 3.0), lambda x: x.uniform_(-1, 3)),
    "exponential_": (lambda x: x.exponential_(2.0), lambda x: x.exponential_(2.0)),
    "cauchy_": (lambda x: x.cauchy_(1.0, 2.0), lambda x: x.cauchy_(1.0, 2.0)),
    "cauchy_ of tensors": (lambda x: x.cauchy_(paddle.to_tensor(1.0)), lambda x: x.cauchy_(1.0)),
    "geometric_": (lambda x: x.geometric_(0.3), lambda x: x.geometric_(0.3)),
    "normal_": (lambda x: x.normal_(1.0, 2.0), lambda x: x.normal_(1, 2)),
}
if IS_3:
    OVERWRITTEN |= {
        "bernoulli_": (lambda x: x.bernoulli_(0.3), lambda x: x.bernoulli_(0.3)),
        "log_normal_": (lambda x: x.log_normal_(1.0, 0.5), lambda x: x.log_normal_(1.0, 0.5)),
        "random_": (lambda x: x.random_(2, 9), lambda x: x.random_(2, 9)),
    }
LAYOUTS = {
    "contiguous": (lambda x: x, lambda x: x),
    "transposed": (lambda x: x.t(), lambda x: x.t()),
    "sliced": (lambda x: x[1:, ::2], lambda x: x[1:, ::2]),
}


@pytest.mark.parametrize("layout", LAYOUTS if IS_3 else ["contiguous"])
@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("name", tried(OVERWRITTEN, {"random_": "Tensor.random_"}))
def test_what_is_overwritten_is_torch_s(name, dtype, layout):
    ours, theirs = OVERWRITTEN[name]
    x, held = tensor(6, 8, dtype=dtype), torch.tensor(numbers(6, 8, dtype=dtype))
    with padiff_shim.reference("torch", random="torch", strict=True):
        paddle.seed(5)
        views = [LAYOUTS[layout][0](x) for _ in range(2)]
        version = x.inplace_version
        assert ours(views[0]) is views[0]
        between = torch.rand(3)
        ours(views[1])
    torch.manual_seed(5)
    theirs(LAYOUTS[layout][1](held))
    assert same(between, torch.rand(3))
    theirs(LAYOUTS[layout][1](held))
    assert same(x, held)
    assert x.inplace_version > version


@pytest.mark.parametrize("name", ["uniform_", "exponential_", "normal_"])
def test_what_is_overwritten_has_gradient_zero(name):
    ours, theirs = OVERWRITTEN[name]
    x, leaf = paddle.to_tensor(numbers(20), stop_gradient=False), torch.tensor(numbers(20), requires_grad=True)
    with padiff_shim.reference("torch", random="torch"):
        paddle.seed(5)
        y = x * 2
        z = y + x
        ours(y)
        (y * z).sum().backward()
    torch.manual_seed(5)
    other = leaf * 2
    sums = other + leaf
    theirs(other)
    (other * sums).sum().backward()
    assert same(y, other)
    assert same(x.grad, leaf.grad)


def test_a_leaf_that_wants_a_gradient_is_refused_as_natively():
    x = paddle.to_tensor(numbers(4), stop_gradient=False)
    with padiff_shim.reference("torch", random="torch"):
        paddle.seed(5)
        with pytest.raises(Exception, match=r"[Ll]eaf"):
            x.uniform_()
    torch.manual_seed(5)
    with padiff_shim.reference("torch", random="torch"), paddle.no_grad():
        drawn = x.uniform_(0.0, 1.0)
    torch.manual_seed(5)
    assert same(drawn, torch.rand(4))


@needs("Tensor.random_")
@pytest.mark.parametrize("dtype", ["int32", "int64"])
def test_integers_are_overwritten(dtype):
    with padiff_shim.reference("torch", random="torch", strict=True):
        paddle.seed(5)
        x = paddle.zeros([9], dtype).random_(3, 2**30)
    torch.manual_seed(5)
    assert same(x, torch.zeros(9, dtype=getattr(torch, dtype)).random_(3, 2**30))


INITIALIZERS = {
    "Uniform": (lambda: I.Uniform(-2.0, 3.0), lambda t: init.uniform_(t, -2.0, 3.0)),
    "Normal": (lambda: I.Normal(1.0, 2.0), lambda t: init.normal_(t, 1.0, 2.0)),
    "TruncatedNormal": (lambda: I.TruncatedNormal(), lambda t: init.trunc_normal_(t)),
    "XavierUniform": (lambda: I.XavierUniform(), lambda t: init.xavier_uniform_(t)),
    "XavierNormal": (lambda: I.XavierNormal(), lambda t: init.xavier_normal_(t)),
    "KaimingUniform": (lambda: I.KaimingUniform(), lambda t: init.kaiming_uniform_(t, nonlinearity="relu")),
    "KaimingUniform of leaky_relu": (
        lambda: I.KaimingUniform(negative_slope=0.3, nonlinearity="leaky_relu"),
        lambda t: init.kaiming_uniform_(t, 0.3),
    ),
    "KaimingNormal": (lambda: I.KaimingNormal(), lambda t: init.kaiming_normal_(t, nonlinearity="relu")),
    "Orthogonal": (lambda: I.Orthogonal(1.5), lambda t: init.orthogonal_(t, 1.5)),
}
if IS_3:
    INITIALIZERS |= {
        "TruncatedNormal with limits": (
            lambda: I.TruncatedNormal(0.5, 2.0, -1.0, 2.0),
            lambda t: init.trunc_normal_(t, 0.5, 2.0, -1.0, 2.0),
        ),
        "XavierUniform with a gain": (lambda: I.XavierUniform(gain=1.7), lambda t: init.xavier_uniform_(t, 1.7)),
        "KaimingNormal by what goes out": (
            lambda: I.KaimingNormal(mode="fan_out"),
            lambda t: init.kaiming_normal_(t, mode="fan_out", nonlinearity="relu"),
        ),
    }


@pytest.mark.parametrize("shape", [(6, 5, 3, 3), (7, 20), (20, 7)])
@pytest.mark.parametrize(
    ("name", "dtype"),
    in_turn(tried(INITIALIZERS, {"KaimingNormal by what goes out": "nn.initializer.KaimingNormal mode"}), FLOATS),
)
def test_initial_values_are_torch_s(name, shape, dtype):
    """In Paddle's shape; of a matrix, Torch counts what comes in along the other axis."""
    ours, theirs = INITIALIZERS[name]
    with padiff_shim.reference("torch", random="torch", strict=True) as run:
        paddle.seed(5)
        made = [paddle.create_parameter(list(shape), dtype, default_initializer=ours()) for _ in range(2)]
    torch.manual_seed(5)
    for generator in made:
        tensor = torch.empty(shape, dtype=getattr(torch, dtype))
        if len(shape) == 2 and "Kaiming" in name:  # the same draw with the fans of the other shape
            state = torch.get_rng_state()
            scaled = theirs(torch.empty(shape[::-1], dtype=tensor.dtype)).abs().max()
            torch.set_rng_state(state)
            assert abs(float(generator.abs().max()) / float(scaled) - 1) < 0.5
            theirs(tensor)
            continue
        assert same(generator, theirs(tensor))
        assert not generator.stop_gradient
    assert sum(run.substituted.values()) >= 2


def test_the_kaiming_bound_of_a_matrix_is_that_of_paddle_s_fans():
    with padiff_shim.reference("torch", random="torch"):
        paddle.seed(5)
        weight = paddle.create_parameter([20, 7], "float64", default_initializer=I.KaimingUniform())
    torch.manual_seed(5)
    bound = np.sqrt(3.0) * (np.sqrt(2.0) / np.sqrt(20.0))
    assert same(weight, torch.empty(20, 7, dtype=torch.float64).uniform_(-bound, bound))


def test_layers_draw_when_they_are_made():
    with padiff_shim.reference("torch", random="torch", strict=True) as run:
        paddle.seed(5)
        layer, conv = paddle.nn.Linear(4, 6, weight_attr=I.Normal()), paddle.nn.Conv2D(3, 4, 3, weight_attr=I.XavierUniform())
    torch.manual_seed(5)
    assert same(layer.weight, torch.empty(4, 6).normal_())
    assert same(conv.weight, init.xavier_uniform_(torch.empty(4, 3, 3, 3)))
    assert run.substituted == {"init_normal": 1, "init_xavier": 1}


@pytest.mark.parametrize("grad", [False, True])
@pytest.mark.parametrize("causal", [False, True])
def test_attention_drops_what_torch_drops(causal, grad):
    arrays = [np.random.default_rng(i).standard_normal((2, 5, 4, 8)).astype("float32") for i in range(3)]
    ours = [paddle.to_tensor(value, stop_gradient=not grad) for value in arrays]
    theirs = [torch.tensor(value, requires_grad=grad) for value in arrays]
    with padiff_shim.reference("torch", random="torch", strict=True) as run:
        paddle.seed(3)
        out = F.scaled_dot_product_attention(*ours, dropout_p=0.3, is_causal=causal)
        if grad:
            out.sum().backward()
    torch.manual_seed(3)
    expected = TF.scaled_dot_product_attention(*(tensor.transpose(1, 2) for tensor in theirs), dropout_p=0.3, is_causal=causal)
    assert same(out, expected.transpose(1, 2))
    assert not run.native
    if grad:
        expected.transpose(1, 2).contiguous().sum().backward()
        assert all(same(leaf.grad, other.grad) for leaf, other in zip(ours, theirs))


@pytest.mark.parametrize(("ours", "theirs"), [(paddle.nn.LSTM, torch.nn.LSTM), (paddle.nn.GRU, torch.nn.GRU)])
def test_an_rnn_drops_between_its_layers_what_torch_drops(ours, theirs):
    net, twin = ours(6, 5, num_layers=3, dropout=0.4), theirs(6, 5, num_layers=3, dropout=0.4, batch_first=True)
    with torch.no_grad():
        for name, weight in twin.named_parameters():
            weight.copy_(torch.tensor(dict(net.named_parameters())[name].numpy()))
    x = numbers(2, 7, 6)
    with padiff_shim.reference("torch", random="torch") as run:
        paddle.seed(3)
        out, _ = net(paddle.to_tensor(x))
        out.sum().backward()
    torch.manual_seed(3)
    expected, _ = twin(torch.tensor(x))
    expected.sum().backward()
    assert run.substituted["rnn"] == 1
    assert "rnn" not in run.native
    assert same(out, expected)
    assert all(same(dict(net.named_parameters())[name].grad, weight.grad) for name, weight in twin.named_parameters())
