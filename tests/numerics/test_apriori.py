"""What needs no oracle: never more than the part of the bound that it claims to be, and enough to save most of them."""

import numpy as np
import pytest
import torch

from padiff_shim import numerics
from padiff_shim.catalogue.registry import ops
from padiff_shim.numerics import bounds, difference, trial
from padiff_shim.verdicts import Verdict


def judge(*arguments, **options):
    return numerics.judge(*arguments, rng=np.random.default_rng(0), **options)


def normal(*shape, seed=0, scale=1.0, shift=0.0):
    return torch.from_numpy(np.random.default_rng(seed).standard_normal(shape) * scale + shift)


def values(kind, dtype):
    """A batch, a weight and an incoming gradient: ordinary, far from 0, cancelling, tiny and large."""
    scale, shift = {"plain": (1.0, 0.0), "far": (1.0, 1000.0), "tiny": (1e-12, 0.0), "large": (1e6, 0.0), "zeros": (0.0, 0.0)}[kind]
    x, grad = normal(6, 5, 40, scale=scale, shift=shift).to(dtype), normal(6, 5, 40, seed=1, scale=scale).to(dtype)
    return x, grad, normal(40, seed=2).to(dtype), normal(40, seed=3).to(dtype)


def quantities(kind, dtype):
    """(name, quantity, one kernel's result) of every model that says what needs no oracle."""
    x, grad, weight, bias = values(kind, dtype)
    table = ops()

    def out(name, *arguments):
        return name, table[name].model.forward(arguments), table[name].reference(*arguments)

    def back(name, operand, arguments, at):
        leaf = arguments[at].clone().requires_grad_()
        result = table[name].reference(*[leaf if i == at else operand for i, operand in enumerate(arguments)])
        (gradient,) = torch.autograd.grad(
            result, leaf, grad.expand(result.shape) if result.shape == grad.shape else result.detach()
        )
        incoming = grad if result.shape == grad.shape else result.detach()
        return f"{name} {operand}", table[name].model.gradient(operand, arguments, result.detach(), incoming), gradient

    norm = (x, weight, bias, 1e-5, 2)
    yield out("softmax", x, -1)
    yield back("softmax", "x", (x, -1), 0)
    yield out("layer_norm", *norm)
    yield out("layer_norm", x, None, None, 1e-5, 1)
    for operand, at in (("x", 0), ("scale", 1), ("bias", 2)):
        yield back("layer_norm", operand, norm, at)
    for approximate in (False, True):
        yield out("gelu", x, approximate)
        yield back("gelu", "x", (x, approximate), 0)
    yield out("exp", x.clamp(max=10.0))
    yield out("sum", x, [0, 1], None, False)
    yield out("mean", x, None, False)
    yield back("linear", "bias", (x, normal(40, 40, seed=4).to(dtype), bias, False), 2)
    yield back("add", "y", (x, weight), 1)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
@pytest.mark.parametrize("kind", ["plain", "far", "tiny", "large", "zeros"])
def test_it_is_a_part_of_the_bound(kind, dtype):
    for name, quantity, result in quantities(kind, dtype):
        limit = quantity.harmless(result)
        assert limit is not None, name
        limit = limit.whole().reshape(result.shape).double().numpy()
        grid = quantity.grid
        where = np.unravel_index(np.arange(int(np.prod(grid))), grid) if grid else ()
        solution = quantity.solve(quantity.stage(where))
        _, probable, _ = trial.factors(quantity)
        unit, likely = (quantity_order(quantity, solution.bound(factor)) for factor in (1.0, probable))
        room = np.maximum(bounds.CLOSE * unit, bounds.FAR_INSIDE * likely if quantity.k > 1 and not quantity.axes else 0.0)
        assert (limit <= room * (1 + 1e-5)).all(), (name, float((limit / room).max()))


