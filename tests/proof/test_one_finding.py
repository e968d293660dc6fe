"""One mistake is one finding: what only follows from it is none of its own, and what is a mistake of its own is not lost."""

import sys
from pathlib import Path

import numpy as np
import paddle
import paddle.nn.functional as PF
import pytest
import torch
import torch.nn.functional as TF
from helpers import classes, pair, thinned
from planting import loaded

from padiff_shim import prove
from padiff_shim.proof.findings import Cause

pytestmark = [pytest.mark.bitexact, pytest.mark.usefixtures("undone")]
D = 12
X = np.random.default_rng(0).standard_normal((2, 5, D))


def block(self, x):
    x = x + self.mix(self.norm1(x))
    x = x + self.down(TF.gelu(self.up(self.norm2(x))))
    x = torch.relu(self.left(x) + x)
    x = (self.left(x) + self.right(x)) * 0.125
    return self.norm3(x + self.mix(x))


class Original(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.blocks = torch.nn.Sequential(Block(), Block())
        self.head = torch.nn.Linear(D, 3)

    def forward(self, x):
        return self.head(self.blocks(x))


def ported_block(self, x):
    """With the mistakes that are in ``wrong``."""
    x = x + (self.norm1(self.mix(x)) if "norm behind" in self.wrong else self.mix(self.norm1(x)))
    x = x + self.down(PF.gelu(self.up(self.norm2(x)), approximate="gelu by tanh" in self.wrong))
    x = PF.relu(self.left(x)) + x if "relu before the sum" in self.wrong else PF.relu(self.left(x) + x)
    left, right = self.left(x), self.right(x)
    x = left * 0.125 + right if "scale of one term" in self.wrong else (left + right) * 0.125
    return x + self.norm3(self.mix(x)) if "norm in front" in self.wrong else self.norm3(x + self.mix(x))


PortedBlock, Block = classes(
    ported_block,
    block,
    **dict.fromkeys(("norm1", "norm2", "norm3"), ("LayerNorm", D)),
    **dict.fromkeys(("mix", "up", "down", "left", "right"), ("Linear", D, D)),
)


class Port(paddle.nn.Layer):
    def __init__(self, wrong=()):
        super().__init__()
        self.blocks = paddle.nn.Sequential(PortedBlock(wrong=wrong), PortedBlock(wrong=wrong))
        self.head = paddle.nn.Linear(D, 3)
        self.wrong = wrong

    def forward(self, x):
        return PF.relu(self.head(self.blocks(x))) if "relu behind" in self.wrong else self.head(self.blocks(x))


MOVED = ["norm behind", "relu before the sum", "scale of one term", "norm in front"]
OTHERS = {"gelu by tanh": "another attribute: approximate", "relu behind": "an op too many: the port calls relu"}


def found(*wrong):
    torch.manual_seed(0)
    proof = prove(Port(wrong), Original(), X, phase="forward", weights="random")  # no two norms alike
    return [str(mistake) for mistake in proof.mistakes], str(proof)


def test_the_port_without_a_mistake_is_right():
    assert found()[0] == []


@pytest.mark.rows(1)
@pytest.mark.parametrize("wrong", MOVED)
def test_an_op_in_another_place_is_one_finding(wrong):
    texts, shown = found(wrong)
    assert len(texts) == 1, shown
    assert "another place: " in texts[0], shown


@pytest.mark.parametrize("wrong", thinned(MOVED, MOVED[0]))
def test_beside_it_every_other_mistake_is_found(wrong):
    texts, shown = found(wrong, *OTHERS)
    assert len(texts) == 3, shown
    assert any("another place: " in text for text in texts), shown
    for other in OTHERS.values():
        assert any(text.startswith(other) for text in texts), shown


@pytest.mark.slow
def test_two_ops_in_other_places_are_two_findings():
    texts, shown = found("norm behind", "relu before the sum")
    assert sum("another place: " in text for text in texts) == len(texts) == 2, shown


class Dropping(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.drop, self.last = torch.nn.Linear(D, D), torch.nn.Dropout(0.25), torch.nn.Linear(D, 3)

    def forward(self, x):
        return self.last(self.drop(torch.relu(self.first(x))))


class PortedDropping(paddle.nn.Layer):
    def __init__(self):
        super().__init__()
        self.first, self.last = paddle.nn.Linear(D, D), paddle.nn.Linear(D, 3)
        self.drop = paddle.nn.Dropout(0.25, mode="downscale_in_infer")

    def forward(self, x):
        return self.last(self.drop(PF.relu(self.first(x))))


@pytest.mark.parametrize("training", [False, True])
def test_a_dropout_that_downscales_is_told_by_its_mode(training):
    """In evaluation it multiplies where Torch does nothing; in training it does not divide."""
    port, original = PortedDropping(), Dropping()
    port.train() if training else port.eval()
    original.train(training)
    proof = prove(port, original, X.astype("float32"))
    (mistake,) = proof.mistakes
    assert str(mistake.cause) == "another attribute"
    assert mistake.write == "mode='upscale_in_train'"
    assert "self.drop(" in mistake.paddle.source


class Pooling(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.conv, self.pool = torch.nn.Conv2d(3, 4, 3), torch.nn.AdaptiveAvgPool2d(4)
        self.drop, self.last = torch.nn.Dropout(0.5), torch.nn.Linear(64, 5)

    def forward(self, x):
        return self.last(self.drop(torch.flatten(self.pool(torch.relu(self.conv(x))), 1)))


class PortedPooling(paddle.nn.Layer):
    def __init__(self):
        super().__init__()
        self.conv, self.last = paddle.nn.Conv2D(3, 4, 3), paddle.nn.Linear(64, 5)
        self.drop = paddle.nn.Dropout(0.5, mode="downscale_in_infer")

    def forward(self, x):
        return self.last(self.drop(paddle.flatten(PF.relu(self.conv(x)), 1)))


def test_an_op_without_effect_is_not_missed():
    """A pooling to the size that it is given, as in torchvision's AlexNet."""
    port, original = PortedPooling(), Pooling().eval()
    port.eval()
    (mistake,) = prove(port, original, np.random.default_rng(0).standard_normal((2, 3, 6, 6)).astype("float32")).mistakes
    assert mistake.write == "mode='upscale_in_train'"


def gated(self, x):
    x = self.first(x)
    return self.last(torch.tanh(x) * torch.sigmoid(x).detach())


def ported_gated(self, x):
    x = self.first(x)
    return self.last(paddle.tanh(x) * PF.sigmoid(x))


PortedGated, Gated = classes(ported_gated, gated, first=("Linear", D, D), last=("Linear", D, 3))


def test_a_gradient_too_many_is_one_finding():
    """Of the ops that go back through a line that lacks its ``detach`` the first one stands for all."""
    (mistake,) = prove(PortedGated(), Gated(), X.astype("float32"), phase="both").mistakes
    assert mistake.cause.name == "GRAPH_GOES_ON"
    assert "PF.sigmoid(x)" in mistake.paddle.source


class Blocks(paddle.nn.Layer):
    """Norms on several lines, and a convolution between them."""

    def __init__(self, epsilon=1e-3, last=1e-3, stride=1):
        super().__init__()
        self.first, self.second = paddle.nn.BatchNorm2D(4, epsilon=epsilon), paddle.nn.BatchNorm2D(4, epsilon=epsilon)
        self.between, self.last = paddle.nn.Conv2D(4, 4, 3, stride=stride, padding=1), paddle.nn.BatchNorm2D(4, epsilon=last)

    def forward(self, x):
        x = PF.relu(self.first(x))
        x = PF.relu(self.second(self.between(x)))
        return self.last(x).mean([2, 3])


class TheirBlocks(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second, self.last = (torch.nn.BatchNorm2d(4, eps=1e-3) for _ in range(3))
        self.between = torch.nn.Conv2d(4, 4, 3, padding=1)

    def forward(self, x):
        x = torch.relu(self.first(x))
        x = torch.relu(self.second(self.between(x)))
        return self.last(x).mean([2, 3])


IMAGES = np.random.default_rng(0).standard_normal((2, 4, 8, 8)).astype("float32") * 0.03


@pytest.mark.rows(1)
@pytest.mark.parametrize("training", [False, True])
def test_a_setting_on_several_lines_is_one_mistake(training):
    port, original = Blocks(epsilon=1e-5, last=1e-5), TheirBlocks()
    (port.train if training else port.eval)(), original.train(training)
    proof = prove(port, original, IMAGES)
    (mistake,) = proof.mistakes
    assert str(mistake) == "another attribute: epsilon=1e-05 against eps=0.001 (write epsilon=0.001) (in 3 layers, on 3 lines)"
    assert proof.complete
    first = mistake.paddle.line
    assert [line for _, line in mistake.also] == [first + 1, first + 2]
    assert all(Path(file).name == Path(__file__).name for file, _ in mistake.also)
    assert f":{first + 1}, " in str(proof)
    assert f":{first + 1}, " in proof.markdown()


@pytest.mark.slow
def test_behind_a_setting_other_mistakes_stay_findings():
    """The port goes on with the attributes, not with the original's values, which would cover what lies between."""
    port = Blocks(epsilon=1e-5, last=1e-4, stride=2)
    proof = prove(port.eval(), TheirBlocks().eval(), IMAGES)
    texts = [str(mistake) for mistake in proof.mistakes]
    assert len(texts) == 3, str(proof)
    for words in ("epsilon=1e-05 against eps=0.001", "stride=[2, 2] against [1, 1]", "epsilon=0.0001 against eps=0.001"):
        assert any(words in text for text in texts), texts


class Angles(torch.nn.Module):
    """Rotary angles of one row of positions, and what comes behind them."""

    def __init__(self):
        super().__init__()
        self.query, self.key = torch.nn.Linear(8, 8), torch.nn.Linear(8, 8)

    def forward(self, x):
        angles = (torch.arange(4.0)[None, :, None] @ torch.tensor([[[1.0, 0.1]]])).repeat(1, 1, 4)
        query, key = self.query(x) * angles.cos(), self.key(x) * angles.sin()
        return torch.softmax(query @ key.transpose(1, 2) * 8**-0.5, -1)


class PortedAngles(paddle.nn.Layer):
    """The same of a row for each sample, with a cache that is empty at first."""

    def __init__(self, scale=8**-0.5, base=0.1):
        super().__init__()
        self.query, self.key = paddle.nn.Linear(8, 8), paddle.nn.Linear(8, 8)
        self.scale, self.base = scale, base

    def forward(self, x):
        steps = paddle.arange(4, dtype="float32").unsqueeze([0, -1]).expand([len(x), 4, 1])
        angles = paddle.matmul(steps, paddle.to_tensor([[[1.0, self.base]]]).expand([len(x), 1, 2])).tile([1, 1, 4])
        mixed = self.key(x)
        paddle.reshape_(mixed, [0, 0, 1, 8])
        key = paddle.concat([paddle.empty([len(x), 0, 8], x.dtype), mixed.reshape([0, 0, 8]) * angles.sin()], axis=1)
        query = self.query(x) * angles.cos()
        return PF.softmax(paddle.matmul(query, key.transpose([0, 2, 1])) * self.scale, -1)


ROWS = np.random.default_rng(0).standard_normal((3, 4, 8)).astype("float32")


@pytest.mark.parametrize(("wrong", "words"), [({"scale": 0.25}, "* 0.25 against * 8 ** -0.5"), ({"base": 0.2}, "another constant")])
def test_what_is_made_for_each_sample_or_once_for_all_is_no_finding(wrong, words):
    assert prove(PortedAngles(), Angles(), ROWS, phase="forward")
    proof = prove(PortedAngles(**wrong), Angles(), ROWS, phase="forward")
    (mistake,) = proof.mistakes
    assert words in str(mistake), str(proof)
    assert proof.complete


class Decoder(torch.nn.Module):
    """Positions that are counted in floats, a mask, norms of queries and keys."""

    def __init__(self):
        super().__init__()
        self.words, self.kinds, self.places = (torch.nn.Embedding(size, 8) for size in (20, 2, 16))
        self.query, self.key, self.value = (torch.nn.Linear(8, 8) for _ in range(3))
        self.query_norm, self.key_norm = (torch.nn.Parameter(torch.rand(8) + 0.5) for _ in range(2))

    def norm(self, x, weight):
        return weight * (x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6))

    def forward(self, tokens):
        counted = torch.ones(tokens.shape).cumsum(1)
        x = self.words(tokens) + self.kinds(torch.zeros_like(tokens))
        x = x + self.places((counted - 1).long() + 2)
        mask = torch.triu(torch.full((tokens.shape[1],) * 2, torch.finfo(x.dtype).min), diagonal=1) * 1.0
        query, key = self.norm(self.query(x), self.query_norm), self.norm(self.key(x), self.key_norm)
        return torch.softmax(query @ key.transpose(1, 2) * 8**-0.5 + mask[None], -1) @ self.value(x)


class PortedDecoder(paddle.nn.Layer):
    def __init__(self, offset=2, epsilon=1e-6, exchanged=False):
        super().__init__()
        self.words, self.kinds, self.places = (paddle.nn.Embedding(size, 8) for size in (20, 2, 16))
        self.query, self.key, self.value = (paddle.nn.Linear(8, 8) for _ in range(3))
        self.query_norm, self.key_norm = (self.create_parameter([8]) for _ in range(2))
        self.offset, self.epsilon, self.exchanged = offset, epsilon, exchanged

    def norm(self, x, weight):
        return x * paddle.rsqrt(x.pow(2).mean(-1, keepdim=True) + self.epsilon) * weight

    def forward(self, tokens):
        counted = paddle.ones(tokens.shape, "int64").cumsum(1)
        x = self.words(tokens) + self.places(counted - 1 + self.offset)
        x = x + self.kinds(paddle.zeros_like(tokens))
        visible = paddle.tril(paddle.ones([len(tokens), tokens.shape[1], tokens.shape[1]], "bool"))
        mask = paddle.where(visible, paddle.to_tensor(0.0), paddle.to_tensor(-1e9))
        query = self.norm(self.query(x), self.query_norm)
        key = self.norm(self.key(x), self.query_norm if self.exchanged else self.key_norm)
        return paddle.matmul(PF.softmax(paddle.matmul(query, key.transpose([0, 2, 1])) * 8**-0.5 + mask, -1), self.value(x))


SENTENCES = np.random.default_rng(0).integers(0, 20, (3, 6))


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"offset": 1}, "indices holds 1 at [0, 0] against 2"),
        ({"epsilon": 1e-4}, "+ 0.0001 against + 1e-06"),
        ({"exchanged": True}, "comes from query_norm, in the original from key_norm"),
    ],
    ids=["positions", "epsilon", "norms"],
)
def test_positions_masks_and_norms_that_are_written_otherwise_are_no_findings(wrong, words):
    right = prove(PortedDecoder(), Decoder(), SENTENCES, phase="forward")
    assert right, right
    proof = prove(PortedDecoder(**wrong), Decoder(), SENTENCES, phase="forward")
    (mistake,) = proof.mistakes
    assert words in str(mistake), str(proof)
    assert proof.complete


