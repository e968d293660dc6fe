"""Where a program takes breath: with a budget, the hooks stand idle from one such pulse to another."""

from __future__ import annotations

from typing import Any

from ..dispatch import site
from ..dispatch.frames import Frame
from .native import NativeCalls


class Pulses(NativeCalls):
    """The part of the plan of compare mode that keeps to its budget."""

    layers = 0  # calls of layers when the account was looked at last

    def next_step(self) -> None:
        """A new step of the program begins."""
        raise NotImplementedError

    def layer_begins(self, frame: Frame) -> None:
        """Where the program takes breath: with a budget, the hooks of ``frame`` may stand idle until the next pulse.

        Not where several threads share the mode, nor where a shadow stream has to be kept. Gradients that are awaited are compared
        all the same: the hooks on their nodes stay.
        """
        if not self.sampling.accounts or self.aside or self.shadow is not None or not frame.sole:
            return
        sampling = self.sampling
        if self.updated:
            self.next_step()
        if frame.idle and sampling.sleeps():
            return
        began = sampling.clock()
        layers, self.layers = site.layer_calls() - self.layers, site.layer_calls()
        idle = sampling.pulse(frame.idle, away=frame.doors is not None and frame.doors.resting, layers=layers)
        if frame.doors is not None and idle:
            frame.doors.rest()
        elif frame.doors is not None and frame.idle:
            frame.doors.wake()
        frame.idle = idle
        sampling.charge(sampling.clock() - began)

    def opened(self, frame: Frame, doors: Any) -> None:
        """A mode with a budget is open again: its hooks, which ``doors`` takes away and brings back, may stand idle at once."""
        frame.doors = doors
        frame.idle = frame.sole and self.sampling.stretches > 0
        if frame.idle:
            self.layer_begins(frame)
