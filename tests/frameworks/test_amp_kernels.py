"""The names under which the table lists its ops for autocast, against those that Paddle's own C++ logs."""

import collections
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from helpers import PATIENCE

from padiff_shim.catalogue.registry import ops
from padiff_shim.frameworks import autocast

PROGRAM = Path(__file__).parents[1] / "amp_kernels.py"
ASKED = re.compile(r"GetAmpDestDtype: op\((\w+)\)")
WHITE, BLACK = autocast._update_list(None, None, "O1", "float16")
# Whose kernels on a GPU are others than on a CPU (a whole Linear, a fused attention), or in Paddle 2.6 other ones.
ELSEWHERE = {"linear", "scaled_dot_product_attention", "flash_attention", "fused_rms_norm_quant"}


@pytest.fixture(scope="module")
def kernels():
    """Op -> the names of its kernels in the order of their calls, as Paddle logs them."""
    done = subprocess.run(
        [sys.executable, str(PROGRAM)],
        env={**os.environ, "GLOG_v": "6", "PYTHONPATH": os.pathsep.join(map(str, (PROGRAM.parents[1], PROGRAM.parent)))},
        capture_output=True,
        timeout=PATIENCE,
    )
    names, current = collections.defaultdict(list), None
    for line in done.stderr.decode(errors="replace").splitlines():
        word, _, name = line.partition(" ")
        if word == "CALL":
            current = name
        elif word == "END":
            current = None
        elif current is not None and (match := ASKED.search(line)):
            names[current].append(match.group(1))
    return names


def in_python(op):
    return not any(part in op.entries[0].target for part in ("_C_ops", "Tensor."))


@pytest.mark.slow
@pytest.mark.compat
def test_an_op_is_listed_by_the_name_of_its_kernel(kernels):
    named = {
        name: op.amp[0] or op.name for name, op in ops().items() if name in kernels and name not in ELSEWHERE and not in_python(op)
    }
    assert len(named) > 150
    assert {name: (named[name], kernels[name]) for name in named if kernels[name] != [named[name]]} == {}


@pytest.mark.slow
@pytest.mark.compat
def test_of_a_function_in_python_the_products_are_declared(kernels):
    """A part that is in the white list is cast though all operands are float32; of all others the whole may be computed."""
    functions = {name: op for name, op in ops().items() if name in kernels and in_python(op) and name not in ELSEWHERE}
    assert len(functions) > 40
    multiply = {name for name in functions if WHITE.intersection(kernels[name])}
    assert multiply <= {name for name, op in functions.items() if op.products}
    listed = {name for name, op in functions.items() if (op.amp[0] or name) in WHITE | BLACK and not op.products}
    assert {name: kernels[name] for name in listed if (functions[name].amp[0] or name) not in kernels[name]} == {}
