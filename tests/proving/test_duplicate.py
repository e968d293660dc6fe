"""A proof's copies of both models share nothing with them, empty containers included."""

import paddle
import pytest
import torch

from padiff_shim.proving.copies import duplicate

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
    asked = []

    class Own(kind):
        pass

    def answer(self, *given):
        asked.append(way)
        if way == "__deepcopy__":
            return Own()
        if way == "__setstate__":
            self.__dict__.update(given[0])
            return None
        if way == "__getattr__" and given[0] == "__deepcopy__":
            return lambda memo: Own()
        return getattr(kind, way)(self, *given)

    holder, layer = noted(kind), Own()
    setattr(Own, way, answer)
    holder.inner = layer
    asked.clear()
    assert type(duplicate(holder).inner) is Own
    assert asked


def test_recurrent_layers_are_as_before():
    model = torch.nn.LSTM(3, 4, num_layers=2)
    copied, given = duplicate(model), torch.ones(2, 1, 3)
    assert torch.equal(copied(given)[0], model(given)[0])
    assert all(mine is not yours for mine, yours in zip(model.parameters(), copied.parameters()))
