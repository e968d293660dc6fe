"""Fingerprints: their hashes and figures, recordings of them, and how these are compared."""

import copy
import json
import re

import forked
import numpy as np
import paddle
import pytest
import torch
from hypothesis import given, settings, strategies as st

import padiff_shim
from padiff_shim import ArgumentError
from padiff_shim.recording.device_fingerprints import DeviceFingerprints
from padiff_shim.recording.fingerprints import PERIOD, StepFingerprints, fingerprint, weights
from padiff_shim.recording.reading import merged, read
from padiff_shim.trees import elements, numbers

SIZES = (0, 1, 2, 3, 63, 1024, 1025, 2 * PERIOD - 1, 2 * PERIOD, 2 * PERIOD + 3, 5 * PERIOD)


def arrays():
    rng = np.random.default_rng(0)
    yield from (rng.standard_normal(size).astype(np.float32) for size in SIZES)
    yield from (rng.standard_normal(7), np.arange(5), np.array([True, False]), rng.standard_normal(9).astype(np.float16))


def plain_hash(array):
    """By the formula, in whole numbers of Python."""
    content = array.tobytes() + bytes(-array.nbytes % 8)
    words = np.frombuffer(content, np.uint64).tolist()
    known, blocks = weights().tolist(), {}
    from padiff_shim.recording.fingerprints import block_weight

    total = 0
    for place, word in enumerate(words):
        block = blocks.setdefault(place // PERIOD, block_weight(place // PERIOD))
        total += block * known[place % PERIOD] * (word ^ word >> 32)
    return total % 2**64


def test_the_hash_is_its_formula_wherever_it_is_computed():
    steps, device = StepFingerprints(), DeviceFingerprints()
    for array in arrays():
        steps.add(array, str(array.dtype))
        device.add(torch.from_numpy(array))
    steps.end_step()
    ((bits, figures),) = steps.take()
    device_bits, device_figures = device.take()
    for place, array in enumerate(arrays()):
        assert fingerprint(array).bits == bits[place] == device_bits[place]
        if array.size < 3000:
            assert fingerprint(array).bits == plain_hash(array)
        assert np.allclose(figures[place], fingerprint(array)[1:], rtol=1e-4, atol=1e-4)
        assert np.allclose(figures[place], device_figures[place], rtol=1e-4, atol=1e-2)
        assert figures[place][0] == pytest.approx(np.linalg.norm(array.astype(np.float64)), rel=1e-5)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.floats(width=32, allow_nan=False), min_size=1, max_size=40), st.data())
def test_another_bit_is_another_hash(values, data):
    array = np.array(values, np.float32)
    changed = array.copy()
    place = data.draw(st.integers(0, array.size - 1))
    changed.view(np.uint32)[place] ^= np.uint32(1 << data.draw(st.integers(0, 31)))
    assert fingerprint(array).bits != fingerprint(changed).bits


def test_signs_and_places_count():
    array = np.random.default_rng(0).standard_normal(64)
    assert len({fingerprint(other).bits for other in (array, -array, array[::-1], np.roll(array, 1))}) == 4
    two = array.copy()
    two[[3, 9]] *= -1
    assert fingerprint(two).bits != fingerprint(array).bits


def test_a_projection_tells_the_distance():
    rng = np.random.default_rng(0)
    ratios = []
    for _ in range(50):
        array, noise = rng.standard_normal(4096).astype(np.float32), rng.standard_normal(4096).astype(np.float32) * np.float32(1e-2)
        ratios.append(abs(fingerprint(array + noise).projection - fingerprint(array).projection) / np.linalg.norm(noise))
    assert 0.3 < np.median(ratios) < 1.5


