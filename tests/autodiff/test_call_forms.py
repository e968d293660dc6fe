"""Arguments: both published forms, all words, and what is refused."""

import functools

import paddle
import pytest
import torch
from padiff_models import inputs, pair, residual

from padiff_shim import ArgumentError, UnknownNameError
from padiff_shim.autodiff import LayerMap, add_special_init, assign_weight, auto_diff, create_model
from padiff_shim.autodiff.arguments import read

pytestmark = pytest.mark.compat


def weights_taken_from(*args, **keywords):
    return read(args, keywords).models[0].framework


def test_whose_weights_are_taken():
    """The older form takes the Torch module's, the newer one the first model's."""
    port, original = pair(residual)
    ours, theirs = inputs("x"), inputs("x", first="torch")
    assert weights_taken_from(port, original, ours) == "torch"
    assert weights_taken_from(port, original, ours, False) == "torch"
    assert weights_taken_from(layer=port, module=original, example_inp=ours, options={"atol": 1}) == "torch"
    assert weights_taken_from(port, original, ours, atol=1) == "paddle"
    assert weights_taken_from(base_model=port, raw_model=original, inputs=ours, auto_init=True) == "paddle"
    assert weights_taken_from(original, port, theirs) == "torch"
    assert weights_taken_from(original, port, inp=theirs, auto_init=True, atol=1) == "torch"


def test_positional_arguments_of_the_older_form():
    port, original = pair(residual)
    losses, optimizers = [lambda output: output.mean()] * 2, [lambda: None] * 2
    for rest in (({"atol": 1e-3}, {}, losses, optimizers, 3), (3, {"atol": 1e-3}, {}, losses, optimizers)):
        call = read((port, original, inputs("x"), True, *rest), {})
        assert (call.options.steps, call.options.atol, call.losses, call.optimizers) == (3, 1e-3, tuple(losses), tuple(optimizers))


def test_positional_arguments_of_the_newer_form():
    port, original = pair(residual)
    losses, optimizers = [lambda output: 1, lambda output: 2], [lambda: None] * 2
    call = read((port, original, inputs("x"), losses, optimizers), {"steps": 2, "rtol": 1e-3})
    assert call.models[0].framework == "paddle"
    assert (call.losses, call.optimizers, call.options.steps) == (tuple(losses), tuple(optimizers), 2)


def test_the_order_of_pairs_follows_the_models():
    port, original = pair(residual)
    losses = [lambda output: 1, lambda output: 2]
    call = read((port, original, inputs("x")), {"loss_fn": losses})
    assert call.losses == (losses[1], losses[0])
    assert isinstance(call.inputs[0]["x"], torch.Tensor)


def test_what_padiff_leaves_in_an_options_dict():
    port, original = pair(residual)
    left = {"atol": 0, "rtol": 1e-7, "debug": False, "cmd": False, "use_loss": False, "use_opt": False, "steps": 1}
    options = dict(left)
    assert read((port, original, inputs("x")), {"options": options}).options.tolerance_given
    assert options == left
    for word in ("debug", "use_loss", "use_opt"):
        with pytest.raises(ArgumentError, match=word):
            read((port, original, inputs("x")), {"options": {word: True}})


def test_what_is_changed_is_said():
    port, original = pair(residual)
    read_call = functools.partial(read, (port, original, inputs("x")))
    call = read_call({"diff_phase": "backward"})
    assert call.options.diff_phase == "both"
    assert "single_step" in call.options.notes[0]
    assert read_call({"diff_phase": "backward", "single_step": True}).options.notes == ()
    call = read_call({"steps": 4})
    assert call.options.steps == 1
    assert call.options.notes
    call = read_call({"diff_phase": "forward", "optimizer": [lambda: None] * 2})
    assert call.optimizers is None
    assert call.options.notes


