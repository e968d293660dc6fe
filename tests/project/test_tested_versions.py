"""What is said of versions is what ``padiff_shim/tested.py`` lists, and each of them has an environment for its tests."""

import re
from pathlib import Path

import pytest

from padiff_shim.modes.environment import INSTALL
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


def test_what_is_missing_is_installed_as_make_does():
    assert INSTALL["paddle"] in text("requirements/run-3.3.1.txt").splitlines()
    assert INSTALL["torch"] in text("requirements/run.txt").splitlines()


def test_the_matrix_and_the_range_of_the_wheel_end_with_them():
    assert 'run_path(str(Path(__file__).with_name("padiff_shim") / "tested.py"))["PADDLES"]' in text("noxfile.py")
    major, minor, _ = PADDLES[-1].split(".")
    assert f"paddlepaddle>={PADDLES[0]},<{major}.{int(minor) + 1}\n" in text("setup.cfg")
    assert all(f"Programming Language :: Python :: {version}" in text("setup.cfg") for version in PYTHONS)
