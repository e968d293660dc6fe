"""The small parts of `make demo-llm`, which need none of its libraries."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest
import torch

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"


@pytest.fixture(autouse=True)
def beside_the_examples(monkeypatch):
    monkeypatch.syspath_prepend(str(EXAMPLES))


def answer(**changes):
    equal = {"largest": 0.0, "count": 0, "of": 4}
    return {
        "logits": equal,
        "padded": equal,
        "packed": equal,
        "covered": [3, 3],
        "left": {},
        "step": None,
        "gradients": {"same": 2, "of": 2},
        "generated": {"first": None, "same": 24},
        **changes,
    }


@pytest.mark.parametrize(
    "changes",
    [
        {"step": 3},
        {"packed": {"largest": 1e-7, "count": 1, "of": 4}},
        {"gradients": {"same": 1, "of": 2}},
        {"generated": {"first": 5, "same": 24}},
        {"generated": "ValueError: no"},
        {"failed": "no end in 300 s"},
    ],
)
def test_each_difference_counts(changes):
    from demo_llm import equal

    assert equal(answer())
    assert not equal(answer(**changes))


def test_a_bit_is_a_difference():
    from demo_llm import differing

    zeros = np.zeros(3, "float32")
    assert differing(zeros, -zeros) == {"largest": 0.0, "count": 3, "of": 3}


def test_what_is_not_listed_as_open_has_to_be_explained():
    from demo_llm import OPEN
    from ports.decoders import DECODERS

    titles = [decoder.title for decoder in DECODERS]
    assert len(set(titles)) == len(titles) == 8
    assert set(titles) >= OPEN


def test_clipping_by_the_ports_weights_is_torchs_where_they_are_the_originals():
    from demo_llm import Masters

    torch.manual_seed(0)
    modules = [torch.nn.Linear(5, 4), torch.nn.Linear(5, 4)]
    modules[1].load_state_dict(modules[0].state_dict())
    places = [np.arange(20).reshape(4, 5), np.arange(20, 24)]
    for module, where in zip(modules, (None, places)):
        module(torch.ones(3, 5)).square().sum().backward()
        Masters(torch, module, where).step()
    assert all(map(torch.equal, modules[0].parameters(), modules[1].parameters()))


def test_a_place_that_is_gone_is_an_error():
    from ports import decoders

    place = decoders._place("ports.decoders", "DECODERS = (")
    assert place.startswith("ports/decoders.py:")
    with pytest.raises(ValueError, match="has no line"):
        decoders._place("ports.decoders", "no such line")
    assert "ports.decoders" in sys.modules
