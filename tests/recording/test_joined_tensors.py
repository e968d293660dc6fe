"""Tensors of ranks, put together without any process: on arrays."""

import json

import numpy as np
import paddle
import pytest
import torch

import padiff_shim
from padiff_shim import ArgumentError, FileError
from padiff_shim.cli import diff as command
from padiff_shim.recording import tensors
from padiff_shim.recording.layouts import ShardRules
from padiff_shim.recording.names import NameMap, wrapped
from padiff_shim.recording.numbering import numbers_of
from padiff_shim.recording.whole_tensors import JoinedTensor, NotJoined, RankTensor, put_together

DRAWN = np.random.default_rng(0).standard_normal((4, 6)).astype("float32")
FIELDS = {"site": "", "file": "", "line": 0, "function": "", "step": 0, "left_out": "", "sample": (), "_folder": None, "_at": None}


def tensor(array, kind="op", name="matmul", layer="", of=JoinedTensor, **more):
    array = np.asarray(array)
    known = {"index": 0, "kind": kind, "names": (name,), "tensor": "out", "layer": layer, "shape": array.shape}
    known |= {"dtype": array.dtype.name, "digest": tensors.digest(array), "figures": tensors.figures(array), **FIELDS}
    return of(**known, **({"array": array} if of is JoinedTensor else {}), **more)


def of_ranks(rows, **more):
    """A tensor with these arrays: a row for ranks with the same data, and a row for each share of the data."""
    options = {name: more.pop(name) for name in ("kind", "name", "layer") if name in more}
    parts = tuple(tuple(tensor(array, **options) for array in row) for row in rows)
    numbers = iter(range(99))
    ranks = tuple(tuple(next(numbers) for _ in row) for row in parts)
    return tensor(rows[0][0], of=RankTensor, parts=parts, ranks=ranks, **options, **more)


def whole(rows, partner, crossing=False, **more):
    made = put_together(of_ranks(rows, **more), tensor(partner, more.get("kind", "op")), crossing=crossing)
    return made if isinstance(made, NotJoined) else [pair.a.values() for pair in made]


@pytest.mark.parametrize("axis", [0, 1])
def test_slices_are_concatenated_along_the_axis_of_the_partners_shape(axis):
    (joined,) = whole([np.split(DRAWN, 2, axis)], DRAWN)
    np.testing.assert_array_equal(joined, DRAWN)


def test_a_grid_of_ranks():
    rows = [np.split(half, 2, 1) for half in np.split(DRAWN, 2, 0)]
    (joined,) = whole(rows, DRAWN)
    np.testing.assert_array_equal(joined, DRAWN)


def test_gradients_of_a_grid_are_averaged_over_shares_of_the_data():
    left, right = np.split(DRAWN, 2, 1)
    rows = [[left - 1, right - 2], [left + 1, right + 2]]
    (joined,) = whole(rows, DRAWN, kind="gradient")
    np.testing.assert_allclose(joined, DRAWN, atol=1e-6)
    (joined,) = whole(rows, DRAWN.T.copy(), crossing=True, kind="gradient")
    np.testing.assert_allclose(joined, DRAWN, atol=1e-6)


def test_grids_of_both_runs_have_the_batch_in_one_axis():
    scores = np.arange(64.0).reshape(4, 4, 2, 2)  # samples, heads
    shares = [[half] for half in np.split(scores, 2, 0)]
    grid = [np.split(half, 2, 1) for (half,) in shares]
    (pair,) = put_together(of_ranks(grid), of_ranks(shares), crossing=False)
    np.testing.assert_array_equal(pair.a.values(), scores)
    np.testing.assert_array_equal(pair.b.values(), scores)


def test_equal_slices_are_no_replicas():
    zeros = np.zeros((2, 3), "float32")
    assert [array.shape for array in whole([[zeros, zeros]], np.zeros((2, 6), "float32"))] == [(2, 6)]
    assert [array.shape for array in whole([[zeros, zeros]], zeros)] == [(2, 3)]
    assert isinstance(whole([[zeros, zeros]], zeros, way=0), NotJoined), "a rule says that they are slices"


