"""Settings of optimizers that Paddle's update refuses, or takes in another type, are refused and taken in every mode."""

import functools

import numpy as np
import paddle
import pytest

import padiff_shim

pytestmark = pytest.mark.compat
MODES = {
    "reference": functools.partial(padiff_shim.reference, "torch"),
    "compare": functools.partial(padiff_shim.compare, "torch", progress=False),
    "carry": functools.partial(padiff_shim.compare, "torch", carry="torch", progress=False),
}
# Optimizer -> settings that are bools, and one that is a number.
SETTINGS = {
    "SGD": ("multi_precision",),
    "Momentum": ("multi_precision", "use_nesterov", "momentum"),
    "Adam": ("multi_precision", "lazy_mode", "amsgrad", "beta1", "epsilon"),
    "AdamW": ("multi_precision", "lazy_mode", "amsgrad", "weight_decay", "beta2"),
    "RMSProp": ("centered", "rho", "momentum"),
    "Adagrad": ("initial_accumulator_value", "epsilon"),
    "Adadelta": ("rho", "epsilon"),
    "Adamax": ("beta1", "epsilon"),
    "Lamb": ("multi_precision", "lamb_weight_decay", "epsilon"),
    "NAdam": ("momentum_decay",),
}
VALUES = (True, False, 1, 0.0, 2.0, "yes", None, float("nan"))


def trained(name, setting, value):
    """A weight after two steps, or the kind of error."""
    weight = paddle.create_parameter([3], "float32", default_initializer=paddle.nn.initializer.Constant(0.5))
    try:
        optimizer = getattr(paddle.optimizer, name)(learning_rate=0.1, parameters=[weight], **{setting: value})
        for _ in range(2):
            (weight * weight).sum().backward()
            optimizer.step()
            optimizer.clear_grad()
    except Exception as error:
        return type(error)
    return weight.numpy()


def alike(ours, native):
    if isinstance(ours, type) or isinstance(native, type):
        return ours is native
    return np.allclose(ours, native, rtol=1e-5, equal_nan=True)


@pytest.mark.rows(10)
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", [name for name in SETTINGS if hasattr(paddle.optimizer, name)])
def test_settings_are_taken_as_natively(name, mode):
    for setting in SETTINGS[name]:
        native = [trained(name, setting, value) for value in VALUES]
        with MODES[mode]():
            ours = [trained(name, setting, value) for value in VALUES]
        assert [value for value, *outcomes in zip(VALUES, ours, native) if not alike(*outcomes)] == [], setting