def quantity_order(quantity, bound):
    """A bound by samples, in the order of the judged tensor's elements (rows are over trailing axes here)."""
    return np.asarray(bound, np.float64).reshape(quantity.shape)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_results_a_last_bit_apart_need_no_oracle_unless_audited(dtype):
    x = values("plain", dtype)[0]
    y = torch.softmax(x, -1)
    near = torch.nextafter(y, torch.zeros_like(y))
    verdict, audited = (judge(ops()["softmax"].model.forward((x, -1)), near, y, audit=audit) for audit in (False, True))
    assert verdict.verdict is audited.verdict is Verdict.ROUNDING
    assert "paddle" not in verdict.stats
    assert "needs no oracle" in verdict.reason
    assert audited.stats["paddle"]["rho_max"] > 0


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_a_fault_of_a_few_units_is_judged(dtype):
    """Whatever moves an element out of its unit bound is held against the oracle."""
    for name, quantity, result in quantities("plain", dtype):
        where = np.unravel_index(np.arange(int(np.prod(quantity.grid))), quantity.grid) if quantity.grid else ()
        unit = quantity_order(quantity, quantity.solve(quantity.stage(where)).bound(trial.factors(quantity)[1]))
        wrong = result.clone().reshape(-1)
        wrong[wrong.numel() // 2] += 2 * float(unit.reshape(-1)[wrong.numel() // 2])
        verdict = judge(quantity, wrong.reshape(result.shape), result)
        assert "paddle" in verdict.stats or verdict.verdict.severity > Verdict.ROUNDING.severity, name


def products(kind, dtype):
    """(name, quantity, result in float64) of products and their gradients: turned, batched, with bias, factor and zeros in them."""
    x, _, _, bias = values(kind, dtype)
    table, w, rows = ops(), normal(40, 40, seed=4).to(dtype), x[0]
    several = x.mT.contiguous()
    masked = torch.where(rows > 0, rows, torch.zeros_like(rows))
    calls = [
        ("matmul", (x, several, False, False), ("x", "y")),
        ("matmul", (x.mT, several, True, False), ("x", "y")),
        ("matmul", (rows, w, False, True), ("x", "y")),
        ("matmul", (masked, w, False, False), ("x", "y")),
        ("matmul", (x, w, False, False), ("x", "y")),
        ("linear", (x, w, bias, False), ("x", "weight")),
        ("addmm", (bias, rows, w, 0.5, 3.0), ("x", "y")),
    ]
    for name, arguments in [call[:2] for call in calls]:
        wide = [operand.double() if isinstance(operand, torch.Tensor) else operand for operand in arguments]
        yield name, table[name].model.forward(arguments), table[name].reference(*wide)
    for name, arguments, operands in calls:
        leaves = [operand.double().requires_grad_() if isinstance(operand, torch.Tensor) else operand for operand in arguments]
        result = table[name].reference(*leaves)
        incoming = normal(*result.shape, seed=5).to(dtype)
        tensors = [leaf for leaf in leaves if isinstance(leaf, torch.Tensor)]
        gradients = torch.autograd.grad(result, tensors[-2:] if name == "addmm" else tensors[:2], incoming.double())
        for operand, gradient in zip(operands, gradients, strict=True):
            yield f"{name} {operand}", table[name].model.gradient(operand, arguments, result.detach().to(dtype), incoming), gradient


def unit_of(quantity):
    where = np.unravel_index(np.arange(int(np.prod(quantity.grid))), quantity.grid) if quantity.grid else ()
    return quantity_order(quantity, quantity.solve(quantity.stage(where)).bound(1.0))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
@pytest.mark.parametrize("kind", ["plain", "far", "tiny", "large", "zeros"])
def test_of_products_it_follows_each_element_s_bound(kind, dtype):
    known = 0
    for name, quantity, result in products(kind, dtype):
        limit = quantity.harmless(result.to(dtype))
        if limit is None:
            assert quantity.k < bounds.TERMS, name
            continue
        known += 1
        bound, unit = limit.whole().reshape(result.shape).double().numpy(), unit_of(quantity)
        assert (bound <= bounds.APART * unit * (1 + 1e-5)).all(), name
        if kind == "plain" and "addmm" not in name and "linear" not in name:  # without a bias and a rounded factor it is all of it
            assert (bound >= bounds.APART * unit * (1 - 1e-5)).all(), name
        assert limit.usual == bounds.USUAL / bounds.APART
    assert known > 12


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_products_that_are_off_by_units_are_held_against_the_oracle(dtype):
    """One element by more than two of them, or all of them by a little more than half of one; what is nearer passes."""
    for name, quantity, result in products("plain", dtype):
        if quantity.k < bounds.TERMS:
            continue
        right, unit = result.to(dtype), torch.from_numpy(unit_of(quantity))
        signs = torch.from_numpy(np.random.default_rng(6).choice([-1.0, 1.0], tuple(result.shape)))
        single = torch.zeros_like(unit)
        single.view(-1)[unit.numel() // 2] = 1.0
        for moved, near in ((2.5 * single, False), (0.8 * signs, False), (0.2 * signs, True)):
            verdict = judge(quantity, (right.double() + moved * unit).to(dtype), right)
            assert ("paddle" in verdict.stats) is not near, (name, verdict)


def test_sixteen_bits_and_what_cancels_are_held_against_the_oracle():
    x = values("plain", torch.float32)[0]
    half = torch.softmax(x, -1).half()
    assert ops()["softmax"].model.forward((x.half(), -1)).harmless(half) is None
    cancelling = torch.tensor([[1e8, 1.0, -1e8, 1.0]] * 40)
    out = cancelling.sum(1)
    verdict = judge(ops()["sum"].model.forward((cancelling, 1, None, False)), out + 1.0, out)
    assert "ill_conditioned" in verdict.modifiers
    assert "paddle" in verdict.stats


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_pieces_are_parts_of_the_whole(dtype, monkeypatch):
    """Also of rows longer than a piece, and where a piece begins or ends within a row; sums are those of all rows."""
    wholes = [quantity.harmless(result).whole() for _, quantity, result in quantities("plain", dtype)]
    monkeypatch.setattr(bounds, "PIECE", 7)
    for whole, (name, quantity, result) in zip(wholes, quantities("plain", dtype), strict=True):
        limit = quantity.harmless(result)
        for step in (7, 40, 170, result.numel()):
            parts = [limit.between(low, min(low + step, result.numel())) for low in range(0, result.numel(), step)]
            np.testing.assert_allclose(torch.cat(parts).numpy(), whole.numpy(), rtol=1e-5, err_msg=name)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_large_results_are_told_from_equal_ones_in_any_piece(dtype):
    values = normal(3 * difference._PIECE + 5).to(dtype)
    for place in (0, difference._PIECE, 3 * difference._PIECE + 4):
        other, zeros = values.clone(), values.clone()
        assert difference.same(values, other)
        other[place] = torch.nextafter(other[place], torch.zeros((), dtype=dtype))
        assert not difference.same(values, other)
        zeros[place] = 0.0
        negative = zeros.clone()
        negative[place] = -0.0
        assert difference.same(zeros, negative)
        zeros[place] = float("nan")
        assert not difference.same(zeros, zeros.clone())
        zeros[place] = float("inf")
        assert difference.same(zeros, zeros.clone())


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16, torch.int32], ids=str)
def test_a_turned_matrix_is_told_from_what_it_equals_not(dtype):
    """The gradient of a Linear's weight lies as [in, out] in Paddle and as [out, in] in Torch."""
    lying = (normal(7, 300) * 100).to(dtype)
    for turned, other in ((lying.t(), lying.t().contiguous()), (lying.t().contiguous().t().t(), lying.t().contiguous())):
        assert difference.same(turned, other)
        assert difference.same(other, turned)
        for place in ((0, 0), (0, 6), (299, 0), (299, 6)):
            changed = other.clone()
            changed[place] += 64
            assert not difference.same(turned, changed)
            assert difference.sizes(turned.float(), changed.float())[1] >= 32
            stats = difference.differ(turned.float(), changed.float()).stats
            assert (stats["different"], stats["count"]) == (1, 2100)
        if dtype.is_floating_point:
            odd = other.clone()
            odd[299, 6] = float("nan")
            assert not difference.same(odd.t().contiguous().t(), odd.clone())
