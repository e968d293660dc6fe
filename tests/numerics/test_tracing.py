"""Traced steps are the formula's, of whatever operands of their kind; where they may not be, the formula is asked again."""

import numpy as np
import pytest
import torch
from formulas import FORMULAS, drawn, gradient

from padiff_shim.numerics import measured as measured_bounds, noise, tracing
from padiff_shim.numerics.measured import Formula, JointFormula, JointResult, TraceCache, Traces

U = 2.0**-24
STEP, SUMS = noise.MoveSize(U, unit=U), noise.MoveSize(0.0, U, unit=U)


def whole(kernel):
    return lambda *operands: [kernel(*operands)]


def wide(shapes, seed):
    return [operand.double() for operand in drawn(shapes, seed)]


def kernels():
    """Every formula, and the gradient of each of its operands, as (kernel, shapes of its operands)."""
    for name, formula in FORMULAS.items():
        yield name, formula.kernel, formula.shapes
        if formula.smooth:
            result = formula.kernel(*drawn(formula.shapes, 1))
            for position in range(len(formula.shapes)):
                yield f"{name}: gradient {position}", gradient(formula.kernel, position), (*formula.shapes, tuple(result.shape))


KERNELS = {name: (kernel, shapes) for name, kernel, shapes in kernels()}


@pytest.mark.parametrize("name", KERNELS)
def test_steps_made_again_give_the_formula_of_other_operands(name):
    kernel, shapes = KERNELS[name]
    _, traced = tracing.trace(whole(kernel), wide(shapes, 1), (), apart=True)
    assert traced is not None, "it does not look at values"
    for seed in (2, 3):
        operands = wide(shapes, seed)
        (again,) = traced.run(operands)
        torch.testing.assert_close(again, kernel(*operands), rtol=1e-9, atol=1e-11)


# Terms that are a result's own, where the fused backward has sums for other operands.
OWN = {"batch_norm: gradient 0": 1.0}


@pytest.mark.rows(12)
@pytest.mark.parametrize("name", KERNELS)
def test_errors_of_traced_steps_are_those_of_the_formula_itself(name):
    """As many terms in a sum, and moves of the same size."""
    kernel, shapes = KERNELS[name]
    operands = wide(shapes, 4)
    part = JointResult.alone(kernel, operands)
    value = part.exact()
    for size in (STEP, SUMS):
        ours, theirs, terms = [], [], []
        for seed in range(6):
            moved, traits = part.moved(size, seed, apart=True)
            plain, mode = noise.moved(kernel, operands, size, seed)
            terms.append((traits.terms, mode.terms))
            ours.append((moved - value).abs().max())
            theirs.append((plain - value).abs().max())
        if size is STEP:  # noted in the first run
            assert terms[0][0] == OWN.get(name, terms[0][1])
        assert np.median(ours) == pytest.approx(np.median(theirs), rel=1.2, abs=1e-300)


LOOKING = {
    "item": lambda x: x / x.max().item(),
    "bool": lambda x: x.sin() if x.max() > 0 else x.cos(),
    "tolist": lambda x: x * x.sum().reshape(1).tolist()[0],
    "numpy": lambda x: x * float(x.detach().numpy().sum()),
    "int": lambda x: x[: int(x.abs().sum()) % 3 + 1],
    "nonzero": lambda x: x[(x > 0).nonzero().shape[0] % 2 :].exp() if bool((x > 0).any()) else x,
}


@pytest.mark.parametrize("name", LOOKING)
def test_a_formula_that_looks_at_values_has_no_trace(name):
    operands = wide([(4, 5)], 1)
    results, traced = tracing.trace(whole(LOOKING[name]), operands, (), apart=True)
    assert traced is None
    assert torch.equal(results[0], LOOKING[name](*operands))


