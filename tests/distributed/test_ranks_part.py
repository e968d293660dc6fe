"""The logs of several ranks, read together: where values that all of them hold part, and what a rank that died has left."""

import signal
import warnings

import pytest
import ranks
from helpers import ROOT

import padiff_shim


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    place = tmp_path_factory.mktemp("faults")
    first, second = ranks.ended([ROOT / "tests" / "rank_faults.py", place])
    assert second.returncode == -signal.SIGKILL, first.stdout[-3000:]
    return place


def read(folder, name):
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # no line of a log is lost
        return padiff_shim.load(folder / name)


def test_ranks_that_agree(folder):
    run = read(folder, "right")
    assert run.replicas.parting is None
    assert (run.replicas.ranks, run.replicas.steps) == ((0, 1), 3)
    sentence = "ranks 0, 1: parameters and gradients are equal bit for bit at all 3 steps"
    assert sentence in str(run)
    assert sentence in run.markdown()
    assert {call.log.split("-")[1] for call in run.calls} == {"rank0", "rank1"}
    assert not run.warnings


@pytest.mark.parametrize(
    ("name", "step", "kind", "meaning"),
    [
        ("not_summed", 0, "gradients", "gradients are not summed over the ranks"),
        ("other_rate", 2, "parameters", "the optimizers differ: learning rate"),
        ("written", 2, "parameters", "or a rank changed its own"),
    ],
)
def test_where_they_part(folder, name, step, kind, meaning, tmp_path):
    run = read(folder, name)
    parting = run.replicas.parting
    assert (parting.step, parting.kind, parting.groups) == (step, kind, ((0,), (1,)))
    assert len(parting.names) == (1 if name == "written" else 2)
    sentence = f"the ranks part at step {step}: {kind} of {parting.names[0]}"
    assert run.warnings[0].startswith(sentence)
    assert meaning in run.warnings[0]
    for text in (str(run), run.save(tmp_path / "report.html").read_text()):
        assert sentence in text
    assert f"part at step {step}" in run.markdown()


def test_shards_by_hand_are_no_fault(folder):
    run = read(folder, "shards")
    known = run.replicas
    assert known.parting is None
    assert not run.warnings
    assert len(known.unknown) == 1
    assert len(known.split) == 2, "weight and bias of other shapes"
    assert known.compared == 2, "no bias of a layer that may be a shard"
    assert known.steps == 3
    assert known.unknown[0] in str(run)
    assert known.split[0] in str(known)


def test_shards_that_begin_equal_are_no_fault(folder):
    run = read(folder, "equal_shards")
    known = run.replicas
    assert known.parting is None
    assert not run.warnings
    assert (len(known.alike), known.compared) == (1, 2)
    assert known.alike[0] in str(run)
    assert known.steps == 3


def test_other_weights_at_the_beginning_are_no_accusation(folder):
    run = read(folder, "other_weights")
    assert run.replicas.parting is None
    assert run.replicas.compared == 0
    assert run.replicas.unknown


def test_a_rank_that_was_killed_leaves_its_records(folder):
    run = read(folder, "killed")
    (left,) = run.warnings
    assert "calls-rank1-pid" in left
    assert "rank 1 was ended" in left
    of_each = [sum(call.log.startswith(f"calls-rank{rank}-") for call in run.calls) for rank in (0, 1)]
    assert of_each[0] == of_each[1] > 0
    assert run.replicas.parting is None
    assert run.replicas.steps == 2, "what was held back of the third step died with the process"


def test_a_rank_without_a_log_is_said(folder, tmp_path):
    (log,) = (folder / "right").glob("calls-rank0-*")
    (tmp_path / log.name).write_bytes(log.read_bytes())
    run = padiff_shim.load(tmp_path)
    assert len(run.warnings) == 1
    assert run.replicas is None
