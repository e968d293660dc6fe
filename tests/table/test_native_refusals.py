"""What Paddle refuses is refused in every mode, with its own error, and what it takes is taken."""

import contextlib
import functools

import numpy as np
import paddle
import paddle.nn.functional as F
import pytest
import variations
from driven import DONE, REFUSED, UNWRITTEN, driven
from helpers import needs

import padiff_shim
from padiff_shim.dispatch.dtypes import DtypeRules

MODES = {**variations.MODES, "natively": contextlib.nullcontext}


def clipped(limit):
    """A gradient as ``ClipGradByNorm`` leaves it."""
    pair = paddle.ones([3, 3]), paddle.full([3, 3], 2.0)
    return paddle.nn.ClipGradByNorm(limit)([pair])[0][1]


def orthogonal(mode):
    """The gradient of a tall matrix through its QR decomposition."""
    x = paddle.to_tensor([[1.0, 2.0], [3.0, 4.0], [5.0, 7.0]], stop_gradient=False)
    q, r = paddle.linalg.qr(x, mode)
    (q.sum() + r.sum()).backward()  # of one alone Paddle's backward ends the process
    return x.grad


def entropy(soft):
    return F.cross_entropy(paddle.ones([2, 3]), paddle.to_tensor([0, 1]), soft_label=soft)


def maxout(groups):
    return F.maxout(paddle.ones([2, 9, 3, 3]), groups)


# Name -> a function of one argument, a usual one, and others: most of them Paddle refuses.
PROGRAMS = {
    "ClipGradByNorm": (clipped, 1.0, (-1.0, 0.0, float("nan"))),
    "clip_by_norm": (lambda limit: paddle.nn.clip.clip_by_norm(paddle.ones([3]), limit), 1.0, (-1.0, 0.0)),
    "maxout": (maxout, 3, (1, 0, -3, 2)),
    "qr": (orthogonal, "reduced", ("complete", "economic")),
    "scale": (lambda after: paddle.scale(paddle.ones([3]), 2.0, 1.0, after), True, (1, "yes", None)),
    "softmax": (lambda axis: F.softmax(paddle.ones([2, 3]), axis), -1, (2, -3, "last")),
    "cross_entropy": (entropy, False, (1, True)),
    "kl_div": (lambda reduction: F.kl_div(paddle.ones([3]), paddle.ones([3]), reduction), "mean", (1, "average")),
}


def result(function, argument):
    """Values, or the kind of error."""
    try:
        return function(argument).numpy().tolist()
    except Exception as error:
        return type(error)


@pytest.mark.compat
@pytest.mark.parametrize("mode", ["reference", "compare", "carry"])
@pytest.mark.parametrize("name", PROGRAMS)
def test_what_is_refused_after_calls_that_were_taken(name, mode):
    """Paddle is asked anew for each kind of argument, however often the call was made with another one."""
    function, usual, others = PROGRAMS[name]
    native = [result(function, argument) for argument in others]
    assert not isinstance(result(function, usual), type)
    with MODES[mode]():
        for _ in range(3):
            assert not isinstance(result(function, usual), type)
        assert [result(function, argument) for argument in others] == native
        assert not isinstance(result(function, usual), type)


def ones(dtype, *shape):
    return paddle.ones(shape or [3], dtype)


