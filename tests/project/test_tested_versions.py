"""What is said of versions is what ``padiff_shim/tested.py`` lists, and each of them has an environment for its tests."""

import re
from pathlib import Path

import numpy as np
import paddle
import pytest
import torch

import padiff_shim
from padiff_shim import tested
from padiff_shim.tested import PADDLES, PYTHONS, TORCHES

ROOT = Path(__file__).resolve().parents[2]


def text(name):
    return (ROOT / name).read_text()


def test_the_page_of_what_is_supported_names_them():
    for name, versions in (("Paddle", PADDLES), ("Torch", TORCHES), ("Python", PYTHONS)):
        rows = re.findall(rf"^\| {name} ([\d.]+) \|", text("docs/support.md"), re.M)
        assert sorted(rows) == sorted(versions), name


@pytest.mark.parametrize("version", PADDLES)
def test_each_has_requirements(version):
    """The oldest and the newest one have a list of their own, the others share one; both pin all that they name."""
    own = ROOT / "requirements" / f"dev-{version}.txt"
    assert own.exists() == (version in (PADDLES[0], PADDLES[-1]))
    lines = text(own if own.exists() else "requirements/between.txt").splitlines()
    named = [line for line in lines if line and not line.startswith(("#", "-r"))]
    assert named
    assert all("==" in line for line in named)
    assert not own.exists() or f"paddlepaddle=={version}" in named


def test_the_matrix_and_the_range_of_the_wheel_end_with_them():
    assert 'run_path(str(Path(__file__).with_name("padiff_shim") / "tested.py"))["PADDLES"]' in text("noxfile.py")
    major, minor, _ = PADDLES[-1].split(".")
    assert f"paddlepaddle>={PADDLES[0]},<{major}.{int(minor) + 1}\n" in text("setup.cfg")
    assert all(f"Programming Language :: Python :: {version}" in text("setup.cfg") for version in PYTHONS)


def referenced(mode):
    with mode("torch") as run:
        paddle.tanh(paddle.ones([3]))
    return run


def pair():
    return paddle.nn.Linear(4, 3), torch.nn.Linear(4, 3), np.eye(4, dtype="float32")


ANSWERS = {
    "reference": lambda: referenced(padiff_shim.reference),
    "compare": lambda: referenced(padiff_shim.compare),
    "prove": lambda: padiff_shim.prove(*pair()),
    "carriers": lambda: padiff_shim.prove(*pair()).carriers(),
    "bitwise": lambda: padiff_shim.bitwise(*pair()),
    "drift": lambda: padiff_shim.drift(*pair()),
    "align": lambda: padiff_shim.align(*pair(), dtypes=["float32"], steps=0),
}


@pytest.mark.parametrize("answer", ANSWERS)
def test_every_answer_carries_versions(answer, monkeypatch):
    """In print, Markdown, page and plain types; one line says what of them the tests were not run on, where that is so."""
    made = ANSWERS[answer]()
    shown = [made.text(), made.markdown(), made.html()]
    versions = (paddle.__version__, torch.__version__.partition("+")[0])
    assert [version in text for text in shown for version in versions] == [True] * 6
    assert all(version in str(made.to_dict()) for version in versions)
    assert "Not tested on" not in made.text()
    monkeypatch.setitem(tested._LISTS, "Torch", ("2.5.1",))  # another one is installed
    second = made.text().splitlines()[1:4]
    assert [line.startswith("Not tested on Torch") for line in second].count(True) == 1, second
