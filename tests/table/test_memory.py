"""Nothing writes outside of its memory: the op table under glibc's checking malloc, in processes of their own."""

import ctypes
import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest
import small
from driven import DONE, UNWRITTEN, driven
from helpers import PATIENCE, ROOT, has_defect, in_child

MALLOC = "libc_malloc_debug.so.0"
SWEEP = Path(__file__).with_name("sweep.py")
PARTS = 12


def _checks():
    try:
        ctypes.CDLL(MALLOC)
    except OSError:
        return False
    return True


checked = pytest.mark.skipif(not _checks(), reason=f"needs glibc's {MALLOC}")


def watched(*arguments):
    """How ``python *arguments`` ends where each block of memory is checked when it is freed, and holds no zeros when it is new."""
    env = {**os.environ, "PYTHONPATH": f"{ROOT}{os.pathsep}{ROOT / 'tests'}", "LD_PRELOAD": MALLOC}
    env.update(MALLOC_CHECK_="3", MALLOC_PERTURB_="165")
    return subprocess.run(
        [sys.executable, *map(str, arguments)], env=env, capture_output=True, text=True, timeout=PATIENCE, check=False
    )


@checked
@pytest.mark.slow
@pytest.mark.skipif(
    not has_defect("nll_loss of float64 writes outside its memory"), reason="this Paddle writes nothing behind its memory there"
)
def test_the_checks_find_a_write_behind_the_end():
    program = """
        import paddle
        paddle.disable_signal_handler()
        x, label = paddle.ones([5, 4], "float64"), paddle.to_tensor([0, 1, 2, 3, 1])
        for _ in range(5):
            paddle.nn.functional.nll_loss(x, label, ignore_index=1)
        """
    assert watched("-c", textwrap.dedent(program)).returncode < 0


@checked
@pytest.mark.slow
@pytest.mark.parametrize("mode", ["native", "reference", "compare"])
def test_calls_forward_and_backward(mode):
    """A part of all calls; ``python tests/table/sweep.py reference 0 1`` makes every one."""
    ended = watched(SWEEP, mode, 0, PARTS)
    lines = ended.stdout.splitlines()
    assert ended.returncode == 0, f"{lines[-1:]}: {ended.stderr[-2000:]}"
    assert lines[-1] == "the end"
    assert len(lines) > 500


DECODERS = """
import numpy as np, paddle, padiff_shim
import paddle.nn.functional as F

paddle.disable_signal_handler()  # which waits for ever where malloc is what found the error
rng = np.random.default_rng(0)
for mode in (padiff_shim.reference, padiff_shim.compare):
    for n in (2, 3, 1):  # the first call of a kind is what asks
        with mode("torch"):
            x, weight, bias = [
                paddle.to_tensor(rng.normal(size=size).astype("float32")) for size in ((2, 3, *[8] * n), (3, 4, *[5] * n), (4,))
            ]
            for _ in range(60):
                getattr(F, f"conv{n}d_transpose")(x, weight, bias, padding=2)
    with mode("torch"):
        paddle.nn.Conv2DTranspose(64, 32, 5, stride=2, padding=2, output_padding=1)(paddle.ones([1, 64, 8, 8]))
print("the end")
"""


@checked
@pytest.mark.compat
@pytest.mark.slow
def test_decoders_that_pad():
    """A result of a stand-in with one element would have a negative size, and Paddle adds the bias all the same."""
    ended = watched("-c", DECODERS)
    assert ended.returncode == 0, ended.stderr[-2000:]
    assert ended.stdout.splitlines()[-1] == "the end"


@pytest.mark.compat
@pytest.mark.parametrize("mode", ["reference", "compare"])
def test_parts_of_complex_numbers_that_are_none(mode):
    """They have no strides, and who asks for them ends the process."""
    program = f"""
        import numpy as np

        def parts():
            try:
                return len(paddle.unbind(paddle.zeros([0]), axis=-1))
            except ValueError:  # Paddle 2.6
                return None

        natively = parts()
        with padiff_shim.{mode}("torch"):
            numbers = paddle.to_tensor(np.zeros((0, 4), "complex64"))
            numbers.stop_gradient = False
            real, imaginary = numbers.real(), numbers.imag() * 2
            assert (real + real).shape == imaginary.shape == paddle.complex(real, imaginary).shape == [0, 4]
            assert parts() == natively
        """
    ended = in_child(program)
    assert ended.returncode == 0, ended.stderr[-2000:]


# What differs on operands without elements or axes, and of one element: words of the call's name -> why.
LISTED = {
    "_C_ops.masked_fill,": "docs/defects.md: masked_fill gradient of the value is wrong",
    "_C_ops.cummax,": "Paddle's backward of a tensor without axes reads what lies beside it: an IndexError, or the process ends",
    "_C_ops.cummin,": "Paddle's backward of a tensor without axes reads what lies beside it: an IndexError, or the process ends",
    "_C_ops.p_norm,": "Paddle adds 1e-12 in the gradient",
    "_C_ops.dist,": "Paddle adds 1e-12 in the gradient",
    "_C_ops.gammaln,": "its gradient is near its root there, 1.4616",
    "linalg.matrix_exp,": "its squarings multiply rounding errors",
    "fused_bias_residual_layernorm,": "Paddle's variance of one element is a rounding error, beside an epsilon of 1e-5",
    "_C_ops.fused_rms_norm_quant,": "Paddle has no backward of it on a CPU",
    "_C_ops.lu_solve,": "of operands that do not fit Paddle reads what lies beside them",
    "_interp, sample 0,": "Paddle adds its gradient's hundreds of parts in 16 bits",
    "multi_label_margin_loss,": "without any label Paddle gathers by an index of nothing, and raises",
}


@pytest.mark.slow
@pytest.mark.parametrize(("mode", "parts"), [("reference", 29), ("compare", 61)])
def test_small_operands(mode, parts):
    """A part of all calls; ``python tests/table/small.py reference 0 1`` makes every one."""
    lines, states = driven(small.__file__, mode, 0, parts)
    assert [line for line in lines if UNWRITTEN not in line and not any(call in line for call in LISTED)] == []
    assert states[DONE] > 400
