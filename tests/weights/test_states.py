"""State dicts and files in place of models, both ways."""

import os
import pickle
import sys
from pathlib import Path

import numpy as np
import paddle
import pytest
import torch
import torch.nn as tnn
from layer_pairs import LAYERS, scrambled, scrambled_paddle
from trees import ours, plinear, theirs, tlinear

import padiff_shim
from padiff_shim.weights import as_is, match, transpose

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "examples"))
import itertools

from zoo import pairs

SQUARE = ["square linear", "linear without bias", "weight norm", "weight norm of everything", "spectral norm"]
NAMES = ["resnet", "gpt", "t5", "tagger", "vae", *(name for name in LAYERS if name != "lstm without bias")]


def models(name):
    if name in LAYERS:
        return LAYERS[name].paddle_layer(), LAYERS[name].torch_module()
    pair = pairs.build(name, "float32")
    return pair.paddle, pair.torch


@pytest.mark.rows(6)
@pytest.mark.compat
@pytest.mark.parametrize("name", NAMES)
def test_dicts_and_files_give_what_models_give(name, tmp_path):
    b, a = models(name)
    wanted = match(a, b)
    torch.save(scrambled(a, 1).state_dict(), tmp_path / "torch.pt")
    padiff_shim.transfer_weights(tmp_path / "torch.pt", b)
    assert wanted.check(a, b)
    arrays = {key: tensor.numpy() for key, tensor in scrambled(a, 2).state_dict().items()}
    if name in SQUARE:
        with pytest.raises(padiff_shim.TransferError):
            padiff_shim.transfer_weights(arrays, b)
    else:
        padiff_shim.transfer_weights(arrays, b)
        assert wanted.check(a, b)
    paddle.save(scrambled_paddle(b, 3).state_dict(), str(tmp_path / "paddle.pdparams"))
    padiff_shim.transfer_weights(str(tmp_path / "paddle.pdparams"), a)
    assert wanted.check(a, b)
    padiff_shim.transfer_weights(scrambled_paddle(b, 4).state_dict(), a)
    assert wanted.check(a, b)
    padiff_shim.transfer_weights(scrambled(a, 5), b.state_dict())
    assert wanted.check(a, b)


@pytest.mark.parametrize("name", NAMES)
def test_safetensors(name, tmp_path):
    torch_format = pytest.importorskip("safetensors.torch")
    b, a = models(name)
    state = {key: tensor.contiguous().clone() for key, tensor in scrambled(a, 1).state_dict().items()}
    torch_format.save_file(state, tmp_path / "model.safetensors", {"format": "pt"})
    padiff_shim.transfer_weights(tmp_path / "model.safetensors", b)
    assert match(a, b).check(a, b)


def test_safetensors_of_paddle(tmp_path):
    numpy_format = pytest.importorskip("safetensors.numpy")
    b, a = scrambled_paddle(ours(fc=plinear(4, 4))), theirs(fc=tlinear(4, 4))
    numpy_format.save_file({key: np.array(tensor.numpy()) for key, tensor in b.state_dict().items()},
                           tmp_path / "model.safetensors", {"format": "pd"})  # fmt: skip
    padiff_shim.transfer_weights(tmp_path / "model.safetensors", a)
    assert np.array_equal(a.fc.weight.detach().numpy(), b.fc.weight.numpy().T)
    with pytest.raises(padiff_shim.ArgumentError, match="both Paddle's"):
        padiff_shim.transfer_weights(tmp_path / "model.safetensors", b)


def test_the_order_of_a_safetensors_file_says_nothing(tmp_path):
    torch_format = pytest.importorskip("safetensors.torch")
    a = theirs(zeta=tlinear(4, 4), alpha=tlinear(4, 4))
    torch_format.save_file(a.state_dict(), tmp_path / "model.safetensors", {"format": "pt"})
    b = ours(one=plinear(4, 4), two=plinear(4, 4))
    with pytest.raises(padiff_shim.TransferError, match=r"zeta.weight \[4, 4\]: of this shape and free"):
        padiff_shim.transfer_weights(tmp_path / "model.safetensors", b)
    padiff_shim.transfer_weights(tmp_path / "model.safetensors", b, layer_map={"zeta": "one"})
    assert match(a, b).check(a, b)


@pytest.mark.compat
def test_many_numbered_layers():
    """Layer 10 comes after layer 9 also where names are sorted as text."""
    a, b = tnn.Sequential(*(tlinear(4, 4) for _ in range(12))), paddle.nn.Sequential(*(plinear(4, 4) for _ in range(12)))
    state = dict(sorted(scrambled(a).state_dict().items()))
    padiff_shim.transfer_weights(state, b)
    assert match(a, b).check(a, b)