def normed(self, x):
    return self.last(torch.softmax(self.first(x), -1) + 1e-2)


def ported_normed(self, x):
    m = self.first(x)
    m = paddle.exp(m - m.max(-1, keepdim=True))
    return self.last(m / (m.sum(-1, keepdim=True) + 1e-2))


PortedNormed, Normed = classes(ported_normed, normed, first=("Linear", D, D), last=("Linear", D, 3))


def test_a_formula_by_hand_that_is_wrong_is_one_finding_with_its_name():
    (mistake,) = prove(PortedNormed(), Normed(), X.astype("float32")).mistakes
    assert mistake.cause.name == "OTHER_OP"
    assert "softmax" in mistake.text
    assert "m.max" in mistake.paddle.source


def test_a_norm_before_the_last_sum_of_a_model_is_one_finding():
    def port(self, x):
        return x + self.n(self.a(x))

    def original(self, x):
        return self.n(x + self.a(x))

    (mistake,) = prove(*pair(port, original, a=("Linear", D, D), n=("LayerNorm", D)), X).mistakes
    assert (mistake.cause, mistake.paddle.line) == (Cause.PLACE, port.__code__.co_firstlineno + 1)


MASKED = """\
import paddle


class Model(paddle.nn.Layer):
    def __init__(self):
        super().__init__()
        self.a = paddle.nn.Linear(12, 1)

    def forward(self, x, lengths):
        mask = paddle.arange(5).unsqueeze(0) > lengths.unsqueeze(1)
        keeps = (~mask).astype("float64")
        scores = paddle.where(mask, paddle.full([], -1e9, "float64"), self.a(x)[..., 0])
        return paddle.nn.functional.softmax(scores, -1), (x * keeps.unsqueeze(-1)).sum(1) / keeps.sum(1, keepdim=True)
"""


