"""``layers=``: substitution only inside the layers that a pattern names."""

import re

import paddle
import pytest
from log_data import filled, record

import padiff_shim
from padiff_shim.catalogue.known_differences import Quirk
from padiff_shim.errors import PadiffShimError
from padiff_shim.fault_injection import faults, planted
from padiff_shim.patterns import LayerFilter
from padiff_shim.verdicts import Side

pytestmark = pytest.mark.compat


class Block(paddle.nn.Layer):
    def __init__(self):
        super().__init__()
        self.linear1 = paddle.nn.Linear(4, 4)
        self.linear2 = paddle.nn.Linear(4, 4)
        self.norm = paddle.nn.LayerNorm(4)

    def forward(self, x):
        return self.norm(x + self.linear2(paddle.nn.functional.relu(self.linear1(x))))


class Encoder(paddle.nn.Layer):
    def __init__(self):
        super().__init__()
        self.layers = paddle.nn.LayerList([Block() for _ in range(3)])

    def forward(self, x):
        for layer in self.layers:
            x = layer(x)
        return x


class Net(paddle.nn.Layer):
    def __init__(self):
        super().__init__()
        self.encoder = Encoder()
        self.head = paddle.nn.Sequential(paddle.nn.Linear(4, 4), paddle.nn.Softmax())

    def forward(self, x):
        return self.head(self.encoder(x))


@pytest.fixture(scope="module")
def net():
    return Net()


def counts(net, layers, **options):
    with padiff_shim.reference("torch", layers=layers, **options) as run:
        net(paddle.ones([2, 4]))
    return run


@pytest.mark.parametrize(
    ("layers", "expected"),
    [
        ("encoder.layers.*.linear1", {"linear": 3}),
        ("encoder.layers.1.linear?", {"linear": 2}),
        ("encoder.layers.[02].norm", {"layer_norm": 2}),
        (["encoder.layers.0.linear1", "head.1"], {"linear": 1, "softmax": 1}),
        ("encoder.layers.0", {"linear": 2, "relu": 1, "add": 1, "layer_norm": 1}),
        ("encoder", {"linear": 6, "relu": 3, "add": 3, "layer_norm": 3}),
        ("head", {"linear": 1, "softmax": 1}),
        ("**.linear2", {"linear": 3}),
        ("**", {"linear": 7, "relu": 3, "add": 3, "layer_norm": 3, "softmax": 1}),
        ("encoder.**.norm", {"layer_norm": 3}),
        ("*.layers.2.norm", {"layer_norm": 1}),
    ],
    ids=str,
)
def test_patterns_on_a_nested_model(net, layers, expected):
    run = counts(net, layers)
    assert run.substituted == expected
    assert not run.warnings
    filtered = {why for reasons in run.native.values() for why in reasons}
    assert filtered <= {"filtered out by layers="}
    total = sum(run.substituted.values()) + sum(sum(reasons.values()) for reasons in run.native.values())
    assert total == 17


def test_layers_and_ops_filter_together(net):
    assert counts(net, "encoder.layers.0", ops="linear").substituted == {"linear": 2}
    assert counts(net, "encoder.layers.0", exclude="linear").substituted == {"relu": 1, "add": 1, "layer_norm": 1}


def test_an_unmatched_pattern_is_reported(net):
    run = counts(net, ["encoder.layer.*", "head", "*.bias"])
    assert [re.search("'(.*)'", warning)[1] for warning in run.warnings] == ["*.bias", "encoder.layer.*"]
    assert "matched no layer" in str(run)


def test_calls_outside_of_layers_are_left_native(net):
    with padiff_shim.reference("torch", layers="**") as run:
        paddle.exp(paddle.ones([1]))
    assert run.native == {"exp": {"filtered out by layers=": 1}}


def test_an_error_in_a_layer_leaves_no_trace(net):
    mode = padiff_shim.reference("torch", layers="encoder.layers.0")
    with mode:
        with pytest.raises(Exception):  # noqa: B017
            net(paddle.ones([2, 5]))
        net(paddle.ones([2, 4]))
    assert mode.run.substituted["layer_norm"] == 1


def test_backward_of_selected_layers_only(net):
    with padiff_shim.reference("torch", layers="encoder.layers.1.linear1") as run:
        net(paddle.ones([2, 4])).sum().backward()
    assert run.backward == {"linear": 1}
    net.clear_gradients()


def test_a_layer_replaced_between_calls_is_found():
    net = Net()
    counts(net, "head")
    net.head = paddle.nn.Linear(4, 4)
    assert counts(net, "head").substituted == {"linear": 1}


def test_layers_that_exchange_their_names_are_found():
    net = Net()
    assert counts(net, "head.0").substituted == {"linear": 1}
    net.head[0], net.head[1] = net.head[1], net.head[0]
    assert counts(net, "head.0").substituted == {"softmax": 1}


def test_a_layer_that_is_registered_later_is_found():
    class Outer(paddle.nn.Layer):
        def __init__(self):
            super().__init__()
            self.held = [paddle.nn.Linear(4, 4)]

        def forward(self, x):
            return self.held[0](x)

    net = Outer()
    assert counts(net, "Linear").substituted == {"linear": 1}
    net.inner = net.held[0]
    assert counts(net, "inner").substituted == {"linear": 1}


@pytest.mark.parametrize("layers", [[], "", [""], [3], 3, ("a", None)], ids=repr)
def test_bad_patterns_are_refused_when_the_mode_is_made(layers):
    with pytest.raises(PadiffShimError, match="glob patterns over layer paths"):
        padiff_shim.reference("torch", layers=layers)


@pytest.mark.parametrize(
    ("pattern", "path", "matches"),
    [
        ("a.*", "a", False),
        ("a.*", "a.b.c", True),
        ("a.**", "a", True),
        ("**.c", "c", True),
        ("a.**.c", "a.c", True),
        ("a.**.c", "a.b.b.c.d", True),
        ("a.b", "a.bc", False),
        ("A", "a", False),
        ("a", "", False),
    ],
)
def test_matching(pattern, path, matches, tmp_path):
    """The same in a mode, in a filter of records, in a known difference and in a planted fault."""
    assert LayerFilter(pattern).accepts(path) is matches
    calls = filled([record(layer=path)], folder=tmp_path).calls
    assert bool(calls.filter(layer=pattern)) is matches
    known = Quirk("of a layer", op=("linear",), reason="known", verdict=("ROUNDING",), layer=(pattern,))
    assert known.matches(calls[0].to_dict(), {}) is matches
    with planted("linear", lambda out, *values: out, layer=pattern):
        assert bool(faults("linear", Side.PADDLE, path, backward=False)) is matches


def test_a_class_cannot_be_decorated():
    with pytest.raises(TypeError, match="decorate a function or a method"):
        padiff_shim.reference("torch")(Net)
