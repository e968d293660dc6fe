"""Cases that are judged later, so that the host need not wait for the device at every call.

On CUDA a verdict needs values on the host. A case therefore waits, with its tensors alive, until Paddle's backward has ended, a
step has ended, the mode is closed, or the waiting tensors hold more memory than ``LIMIT``. Tensors that were changed in place
meanwhile can no longer be judged: their record says so.
"""

from __future__ import annotations

import threading
from collections.abc import Callable

from ..frameworks.surroundings import put_aside
from .cases import Case

LIMIT = 256 * 2**20  # bytes


class Waiting:
    """The cases of one mode that wait, in order; each thread settles its own, so that their errors are raised in it."""

    def __init__(self, settle: Callable[[Case], None]) -> None:
        self._settle, self._bytes = settle, 0
        self._cases: dict[int, list[Case]] = {}  # by thread
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return len(self._cases.get(threading.get_ident(), ()))

    def add(self, case: Case) -> None:
        """Keep a case; settles this thread's if all hold too much."""
        with self._lock:
            self._cases.setdefault(threading.get_ident(), []).append(case)
            self._bytes += case.bytes
            full = self._bytes > LIMIT
        if full:
            self.settle()

    def forget(self) -> None:
        """In a forked child: the cases, and a lock that nobody here may ever release, are the parent's."""
        self._cases, self._bytes, self._lock = {}, 0, threading.Lock()

    def settle(self) -> None:
        """Judge all that wait in this thread, in the order in which they happened."""
        self._settle_of(threading.get_ident())

    def settle_all(self) -> None:
        """Judge all that wait in any thread: the mode is closed."""
        for thread in list(self._cases):
            self._settle_of(thread)

    def _settle_of(self, thread: int) -> None:
        with self._lock:
            cases = self._cases.pop(thread, [])
            self._bytes -= sum(case.bytes for case in cases)
        with put_aside():
            for case in cases:  # without the lock: a user's callback may wait for another thread
                self._settle(case)
