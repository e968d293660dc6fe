"""What ops that move or choose values give is judged, and ties, kinks and steps have a verdict of their own.

The properties hold for every op of the table that moves values or declares ties; what is planted stands on either side.
"""

import functools

import numpy as np
import paddle
import pytest
import torch
from helpers import Call, entries, flat, in_turn, takes, thinned

import padiff_shim
from padiff_shim import testing
from padiff_shim.catalogue.registry import ops
from padiff_shim.dispatch.entry_point import typed
from padiff_shim.dispatch.operands import flat as listed
from padiff_shim.frameworks.versions import IS_3
from padiff_shim.verdicts import HARD, Side, Verdict

LEVELS = np.array([-3.0, -2.0, -1.0, -0.5, 0.0, 0.5, 1.0, 2.0, 3.0], "float32")  # kinks, limits and halves of the samples
SIDES = ("paddle", "torch")
# Paddle writes no gradient of what fills a mask, and another one of what is gathered along another axis, and of places at the edge
# of an image (docs/defects.md).
DEFECTS = {"masked_fill", "gather", "grid_sample"}


def first_doors():
    """(op, entry, samples) of each op of the table that moves values or declares ties, by its first door."""
    known = {}
    for op, entry in entries():
        if op.name in known or entry.inplace or op.random or not (op.exact or op.ties is not None):
            continue
        if op.name == "vector_norm":  # Paddle 3.3 takes less by position than its signature says
            continue
        samples = [sample for sample in op.samples if takes(op, entry, sample) and not sample.empty]
        if samples:
            known[op.name] = op, entry, samples
    return known


DOORS = first_doors()
CHOSEN = [name for name, (op, _, _) in DOORS.items() if op.ties is not None]
FAST = (
    "clip",
    "max",
    "amax",
    "abs",
    "floor",
    "floor_divide",
    "remainder",
    "topk",
    "cummax",
    "argsort",
    "relu",
    "gather",
    "concat",
    "where",
    "median",
    "maximum",
)
FAST_TIED = (*sorted(set(FAST) & set(CHOSEN)), "pool2d", "l1_loss", "round")
TABLE, TIED = thinned(DOORS, *FAST), thinned(dict.fromkeys(CHOSEN), *FAST_TIED)
# Of values that are moved apart no one comes most often.
MOVED = thinned(dict.fromkeys(name for name in CHOSEN if name != "mode"), *FAST_TIED)


def drawn(sample, seed, levels=None):
    """Values for a sample's operands: its own, or few levels, so that many are equal and many stand at a kink."""
    rng = np.random.default_rng(seed)
    values = sample.arrays(rng, "float32")
    if levels is None:
        return values
    changed = []
    for value, operand in zip(values, sample.operands):
        if isinstance(value, np.ndarray) and value.dtype.kind == "f":
            low, high = (sample.within if isinstance(operand, tuple) else (operand.low, operand.high)) or (-np.inf, np.inf)
            value = rng.choice(levels[(levels >= low) & (levels <= high)], value.shape).astype(value.dtype)
        changed.append(value)
    return changed


