"""Spellings are found among the calls of a program, with their operands; and what is not one is not."""

import paddle
import pytest

import padiff_shim
from padiff_shim.catalogue.registry import formulations
from padiff_shim.measure.bits import same_bits
from padiff_shim.proof.bits.calls import OpCall, ValueId, recording
from padiff_shim.proof.bits.patterns import match, patterns_of
from padiff_shim.proof.bits.spelling import drawn, listed, paddle_operands, replay
from padiff_shim.trees import as_array

EVERY = pytest.mark.parametrize("formulation", formulations().values(), ids=formulations().keys())
# Spellings without a pattern: they call the backward themselves, or read a constant that no call makes.
WITHOUT = {
    "gradient of micro-batches": {0, 1},
    "loss or gradient divided by the number of micro-batches": {0, 1},
    "loss scaled by a number that is no power of two": {0, 1},
    "loss scaled by a power of two": {0, 1},
    "slopes of positions (ALiBi)": {1},
}
# Number operands that the calls have in one with others.
UNTOLD = {
    ("frequencies of a rotation", 2): ("base",),
    ("decoupled weight decay", 0): ("wd",),
    ("decoupled weight decay", 2): ("wd",),
    ("bias corrections of Adam", 1): ("lr",),
    ("bias corrections of Adam", 2): ("lr",),
    ("Adam's step with decoupled decay", 0): ("lr", "wd", "c"),
    ("Adam's step with decoupled decay", 2): ("wd",),
    ("Adam's step with decoupled decay", 3): ("wd",),
    ("Adam's step", 0): ("lr", "c"),
    ("Adam's step", 2): ("lr", "c"),
}


def holds(candidate, recorder):
    """Whether the spelling, replayed, gives the bits that the program's calls gave; None if it cannot be replayed."""
    if candidate.missing:
        return None
    try:
        operands = recorder.operands(candidate.operands)
        with paddle.no_grad():
            made = listed(replay(candidate.formulation.spellings[candidate.spelling].paddle, operands))
    except Exception:  # any answer of Paddle's to a call that nobody has written
        return None
    wanted = [recorder.tensor(value) for value in candidate.results]
    pairs = [[as_array(tensor.detach()) for tensor in pair] for pair in zip(made, wanted)]
    return len(made) == len(wanted) and all(same_bits(*pair) for pair in pairs)


@pytest.mark.rows(45)
@EVERY
def test_each_spelling_is_found_with_its_operands(formulation):
    """Also in float16, in which no spelling ran when its pattern was made in float32 and bfloat16."""
    found_in = {pattern.spelling for pattern in patterns_of(formulation)}
    assert set(range(len(formulation.spellings))) - found_in == WITHOUT.get(formulation.name, set())
    for place in sorted(found_in):
        for dtype in ("float32", "float16"):
            operands = paddle_operands(drawn(formulation), dtype)
            with recording() as recorder:
                expected = {name: recorder.value(value) for name, value in operands.items() if isinstance(value, paddle.Tensor)}
                replay(formulation.spellings[place].paddle, operands)
            untold = UNTOLD.get((formulation.name, place), ())
            expected |= {
                name: pytest.approx(value, rel=1e-6)
                for name, value in operands.items()
                if name not in expected and name not in untold
            }
            candidates = [candidate for candidate in match(recorder.calls, [formulation]) if candidate.spelling == place]
            assert any(candidate.operands == expected and candidate.missing == untold for candidate in candidates), dtype
            assert all(candidate.formulation is formulation and place not in candidate.others for candidate in candidates)


def program(q, k, w):
    """Attention scores with a scale, and a norm, among other calls."""
    scores = paddle.matmul(q + 1.0, k, transpose_y=True) * 0.3
    rows = scores * paddle.rsqrt(scores.pow(2).mean(-1, keepdim=True) + 1e-6)
    return paddle.tanh(rows * w)


@pytest.fixture(scope="module")
def recorded():
    paddle.seed(0)
    operands = paddle.randn([2, 5, 8]), paddle.randn([2, 6, 8]), paddle.randn([6])
    with recording() as recorder:
        program(*operands)
    return recorder


def test_candidates_are_replayed_to_the_very_bits(recorded):
    """The scale of 0.3 is not 8 ** -0.5, and a pattern knows no shapes."""
    with padiff_shim.reference("torch"):
        matched = match(recorded.calls, formulations().values())
        held = {(candidate.formulation.name, candidate.spelling): holds(candidate, recorded) for candidate in matched}
    assert held["RMSNorm: multiplied by rsqrt or divided by sqrt", 0]
    assert held["one by the root", 0]
    assert held["scale of attention", 0] is False
    assert [name for (name, _), holds in held.items() if not holds] == ["scale of attention"]


def test_what_cannot_be_replayed_is_not_known():
    decay = formulations()["decoupled weight decay"]
    operands = paddle_operands(drawn(decay), "float32")
    with recording() as recorder:
        replay(decay.spellings[0].paddle, operands)
    held = {candidate.spelling: holds(candidate, recorder) for candidate in match(recorder.calls, [decay])}
    assert held[0] is None


