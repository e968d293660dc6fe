"""``random="torch"`` beside the other options: filters, nesting, threads, forks, decorators, and what is traced."""

import threading

import numpy as np
import paddle
import paddle.nn.functional as F
import pytest
import torch
from helpers import in_child, needs, same

import padiff_shim
from padiff_shim.table.reasons import DRAWN, FILTERED, RANDOM

pytestmark = [pytest.mark.compat, pytest.mark.bitexact]


def native(program):
    """What the program draws without a mode, after a seed."""
    paddle.seed(5)
    return program()


def drawn():
    return [paddle.rand([3]).numpy(), F.dropout(paddle.ones([9]), 0.5).numpy(), paddle.randint(0, 9, [4]).numpy()]


def equal(ours, theirs):
    return all(np.array_equal(result, other) for result, other in zip(ours, theirs, strict=True))


def theirs():
    torch.manual_seed(5)
    return [torch.rand(3).numpy(), torch.dropout(torch.ones(9), 0.5, True).numpy(), torch.randint(0, 9, (4,)).numpy()]


@pytest.mark.parametrize("exclude", [["random", "dropouts"], ["uniform", "dropout", "randint"]])
def test_what_is_excluded_stays_paddle_s(exclude):
    expected = native(drawn)
    with padiff_shim.reference("torch", random="torch", exclude=exclude) as run:
        paddle.seed(5)
        assert equal(drawn(), expected)
    assert run.native == {name: {FILTERED.text: 1} for name in ("uniform", "dropout", "randint")}


def test_the_innermost_mode_decides():
    expected = native(drawn)
    with padiff_shim.reference("torch", random="torch") as outer:
        paddle.seed(5)
        with padiff_shim.reference("torch", random="paddle") as inner:
            paddle.seed(5)
            assert equal(drawn(), expected)
        assert equal(drawn(), theirs())
    assert inner.native == {"uniform": {DRAWN.text: 1}, "dropout": {RANDOM.text: 1}, "randint": {DRAWN.text: 1}}
    assert not outer.native


def test_a_comparison_lists_draws_that_have_operands():
    expected = native(drawn)
    with padiff_shim.reference("torch", random="torch"), padiff_shim.compare("torch", progress=False) as run:
        paddle.seed(5)
        assert equal(drawn(), expected)
    assert set(run.coverage()["unchecked_ops"]) == {"dropout"}


def test_threads_draw_where_the_mode_is_open_for_them():
    def work():
        paddle.seed(5)
        results.append(drawn())

    expected, results = native(drawn), []
    for everywhere in (False, True):
        with padiff_shim.reference("torch", random="torch", all_threads=everywhere):
            thread = threading.Thread(target=work)
            thread.start()
            thread.join()
    assert equal(results[0], expected)
    assert equal(results[1], theirs())


def test_a_forked_child_draws_paddle_s_numbers():
    printed = in_child(
        """
        import os, sys
        import numpy as np
        paddle.seed(5)
        expected = paddle.rand([3]).numpy()
        with padiff_shim.reference("torch", random="torch"):
            child = os.fork()
            if not child:
                paddle.seed(5)
                before = torch.get_rng_state()
                same = np.array_equal(paddle.rand([3]).numpy(), expected)
                os._exit(0 if same and torch.equal(before, torch.get_rng_state()) else 3)
            sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
        """
    )
    assert printed.returncode == 0, printed.stderr


def test_static_programs_draw_natively():
    with padiff_shim.reference("torch", random="torch"):
        before = torch.get_rng_state()
        paddle.enable_static()
        try:
            with paddle.static.program_guard(paddle.static.Program(), paddle.static.Program()):
                F.dropout(paddle.rand([3, 4]), 0.5)
                paddle.static.nn.fc(paddle.randn([3, 4]), 2)
        finally:
            paddle.disable_static()
        assert torch.equal(torch.get_rng_state(), before)


@needs("nn.functional.dropout inplace")
def test_dropout_in_place():
    x = paddle.to_tensor(np.ones(20, "float32"), stop_gradient=False)
    with padiff_shim.reference("torch", random="torch") as run:
        paddle.seed(5)
        y = x * 2
        assert F.dropout(y, 0.5, inplace=True) is y
        (y * y).sum().backward()
    torch.manual_seed(5)
    leaf = torch.ones(20, requires_grad=True)
    other = torch.nn.functional.dropout(leaf * 2, 0.5, inplace=True)
    (other * other).sum().backward()
    assert same(y, other)
    assert same(x.grad, leaf.grad)
    assert run.substituted["dropout"] == 1


def test_what_is_asked_of_a_kernel_draws_nothing():
    """The first call of each kind is run once more, to learn what its backward reads: not by Torch's generator, nor Paddle's."""
    paddle.seed(3)
    expected = paddle.rand([3]).numpy()
    paddle.seed(3)
    torch.manual_seed(3)
    x = paddle.to_tensor(np.ones((2, 3), "float32"), stop_gradient=False)
    with padiff_shim.reference("torch", random="torch"):
        for p in (0.5, 0.25):
            F.dropout(x, p)
            F.gumbel_softmax(x, p)
    assert np.array_equal(paddle.rand([3]).numpy(), expected)
    after = torch.rand(3)
    torch.manual_seed(3)
    for p in (0.5, 0.25):
        torch.dropout(torch.ones(2, 3), p, True)
        torch.nn.functional.gumbel_softmax(torch.ones(2, 3), p)
    assert torch.equal(after, torch.rand(3))
