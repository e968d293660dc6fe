"""Whatever a result shows of both sides stands in one order: Paddle first, Torch second."""

import numpy as np
import paddle
import pytest
import torch

import padiff_shim
from padiff_shim.present.document import Findings, Folded, Only, Section, Table

SIDES = [("paddle", "torch"), ("port", "original"), ("native", "torch's kernels"), ("native", "substituted")]
X = np.random.default_rng(0).standard_normal((4, 6)).astype("float32")


class Original(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.up, self.norm = torch.nn.Linear(6, 6), torch.nn.LayerNorm(6)

    def forward(self, x):
        return torch.nn.functional.silu(self.norm(self.up(x)))


class Port(paddle.nn.Layer):
    def __init__(self, epsilon=1e-5):
        super().__init__()
        self.up, self.norm = paddle.nn.Linear(6, 6), paddle.nn.LayerNorm(6, epsilon=epsilon)

    def forward(self, x):
        x = self.norm(self.up(x))
        return x * paddle.nn.functional.sigmoid(x)


def mean(out):
    return out.mean()


@pytest.fixture(scope="module")
def results():
    torch.manual_seed(0)
    optimizers = (
        lambda port: paddle.optimizer.SGD(0.1, parameters=port.parameters()),
        lambda original: torch.optim.SGD(original.parameters(), 0.1),
    )
    wrong = padiff_shim.prove(Port(1e-3), Original(), X)
    trained = padiff_shim.prove(Port(), Original(), X, phase="train", optimizer=optimizers, loss=mean, steps=2)
    trained.carriers()
    with padiff_shim.compare("torch") as compared:
        Port()(paddle.to_tensor(X))
    return {
        "a wrong port": wrong,
        "a right port that trains": trained,
        "alignment": padiff_shim.prove(Port(), Original(), X, loss=mean, phase="train", optimizer="AdamW", steps=10).report(),
        "drift": padiff_shim.prove(Port(), Original(), X, phase="both").drift(),
        "bits": padiff_shim.prove(Port(), Original(), X).bits(),
        "weights from Torch": padiff_shim.transfer_weights(Original(), Port()),
        "weights from Paddle": padiff_shim.transfer_weights(Port(), Original()),
        "comparison": compared,
    }


def parts_of(parts):
    for part in parts:
        yield part
        if isinstance(part, (Only, Section, Folded)):
            yield from parts_of(part.parts)


def in_order(heads):
    """Whether of each pair of sides Paddle's is named first."""
    places = [[min((at for at, head in enumerate(heads) if side in head.lower()), default=None) for side in pair] for pair in SIDES]
    return all(None in pair or pair[0] <= pair[1] for pair in places)


def test_paddle_stands_before_torch(results):
    tables = findings = 0
    for name, result in results.items():
        for part in parts_of(result.document().parts):
            if isinstance(part, Table):
                heads = [column.head for column in part.columns]
                tables += any(side in head.lower() for head in heads for pair in SIDES for side in pair)
                assert in_order(heads), (name, heads)
            elif isinstance(part, Findings):
                for finding in part.findings:
                    sides = [place.side for place in finding.places]
                    findings += len(sides) == 2
                    assert sides == sorted(sides), (name, sides)
        markdown = [line for line in result.markdown().splitlines() if line.startswith("| ")]
        assert all(in_order(line.split("|")) for line in markdown if "|" in line and not any(c.isdigit() for c in line)), name
    assert tables >= 10
    assert findings >= 2


def test_answers_have_a_badge(results):
    badges = {name: result.document().badge()[0] for name, result in results.items()}
    assert badges.pop("comparison") in ("ROUNDING", "EQUAL")
    assert {name: badge for name, badge in badges.items() if badge} == {
        "a wrong port": "CODE_DIFFERS",
        "a right port that trains": "CODE_CORRECT_WITHIN_ROUNDING",
        "alignment": "RIGHT",
        "bits": "CODE_CORRECT_WITHIN_ROUNDING",
    }


def test_the_order_is_looked_at():
    assert in_order(["layer", "paddle", "torch"])
    assert not in_order(["layer", "original, Torch", "port, Paddle"])
    assert not in_order(["step", "on Torch's kernels", "native"])