class Program:
    """One call of an op and its backward, of incoming gradients that are known."""

    def __init__(self, name, sample, values, seed=0):
        op, entry, _ = DOORS[name]
        self.op, self.call = op, Call(op, entry, sample, grad=True, values=values)
        self.rng = np.random.default_rng(seed)
        self.seeds = {}

    def run(self):
        results = flat(self.call.run())
        ends = [(place, end) for place, end in enumerate(results) if not end.stop_gradient]
        for place, end in ends:
            seed = self.rng.integers(1, 5, end.shape) * 0.25 * self.rng.choice([-1.0, 1.0], end.shape)
            self.seeds[place] = np.asarray(seed, "float32")
        if ends:
            grads = [paddle.to_tensor(self.seeds[place]).reshape(end.shape).astype(end.dtype) for place, end in ends]
            paddle.autograd.backward([end for _, end in ends], grads)

    def compared(self, **options):
        with padiff_shim.compare("torch", audit=0, progress=False, **options) as run:
            self.run()
        return [call for call in run.calls if call.op == self.op.name]

    def broken(self, gradient, name, *values):
        """Torch's gradient of an operand where all ties are broken by chance: a choice that is allowed."""
        rng = np.random.default_rng(5)
        leading = values[0] if self.op.operands else values[: self.op.leading]
        sides = []
        for value in leading:
            if isinstance(value, torch.Tensor) and value.is_floating_point():
                moves = torch.from_numpy(np.asarray(rng.standard_normal(tuple(value.shape)))).reshape(value.shape)
                wide = value.double()
                value = (wide + moves * torch.where(wide == 0, 1e-40, 1e-12 * wide.abs())).requires_grad_()
            sides.append(value)
        rest = values[1:] if self.op.operands else values[self.op.leading :]
        with torch.enable_grad():
            results = listed(self.op(*([sides] if self.op.operands else sides), *rest))
            outs = [result for result in results if isinstance(result, torch.Tensor)]
            ends = [  # Paddle's indices want a gradient, too
                (outs[place], torch.from_numpy(seed).reshape(outs[place].shape).double())
                for place, seed in self.seeds.items()
                if outs[place].requires_grad
            ]
            leaf = sides[self.op.names.index(name)]
            (choice,) = torch.autograd.grad([end for end, _ in ends], leaf, [grad for _, grad in ends], allow_unused=True)
        if choice is None:
            return torch.zeros_like(gradient)
        return torch.where(choice.abs() < 1e-9, 0.0, choice).to(gradient.dtype)  # what the moves themselves leave is no answer


def accused(call, side):
    """Whether this side, and no other, is said to be wrong."""
    return call.verdict in HARD and call.side == side


