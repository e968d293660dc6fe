"""Random programs are the same under the shim; and the machinery that says so sees a difference."""

import os
import subprocess
import sys
from pathlib import Path

import paddle
import pytest
from fuzz.__main__ import block
from fuzz.check import Progress, differing, quiet
from fuzz.execute import Plan, whole
from fuzz.generate import Program
from fuzz.values import rounding_decides
from helpers import PATIENCE

from padiff_shim import testing

TESTS = Path(__file__).resolve().parents[1]


@pytest.mark.slow
def test_random_programs():
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(TESTS.parent), str(TESTS)])}
    command = [sys.executable, "-m", "fuzz", "--programs", "300", "--workers", "1"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=PATIENCE)
    assert done.returncode == 0, done.stdout + done.stderr[-2000:]


def test_a_block_that_dies_is_told(tmp_path, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    seen = []
    found = block(tmp_path / "0", 3, 16, "7/0", seen.append)
    assert found.startswith("block 7/0 of 3 programs:")
    assert "No module named 'fuzz'" in found
    assert "ended with status 1 while it ran\nnothing" in found
    assert seen[-1] == 0


PROGRAM = ["t1 = make([3, 4], 'float32', 1, True)", "t2 = paddle.tanh(t1)", "t2.sum().backward()"]
# What a shim that does harm might do, written into the program itself.
HARM = {
    "value": "t3 = paddle.tanh(t1) * (1.01 if modes.top() else 1.0)",
    "grad": "(t2 * (1.01 if modes.top() else 1.0)).sum().backward()",
    "errors": "assert not modes.top()",
    "stop_gradient": "t2.stop_gradient = modes.top() is not None",
    "seen": "t1.register_hook(watch('t1')) if modes.top() else None; t2.sum().backward()",
    "left behind": "paddle.set_grad_enabled(False) if modes.top() else None",
}


def found(plan, *more):
    with quiet(), paddle.enable_grad():
        return differing([*PROGRAM[:2], *more, *PROGRAM[2:]], plan, {}, Progress())[0]


@pytest.mark.parametrize("kind", ["compare", "reference"])
@pytest.mark.parametrize("what", HARM)
def test_harm_is_seen(kind, what):
    lines = ("from padiff_shim.dispatch import frames as modes", HARM[what])
    assert any(what in line for line in found(whole(kind), *lines))


@pytest.mark.parametrize("gradients", [False, True])
def test_an_accusation_is_seen(gradients):
    with testing.planted("tanh", lambda tensor, *_: tensor * 0.5, side="torch", gradients=gradients):
        assert any(line.startswith("accused") for line in found(whole("compare")))
    assert found(whole("compare")) == []


def test_a_view_between_two_elements_is_compared_where_bits_are():
    harm = "t3 = paddle.tanh(t1) * (1.0 + 2.0**-23 if modes.top() else 1.0)"  # rounding, but for who reads the middle of a number
    lines = ("from padiff_shim.dispatch import frames as modes", harm, "t4 = paddle.as_strided(t3, [2], [1], 1)")
    assert found(whole("reference"), *lines) == []
    assert any(line.startswith("t4.value") for line in found(whole("compare"), *lines))


def test_a_mode_that_is_left_open_or_closed_early_changes_nothing():
    assert found(Plan("around the backward", {2: [("open", "reference", "m0", "")]})) == []
    assert found(Plan("around the forward", {0: [("open", "reference", "m0", "")], 2: [("close", "m0")]})) == []


def test_what_a_refused_backward_has_freed_is_made_anew_before_the_next_line_is_drawn():
    with quiet(), paddle.enable_grad():
        program = Program(lambda n: 0, Progress())
        for line in (*PROGRAM, "t3 = Twice.apply(t2)"):
            program.add(line)
        walked = program.scope["t3"]
        program.add("t3.sum().backward()")
    assert program.lines[-1] == "t3 = Twice.apply(t2)"
    assert program.scope["t3"] is not walked


@pytest.mark.parametrize(
    ("numbers", "decides"), [([0.0, 1e-9, 0.5], False), ([0.5, 1.9999999], True), ([float("nan"), float("inf")], False)]
)
def test_no_integer_is_cut_out_of_what_lies_beside_one(numbers, decides):
    assert rounding_decides(paddle.to_tensor(numbers)) is decides
    assert not rounding_decides(paddle.to_tensor([1, 2]))