def test_special_values():
    nan = fingerprint(np.array([1, np.nan], np.float32))
    assert np.isnan(nan.norm)
    assert fingerprint(np.array([np.inf], np.float32)).max_abs == np.inf
    words = np.array([0x3F80, 0xC000], np.uint16)  # 1 and -2
    assert fingerprint(words, numbers(words, "bfloat16"))[1:4] == (pytest.approx(5**0.5), -0.5, 2.0)


def trained(folder, steps=12, perturbed=None, framework="paddle", **options):
    """A small training."""
    library = {"paddle": paddle, "torch": torch}[framework]
    x = np.random.default_rng(0).standard_normal((6, 4)).astype(np.float32)
    model = library.nn.Sequential(library.nn.Linear(4, 5), library.nn.ReLU(), library.nn.Linear(5, 3))
    rng = np.random.default_rng(1)
    for name, parameter in model.named_parameters():
        value = rng.standard_normal((4, 5) if name == "0.weight" else (5, 3) if name == "2.weight" else tuple(parameter.shape))
        value = value.astype(np.float32).T if framework == "torch" else value.astype(np.float32)
        with library.no_grad():
            parameter.copy_(torch.tensor(value)) if framework == "torch" else parameter.set_value(value)
    optimizer = (
        torch.optim.SGD(model.parameters(), 0.1)
        if framework == "torch"
        else paddle.optimizer.SGD(0.1, parameters=model.parameters())
    )
    data = torch.tensor(x) if framework == "torch" else paddle.to_tensor(x)
    with padiff_shim.record(folder, framework=framework, values="fingerprint", **options) as recording:
        for step in range(steps):
            if step == perturbed:
                model[2].bias.set_value(model[2].bias + 1e-3)
            loss = (model(data) ** 2).mean()
            loss.backward()
            optimizer.step()
            optimizer.zero_grad() if framework == "torch" else optimizer.clear_grad()
    return recording


def test_a_training_and_the_step_that_differs(tmp_path):
    recording = trained(tmp_path / "a")
    trained(tmp_path / "again")
    trained(tmp_path / "b", perturbed=7)
    recorded = read(tmp_path / "a")[0]
    rows = list(recorded.steps())
    assert [row.step for row in rows] == list(range(12))
    assert sum(len(row.numbers) for row in rows) == recording.records
    kinds = [recorded.described[number].kind for number in rows[1].numbers]
    assert kinds == ["input", *["layer"] * 4, "loss", *["gradient"] * 4, *["parameter"] * 4]
    assert (tmp_path / "a").glob("*.jsonl").__next__().stat().st_size < 200 * recording.records
    assert padiff_shim.diff(tmp_path / "a", tmp_path / "again")
    difference = padiff_shim.diff(tmp_path / "a", tmp_path / "b")
    assert difference.first.any.step == 7
    assert difference.first.any.layer == "2"
    assert [bool(step.first) for step in difference.steps] == [False] * 7 + [True] * 5
    assert difference.steps[0].kinds == {"layer": (4, 4), "loss": (1, 1), "step gradient": (4, 4), "parameter": (4, 4)}
    assert any("--around 7" in note for note in difference.notes)
    assert "Over the steps" in str(difference)
    assert "layers equal" in difference.markdown()
    page = difference.save(tmp_path / "page.html").read_text()
    assert "<html" in page
    assert json.loads(json.dumps(difference.to_dict()))["steps"][7]["first"]


def test_frameworks_align(tmp_path):
    trained(tmp_path / "paddle")
    trained(tmp_path / "torch", framework="torch")
    difference = padiff_shim.diff(tmp_path / "torch", tmp_path / "paddle", rtol=1e-3)
    assert difference, difference.answer
    assert difference.steps[0].kinds["layer"] == (4, 4)
    assert difference.steps[0].kinds["parameter"] == (4, 4)
    assert difference.steps[3].losses[0] == pytest.approx(difference.steps[3].losses[1], rel=1e-4)


