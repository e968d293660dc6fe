"""Linear weights that are not copied, since their layout leaves Torch's bits.

Whether a shape is spared its copy is this machine's affair; what is claimed here holds either way.
"""

import numpy as np
import paddle
import paddle.nn.functional as F
import pytest
import torch
from helpers import in_turn
from paddle.distributed.fleet.utils import recompute
from test_amp import autocast
from test_layout import WHEN, WRITES, check_refreshed, equal, linear, twin_of

import padiff_shim
from padiff_shim.frameworks import weight_copies
from padiff_shim.frameworks.memory import to_torch
from padiff_shim.tape import twins
from padiff_shim.verdicts import Verdict

pytestmark = [pytest.mark.bitexact, pytest.mark.compat]

SHAPES = [(16, 32, 32), (64, 48, 17), (5, 768, 8), (128, 64, 256), (33, 130, 17), (1, 256, 256), (512, 256, 10), (7, 16, 5)]


@pytest.fixture(autouse=True)
def anew(monkeypatch):
    """Nothing is known, and each shape is tried the first time that it comes."""
    monkeypatch.setattr(weight_copies, "_known", {})
    monkeypatch.setattr(weight_copies, "WORTH", 0)


def backward(layer, x, seed):
    """A product's results on Paddle's side: the product, and the gradients of x, of the weight as [out, in], and of the bias."""
    out = layer(x)
    out.backward(seed)
    gradients = [to_torch(value).clone() for value in (out.detach(), x.grad, layer.weight.grad.t(), layer.bias.grad)]
    layer.clear_gradients()
    x.clear_gradient()
    return gradients


def torchs(layer, x, seed):
    """The same of Torch's Linear."""
    twin, tx = twin_of(layer), to_torch(x).detach().clone().requires_grad_()
    out = twin(tx)
    out.backward(to_torch(seed).clone())
    return [out.detach(), tx.grad, twin.weight.grad, twin.bias.grad]


def all_equal(ones, others):
    return all(torch.equal(result, other) for result, other in zip(ones, others))


def tried():
    """Whether all products that came are spared copies."""
    return bool(weight_copies._known) and all(is_known is True for is_known in weight_copies._known.values())


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("batch", [1, 2, 3], ids=["matrix", "3-D", "4-D"])
def test_every_bit_is_torchs(dtype, batch):
    paddle.seed(batch)
    for rows, inputs, outputs in SHAPES:
        layer = linear(inputs, outputs, dtype)
        lead = [*(1, 2)[: batch - 1], rows]
        x, seed = paddle.rand([*lead, inputs], dtype=dtype) - 0.5, paddle.rand([*lead, outputs], dtype=dtype)
        x.stop_gradient = False
        with padiff_shim.reference("torch") as run:
            gradients = backward(layer, x, seed)
            with paddle.no_grad():
                again = to_torch(layer(x.detach()))
        assert all_equal([*gradients, again], [*torchs(layer, x, seed), gradients[0]])
        cost = run.layout_cost
        assert (cost.spared, cost.copies) == ((2, 0) if tried() else (0, 1))
        weight_copies._known.clear()


def plain_product(x, weight, bias=None):
    """A product whose sums know nothing of layouts."""
    return sum(x[..., i : i + 1] * weight[:, i] for i in range(x.shape[-1]))


def product_by_layout(x, weight, bias=None):
    """The same, adding up in another order for one column of a weight that is not contiguous."""
    out = plain_product(x, weight)
    if weight.is_contiguous():
        return out
    last = sum(x[..., i : i + 1] * weight[-1:, i] for i in reversed(range(x.shape[-1])))
    return torch.cat([out[..., :-1], last], -1)


@pytest.mark.parametrize(("product", "same"), [(plain_product, True), (product_by_layout, False)])
def test_a_difference_in_one_column_is_noticed(product, same, monkeypatch):
    monkeypatch.setattr(weight_copies.F, "linear", product)
    assert weight_copies.needless(torch.zeros(3, 7), torch.zeros(7, 5), None) == same


def test_a_trial_leaves_the_generator_alone():
    torch.manual_seed(1)
    before = torch.get_rng_state()
    weight_copies.needless(torch.zeros(16, 32), torch.zeros(32, 32), None)
    assert torch.equal(before, torch.get_rng_state())


def test_a_shape_is_tried_once_it_came_often(monkeypatch):
    monkeypatch.setattr(weight_copies, "WORTH", 3)
    layer, x = linear(32, 32), paddle.rand([16, 32])
    with padiff_shim.reference("torch") as run:
        for _ in range(3):
            layer(x)
        assert (run.layout_cost.copies, run.layout_cost.reused, run.layout_cost.spared) == (1, 2, 0)
        layer(x)
        assert run.layout_cost.spared == tried()