class Masked(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.a = torch.nn.Linear(D, 1)

    def forward(self, x, lengths):
        mask = torch.arange(5)[None] >= lengths[:, None]
        scores = self.a(x)[..., 0].masked_fill(mask, -1e9)
        return scores.softmax(-1), (x * ~mask[..., None]).sum(1) / (~mask).sum(1, keepdim=True)


@pytest.mark.skipif(sys.version_info < (3, 11), reason="lines are not exchanged in memory")
def test_a_comparison_of_a_mask_that_several_calls_read_is_one_finding(tmp_path):
    (tmp_path / "masked.py").write_text(MASKED)
    torch.manual_seed(0)
    models = loaded(tmp_path / "masked.py").Model(), Masked()
    (mistake,) = prove(*models, (X, np.array([5, 3])), dtype="float64").mistakes
    assert (mistake.cause, mistake.paddle.line) == (Cause.OTHER_OP, 10)
    assert mistake.write == "mask = paddle.arange(5).unsqueeze(0) >= lengths.unsqueeze(1)"


@pytest.mark.rows(2)
@pytest.mark.parametrize("ends", [("itself", "relu"), ("relu", "itself"), ("relu", "tanh"), ("relu", "relu")])
def test_one_tensor_in_the_place_of_two_results_is_one_finding(ends):
    def original(self, x):
        h = self.a(x)
        return [h if end == "itself" else getattr(h, end)() for end in ends]

    def port(self, x):
        h = self.a(x)
        return [h, h]

    (mistake,) = prove(*pair(port, original, a=("Linear", D, D)), X).mistakes
    assert (mistake.cause, len(mistake.layers)) == (Cause.MISSING, 1), mistake