def test_other_lengths_and_intervals_are_never_the_same(tmp_path):
    trained(tmp_path / "a")
    trained(tmp_path / "longer", steps=15)
    difference = padiff_shim.diff(tmp_path / "a", tmp_path / "longer")
    assert difference.counts.differing == 0
    assert not difference
    assert {"14", "11"} <= set(re.findall(r"\d+", difference.answer))
    trained(tmp_path / "every", every=4)
    assert [row.step for row in read(tmp_path / "every")[0].steps()] == [0, 4, 8]
    sparse = padiff_shim.diff(tmp_path / "a", tmp_path / "every")
    assert len(sparse.steps) == 3
    assert sparse.counts.differing == 0


def test_a_damaged_step_is_a_hole(tmp_path):
    trained(tmp_path / "a")
    trained(tmp_path / "b")
    (path,) = (tmp_path / "b").glob("*.jsonl")
    text = path.read_text()
    for old, new in (('"step":5,"of":[', '"step":5,"of":[900,'), ('"bits":"', '"bits":"zz'), ('"first":0', '"first":3')):
        path.write_text(text.replace(old, new, 1))
        difference = padiff_shim.diff(tmp_path / "a", tmp_path / "b")
        assert not difference
        assert difference.holes


def test_gradients_alone_are_recorded_in_every_step(tmp_path):
    for name, perturbed in (("a", None), ("b", 5)):
        paddle.seed(0)
        model = paddle.nn.Linear(4, 4)
        optimizer = paddle.optimizer.SGD(0.1, parameters=model.parameters())
        x = paddle.randn([8, 4])
        with padiff_shim.record(tmp_path / name, model, calls=False, layers=False, gradients=True):
            for step in range(8):
                if step == perturbed:
                    model.weight.set_value(model.weight + 1)
                (model(x) ** 2).mean().backward()
                optimizer.step()
                optimizer.clear_grad()
    steps = [(step.step, len(step.tensors)) for step in read(tmp_path / "a")[0].steps()]
    assert steps == [(step, 4) for step in range(8)]
    assert padiff_shim.diff(tmp_path / "a", tmp_path / "b").first.any.step == 5


def test_a_recording_without_what_was_asked_for_is_not_the_same(tmp_path):
    model = paddle.nn.Linear(4, 4)
    for name in "ab":
        with padiff_shim.record(tmp_path / name, model, gradients=True):
            model(paddle.ones([2, 4]))
    difference = padiff_shim.diff(tmp_path / "a", tmp_path / "b")
    assert not difference
    assert difference.answer.startswith("INCOMPLETE")
    assert "has no gradients" in difference.answer


def test_steps_alone(tmp_path):
    model = paddle.nn.Linear(4, 4)
    optimizer = paddle.optimizer.SGD(0.1, parameters=model.parameters())
    with padiff_shim.record(tmp_path, model, steps=range(2, 4), gradients=True):
        for _ in range(6):
            (model(paddle.ones([2, 4])) ** 2).mean().backward()
            optimizer.step()
            optimizer.clear_grad()
    recorded = read(tmp_path)[0]
    assert {tensor.step for tensor in merged(recorded.steps()).tensors} == {2, 3}
    assert [tensor.name for tensor in merged(recorded.steps()).inputs if tensor.tensor == "weight"] == ["weight", "bias"]


def test_what_does_not_go_together(tmp_path):
    for options, match in (
        ({"values": "fingerprint", "calls": True}, "calls= does not go with"),
        ({"values": "fingerprint", "steps": range(2)}, "steps= does not go with"),
        ({"every": 2}, "every= goes with"),
        ({"every": 0, "values": "fingerprint"}, "from 1 on"),
        ({"steps": [1, 2]}, "steps= is a range"),
    ):
        with pytest.raises(ArgumentError, match=match):
            padiff_shim.record(tmp_path, framework="torch", **options)
    trained(tmp_path / "a")
    with padiff_shim.record(tmp_path / "b", framework="torch"):
        torch.exp(torch.ones(2))
    with pytest.raises(ArgumentError, match="holds fingerprints"):
        padiff_shim.diff(tmp_path / "a", tmp_path / "b")


