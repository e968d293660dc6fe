"""A call leaves the report, equal weights and the last gradients, and nothing else; reports say where and why."""

import json
import random

import numpy as np
import paddle
import pytest
import torch
from helpers import in_child
from padiff_models import PaddleConv, TorchConv, arithmetic, branches, inputs, pair, residual

from padiff_shim import FileError, auto_diff
from padiff_shim.autodiff import LayerMap, add_special_init, create_model

pytestmark = pytest.mark.compat


@pytest.mark.usefixtures("undone")
def test_two_calls_in_a_row_are_one(capsys):
    port, original = PaddleConv(), TorchConv()
    arguments = inputs("x", shape=(4, 3, 8, 8))
    printed = []
    for _ in range(2):
        auto_diff(port, original, arguments, options={"atol": 1e-12, "compare_mode": "strict"}, explain=False)
        auto_diff(port, original, arguments, kernels="torch", explain=False)
        printed.append(capsys.readouterr().out)
    assert printed[0] == printed[1]


def test_options_do_not_leak():
    port, original = pair(residual)
    port.register_forward_post_hook(lambda layer, arguments, output: output + 0.5)
    assert auto_diff(port, original, inputs("x"), atol=1.0, diff_phase="forward") is True
    assert auto_diff(port, original, inputs("x"), diff_phase="forward", explain=False) is False


def test_gradients_that_were_there_do_not_count():
    port, original = pair(residual)
    port(paddle.ones([2, 12])).sum().backward()
    assert auto_diff(port, original, inputs("x"), atol=1e-4) is True


def paddles_state():
    """The generator's numbers, without the address of its engine."""
    return [word for word in str(paddle.get_rng_state()[0]).split() if not word.startswith("0x")]


def test_what_the_caller_holds_stays():
    """Statistics, modes, hooks, random states, and inputs that a model writes into."""

    class Writes(torch.nn.Module):
        def forward(self, x):
            return x.mul_(2.0)

    class Port(paddle.nn.Layer):
        def forward(self, x):
            return x.scale_(2.0)

    arguments = inputs("x")
    before = arguments[0]["x"].numpy().copy()
    assert auto_diff(Port(), Writes(), arguments, atol=1e-6, diff_phase="forward") is True
    assert (arguments[0]["x"].numpy() == before).all()
    assert (arguments[1]["x"].numpy() == before).all()
    port, original = PaddleConv(), TorchConv()
    statistics = port.bn._variance.numpy().copy(), original.bn.running_var.clone()
    states = paddles_state(), torch.get_rng_state(), random.getstate(), np.random.get_state()[1].copy()
    auto_diff(port, original, inputs("x", shape=(4, 3, 8, 8)), explain=False)
    assert (port.bn._variance.numpy() == statistics[0]).all()
    assert (original.bn.running_var == statistics[1]).all()
    assert original.bn.num_batches_tracked == 0
    assert not port._forward_post_hooks
    assert not original.bn._forward_hooks
    assert original.training
    assert port.training
    assert paddles_state() == states[0]
    assert torch.equal(torch.get_rng_state(), states[1])
    assert random.getstate() == states[2]
    assert (np.random.get_state()[1] == states[3]).all()


@pytest.mark.parametrize("framework", ["paddle", "torch"])
def test_errors_of_the_models_are_their_own(framework):
    port, original = pair(residual)
    error = ValueError("mine")

    def fail(*_):
        raise error

    model = {"paddle": port, "torch": original}[framework]
    model.register_forward_pre_hook(fail)
    with pytest.raises(ValueError, match="mine") as caught:
        auto_diff(port, original, inputs("x"))
    assert caught.value is error
    assert len(port.inner._forward_post_hooks) == len(original.inner._forward_hooks) == 0


def test_importing_patches_nothing():
    program = """
        import sys
        import paddle, torch
        def held():
            owners = [paddle, paddle.Tensor, paddle.nn.functional, paddle.nn.Layer, paddle._C_ops, torch, torch.Tensor,
                      torch.nn.functional, torch.nn.Module]
            return [{name: id(value) for name, value in vars(owner).items()} for owner in owners]
        before, finders = held(), list(sys.meta_path)
        import padiff_shim
        import padiff_shim.autodiff
        padiff_shim.auto_diff
        assert held() == before
        assert [one for one in sys.meta_path if one not in finders and one.__module__ != "padiff_shim"] == []
        layer, module = paddle.nn.Linear(2, 2), torch.nn.Linear(2, 2)
        import numpy
        x = numpy.ones((1, 2), "float32")
        given = ({"input": paddle.to_tensor(x)}, {"input": torch.tensor(x)})
        assert padiff_shim.auto_diff(layer, module, given, atol=1e-4, report_dir=None) is True
        assert held() == before
    """
    child = in_child(program)
    assert child.returncode == 0, child.stderr


