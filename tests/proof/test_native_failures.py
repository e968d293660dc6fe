"""A kernel of Paddle's that fails where Torch's does not: the code is judged all the same, and the failure told with its line."""

import inspect

import forked
import numpy as np
import paddle
import pytest
import torch
from helpers import classes

from padiff_shim import AlignmentVerdict, ProofVerdict, prove
from padiff_shim.dispatch.frames import below, top
from padiff_shim.proof.findings import Cause

pytestmark = [pytest.mark.bitexact, pytest.mark.usefixtures("undone")]
X = np.random.default_rng(0).standard_normal((5, 4)).astype("float32")
HERE = "test_native_failures.py:"


def natively():
    """Whether Paddle's kernels answer here, in whatever mode."""
    frame = top()
    if frame is not None and hasattr(frame.plan, "_writer"):  # one that records
        frame = below()
    return frame is None or getattr(frame.plan, "_native", False)


class Original(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.last = torch.nn.Linear(4, 3), torch.nn.Linear(3, 2)

    def forward(self, x):
        return self.last(torch.tanh(self.first(x)))


class InForward(paddle.nn.Layer):
    """An op of its forward fails natively, from the ``after``-th native forward on."""

    def __init__(self, act=paddle.tanh, after=0):
        super().__init__()
        self.first, self.last, self.act, self.left = paddle.nn.Linear(4, 3), paddle.nn.Linear(3, 2), act, after

    def forward(self, x):
        out = self.act(self.first(x))
        if natively():
            if not self.left:
                raise RuntimeError("(NotFound) the kernel is not registered")
            self.left -= 1
        return self.last(out)


LINE = inspect.getsourcelines(InForward.forward)[1] + 4  # of the raise


class Broken(paddle.autograd.PyLayer):
    @staticmethod
    def forward(ctx, x):
        return x * 1

    @staticmethod
    def backward(ctx, gradient):
        raise ValueError("(NotFound) no kernel for this gradient")


class InBackward(InForward):
    """Its backward alone fails natively."""

    def forward(self, x):
        out = self.act(self.first(x))
        return self.last(Broken.apply(out) if natively() else out)


TRAINING = {"phase": "train", "optimizer": "AdamW", "loss": lambda out: (out**2).mean(), "steps": 3}
PHASES = {"forward": {"phase": "forward"}, "both": {"phase": "both"}, "train": TRAINING}


@pytest.mark.parametrize("phase", PHASES)
def test_a_port_that_fails_natively_is_proven_all_the_same(phase):
    proof = prove(InForward(), Original(), X, **PHASES[phase])
    assert proof.verdict is ProofVerdict.CODE_CORRECT, str(proof)
    assert proof.differences["native"] is None
    assert "(NotFound)" in proof.notes[0]
    assert f"{HERE}{LINE})" in proof.notes[0]
    assert {row.native for row in proof.layers} == {None}
    assert "fails" in str(proof)
    assert "fails" in proof.markdown()
    assert ">fails<" in proof.html()
    assert proof.to_dict()["differences"]["native"] is None


@pytest.mark.parametrize("phase", PHASES)
def test_the_mistakes_of_a_port_that_fails_natively_are_found(phase):
    proof = prove(InForward(paddle.sin), Original(), X, **PHASES[phase])
    assert proof.verdict is ProofVerdict.CODE_DIFFERS
    (mistake,) = proof.mistakes
    assert mistake.cause is Cause.OTHER_OP
    assert "self.act(self.first(x))" in mistake.paddle.source
    assert "(NotFound)" in " ".join(proof.notes)


def test_a_training_whose_backward_fails_natively_shows_the_native_forward():
    proof = prove(InBackward(), Original(), X, **TRAINING)
    assert proof.verdict is ProofVerdict.CODE_CORRECT, str(proof)
    assert len(proof.training) == 3
    assert all(row.identical and row.native is None for row in proof.training)
    assert all(row.native is not None and row.native < 1e-5 for row in proof.layers)
    assert proof.differences["native"] < 1e-5
    assert "(NotFound)" in proof.notes[0]


def test_a_training_that_fails_natively_at_a_later_step_is_compared_up_to_there():
    proof = prove(InForward(after=2), Original(), X, **TRAINING)
    assert proof.verdict is ProofVerdict.CODE_CORRECT, str(proof)
    assert [row.native is None for row in proof.training] == [False, False, True]


def test_carriers_of_what_fails_natively_say_so():
    proof = prove(InForward(), Original(), X)
    carried = proof.carriers()
    assert not carried.rows
    assert "(NotFound)" in carried.failed
    assert HERE in carried.failed
    for page in (str(proof), proof.markdown(), proof.html()):
        assert "(NotFound)" in page


@pytest.mark.parametrize("phase", ["forward", "both"])
@pytest.mark.parametrize("calls", [False, True])
def test_a_drift_without_its_native_column_keeps_the_others(phase, calls):
    drifts = prove(InForward(), Original(), X, phase=phase).drift(calls=calls)
    assert drifts.rows
    assert all(row.native is None and row.substituted.identical for row in drifts.rows)
    assert ("both" in phase) is any(row.of_gradient for row in drifts.rows)
    assert calls is any(row.kind == "call" for row in drifts.rows)
    assert "natively it fails" in drifts.answer
    assert f"{HERE}{LINE})" in drifts.notes[0]
    assert "fails" in str(drifts)
    assert "fails" in drifts.markdown()
    assert "native" not in drifts.largest


@pytest.mark.parametrize("calls", [False, True])
def test_a_drift_whose_native_backward_fails_keeps_its_native_forward(calls):
    drifts = prove(InBackward(), Original(), X).drift(calls=calls)
    forward, back = ([row for row in drifts.rows if row.of_gradient is of_gradient] for of_gradient in (False, True))
    assert forward
    assert all(row.native is not None and row.native.max_abs < 1e-5 for row in forward)
    assert back
    assert all(row.native is None and row.substituted.identical for row in back)
    assert "(NotFound)" in drifts.notes[0]


def test_an_error_of_the_model_itself_is_raised_unchanged():
    class Wrong(InForward):
        def forward(self, x):
            raise KeyError("the model's own")

    with pytest.raises(KeyError, match="the model's own"):
        prove(Wrong(), Original(), X)
    with pytest.raises(KeyError, match="the model's own"):
        prove(Wrong(), Original(), X, **TRAINING)


OUT = {
    "numpy": lambda: np.empty(1 << 50),
    "paddle": lambda: paddle.empty([1 << 42]),
    "torch": lambda: torch.empty(1 << 50),
}


@pytest.mark.parametrize("framework", OUT)
def test_memory_that_runs_out_is_no_kernels_doing(framework, monkeypatch):
    """Natively: the error itself. In float64: whether it is rounding is not known, and what to do is said."""

    class Greedy(InForward):
        def __init__(self, when):
            super().__init__(act=lambda x: paddle.tanh(x + 4.0 - 4.0), after=1000)  # drops digits, whatever x is
            self.when = when

        def forward(self, x):
            if self.when(x):
                OUT[framework]()
            return super().forward(x)

    proof = prove(Greedy(lambda x: x.dtype == paddle.float64), Original(), X)
    assert proof.verdict is ProofVerdict.NOT_COMPARABLE, str(proof)
    assert "memory ran out" in proof.reason
    assert "fewer layers" in proof.reason
    with pytest.raises((MemoryError, RuntimeError), match="alloc"):
        prove(Greedy(lambda x: natively()), Original(), X)


GRIDS = """
import numpy as np, paddle, torch
from padiff_shim import prove

class Original(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.theta = torch.nn.Linear(9, 6)
    def forward(self, x):
        grid = torch.nn.functional.affine_grid(self.theta(x.flatten(1)).reshape(-1, 2, 3), x.shape, align_corners=True)
        return torch.nn.functional.grid_sample(x, grid, align_corners=True)

class Port(paddle.nn.Layer):
    def __init__(self):
        super().__init__()
        self.theta = paddle.nn.Linear(9, 6)
    def forward(self, x):
        grid = paddle.nn.functional.affine_grid(self.theta(x.flatten(1)).reshape([-1, 2, 3]), x.shape, align_corners=True)
        return paddle.nn.functional.grid_sample(x, grid, align_corners=True)

x = np.random.default_rng(0).standard_normal((2, 1, 3, 3))
for options in ({"phase": "both"}, {"phase": "train", "optimizer": "AdamW", "loss": lambda out: (out**2).mean()}):
    proof = prove(Port(), Original(), x, **options)
    assert proof, str(proof)
    assert 0 <= proof.differences["native"] < 1e-4, proof.differences
    assert all("KaimingUniform" in note for note in proof.notes), proof.notes
assert proof.carriers().failed == ""
print("proven")
"""


def test_a_native_backward_that_ends_the_process_is_asked_for_one_gradient_more():
    """That of a grid alone (docs/defects.md): the image wants none."""
    run = forked.run(["-c", GRIDS], warm=True)
    assert run.stdout.endswith("proven\n"), run.stderr


RESERVE = """
import numpy as np, paddle, torch
from padiff_shim import prove

class Original(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.rnn = torch.nn.LSTM(8, 4, batch_first=True, bidirectional=True)
    def forward(self, x, at):
        return self.rnn(x)[0][torch.arange(3), at].sum()

class Port(paddle.nn.Layer):
    def __init__(self):
        super().__init__()
        self.rnn = paddle.nn.LSTM(8, 4, direction="bidirect")
    def forward(self, x, at):
        return self.rnn(x)[0][paddle.arange(3), at].sum()

x, at = np.random.default_rng(0).standard_normal((3, 5, 8)), np.array([0, 2, 4])
proof = prove(Port().eval(), Original().eval(), (x, at))
print(proof.verdict.name)
"""


def test_a_recurrence_in_evaluation_cannot_go_back_natively():
    """Its reserve, which only a training fills, has no memory: to export it ended the process."""
    run = forked.run(["-c", RESERVE], warm=True)
    assert run.stdout == "CODE_CORRECT\n", run.stdout + run.stderr


def test_without_a_backward_no_gradient_more_is_asked_for():
    """A program may ask its tensors whether they want one."""

    def resampling(self, x):
        grid = paddle.nn.functional.affine_grid(paddle.ones([2, 2, 3]), x.shape, align_corners=True)
        result = paddle.nn.functional.grid_sample(x, grid, align_corners=True)
        stopped.append(result.stop_gradient)
        return result

    def resampled(self, x):
        grid = torch.nn.functional.affine_grid(torch.ones(2, 2, 3), x.shape, align_corners=True)
        return torch.nn.functional.grid_sample(x, grid, align_corners=True)

    Resampling, Resampled = classes(resampling, resampled)

    stopped = []
    assert prove(Resampling(), Resampled(), X[:4, :2].reshape(2, 1, 2, 2), phase="forward")
    assert set(stopped) == {True}


# ---- A backward of Paddle's engine that fails: no frame of the program's is in its error.


class _Shared(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.p = torch.nn.Linear(8, 12, bias=False)

    def forward(self, x):
        return torch.matmul(x, self.p.weight.T.reshape(2, 8, 6)).sum(-1)


class _SharedPort(paddle.nn.Layer):
    def __init__(self):
        super().__init__()
        self.p = paddle.nn.Linear(8, 12, bias_attr=False)

    def forward(self, x):
        shared = self.p.weight.reshape([2, 8, 6])
        return paddle.matmul(x, shared).sum(-1)  # fails to go back


BATCH = np.random.default_rng(0).standard_normal((3, 2, 5, 8)).astype("float32")


def _failing_line():
    return HERE + str(next(at for at, line in enumerate(open(__file__), 1) if "# fails to go back" in line))


def test_a_native_backward_that_fails_has_its_line():
    proof = prove(_SharedPort(), _Shared(), BATCH)
    assert proof.verdict is ProofVerdict.CODE_CORRECT
    assert any(_failing_line() in note for note in proof.notes), proof.notes


def test_what_cannot_be_trained_natively_is_not_right_alone():
    report = prove(_SharedPort(), _Shared(), BATCH, phase="train", optimizer="AdamW", steps=2).report()
    assert report.verdict is AlignmentVerdict.NOT_TRAINABLE
    assert report
    assert _failing_line() in report.answer
