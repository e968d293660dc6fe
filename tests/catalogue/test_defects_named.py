"""A comparison of a defect's program names the defect, and its side."""

import contextlib

import numpy as np
import paddle
import paddle.nn.functional as F
import pytest
from helpers import in_turn, sampled

import padiff_shim
from padiff_shim.catalogue.defects import SHOWN, defects
from padiff_shim.catalogue.known_differences import shipped
from padiff_shim.frameworks.versions import IS_3

SIDES = {quirk.name: quirk.side for quirk in shipped()}
NAMED = [
    pytest.param(defect, program, id=title)
    for defect in defects().values()
    if defect.known and paddle.__version__ in defect.paddle and defect.ends == [SHOWN]
    for title, program in defect.programs()
]
# Torch's own program, of a defect of Torch's; no call of Torch's formula, whose layout it does not take.
SILENT = {"python numbers go through float32: local_response_norm"}


@pytest.mark.rows(15)
@pytest.mark.skipif(not IS_3, reason="the table of known differences is that of Paddle 3.3")
@pytest.mark.parametrize(("defect", "program"), sampled(NAMED, 2))
def test_a_comparison_names_it(defect, program, request):
    if request.node.callspec.id in SILENT:
        pytest.skip("such a call has no Torch formula")
    with padiff_shim.compare("torch", audit=1) as run, contextlib.suppress(AssertionError):
        exec(compile(program, defect.name, "exec"), {"__name__": "__main__"})
    named = {(call.quirk, str(call.side)) for call in run.calls if call.quirk}
    if defect.by_processor and not named:
        pytest.skip("this processor's kernels have it not")
    accepted = {defect.known, "epsilon in float32"} if defect.known == "number in float32" else {defect.known}
    assert any(name in accepted and SIDES[name] in (None, side) for name, side in named), [str(call) for call in run.calls]


# --- ops without a rounding model: what is named has to explain the whole tensor ------------------------------------------


def tensor(*shape, dtype="float32", low=-3.0, high=3.0):
    values = np.random.default_rng(0).uniform(low, high, shape)
    return paddle.to_tensor(values.astype(dtype), stop_gradient=False)


CALLS = {
    "number in float32": ("softshrink", lambda: F.softshrink(tensor(40, 50, dtype="float64"), 0.3)),
    "expm1 and log1p spelled out": ("softplus", lambda: F.softplus(tensor(40, 50, low=-15.0, high=-4.0))),
    "torch's renorm": ("renorm", lambda: paddle.renorm(tensor(40, 50, dtype="float64"), 2.0, 0, 1.0)),
    "erfinv by a quantile": ("erfinv", lambda: paddle.erfinv(tensor(40, 50, low=-0.9, high=0.9))),
    "softmax clipped at -64": ("log_softmax", lambda: F.log_softmax(tensor(40, 50, low=-200.0, high=0.0))),
    "norms bounded together": (
        "cosine_similarity",
        lambda: F.cosine_similarity(tensor(40, 5, 20) * 1e-9, tensor(40, 5, 20) * 1e-9 + 1e-9),
    ),
    "half-centred covariance": ("cov", lambda: paddle.linalg.cov(100 + tensor(40, 50))),
    "variance in one pass": ("group_norm", lambda: F.group_norm(100 + tensor(4, 6, 50), 3)),
    "interpolation to one pixel": ("bilinear_interp", lambda: F.interpolate(tensor(20, 6, 5, 7), size=[1, 9], mode="bilinear")),
    "weights of interpolation in float32": (
        "bicubic_interp",
        lambda: F.interpolate(tensor(20, 6, 5, 7, dtype="float64"), scale_factor=[1.5, 2.0], mode="bicubic"),
    ),
    "torch's trigamma": ("polygamma", lambda: paddle.polygamma(tensor(40, 50, dtype="float64", low=0.3), 1)),
    "one squaring too few": ("matrix_exp", lambda: paddle.linalg.matrix_exp(tensor(40, 5, 5, low=1.0, high=1.5))),
    "torch's exponential of degree 8": ("matrix_exp", lambda: paddle.linalg.matrix_exp(tensor(5, 5, low=0.06, high=0.1))),
}