@pytest.mark.parametrize(("kind", "partial", "sums"), [("op", True, True), ("op", False, False), ("layer", True, False)])
def test_only_calls_in_layers_with_a_row_split_weight_are_added_up(kind, partial, sums):
    made = whole([[DRAWN - 1, np.ones_like(DRAWN)]], DRAWN, kind=kind, partial=partial)
    assert len(made) == (1 if sums else 2)
    if sums:
        np.testing.assert_allclose(made[0], DRAWN, atol=1e-6)


@pytest.mark.parametrize("kind", ["parameter", "step gradient"])
def test_parameters_and_gradients_in_the_step_are_never_added_up(kind):
    for rows in ([[DRAWN - 1, np.ones_like(DRAWN)]], [[DRAWN - 1], [np.ones_like(DRAWN)]]):
        assert len(whole(rows, DRAWN, kind=kind, partial=True)) == 2


@pytest.mark.parametrize(("rule", "expected"), [("sum", 5.0), ("mean", 2.5)])
def test_a_rule_says_how_a_scalar_belongs_together(rule, expected):
    shares = [[np.float32(2.0)], [np.float32(3.0)]]
    assert whole(shares, np.float32(0.0), kind="note", way=rule) == [expected]
    assert whole(shares, np.float32(0.0), kind="note") == [2.5]


def test_slices_of_fused_tensors():
    query, key = np.split(DRAWN, [4], 1)
    shares = [np.concatenate(pair, 1) for pair in zip(np.split(query, 2, 1), np.split(key, 2, 1))]
    (way,) = ShardRules({"*": "-1:4:2"})._rules.values()
    (joined,) = whole([shares], DRAWN, way=way)
    np.testing.assert_array_equal(joined, DRAWN)


def test_a_weight_may_lie_transposed_in_the_other_framework():
    slices = np.split(DRAWN, 2, 1)
    assert isinstance(whole([slices], DRAWN.T.copy(), kind="gradient"), NotJoined)
    (joined,) = whole([slices], DRAWN.T.copy(), crossing=True, kind="gradient")
    np.testing.assert_array_equal(joined, DRAWN)


def test_what_no_split_explains_is_not_put_together():
    made = whole([[DRAWN, DRAWN + 1]], np.zeros((5, 7), "float32"))
    assert isinstance(made, NotJoined)
    assert "2 x [4, 6] against [5, 7]" in made.detail
    assert isinstance(whole([[DRAWN, DRAWN]], DRAWN, missing=(2,)), NotJoined)


def test_samples_in_turns_are_put_into_the_partners_order():
    shares = [[DRAWN[0::2]], [DRAWN[1::2]]]
    made = put_together(of_ranks(shares, order=(0, 2, 1, 3)), tensor(DRAWN), crossing=False)
    np.testing.assert_array_equal(made[0].a.values(), DRAWN)


def weights(**arrays):
    return {name.replace("_", "."): tensor(array, "input", name) for name, array in arrays.items()}


def test_blocks_of_a_pipeline_are_known_by_their_weights():
    blocks = [weights(blocks_0_w=DRAWN + number)["blocks.0.w"] for number in range(3)]
    ranks = {0: {"blocks.0.w": blocks[2]}, 1: {"blocks.0.w": blocks[0], "blocks.1.w": blocks[1]}}
    other = {f"blocks.{number}.w": block for number, block in enumerate(blocks)}
    assert numbers_of(ranks, other) == {0: {"blocks": {0: 2}}, 1: {"blocks": {0: 0, 1: 1}}}
    unlike = {name: tensor(np.zeros((4, 6), "float32")) for name in other}
    assert numbers_of(ranks, unlike) == {0: {"blocks": {0: 0}}, 1: {"blocks": {0: 1, 1: 2}}}, "in the order of the ranks"


