"""Why calls stay native: one list of data, and what users read of it."""

import string

import paddle
import pytest

import padiff_shim
from padiff_shim.catalogue.registry import stays_native
from padiff_shim.errors import UnknownNameError
from padiff_shim.table import reasons
from padiff_shim.table.reasons import Reason, StayNative

pytestmark = pytest.mark.compat
ALL = {name: reason for name, reason in vars(reasons).items() if isinstance(reason, Reason)}


def test_codes_and_texts_tell_reasons_apart():
    assert len(ALL) > 30
    assert len({reason.code for reason in ALL.values()}) == len({reason.text for reason in ALL.values()}) == len(ALL)


@pytest.mark.parametrize("reason", ALL.values(), ids=lambda reason: reason.code)
def test_a_text_takes_what_it_names(reason):
    details = {name: "{braces}" for _, name, _, _ in string.Formatter().parse(reason.text) if name is not None}
    why = StayNative(reason, **details)
    assert why.why is reason
    assert why.exact is reason.exact
    assert why.reason.count("{braces}") == len(details)
    assert str(why) == why.reason


def test_a_run_counts_by_the_text():
    with padiff_shim.reference("torch", layers="**") as run:
        paddle.exp(paddle.ones([1]))
        paddle.cumsum(paddle.ones([2]))
    assert run.native["exp"] == {reasons.OUTSIDE_LAYERS.text: 1}
    with padiff_shim.reference("torch") as run:
        paddle.exp(paddle.to_tensor([1 + 1j]))
    assert run.native == {"exp": {reasons.COMPLEX.text: 1}}


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("LayerNorm", "it is called 'layer_norm' here"),
        ("GELU", "it is called 'gelu' here"),
        ("ReLU", "it is called 'relu' here"),
        ("Softmax2D", "it is called 'softmax' here"),
        ("layernrom", "Did you mean 'layer_norm'"),
        ("Dropout", "it is called 'dropout' here"),
        ("RoiAlign", "'RoiAlign', here 'roi_align', runs on Paddle's kernel: a step of object detection"),
        ("reshape", "'reshape' runs on Paddle's kernel: it rounds nothing"),
    ],
)
def test_a_layer_named_as_an_op_is_told_what_the_op_is_called(name, message):
    for argument in ("ops", "exclude"):
        with pytest.raises(UnknownNameError) as raised:
            padiff_shim.reference("torch", **{argument: name})
        assert message in str(raised.value)


@pytest.mark.parametrize(
    ("layer", "op"), [("Conv2D", "conv2d"), ("Conv2DTranspose", "conv2d_transpose"), ("BatchNorm2D", "batch_norm")]
)
def test_layers_of_ops_with_and_without_a_formula(layer, op):
    with pytest.raises(UnknownNameError) as raised:
        padiff_shim.compare("torch", ops=layer)
    why = stays_native(op)
    assert (
        f"here {op!r}, runs on Paddle's kernel: {why}" in str(raised.value) if why else f"called {op!r} here" in str(raised.value)
    )