# Of what draws Paddle is asked nothing: most of these it refuses.
DRAWN = {
    "randint": lambda: paddle.randint(0, 5, [2], "float32"),
    "randint without numbers": lambda: paddle.randint(3, 3, [2]),
    "randperm": lambda: paddle.randperm(4, "float16"),
    "uniform": lambda: paddle.uniform([3], min=2.0, max=1.0),
    "uniform_": lambda: ones("int64").uniform_(),
    "normal": lambda: paddle.normal(0.0, -1.0, [3]),
    "normal_": lambda: ones("int64").normal_(),
    "bernoulli": lambda: paddle.bernoulli(ones("float32") * 2),
    "bernoulli_": lambda: ones("int64").bernoulli_(),
    "geometric_": lambda: ones("int64").geometric_(0.5),
    "exponential_": lambda: ones("float32").exponential_(-1.0),
    "multinomial": lambda: paddle.multinomial(ones("float32"), 4),
    "multinomial of zeros": lambda: paddle.multinomial(paddle.zeros([3])),
    "poisson": lambda: paddle.poisson(ones("int64")),
    "dropout": lambda: F.dropout(ones("float32"), 2.0),
    "dropout along axes": lambda: F.dropout(ones("float32", 2, 3), axis=[0, 1, 1]),
    "dropout along another": lambda: F.dropout(ones("float32", 2, 3), axis=-1),
    "alpha_dropout": lambda: F.alpha_dropout(ones("float32"), 2.0),
    "gumbel_softmax": lambda: F.gumbel_softmax(ones("float32"), 0.0),
    "gumbel_softmax, colder": lambda: F.gumbel_softmax(ones("float32"), -1.0),
    "gumbel_softmax, hard": lambda: F.gumbel_softmax(ones("float32"), hard=1),
    "attention of a query without a batch": lambda: F.scaled_dot_product_attention(
        ones("float32", 5, 4, 8), *[ones("float32", 2, 5, 4, 8)] * 2
    ),
}


def drawn(function):
    """Dtype and shape, or the kind of error."""
    try:
        result = function()
    except Exception as error:
        return type(error)
    return result.dtype, result.shape


@pytest.mark.compat
def test_what_draws_is_refused_as_natively():
    native = {name: drawn(function) for name, function in DRAWN.items()}
    with padiff_shim.reference("torch", random="torch"):
        ours = {name: drawn(function) for name, function in DRAWN.items()}
    assert ours == native


def described(results):
    return [(each._is_initialized(), each.dtype, each.stop_gradient) for each in results]


@pytest.mark.compat
@pytest.mark.avx512
@needs("incubate.nn.functional.fused_rms_norm")
@pytest.mark.parametrize("mode", ["reference", "compare", "carry"])
@pytest.mark.parametrize("name", ["fused_layer_norm", "fused_rms_norm"])
def test_fused_norms_without_a_residual_give_as_many_tensors(name, mode):
    function = functools.partial(getattr(paddle.incubate.nn.functional, name), begin_norm_axis=1)
    operands = paddle.ones([2, 4]), paddle.ones([4]), paddle.ones([4]), 1e-5
    try:
        native = described(function(*operands))
    except Exception:
        pytest.skip("this Paddle has no such kernel for the processor")
    with MODES[mode]():
        assert described(function(*operands)) == native


@pytest.mark.compat
def test_a_number_that_changes_at_each_step_is_asked_once(monkeypatch):
    """Its kind is its sign and exponent."""
    questions = []
    answer = DtypeRules._answer
    monkeypatch.setattr(DtypeRules, "_answer", lambda self, *call: questions.append(call) or answer(self, *call))
    factors = [1.25 + step / 1000 for step in range(200)]
    x = paddle.ones([4, 1, 1])
    with padiff_shim.reference("torch") as run:
        scaled = [paddle.scale(x, factor).numpy().item(0) for factor in factors]
    assert run.substituted["scale"] == 200
    assert len(questions) <= 1
    assert scaled == np.array(factors, "float32").tolist()


