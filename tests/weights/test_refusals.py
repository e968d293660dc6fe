"""What cannot be taken across is named, with what is near, and nothing is written then."""

import re

import numpy as np
import paddle
import paddle.nn as pnn
import pytest
import torch
import torch.nn as tnn
from layer_pairs import scrambled
from trees import ours, plinear, theirs, tlinear

import padiff_shim
from padiff_shim.weights import cast, match, transfer, values

pytestmark = pytest.mark.compat


def state_of(layer):
    return {name: np.array(tensor.numpy()) for name, tensor in layer.state_dict().items()}


def refused(src, dst, error=padiff_shim.TransferError, **options):
    """The message of a refusal, after which the target is as it was."""
    before = state_of(dst) if isinstance(dst, pnn.Layer) else None
    with pytest.raises(error) as caught:
        padiff_shim.transfer_weights(src, dst, **options)
    if before is not None:
        after = state_of(dst)
        assert all(np.array_equal(before[name], after[name]) for name in before)
    return str(caught.value)


def test_a_missing_bias():
    message = refused(theirs(fc=tlinear(4, 4), head=tlinear(4, 2)), ours(fc=plinear(4, 4, bias_attr=False), head=plinear(4, 2)))
    assert "fc.bias [4]: its layer's partner, fc," in message


def test_a_part_of_a_weight():
    """Torch's fused projections, and a port that has no values."""
    attention = ours(q_proj=plinear(8, 8), k_proj=plinear(8, 8), out_proj=plinear(8, 8))
    message = refused(theirs(attn=tnn.MultiheadAttention(8, 2), fc=tlinear(8, 8)), ours(attn=attention, fc=plinear(8, 8)))
    assert "attn.in_proj_weight [24, 8]: its layer's partner, attn," in message


def test_other_shapes():
    message = refused(theirs(fc=tlinear(4, 8), head=tlinear(8, 2)), ours(fc=plinear(4, 6), head=plinear(6, 2)))
    assert "fc.weight [8, 4] and fc.weight [4, 6] (in Torch's layout [6, 4])" in message
    assert "fc.bias [8] and fc.bias [6]" in message
    assert "head.bias" not in message


def test_an_extra_layer():
    message = refused(theirs(a=tlinear(4, 4), b=tlinear(4, 4), c=tlinear(4, 4)), ours(a=plinear(4, 4), b=plinear(4, 4)))
    assert "Torch model:\n  c.weight [4, 4]" in message
    assert "Paddle model:" not in message


def test_free_candidates_of_the_shape_are_named():
    a = tnn.Sequential(tlinear(4, 4), tlinear(4, 4), tlinear(4, 4))
    mapping = match(a, pnn.Sequential(plinear(4, 4), plinear(4, 4)))
    assert len(mapping) == 0
    message = refused(a, pnn.Sequential(plinear(4, 4), plinear(4, 4)))
    assert re.search(r"2\.weight \[4, 4\]:.* free:", message)


def test_the_error_holds_the_mapping():
    with pytest.raises(padiff_shim.TransferError) as caught:
        padiff_shim.transfer_weights(theirs(a=tlinear(4, 4), b=tlinear(4, 3)), ours(a=plinear(4, 4)))
    assert caught.value.mapping.unmatched_src == ["b.weight", "b.bias"]


def test_one_layer_that_does_not_fit_leaves_the_others_paired():
    a = theirs(attn=tnn.MultiheadAttention(8, 2), norm=tnn.LayerNorm(8), fc=tlinear(8, 8))
    letters = {f"{letter}_proj": plinear(8, 8) for letter in ("q", "k", "v", "out")}
    b = ours(**letters, ln=pnn.LayerNorm(8), linear=plinear(8, 6, bias_attr=False))
    mapping = match(a, b)
    assert mapping.unmatched_src == ["fc.weight", "fc.bias"]
    assert mapping.partner("attn.in_proj_weight") == ["q_proj.weight", "k_proj.weight", "v_proj.weight"]
    message = refused(a, b)
    assert "fc.weight [8, 8] and linear.weight [8, 6] (in Torch's layout [6, 8])" in message


