"""What stands around a model: each works in every mode, or stays native and the run says why; docs/support.md has their rows."""

import contextlib
import pathlib
import re
import subprocess
import sys

import numpy as np
import pytest
from helpers import ROOT, in_child, in_turn
from surroundings import SURROUNDINGS

import padiff_shim
from padiff_shim.frameworks.versions import IS_3
from padiff_shim.runlog.counts import SECOND_UNCHECKED, WRITE_UNCHECKED

# What is seen of each beside its ops: the reasons of calls that have to stay native. Random numbers and updates are natural.
NATIVE = {
    "to_static_ast": "compiled program",
    "jit_save_and_load": "compiled program",
    "static_program": "static program",
    "predictor": "static program (paddle.inference)",
    "quantisation_aware": "quantised arithmetic",
    "quantised_after_training": "quantised arithmetic",
}
# Gradients that comparing does not judge: of rows that are put together under create_graph, and of states that are assigned.
UNCHECKED = {
    "incubate_functions": SECOND_UNCHECKED,
    "quantisation_aware": WRITE_UNCHECKED,
}
EXPECTED = ("random numbers", "optimizer update", "integer or bool result", *NATIVE.values())
MODES = {
    "reference": lambda: padiff_shim.reference("torch", optimizer="torch"),
    "compare": lambda: padiff_shim.compare("torch", progress=False),
    "carry": lambda: padiff_shim.compare("torch", carry="torch", progress=False),
}
pytestmark = pytest.mark.skipif(not IS_3, reason="these programs are written for Paddle 3")


def outcome(program):
    """Its arrays, or the error with which Paddle refuses it here."""
    try:
        return [np.asarray(value, "float64") for value in program()]
    except Exception as error:
        return type(error), str(error).strip().splitlines()[-1:]


@pytest.fixture(scope="module")
def native():
    return {name: outcome(program) for name, program in SURROUNDINGS.items()}


@pytest.mark.rows(6)
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(("name", "mode"), in_turn(SURROUNDINGS, MODES))
def test_it_works_as_natively(name, mode, native, undone):
    with MODES[mode]() as run:
        results = outcome(SURROUNDINGS[name])
    assert type(results) is type(native[name]), results
    if isinstance(results, tuple):
        assert results == native[name]
        return
    for ours, theirs in zip(results, native[name]):
        # A step of AdamW turns the sign of a tiny gradient into a whole step, and a quantised value jumps by one unit of 127.
        # Mixed precision acts in reference mode alone: natively it is off on a CPU.
        acts = name == "scaled_mixed_precision" and mode == "reference"
        np.testing.assert_allclose(ours, theirs, rtol=1e-3, atol=1e-2 if acts else 2e-4)
        assert mode != "compare" or np.array_equal(ours, theirs), "comparing changes no bit"
    reasons = {reason for listed in run.native.values() for reason in listed}
    unchecked = {UNCHECKED[name]} if name in UNCHECKED and mode != "reference" else set()
    assert not [reason for reason in reasons - unchecked if not reason.startswith(EXPECTED)], reasons
    assert mode != "compare" or unchecked <= reasons
    if name in NATIVE:
        assert [reason for reason in reasons if reason.startswith(NATIVE[name])], reasons


def test_what_runs_inside_a_program_is_said():
    for name in ("to_static_ast", "static_program", "predictor"):
        with padiff_shim.reference("torch") as run:
            SURROUNDINGS[name]()
        assert run.warnings, name


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("mode", [padiff_shim.reference, padiff_shim.compare])
@pytest.mark.parametrize("name", ["to_static_ast", "to_static_sot", "to_static_function"])
def test_compiled_functions_run_op_by_op_on_request(name, mode, native, undone):
    with mode("torch", to_static="eager") as run:
        results = SURROUNDINGS[name]()
    assert not run.warnings
    assert not [reason for listed in run.native.values() for reason in listed if "compiled" in reason]
    for ours, theirs in zip(results, native[name]):
        np.testing.assert_allclose(ours, theirs, rtol=1e-3, atol=2e-4)


def test_what_the_tracer_gives_up_on_is_compared():
    """SOT compiles around a call of ours; nothing that Torch imports inside of it is traced, which took minutes."""
    with padiff_shim.compare("torch", progress=False) as run:
        SURROUNDINGS["to_static_sot"]()
    assert "UNVERIFIED" not in run.verdicts
    assert {"gelu", "tanh"} & set(run.by_op())


def test_the_support_page_has_a_row_for_each():
    page = (ROOT / "docs" / "support.md").read_text()
    named = set(re.findall(r"`([a-z_]+)`\s*\|$", page, re.MULTILINE))
    assert named == {*SURROUNDINGS, "custom_op"}


CUSTOM = """
#include "paddle/extension.h"

std::vector<paddle::Tensor> Forward(const paddle::Tensor& x) {
  auto out = paddle::empty_like(x);
  for (int64_t i = 0; i < x.numel(); ++i) out.data<float>()[i] = 2 * x.data<float>()[i];
  return {out};
}

std::vector<paddle::Tensor> Backward(const paddle::Tensor& grad_out) { return Forward(grad_out); }

PD_BUILD_OP(twice).Inputs({"X"}).Outputs({"Out"}).SetKernelFn(PD_KERNEL(Forward));
PD_BUILD_GRAD_OP(twice).Inputs({paddle::Grad("Out")}).Outputs({paddle::Grad("X")}).SetKernelFn(PD_KERNEL(Backward));
"""


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="compiles with g++")
def test_a_custom_op_in_cpp_stays_native_and_its_gradients_go_on(tmp_path):
    for tool in ("g++", "ninja"):
        with contextlib.suppress(FileNotFoundError):
            subprocess.run([tool, "--version"], check=True, capture_output=True)
            continue
        pytest.skip(f"needs {tool}")
    source = pathlib.Path(tmp_path / "twice.cc")
    source.write_text(CUSTOM)
    done = in_child(
        f"""
        from paddle.utils.cpp_extension import load
        ops = load("padiff_custom", sources=[{str(source)!r}], build_directory={str(tmp_path)!r})
        x = paddle.linspace(-1, 1, 12)
        x.stop_gradient = False
        for mode in (padiff_shim.reference, padiff_shim.compare):
            with mode("torch") as run:
                (paddle.tanh(ops.twice(paddle.exp(x))) ** 2).sum().backward()
            print(run.native)
            grad, x2 = x.grad, x.detach()
            x2.stop_gradient = False
            (paddle.tanh(2 * paddle.exp(x2)) ** 2).sum().backward()
            assert paddle.allclose(grad, x2.grad, rtol=1e-4, atol=1e-5), (grad, x2.grad)
            x.clear_gradient()
        """,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    assert done.stdout.count("{'_run_custom_op': {'custom C++ op': 1}}") == 2, done.stdout
