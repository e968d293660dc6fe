"""Public questions about differences between Paddle and Torch, each rebuilt from its thread and put to this library.

kernels.py    what other machines compute: products summed in another order, TF32 inputs, a variance in one pass
*_<number>.py a thread each: what was asked, and `ask()`, which gives the runs and proofs that answer it
"""

from __future__ import annotations

from typing import NamedTuple


class Question(NamedTuple):
    """A thread and what is promised of the answer on any machine."""

    thread: str  # "PaddlePaddle/Paddle#35123"
    title: str
    saw: str
    verdict: str  # that of the last thing that `ask()` gives
    answer: str
    quotes: tuple[str, ...]  # parts of what is printed
    tolerance: float | None = None  # what a test needs, as far as a factor of two
    emulated: str = ""  # what of another machine is put in place of Paddle's kernel

    @property
    def link(self) -> str:
        """The thread's address."""
        return f"https://github.com/{self.thread.replace('#', '/issues/')}"