def test_a_padding_row_that_paddle_does_not_read_is_said():
    mapping = match(theirs(words=tnn.Embedding(4, 3, padding_idx=0)), ours(words=pnn.Embedding(4, 3, padding_idx=0)))
    assert [note.partition(":")[0] for note in mapping.notes] == ["words"]
    assert "padding_idx" in mapping.notes[0]
    assert not match(theirs(words=tnn.Embedding(4, 3)), ours(words=pnn.Embedding(4, 3))).notes


def test_running_statistics_that_paddle_does_not_keep():
    message = refused(theirs(norm=tnn.InstanceNorm2d(4, affine=True, track_running_stats=True)), ours(norm=pnn.InstanceNorm2D(4)))
    assert "norm.running_mean [4]" in message
    assert "norm.running_var [4]" in message


def test_statistics_that_torch_does_not_keep_are_left_alone():
    b = ours(norm=pnn.BatchNorm2D(4))
    padiff_shim.transfer_weights(theirs(norm=tnn.BatchNorm2d(4, track_running_stats=False)), b)
    assert np.array_equal(b.norm._variance.numpy(), np.ones(4, "float32"))


def test_tied_weights_are_written_once_and_ties_on_one_side_are_said():
    a = theirs(words=tnn.Embedding(7, 4), head=tlinear(4, 7, bias=False))
    a.head.weight = a.words.weight
    b = ours(words=pnn.Embedding(7, 4), head=plinear(4, 7, bias_attr=False))
    mapping = padiff_shim.transfer_weights(scrambled(a), b)
    assert re.match("words.weight.*head.weight|head.weight.*words.weight", mapping.notes[0])
    assert np.array_equal(b.head.weight.numpy(), b.words.weight.numpy().T)
    padiff_shim.transfer_weights(b, a)
    b.head.weight.set_value(np.zeros([4, 7], "float32"))
    before = a.words.weight.detach().clone()
    message = refused(b, a)
    assert "different values" in message
    assert torch.equal(a.words.weight, before)


def test_a_head_that_is_only_a_function_on_the_other_side():
    a = theirs(words=tnn.Embedding(7, 4), head=tlinear(4, 7, bias=False))
    a.head.weight = a.words.weight
    assert padiff_shim.transfer_weights(a, ours(words=pnn.Embedding(7, 4)))


@pytest.mark.parametrize("error", [RuntimeError, MemoryError, KeyboardInterrupt])
@pytest.mark.parametrize("fails_at", [0, 3])
def test_a_write_that_fails_takes_back_those_before(monkeypatch, error, fails_at):
    calls = []

    def put(write):
        write.target.fill_(7)  # half of it is there when it fails
        calls.append(write)
        if len(calls) > fails_at:
            raise error("no more")

    monkeypatch.setattr(transfer, "write_all", lambda writes: values.write_all(writes, put))
    refused(scrambled(theirs(a=tlinear(4, 4), b=tlinear(4, 4))), ours(a=plinear(4, 4), b=plinear(4, 4)), error)
    assert len(calls) == fails_at + 1


def test_values_are_not_rounded_unless_asked():
    a, b = scrambled(tlinear(4, 4).double()), plinear(4, 4)
    message = refused(a, b)
    assert re.search("float32.*float64.*rounded", message)
    mapping = padiff_shim.transfer_weights(a, b, rules=[("**", cast())])
    assert np.array_equal(b.weight.numpy(), a.weight.detach().float().t().numpy())
    assert {difference.finding for difference in mapping.check(a, b).differences} == {"rounded"}


