"""Every error that padiff_shim raises on its own account.

Errors of the user's program are never wrapped: what Paddle raises natively is raised unchanged inside a mode.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from typing import Any


class PadiffShimError(Exception):
    """Base class of the library's own errors."""


class BackendError(PadiffShimError, RuntimeError):
    """The reference backend cannot be used here (not installed, a proxy in its place, wrong device)."""


class MissingFrameworkError(BackendError, ImportError):
    """paddle or torch is not installed; the message holds the install line."""


class UnknownNameError(PadiffShimError, ValueError):
    """A backend, op, family or option that does not exist; the message names the nearest ones."""


class InterceptionError(PadiffShimError, RuntimeError):
    """This Python or this Paddle cannot be patched safely."""


class StayedNativeError(PadiffShimError, RuntimeError):
    """Raised under ``strict=True`` by the first float op call that has to stay native."""


class MismatchError(PadiffShimError, AssertionError):
    """Raised by compare mode with ``on_mismatch="raise"``; :attr:`record` holds the record of the call."""

    def __init__(self, message: str, record: dict[str, Any]) -> None:
        super().__init__(message)
        self.record = record


def unknown(kind: str, given: object, accepted: Iterable[str]) -> UnknownNameError:
    """The error for a name that is not in ``accepted``, with the nearest accepted names."""
    names = sorted(accepted)
    near = difflib.get_close_matches(str(given), names, n=3, cutoff=0.5)
    hint = f" Did you mean {' or '.join(map(repr, near))}?" if near else ""
    return UnknownNameError(f"unknown {kind} {given!r}.{hint} Accepted: {', '.join(names)}.")