PROGRAM = """
import sys, paddle
paddle.seed(0)
model = paddle.nn.Linear(4, 4); optimizer = paddle.optimizer.SGD(0.1, parameters=model.parameters())
for step in range(6):
    if step == int(sys.argv[1]): model.weight.set_value(model.weight + 1e-3)
    (model(paddle.ones([2, 4])) ** 2).mean().backward(); optimizer.step(); optimizer.clear_grad()
"""


def test_a_whole_program(tmp_path):
    (tmp_path / "train.py").write_text(PROGRAM)

    def run(*arguments):
        return forked.run(["-m", "padiff_shim", *arguments], cwd=tmp_path, warm=True)

    assert "padiff-shim diff a OTHER" in run("record", "a", "train.py", "9").stderr
    run("record", "b", "train.py", "3")
    assert padiff_shim.diff(tmp_path / "a", tmp_path / "b").first.any.step == 3
    for name, perturbed in (("fa", "9"), ("fb", "3")):
        run("record", "--around", "3", name, "train.py", perturbed)
    full = padiff_shim.diff(tmp_path / "fa", tmp_path / "fb")
    assert [step.step for step in full.steps] == [2, 3, 4]
    assert full.first.any.step == 3
    assert "holds a recording of rank 0 already" in run("record", "a", "train.py", "9").stderr


def test_a_program_whose_disk_is_full_is_not_said_to_be_recorded(tmp_path):
    limit = "import resource, signal\nsignal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
    limit += "resource.setrlimit(resource.RLIMIT_FSIZE, (6000, 6000))\n"
    (tmp_path / "train.py").write_text(limit + PROGRAM.replace("range(6)", "range(400)"))
    done = forked.run(["-m", "padiff_shim", "record", "a", "train.py", "-1"], cwd=tmp_path, warm=True)
    assert "is not complete" in done.stderr
    assert "recorded in" not in done.stderr


def test_a_whole_program_of_torch(tmp_path):
    (tmp_path / "train.py").write_text(
        "import torch\nmodel = torch.nn.Linear(4, 4); optimizer = torch.optim.SGD(model.parameters(), 0.1)\n"
        "for step in range(3): model(torch.ones(2, 4)).sum().backward(); optimizer.step(); optimizer.zero_grad()\n"
    )

    done = forked.run(["-m", "padiff_shim", "record", "--framework", "torch", "a", "train.py"], cwd=tmp_path, warm=True)
    assert "padiff-shim diff a OTHER" in done.stderr
    assert [step.step for step in padiff_shim.diff(tmp_path / "a", tmp_path / "a").steps] == [0, 1, 2]


def test_small_tensors_that_lie_otherwise_have_the_same_fingerprints():
    numbers = np.arange(15, dtype=np.float32).reshape(3, 5)
    arrays = (numbers.T, numbers[:, ::2], np.asfortranarray(numbers), numbers[:0], np.float32(3.0).reshape(()))
    steps = StepFingerprints()
    for array in arrays:
        steps.add(array, "float32")
    steps.end_step()
    ((bits, figures),) = steps.take()
    for array, hashed, row in zip(arrays, bits, figures):
        expected = fingerprint(np.ascontiguousarray(array))
        assert (expected.bits, expected.norm) == (int(hashed), pytest.approx(row[0]))