@pytest.mark.parametrize("narrow", ["float16", "bfloat16", "float32"])
def test_wider_targets_hold_the_exact_values_and_keep_their_dtype(narrow):
    a = scrambled(tlinear(4, 4)).to(getattr(torch, narrow))
    b = plinear(4, 4)
    b.to(dtype="float64")
    padiff_shim.transfer_weights(a, b)
    assert b.weight.dtype == paddle.float64
    assert np.array_equal(b.weight.numpy(), a.weight.detach().double().t().numpy())


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float64"])
def test_every_dtype_keeps_its_bits_both_ways(dtype):
    a, c = (scrambled(tlinear(4, 4), seed).to(getattr(torch, dtype)) for seed in (1, 2))
    b = plinear(4, 4)
    b.to(dtype=dtype)
    assert padiff_shim.transfer_weights(a, b).check(a, b)
    padiff_shim.transfer_weights(b, c)
    assert torch.equal(a.weight, c.weight)


def test_read_only_arrays_are_refused_before_anything_is_written():
    state = {"weight": np.zeros((3, 4), "float32"), "bias": np.zeros(4, "float32")}
    state["bias"].flags.writeable = False
    message = refused(scrambled(tlinear(3, 4)), state)
    assert re.search("bias.*read-only", message)
    assert not state["weight"].any()


def test_expanded_targets_are_refused():
    state = {"weight": torch.zeros(1, 4).expand(4, 4), "bias": torch.zeros(4)}
    assert "share memory" in refused(plinear(4, 4), state)


@pytest.mark.parametrize("tensor", [torch.empty(4, 4, device="meta"), torch.zeros(4, 4).to_sparse()], ids=["meta", "sparse"])
def test_tensors_without_plain_values(tensor):
    with pytest.raises(padiff_shim.ArgumentError, match=r"weight 'weight' (lies on the meta device|is quantized or sparse)"):
        padiff_shim.transfer_weights({"weight": tensor}, plinear(4, 4))


@pytest.mark.parametrize(
    ("src", "dst", "words"),
    [
        (3, pnn.Linear(2, 2), "src= is a torch.nn.Module"),
        (tnn.Linear(2, 2), None, "dst= is a torch.nn.Module"),
        (tnn.Linear(2, 2), tnn.Linear(2, 2), "both Torch's"),
        (pnn.Linear(2, 2), pnn.Linear(2, 2), "both Paddle's"),
        (tnn.Linear(2, 2), "file.pdparams", "written into"),
        ({"a": 3}, pnn.Linear(2, 2), "holds tensors of one framework"),
        ({3: torch.ones(2)}, pnn.Linear(2, 2), "names of a state dict are strings"),
    ],
)
def test_arguments(src, dst, words):
    with pytest.raises(padiff_shim.ArgumentError, match=words):
        padiff_shim.transfer_weights(src, dst)


def test_tensors_stay_what_they_are():
    a, b = scrambled(tlinear(4, 4)), plinear(4, 4)
    b.weight.stop_gradient = True
    before = b.weight, b.weight.data_ptr(), b.bias.stop_gradient
    padiff_shim.transfer_weights(a, b)
    assert b.weight is before[0]
    assert (b.weight.data_ptr(), b.bias.stop_gradient, b.weight.stop_gradient) == (*before[1:], True)
    a.bias.requires_grad_(False)
    before = a.weight, a.weight.data_ptr()
    padiff_shim.transfer_weights(b, a)
    assert a.weight is before[0]
    assert (a.weight.data_ptr(), a.weight.requires_grad, a.bias.requires_grad, a.weight.grad_fn) == (before[1], True, False, None)


@pytest.mark.bitexact
@pytest.mark.parametrize("mode", ["reference", "compare"])
def test_inside_of_a_mode(mode):
    a, b = scrambled(tlinear(4, 4)), plinear(4, 4)
    x = np.random.default_rng(0).standard_normal((3, 4)).astype("float32")
    with getattr(padiff_shim, mode)("torch"):
        b(paddle.to_tensor(x))
        padiff_shim.transfer_weights(a, b)
        output = b(paddle.to_tensor(x))
    wanted = a(torch.from_numpy(x)).detach().numpy()
    if mode == "reference":
        assert np.array_equal(output.numpy(), wanted)
    else:
        np.testing.assert_allclose(output.numpy(), wanted, rtol=1e-5)
