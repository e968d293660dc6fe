"""The small parts of `make demo-ports`, which need none of its libraries."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"


@pytest.fixture(autouse=True)
def beside_the_examples(monkeypatch):
    monkeypatch.syspath_prepend(str(EXAMPLES))


def test_every_pair_has_a_name_of_its_own_and_a_difference_has_its_reason():
    from ports.pair import CORRECT, DIFFERS
    from ports.registry import PAIRS

    assert len({pair.name for pair in PAIRS}) == len(PAIRS)
    for pair in PAIRS:
        assert pair.expected in (CORRECT, DIFFERS)
        assert bool(pair.reason) == (pair.expected == DIFFERS), pair.name


def test_a_right_port_may_round_otherwise_and_a_wrong_one_may_not():
    from ports.pair import DIFFERS, Pair

    right, wrong = Pair("right", "x", build=tuple), Pair("wrong", "x", build=tuple, expected=DIFFERS)
    assert right.judged_right("CODE_CORRECT")
    assert right.judged_right("CODE_CORRECT_WITHIN_ROUNDING")
    assert wrong.judged_right("CODE_DIFFERS")
    for verdict in ("CODE_DIFFERS", "NOT_COMPARABLE", "failed"):
        assert not right.judged_right(verdict)
    for verdict in ("CODE_CORRECT", "CODE_CORRECT_WITHIN_ROUNDING", "NOT_COMPARABLE", "failed"):
        assert not wrong.judged_right(verdict)


def test_stand_ins_are_only_for_what_is_named_and_missing(monkeypatch):
    from ports import stand_ins

    monkeypatch.setattr(sys, "meta_path", [*sys.meta_path, stand_ins.Finder()])
    monkeypatch.setattr(stand_ins, "NAMES", frozenset({"nowhere_installed"}))
    import nowhere_installed.deep

    class Inherits(nowhere_installed.deep.Reader, extra=nowhere_installed.Extra.forbid):
        pass

    assert Inherits(1, option=2) is not None
    with pytest.raises(ModuleNotFoundError):
        import nowhere_else_installed  # noqa: F401
    for name in ("nowhere_installed", "nowhere_installed.deep"):
        sys.modules.pop(name)