def test_experts_go_to_the_ranks_in_their_order():
    mine = [weights(experts_0_w=DRAWN + number)["experts.0.w"] for number in range(4)]
    other = {f"experts.{number}.w": mine[number] for number in range(2)}
    share = {rank: {"experts.0.w": mine[1 - rank % 2]} for rank in range(4)}
    assert [numbers_of(share, other)[rank]["experts"] for rank in range(4)] == [{0: 0}, {0: 1}, {0: 0}, {0: 1}]


@pytest.mark.parametrize(
    "rules", [3, {"": 1}, {"a": "concat"}, {"a": True}, {"a": 1.0}, {2: 1}, {"a": "1:2"}, {"a": "1:0:2"}, "first"]
)
def test_rules_that_are_none(rules):
    with pytest.raises(ArgumentError, match="shards="):
        ShardRules(rules)


def test_rules_on_the_command_line(tmp_path):
    assert command._shards(None) is None
    assert command._shards("auto") == "auto"
    assert command._shards("*.qkv.weight=1, loss=sum,x=-1") == {"*.qkv.weight": 1, "loss": "sum", "x": -1}
    (tmp_path / "rules.json").write_text(json.dumps({"a.*": 0}))
    (tmp_path / "rules.toml").write_text('"a.*" = 0\nloss = "mean"\n')
    assert command._shards(str(tmp_path / "rules.json")) == {"a.*": 0}
    assert command._shards(str(tmp_path / "rules.toml")) == {"a.*": 0, "loss": "mean"}
    for wrong in ("", "a", "=1"):
        with pytest.raises(ArgumentError, match="--shards"):
            command._shards(wrong)
    (tmp_path / "rules.toml").write_text("[")
    for path in ("rules.toml", "none.json"):
        with pytest.raises(FileError, match="--shards"):
            command._shards(str(tmp_path / path))


def test_names_of_two_runs():
    names = NameMap({"model.*": "*", "blocks.*.up.l": "blocks.*.up", "none": "x"})
    assert names.path("blocks.0.up.l.weight") == "blocks.0.up.weight"
    assert names.path("blocks.0.up.linear.weight") == "blocks.0.up.linear.weight", "whole parts of a path"
    assert names.path("model.norm.weight") == "norm.weight"
    assert names.unused == ["none"]
    for wrong in ({"a": "*"}, {"": "a"}, {"a": 1}, [("a", "b")], "a"):
        with pytest.raises(ArgumentError, match="names="):
            NameMap(wrong)
    assert command._table("--names", "a.*.l=a.*") == {"a.*.l": "a.*"}


def test_a_layer_around_another_changes_no_name():
    assert wrapped(["up.l.weight", "up.l.bias", "head.weight"], ["up.weight", "up.bias", "head.weight"]) == {"up.l": "up"}
    assert wrapped(["up.weight"], ["up.l.weight"]) == {"up": "up.l"}
    assert wrapped(["up.a.weight", "up.b.weight"], ["up.weight"]) == {}, "two that it may be"
    assert wrapped(["blocks.0.weight"], ["blocks.weight"]) == {}, "numbers are no layers around"


def as_rank(monkeypatch, rank, count):
    monkeypatch.setenv("PADDLE_TRAINER_ID", str(rank))
    monkeypatch.setenv("PADDLE_TRAINERS_NUM", str(count))


class Block(paddle.nn.Layer):
    """``wrong``: its second call is off."""

    def __init__(self, values, wrong):
        super().__init__()
        self.up, self.wrong, self.calls = paddle.nn.Linear(4, 4), wrong, 0
        self.up.weight.set_value(values)

    def forward(self, x):
        self.calls += 1
        return paddle.tanh(self.up(x)) * (1.01 if self.wrong and self.calls == 2 else 1.0)


class Stage(paddle.nn.Layer):
    """Some of the blocks of a model, of which the first may be wrong."""

    def __init__(self, weights, wrong=False):
        super().__init__()
        self.layers = paddle.nn.LayerList([Block(values, wrong and not place) for place, values in enumerate(weights)])

    def forward(self, x):
        for layer in self.layers:
            x = layer(x)
        return x


