"""A proof's copies of both models share nothing with them, empty containers included."""

import copy
import threading

import numpy as np
import paddle
import pytest
import torch

from padiff_shim.frameworks.copies import duplicate

pytestmark = pytest.mark.compat


def noted(kind):
    """A layer of a framework with empty containers of its own, one of them under two names, and two weights that are one."""

    class Noted(kind):
        def __init__(self):
            super().__init__()
            nn = torch.nn if kind is torch.nn.Module else paddle.nn
            self.first, self.second = nn.Linear(2, 2), nn.Linear(2, 2)
            self.second.weight = self.first.weight
            self.seen, self.known, self.names = [], {}, set()
            self.again = self.seen

    return Noted()


@pytest.mark.parametrize("kind", [torch.nn.Module, paddle.nn.Layer], ids=["torch", "paddle"])
def test_nothing_is_shared(kind):
    model = noted(kind)
    copied = duplicate(model)
    copied.seen.append(1)
    copied.known["a"] = 1
    copied.names.add(2)
    assert (model.seen, model.known, model.names) == ([], {}, set())
    assert copied.again is copied.seen
    assert copied.second.weight is copied.first.weight is not model.first.weight
    assert (copied.first.weight.numpy() if kind is paddle.nn.Layer else copied.first.weight.detach().numpy()).shape == (2, 2)
    assert copied.first._forward_pre_hooks is not model.first._forward_pre_hooks
    assert type(copied.first._forward_pre_hooks) is type(model.first._forward_pre_hooks)
    empty = [value for layer in (copied, copied.first, copied.second) for value in vars(layer).values() if value in ({}, [])]
    assert len({id(value) for value in empty}) == len(empty)  # each is its own


def test_a_copy_has_hooks_of_its_own():
    model = paddle.nn.Linear(2, 2)
    copied, calls = duplicate(model), []
    copied.register_forward_post_hook(lambda *_: calls.append("copy"))
    model(paddle.ones([1, 2]))
    assert not calls
    copied(paddle.ones([1, 2]))
    assert calls == ["copy"]


@pytest.mark.parametrize("kind", [torch.nn.Module, paddle.nn.Layer], ids=["torch", "paddle"])
def test_layers_of_layers_keep_their_ties(kind):
    model, child = noted(kind), noted(kind)
    model.child = child
    model.listed = [child, {"again": child}]
    object.__setattr__(child, "above", model)  # a cycle that is no sublayer
    copied = duplicate(model)
    assert copied.listed[0] is copied.listed[1]["again"] is copied.child is not child
    assert copied.child.above is copied
    assert copied.child.first.weight is not child.first.weight
    assert type(copied) is type(model)
    assert vars(copied).keys() == vars(model).keys()


@pytest.mark.parametrize("kind", [torch.nn.Module, paddle.nn.Layer], ids=["torch", "paddle"])
@pytest.mark.parametrize("way", ["__deepcopy__", "__getstate__", "__setstate__", "__reduce_ex__", "__getattr__"])
def test_a_layer_that_says_how_it_is_copied_is_asked(kind, way):
    answers = []

    class Own(kind):
        pass

    def answer(self, *arguments):
        answers.append(way)
        if way == "__deepcopy__":
            return Own()
        if way == "__setstate__":
            self.__dict__.update(arguments[0])
            return None
        if way == "__getattr__" and arguments[0] == "__deepcopy__":
            return lambda memo: Own()
        return getattr(kind, way)(self, *arguments)

    holder, layer = noted(kind), Own()
    setattr(Own, way, answer)
    holder.inner = layer
    answers.clear()
    assert type(duplicate(holder).inner) is Own
    assert answers


def test_recurrent_layers_are_as_before():
    model = torch.nn.LSTM(3, 4, num_layers=2)
    copied, x = duplicate(model), torch.ones(2, 1, 3)
    assert torch.equal(copied(x)[0], model(x)[0])
    assert all(mine is not yours for mine, yours in zip(model.parameters(), copied.parameters()))


class Note:
    """A plain object that a layer may hold."""

    def __init__(self, of):
        self.of, self.seen = of, [of]


class Slotted:
    __slots__ = ("text",)

    def __init__(self):
        self.text = ["a"]


class Told(Note):
    def __deepcopy__(self, memo):
        return "told"


class TellsItsState(Note):
    def __getstate__(self):
        return {"of": None, "seen": ["told"]}


@pytest.mark.parametrize("kind", [torch.nn.Module, paddle.nn.Layer], ids=["torch", "paddle"])
def test_what_a_layer_holds_beside_tensors(kind):
    model = noted(kind)
    model.note, model.again = Note(model), None
    model.again = model.note
    model.slotted, model.told, model.state = Slotted(), Told(model), TellsItsState(model)
    model.array, model.pair, model.function = np.arange(3), (Note(1), 2), np.sin
    copied = duplicate(model)
    assert copied.note is copied.again is not model.note
    assert copied.note.of is copied is copied.note.seen[0]
    assert copied.slotted is not model.slotted
    assert copied.slotted.text == ["a"]
    assert copied.slotted.text is not model.slotted.text
    assert copied.told == "told"
    assert copied.state.seen == ["told"]
    copied.array[:] = 7
    assert model.array.tolist() == [0, 1, 2]
    assert copied.pair[0] is not model.pair[0]
    assert copied.function is np.sin