@pytest.mark.parametrize("dtype", ["float64", "float16", "bfloat16", "int64", "int32", "int16", "int8", "uint8", "bool"])
def test_small_tensors_of_any_dtype_have_the_fingerprints_of_large_ones(dtype):
    random = np.random.default_rng(0)
    steps, tensors = StepFingerprints(), []
    for size in (1, 7, 33, 100):
        values = torch.from_numpy(random.standard_normal(size) * 50).to(getattr(torch, dtype))
        bits, _ = elements(values)
        tensors.append((bits, numbers(bits, dtype)))
        steps.add(bits, dtype)
    steps.end_step()
    ((hashes, figures),) = steps.take()
    for (bits, values), hashed, row in zip(tensors, hashes, figures):
        expected = fingerprint(bits, values)
        assert expected.bits == int(hashed)
        assert list(expected[1:]) == pytest.approx(row.tolist(), rel=1e-6, abs=1e-4)


def of_written_tensors(folder, framework, factor):
    """What a layer returns is multiplied in place when it is recorded; from the second step on it is copied as the one before."""
    net = torch.nn.Linear(4, 4) if framework == "torch" else paddle.nn.Linear(4, 4)
    net.weight.detach().fill_(0.5)
    net.bias.detach().fill_(0.25)
    with padiff_shim.record(folder, net, values="fingerprint") as recording:
        for _ in range(3):
            result = net((torch if framework == "torch" else paddle).ones([2, 4])).detach()
            result.mul_(torch.tensor(factor)) if framework == "torch" else result.scale_(factor)
            recording.next_step()
    return folder


@pytest.mark.parametrize("framework", ["paddle", "torch"])
def test_what_is_written_in_place_behind_a_layer_does_not_change_its_fingerprint(tmp_path, framework):
    folders = [of_written_tensors(tmp_path / str(factor), framework, factor) for factor in (1.0, 3.0)]
    assert padiff_shim.diff(*folders)


def test_a_step_that_is_larger_than_what_waits_is_whole():
    steps = StepFingerprints()
    arrays = [np.full(2**14 - place, place + 0.5, np.float32) for place in range(100)]
    for _ in range(2):
        for array in arrays:
            steps.add(array, "float32")
        steps.end_step()
    for bits, _ in steps.take():
        assert [fingerprint(array).bits for array in arrays] == bits.tolist()


PRESETS = pytest.mark.parametrize(
    "options", [{"values": "fingerprint"}, {"gradients": True, "parameters": True}], ids=["fingerprint", "values"]
)


def steps_of(*args, **options):
    """:func:`named_steps` with names of their own, so that another process's state goes into the optimizer."""
    with paddle.utils.unique_name.guard():
        named_steps(*args, **options)


def named_steps(folder, rates=(0.1,) * 6, load=None, save=None, states_loaded=True, **options):
    """A training by Adam of a step for each rate; ``save`` its state behind three steps, or ``load`` that."""
    paddle.seed(0)
    net = paddle.nn.Sequential(paddle.nn.Linear(4, 8), paddle.nn.Tanh(), paddle.nn.Linear(8, 2))
    optimizer = paddle.optimizer.Adam(0.1, parameters=net.parameters())
    data = np.random.default_rng(0).standard_normal((6, 3, 4)).astype("float32")
    if load is not None:
        net.set_state_dict({name: tensor.clone() for name, tensor in load[0].items()})
        if states_loaded:
            optimizer.set_state_dict(load[1])
    with padiff_shim.record(folder, net, **options):
        for step in range(3 if load is not None else 0, 6):
            optimizer.set_lr(rates[step])
            (net(paddle.to_tensor(data[step])) ** 2).mean().backward()
            optimizer.step()
            optimizer.clear_grad()
            if save is not None and step == 2:
                save += [{name: paddle.to_tensor(tensor.numpy()) for name, tensor in net.state_dict().items()}]
                save += [copy.deepcopy(optimizer.state_dict())]