def staged(folder, weights, data, monkeypatch, wrong=False, cut=1, scale=1.0, lost=1.0, **options):
    """Two stages that call their layers for all micro-batches before the first backward, played one after the other.

    ``scale``: by which the first multiplies what it sends; ``lost``: by which it is multiplied on its way.
    """

    def to_send(x):
        return x if scale == 1 else x * scale

    net, sent, back = Stage(weights[:cut], wrong), [], []
    later = Stage(weights[cut:])
    for x in data:
        sent.append(to_send(net(paddle.to_tensor(x))).detach())
        sent[-1].stop_gradient = False
        (later(sent[-1]) ** 2).mean().backward()
        back.append(sent[-1].grad)
    for rank, part in enumerate((weights[:cut], weights[cut:])):
        as_rank(monkeypatch, rank, 2)
        stage = Stage(part, wrong and not rank)
        optimizer = paddle.optimizer.SGD(0.1, parameters=stage.parameters())
        with padiff_shim.record(folder, stage, **(options or {"gradients": True})):
            if rank == 0:
                results = [to_send(stage(paddle.to_tensor(x))) for x in data]
                for result, gradient in zip(results, back):
                    paddle.autograd.backward([result], [gradient])
            else:
                for x in sent:
                    x = x if lost == 1 else paddle.to_tensor(x.numpy() * np.float32(lost))
                    (stage(x) ** 2).mean().backward()
            optimizer.step()
    as_rank(monkeypatch, 0, 1)


def test_stages_with_micro_batches_pair_each_call_and_find_the_stage(tmp_path, monkeypatch):
    rng = np.random.default_rng(0)
    weights, data = rng.standard_normal((2, 4, 4)).astype("float32"), rng.standard_normal((2, 3, 4)).astype("float32")
    net = Stage(weights)
    optimizer = paddle.optimizer.SGD(0.1, parameters=net.parameters())
    with padiff_shim.record(tmp_path / "whole", net, gradients=True):
        for x in data:
            (net(paddle.to_tensor(x)) ** 2).mean().backward()
        optimizer.step()
    staged(tmp_path / "stages", weights, data, monkeypatch)
    difference = padiff_shim.diff(tmp_path / "stages", tmp_path / "whole", shards="auto", rtol=1e-5)
    assert difference, difference.answer
    assert not [tensor for tensor, _ in difference.not_joined if "layers." in tensor]
    staged(tmp_path / "wrong", weights, data, monkeypatch, wrong=True)
    first = padiff_shim.diff(tmp_path / "wrong", tmp_path / "whole", shards="auto", rtol=1e-5).first
    assert (first.rank, first.any.layer) == (0, "layers.0")
    staged(tmp_path / "scaled", weights, data, monkeypatch, scale=1.01)
    scaled = padiff_shim.diff(tmp_path / "scaled", tmp_path / "whole", shards="auto", rtol=1e-5)
    assert (scaled.first.rank, scaled.reason.kind, scaled.reason.numbers["call"]) == (1, "calls", "multiply"), scaled.answer
    staged(tmp_path / "lost", weights, data, monkeypatch, lost=1.01)
    lost = padiff_shim.diff(tmp_path / "lost", tmp_path / "whole", shards="auto", rtol=1e-5)
    assert (lost.reason.kind, lost.reason.numbers) == ("received", {"side": "a", "rank": 1}), lost.answer


