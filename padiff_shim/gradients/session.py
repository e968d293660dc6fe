"""One backward in one thread, and what it begins with."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any

import torch

from ..dispatch import frames
from ..frameworks.memory import confine_torch, to_torch
from ..postponed import engine_runs, postpone
from ..signals import ends_program
from . import calls
from .calls import Call
from .local import LOCAL
from .twins import Arriving, twin


class Session:
    """One backward in one thread, which it is while it is open: ``with Session(retain=False) as session``."""

    __slots__ = ("answers", "create", "given", "keeps", "kept", "noted", "outer", "retain")

    def __init__(self, *, retain: bool, create: bool = False) -> None:
        self.retain = retain
        self.create = create  # whether gradients have graphs of their own
        self.given: dict[int, Any] = {}  # gradients on their way to leaves: see leaves.deliver
        self.keeps = retain  # whether a later turn may come to torch's graph again
        self.noted: list[tuple[torch.Tensor, torch.Tensor]] = []  # (twin, its gradient)
        self.answers: dict[Hashable, torch.Tensor] = {}  # what hooks made of gradients in this turn: see watching.heard
        self.kept: set[int] = set()  # whose retained gradient holds what a turn of this backward has brought, by id

    def __enter__(self) -> Session:
        if frames.forked:  # the graph may be the parent's: torch's kernels must not wait for threads that are not there
            confine_torch()
        self.outer, LOCAL.session = LOCAL.session, self
        return self

    def __exit__(self, *_: object) -> None:
        LOCAL.session = self.outer

    def arrived(self, record: Arriving, grad: Any) -> None:
        """Paddle's engine has come to a sentinel."""
        side = twin(grad) if self.create and not grad.stop_gradient else to_torch(grad)
        self.noted.append((record.twin, side.clone()))  # Paddle goes on to use the gradient's memory


class native_engine:
    """Paddle's engine runs for itself inside: what it reaches is no part of the backward around it."""

    __slots__ = ("_outer",)

    def __enter__(self) -> None:
        self._outer, LOCAL.session = LOCAL.session, None

    def __exit__(self, *_: object) -> None:
        LOCAL.session = self._outer


def incoming(side: torch.Tensor, grad: Any) -> torch.Tensor:
    """The gradient that a backward begins with; a copy, for torch may hand its memory on."""
    if grad is None:
        return torch.ones_like(side, memory_format=torch.contiguous_format)
    given = to_torch(grad)
    if given.shape != side.shape:
        raise ValueError(f"(InvalidArgument) the gradient has shape {list(grad.shape)}, the tensor {list(side.shape)}")
    return given.clone() if given.dtype is side.dtype else given.to(side.dtype)


def begin(reached: Sequence[Call], session: Session) -> None:
    try:
        calls.begin(reached, session)
    except BaseException as error:
        if not ends_program(error) or not engine_runs():
            raise
        postpone(error)  # natively it arrives when the backward has ended
        calls.begin(reached, session)