def test_buffers_that_lie_in_one_memory_do_so_in_the_copy():
    model = torch.nn.Module()
    whole = torch.arange(6.0)
    for name, part in {"first": whole, "second": whole.view(2, 3), "third": whole[2:]}.items():
        model.register_buffer(name, part)
    for order in (("first", "second", "third"), ("third", "first", "second")):
        model._buffers = {name: model._buffers[name] for name in order}
        copied = duplicate(model)
        copied.first.zero_()
        assert not copied.second.any()
        assert not copied.third.any()
        assert model.first.any()


@pytest.mark.parametrize(
    "make",
    [
        lambda: torch.arange(6.0).reshape(2, 3).t(),
        lambda: torch.arange(6.0)[1:],
        lambda: torch.ones(3).expand(2, 3),
        lambda: torch.ones(3, dtype=torch.complex64).conj(),
        lambda: torch.ones(3, requires_grad=True),
        lambda: torch.ones(0, 2),
        lambda: torch.eye(3).to_sparse(),
        lambda: torch.nn.Parameter(torch.arange(6.0).reshape(2, 3).t()),
        lambda: torch.nn.Parameter(torch.ones(2), requires_grad=False),
        lambda: torch.arange(3),
    ],
)
def test_a_tensor_of_torchs_is_copied_as_by_deepcopy(make):
    model = torch.nn.Module()
    model.held = make()
    theirs, ours = copy.deepcopy(model.held), duplicate(model).held
    assert type(theirs) is type(ours)
    assert theirs.requires_grad == ours.requires_grad
    assert theirs.layout == ours.layout
    assert ours.layout is torch.sparse_coo or (theirs.stride(), theirs.is_conj()) == (ours.stride(), ours.is_conj())
    assert torch.equal(theirs.to_dense(), ours.to_dense())
    assert ours.layout is torch.sparse_coo or not ours.numel() or ours.data_ptr() != model.held.data_ptr()


@pytest.mark.parametrize("stopped", [False, True])
def test_a_parameter_of_paddles_is_copied_as_by_deepcopy(stopped):
    model = paddle.nn.Linear(3, 2)
    model.weight.stop_gradient = stopped
    model.weight.optimize_attr["learning_rate"] = 0.5
    theirs, ours = copy.deepcopy(model).weight, duplicate(model).weight
    assert type(theirs) is type(ours)
    assert ours.stop_gradient is stopped
    assert (ours.numpy() == model.weight.numpy()).all()
    assert {name: getattr(theirs, name) for name in ("persistable", "is_leaf", "dtype", "shape", "trainable")} == {
        name: getattr(ours, name) for name in ("persistable", "is_leaf", "dtype", "shape", "trainable")
    }
    assert vars(theirs) == vars(ours)
    ours.optimize_attr["learning_rate"] = 0.25
    ours.set_value(paddle.zeros([3, 2]))
    assert model.weight.optimize_attr == {"learning_rate": 0.5}
    assert model.weight.numpy().any()
    assert ours.name != model.weight.name


def test_a_parameter_of_paddles_that_was_copied_is_trained():
    model = paddle.nn.Linear(3, 2)
    copied = duplicate(model)
    optimizer = paddle.optimizer.Adam(0.1, parameters=copied.parameters())
    copied(paddle.ones([1, 3])).sum().backward()
    optimizer.step()
    assert model.weight.grad is None
    assert not (copied.weight.numpy() == model.weight.numpy()).any()


@pytest.mark.parametrize("kind", [torch.nn.Module, paddle.nn.Layer], ids=["torch", "paddle"])
def test_what_is_noted_on_a_parameter_is_there(kind):
    model = noted(kind)
    model.first.weight.no_decay, model.first.weight.groups, model.first.weight.of = True, [1], model
    model.first.weight.lock = threading.Lock()  # which cannot be copied, and is in neither framework's own copies
    copied = duplicate(model)
    assert copied.first.weight.no_decay
    assert copied.second.weight.groups == [1]
    assert copied.first.weight.of is copied
    assert not hasattr(copied.first.weight, "lock")
    copied.first.weight.groups.append(2)
    assert model.first.weight.groups == [1]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("used", [False, True], ids=["new", "used"])
def test_weights_that_hooks_compute_anew_are_copied(used):
    norms = torch.nn.utils.weight_norm, torch.nn.utils.spectral_norm
    model = torch.nn.Sequential(
        norms[0](torch.nn.Conv1d(2, 2, 1)), norms[1](torch.nn.Linear(3, 3)), norms[0](torch.nn.Linear(3, 2))
    )
    x = torch.ones(1, 2, 3)
    if used:
        model(x).sum().backward()
    weight = model[0].weight
    copied = duplicate(model)
    assert model[0].weight is weight
    assert not weight.is_leaf
    assert copied[0].weight is not weight
    assert torch.equal(copied[0].weight, weight)
    copied.eval()
    model.eval()
    assert torch.equal(copied(x), model(x))
    copied(x).sum().backward()
    assert copied[0].weight_v is not model[0].weight_v
    assert copied[0].weight_v.grad is not None
