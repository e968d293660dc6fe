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
