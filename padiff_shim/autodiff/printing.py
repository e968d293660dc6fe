"""The lines that a call prints, with PaDiff's mark."""

from __future__ import annotations

from typing import Any


def log(text: str) -> None:
    """Print lines, the first of them marked."""
    print(f"[AutoDiff] {text}")


def told(found: Any) -> str:
    """A difference in one sentence."""
    return (
        f"Diff found in {found.stage.title()} Stage, step {found.step}, at {found.base.route} vs {found.raw.route}: {found.text}."
    )
