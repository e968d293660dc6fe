"""Functions and layers of ``paddle.compat`` have Torch's names and defaults; under reference they have Torch's bits, too."""

import numpy as np
import paddle
import pytest
import torch

import padiff_shim

compat = pytest.importorskip("paddle.compat", reason="Paddle 3.3 has it")

NAN = np.array([[1.0, np.nan, 3.0], [4.0, 0.5, np.nan]], "float32")
X, IMAGE, SQUARE = (np.random.default_rng(0).standard_normal(shape).astype("float32") for shape in ([4, 6], [2, 3, 8, 8], [3, 3]))
HEADS = np.random.default_rng(1).standard_normal([2, 2, 5, 4]).astype("float32")

# (name below paddle.compat and below torch, arrays, arguments)
CALLS = [
    ("slogdet", [SQUARE], {}),
    ("sort", [X], {}),
    ("sort", [X], {"dim": 0, "descending": True, "stable": True}),
    ("split", [X], {"split_size_or_sections": 2, "dim": 1}),
    ("split", [X], {"split_size_or_sections": [1, 3], "dim": 0}),
    *((name, [X], arguments) for name in ("min", "max") for arguments in ({}, {"dim": 1}, {"dim": 0, "keepdim": True})),
    *((name, [X, X[::-1].copy()], {}) for name in ("min", "max")),
    ("unique", [np.array([3, 1, 3, 2])], {}),
    ("unique", [np.array([3, 1, 3, 2])], {"return_inverse": True, "return_counts": True}),
    *((name, [values], arguments) for name in ("median", "nanmedian") for values in (X, NAN) for arguments in ({}, {"dim": 1})),
    ("nn.functional.pad", [IMAGE], {"pad": [1, 2, 0, 1]}),
    ("nn.functional.pad", [IMAGE], {"pad": [1, 2, 0, 1], "mode": "reflect"}),
    ("nn.functional.pad", [IMAGE], {"pad": [1, 0, 2, 1], "value": 0.5}),
    ("nn.functional.softmax", [X], {"dim": 0}),
    ("nn.functional.linear", [X, np.ascontiguousarray(X[:3]), X[0, :3].copy()], {}),
    ("nn.functional.scaled_dot_product_attention", [HEADS, HEADS + 1, HEADS - 1], {}),
    ("nn.functional.scaled_dot_product_attention", [HEADS, HEADS + 1, HEADS - 1], {"is_causal": True, "scale": 0.3}),
    ("nn.functional.unfold", [IMAGE], {"kernel_size": 3, "padding": 1, "stride": 2}),
]
LAYERS = [
    ("Unfold", IMAGE, {"kernel_size": [2, 3], "dilation": 2}),
    ("Softmax", X, {"dim": -1}),
    ("AvgPool1d", IMAGE[0], {"kernel_size": 3, "padding": 1}),
    ("AvgPool2d", IMAGE, {"kernel_size": 3, "stride": 2, "padding": 1}),
    ("AvgPool2d", IMAGE, {"kernel_size": 3, "padding": 1, "count_include_pad": False}),
    ("AvgPool2d", IMAGE, {"kernel_size": 2, "divisor_override": 3}),
    ("AvgPool3d", IMAGE[None], {"kernel_size": 2, "ceil_mode": True}),
    ("Linear", X, {"in_features": 6, "out_features": 3}),
    ("Linear", X, {"in_features": 6, "out_features": 6, "bias": False}),
]


def named(root, name):
    for part in name.split("."):
        root = getattr(root, part)
    return root


def results(value):
    """The results as arrays, in order; sums of the float ones are the loss."""
    return [each for each in (value if isinstance(value, (tuple, list)) else [value]) if each is not None]


def bits(tensor):
    return tensor.detach().numpy().tobytes() if isinstance(tensor, torch.Tensor) else tensor.numpy().tobytes()


def answers(function, tensors, arguments):
    """The bits of the results and of the gradients of the float operands."""
    values = results(function(*tensors, **arguments))
    floats = [each for each in values if "float" in str(each.dtype)]
    loss = sum((each * each).sum() for each in floats)
    if floats and not bool((loss != loss).any()):
        loss.backward()
    return [bits(each) for each in values], [bits(each.grad) for each in tensors if each.grad is not None]


@pytest.mark.parametrize(("name", "arrays", "arguments"), CALLS, ids=[f"{name}-{len(a)}-{','.join(b)}" for name, a, b in CALLS])
def test_functions_have_torchs_bits(name, arrays, arguments):
    wants = [array.dtype.kind == "f" for array in arrays]
    theirs = answers(named(torch, name), [torch.tensor(array, requires_grad=want) for array, want in zip(arrays, wants)], arguments)
    with padiff_shim.reference("torch"):
        tensors = [paddle.to_tensor(array, stop_gradient=not want) for array, want in zip(arrays, wants)]
        assert answers(named(compat, name), tensors, arguments) == theirs


@pytest.mark.parametrize(("name", "array", "arguments"), LAYERS, ids=[f"{name}-{','.join(b)}" for name, _, b in LAYERS])
def test_layers_take_torchs_weights_and_have_its_bits(name, array, arguments):
    module, layer = getattr(torch.nn, name)(**arguments), getattr(compat.nn, name)(**arguments)
    if list(module.parameters()):
        assert padiff_shim.transfer_weights(module, layer)
        assert all(ours.shape == list(weight.shape) for ours, weight in zip(layer.parameters(), module.parameters()))
    theirs = answers(module, [torch.tensor(array, requires_grad=True)], {})
    with padiff_shim.reference("torch"):
        assert answers(layer, [paddle.to_tensor(array, stop_gradient=False)], {}) == theirs


@pytest.mark.parametrize("arguments", [{}, {"kdim": 8, "vdim": 8}, {"bias": False}, {"batch_first": True}])
def test_attention_takes_torchs_weights_and_is_proven(arguments):
    layer, module = (nn.MultiheadAttention(8, 2, **arguments) for nn in (compat.nn, torch.nn))
    assert padiff_shim.prove(layer, module, (HEADS.reshape(5, 2, 8),) * 3)