@pytest.mark.compat
@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float64"])
def test_dtypes_in_files(dtype, tmp_path):
    a, b = scrambled(tlinear(4, 3)).to(getattr(torch, dtype)), plinear(4, 3)
    b.to(dtype=dtype)
    torch.save(a.state_dict(), tmp_path / "torch.pth")
    padiff_shim.transfer_weights(tmp_path / "torch.pth", b)
    assert match(a, b).check(a, b)
    paddle.save(b.state_dict(), str(tmp_path / "paddle.pdparams"))
    c = tlinear(4, 3).to(getattr(torch, dtype))
    padiff_shim.transfer_weights(tmp_path / "paddle.pdparams", c)
    assert torch.equal(a.weight, c.weight)


@pytest.mark.compat
def test_tensors_outside_of_a_layer_and_large_ones_in_pieces(tmp_path):
    weight = paddle.ones([3, 4])
    paddle.save({"weight": weight, "bias": paddle.zeros([4])}, str(tmp_path / "plain.pdparams"))
    a = tlinear(3, 4)
    padiff_shim.transfer_weights(tmp_path / "plain.pdparams", a)
    assert bool((a.weight == 1).all())
    halves = np.split(np.arange(12, dtype="float32"), 2)
    parts = {"weight": {"OriginShape": (3, 4), "slices": ["weight@@.0", "weight@@.1"]}}
    pieces = {"bias": np.ones(4, "float32"), **dict(zip(parts["weight"]["slices"], halves)), "UnpackBigParamInfor@@": parts}
    (tmp_path / "pieces.pdparams").write_bytes(pickle.dumps(pieces, protocol=2))
    padiff_shim.transfer_weights(tmp_path / "pieces.pdparams", a)
    assert np.array_equal(a.weight.detach().numpy(), np.arange(12, dtype="float32").reshape(3, 4).T)


class Malicious:
    def __reduce__(self):
        return os.system, ("touch pickled",)


