"""Scripts that show one call alone: written from real runs, and run without this library."""

import functools
import sys
import types

import forked
import numpy as np
import paddle
import pytest
from paddle.nn import functional as F

import padiff_shim
from padiff_shim import testing
from padiff_shim.catalogue.registry import ops
from padiff_shim.errors import PadiffShimError
from padiff_shim.frameworks.versions import IS_3
from padiff_shim.repro import oracles, script as repro_script
from padiff_shim.repro.script import Excerpt, expression
from padiff_shim.runlog import inputs


def randn(*shape, dtype="float32", grad=False, seed=0):
    values = np.random.default_rng(seed).standard_normal(shape).astype(dtype)
    return paddle.to_tensor(values, stop_gradient=not grad)


def written(tmp_path, program, **conditions):
    """Compare ``program`` and write the script of the one record that meets the conditions."""
    with padiff_shim.compare("torch", keep_inputs=50, mismatch_from="EQUAL") as run:
        program()
    (call,) = run.calls.filter(**conditions)
    return call, run.repro(call, tmp_path / "show.py")


def ran(script):
    """Exit status and output of a script, where this library cannot be imported."""
    alone = "import runpy, sys; sys.modules['padiff_shim'] = None; runpy.run_path(sys.argv[1], run_name='__main__')"
    done = forked.run(["-c", alone, script], cwd=script.parent, PYTHONPATH="")
    assert done.returncode in (0, 1), done.stderr
    assert "Traceback" not in done.stderr, done.stderr
    return done.returncode, done.stdout


def backward(build):
    def program():
        build().sum().backward()

    return program


def frozen_norm():
    x, scale, bias = randn(6, 8, grad=True), randn(8, seed=1), randn(8, seed=2)
    F.layer_norm(x, 8, scale, bias).backward(randn(6, 8, seed=3))


INNOCENT = {
    "linear": (lambda: F.linear(randn(16, 768), randn(768, 32), randn(32)), {"op": "linear"}),
    "linear grad:weight": (
        backward(lambda: F.linear(randn(4, 6, grad=True), randn(6, 3, grad=True), randn(3, grad=True))),
        {"op": "linear", "tensor": "grad:weight"},
    ),
    # Torch folds this product if the vector wants a gradient.
    "matmul, gradient wanted": (lambda: randn(6, grad=True) @ randn(2, 6, 3), {"op": "matmul"}),
    "matmul, under no_grad": (paddle.no_grad()(lambda: randn(6, grad=True) @ randn(2, 6, 3)), {"op": "matmul"}),
    "matmul grad:x": (
        backward(lambda: randn(5, 6, grad=True) @ randn(6, 3, grad=True).transpose([1, 0]).transpose([1, 0])),
        {"op": "matmul", "tensor": "grad:x"},
    ),
    "bfloat16 strided": (lambda: randn(4, 3).astype("bfloat16").transpose([1, 0]).sum(), {"op": "sum"}),
    "number": (lambda: 2.0 ** randn(3, dtype="float64"), {"op": "pow"}),
}
GUILTY = {
    "sequential sum": (lambda: paddle.sum(paddle.full([65536, 2], 0.1), axis=0), {"op": "sum"}, "LOW_ACCURACY"),
    "epsilon": (lambda: F.layer_norm(randn(4, 16, dtype="float64"), 16), {"op": "layer_norm"}, "PRECISION_MODE"),
    "infinities": (
        lambda: paddle.logsumexp(paddle.to_tensor([[-np.inf, -np.inf], [1.0, 2.0]]), axis=1),
        {"op": "logsumexp"},
        "NONFINITE",
    ),
}


@pytest.mark.parametrize("name", INNOCENT)
def test_a_call_that_is_innocent_in_the_run_is_innocent_alone(tmp_path, name):
    program, conditions = INNOCENT[name]
    call, script = written(tmp_path, program, **conditions)
    status, output = ran(script)
    assert status == 0, output
    assert str(call.verdict) in output
    assert "blames neither side" in output
    assert output.count("bit for bit as recorded") == 2, output