@pytest.mark.parametrize(
    "options", [{"values": "fingerprint"}, {"gradients": True, "parameters": True}], ids=["fingerprint", "values"]
)
def test_a_resume_is_compared_from_its_step_on(options, tmp_path):
    saved = []
    steps_of(tmp_path / "whole", save=saved, **options)
    steps_of(tmp_path / "resumed", load=saved, **options)
    steps_of(tmp_path / "said", load=saved, first_step=3, **options)
    for name in ("resumed", "said"):
        difference = padiff_shim.diff(tmp_path / "whole", tmp_path / name)
        assert difference, difference.answer
        assert difference.begins == ("b", 3)
        assert padiff_shim.diff(tmp_path / name, tmp_path / "whole").begins == ("a", 3)
    steps_of(tmp_path / "stateless", load=saved, states_loaded=False, **options)
    difference = padiff_shim.diff(tmp_path / "whole", tmp_path / "stateless")
    assert (difference.begins, difference.first.any.step, difference.first.any.kind) == (("b", 3), 3, "parameter")
    steps_of(tmp_path / "again", **options)
    assert padiff_shim.diff(tmp_path / "whole", tmp_path / "again").begins is None


@pytest.mark.parametrize(
    "options", [{"values": "fingerprint"}, {"gradients": True, "parameters": True}], ids=["fingerprint", "values"]
)
def test_the_earliest_difference_of_all_ranks_is_first(options, tmp_path, monkeypatch):
    monkeypatch.setenv("PADDLE_TRAINERS_NUM", "2")
    for rank in range(2):
        monkeypatch.setenv("PADDLE_TRAINER_ID", str(rank))
        steps_of(tmp_path / "a", **options)
        rates = [0.1, 0.1, 0.2, 0.1, 0.1, 0.1] if rank else [0.1, 0.1, 0.1, 0.2, 0.1, 0.1]
        steps_of(tmp_path / "b", rates=rates, **options)
    difference = padiff_shim.diff(tmp_path / "a", tmp_path / "b")
    assert (difference.first.rank, difference.first.any.step, difference.first.any.kind) == (1, 2, "parameter")
    steps = [row.any.step for row in difference.differing]
    assert steps == sorted(steps)


def test_a_state_that_was_not_loaded_is_the_reason(tmp_path):
    saved = []
    options = {"gradients": True, "parameters": True, "states": True}
    steps_of(tmp_path / "whole", save=saved, **options)
    steps_of(tmp_path / "right", load=saved, **options)
    steps_of(tmp_path / "stateless", load=saved, states_loaded=False, **options)
    for a, b, side in (("right", "stateless", "b"), ("stateless", "right", "a"), ("whole", "stateless", "b")):
        difference = padiff_shim.diff(tmp_path / a, tmp_path / b)
        assert (difference.reason.kind, difference.reason.numbers["side"]) == ("optimizer state", side)
    assert padiff_shim.diff(tmp_path / "whole", tmp_path / "right").reason is None


@PRESETS
def test_other_random_numbers_are_the_reason(options, tmp_path):
    for seed in range(2):
        paddle.seed(0)
        model = paddle.nn.Sequential(paddle.nn.Linear(4, 8), paddle.nn.Dropout(0.5), paddle.nn.Linear(8, 2))
        optimizer = paddle.optimizer.SGD(0.1, parameters=model.parameters())
        paddle.seed(seed)
        with padiff_shim.record(tmp_path / str(seed), model, **options):
            model(paddle.ones([3, 4])).sum().backward()
            optimizer.step()
    difference = padiff_shim.diff(tmp_path / "0", tmp_path / "1")
    assert (difference.reason.kind, difference.reason.numbers) == ("random numbers", {"layer": "1", "step": 0})


def test_another_batch_size_is_the_reason(tmp_path):
    for size in (3, 6):
        paddle.seed(0)
        model = paddle.nn.Linear(4, 2)
        with padiff_shim.record(tmp_path / str(size), model):
            model(paddle.to_tensor(np.ones([size, 4], "float32"))).sum().backward()
    difference = padiff_shim.diff(tmp_path / "3", tmp_path / "6")
    assert (difference.reason.kind, difference.reason.numbers) == ("batch size", {"a": 3, "b": 6})