def named(op, call):
    with padiff_shim.compare("torch") as run:
        call()
    return {record.quirk for record in run.calls.filter(op=op, phase="forward")}, [str(record) for record in run.calls]


@pytest.mark.skipif(not IS_3, reason="the table of known differences is that of Paddle 3.3")
@pytest.mark.parametrize("name", sampled(CALLS, 2))
def test_many_elements_are_named(name):
    quirks, calls = named(*CALLS[name])
    assert quirks == {name}, calls


STRANGE = {  # call of an image, and the name of what a comparison finds in it
    "bicubic in float32": (None, "float32", {"scale_factor": [1.5, 2.0], "mode": "bicubic"}),
    "bilinear in float32": (None, "float32", {"scale_factor": 2.0, "mode": "bilinear"}),
    "bicubic in float64": ("weights of interpolation in float32", "float64", {"scale_factor": [1.5, 2.0], "mode": "bicubic"}),
    "bilinear in float64": ("weights of interpolation in float32", "float64", {"size": [5, 7], "mode": "bilinear"}),
    "to one pixel": ("interpolation to one pixel", "float64", {"size": [2, 1], "mode": "bicubic"}),
}


@pytest.mark.rows(1)
@pytest.mark.skipif(not IS_3, reason="the table of known differences is that of Paddle 3.3")
@pytest.mark.parametrize("number", [np.nan, *(pytest.param(number, marks=pytest.mark.slow) for number in (np.inf, -np.inf))])
@pytest.mark.parametrize("kind", sampled(STRANGE, 2))
def test_an_image_with_a_pixel_that_is_no_number(kind, number):
    """Rounding, and what is known, are told beside it as without it."""
    name, dtype, options = STRANGE[kind]
    image = np.random.default_rng(0).uniform(-3.0, 3.0, (2, 3, 4, 3)).astype(dtype)
    image[0, 0, 1, 1] = image[0, 1, 3, 2] = number
    with padiff_shim.compare("torch") as run:
        F.interpolate(paddle.to_tensor(image, stop_gradient=False), **options).sum().backward()
    calls = [call for call in run.calls if call.op != "sum"]
    assert {call.tensor for call in calls} == {"out", "grad:x"}
    assert {call.quirk for call in calls} == {name}, [str(call) for call in calls]
    assert name or {str(call.verdict) for call in calls} <= {"EQUAL", "ROUNDING"}, [str(call) for call in calls]


@pytest.mark.parametrize(("name", "side"), sampled(in_turn(CALLS, ["paddle", "torch"]), 3))
@pytest.mark.parametrize("fault", [pytest.param("all", marks=pytest.mark.slow), "one"])
def test_a_fault_on_top_of_it_is_not(name, side, fault):
    op, call = CALLS[name]

    def change(out, *_):
        changed, largest = out.clone(), int(out.abs().nan_to_num(0.0).argmax())
        (changed if fault == "all" else changed.view(-1)[largest : largest + 1]).mul_(1.05)
        return changed

    with padiff_shim.testing.planted(op, change, side=side):
        quirks, calls = named(op, call)
    assert quirks == {None}, calls


# --- gradients ------------------------------------------------------------------------------------------------------------


def group_norm():
    x = tensor(4, 6, 5)
    F.group_norm(x, 3).backward(tensor(4, 6, 5).detach() ** 2)


def small_norms():
    x = tensor(40, 50, dtype="float64", low=-1e-5, high=1e-5)
    paddle.linalg.norm(x, p=2, axis=1).backward(tensor(40, dtype="float64").detach())


def normalized():
    x = tensor(40, 50, dtype="float64", low=-1e-5, high=1e-5)
    F.normalize(x).backward(tensor(40, 50, dtype="float64").detach() ** 2)


def smoothed_labels():
    F.cross_entropy(tensor(40, 50, dtype="float64"), paddle.arange(40), label_smoothing=0.1).backward()