@pytest.mark.skipif(not IS_3, reason="these kernels of Paddle 2.6 are others")
@pytest.mark.parametrize("name", GUILTY)
def test_a_real_difference_shows_alone(tmp_path, name):
    program, conditions, verdict = GUILTY[name]
    call, script = written(tmp_path, program, **conditions)
    assert (str(call.verdict), str(call.side)) == (verdict, "paddle")
    status, output = ran(script)
    assert status == 1, output
    assert output.splitlines()[-1] == "REPRODUCED"
    assert f"paddle {paddle.__version__}" in output


@pytest.mark.skipif(not IS_3, reason="gradients are observed otherwise on Paddle 2.6")
def test_which_gradients_were_wanted_matters(tmp_path):
    """Paddle 3.3.1 forgets a frozen scale in x's gradient; with the scale's gradient wanted it does not."""
    call, script = written(tmp_path, frozen_norm, op="layer_norm", phase="backward")
    assert str(call.side) == "paddle", call
    record, arrays = inputs.load_inputs(script.parent, {"index": call.index}, moved(script, call))
    for needs, same in ((["x"], True), (["x", "scale", "bias"], False)):
        status, output = ran(repro_script.write({**record, "needs": needs}, arrays, tmp_path / f"needs{len(needs)}.py"))
        assert status == same, output
        assert ("bit for bit as recorded" in line_of(output, "max |paddle - oracle|")) == same


def moved(script, call):
    """The data of a script under the name that ``load_inputs`` asks for."""
    script.with_suffix(".npz").rename(script.with_name(f"log-{call.index}.npz"))
    return "log"


def line_of(text, part):
    return next(line for line in text.splitlines() if part in line)


def test_a_planted_fault_is_not_in_paddles_kernel(tmp_path):
    with testing.planted("exp", lambda out, *_: out * 1.5):
        call, script = written(tmp_path, lambda: paddle.exp(randn(5)), op="exp")
    assert call.side == "paddle"
    status, output = ran(script)
    assert status == 0
    assert output.splitlines()[-1] == "NOT REPRODUCED"


def test_the_script_is_plain_and_says_what_it_shows(tmp_path):
    _, script = written(tmp_path, lambda: paddle.sum(randn(3, 4), axis=[0], dtype="float64"), op="sum")
    text = script.read_text()
    assert "padiff_shim" not in "".join(line for line in text.splitlines() if "import" in line)
    assert "return paddle._C_ops.sum(x, [0], paddle.float64, False)" in text
    assert "def sum_(x: torch.Tensor" in text
    assert "def axes(" in text
    compile(text, str(script), "exec")


def test_strings_of_the_program_cannot_break_the_script(tmp_path):
    record = {
        "index": 3,
        "op": "exp",
        "entry": "paddle._C_ops.exp",
        "tensor": "out",
        "phase": "forward",
        "site": 'a"""b\n\\',
        "layer": "'''\nimport os",
        "reason": "line\nbreak",
        "verdict": "WRONG",
        "side": "paddle",
        "inputs": [{"name": "x", "shape": [2], "dtype": "float32"}],
        "attributes": {},
        "shape": [2],
        "dtype": "float32",
        "stats": {"bound": float("nan"), "error": float("inf")},
    }
    script = repro_script.write(record, {"x": np.ones(2, np.float32)}, tmp_path / "odd.py")
    compile(script.read_text(), str(script), "exec")


def test_what_was_not_saved_is_said(tmp_path):
    with padiff_shim.compare("torch", keep_inputs=0) as run:
        paddle.exp(randn(3))
    with pytest.raises(PadiffShimError, match="keep_inputs"):
        run.repro(0, tmp_path / "show.py")
    with pytest.raises(PadiffShimError, match="not in the table"):
        repro_script.write({"op": "conv9d", "entry": "paddle.conv9d"}, {}, tmp_path / "show.py")


def test_saved_operands_go_with_a_saved_run(tmp_path):
    with padiff_shim.compare("torch", keep_inputs=1, mismatch_from="EQUAL") as run:
        paddle.exp(randn(3))
    run.copy_log(tmp_path / "kept")
    script = padiff_shim.load(tmp_path / "kept").repro(0, tmp_path / "show.py")
    assert script.with_suffix(".npz").is_file()


BASE = np.arange(24, dtype=np.float32).reshape(2, 3, 4)