@pytest.mark.compat
@pytest.mark.parametrize("name", ["bad.pdparams", "bad.pt"])
def test_nothing_in_a_file_is_run(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    if name.endswith("pt"):
        torch.save({"weight": Malicious()}, name)
    else:
        Path(name).write_bytes(pickle.dumps({"weight": Malicious()}))
    with pytest.raises(padiff_shim.FileError, match=r"can(not)? be read safely"):
        padiff_shim.transfer_weights(name, plinear(2, 2))
    assert not Path("pickled").exists()


@pytest.mark.compat
@pytest.mark.parametrize("name", ["empty.pdparams", "empty.pt", "empty.safetensors", "none.pt", "folder.pt"])
def test_files_that_are_none(name, tmp_path):
    if name.endswith("safetensors"):
        pytest.importorskip("safetensors")
    if name.startswith("empty"):
        (tmp_path / name).write_bytes(b"")
    elif name.startswith("folder"):
        (tmp_path / name).mkdir()
    with pytest.raises(padiff_shim.FileError, match=name):
        padiff_shim.transfer_weights(tmp_path / name, plinear(2, 2))


@pytest.mark.compat
def test_files_with_something_else(tmp_path):
    wrapped = {"model": {"ema": tlinear(2, 2).state_dict()}, "optimizer": {0: {"step": torch.zeros(1)}}, "epoch": 3}
    torch.save(wrapped, tmp_path / "checkpoint.pt")
    for source in (tmp_path / "checkpoint.pt", wrapped, tlinear(2, 2).state_dict() | {"optimizer": {}}):
        where = "optimizer" if source is not wrapped and isinstance(source, dict) else r"\['model'\]\['ema'\]"
        with pytest.raises(padiff_shim.ArgumentError, match=where):
            padiff_shim.transfer_weights(source, plinear(2, 2))
    with pytest.raises(padiff_shim.ArgumentError, match=r"accepted: \.pdparams, \.pt"):
        padiff_shim.transfer_weights(tmp_path / "weights.npz", plinear(2, 2))


@pytest.mark.compat
def test_two_state_dicts():
    a, b = scrambled(theirs(fc=tlinear(4, 3), norm=tnn.LayerNorm(3))), ours(fc=plinear(4, 3), norm=paddle.nn.LayerNorm(3))
    padiff_shim.transfer_weights(a.state_dict(), b.state_dict())
    assert match(a, b).check(a, b)


@pytest.mark.compat
def test_two_state_dicts_cannot_tell_how_a_square_matrix_lies():
    a, b = scrambled(theirs(fc=tlinear(4, 4))), ours(fc=plinear(4, 4))
    with pytest.raises(padiff_shim.TransferError, match=r"fc.weight \[4, 4\]"):
        padiff_shim.transfer_weights(a.state_dict(), b.state_dict())
    padiff_shim.transfer_weights(a.state_dict(), b.state_dict(), rules=[("fc.weight", transpose)])
    assert match(a, b).check(a, b)
    padiff_shim.transfer_weights(a.state_dict(), b.state_dict(), rules=[("fc.weight", as_is)])
    assert not match(a, b).check(a, b)


def _mlp(*widths):
    """Linear layers of these widths, one behind the other, in both frameworks."""
    steps = list(itertools.pairwise(widths))
    return tnn.Sequential(*(tlinear(*step) for step in steps)), paddle.nn.Sequential(*(plinear(*step) for step in steps))


def _sources(arrays, folder):
    """The same values as arrays, as Torch's tensors, and in files of several kinds."""
    safetensors = pytest.importorskip("safetensors.numpy")
    tensors = {name: torch.from_numpy(array) for name, array in arrays.items()}
    torch.save(tensors, folder / "model.pt")
    safetensors.save_file(arrays, folder / "plain.safetensors")
    safetensors.save_file(arrays, folder / "np.safetensors", {"format": "np"})
    safetensors.save_file(arrays, folder / "pt.safetensors", {"format": "pt"})
    return [arrays, tensors, *(folder / name for name in ("model.pt", "plain.safetensors", "np.safetensors", "pt.safetensors"))]


@pytest.mark.parametrize("turned", [False, True], ids=["out, in", "in, out"])
def test_matrices_that_are_not_square_decide_for_all_of_a_file(turned, tmp_path):
    a, b = _mlp(6, 8, 8, 8, 5)
    scrambled(a, 1)
    arrays = {name: tensor.numpy() for name, tensor in a.state_dict().items()}
    if turned:
        arrays = {name: np.ascontiguousarray(array.T) for name, array in arrays.items()}
    for source in _sources(arrays, tmp_path):
        scrambled_paddle(b, 2)
        padiff_shim.transfer_weights(source, b)
        assert match(a, b).check(a, b)


@pytest.mark.parametrize("turned", [False, True], ids=["out, in", "in, out"])
def test_and_for_all_that_goes_into_a_torch_module(turned, tmp_path):
    safetensors = pytest.importorskip("safetensors.numpy")
    a, b = _mlp(6, 8, 8, 5)
    scrambled_paddle(b, 1)
    arrays = {name: np.ascontiguousarray(tensor.numpy().T if turned else tensor.numpy()) for name, tensor in b.state_dict().items()}
    safetensors.save_file(arrays, tmp_path / "np.safetensors", {"format": "np"})
    paddle.save({name: paddle.to_tensor(array) for name, array in arrays.items()}, str(tmp_path / "model.pdparams"))
    for source in (arrays, tmp_path / "np.safetensors", tmp_path / "model.pdparams"):
        scrambled(a, 2)
        padiff_shim.transfer_weights(source, a)
        assert match(a, b).check(a, b)


def _rules(error):
    """The rules that a refusal says to write."""
    return eval(str(error.value).partition("rules=")[2].partition("]. ")[0] + "]", {"as_is": as_is})


@pytest.mark.parametrize("turned", [False, True], ids=["out, in", "in, out"])
@pytest.mark.parametrize("disagree", [False, True])
def test_what_is_not_known_is_refused_and_the_words_work(turned, disagree, tmp_path):
    a, b = _mlp(*((6, 8, 8, 5) if disagree else (8, 8, 8)))
    scrambled(a, 1)
    arrays = {name: tensor.numpy() for name, tensor in a.state_dict().items()}
    if turned:
        arrays = {name: np.ascontiguousarray(array.T) for name, array in arrays.items()}
    if disagree:
        arrays["2.weight"] = np.ascontiguousarray(arrays["2.weight"].T)
    for source in _sources(arrays, tmp_path):
        if not disagree and (
            str(source).endswith(("model.pt", "pt.safetensors")) or (isinstance(source, dict) and source is not arrays)
        ):
            continue  # tensors of Torch's, and files that say so
        before = b.state_dict()["1.weight"].numpy()
        with pytest.raises(padiff_shim.TransferError, match=r"1\.weight \[8, 8\]") as error:
            padiff_shim.transfer_weights(source, b)
        assert np.array_equal(b.state_dict()["1.weight"].numpy(), before)
        rules = _rules(error)
        padiff_shim.transfer_weights(source, b, rules=[(pattern, as_is if turned else transpose) for pattern, _ in rules])
        assert match(a, b).check(a, b)


def test_an_embedding_shows_nothing_of_the_layout():
    a, b = theirs(words=tnn.Embedding(9, 4), fc=tlinear(4, 4)), ours(words=paddle.nn.Embedding(9, 4), fc=plinear(4, 4))
    with pytest.raises(padiff_shim.TransferError, match=r"fc\.weight \[4, 4\]"):
        padiff_shim.transfer_weights({name: tensor.numpy() for name, tensor in scrambled(a).state_dict().items()}, b)