@pytest.mark.parametrize(("limit", "name"), [("LIMIT", "a run"), ("CONSTANT", "a constant")])
def test_what_is_large_has_no_trace(limit, name, monkeypatch):
    monkeypatch.setattr(tracing, limit, 2**10)
    constant = torch.ones(64, 64, dtype=torch.float64)
    assert tracing.trace(whole(lambda x: x.exp() * constant), wide([(64, 64)], 1), (), apart=True)[1] is None, name


def test_numbers_out_of_range_become_what_they_are_in_the_narrower_format():
    """exp overflows float32 at 89, and is a denormal number below -88: of such kernels give 0, or any other."""
    operands = [torch.tensor([100.0, -100.0, 1.0], dtype=torch.float64)]
    part = JointResult.alone(lambda x: torch.exp(x) * 1e-3, operands)
    moved, _ = part.moved(STEP, 1, apart=True)
    assert moved[0].item() == torch.inf
    assert moved[1].item() in (0.0, 2.0**-126)
    assert moved[2].item() == pytest.approx(np.e * 1e-3, rel=1e-5)


def measured(kernel, operands, traces):
    """The bound of a formula of one result that shares what is known of its steps."""
    part = JointResult(JointFormula(lambda *tensors, chosen: [kernel(*tensors)], operands, [0], 1, traces=traces), 0)
    formula = Formula.of(part, operands, torch.float32, 1)
    formula.probe(3)
    return formula


def test_steps_that_are_another_formulas_now_are_not_made():
    """What a formula computes may depend on more than the operands show."""
    operands, traces = drawn([(50,)], 3), Traces()
    measured(lambda x: x * 2.0, operands, traces)
    formula = measured(lambda x: x * x * x + 5.0, operands, traces)
    alone = measured(lambda x: x * x * x + 5.0, operands, Traces())
    assert torch.equal(formula.value, alone.value)
    assert (formula._moved("step") / alone._moved("step")).median() == pytest.approx(1.0, rel=0.5)


class Packed:
    """A recurrent network over sequences of several lengths: Torch reads these where no step shows it."""

    def __init__(self, lengths):
        self.lengths, self.asked = torch.tensor(lengths), 0

    def __call__(self, x, weight, hidden):
        self.asked += 1
        data, sizes = torch._pack_padded_sequence(x, self.lengths, False)
        bias = torch.zeros(4, dtype=x.dtype)
        return torch.rnn_tanh(
            data, sizes, torch.zeros(1, 3, 4, dtype=x.dtype), [weight, hidden, bias, bias], True, 1, 0.0, False, False
        )[0]


def test_where_an_index_says_which_steps_there_are_each_call_is_compared_with_its_formula():
    operands, traces = drawn([(5, 3, 4), (4, 4), (4, 4)], 5), Traces()

    def bound(kernel):
        together_ = JointFormula(lambda *tensors, chosen: [kernel(*tensors)], operands, [0], 1, [kernel.lengths], traces)
        formula = Formula.of(JointResult(together_, 0), operands, torch.float32, 1)
        formula.probe(3)
        return formula

    first = Packed([5, 5, 2])
    bound(first)
    same, other = Packed([5, 5, 2]), Packed([5, 4, 3])  # as many steps in all, and results of one shape
    bound(same)
    formula = bound(other)
    assert (first.asked, same.asked, other.asked) == (2, 1, 2), "a formula is traced anew where its steps are others"
    assert float((formula._moved("step") / formula.value.abs()).max()) < 1e-5


def test_memory_of_traces_is_bounded(monkeypatch):
    monkeypatch.setattr(measured_bounds, "STEPS", 40)
    cache = TraceCache()
    chain = lambda x: x.sin().cos().sin().cos().exp()  # noqa: E731
    for number in range(30):
        measured(chain, drawn([(number + 2,)], 1), cache.of(number))
        traced = [traces[True] for traces in cache._known.values() if traces[True] is not None]
        assert traced
        assert sum(len(steps.steps) for steps in traced) <= 40
    monkeypatch.setattr(measured_bounds, "STEPS", 8)
    traces = cache.of("long")
    measured(chain, drawn([(3,)], 1), traces)
    assert traces[True] is None, "more than half of all"
