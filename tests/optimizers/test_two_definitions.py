"""Paddle's definitions: the values of native Paddle but for rounding, and not Torch's where the two differ."""

import numpy as np
import paddle
import pytest
from helpers import in_child

import padiff_shim

STEPS, SIZE = 6, (5, 7)
# All numbers are exact in float32, so that native kernels that hold them so compute with the same.
BETAS = {"beta1": 0.875, "beta2": 0.96875, "epsilon": 2.0**-20}
OPTIONS = {
    "SGD": [{}, {"weight_decay": 2.0**-5}],
    "Momentum": [{"momentum": 0.75}, {"momentum": 0.75, "use_nesterov": True, "weight_decay": 2.0**-5}, {"momentum": 0.0}],
    "Adam": [BETAS, {**BETAS, "weight_decay": 2.0**-5}],
    "AdamW": [{**BETAS, "weight_decay": 2.0**-4}],
    "Adamax": [BETAS, {**BETAS, "weight_decay": 2.0**-5}],
    "Adagrad": [{"epsilon": 2.0**-20}, {"epsilon": 2.0**-20, "initial_accumulator_value": 0.5}],
    "Adadelta": [{"epsilon": 2.0**-20, "rho": 0.9375}],
    "RMSProp": [
        {"epsilon": 2.0**-20, "rho": 0.9375},
        {"epsilon": 2.0**-20, "rho": 0.9375, "momentum": 0.75, "centered": True, "weight_decay": 2.0**-5},
    ],
    "NAdam": [{**BETAS, "momentum_decay": 2.0**-8}],
    "RAdam": [BETAS, {**BETAS, "beta2": 0.75}],
    "Lamb": [{**BETAS, "lamb_weight_decay": 2.0**-5}, {**BETAS, "lamb_weight_decay": 0.0}],
}
CASES = [(kind, options) for kind, several in OPTIONS.items() if hasattr(paddle.optimizer, kind) for options in several]
DIFFERENT = ("Adamax", "RMSProp", "NAdam")
ROUNDED = 64 * STEPS * np.finfo("float64").eps  # some tens of operations a step, on numbers of the size of 1


def trained(kind, options, dtype="float64", clip=None):
    """A parameter after steps with given gradients, and the optimizer's accumulators."""
    draw = np.random.default_rng(0)
    param = paddle.create_parameter(SIZE, dtype, default_initializer=paddle.nn.initializer.Assign(draw.standard_normal(SIZE)))
    limit = {} if clip is None else {"grad_clip": clip}
    optimizer = getattr(paddle.optimizer, kind)(learning_rate=2.0**-6, parameters=[param], **limit, **options)
    for _ in range(STEPS):
        param.grad = paddle.to_tensor(draw.standard_normal(SIZE).astype(dtype))
        optimizer.step()
        optimizer.clear_grad()
    states = {name: next(iter(of.values())).numpy() for name, of in optimizer._accumulators.items()}
    return {"param": param.numpy(), **states}


def distance(ours, other):
    return max(float(np.abs(ours[name] - other[name]).max()) for name in ours)


@pytest.mark.compat
@pytest.mark.parametrize(("kind", "options"), CASES)
def test_native_values_but_for_rounding(kind, options):
    native = trained(kind, options)
    with padiff_shim.reference("torch") as run:
        ours = trained(kind, options)
    if not (kind == "Adagrad" and paddle.__version__.startswith("2.")):
        assert not run.native
    assert ours.keys() == native.keys()
    assert distance(ours, native) <= ROUNDED


@pytest.mark.compat
@pytest.mark.parametrize(("kind", "options"), [case for case in CASES if case[0] in DIFFERENT])
def test_torchs_definition_is_another_one(kind, options):
    with padiff_shim.reference("torch") as run:
        ours = trained(kind, options)
    with padiff_shim.reference("torch", optimizer="torch") as other:
        theirs = trained(kind, options)
    name = kind.lower()
    assert (run.optimizers[name], other.optimizers[name]) == ({"paddle": STEPS}, {"torch": STEPS})
    assert np.abs(ours["param"] - theirs["param"]).max() > 1e3 * ROUNDED


@pytest.mark.compat
@pytest.mark.parametrize("limit", [0.5, 1e3])
@pytest.mark.parametrize("clip", ["ClipGradByGlobalNorm", "ClipGradByNorm", "ClipGradByValue"])
def test_clipping(clip, limit):
    def of(dtype):
        return trained("SGD", {}, dtype, getattr(paddle.nn, clip)(limit))

    dtype = "float32" if clip == "ClipGradByNorm" else "float64"  # natively it knows no other
    native = of(dtype)
    with padiff_shim.reference("torch"):
        ours, exact = of(dtype), of("float64")
    with padiff_shim.reference("torch", optimizer="torch"):
        theirs = of("float64")
    assert distance(ours, native) <= 64 * STEPS * np.finfo(dtype).eps
    apart = distance(theirs, exact)  # 1e-6 beside the norm
    assert (apart > 1e3 * ROUNDED) == (limit < 1 and not clip.endswith("Value"))


@pytest.mark.compat
@pytest.mark.parametrize("kind", ["Adamax", "RMSProp", "SGD", "Lamb"])
def test_a_run_says_how_definitions_differ(kind):
    options = OPTIONS[kind][0]
    for definition, advice in (("paddle", 'optimizer="torch" takes Torch\'s'), ("torch", "Paddle alone keeps to its own")):
        with padiff_shim.reference("torch", optimizer=definition) as run:
            trained(kind, options)
        warned = [warning for warning in run.warnings if warning.startswith(kind.lower())]
        assert len(warned) == (kind in DIFFERENT)
        assert all("Paddle adds epsilon" in warning and advice in warning for warning in warned)


def test_lamb_has_no_counterpart():
    with padiff_shim.reference("torch", optimizer="torch") as run:
        trained("Lamb", {})
    assert run.optimizers == {"lamb": {"paddle": STEPS}}
    assert "lamb by Paddle's definition" in str(run)


def test_default_numbers_in_float32():
    """Paddle's defaults are no numbers of float32; what that makes is rounding, too."""
    bound = 64 * STEPS * np.finfo("float32").eps
    for kind, _ in CASES:
        native = trained(kind, {}, "float32")["param"]
        with padiff_shim.reference("torch"):
            ours = trained(kind, {}, "float32")["param"]
        assert np.abs(ours - native).max() <= bound, kind


def test_outside_of_modes_updates_are_paddles_own():
    result = in_child(
        """
        import numpy as np
        def stepped():
            w = paddle.create_parameter([3, 2], "float32", default_initializer=paddle.nn.initializer.Constant(0.5))
            o = paddle.optimizer.Adam(0.1, parameters=[w], weight_decay=0.1, grad_clip=paddle.nn.ClipGradByGlobalNorm(0.1))
            for step in range(3):
                w.grad = paddle.full([3, 2], 0.3 + step)
                o.step()
            return w.numpy().tobytes()
        before = stepped()
        with padiff_shim.reference("torch", optimizer="torch"):
            stepped()
        assert stepped() == before
        """
    )
    assert result.returncode == 0, result.stderr