@pytest.mark.parametrize("options", [{"gradients": True, "parameters": True}, {"values": "fingerprint"}])
def test_pipelines_on_both_sides(options, tmp_path, monkeypatch):
    """Of one layout each rank has its partner, and what a stage was sent is no input of the run; other stages count otherwise."""
    rng = np.random.default_rng(0)
    weights, data = rng.standard_normal((3, 4, 4)).astype("float32"), rng.standard_normal((2, 4, 4)).astype("float32")
    staged(tmp_path / "one", weights, data, monkeypatch, **options)
    staged(tmp_path / "again", weights, data, monkeypatch, **options)
    staged(tmp_path / "other", weights, data, monkeypatch, cut=2, **options)
    staged(tmp_path / "small", weights, data.reshape(4, 2, 4), monkeypatch, **options)
    staged(tmp_path / "wrong", weights, data, monkeypatch, wrong=True, **options)
    staged(tmp_path / "scaled", weights, data, monkeypatch, scale=1.01, **options)
    staged(tmp_path / "lost", weights, data, monkeypatch, lost=1.01, **options)
    for shards in (None, "auto"):
        same = padiff_shim.diff(tmp_path / "one", tmp_path / "again", shards=shards)
        assert same, same.answer
        assert not same.not_joined
        wrong = padiff_shim.diff(tmp_path / "wrong", tmp_path / "one", shards=shards)
        assert (wrong.origin, wrong.first.rank, wrong.first.any.layer) == (None, 0, "layers.0"), wrong.answer
        scaled = padiff_shim.diff(tmp_path / "scaled", tmp_path / "one", shards=shards)
        assert (scaled.origin, scaled.first.rank, scaled.first.any.layer) == (None, 0, ""), scaled.answer
        assert scaled.reason.kind in ("calls", "loss"), scaled.answer
    lost = padiff_shim.diff(tmp_path / "lost", tmp_path / "one")
    assert (lost.reason.kind, lost.reason.numbers) == ("received", {"side": "a", "rank": 1}), lost.answer
    other = padiff_shim.diff(tmp_path / "other", tmp_path / "one", shards="auto")
    assert other, other.answer
    small = padiff_shim.diff(tmp_path / "small", tmp_path / "one", rtol=1e-5)
    assert small.micro_batches == (4, 2)
    assert all(row.any.kind == "layer" or not row.differs for row in small.rows if row.any.layer), small.answer


def test_micro_batches_of_ranks_whose_loss_and_gradients_are_divided_outside_of_layers(tmp_path, monkeypatch):
    rng = np.random.default_rng(0)
    weights, data = rng.standard_normal((2, 4, 4)).astype("float32"), rng.standard_normal((8, 4)).astype("float32")

    def gradients(net, own, recording=False):
        for x in np.split(own, 2):
            loss = (net(paddle.to_tensor(x)) ** 2).mean()
            (loss / 2).backward()

    summed = []
    for rank in range(2):
        net = Stage(weights)
        gradients(net, np.split(data, 2)[rank])
        summed.append([parameter.grad for parameter in net.parameters()])
    for count in (1, 2):
        for rank in range(count):
            as_rank(monkeypatch, rank, count)
            net = Stage(weights)
            optimizer = paddle.optimizer.SGD(0.1, parameters=net.parameters())
            with padiff_shim.record(tmp_path / str(count), net, gradients=True):
                gradients(net, np.split(data, count)[rank])
                for parameter, first, second in zip(net.parameters(), *summed):
                    if count > 1:
                        parameter.grad.set_value(first + second)
                        parameter.grad.set_value(parameter.grad / count)
                optimizer.step()
    as_rank(monkeypatch, 0, 1)
    difference = padiff_shim.diff(tmp_path / "2", tmp_path / "1", shards="auto", rtol=1e-5)
    assert difference, difference.answer