def third_order():
    x, y = tensor(40, 5, dtype="float64"), tensor(5, dtype="float64") * 0.1
    F.pairwise_distance(x, y.detach(), 3.0).backward(tensor(40, dtype="float64").detach())


def default_slope():
    F.hardsigmoid(tensor(40, 50, dtype="float64")).backward(tensor(40, 50, dtype="float64").detach() ** 2)


def products_of_zeros():
    x = tensor(40, 5).detach()
    x[::2, 3] = 0.0
    x.stop_gradient = False
    paddle.prod(x, 1).backward(tensor(40).detach())


def eigenvalues():
    x = tensor(8, 5, 5, dtype="float64")
    values, _ = paddle.linalg.eigh(x + x.transpose([0, 2, 1]))
    values.backward(tensor(8, 5, dtype="float64").detach() ** 2)


def averages():
    F.avg_pool2d(tensor(4, 3, 9, 9, dtype="float64"), 3).backward(tensor(4, 3, 3, 3, dtype="float64").detach() ** 2)


def one_pixel():
    image = tensor(4, 5, 20)
    F.interpolate(image, size=[1], mode="linear", data_format="NCW").backward(tensor(4, 5, 1).detach() ** 2)


def negative_numbers():
    paddle.digamma(tensor(40, 50, low=-40.0, high=-20.0)).backward(tensor(40, 50).detach() ** 2)


# By op: the name, and a call.
GRADIENTS = {
    "group_norm": ("group norm without a weight", group_norm),
    "vector_norm": ("number added to a norm", small_norms),
    "normalize": ("number added to a norm", normalized),
    "cross_entropy": ("number in float32", smoothed_labels),
    "pairwise_distance": ("number in float32", third_order),
    "hardsigmoid": ("number in float32", default_slope),
    "prod": ("gradient of a product with a zero", products_of_zeros),
    "eigh": ("eigenvalues of several matrices", eigenvalues),
    "avg_pool2d": ("averages in float32", averages),
    "digamma": ("digamma's slope of large negative numbers", negative_numbers),
}


def named_gradients(op, call):
    with padiff_shim.compare("torch") as run:
        call()
    return {record.quirk for record in run.calls.filter(op=op, phase="backward")}, [str(record) for record in run.calls]


@pytest.mark.skipif(not IS_3, reason="the table of known differences is that of Paddle 3.3")
@pytest.mark.parametrize("op", sampled(GRADIENTS, 2))
def test_gradients_of_many_elements_are_named(op):
    name, call = GRADIENTS[op]
    quirks, calls = named_gradients(op, call)
    assert quirks == {name}, calls


@pytest.mark.skipif(not IS_3, reason="the table of known differences is that of Paddle 3.3")
def test_a_gradient_of_mostly_zeros_is_named():
    names, calls = named_gradients("linear_interp", one_pixel)
    assert names == {"interpolation to one pixel"}, calls


@pytest.mark.skipif(not IS_3, reason="the table of known differences is that of Paddle 3.3")
@pytest.mark.parametrize("axis", [0, 1])
def test_the_gradient_of_a_class_that_is_masked_by_infinity_is_named(axis):
    logits = tensor(4, 4).detach()
    logits[2, 1] = -np.inf
    logits.stop_gradient = False
    names, calls = named_gradients("cross_entropy", lambda: F.cross_entropy(logits, paddle.arange(4), axis=axis).backward())
    assert names == {"softmax clipped at -64"}, calls


@pytest.mark.parametrize(("op", "side"), sampled(in_turn(GRADIENTS, ["paddle", "torch"]), 3))
def test_a_fault_on_top_of_a_gradient_is_not(op, side):
    _, call = GRADIENTS[op]

    def change(gradient, *_):
        changed = gradient.clone()
        changed.view(-1)[77:78].mul_(1.01)
        return changed

    with padiff_shim.testing.planted(op, change, side=side, gradients=True):
        quirks, calls = named_gradients(op, call)
    assert quirks == {None}, calls
