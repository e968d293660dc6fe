"""The versions that the tests were run on: the one list, for ``noxfile.py``, ``padiff-shim doctor``, the defects and the docs.

The fast part of the suite (``make test``) runs on the newest Paddle with every change, and a part of it on the oldest; the whole
suite (``make test-all``, ``make test-compat``) before an issue is closed. ``make test-matrix`` runs the fast part on each Paddle:
docs/support.md says how much was run on those between. What ``noxfile.py`` can run beyond them was not run.
"""

from __future__ import annotations

PADDLES = ("2.6.2", "3.0.0", "3.1.1", "3.2.2", "3.3.1")
TORCHES = ("2.13.0",)
PYTHONS = ("3.11",)


def untested(paddle: str, torch: str, python: str) -> list[str]:
    """What of this installation is not in the lists: ``["Paddle 3.4.0 (tested: 2.6.2, 3.0.0)"]``.

    Args:
        paddle, torch, python: versions as the frameworks and ``platform.python_version()`` tell them; ``+cpu`` does not count.
    """
    versions = (("Paddle", paddle, PADDLES), ("Torch", torch, TORCHES), ("Python", ".".join(python.split(".")[:2]), PYTHONS))
    unknown = ((name, version, known) for name, version, known in versions if version.partition("+")[0] not in known)
    return [f"{name} {version} (tested: {', '.join(known)})" for name, version, known in unknown]