class Halves(paddle.nn.Layer):
    """A layer, or a rank's half of its outputs."""

    def __init__(self, values, rank, count):
        super().__init__()
        self.up = paddle.nn.Linear(4, 4 // count, bias_attr=False)
        self.up.weight.set_value(np.ascontiguousarray(np.split(values, count, 1)[rank]))

    def forward(self, x):
        return self.up(x)


@pytest.mark.parametrize(("wrong", "resumes"), [(None, False), (None, True), (0, False), (1, False)])
def test_fingerprints_of_ranks_are_put_together(wrong, resumes, tmp_path, monkeypatch):
    rng = np.random.default_rng(0)
    values, x = rng.standard_normal((4, 4)).astype("float32"), rng.standard_normal((3, 4)).astype("float32")
    for count in (1, 2):
        for rank in range(count):
            as_rank(monkeypatch, rank, count)
            net = Halves(values, rank, count)
            optimizer = paddle.optimizer.SGD(0.02 if count == 2 and rank == wrong else 0.01, parameters=net.parameters())
            recording = padiff_shim.record(tmp_path / str(count), net, values="fingerprint")
            for step in range(3):
                recording = recording.start() if step == (resumes and count == 2) else recording
                (net(paddle.to_tensor(x)) ** 2).sum().backward()
                optimizer.step()
                optimizer.clear_grad()
            recording.stop()
    as_rank(monkeypatch, 0, 1)
    difference = padiff_shim.diff(tmp_path / "2", tmp_path / "1", shards="auto", rtol=1e-5)
    kinds = {row.any.kind for row in difference.compared}
    assert {"layer", "step gradient", "parameter"} <= kinds
    named = [row for row in difference.compared if row.any.name == "up.weight"]
    assert difference.begins == (("a", 1) if resumes else None)
    if wrong is None:
        assert not any(row.differs for row in named), str(difference)
    else:
        first = next(row for row in difference.differing if row.any.kind != "loss")
        assert (first.any.step, first.any.kind, first.any.name) == (0, "parameter", "up.weight")


class Half(paddle.nn.Layer):
    def __init__(self, weight):
        super().__init__()
        self.weight, self.bias = paddle.create_parameter(weight.shape, "float32"), None
        self.weight.set_value(weight.copy())

    def forward(self, x):
        return paddle.matmul(x, self.weight)


class ByHand(paddle.nn.Layer):
    """Two halves of a product whose sum the outermost layer takes itself, with a bias that is another layer's."""

    def __init__(self, rank, count, fault):
        super().__init__()
        rng = np.random.default_rng(0)
        self.weights = [rng.standard_normal(shape).astype("float32") for shape in ((8, 16), (16, 8))]
        self.up, self.down = (Half(np.split(weight, count, 1 - axis)[rank]) for axis, weight in enumerate(self.weights))
        self.down.bias = paddle.create_parameter([8], "float32")
        self.down.bias.set_value(rng.standard_normal(8).astype("float32"))
        self.count, self.fault = count, fault

    def forward(self, x):
        return self.ends(self.down(paddle.tanh(self.up(x))), x)

    def ends(self, y, x):
        bias = self.down.bias
        if self.fault == "bias":
            return self.summed(y + bias, x, bias)
        return (y if self.fault == "partial sums" else self.summed(y, x, 0.0 * bias)) + bias

    def summed(self, y, x, bias):
        """As all_reduce makes it, in this process."""
        if self.count == 1:
            return y
        first, second = (np.split(weight, 2, 1 - axis) for axis, weight in enumerate(self.weights))
        parts = [np.tanh(x.numpy() @ up) @ down + bias.numpy() for up, down in zip(first, second)]
        return paddle.scale(y, 0.0) + paddle.to_tensor(sum(parts))


def by_hand(model, x, where):
    """The sum in the model, in the program that calls its layers, or without any layer."""
    if where != "nowhere":
        return model(x) if where == "model" else model.forward(x)
    return model.ends(paddle.matmul(paddle.tanh(paddle.matmul(x, model.up.weight)), model.down.weight), x)


@pytest.mark.rows(6)
@pytest.mark.parametrize("options", [{}, {"values": "fingerprint"}])
@pytest.mark.parametrize("where", ["model", "program", "nowhere"])
@pytest.mark.parametrize("fault", ["", "partial sums", "bias"])
def test_a_sum_over_ranks_by_hand(fault, where, options, tmp_path, monkeypatch):
    x = paddle.to_tensor(np.random.default_rng(1).standard_normal((4, 8)).astype("float32"))
    for folder, count in (("one", 1), ("two", 2)):
        for rank in range(count):
            as_rank(monkeypatch, rank, count)
            with padiff_shim.record(tmp_path / folder, model := ByHand(rank, count, fault if count > 1 else ""), **options):
                loss = paddle.tanh(by_hand(model, x, where)).sum()
                if options:
                    loss.backward()
    difference = padiff_shim.diff(tmp_path / "two", tmp_path / "one", shards="auto", rtol=1e-5)
    same = not fault or (options and not any(row.differs for row in difference.rows if row.any.kind == "loss"))
    assert not [row for row in difference.differing if row.any.kind in ("layer", "op", "loss")] if same else not difference
    if not options:
        assert getattr(difference.reason, "kind", "") == fault, difference.answer


@pytest.mark.parametrize("options", [{"gradients": True}, {"values": "fingerprint"}], ids=["full", "print"])
@pytest.mark.parametrize(("fault", "reason"), [("", None), ("undivided", "scale"), ("alone", "shares")])
def test_shares_with_micro_batches_of_which_the_last_step_has_fewer(fault, reason, options, tmp_path, monkeypatch):
    """Two ranks with four micro-batches each, at last four and two, against one process with one batch a step."""
    rng = np.random.default_rng(0)
    weight, data = rng.standard_normal((4, 4)).astype("float32"), rng.standard_normal((3, 8, 4)).astype("float32")
    for folder, count in (("one", 1), ("two", 2)):
        for rank in range(count):
            as_rank(monkeypatch, rank, count)
            net = paddle.nn.Linear(4, 4)
            net.weight.set_value(weight)
            optimizer = paddle.optimizer.SGD(0.1, parameters=net.parameters())
            with padiff_shim.record(tmp_path / folder, net, overwrite=not rank, **options):
                for step, batch in enumerate(data):
                    batch = batch[: 6 if step == 2 else 8]
                    share = batch if count == 1 else batch[:4] if rank == 0 else batch[4:]
                    parts = 1 if count == 1 else len(share)
                    result = (batch @ net.weight.numpy() + net.bias.numpy()) / (2 * len(batch))
                    whole = {net.weight: batch.T @ result, net.bias: result.sum(0)}  # as all_reduce makes it, in this process
                    for x in np.split(share, parts):
                        ((net(paddle.to_tensor(x)) ** 2).mean() / (1 if fault == "undivided" else parts)).backward()
                    for parameter in net.parameters()[fault == "alone" and count == 2 :]:
                        parameter.grad.set_value(whole[parameter] * (4 if fault == "undivided" and count == 2 else 1))
                    optimizer.step()
                    optimizer.clear_grad()
    as_rank(monkeypatch, 0, 1)
    difference = padiff_shim.diff(tmp_path / "two", tmp_path / "one", shards="auto", rtol=1e-5)
    assert bool(difference) is (reason is None), difference.answer
    assert {row.any.step for row in difference.compared if row.any.kind == "layer"} == {0, 1, 2}
    assert reason is None or (difference.reason.kind, difference.first.any.step) == (reason, 0), difference.answer


def test_a_lone_gradient_that_is_not_combined_is_told_of_fingerprints_of_two_frameworks(tmp_path, monkeypatch):
    data = np.random.default_rng(0).standard_normal((6, 4)).astype("float32")
    original = torch.nn.Linear(4, 3)
    ports = [paddle.nn.Linear(4, 3) for _ in range(2)]
    for port, share in zip(ports, np.split(data, 2)):
        padiff_shim.transfer_weights(original, port)
        (port(paddle.to_tensor(share)) ** 2).mean().backward()
    whole = (ports[0].weight.grad + ports[1].weight.grad) / 2, (ports[0].bias.grad + ports[1].bias.grad) / 2
    for alone in (False, True):
        for rank, (port, share) in enumerate(zip(ports, np.split(data, 2))):
            as_rank(monkeypatch, rank, 2)
            optimizer = paddle.optimizer.SGD(0.0, parameters=port.parameters())
            optimizer.clear_grad()
            with padiff_shim.record(tmp_path / f"two {alone}", port, values="fingerprint"):
                (port(paddle.to_tensor(share)) ** 2).mean().backward()
                port.bias.grad.set_value(whole[1])
                if not alone:
                    port.weight.grad.set_value(whole[0])
                optimizer.step()
    as_rank(monkeypatch, 0, 1)
    with padiff_shim.record(tmp_path / "one", original, values="fingerprint"):
        (original(torch.from_numpy(data)) ** 2).mean().backward()
        torch.optim.SGD(original.parameters(), 0.0).step()
    assert padiff_shim.diff(tmp_path / "two False", tmp_path / "one", shards="auto", rtol=1e-4)
    difference = padiff_shim.diff(tmp_path / "two True", tmp_path / "one", shards="auto", rtol=1e-4)
    assert (difference.reason.kind, difference.first.any.name) == ("shares", "weight"), difference.answer


def test_the_report_has_hashes_of_the_tensors_put_together(tmp_path, monkeypatch):
    """For a pull request: the data of each step, losses, what layers return, and optimizer states."""
    drawn = np.random.default_rng(0)
    values, data = drawn.standard_normal((4, 4)).astype("float32"), drawn.standard_normal((2, 3, 4)).astype("float32")
    results = []
    for count in (1, 2):
        for rank in range(count):
            as_rank(monkeypatch, rank, count)
            net = Halves(values, rank, count)
            net.config = {"width": 4}
            optimizer = paddle.optimizer.AdamW(0.1, parameters=net.parameters())
            with padiff_shim.record(tmp_path / str(count), net, states=True) as recording:
                for x in data:
                    y = net(paddle.to_tensor(x))
                    results += [y.numpy()] if count == 1 else []
                    recording.note("loss", loss := (y**2).sum() * count)
                    loss.backward()
                    optimizer.step()
                    optimizer.clear_grad()
    as_rank(monkeypatch, 0, 1)
    difference = padiff_shim.diff(tmp_path / "2", tmp_path / "1", shards="auto", rtol=1e-5)
    report = difference.report(lang="en")
    data_hashes, losses, layers, states = report.to_dict()["hashes"].values()
    assert [row[0] for row in data_hashes] == ["0", "1"]
    assert len({row[4] for row in data_hashes}) == 2
    assert all(row[4] == row[5] for row in data_hashes), "both runs read the same batch at each step, and another at the next"
    assert len(losses) == 2
    whole = [row for row in layers if row[2] == "up"]
    assert [row[5] for row in whole] == [tensors.md5(result) for result in results]
    assert whole[0][4] == whole[0][5], "slices, put together"
    assert {row[0] for row in states} == {"0", "1"}
    assert all(row[4] and row[5] for row in (*losses, *layers, *states))
    text = report.markdown()
    assert '{"width": 4}' in text
    assert report.headline == difference.headline
    assert "MD5" not in difference.markdown()
    (tmp_path / "report").mkdir()
    report.save(tmp_path / "report" / "align.md")
    assert losses[0][5] in (tmp_path / "report" / "align.md").read_text()


def test_slices_that_a_program_gathers_in_another_order(tmp_path, monkeypatch):
    drawn = np.random.default_rng(0)
    first, last = (paddle.to_tensor(drawn.standard_normal(shape).astype("float32")) for shape in ((4, 8), (8, 4)))
    x = paddle.to_tensor(drawn.standard_normal((3, 4)).astype("float32"))
    for folder, count in (("one", 1), ("two", 2)):
        for rank in range(count):
            as_rank(monkeypatch, rank, count)
            parts = [paddle.tanh(paddle.matmul(x, part)) for part in paddle.split(first, count, 1)]
            with padiff_shim.record(tmp_path / folder):
                paddle.tanh(paddle.matmul(x, paddle.split(first, count, 1)[rank]))
                paddle.matmul(paddle.concat(parts[::-1], 1), last)
    difference = padiff_shim.diff(tmp_path / "two", tmp_path / "one", shards="auto", rtol=1e-5)
    assert (difference.reason.kind, difference.reason.numbers["order"]) == ("order", "1, 0"), difference.answer