def test_lengths_that_never_come_again_are_not_kept_account_of(monkeypatch):
    monkeypatch.setattr(weight_copies, "WORTH", 3)
    monkeypatch.setattr(weight_copies, "_SHAPES_COUNTED", 4)
    for rows in range(1, 10):
        weight_copies.needless(torch.zeros(rows, 8), torch.zeros(8, 8), None)
    assert len(weight_copies._known) == 4


def test_a_spared_weight_is_copied_for_lengths_that_never_come_again(monkeypatch):
    """A trial for each would cost more than the copies."""
    monkeypatch.setattr(weight_copies, "WORTH", 2)
    layer = linear(32, 32)
    with padiff_shim.reference("torch") as run:
        for rows in (16, 16, 16, 17, 18, 19):
            layer(paddle.rand([rows, 32])).sum().backward()
    assert sum(is_known is True or is_known is False for is_known in weight_copies._known.values()) == 1
    spared = weight_copies._known[
        (torch.Size([16, 32]), (32, 1), torch.Size([32, 32]), torch.float32, False, torch.get_num_threads())
    ]
    assert (run.layout_cost.spared, run.layout_cost.copies) == ((1, 4) if spared else (0, 1))


def test_inside_inference_mode():
    with torch.inference_mode():
        weight_copies.needless(torch.zeros(16, 32), torch.zeros(32, 32), None)
    assert len(weight_copies._known) == 1


def test_runs_that_are_added_up_keep_all_that_copies_cost():
    first, total = (padiff_shim.Run("torch", "contiguous") for _ in range(2))
    for number, name in enumerate(vars(first.layout_cost), 1):
        setattr(first.layout_cost, name, number)
    total.add(first.to_dict())
    assert total.layout_cost == first.layout_cost


def test_what_is_not_tried():
    weight = torch.zeros(32, 32)
    for x, w in [
        (torch.zeros(16, 32, dtype=torch.float64), weight),
        (torch.zeros(16, 32).half(), weight.half()),
        (torch.zeros(16, 32), torch.zeros(32, 64)[:, ::2]),
        (torch.zeros(16, 32), torch.zeros(1 + 32 * 32)[1:].view(32, 32)),
        (torch.zeros(0, 32), weight),
        (torch.zeros(1, 32).expand(16, 32), weight),
    ]:
        assert not weight_copies.needless(x, w, None)
    assert not weight_copies.needless(torch.zeros(16, 32), weight, paddle.zeros([32], "float64"))


def test_under_autocast_weights_are_copied():
    x, weight = torch.zeros(16, 32), torch.zeros(32, 32)
    with autocast():
        assert not weight_copies.needless(x, weight, None)
    assert not weight_copies._known


@pytest.mark.parametrize("spared_after", range(6))
def test_a_weight_that_is_used_often_adds_up_in_torchs_order(spared_after, monkeypatch):
    """Whenever its copy is given up: between two uses in one graph, its gradient is the sum of six in Torch's order."""
    monkeypatch.setattr(weight_copies, "WORTH", spared_after)
    paddle.seed(spared_after)
    layer, x = linear(32, 32), paddle.rand([16, 32])
    twin = twin_of(layer)
    for step in range(3):
        with padiff_shim.reference("torch") as run:
            out = x
            for _ in range(6):
                out = F.tanh(layer(out))
            out.sum().backward()
        hidden = to_torch(x)
        for _ in range(6):
            hidden = torch.tanh(twin(hidden))
        hidden.sum().backward()
        assert equal(out.detach(), hidden)
        assert torch.equal(to_torch(layer.weight.grad).t(), twin.weight.grad), step
        layer.clear_gradients()
        twin.zero_grad()
    assert twins.lies_in_graph(layer.weight) == tried()
    assert (run.layout_cost.spared, run.layout_cost.copies) == ((6, 0) if tried() else (0, 0))
    assert (id(layer.weight) in weight_copies._copies) != tried()


