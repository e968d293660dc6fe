"""Interception of Paddle's engine, and of hooks on tensors: their calls are led to the tape.

Paddle's generators are with them. The redirections stay while a mode is open or a tensor is on the tape: a graph that was made in a
mode may be walked when it has closed.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Hashable, Sequence
from typing import Any

from ..dispatch.frames import top
from ..frameworks.autocast import grad_tracer
from ..frameworks.torch_state import close_modes, kept_grad_mode, open_modes, undisturbed
from ..frameworks.versions import PaddleTensor
from ..interrupts import HERE, as_method, engine, finish
from ..patching.functions import AttributePatch
from ..patching.patcher import Patcher, Point
from ..tape import backward, hooks, islands, paddle_graph, twins
from ..tape.paddle_graph import LOCAL
from . import generators, optimizers
from .locate import attribute, awaiting, clean_c_op, holder, point, present


def _doors() -> list[Point]:
    paddle_graph.use(**{function: clean_c_op(name) for name, function in paddle_graph.C_OPS.items()})

    def engine_door(function: Callable[..., Any]) -> Callable[[Any], Callable[..., Any]]:
        def made(patch: Any) -> Callable[..., Any]:
            paddle_graph.use(**{function.__name__: patch.original})
            return undisturbed(kept_grad_mode(_settling(function)))

        return made

    functions = (backward.run_backward, backward.run_partial_grad)
    targets = {f"paddle.base.core.eager.{function.__name__}": engine_door(function) for function in functions}
    watched = {
        "_register_grad_hook": hooks.registering,
        "_remove_grad_hook": hooks.removing,
        "retain_grads": hooks.retaining,
        "_new_shared_tensor": _sharing,
        "_tensor_use_gpudnn": _sharing,
    }
    for name, make in watched.items():
        targets[f"paddle.Tensor.{name}"] = lambda patch, make=make: undisturbed(make(patch.original))  # type: ignore[misc]
    targets["paddle.base.core.EagerReducer.prepare_for_backward"] = lambda patch: undisturbed(
        backward.prepare_reducer(patch.original)
    )
    return [*present(*(point(target, hook) for target, hook in targets.items())), *_py_layers(), *generators.points()]


def _sharing(original: Callable[..., Any]) -> Callable[..., Any]:
    """What gives another Python object over the same tensor: ``_new_shared_tensor``; ``_tensor_use_gpudnn``, before pooling."""

    @functools.wraps(original)
    def hook(tensor: PaddleTensor, *args: Any) -> Any:
        return twins.share(tensor, original(tensor, *args))

    return hook


def _py_layers() -> list[Point]:
    """What Paddle's engine calls for a PyLayer, which runs code of the program (with recompute, whole blocks): as other hooks."""
    path = "paddle.autograd.py_layer.PyLayerBackward.backward"
    owner, name = holder(path)

    def look() -> AttributePatch | None:
        patch = attribute(owner, name, path)
        if patch is not None:
            patch.set_hook(as_method(islands.in_py_layer(patch.original)))
        return patch

    return [] if owner is None else [awaiting(path, look, owner, name)]


def _settling(original: Callable[..., Any]) -> Callable[..., Any]:
    """A backward; when Paddle's engine has returned, what waited for that is raised, and what compare mode keeps is judged.

    Paddle 3.3.1 leaves gradients switched off when an error leaves one of its engine's hooks (a Ctrl-C that falls between two lines
    of ours, a user's own hook): they are left as they were.
    """

    def hook(*args: Any, **kwargs: Any) -> Any:
        tracer, frame = grad_tracer(), top()
        recorded, engines = tracer._has_grad, HERE.engines
        session, turn, around, modes = LOCAL.session, LOCAL.turn, len(LOCAL.around), open_modes()
        pruned, HERE.prunes = HERE.prunes, original is backward.run_partial_grad
        try:
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
        finally:  # a Ctrl-C at the end of one of our own contexts leaves none of them open; no call, for none comes between
            HERE.engines, HERE.prunes, LOCAL.session, LOCAL.turn = engines, pruned, session, turn
            del LOCAL.around[around:]
            close_modes(modes)

    return hook


ENGINE = Patcher(_doors)


class WithEngine(Patcher):
    """A group of points that needs the engine's redirections, and leaves them behind for what is still on the tape."""

    def __init__(self, build: Callable[[], Sequence[Point]]) -> None:
        super().__init__(build)
        self._left: dict[Hashable, None] = {}  # users of the engine's redirections that have gone

    def acquire(self, user: Hashable) -> list[str]:
        """Install for one more user, who comes once; a remark on each place that is somebody else's."""
        twins.on_last_death(self._settle)
        try:
            return [*ENGINE.acquire(user), *optimizers.CLIPS.acquire(user), *super().acquire(user)]
        except BaseException:
            releases = (super().release, optimizers.CLIPS.release, ENGINE.release)
            finish([functools.partial(release, user) for release in releases])
            raise

    def release(self, user: Hashable) -> list[str]:
        """One user less; the engine's redirections stay while tensors are on the tape."""
        try:
            return [*super().release(user), *optimizers.CLIPS.release(user)]
        finally:
            self._left[user] = None
            self._settle()

    def _settle(self) -> None:
        """From wherever the last tensor dies: in any thread, in the middle of anything."""
        while self._left and not twins.alive():
            for user in list(self._left):
                if not ENGINE.release_unless_busy(user):
                    return
                self._left.pop(user, None)