def test_the_report_folder(tmp_path, capsys):
    (port, _), (_, original) = pair(arithmetic(2.0)), pair(arithmetic(2.125))
    other = tmp_path / "padiff_log" / "mine.txt"
    other.parent.mkdir()
    other.write_text("mine")
    assert auto_diff(port, original, inputs("x"), atol=1e-4) is False
    folder = tmp_path / "padiff_log"
    report = json.loads((folder / "report.json").read_text())
    assert report["agree"] is False
    assert report["difference"]["stage"] == "forward"
    assert report["proof"]["mistakes"]
    assert "x * factor" in (folder / "report.md").read_text()
    assert "HERE" in (folder / "raw_model.log").read_text()
    assert "<!doctype html>" in (folder / "proof.html").read_text()
    assert str(folder) in capsys.readouterr().out
    assert auto_diff(*pair(arithmetic()), inputs("x"), atol=1e-4) is True
    assert sorted(path.name for path in folder.iterdir()) == [
        "base_model.log",
        "mine.txt",
        "raw_model.log",
        "report.json",
        "report.md",
    ]
    assert other.read_text() == "mine"


def test_routes_and_stacks_are_printed(capsys):
    """Of the first layer that differs, in either model."""
    port, original = pair(residual)
    port.inner.register_forward_post_hook(lambda layer, arguments, output: output * 1.01)
    assert auto_diff(port, original, inputs("x"), atol=1e-4) is False
    printed = capsys.readouterr().out
    assert "Type of layer is: Linear vs Linear" in printed
    assert "Residual.inner" in printed
    for framework in ("Torch", "Paddle"):
        stack = printed.partition(f"{framework} stack:")[2]
        assert "return self.head(self.act(self.inner(x)) + x)" in stack
    assert "test_no_trace.py" not in printed.partition("stack:")[2].partition("Why")[0]


def test_a_backward_difference_names_the_layer_behind_which_gradients_part(tmp_path, capsys):
    def double(tensor):
        if isinstance(tensor, paddle.Tensor):
            tensor.register_hook(lambda gradient: gradient * 2)
        return tensor

    assert auto_diff(*pair(branches(change=double)), inputs("x"), atol=1e-4) is False
    printed = capsys.readouterr().out
    assert "Diff found in Backward Stage" in printed
    assert "second" in printed
    assert "second.weight" in (tmp_path / "padiff_log" / "grads_diff.log").read_text()


def test_a_folder_that_cannot_be_written(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(FileError, match="the models agree"):
        auto_diff(*pair(residual), inputs("x"), atol=1e-4, report_dir=tmp_path / "file")


def test_layers_that_are_left_out(capsys):
    """Neither their weights nor what they do is looked at."""
    port, original = pair(residual)
    port.inner.register_forward_post_hook(lambda layer, arguments, output: output * 1.01)
    layer_map = LayerMap()
    layer_map.ignore_recursively([port.inner, original.inner])
    assert auto_diff(port, original, inputs("x"), layer_map=layer_map, options={"atol": 1e-4}, explain=False) is False
    assert "Residual.inner" not in capsys.readouterr().out
    marked = create_model(port)
    marked.update_white_list_with_class(paddle.nn.ReLU)
    assert auto_diff(marked, original, inputs("x"), atol=1e-4, explain=False) is False
    assert "Residual.inner" not in capsys.readouterr().out


class Mine(paddle.nn.Layer):
    def __init__(self):
        super().__init__()
        self.both = self.create_parameter([3, 2, 5])

    def forward(self, x):
        return x @ self.both[:, 0] + self.both[0, 1]


class Theirs(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.matrix, self.vector = torch.nn.Parameter(torch.randn(3, 5)), torch.nn.Parameter(torch.randn(5))

    def forward(self, x):
        return x @ self.matrix + self.vector


def test_weights_that_the_caller_copies(monkeypatch):
    """Mapped layers whose weights nothing else could tell."""
    monkeypatch.setattr("padiff_shim.autodiff.models._written", {})

    class Port(paddle.nn.Layer):
        def __init__(self):
            super().__init__()
            self.inside = Mine()

        def forward(self, x):
            return self.inside(x)

    class Original(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.inside = Theirs()

        def forward(self, x):
            return self.inside(x)

    def copy(layer, module):
        values = np.zeros((3, 2, 5), "float32")
        values[:, 0], values[0, 1] = module.matrix.detach().numpy(), module.vector.detach().numpy()
        layer.both.set_value(values)

    port, original = Port(), Original()
    arguments = inputs("x", shape=(4, 3))
    assert auto_diff(port, original, arguments, layer_map={port.inside: original.inside}, options={"atol": 1e-4}) is False
    add_special_init("Mine", "Theirs", copy)
    assert auto_diff(port, original, arguments, layer_map={port.inside: original.inside}, options={"atol": 1e-4}) is True
    add_special_init("torch", "Theirs", "paddle", "Mine", lambda module, layer: copy(layer, module))
    assert auto_diff(original, port, arguments[::-1], layer_map={port.inside: original.inside}, atol=1e-4) is True
