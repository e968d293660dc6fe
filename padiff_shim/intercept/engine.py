"""The doors of Paddle's engine, and of hooks on tensors: they lead to the tape.

Those of Paddle's generators are with them. They stay while a mode is open or a tensor is on the tape: a graph that was made in a
mode may be walked when it has closed.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

from ..dispatch.frames import top
from ..frameworks.memory import grad_tracer
from ..frameworks.surroundings import undisturbed
from ..gradients import backward, clean, partial, reducers, twins, watching
from ..patching.patcher import Patcher, Point
from ..postponed import engine
from . import generators
from .locate import clean_c_op, point, present


def _doors() -> list[Point]:
    clean.use(**{ours: clean_c_op(name) for name, ours in clean.C_OPS.items()})

    def engine_door(ours: Callable[..., Any]) -> Callable[[Any], Callable[..., Any]]:
        def made(patch: Any) -> Callable[..., Any]:
            clean.use(**{ours.__name__: patch.original})
            return undisturbed(_settling(ours))

        return made

    ours = (backward.run_backward, partial.run_partial_grad)
    targets = {f"paddle.base.core.eager.{one.__name__}": engine_door(one) for one in ours}
    watched = {
        "_register_grad_hook": watching.registering,
        "_remove_grad_hook": watching.removing,
        "retain_grads": watching.retaining,
        "_new_shared_tensor": _sharing,
        "_tensor_use_gpudnn": _sharing,
    }
    for name, make in watched.items():
        targets[f"paddle.Tensor.{name}"] = lambda patch, make=make: undisturbed(make(patch.original))  # type: ignore[misc]
    targets["paddle.base.core.EagerReducer.prepare_for_backward"] = lambda patch: undisturbed(reducers.preparing(patch.original))
    return [*present(*(point(target, hook) for target, hook in targets.items())), *generators.points()]


def _sharing(original: Callable[..., Any]) -> Callable[..., Any]:
    """What gives another Python object over the same tensor: ``_new_shared_tensor``; ``_tensor_use_gpudnn``, before pooling."""

    @functools.wraps(original)
    def hook(tensor: Any, *args: Any) -> Any:
        return twins.share(tensor, original(tensor, *args))

    return hook


def _settling(original: Callable[..., Any]) -> Callable[..., Any]:
    """A backward; when Paddle's engine has returned, what waited for that is raised, and what compare mode keeps is judged.

    Paddle 3.3.1 leaves gradients switched off when an error leaves one of its engine's hooks (a Ctrl-C that falls between two lines
    of ours, a user's own hook): they are left as they were.
    """

    def hook(*args: Any, **kwargs: Any) -> Any:
        tracer, frame = grad_tracer(), top()
        recorded = tracer._has_grad
        with engine():
            try:
                if frame is not None:
                    frame.plan.backward_begins(frame)
                try:
                    return original(*args, **kwargs)
                finally:
                    if frame is not None:
                        frame.plan.backward_ends(frame)
            except BaseException:
                tracer._has_grad = recorded
                raise

    return hook


ENGINE = Patcher(_doors)


class WithEngine(Patcher):
    """A group of points that needs the engine's doors, and leaves them behind for what is still on the tape."""

    def __init__(self, build: Callable[[], Sequence[Point]]) -> None:
        super().__init__(build)
        self._left: list[None] = []  # users of the engine's doors that have gone

    def acquire(self) -> list[str]:
        """Install for one more user; a remark on each place that is somebody else's."""
        twins.when_last_dies(self._settle)
        remarks = ENGINE.acquire()
        try:
            return [*remarks, *super().acquire()]
        except BaseException:
            ENGINE.release()
            raise

    def release(self) -> list[str]:
        """One user less; the engine's doors stay while tensors are on the tape."""
        remarks = super().release()
        self._left.append(None)
        self._settle()
        return remarks

    def _settle(self) -> None:
        """From wherever the last tensor dies: in any thread, in the middle of anything."""
        while self._left and not twins.alive():
            try:
                self._left.pop()  # one step: two threads never let go of the same user
            except IndexError:
                return
            if not ENGINE.release_unless_busy():
                self._left.append(None)
                return