@pytest.mark.parametrize(
    ("keywords", "message"),
    [
        ({"atoll": 1}, r"unknown argument of auto_diff 'atoll'. Did you mean 'atol'"),
        ({"options": {"compare_mod": "mean"}}, r"Did you mean 'compare_mode'"),
        ({"options": {"atol": 1}, "atol": 2}, "atol= is given twice"),
        ({"auto_weights": True, "auto_init": True}, "given twice"),
        ({"options": 3}, "options= is a dict"),
        ({"compare_mode": "means"}, "Did you mean 'mean'"),
        ({"diff_phase": "forwards"}, "Did you mean 'forward'"),
        ({"atol": -1}, "atol= is a number from 0 on"),
        ({"rtol": "1e-3"}, "rtol= is a number"),
        ({"atol": float("nan")}, "atol= is a number"),
        ({"steps": 0}, "steps= is a whole number from 1 on"),
        ({"single_step": 1}, "single_step= is True or False"),
        ({"auto_weights": "yes"}, "auto_init= is True or False"),
        ({"kernels": "cuda"}, "Accepted: native, torch"),
        ({"loss_fn": lambda output: output}, "loss_fns= is a pair of functions"),
        ({"optimizer": [1, 2]}, "optimizers= is a pair of optimizers"),
        ({"layer_map": [1]}, "layer_map= is a LayerMap or a dict of layers"),
        ({"layer_map": {"inner": "outer"}}, "outer"),
        ({"layer_map": {"inner": "iner"}}, r"layer of Paddle's Residual in layer_map 'iner'. Did you mean 'inner'"),
        ({"layer_map": {"haed": "head"}}, r"layer of Torch's Residual in layer_map 'haed'. Did you mean 'head'"),
        ({"base_model": 1}, "given by position and by name"),
    ],
)
def test_refusals(keywords, message):
    port, original = pair(residual)
    with pytest.raises(ArgumentError, match=message):
        auto_diff(port, original, inputs("x"), **keywords)


def test_refused_names_of_layers_whose_partner_is_left_out():
    """The search for pairs sees no entry of a layer that is left out, so that it cannot refuse the other name."""
    port, original = pair(residual)
    marked = create_model(original)
    marked.update_black_list([original.inner])
    with pytest.raises(UnknownNameError, match=r"layer of Paddle's Residual in layer_map 'iner'. Did you mean 'inner'"):
        auto_diff(port, marked, inputs("x"), layer_map={"inner": "iner"})
    assert auto_diff(port, marked, inputs("x"), layer_map={"inner": "inner"}) is True


def test_refused_models_and_inputs():
    port, original = pair(residual)
    arguments = inputs("x")
    with pytest.raises(ArgumentError, match=r"first argument of auto_diff is a paddle\.nn.Layer or a torch"):
        auto_diff(arguments, original, arguments)
    with pytest.raises(ArgumentError, match="inputs= is missing"):
        auto_diff(port, original)
    with pytest.raises(ArgumentError, match="pair of dicts of keyword arguments"):
        auto_diff(port, original, arguments[0]["x"])
    with pytest.raises(ArgumentError, match="inputs= are in the order of the models"):
        auto_diff(port, original, arguments[::-1])
    optimizers = [torch.optim.SGD(original.parameters(), lr=0.1), lambda: None]
    with pytest.raises(ArgumentError, match="optimizers= are in the order of the models"):
        auto_diff(port, original, arguments, optimizer=optimizers)
    with pytest.raises(ArgumentError, match="at most 5 arguments by position"):
        auto_diff(port, original, arguments, None, None, None)


def test_refused_marks():
    port, original = pair(residual)
    with pytest.raises(ArgumentError, match="has no such layer"):
        create_model(port).set_layer_map([original.inner])
    with pytest.raises(ArgumentError, match="mode"):
        create_model(port).update_black_list([port.inner], "below")
    with pytest.raises(ArgumentError, match="LayerMap takes layers"):
        LayerMap().ignore("inner")
    with pytest.raises(ArgumentError, match="no layer of"):
        auto_diff(port, original, inputs("x"), layer_map={paddle.nn.Linear(2, 2): original.inner})
    marked = create_model(port)
    marked.set_layer_map([port.inner])
    with pytest.raises(ArgumentError, match="set_layer_map: 0 layers of Residual, 1 of"):
        auto_diff(marked, original, inputs("x"))
    with pytest.raises(ArgumentError, match="a model is a paddle"):
        create_model(3)
    with pytest.raises(ArgumentError, match="add_special_init"):
        add_special_init("Linear", "Linear")


def test_unknown_words_are_unknown_names():
    port, original = pair(residual)
    with pytest.raises(UnknownNameError, match=r"Accepted: .*auto_weights.*layer_mapping"):
        auto_diff(port, original, inputs("x"), depth=3)


def test_assign_weight_either_way():
    port, original = pair(residual)
    assert assign_weight(port, original) is True
    assert (original.inner.weight.detach().numpy() == port.inner.weight.numpy().T).all()
    before = port.inner.weight.numpy().copy()
    original.inner.weight.data.zero_()
    assert assign_weight(create_model(port), create_model(original)) is True
    assert (original.inner.weight.detach().numpy() == before.T).all()


def test_weights_that_do_not_fit(capsys):
    port, _ = pair(residual)
    assert assign_weight(port, torch.nn.Linear(3, 3)) is False
    assert auto_diff(port, torch.nn.Linear(3, 3), ({"x": paddle.ones([1, 12])}, {"input": torch.ones(1, 3)})) is False
    assert "Assign weight Failed" in capsys.readouterr().out
