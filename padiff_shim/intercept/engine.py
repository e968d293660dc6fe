"""Interception of Paddle's engine, and of hooks on tensors: their calls are led to the tape.

Paddle's generators are with them. The redirections stay while a mode is open or a tensor is on the tape: a graph that was made in a
mode may be walked when it has closed.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Hashable, Sequence
from typing import Any

from ..dispatch.frames import top
from ..errors import ModeError
from ..frameworks import randomness
from ..frameworks.autocast import grad_tracer
from ..frameworks.torch_state import close_modes, kept_grad_mode, open_modes, undisturbed
from ..frameworks.versions import PaddleTensor
from ..interrupts import HERE, as_method, engine, engine_runs, finish
from ..language import logged
from ..patching.functions import AttributePatch
from ..patching.patcher import Patcher, Point
from ..tape import backward, hooks, islands, paddle_graph, twins
from ..tape.paddle_graph import LOCAL
from . import optimizers
from .locate import attribute, awaiting, calling, clean_c_op, holder, point, present


def _redirected() -> list[Point]:
    paddle_graph.use(**{function: clean_c_op(name) for name, function in paddle_graph.C_OPS.items()})

    def engine_function(function: Callable[..., Any]) -> Callable[[Any], Callable[..., Any]]:
        def made(patch: Any) -> Callable[..., Any]:
            paddle_graph.use(**{function.__name__: patch.original})
            return undisturbed(kept_grad_mode(_settling(function)))

        return made

    functions = (backward.run_backward, backward.run_partial_grad)
    targets = {f"paddle.base.core.eager.{function.__name__}": engine_function(function) for function in functions}
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
    return [*present(*(point(target, hook) for target, hook in targets.items())), *_py_layers(), *generator_points()]


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


ENGINE = Patcher(_redirected)


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


# ---- Generators: in a mode that draws from Torch's, what a program does to Paddle's is done to Torch's as well
# All of ``paddle.seed``, ``get_rng_state``, recompute and the tracker of tensor parallelism come down to their methods.

_Method = Callable[..., Any]
_OWNER = "paddle.base.core.Generator"
_UNKNOWN = logged(
    "a state of Paddle's generator was restored that was not saved in a mode with random='torch', or "
    "is a copy of such a state: Torch's generator begins at its seed"
)


def generator_points() -> list[Point]:
    """One point per method that this Paddle has."""
    hooks = {
        "manual_seed": _followed(lambda source, result, seed: source.manual_seed(seed)),
        "seed": _followed(lambda source, seed: source.manual_seed(seed)),
        "get_state": _followed(lambda source, state: randomness.keep(state, source)),
        "set_state": calling(_set_state),
        "register_state_index": calling(_register_state_index),
        "set_state_index": calling(_set_state_index),
    }
    return present(*(point(f"{_OWNER}.{name}", hook) for name, hook in hooks.items()))


def _source(generator: Any) -> Any:
    """Torch's generator that stands for this one here and now."""
    frame = top()
    return None if frame is None or not frame.plan.draws or frame.aside else randomness.counterpart(generator)


def _followed(act: Callable[..., Any]) -> Callable[[Any], _Method]:
    """Makes the hook of a method behind which ``act`` is called: with Torch's generator, what was returned, and the arguments."""

    def hook(original: _Method, generator: Any, *args: Any, **kwargs: Any) -> Any:
        result = original(generator, *args, **kwargs)
        source = _source(generator)
        if source is not None:
            act(source, result, *args, **kwargs)
        return result

    return calling(hook)


def _set_state(original: _Method, generator: Any, state: Any) -> Any:
    source = _source(generator)
    if engine_runs():
        _refuse_other_numbers(generator, source, state)
    result = original(generator, state)
    if source is not None:
        _follow(source, state)
    return result


def _refuse_other_numbers(generator: Any, source: Any, state: Any) -> None:
    """Raise where a replay would draw other numbers than its forward, and give wrong gradients."""
    stands = randomness.counterpart(generator)
    if stands is None or randomness.kept(state) is (source is not None):
        return
    if source is None and randomness.drawn_since(state, stands):
        raise _replayed("Torch", "Paddle")
    if source is not None and randomness.words(state) != randomness.words(generator.get_state()):
        raise _replayed("Paddle", "Torch")


def _replayed(first: str, now: str) -> ModeError:
    return ModeError(
        "this backward runs a forward again (recompute) that drew {first}'s numbers, where it would draw {now}'s numbers now: "
        "open the mode with random='torch' around both, or around neither",
        first=first,
        now=now,
    )


def _follow(source: Any, state: Any) -> None:
    """Put Torch's generator where it was when Paddle handed out this state."""
    frame = top()
    if frame is not None and not randomness.kept(state):
        frame.run.warn(_UNKNOWN)
    randomness.restore(state, source)


def _register_state_index(original: _Method, generator: Any, state: Any) -> Any:
    source, before = _source(generator), generator.get_state_index()
    result = original(generator, state)
    if source is not None:
        randomness.leave(source, before)
        _follow(source, state)
    return result


def _set_state_index(original: _Method, generator: Any, index: int) -> Any:
    source, before = _source(generator), generator.get_state_index()
    result = original(generator, index)
    if source is not None and index != before:
        randomness.leave(source, before)
        randomness.enter(source, index, generator.initial_seed())
    return result
