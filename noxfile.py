"""The matrix of Paddles: the fast part of the suite on each that is supported (``make test-matrix``).

Other Torches and Pythons are tried by ``make test-torch`` and ``make test-python``, whose recipes are in the Makefile.
"""

from __future__ import annotations

import runpy
from pathlib import Path

import nox

# By its path: where nox runs, nothing of ours is installed.
PADDLES = runpy.run_path(str(Path(__file__).with_name("padiff_shim") / "tested.py"))["PADDLES"]

nox.needs_version = ">=2024.4.15"
nox.options.default_venv_backend = "venv"
nox.options.envdir = ".nox"
nox.options.reuse_venv = "yes"
nox.options.sessions = ["paddle"]


@nox.session
@nox.parametrize("paddle", PADDLES)
def paddle(session: nox.Session, paddle: str) -> None:
    """The fast part of the suite on one Paddle; arguments go to pytest."""
    if Path(f"requirements/dev-{paddle}.txt").exists():
        session.install("--requirement", f"requirements/dev-{paddle}.txt")
    else:
        session.install("--requirement", "requirements/between.txt", f"paddlepaddle=={paddle}")
    session.run("python", "-m", "pytest", "-m", "compat and not slow and not long", *session.posargs, env={"OMP_NUM_THREADS": "1"})
