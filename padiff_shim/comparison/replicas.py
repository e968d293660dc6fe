"""What the ranks of a distributed run should hold in common: digests of parameters and gradients, as each update finds them.

They are written to the rank's own log, step by step; who reads the logs of all ranks finds where they part
(:mod:`padiff_shim.runlog.replicas`). Nothing is sent between the processes.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any

import paddle
import torch

from ..dispatch.entry_point import Unlisted
from ..dispatch.operands import flat
from ..frameworks.autocast import grad_tracer
from ..frameworks.memory import to_torch
from ..optimizers.update import updates
from ..runlog.recorder import Recorder
from ..runlog.replicas import EVENT
from ..table.reasons import StayNative


class ReplicaDigests:
    """The digests of one step, until it ends. A parameter is known by its name, which is the same on all ranks."""

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder
        self._parameters: dict[str, str] = {}
        self._gradients: dict[str, str] = {}
        self._shapes: dict[str, str] = {}
        self._outputs: list[str] | None = []  # what outermost layers returned before the first update; None behind it

    def returned(self, result: Any) -> None:
        """An outermost layer returns: before the first update it shows whether ranks computed the same."""
        if self._outputs is not None and grad_tracer() is not None:
            self._outputs += [_digest(tensor) for tensor in flat(result) if isinstance(tensor, paddle.Tensor)]

    def note(self, other: Unlisted, args: Sequence[Any], step: int) -> None:
        """An optimizer's update is about to run: what it updates, and with which gradients."""
        update = updates().get(other.name)
        if update is None:
            return
        merged = other.name.startswith("merged_")
        place = update.merged.split().index("grad") if merged else update.place_of_grad
        params, grads = args[0], args[place]
        for param, grad in zip(params, grads) if merged else [(params, grads)]:
            # The program marks it as a part, or as a rank's own; an axis may be 0.
            if any((value := getattr(param, mark, None)) is not None and value is not False for mark in _MARKS):
                continue
            if param.name in self._parameters:  # the next update, though no step was seen to begin
                self.end(step)
            self._parameters[param.name], self._gradients[param.name] = _digest(param), _digest(grad)
            self._shapes[param.name] = "x".join(map(str, param.shape))

    def end(self, step: int) -> None:
        """The step has ended: its digests go into the log."""
        if self._parameters:
            tables = {"parameters": self._parameters, "gradients": self._gradients, "shapes": self._shapes}
            outputs = {"outputs": self._outputs} if self._outputs and all(self._outputs) else {}
            self._recorder.add_event(EVENT, f"step {step}", step=step, **tables, **outputs)
            self._parameters, self._gradients, self._shapes, self._outputs = {}, {}, {}, None


# Attributes with which fleet, PaddleFormers and Megatron mark what a rank does not share with the others.
_MARKS = ("is_distributed", "split_axis", "tensor_model_parallel", "expert", "no_sync")


def _digest(tensor: Any) -> str:
    """Of dtype, shape and bytes; ``""`` for what is no dense tensor, which is not looked at."""
    try:
        side = to_torch(tensor).detach()
    except StayNative:
        return ""
    digest = hashlib.blake2b(f"{side.dtype} {tuple(side.shape)} ".encode(), digest_size=8)
    digest.update(side.contiguous().cpu().reshape(-1).view(torch.uint8).numpy())
    return digest.hexdigest()