# What differs where an argument is exchanged: words of the call's line -> why.
LISTED = {
    "=nan:": "of a limit or slope that is no number each framework has its own choice",
    "inf:": "of an infinite limit or slope each framework has its own gradient",
    "p=99:": "powers that overflow: Paddle takes the power of the norm apart",
    "porder=99:": "powers that overflow: Paddle takes the power of the norm apart",
    "norm_type=99:": "powers that overflow: Paddle takes the power of the norm apart",
    "_interp, ": "docs/defects.md: to size 1",
    "_C_ops.interp_antialias,": "docs/defects.md: to size 1",
    "_C_ops.p_norm,": "Paddle's gradient adds its epsilon, which Torch's has none of",
    "functional.normalize,": "Paddle's gradient adds its epsilon, which Torch's has none of",
    "functional.cosine_similarity,": "Torch takes the larger of each norm and epsilon, Paddle of their product",
    "_C_ops.masked_fill,": "docs/defects.md: masked_fill gradient of the value is wrong",
    "_C_ops.fused_rms_norm_quant,": "Paddle has no backward of it on a CPU",
    "fused_bias_residual_layernorm, sample": "a residual of more elements: its size is not seen in the kind of call",
    "_C_ops.cummax,": "Paddle's backward of a tensor without axes is refused, Torch's is not",
    "_C_ops.cummin,": "Paddle's backward of a tensor without axes is refused, Torch's is not",
    "operand 1: int32": "Paddle's backward of a product with whole numbers is refused, Torch's is not",
    "operand 1: int64": "Paddle's backward of a product with whole numbers is refused, Torch's is not",
    "operand 1: bool": "Paddle's backward of bool labels or ends of edges is refused, Torch's is not",
    "operand 2: bool": "Paddle's backward of bool labels or ends of edges is refused, Torch's is not",
    "_C_ops.instance_norm,": "docs/defects.md: a scale that wants no gradient",
    "_C_ops.repeat_interleave,": "Paddle writes behind the end of a result that is too small",
    "_C_ops.atan2,": "Paddle reads behind the end of operands that do not fit each other",
    "_C_ops.put_along_axis,": "Paddle reads behind the end of operands that do not fit each other",
    "_C_ops.take_along_axis,": "Paddle writes behind the end of a gradient where the index has more rows",
    "_C_ops.triangular_solve, sample 0, operand 1": "Paddle writes behind the end of a result where the matrix is not square",
    "_C_ops.lp_pool2d, ": "a norm of negative order",
    "_C_ops.unpool,": "sizes that the result does not have",
    "_C_ops.spectral_norm,": "vectors of another number of axes: their sizes are not seen in the kind of call",
    "_weight_norm,": "a norm of another number of axes: its sizes are not seen in the kind of call",
    "_C_ops.svdvals,": "docs/defects.md: svdvals of matrices in a batch",
    "_C_ops.split,": "the C function does not take an axis from the end, and reads in another order",
    "_C_ops.selu,": "Torch's gradient tells by the result's sign what the operand was",
    "_C_ops.renorm,": "Paddle takes no norm of infinite order for a maximum",
    "sigmoid_cross_entropy_with_logits,": "Paddle's gradient of ignored labels",
    "linalg.cov,": "ddof is a whole number in Paddle",
    "linalg.pinv,": "singular values at the limit",
    "_C_ops.gather, sample 1": "docs/defects.md: gather gradient of repeated indices along axis 1 is wrong",
    "nanmedian,": "of equal elements either one has the gradient",
    "_C_ops.label_smooth, sample 0, operand 0: of shape ()": "Paddle divides by a last size that is not there",
    "ends with SIGALRM": "spaces between a filter's elements that make results of gigabytes",
    "_C_ops.send_uv, sample": "the index names rows that are not there, which no kernel looks at",
    "_C_ops.lu_solve,": "docs/defects.md: kernels read beyond operands of too few elements",
    "functional.ctc_loss,": "a blank among the labels, and labels beyond the end",
}


@pytest.mark.slow
@pytest.mark.parametrize(("mode", "parts"), [("reference", 11), ("compare", 47), ("carry", 61)])
def test_every_op_with_exchanged_arguments(mode, parts):
    """A part of all calls; ``python tests/table/variations.py reference 0 1`` makes every one."""
    lines, states = driven(variations.__file__, mode, 0, parts)
    assert [line for line in lines if UNWRITTEN not in line and not any(words in line for words in LISTED)] == []
    assert states[DONE] > 400
    assert states[REFUSED] > 200