def test_calls_say_what_a_program_does(recorded):
    product = next(call for call in recorded.calls if call.op == "matmul")
    assert product.attributes == {"transpose_x": False, "transpose_y": True}
    assert [name for name, _ in product.inputs] == ["x", "y"]
    scaled = next(call for call in recorded.calls if call.inputs and call.inputs[0][1] == product.outputs[0])
    assert (scaled.op, scaled.attributes) == ("multiply", {"y": 0.3})


def test_a_tensor_behind_detach_is_the_same_value():
    x = paddle.ones([3])
    with recording() as recorder:
        y = x.detach() + x
    assert {value for _, value in recorder.calls[0].inputs} == {recorder.value(x)}
    assert recorder.value(y) == recorder.calls[0].outputs[0]


def test_what_is_written_in_place_is_another_value():
    x = paddle.ones([3])
    with recording() as recorder:
        before = recorder.value(x)
        x.add_(paddle.ones([3]))
        after = recorder.value(x.detach())
    assert after != before
    assert after in recorder.calls[-1].outputs


def ids(*names, dtype="float32"):
    return {name: ValueId(number, dtype) for number, name in enumerate(names)}


def product(x, y, out, **attributes):
    return OpCall("matmul", {"transpose_x": False, "transpose_y": False, **attributes}, (("x", x), ("y", y)), (out,))


def transposed(x, out, axes=(0, 1, 3, 2)):
    return OpCall("transpose", {"1": axes}, (("0", x),), (out,))


def contiguous(x, out):
    return OpCall("contiguous", {}, (("0", x),), (out,))


KEY = formulations()["transposed key of a product"]


def matched(calls, **how):
    return [(candidate.spelling, candidate.calls) for candidate in match(calls, [KEY], **how)]


def test_attributes_and_dataflow_have_to_fit():
    v = ids("q", "k", "turned", "near", "out", "else")
    calls = [transposed(v["k"], v["turned"]), contiguous(v["turned"], v["near"]), product(v["q"], v["near"], v["out"])]
    assert matched(calls) == [(1, (0, 1, 2))]
    assert match(calls, [KEY])[0].operands == {"q": v["q"], "k": v["k"]}
    assert match(calls, [KEY])[0].results == (v["out"],)
    assert matched([product(v["q"], v["k"], v["out"], transpose_y=True)]) == [(0, (0,))]
    assert matched([product(v["q"], v["k"], v["out"])]) == []
    assert matched([transposed(v["k"], v["turned"], (0, 2, 1, 3)), *calls[1:]]) == []
    assert matched([calls[0], contiguous(v["else"], v["near"]), calls[2]]) == []
    assert matched([calls[0], calls[1], product(v["near"], v["q"], v["out"])]) == []


def test_calls_far_apart_are_no_group():
    v = ids("q", "k", "turned", "near", "out")
    between = [OpCall("relu", {}, (("x", v["q"]),), (ValueId(100 + number, "float32"),)) for number in range(9)]
    calls = [transposed(v["k"], v["turned"]), contiguous(v["turned"], v["near"]), *between, product(v["q"], v["near"], v["out"])]
    assert matched(calls, reach=11) == [(1, (0, 1, 11))]
    assert matched(calls, reach=10) == []


def test_dtypes_have_to_fit():
    """A cast to float32 of what is float32 is none; a router in bfloat16 is found, with either result."""
    norm = formulations()["RMSNorm: the cast and the weight"]
    w = paddle.ones([8], "bfloat16")
    for dtype, expected in (("bfloat16", {0}), ("float32", set())):
        x = paddle.ones([3, 8], dtype)
        with recording() as recorder:
            y = x.astype("float32")
            y = y * paddle.rsqrt((y * y).mean(-1, keepdim=True) + 1e-6)
            y.astype("bfloat16") * w
        assert {candidate.spelling for candidate in match(recorder.calls, [norm])} == expected


def test_sums_and_products_are_found_in_either_order():
    gate = formulations()["SwiGLU by its formula"]
    x, y = paddle.ones([3]), paddle.ones([3])
    for written in ("F.silu(x) * y", "y * F.silu(x)"):
        with recording() as recorder:
            replay(written, {"x": x, "y": y})
        (candidate,) = match(recorder.calls, [gate])
        assert candidate.operands == {"x": recorder.value(x), "y": recorder.value(y)}


def test_numbers_are_read_off_the_calls():
    division = formulations()["division by a number"]
    x = paddle.ones([3])
    for written in ("x / c", "x * (1 / c)"):
        with recording() as recorder:
            replay(written, {"x": x, "c": 7.0})
        numbers = {candidate.spelling: candidate.operands["c"] for candidate in match(recorder.calls, [division])}
        assert numbers[written != "x / c"] == pytest.approx(7.0)


def test_the_order_of_calls_tells_two_spellings_apart():
    readers = formulations()["order of three readers"]
    operands = paddle_operands(drawn(readers), "float32")
    for place, spelling in enumerate(readers.spellings):
        with recording() as recorder:
            replay(spelling.paddle, operands)
        expected = {name: recorder.value(value) for name, value in operands.items()}
        fitting = [candidate for candidate in match(recorder.calls, [readers]) if candidate.operands == expected]
        assert [candidate.spelling for candidate in fitting if list(candidate.calls) == sorted(candidate.calls)] == [place]
