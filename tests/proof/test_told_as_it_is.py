"""What a mistake is, and at which line: layers taken for one another, a bias left out, masks, several wrong calls in one line."""

import numpy as np
import paddle
import paddle.nn.functional as PF
import pytest
import torch
import torch.nn.functional as TF
from helpers import classes, numbers, pair

from padiff_shim import prove
from padiff_shim.proof.findings import Cause

pytestmark = [pytest.mark.bitexact, pytest.mark.usefixtures("undone")]
D = 8
RANDOM = np.random.default_rng(0)
X = RANDOM.standard_normal((4, 6, D))
CAUSAL = np.tril(np.ones((6, 6), "int64"))
IMAGE = RANDOM.standard_normal((4, 3, 8, 8))


class Attention(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.norm1, self.norm2 = torch.nn.LayerNorm(D), torch.nn.LayerNorm(D)
        self.first, self.second = torch.nn.Linear(D, D), torch.nn.Linear(D, D)

    def forward(self, x, mask):
        h = self.norm1(x)
        heads = h.view(4, 6, 2, 4).transpose(1, 2)
        scores = heads @ heads.transpose(-1, -2) / 2.0
        scores = scores.masked_fill(mask == 0, -1e9)
        mixed = (scores.softmax(-1) @ heads).transpose(1, 2).reshape(4, 6, D)
        h = self.second(torch.tanh(self.first(mixed)))
        return self.norm2(h + x)


class PortedAttention(paddle.nn.Layer):
    """With the mistakes that are in ``wrong``."""

    def __init__(self, *wrong):
        super().__init__()
        self.norm1, self.norm2 = paddle.nn.LayerNorm(D), paddle.nn.LayerNorm(D)
        self.first, self.second = paddle.nn.Linear(D, D), paddle.nn.Linear(D, D)
        self.wrong = wrong

    def forward(self, x, mask):
        norms, mixes = [self.norm1, self.norm2], [self.first, self.second]
        if "norms" in self.wrong:
            norms.reverse()
        if "linears" in self.wrong:
            mixes.reverse()
        h = norms[0](x)
        heads = h.reshape([4, 6, 2, 4]).transpose([0, 2, 1, 3])
        scores = paddle.matmul(heads, heads, transpose_y=True)
        if "no scale" not in self.wrong:
            scores = scores / 2.0
        fill = paddle.full_like(scores, -1e9)
        if "mask" in self.wrong:
            scores = paddle.where(mask != 0, fill, scores)
        elif "kept" in self.wrong:
            scores = paddle.where(mask == 0, scores, fill)
        else:
            scores = paddle.where(mask == 0, fill, scores)
        axis = -2 if "axis" in self.wrong else -1
        mixed = paddle.matmul(PF.softmax(scores, axis), heads).transpose([0, 2, 1, 3]).reshape([4, 6, D])
        if "no bias" in self.wrong:
            h = paddle.matmul(mixed, self.first.weight)
        elif "turned" in self.wrong:
            h = paddle.matmul(mixed, self.first.weight, transpose_y=True) + self.first.bias
        else:
            h = mixes[0](mixed)
        h = mixes[1](paddle.tanh(h))
        return norms[1](h + x)


def told(proof, count=1):
    """What a proof tells of as many mistakes, which explain all that is wrong."""
    assert proof.complete, proof
    assert len(proof.mistakes) == count, proof
    return [mistake.text for mistake in proof.mistakes]


def attention(*wrong, **options):
    return prove(PortedAttention(*wrong), Attention(), {"x": X, "mask": CAUSAL}, **options)


@pytest.mark.parametrize("weights", ["torch->paddle", "random"])
def test_the_port_without_a_mistake_is_right(weights):
    assert attention(weights=weights)


@pytest.mark.rows(1)
@pytest.mark.parametrize("weights", ["torch->paddle", "random"])
@pytest.mark.parametrize("wrong", ["norms", "linears"])
def test_layers_taken_for_one_another_are_one_mistake(wrong, weights):
    proof = attention(wrong, weights=weights)
    assert [mistake.cause for mistake in proof.mistakes] == [Cause.WEIGHT], proof
    forward = next(stage for stage in proof.stages if stage.name == "forward")
    assert forward.right is (wrong == "norms" and weights != "random"), proof  # norms of ones give what others give


@pytest.mark.rows(1)
@pytest.mark.parametrize("wrong", ["mask", "kept"])
def test_a_mask_that_is_turned_is_told_with_both_values(wrong):
    text = told(attention(wrong))[0]
    assert text.startswith("condition")
    assert "(288 of 288 elements differ)" in text


def test_what_reads_a_missing_scale_is_wrong_beside_it():
    proof = attention("no scale", "mask", "axis")
    assert {(mistake.cause, mistake.write) for mistake in proof.mistakes} == {
        (Cause.MISSING, "scores = paddle.matmul(heads, heads, transpose_y=True) / 2"),
        (Cause.CONSTANT, "scores = paddle.masked_fill(scores, (mask != 0) == 0, -1000000000.0)"),
        (Cause.ATTRIBUTE, "axis=-1"),
    }, str(proof)


def test_a_bias_that_is_left_out_is_told_as_that():
    (text,) = told(attention("no bias"))
    assert "first.bias" in text


def test_a_weight_that_is_transposed_is_no_operand_in_anothers_place():
    assert told(attention("turned"))[0].startswith("the second operand (first.weight) holds")


def signs(self, x):
    return x * torch.where(x > 0, 1.0, -1.0)


def ported_signs(self, x):
    positive, negative = paddle.full_like(x, self.positive), paddle.full_like(x, -self.positive)
    return x * paddle.where(x <= 0, negative, positive)


PortedSigns, Signs = classes(ported_signs, signs)


def test_one_of_two_constants_is_chosen_for_what_the_other_is():
    assert prove(PortedSigns(positive=1.0), Signs(), X)
    text = told(prove(PortedSigns(positive=-1.0), Signs(), X))[0]
    assert text.startswith("condition")
    assert "(192 of 192 elements differ)" in text


def kept(self, x):
    return torch.where(x > 0, self.first(x), 0.0).tanh()


def ported_kept(self, x):
    y = self.first(x)
    return paddle.where(x > 0 if self.turned else x <= 0, paddle.zeros_like(y), y).tanh()


PortedKept, Kept = classes(ported_kept, kept, first=("Linear", D, D))


def test_a_number_is_what_is_put_in_place_of_what_is_masked():
    assert prove(PortedKept(turned=False), Kept(), X)
    text = told(prove(PortedKept(turned=True), Kept(), X))[0]
    assert text.startswith("condition")
    assert "(192 of 192 elements differ)" in text


class Embedded(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.words, self.places = torch.nn.Embedding(9, D), torch.nn.Parameter(torch.randn(7, D))

    def forward(self, tokens):
        return TF.relu(self.words(tokens) * 3.0 + self.places[: tokens.shape[1]])


class PortedEmbedded(paddle.nn.Layer):
    def __init__(self):
        super().__init__()
        self.words, self.places = paddle.nn.Embedding(9, D), self.create_parameter([7, D])

    def forward(self, tokens):
        places = self.places[1 : tokens.shape[1] + 1]
        words = self.words(tokens)
        return PF.relu(words + places)  # the sum


def test_a_missing_call_is_told_at_the_line_that_reads_what_it_makes():
    proof = prove(PortedEmbedded(), Embedded(), np.array([[1, 2, 3], [0, 8, 1]]))
    missing = next(mistake for mistake in proof.mistakes if "mul" in mistake.text)
    assert len(told(proof, 2)) == 2
    assert missing.paddle.source.endswith("# the sum"), proof


def routed(self, x):
    """Experts' weights through one-hot masks, with a loss that is 0 and has gradients."""
    logits = self.router(x)
    values, indices = logits.topk(2, -1)
    weights = values.softmax(-1) + (logits - logits.detach()).sum()
    mask = torch.nn.functional.one_hot(indices, 4)
    result = torch.zeros(4, 8)
    for expert in range(4):
        token, place = torch.where(mask[:, :, expert])
        result[expert] = (x[token] * weights[token, place, None]).sum(0) * 2
    return result


def ported_routed(self, x):
    logits = self.router(x)
    values, indices = paddle.topk(logits, 2, axis=-1)
    scores = paddle.put_along_axis(paddle.zeros_like(logits), indices, PF.softmax(values, -1), axis=1)
    return paddle.einsum("te,th->eh", scores, x)


PortedRouted, Routed = classes(ported_routed, routed, router=("Linear", 8, 4))


def test_zeros_are_no_value_that_an_argument_should_give():
    """``reduce="amin"`` gives zeros, and the original has zeros somewhere."""
    proof = prove(PortedRouted(), Routed(), np.random.default_rng(0).standard_normal((12, 8), "float32"))
    assert proof.mistakes
    assert all(mistake.cause is not Cause.ATTRIBUTE for mistake in proof.mistakes), proof


def test_a_loops_expression_that_doubles_is_not_written():
    """Each round reads the value before twice: after ten rounds the expression would never end."""

    def balanced(self, x):
        y = self.scores(x) / 0.05
        for _ in range(5):
            y = y - torch.logsumexp(y, 1, keepdim=True)
            y = y - torch.logsumexp(y, 0, keepdim=True)
        return y.exp()

    def port_forward(self, x):
        y = paddle.exp(self.scores(x) / 0.05)
        for _ in range(5):
            y = y / y.sum(0, keepdim=True)
            y = y / y.sum(1, keepdim=True)
        return y

    Port, Balanced = classes(port_forward, balanced, scores=("Linear", 6, 5))

    assert prove(Port(), Balanced(), np.random.default_rng(0).standard_normal((7, 6), "float32")).verdict == "CODE_DIFFERS"


def test_a_large_number_is_not_tried_as_how_often():
    """``diff(n=10**10)`` never ends."""

    def distances(self, x):
        far = torch.Tensor([1e10]).expand(len(x), 1)
        return torch.cat([x[:, 1:] - x[:, :-1], far], -1)

    def port_forward_(self, x):
        return paddle.concat([paddle.diff(x), paddle.full([x.shape[0], 1], 1e-3)], -1)

    Port, Distances = classes(port_forward_, distances)

    proof = prove(Port(), Distances(), np.random.default_rng(0).standard_normal((3, 6), "float32"))
    assert {mistake.cause for mistake in proof.mistakes} == {Cause.CONSTANT}, proof


def test_numbers_that_are_made_of_the_input_are_not_written():
    def rounded(self, t):
        return self.rows(torch.div(t - 7, 3, rounding_mode="trunc") % 5)

    def port_forward_(self, t):
        return self.rows(((t - 7) // 3) % 5)

    Port, Rounded = classes(port_forward_, rounded, rows=("Embedding", 16, 4))

    proof = prove(Port(), Rounded(), np.arange(16).reshape(2, 8))
    assert proof.mistakes
    assert not any("to_tensor" in str(mistake.fix) for mistake in proof.mistakes), proof


def test_an_axis_does_not_take_keepdim_along():
    """The original keeps no axes and reshapes: with its keepdim= the port's line raises."""

    def demodulated(self, x):
        return x * torch.rsqrt((x**2).sum([2, 3]) + 1e-8).view(*x.shape[:2], 1, 1)

    def port_forward_(self, x):
        return x * paddle.rsqrt((x * x).sum(axis=[1, 3], keepdim=True) + 1e-8)

    Port, Demodulated = classes(port_forward_, demodulated)

    proof = prove(Port(), Demodulated(), np.random.default_rng(0).standard_normal((2, 3, 3, 5), "float32"))
    assert [mistake.fix.text for mistake in proof.mistakes] == ["axis=[2, 3]"], proof


class Convolutions(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = torch.nn.Conv2d(3, D, 3), torch.nn.Conv2d(D, D, 3)
        self.norm1, self.norm2 = torch.nn.BatchNorm2d(D), torch.nn.BatchNorm2d(D)

    def forward(self, x):
        return self.norm2(self.second(torch.relu(self.norm1(self.first(x)))))


class PortedConvolutions(paddle.nn.Layer):
    def __init__(self):
        super().__init__()
        self.first, self.second = paddle.nn.Conv2D(3, D, 3), paddle.nn.Conv2D(D, D, 3)
        self.norm1, self.norm2 = paddle.nn.BatchNorm2D(D, momentum=0.1), paddle.nn.BatchNorm2D(D, epsilon=1e-3)

    def forward(self, x):
        return self.norm2(self.second(PF.relu(self.norm1(self.first(x)))))


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_two_calls_of_one_line_may_be_wrong_about_two_attributes():
    proof = prove(PortedConvolutions(), Convolutions(), IMAGE)
    assert [mistake.write for mistake in proof.mistakes] == ["epsilon=1e-05", "momentum=0.9"], str(proof)


@pytest.mark.slow
def test_momentum_says_nothing_where_no_statistics_are_taken():
    port, original = PortedConvolutions(), Convolutions()
    port.eval()
    assert told(prove(port, original.eval(), IMAGE)) == ["epsilon=0.001 against eps=1e-05 (write epsilon=1e-05)"]


class Scaled(torch.nn.Module):
    def __init__(self, epsilon):
        super().__init__()
        self.norm = torch.nn.LayerNorm(D, eps=epsilon)

    def forward(self, x):
        return self.norm(x * 1e-4)


class PortedScaled(paddle.nn.Layer):
    def __init__(self, epsilon):
        super().__init__()
        self.norm = paddle.nn.LayerNorm(D, epsilon=epsilon)

    def forward(self, x):
        return self.norm(x * 1e-4)


def test_small_numbers_differ_by_their_ratio():
    """An epsilon of 1e-8 and one of 1e-12: beside a variance of 1e-8 the first is half of what is divided by."""
    assert prove(PortedScaled(1e-12), Scaled(1e-12), X)
    (mistake,) = prove(PortedScaled(1e-8), Scaled(1e-12), X).mistakes
    assert "epsilon=1e-08 against eps=1e-12" in mistake.text


def test_rows_in_another_order_of_a_table_that_is_read_whole():
    """What the original looks up is the table itself, row by row: the lookup is not too much, its rows are others."""

    def port(self, x):
        return self.second(x + self.table((paddle.arange(5) + 1) % 5))

    def original(self, x):
        return self.second(x + self.table(torch.arange(5)))

    models = pair(port, original, second=("Linear", D, 3))
    for model, nn in zip(models, (paddle.nn, torch.nn)):
        model.table = nn.Embedding(5, D)
    proof = prove(*models, numbers(2, 5, D))
    assert len(proof.mistakes) == 1, str(proof)
    assert str(proof.mistakes[0].cause) == "another constant"
    assert "in another order" in proof.mistakes[0].text


def test_coordinates_of_a_grid_that_are_exchanged():
    """Both come expanded, as Torch lays them out: how they got there is none of the program's calls."""

    def port(self, x):
        rows, columns = paddle.meshgrid(paddle.arange(5.0), paddle.arange(5.0))
        return self.second(x) + paddle.stack([rows, columns], axis=-1)[:, :3, 0].sin()

    def original(self, x):
        rows, columns = torch.meshgrid(torch.arange(5.0), torch.arange(5.0), indexing="ij")
        return self.second(x) + torch.stack([columns, rows], dim=-1)[:, :3, 0].sin()

    (mistake,) = prove(*pair(port, original, second=("Linear", D, 3)), numbers(2, 5, D)).mistakes
    assert "(arange(end=5.0)) holds 0 at [0, 1] against 1" in mistake.text


def test_the_headline_names_an_output_that_is_wrong_before_one_that_rounds():
    """The first output rounds in another order, the second is wrong."""

    def original(self, x):
        h = self.a(x)
        return {"mean": h.mean(), "parts": h * 2.0, "rest": h * 3.0}

    def port(self, x):
        h = self.a(x)
        return {"mean": h.sum() * (1 / h.numel()), "parts": h * 2.1, "rest": h * 3.0}

    proof = prove(*pair(port, original, a=("Linear", D, D)), X.astype("float32"))
    forward = next(stage for stage in proof.stages if stage.name == "forward")
    assert "parts" in forward.text
    assert "parts" in proof.reason


def test_a_number_that_is_nearly_the_original_s_is_told_with_the_digits_that_differ():
    def original(self, x):
        return self.a(x) * torch.tensor([1.0, 0.1] * 4, dtype=x.dtype)

    def port(self, x):
        return self.a(x) * paddle.to_tensor([1.0, 0.10000004] * 4, x.dtype)

    (mistake,) = prove(*pair(port, original, a=("Linear", D, D)), X, dtype="float64").mistakes
    assert "0.10000004" in mistake.text


@pytest.mark.rows(1)
@pytest.mark.parametrize("right", [True, False])
def test_a_table_in_float32_that_an_operator_reads_has_the_original_s_digits(right):
    """Beside another mistake it was one of its own, of 0.1 against 0.1."""
    rates = np.exp(-np.log(1e4) * np.arange(D // 2) / (D // 2))

    def original(self, x, times):
        rates = torch.exp(-np.log(1e4) * torch.arange(D // 2, dtype=torch.float32) / (D // 2))
        turns = times[:, None].float() * rates
        return self.a(x) + torch.cat([turns.cos(), turns.sin()], -1)

    def port(self, x, times):
        turns = times.astype("float32").unsqueeze(1) * paddle.to_tensor(rates.astype("float32"))
        parts = [turns.cos(), turns.sin()]
        return self.a(x) + paddle.concat(parts if right else parts[::-1], -1)

    proof = prove(*pair(port, original, a=("Linear", D, D)), (X.astype("float32"), np.arange(0, 900, 150)))
    assert bool(proof) is right, str(proof)
    assert [mistake.cause for mistake in proof.mistakes] == ([] if right else [Cause.SWAPPED])


def test_a_length_of_this_input_is_not_written():
    """The original's own ``arange`` counts the input's steps; the port's line has them already."""

    def original(self, x):
        i = torch.arange(x.shape[1])
        return self.mix(x) + self.rows((i[:, None] - i[None]).clamp(-8, 8) + 8).sum(1)

    def port(self, x):
        i = paddle.arange(x.shape[1])
        d = paddle.clip(i.unsqueeze(1) - i.unsqueeze(0), -8, 8) + 8 - 1
        return self.mix(x) + self.rows(d).sum(1)

    (mistake,) = prove(*pair(port, original, rows=("Embedding", 17, 4), mix=("Linear", 4, 4)), numbers(2, 5, 4)).mistakes
    assert mistake.fix is None or "arange(5)" not in mistake.fix.text, mistake


def waves_at_once(self, x, axis):
    turns = self.a(x).unsqueeze(-2) * paddle.to_tensor([1.0, 2.0, 4.0], x.dtype).unsqueeze(-1)
    return self.b(paddle.stack([turns.sin(), turns.cos()], axis).flatten(-3))


def waves_by_turns(self, x):
    h, waves = self.a(x), []
    for turn in 2.0 ** torch.arange(3, dtype=x.dtype):
        waves += [torch.sin(h * turn), torch.cos(h * turn)]
    return self.b(torch.cat(waves, -1))


@pytest.mark.parametrize("axis", [-2, -1])
def test_what_is_joined_in_another_order_is_named_where_it_is_joined(axis):
    """However differently both programs are written up to there."""
    layers = {"a": ("Linear", D, D), "b": ("Linear", 6 * D, 4)}
    proof = prove(*pair(lambda self, x: waves_at_once(self, x, axis), waves_by_turns, **layers), X)
    assert bool(proof) is (axis == -2), str(proof)
    assert [mistake.cause for mistake in proof.mistakes] == ([] if proof else [Cause.ORDER])
    assert proof or "paddle.stack" in proof.mistakes[0].paddle.source


def test_a_table_is_named_where_the_original_takes_its_numbers_one_by_one():
    def port(self, x):
        turns = self.a(x).unsqueeze(-2) * paddle.to_tensor([3.0, 6.0, 12.0], x.dtype).unsqueeze(-1)
        return self.b(paddle.stack([turns.sin(), turns.cos()], -2).flatten(-3))

    layers = {"a": ("Linear", D, D), "b": ("Linear", 6 * D, 4)}
    (mistake,) = prove(*pair(port, waves_by_turns, **layers), X).mistakes
    assert (mistake.cause, "paddle.to_tensor" in mistake.paddle.source) == (Cause.CONSTANT, True)


def test_a_running_mean_says_which_rate_is_another():
    """The original's sum has its factor as alpha=; what it is multiplied by is zeros in a first call."""

    class Original(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.a = torch.nn.Linear(D, D)
            self.register_buffer("mean", torch.zeros(D))

        def forward(self, x):
            h = self.a(x)
            with torch.no_grad():
                self.mean.mul_(0.9).add_(h.mean((0, 1)), alpha=0.1)
            return h - self.mean

    class Port(paddle.nn.Layer):
        def __init__(self):
            super().__init__()
            self.a = paddle.nn.Linear(D, D)
            self.register_buffer("mean", paddle.zeros([D]))

        def forward(self, x):
            h = self.a(x)
            with paddle.no_grad():
                self.mean.set_value(self.mean * 0.99 + h.mean([0, 1]) * 0.01)
            return h - self.mean

    (mistake,) = prove(Port(), Original(), X.astype("float32")).mistakes
    assert (mistake.cause, mistake.write) == (Cause.ATTRIBUTE, "* 0.1")


def test_halves_turned_the_other_way_are_written_with_their_names():
    def original(self, x):
        left, right = self.a(x).chunk(2, -1)
        return torch.cat([-right, left], -1)

    def port(self, x):
        left, right = self.a(x).chunk(2, -1)
        return paddle.concat([right, -left], -1)

    proof = prove(*pair(port, original, a=("Linear", D, D)), X)
    assert proof.mistakes[0].write == "return paddle.concat([-right, left], -1)", str(proof)