def one_more(tensor, *rest):
    """One element another one: of an index the next."""
    changed = tensor.clone()
    if changed.numel():
        changed.view(-1)[changed.numel() // 2] += 1
    return changed


def spoiled(name, sample, side, change, *, gradients, values=None):
    """The records of the tensors that were changed on one side."""
    program = Program(name, sample, drawn(sample, 3) if values is None else values)
    with padiff_shim.testing.planted(name, functools.partial(change, program), side=side, gradients=gradients):
        calls = program.compared()
    return [
        call for call in calls if call.tensor.startswith("grad:") == gradients and (gradients or "result" not in call.to_dict())
    ]


@pytest.mark.rows(10)
@pytest.mark.parametrize("side", SIDES)
@pytest.mark.parametrize("name", TABLE)
def test_a_changed_value_is_found_with_its_side(name, side):
    for sample in DOORS[name][2][:2]:
        (call,) = spoiled(name, sample, side, lambda program, tensor, *rest: one_more(tensor), gradients=False)
        assert accused(call, side), str(call)


@pytest.mark.rows(10)
@pytest.mark.parametrize("side", SIDES)
@pytest.mark.parametrize("name", TABLE)
def test_a_changed_gradient_is_found_with_its_side(name, side):
    for sample in DOORS[name][2][:2]:
        for call in spoiled(name, sample, side, lambda program, tensor, *rest: one_more(tensor), gradients=True):
            if call.verdict is Verdict.UNVERIFIED or (name in DEFECTS and call.side != side):
                continue  # a node that shows no gradients, or a fault of Paddle's own beside the planted one
            assert accused(call, side), str(call)


@pytest.mark.parametrize("name", TABLE)
def test_honest_kernels_at_ties_are_not_accused(name):
    for seed, sample in enumerate(DOORS[name][2]):
        if not IS_3 and () in sample.shapes:  # 2.6 refuses many without axes
            continue
        for call in Program(name, sample, drawn(sample, seed, LEVELS)).compared():
            assert name in DEFECTS or call.quirk or call.verdict not in HARD, str(call)
            assert call.verdict is not Verdict.ROUNDING or call.stats["max_abs"] < 1e-3, str(call)


@pytest.mark.rows(5)
@pytest.mark.parametrize(("name", "side"), in_turn(MOVED, SIDES))
def test_another_choice_at_ties_is_a_tie(name, side):
    seen = set()
    for seed, sample in enumerate(DOORS[name][2][:12]):
        values = drawn(sample, seed, LEVELS)
        for call in spoiled(name, sample, side, Program.broken, gradients=True, values=values):
            assert call.quirk or call.verdict not in HARD or (name in DEFECTS and call.side == "paddle"), str(call)
            seen.add(Verdict.TIE if call.quirk else call.verdict)  # of a norm's largest elements Paddle itself allows itself more
    # Steps have no gradient, and some samples no two elements that could be equal.
    none = ("rint", "round", "floor_divide", "trunc_divide", "hinge_loss", "send_u_recv")
    assert not seen or Verdict.TIE in seen or name in none, seen


SELECTING = (
    "max", "min", "amax", "amin", "topk", "argsort", "kthvalue", "mode", "median", "nanmedian", "cummax", "cummin", "maxout",
    "pool2d", "pool3d", "max_pool2d_with_index", "max_pool3d_with_index",
)  # fmt: skip


def many_times(program, tensor, *rest):
    return tensor * 7


def nothing(program, tensor, *rest):
    return torch.zeros_like(tensor)


@pytest.mark.rows(5)
@pytest.mark.parametrize("change", [many_times, nothing])
@pytest.mark.parametrize(
    ("name", "side"),
    in_turn(thinned(dict.fromkeys(SELECTING), "max", "topk", "mode", "median", "cummax", "maxout", "pool2d"), SIDES),
)
def test_where_all_are_equal_not_every_gradient_is_allowed(name, change, side):
    """Their sum is that of what arrived: a gradient of zeros is no choice."""
    for sample in DOORS[name][2]:
        if sample.attrs.get("pooling_type") == "avg":
            continue
        values = [np.ones_like(value) if isinstance(value, np.ndarray) else value for value in drawn(sample, 0)]
        (call,) = spoiled(name, sample, side, change, gradients=True, values=values)
        if call.quirk is None:
            assert accused(call, side) or accused(call, "both"), str(call)


@pytest.mark.parametrize("side", SIDES)
@pytest.mark.parametrize("name", ["maximum", "minimum", "fmax", "fmin", "l1_loss"])
def test_both_operands_share_one_gradient(name, side):
    """Each may have any part of it at a tie; not both of them nothing."""
    for sample in DOORS[name][2][:1]:
        values = [np.ones_like(value) for value in drawn(sample, 0)]
        change = nothing if name != "l1_loss" else lambda program, tensor, *rest: torch.full_like(tensor, 1e-3)
        calls = spoiled(name, sample, side, change, gradients=True, values=values)
        assert len(calls) == 2
        wrong = [call for call in calls if call.verdict in HARD]  # where the other side's is nothing, too, there is no difference
        assert {str(call.side) for call in wrong} == {side}, [str(call) for call in calls]
        assert {call.verdict for call in calls} <= {*HARD, Verdict.EQUAL}


@pytest.mark.rows(10)
@pytest.mark.parametrize(
    ("name", "side"),
    in_turn([name for name in CHOSEN if isinstance(DOORS[name][0].ties, padiff_shim.numerics.ties.Kinks)], SIDES),
)
def test_beyond_both_slopes_of_a_kink_no_gradient_is_allowed(name, side):
    def beyond(program, tensor, *rest):
        return tensor + 5.0

    for sample in DOORS[name][2][:2]:
        for call in spoiled(name, sample, side, beyond, gradients=True, values=drawn(sample, 1, LEVELS)):
            assert call.verdict in HARD, str(call)


# --- indices ----------------------------------------------------------------------------------------------------------------

ROWS = np.array([[1.0, 3.0, 3.0, 0.0], [2.0, 2.0, 2.0, 2.0]], "float32")


def arguments(index, side):
    """The verdict on an argmax that answers ``index``."""
    x = paddle.to_tensor(ROWS)
    planted = padiff_shim.testing.planted("argmax", lambda out, *rest: torch.tensor(index), side=side)
    with planted, padiff_shim.compare("torch") as run:
        paddle.argmax(x, 1)
    (call,) = run.calls
    assert run.coverage()["exact_calls"] == 1  # it is judged, though its result is no float
    return call.verdict, str(call.side)


@pytest.mark.parametrize("side", SIDES)
def test_the_index_of_an_equal_element_is_a_tie(side):
    assert arguments([1, 0], side) == (Verdict.EQUAL, "none")
    assert arguments([2, 3], side) == (Verdict.TIE, "none")
    assert arguments([0, 0], side)[0] in HARD
    assert arguments([0, 0], side)[1] == side
    assert arguments([7, 0], side)[0] in HARD


@pytest.mark.parametrize("side", SIDES)
def test_a_running_maximum_chooses_no_later_element(side):
    x = paddle.to_tensor(ROWS[1])
    for index, verdict in (([0, 0, 0, 0], Verdict.TIE), ([0, 1, 1, 3], Verdict.TIE), ([0, 2, 2, 3], None)):
        with padiff_shim.compare("torch", audit=0) as run, Indices(side, index):
            paddle.cummax(x, axis=0)
        (call,) = [call for call in run.calls if call.tensor == "indices"]
        if verdict is None:
            assert accused(call, side), str(call)
        else:
            assert call.verdict in (verdict, Verdict.EQUAL), str(call)


class Indices:
    """The second result of a cummax replaced on one side, before it is judged."""

    def __init__(self, side, index):
        self.side, self.index = side, index

    def __enter__(self):
        from padiff_shim.comparison import plan

        self.flow, self.original = plan, plan.Result

        def made(subject, position, mine, theirs, call):
            if position == 1:
                replaced = torch.tensor(self.index, dtype=mine.dtype)
                mine, theirs = (replaced, theirs) if self.side == "paddle" else (mine, replaced)
            return self.original(subject, position, mine, theirs, call)

        plan.Result = made

    def __exit__(self, *error):
        self.flow.Result = self.original


@pytest.mark.parametrize("side", SIDES)
def test_the_place_of_a_maximum_lies_in_its_own_window(side):
    """All elements are equal, and so any of the same window may be named: place 7 lies in the window beside."""
    x = paddle.ones([1, 1, 4, 4])
    for places, inside in (([[1, 2], [8, 15]], True), ([[5, 7], [13, 10]], True), ([[7, 2], [8, 10]], False)):
        with padiff_shim.compare("torch", audit=0) as run, Indices(side, [[places]]):
            paddle.nn.functional.max_pool2d(x, 2, return_mask=True)
        (call,) = [call for call in run.calls if call.tensor == "mask"]
        assert call.verdict is Verdict.TIE if inside else accused(call, side), str(call)


# --- programs of public reports -----------------------------------------------------------------------------------------------


def test_the_gradient_of_clip_at_its_limit():
    """Paddle#71836: it was 0 in Paddle and 1 in Torch; both are allowed, and nothing else is."""
    x = paddle.to_tensor([-1.0, -0.5, 0.0, 0.25, 0.5, 2.0], stop_gradient=False)

    def run_with(*changes):
        with padiff_shim.compare("torch") as run:
            paddle.clip(x * 2.0, -1.0, 1.0).sum().backward()
        assert run.coverage()["checked_calls"] == run.coverage()["float_calls"] == 3
        (call,) = run.calls.filter(op="clip", tensor="grad:x")
        return run, call

    run, call = run_with()
    assert call.verdict in (Verdict.EQUAL, Verdict.TIE)
    for factor, verdicts in ((0.0, {Verdict.TIE}), (0.5, {Verdict.TIE}), (1.5, HARD), (-1.0, HARD)):

        def at_limits(grad, name, values, *limits, factor=factor):
            return torch.where(values.abs() == 1.0, factor * torch.ones(()), torch.where(values.abs() < 1, 1.0, 0.0))

        with padiff_shim.testing.planted("clip", at_limits, gradients=True):
            run, call = run_with()
        assert call.verdict in verdicts or (call.verdict is Verdict.EQUAL and factor == 1.0), str(call)
    assert "clip" in run.answer
    assert "Paddle's gradient" in run.answer


def test_the_gradient_of_a_median_of_equal_elements():
    """PaddleAPITest#487: shared by all, or one element's; a gradient of zeros was taken for rounding, "48 allowed"."""
    weight = paddle.to_tensor([1.0, 1.0, 1.0], stop_gradient=False)

    def compared():
        with padiff_shim.compare("torch") as run:
            paddle.median(weight * paddle.ones([3])).backward()
        (call,) = run.calls.filter(op="median", phase="backward")
        return run, call

    run, call = compared()
    assert call.verdict in (Verdict.EQUAL, Verdict.TIE), str(call)
    assert run
    for change, accepted in (
        (lambda grad, *rest: torch.tensor([0.0, 0.0, 1.0]), {Verdict.TIE, Verdict.EQUAL}),
        (lambda grad, *rest: torch.full([3], 1 / 3), {Verdict.TIE, Verdict.EQUAL}),
        (lambda grad, *rest: torch.zeros(3), HARD),
        (lambda grad, *rest: torch.ones(3), HARD),
    ):
        with padiff_shim.testing.planted("median", change, gradients=True):
            run, call = compared()
        assert call.verdict in accepted, str(call)
    assert call.side is Side.PADDLE


def test_a_report_says_what_a_tie_means():
    x = paddle.to_tensor([0.0, 1.0, -1.0], stop_gradient=False)
    planted = padiff_shim.testing.planted("relu", lambda grad, name, x: torch.where(x >= 0, 1.0, 0.0), gradients=True)
    with planted, padiff_shim.compare("torch") as run:
        paddle.nn.functional.relu(x).sum().backward()
    assert run.verdicts["TIE"] == 1
    assert not run.by_line()
    assert run
    (call,) = run.calls.filter(verdict="TIE")
    assert "1 of 3 elements differ" in str(call)
    assert call.stats["first_tied"] == [0]


def test_a_step_function_amplifies_what_comes_in():
    """Paddle#64591: a floor as an activation."""
    x = paddle.zeros([4, 5])
    planted = padiff_shim.testing.planted("exp", lambda out, *rest: out * (1 - 1e-6), side="torch")
    with planted, padiff_shim.compare("torch", shadow=True, audit=0) as run:
        paddle.floor(paddle.exp(x) * 40.0)
    (call,) = run.calls.filter(op="floor")
    assert call.stats["propagated"] == 1.0
    assert "step" in call.modifiers


def test_sums_of_an_op_with_ties_are_judged_by_their_length():
    """An average pool shares its op with the maximum's: an error that many terms explain is nobody's fault."""
    x = paddle.to_tensor(300.0 + np.random.default_rng(0).standard_normal((1, 16, 64, 64)).astype("float32"))
    planted = testing.planted("pool2d", lambda out, *rest: out * (1 + 2e-6))
    with planted, padiff_shim.compare("torch") as run:
        paddle.nn.functional.adaptive_avg_pool2d(x, 1)
    (call,) = run.calls
    assert call.verdict is Verdict.LOW_ACCURACY
    assert call.stats["k"] == 64 * 64


def test_every_formula_that_jumps_declares_it():
    """Of few levels many operands stand at a tie: where a move of next to nothing changes a result much, the op has said so."""
    undeclared = {
        "slogdet", "slogdet_v2", "det", "solve", "prod", "std", "normalize", "frobenius_norm", "cdist", "renorm",  # singular points
        "angle", "atan2", "i0e", "poisson_nll_loss",  # branches
        "put_along_axis", "cosine_embedding_loss", "triplet_margin_loss", "multi_margin_loss", "multi_label_margin_loss",
        "fused_bias_act", "fused_gemm_epilogue", "fused_linear_activation",  # Paddle has no kernels on a CPU: nothing is judged
        "grid_sample",  # of several elements at once: a comparison asks the formula itself, and accuses nobody
    }  # fmt: skip
    silent = set()
    for op in ops().values():
        if op.random or op.ties is not None or op.steps:
            continue
        for sample in op.samples:
            if not sample.empty and jumps(op, sample):
                silent.add(op.name)
                break
    assert silent <= undeclared


def jumps(op, sample):
    """Whether a result or a gradient changes by more than 1e-4 for moves of 1e-9."""
    for seed in range(3):
        try:
            values = drawn(sample, seed, LEVELS)
        except ValueError:  # no level in the sample's range
            return False
        rng = np.random.default_rng(seed)
        before = outcome(op, sample, values, np.zeros)
        after = outcome(op, sample, values, lambda shape, rng=rng: 1e-9 * rng.choice([-1.0, 1.0], shape))
        if before is None or after is None:
            continue
        for mine, moved in zip(before, after):
            if mine.shape == moved.shape and mine.numel() and float((mine - moved).abs().nan_to_num(0.0, 0.0, 0.0).max()) > 1e-4:
                return True
    return False


def outcome(op, sample, values, moves):
    """All results and gradients of the formula in float64; None where it refuses."""
    leaves = [
        torch.from_numpy(np.asarray(value + moves(value.shape), "float64")).requires_grad_()
        if isinstance(value, np.ndarray) and value.dtype.kind == "f"
        else torch.from_numpy(value) if isinstance(value, np.ndarray) else value
        for value in values
    ]  # fmt: skip
    sides = list(leaves)
    if op.layouts:
        sides[1] = sides[1].t().contiguous()
    arguments = op.arguments(sample, sides)
    try:
        results = op(*arguments[: op.leading], *(typed(value, torch) for value in arguments[op.leading :]))
        results = [result for result in listed(results) if isinstance(result, torch.Tensor) and not result.is_complex()]
        ends = [result for result in results if result.requires_grad]
        wanted = [leaf for leaf in leaves if isinstance(leaf, torch.Tensor) and leaf.requires_grad]
        grads = torch.autograd.grad(ends, wanted, [torch.ones_like(end) for end in ends], allow_unused=True) if ends else []
    except Exception:
        return None
    return [tensor.detach().double() for tensor in (*results, *(grad for grad in grads if grad is not None))]


@pytest.mark.parametrize("beside", [-1e-6, 1e-6, None])
def test_a_place_on_a_point_has_the_slopes_of_both_sides(beside):
    """What is neither is wrong: natively it is at the edge."""
    rng = np.random.default_rng(0)
    x = paddle.to_tensor(rng.standard_normal((1, 2, 5, 5)).astype("float32"), stop_gradient=False)
    grid = paddle.to_tensor(rng.integers(-1, 2, (1, 1, 6, 2)).astype("float32") / 2, stop_gradient=False)

    def change(gradient, name, image, places, *settings):
        if name != "grid" or beside is None:
            return gradient + 0.5 if name == "grid" else gradient
        leaf = (places.detach() + beside).requires_grad_()
        torch.nn.functional.grid_sample(image.detach(), leaf, align_corners=True).sum().backward()
        return leaf.grad

    with testing.planted("grid_sample", change, gradients=True), padiff_shim.compare("torch", progress=False) as run:
        paddle.nn.functional.grid_sample(x, grid).sum().backward()
    (call,) = [call for call in run.calls if call.tensor == "grad:grid"]
    assert (call.verdict in (Verdict.TIE, Verdict.ROUNDING, Verdict.EQUAL)) == (beside is not None), call
    assert beside is not None or call.side is Side.PADDLE


@pytest.mark.parametrize("moving", [False, True])
def test_a_wide_image_is_no_place(moving):
    """Its gradient has its shape, and its last axis is no coordinates: to both sides of each was 2^64 formulas."""
    x, grid = paddle.randn([1, 2, 8, 64]), paddle.rand([1, 4, 4, 2])
    x.stop_gradient, grid.stop_gradient = False, not moving
    with padiff_shim.compare("torch", progress=False) as run:
        paddle.nn.functional.grid_sample(x, grid).sum().backward()
    assert {call.tensor for call in run.calls} >= {"out", "grad:x"}
    assert run
