"""Compare mode's options: what is done on a verdict, and which calls are compared."""

import warnings

import numpy as np
import paddle
import pytest
from encoder import model, randn, train

import padiff_shim
from padiff_shim import testing
from padiff_shim.comparison.judge import Judge
from padiff_shim.comparison.sampling import in_steps
from padiff_shim.comparison.shadow import Shadow
from padiff_shim.errors import MismatchError, PadiffShimError, UnknownNameError

pytestmark = pytest.mark.usefixtures("undone")


class TestActions:
    @pytest.mark.parametrize("gradients", [False, True])
    def test_raise(self, gradients):
        x = randn(4, 4)
        with (
            testing.planted("exp", lambda out, *_: out * 1.5, gradients=gradients),
            pytest.raises(MismatchError, match=r"exp .*test_compare_options") as caught,
            padiff_shim.compare("torch", on_mismatch="raise"),
        ):
            paddle.exp(x).sum().backward()
        assert caught.value.record["side"] == "paddle"
        assert caught.value.record["phase"] == ("backward" if gradients else "forward")

    def test_ctrl_c_while_a_gradient_is_judged(self, monkeypatch):
        x = randn(4, 4)
        with padiff_shim.compare("torch") as run:
            total = paddle.exp(x).sum()

            def interrupted(*_, **__):
                raise KeyboardInterrupt

            monkeypatch.setattr(Judge, "__call__", interrupted)
            with pytest.raises(KeyboardInterrupt):
                total.backward()
        assert paddle.is_grad_enabled()
        assert [call.op for call in run.calls] == ["exp", "sum"]
        assert x.grad is not None, "Paddle's backward went on to its end"

    def test_an_error_of_the_callback_reaches_the_program(self):
        def callback(record):
            raise LookupError(record["tensor"])

        x = randn(4, 4)
        with (
            testing.planted("exp", lambda out, *_: out * 1.5, gradients=True),
            pytest.raises(LookupError, match="grad:x"),
            padiff_shim.compare("torch", callback=callback),
        ):
            paddle.exp(x).sum().backward()
        assert paddle.is_grad_enabled()

    def test_warn_once_per_line(self):
        x = randn(4, 4, grad=False)
        with (
            testing.planted("exp", lambda out, *_: out * 1.5),
            warnings.catch_warnings(record=True) as caught,
            padiff_shim.compare("torch", on_mismatch="warn"),
        ):
            warnings.simplefilter("always")
            for _ in range(3):
                paddle.exp(x)
        assert len([w for w in caught if "exp" in str(w.message)]) == 1

    def test_callback_from_a_class_up(self):
        x, seen = randn(4, 4, grad=False), []
        with (
            testing.planted("exp", lambda out, *_: out * 1.5),
            padiff_shim.compare("torch", callback=seen.append, mismatch_from="WRONG"),
        ):
            paddle.exp(x)
            paddle.tanh(x)
        assert [record["op"] for record in seen] == ["exp"]


class TestSampling:
    def compared(self, calls, **options):
        x = randn(3, grad=False)
        with padiff_shim.compare("torch", **options) as run:
            for _ in range(calls):
                paddle.exp(x)
        return run

    def test_every(self):
        run = self.compared(10, every=3)
        assert len(run.calls) == 4
        assert run.coverage()["checked_calls"] == 4
        assert run.coverage()["float_calls"] == 10

    def test_first_then_reservoir(self):
        run = self.compared(300, first=5)
        assert 5 < len(run.calls) < 60
        again = self.compared(300, first=5)
        assert len(again.calls) == len(run.calls), "the reservoir is seeded"

    def test_budget_still_sees_each_kind_once(self):
        xs = [randn(3, size, grad=False) for size in range(1, 6)]
        with padiff_shim.compare("torch", budget=1e-6) as run:
            for _ in range(3):
                for x in xs:
                    paddle.exp(x)
        assert 1 <= len(run.calls) < 15
        assert any("budget" in reason for reason in run.coverage()["unchecked"])

    def test_steps(self):
        net = model(1)
        optimizer = paddle.optimizer.SGD(1e-2, parameters=net.parameters())
        with padiff_shim.compare("torch", steps=range(1, 2)) as run:
            train(net, optimizer, 3)
        assert {call.step for call in run.calls} == {1}

    def test_other_ranks_run_natively(self, monkeypatch):
        monkeypatch.setenv("PADDLE_TRAINER_ID", "1")
        run = self.compared(3, ranks={0})
        assert not len(run.calls)
        assert run.coverage()["checked_calls"] == 0

    @pytest.mark.parametrize(
        ("options", "message"),
        [
            ({"budget": "much"}, "10%"),
            ({"budget": -1}, "10%"),
            ({"every": 0}, "every="),
            ({"first": True}, "first="),
            ({"steps": "all"}, "steps="),
            ({"carry": "padle"}, "native"),
            ({"on_mismatch": "rise"}, "raise"),
            ({"mismatch_from": "BAD"}, "WRONG"),
            ({"callback": 3}, "callback="),
            ({"audit": -1}, "audit="),
            ({"keep_inputs": None}, "keep_inputs="),
        ],
        ids=str,
    )
    def test_bad_arguments_say_what_is_accepted(self, options, message):
        with pytest.raises((PadiffShimError, UnknownNameError), match=message):
            padiff_shim.compare("torch", **options)


@pytest.mark.parametrize("gradients", [False, True])
def test_a_disk_that_fills_up_is_raised_if_asked_for(gradients, monkeypatch):
    x = randn(4, 4)
    with padiff_shim.compare("torch", on_log_error="raise") as run:
        total = paddle.exp(x).sum()

        class Full:
            def write(self, data):
                raise OSError(28, "No space left on device")

            def close(self):
                pass

        monkeypatch.setattr(run.recorder.log, "_file", Full())
        with pytest.raises(padiff_shim.LogError, match="No space"):
            total.backward() if gradients else paddle.exp(x)
    assert paddle.is_grad_enabled()


@pytest.mark.parametrize("mode", [padiff_shim.reference, padiff_shim.compare])
def test_programs_that_to_static_traces_run_in_a_mode(mode):
    """Paddle's bytecode tracer must not try to trace what stands behind the hooks."""
    net = paddle.nn.Linear(8, 8)
    x = randn(2, 8, grad=False)
    expected = net(x).numpy()
    traced = paddle.jit.to_static(net)
    with mode("torch"):
        first = traced(x).numpy()
    np.testing.assert_allclose(first, expected, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(traced(x).numpy(), expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    ("steps", "compared"),
    [(slice(0, 3), [0, 1, 2]), (slice(1, None, 2), [1, 3, 5]), (slice(2, 5, 2), [2, 4]), (range(1, 3), [1, 2]), (4, [4])],
)
def test_steps_are_those_of_python(steps, compared):
    """A slice ends before its end."""
    chosen = in_steps(steps)
    assert [step for step in range(6) if chosen(step)] == compared


def test_a_tensor_that_is_written_in_place_has_no_shadow_of_its_old_values():
    shadow, tensor, beside = Shadow(), paddle.ones([2]), paddle.zeros([2])
    shadow.put(tensor, beside)
    assert shadow.of(tensor) is beside
    tensor.add_(paddle.ones([2]))
    assert shadow.of(tensor) is None