def test_other_shapes_meet_a_spared_weight():
    """Three uses in one graph, one of them of a shape that has to be copied on most machines: one sum in Torch's order."""
    paddle.seed(4)
    layer, wide, thin = linear(256, 256), paddle.rand([64, 256]), paddle.rand([1, 256])
    twin = twin_of(layer)
    with padiff_shim.reference("torch"):
        for _ in range(2):
            layer(wide).sum().backward()
            layer.clear_gradients()
        total = layer(wide).sum() + layer(thin).exp().sum() + layer(wide * 2.0).tanh().sum()
        total.backward()
    first, second = to_torch(wide), to_torch(thin)
    (twin(first).sum() + twin(second).exp().sum() + twin(first * 2.0).tanh().sum()).backward()
    assert torch.equal(to_torch(layer.weight.grad).t(), twin.weight.grad)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_gradients_of_gradients(dtype):
    """The penalty of a gradient's norm, as WGAN-GP has it."""
    paddle.seed(6)
    layer, x = linear(64, 32, dtype), paddle.rand([48, 64], dtype=dtype)
    x.stop_gradient = False
    twin, tx = twin_of(layer), to_torch(x).detach().clone().requires_grad_()
    with padiff_shim.reference("torch"):
        (grad,) = paddle.grad(layer(x).tanh().sum(), x, create_graph=True)
        (grad * grad).sum().backward()
    (tgrad,) = torch.autograd.grad(twin(tx).tanh().sum(), tx, create_graph=True)
    (tgrad * tgrad).sum().backward()
    assert torch.equal(to_torch(layer.weight.grad).t(), twin.weight.grad)
    assert equal(x.grad, tx.grad)


def test_clipping_sees_gradients_as_they_lie_in_a_torch_program():
    paddle.seed(2)
    layer = linear(64, 48)
    x = paddle.rand([32, 64])
    with padiff_shim.reference("torch"):
        layer(x).tanh().sum().backward()
        clip = paddle.nn.ClipGradByGlobalNorm(0.01)
        clipped = {p.name: g for p, g in clip([(p, p.grad) for p in layer.parameters()])}
    twin = twin_of(layer)
    twin(to_torch(x)).tanh().sum().backward()
    grads = [twin.weight.grad, twin.bias.grad]
    norm = torch.linalg.vector_norm(torch.stack([torch.linalg.vector_norm(grad) for grad in grads]))
    norms = torch.stack([torch.linalg.vector_norm(to_torch(g).t().contiguous()) for g in clipped.values()])
    assert twins.is_linear_weight(layer.weight)
    np.testing.assert_allclose(torch.linalg.vector_norm(norms), torch.clamp(norm, max=0.01), rtol=1e-5)


@pytest.mark.parametrize("layout", ["contiguous", "view"])
@pytest.mark.parametrize("computed", [False, True], ids=["leaf", "computed"])
def test_weights_in_a_recomputed_block(layout, computed):
    """Its replay runs within a backward, where Torch's own gradients are switched off."""
    layer = paddle.nn.Linear(16, 16)

    def block(x):
        return F.linear(F.gelu(x), layer.weight * 1.0 if computed else layer.weight, layer.bias)

    def step(whole):
        x = paddle.to_tensor(np.random.default_rng(3).standard_normal((8, 16)).astype("float32"), stop_gradient=False)
        (whole(x * 1.0) ** 2).sum().backward()
        gradients = [to_torch(leaf.grad).clone() for leaf in (x, layer.weight, layer.bias)]
        layer.clear_gradients()
        return gradients

    with padiff_shim.reference("torch", linear_layout=layout):
        for _ in range(3):
            assert all_equal(step(block), step(lambda x: recompute(block, x)))


@pytest.mark.parametrize(("write", "between"), in_turn(WRITES, WHEN))
def test_writes_are_seen(write, between):
    check_refreshed(WRITES[write], between=between)


def test_compare_mode_judges_weights_as_they_lie():
    layer, x = linear(64, 32), paddle.rand([48, 64])
    with padiff_shim.compare("torch") as run:
        layer(x).sum().backward()
    assert run.layout_cost.spared == tried()
    judged = run.calls.filter(op="linear")
    assert len(judged) == 3
    assert all(call.verdict.severity <= Verdict.LOW_ACCURACY.severity for call in judged)


@pytest.mark.parametrize("mode", ["reference", "compare"])
@pytest.mark.parametrize("shape", [[4], [2, 4], []], ids=str)
@pytest.mark.parametrize("stopped", [False, True])
def test_what_is_no_product_stays_paddles_to_refuse_however_often_it_comes(mode, shape, stopped):
    layer, x = paddle.nn.Linear(3, 3), paddle.ones(shape)
    x.stop_gradient = stopped

    def refused():
        with pytest.raises(Exception, match=r".") as raised:
            layer(x)
        return raised.type, str(raised.value).strip().splitlines()[-1:]

    natively = refused()
    with getattr(padiff_shim, mode)("torch"):
        assert [refused() for _ in range(weight_copies.WORTH + 2)] == [natively] * (weight_copies.WORTH + 2)
