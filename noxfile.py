"""The matrix of versions: the fast part of the suite on each Paddle that is supported, and on other Pythons and Torches.

``make test-matrix`` runs what this machine can: each Paddle with the Python at hand. An interpreter that is not installed is
skipped, and said so. Another Torch is named by hand, for its wheels may bring gigabytes of CUDA: ``nox -s torch -- 2.5.1``.
"""

from __future__ import annotations

import runpy
from pathlib import Path

import nox

# By its path: where nox runs, nothing of ours is installed.
PADDLES = runpy.run_path(str(Path(__file__).with_name("padiff_shim") / "tested.py"))["PADDLES"]
PYTHONS = ("3.9", "3.10", "3.12", "3.13")  # 3.11 is the one of all other targets
NEWEST = PADDLES[-1]

nox.needs_version = ">=2024.4.15"
nox.options.default_venv_backend = "venv"
nox.options.envdir = ".nox"
nox.options.error_on_missing_interpreters = False
nox.options.reuse_venv = "yes"
nox.options.sessions = ["paddle"]


def _environment(session: nox.Session, paddle: str, *others: str) -> None:
    """All that the tests need, beside one Paddle."""
    if Path(f"requirements/dev-{paddle}.txt").exists():
        session.install("--requirement", f"requirements/dev-{paddle}.txt", *others)
    else:
        session.install("--requirement", "requirements/between.txt", f"paddlepaddle=={paddle}", *others)


def _test(session: nox.Session, *arguments: str) -> None:
    session.run("python", "-m", "pytest", "-m", "compat and not slow and not long", *arguments, env={"OMP_NUM_THREADS": "1"})


@nox.session
@nox.parametrize("paddle", PADDLES)
def paddle(session: nox.Session, paddle: str) -> None:
    """The fast part of the suite on one Paddle; arguments go to pytest."""
    _environment(session, paddle)
    _test(session, *session.posargs)


@nox.session(python=PYTHONS)
def python(session: nox.Session) -> None:
    """The fast part of the suite on another Python, as far as both frameworks have wheels for it."""
    _environment(session, NEWEST)
    _test(session, *session.posargs)


@nox.session
def torch(session: nox.Session) -> None:
    """The fast part of the suite on the Torch that is named: ``nox -s torch -- 2.5.1 [pytest's arguments]``."""
    if not session.posargs:
        session.error("name a version of Torch: nox -s torch -- 2.5.1")
    version, *arguments = session.posargs
    _environment(session, NEWEST)
    session.install(f"torch=={version}")
    _test(session, *arguments)
