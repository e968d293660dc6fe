"""Fused ops of paddle.incubate where the table's own samples cannot say it: results that Paddle leaves unset, and refusals."""

import numpy as np
import paddle
import pytest
import torch
from helpers import in_child, same

import padiff_shim

incubate = pytest.importorskip("paddle.incubate.nn.functional")
pytestmark = [
    pytest.mark.bitexact,
    pytest.mark.skipif(not hasattr(paddle._C_ops, "fused_rms_norm_quant"), reason="2.6 has these on a GPU only"),
]

RNG = np.random.default_rng(4)
X, RESIDUAL = (RNG.standard_normal((2, 3, 8)).astype("float32") for _ in range(2))
WEIGHT, BIAS, ADDED = (RNG.standard_normal(8).astype("float32") for _ in range(3))


def ours(name, x, *others, **options):
    tensors = [None if parameter is None else paddle.to_tensor(parameter) for parameter in others]
    with padiff_shim.reference("torch", strict=True) as run:
        result = getattr(incubate, name)(x, *tensors, 1e-5, begin_norm_axis=2, **options)
    assert not run.native
    return result


def test_layer_norm_of_x_alone():
    result = ours("fused_layer_norm", paddle.to_tensor(X), WEIGHT, BIAS)
    expected = torch.nn.functional.layer_norm(torch.from_numpy(X), [8], torch.from_numpy(WEIGHT), torch.from_numpy(BIAS), 1e-5)
    assert same(result[0], expected)


def test_layer_norm_of_a_sum():
    result = ours(
        "fused_layer_norm", paddle.to_tensor(X), WEIGHT, BIAS, bias=paddle.to_tensor(ADDED), residual=paddle.to_tensor(RESIDUAL)
    )
    summed = torch.from_numpy(X) + torch.from_numpy(ADDED) + torch.from_numpy(RESIDUAL)
    assert same(result[1], summed)
    assert same(result[0], torch.nn.functional.layer_norm(summed, [8], torch.from_numpy(WEIGHT), torch.from_numpy(BIAS), 1e-5))


def test_rms_norm_has_the_gradient_that_paddle_lacks_on_the_cpu():
    x, twin = paddle.to_tensor(X, stop_gradient=False), torch.tensor(X, requires_grad=True)
    result = ours("fused_rms_norm", x, WEIGHT, None)[0]
    expected = torch.nn.functional.rms_norm(twin, [8], torch.from_numpy(WEIGHT), 1e-5)
    (result * result).sum().backward()
    (expected * expected).sum().backward()
    assert same(result.detach(), expected.detach())
    np.testing.assert_allclose(x.grad.numpy(), twin.grad.numpy(), rtol=1e-4, atol=1e-6)


WANTING = ("x", "norm_weight", "norm_bias", "bias", "residual")


@pytest.mark.avx512
@pytest.mark.parametrize("name", ["fused_layer_norm", "fused_rms_norm"])
@pytest.mark.parametrize("names", [WANTING[:3], WANTING], ids=["without a residual", "with a residual"])
def test_results_say_of_themselves_what_paddles_say(name, names):
    """One that the kernel leaves unset has no memory, and may have a shape and a node."""

    def flags(wanting):
        operands = {name: paddle.ones([2, 8] if name in ("x", "residual") else [8]) for name in names}
        if wanting:
            operands[wanting].stop_gradient = False
        results = getattr(incubate, name)(epsilon=1e-5, begin_norm_axis=1, **operands)
        return [
            (list(result.shape), result.dtype, result.stop_gradient, result.is_leaf, result._is_initialized()) for result in results
        ]

    for wanting in (None, *names):
        natively = flags(wanting)
        for mode in (padiff_shim.reference, padiff_shim.compare):
            with mode("torch"):
                assert flags(wanting) == natively, (mode, wanting)


@pytest.mark.avx512
@pytest.mark.parametrize("mode", ["reference", "compare"])
def test_an_index_into_what_is_unset_has_paddles_error(mode):
    x = paddle.to_tensor(X)
    x.stop_gradient = False
    with getattr(padiff_shim, mode)("torch"):
        unset = incubate.fused_rms_norm(x, paddle.ones([X.shape[-1]]), None, 1e-5, begin_norm_axis=X.ndim - 1)[1]
        with pytest.raises(IndexError, match="out of bounds"):
            unset[0]


@pytest.mark.avx512
def test_what_is_not_covered_stays_native():
    x = paddle.to_tensor(X)
    with padiff_shim.reference("torch") as run:
        incubate.fused_layer_norm(x, None, None, 1e-5, begin_norm_axis=2, residual=paddle.to_tensor(RESIDUAL))
    (reason,) = run.native["fused_bias_residual_layernorm"]
    assert "without a weight" in reason


def test_paddle_s_kernel_is_asked_nothing_where_it_ends_the_process():
    """Of each combination of dtypes the native op is asked once what it makes of them: without AVX-512 that ended the process."""
    program = """
    from paddle.incubate.nn.functional import fused_layer_norm, fused_rms_norm
    from padiff_shim.dispatch import dtypes

    def asked(original, *others):
        print("asked", original)

    dtypes.has_avx512, dtypes.apart = lambda: False, asked
    x, weight = paddle.ones([4, 8]), paddle.ones([8])
    with padiff_shim.reference("torch", strict=True):
        found = [fused_layer_norm(x, weight, paddle.zeros([8]), 1e-5)[0], fused_rms_norm(x, weight, None, 0.0, 1)[0]]
    print(*[float(one.sum()) for one in found])
    """
    done = in_child(program)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["0.0", "32.0"]