@pytest.mark.parametrize(
    "array",
    [
        BASE,
        BASE.transpose(2, 0, 1),
        BASE[:, ::2, 1:3],
        BASE[..., ::-1],
        np.broadcast_to(BASE[:, :1], BASE.shape),
        BASE[0, 0, 0],
        BASE[:0],
        np.arange(7, dtype=np.uint16)[1::2],
        np.zeros((100, 100))[::50, ::50],
        np.broadcast_to(np.float64(3), (2, 2)),
    ],
    ids=lambda array: f"{array.shape}{array.strides}",
)
def test_values_and_strides_are_kept(tmp_path, array):
    record = {"index": 5, "stats": {"error": float("nan")}}
    inputs.save_inputs(tmp_path / "new", record, {"x": array, "operands[1]": array}, "log")
    saved, arrays = inputs.load_inputs(tmp_path / "new", record, "log")
    assert saved == {"index": 5, "stats": {"error": "nan"}}
    for back in arrays.values():
        assert back.dtype == array.dtype
        np.testing.assert_array_equal(back, array)
        dense = array.size and max(array.strides, default=0) <= 4 * array.nbytes and min(array.strides, default=0) >= 0
        if dense and (array.strides or not array.shape):
            assert back.strides == array.strides or array.size * 4 * array.itemsize < max(array.strides)


def parts(function):
    """A function's own parts: of a partial one, the formula and what it was given."""
    if not isinstance(function, functools.partial):
        return [function]
    arguments = [*function.args, *function.keywords.items()]
    return [part for inner in [function.func, *arguments] for part in parts(inner)]


class TestExcerpt:
    # What is exact is never judged, and has no script.
    def test_every_reference_can_be_written_out(self):
        """And gives, from its own source alone, the function that the op has."""
        for op in (op for op in ops().values() if not op.exact):
            excerpt = Excerpt()
            source = expression(op.reference, excerpt)
            module = {}
            exec(excerpt.header() + excerpt.text(), module)
            function = eval(source, module)
            for own, had in zip(parts(function), parts(op.reference), strict=True):
                assert own == had or own.__code__.co_code == had.__code__.co_code, op.name

    def test_names_that_a_function_uses_come_along_and_others_do_not(self):
        source = (
            "import math\nimport os\nfrom math import pi as PI\nSCALE: float = 2 * PI\nOTHER = os.sep\n"
            "@staticmethod\ndef unused(): return OTHER\n\n"
            "def helper(x):\n    return math.sin(SCALE * x)\n\n\ndef formula(x):\n    return helper(x) + 1\n"
        )
        module = types.ModuleType("some_family")
        exec(source, vars(module))
        excerpt = Excerpt(prefix="own_")
        with pytest.MonkeyPatch.context() as patch:
            patch.setitem(sys.modules, "some_family", module)
            patch.setattr("inspect.getsource", lambda _: source)
            name = expression(module.formula, excerpt)
        text = excerpt.header() + excerpt.text()
        assert "OTHER" not in text
        assert "import os" not in text
        alone = {}
        exec(text, alone)
        assert alone[name](0.3) == module.formula(0.3)
        assert name == "own_formula"

    def test_what_has_no_name_is_refused(self):
        with pytest.raises(PadiffShimError, match="defined by name"):
            expression(lambda x: x, Excerpt())


@pytest.mark.skipif(np.finfo(np.longdouble).nmant <= 52, reason="long double is no wider than double here")
@pytest.mark.parametrize("name", oracles.ORACLES)
def test_the_long_double_formulas_are_the_ops(name):
    from helpers import Call

    op = ops()[name]
    for sample in op.samples:
        if not all(np.prod(shape) for shape in sample.shapes if shape is not None):
            continue
        call = Call(op, op.entries[0], sample, "float64", "contiguous", grad=False)
        expected = call.torch(grad=False)[0].numpy()
        values = [None if v is None else v.astype(np.longdouble) for v in call.values]
        if op.layouts:
            values[1] = values[1].T
        result = oracles.ORACLES[name](*values, *[None] * (op.tensors - len(values)), *call.attributes)
        assert result.dtype == np.longdouble
        np.testing.assert_allclose(result.astype(np.float64), expected, rtol=1e-13, atol=1e-14)
