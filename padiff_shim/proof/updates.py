"""How both models are trained: their optimizers' settings in Torch's words, and what each step shows."""

from __future__ import annotations

import collections
import contextlib
import functools
import inspect
import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import paddle
import torch

from ..arguments import needed
from ..dispatch.call_site import CallSite, call_site
from ..dispatch.dtypes import HALF_NAMES
from ..errors import ArgumentError, described
from ..frameworks.memory import PADDLE_DTYPES, TORCH_DTYPES
from ..frameworks.optimizer_states import OF_PADDLE, OF_TORCH, paddles_states, torchs_states
from ..runlog.optimizer_settings import PADDLES_KINDS, Settings
from ..text import joined, marked, tr
from ..trees import as_array
from .trace import Model, Optimizer


class OptimizerCall(NamedTuple):
    """An optimizer of ``paddle.optimizer``: the class's name, and its options."""

    name: str
    options: dict[str, Any]

    def __str__(self) -> str:
        options = "".join(f", {word}={value!r}" for word, value in self.options.items())
        return f"paddle.optimizer.{self.name}(parameters=model.parameters(){options})"

    def __call__(self, model: Model) -> Optimizer:
        return getattr(paddle.optimizer, self.name)(parameters=model.parameters(), **self.options)


def same_in_paddle(settings: Settings) -> OptimizerCall | None:
    """Paddle's optimizer with these settings; None if it has none, or they are not known."""
    if not settings:
        return None
    wanted = {"Adam": "AdamW" if settings.get("decoupled") else "Adam", "SGD": "Momentum" if "momentum" in settings else "SGD"}
    name = wanted.get(settings["optimizer"]) or next(
        (name for name, kind in PADDLES_KINDS.items() if kind.name == settings["optimizer"]), ""
    )
    kind = PADDLES_KINDS.get(name)
    words = set(settings) - {"optimizer", "decoupled", "lr", "weight_decay"}
    if kind is None or not words <= set(kind.settings):
        return None
    options = {kind.settings[word]: settings[word] for word in kind.settings if word in words}
    return OptimizerCall(name, {"learning_rate": settings["lr"], **options, "weight_decay": float(settings["weight_decay"])})


Arrays = Mapping[str, np.ndarray[Any, Any]]
States = dict[str, dict[str, np.ndarray[Any, Any]]]  # what optimizers keep: name of the state -> by the parameters' names
_ACCEPTED = marked(
    "optimizer= is a function of 'paddle' or 'torch' and the model, a pair of functions of the model (Paddle's, Torch's), or the "
    "name of an optimizer. A function returns an optimizer, (optimizer, schedule), or a function without arguments that does what "
    "the loop does after each backward"
)


BY_GLOBAL_NORM, BY_NORM, BY_VALUE = tr("their global norm"), tr("the norm of each"), tr("their values")
_CLIPPERS = {BY_GLOBAL_NORM: "ClipGradByGlobalNorm", BY_NORM: "ClipGradByNorm", BY_VALUE: "ClipGradByValue"}


class Clip(NamedTuple):
    """How gradients were clipped: by what, to which limit, and the limit's precision as a share of it.

    ``norm``: the global norm before it, where both were measured; 0 where it is not known.
    """

    by: str
    limit: float
    within: float = 1e-3
    norm: float = 0.0

    @property
    def added(self) -> float | None:
        """What was added to the norm by which the limit was divided; None where it is not known."""
        return self.norm * (float(self.shown) / self.limit - 1) if self.norm else None

    @property
    def factor(self) -> str:
        """What gradients were multiplied by, with the digits that float64 shows."""
        added = self.added or 0.0
        return f"{self.shown} / norm" if abs(added) < 1e-12 * self.norm else f"{self.shown} / (norm + {added:.3g})"

    @property
    def shown(self) -> str:
        """The limit, with its known digits."""
        return f"{self.limit:.4g}" if self.within <= 1e-3 else f"{self.limit:.2g}"

    @property
    def write(self) -> str:
        """What a Paddle program writes for it."""
        return tr("write grad_clip=paddle.nn.{clippers}({shown})", clippers=_CLIPPERS[self.by], shown=self.shown)


@dataclass
class StepUpdate:
    """What one step of a training shows.

    Attributes:
        settings: of each parameter.
        clip: how gradients shrank between the backward and the step, be it clipped or taken off a scale; None: they did not.
        scale: of the loss, that scalers take off gradients; ``moved``: whether another one when the step is made.
        left: parameters whose gradients stay behind the step.
        steps: how many steps an optimizer made, of several the most; None where none is known.
        site: the line that made the last of them.
        infinite: parameters whose gradients held inf or NaN before it.
        masters: whether weights of 16 bits are updated by copies in float32; None where there are no such weights.
    """

    settings: dict[str, Settings] = field(default_factory=dict)
    clip: Clip | None = None
    scale: float = 1.0
    moved: bool = False
    left: list[str] = field(default_factory=list)
    steps: int | None = None
    site: CallSite | None = None
    infinite: list[str] = field(default_factory=list)
    masters: bool | None = None


class Trainer:
    """Makes the steps of one model, with what the recipe's function returned."""

    def __init__(self, framework: str, made: Any) -> None:
        self._made, self._of_paddle = made, framework == "paddle"
        kind = paddle.optimizer.Optimizer if self._of_paddle else torch.optim.Optimizer
        self._optimizers, self._scalers = (
            list({id(member): member for member in _found(made, wanted)}.values())
            for wanted in (kind, paddle.amp.AmpScaler if self._of_paddle else torch.amp.GradScaler)
        )
        takes_arguments = callable(made) and not self._is_plain() and bool(needed(made))
        if takes_arguments or not (callable(made) or self._optimizers):
            raise ArgumentError(
                "{accepted}; for {framework} it returned {made}",
                accepted=tr(_ACCEPTED),
                framework=framework.title(),
                made=tr("a function of arguments") if takes_arguments else described(made),
            )

    def step(self, parameters: Mapping[str, Any], gradients: Arrays) -> StepUpdate:
        """One step; ``gradients`` are those of the backward."""
        update, steps = StepUpdate(steps=0 if self._optimizers else None, scale=self._scale()), collections.Counter[int]()
        names = {id(parameter): name for name, parameter in parameters.items()}

        def look(optimizer: Optimizer) -> None:
            steps[id(optimizer)] += 1
            update.steps, update.site = max(steps.values()), call_site(Trainer.make_step.__code__)
            update.moved = self._scale() != update.scale
            if any(str(parameter.dtype).rpartition(".")[2] in HALF_NAMES for parameter in parameters.values()):
                weights = [] if self._of_paddle else [weight for group in optimizer.param_groups for weight in group["params"]]
                masters = getattr(optimizer, "_multi_precision", False)  # a Torch program makes such copies by itself
                update.masters = bool(masters) if self._of_paddle else all(weight.dtype is torch.float32 for weight in weights)
            reader = OF_PADDLE if self._of_paddle else OF_TORCH
            for group in reader.groups(optimizer):
                members = [names[id(parameter)] for parameter in group[1] if id(parameter) in names]
                update.settings.update(dict.fromkeys(members, reader.settings(optimizer, group)))
            now = {name: as_array(parameters[name].grad) for name in gradients if parameters[name].grad is not None}
            update.infinite += [name for name, gradient in now.items() if not np.isfinite(gradient).all()]
            unit = max((_unit(parameters[name].grad) for name in now), default=0.0)
            update.clip = _by_hand(gradients, now, unit) or (
                _declared(optimizer._grad_clip, gradients) if self._of_paddle else None
            )

        undo = [self._watched(optimizer, look) for optimizer in self._optimizers]
        try:
            self.make_step()
        finally:
            for take_back in undo:
                take_back()
        return update

    def states(self, parameters: Mapping[str, Any]) -> States:
        """Name of a state -> what the optimizers keep, by the parameters' names."""
        names = {id(parameter): name for name, parameter in parameters.items()}
        tables: States = {}
        for optimizer in self._optimizers:
            for parameter, state, tensor in (paddles_states if self._of_paddle else torchs_states)(optimizer):
                if id(parameter) in names and list(tensor.shape) == list(parameter.shape):
                    tables.setdefault(state, {})[names[id(parameter)]] = as_array(tensor)
        return tables

    def _scale(self) -> float:
        """By what the recipe's scalers divide gradients."""
        if self._of_paddle:
            return math.prod(scaler._scale.item() for scaler in self._scalers if scaler._enable)
        return math.prod(scaler.get_scale() for scaler in self._scalers)

    def make_step(self) -> None:
        """One step, with nobody looking on."""
        if not self._is_plain():
            owner: Any = getattr(self._made, "__self__", None)
            if any(owner is optimizer for optimizer in self._optimizers) and self._made.__name__ == "step":
                owner.step()  # the very step of an optimizer, whose name is watched
            else:
                self._made()
            return
        parts = self._made if isinstance(self._made, tuple) else (self._made,)
        for part in parts:
            part.step()
        for optimizer in self._optimizers:
            optimizer.clear_grad() if self._of_paddle else optimizer.zero_grad()

    def _is_plain(self) -> bool:
        """Whether it is an optimizer, or an optimizer with its schedule, not a function."""
        return isinstance(self._made, tuple) or (not inspect.isroutine(self._made) and hasattr(self._made, "step"))

    def _watched(self, optimizer: Optimizer, look: Callable[[Any], None]) -> Callable[[], None]:
        """Call ``look`` before each step of the optimizer, until the returned function is called."""
        if not self._of_paddle:
            remove: Callable[[], None] = optimizer.register_step_pre_hook(lambda *_: look(optimizer)).remove
            return remove
        step = optimizer.step

        def looked(*args: Any, **kwargs: Any) -> Any:
            look(optimizer)
            return step(*args, **kwargs)

        optimizer.step = looked
        return lambda: optimizer.__dict__.pop("step", None)


@contextlib.contextmanager
def unscaling_float64() -> Iterator[None]:
    """Within it Paddle's scalers take the scale off gradients of float64, too: natively they leave these as they are."""
    scaler: Any = paddle.amp.AmpScaler
    native = scaler._unscale

    def unscale(self: Any, optimizer: Optimizer) -> None:
        native(self, optimizer)
        if self._enable and not isinstance(optimizer._param_groups[0], dict):
            for parameter in optimizer._param_groups:
                if parameter.grad is not None and parameter.grad.dtype == PADDLE_DTYPES["float64"]:
                    parameter.grad.set_value(parameter.grad * (1.0 / self._scale.item()))

    scaler._unscale = unscale
    try:
        yield
    finally:
        scaler._unscale = native


def _found(made: Any, kind: type, depth: int = 4) -> list[Any]:
    """Optimizers (or scalers) that a recipe's function returned, or that its result refers to."""
    if isinstance(made, kind):
        return [made]
    inner: list[Any] = []
    if isinstance(made, (tuple, list, dict)):
        inner = list(made.values() if isinstance(made, dict) else made)
    elif depth:
        function = getattr(made, "__func__", made)
        cells = [cell.cell_contents for cell in getattr(function, "__closure__", None) or () if _is_filled(cell)]
        owner = getattr(made, "__self__", None)
        held = [*getattr(made, "__dict__", {}).values(), *getattr(owner, "__dict__", {}).values()]
        inner = [owner, *cells, *held, *getattr(made, "args", ())]
        inner = [part_ for part_ in inner if isinstance(part_, (kind, tuple, list, dict)) or callable(part_)]
    return [optimizer for part in inner for optimizer in _found(part, kind, depth - 1)] if depth else []


def _is_filled(cell: Any) -> bool:
    try:
        return cell.cell_contents is not None
    except ValueError:
        return False


def _norm(gradient: np.ndarray[Any, Any]) -> float:
    values = gradient.ravel(order="K")
    norm = float(np.sqrt(np.dot(values, values)))
    return norm if 0.0 < norm < np.inf else float(np.linalg.norm(values.astype(np.float64)))  # squares leave float32's range


def _unit(gradient: Any) -> float:
    """The distance of 1 from the next number, in a gradient's dtype."""
    return float(torch.finfo(TORCH_DTYPES[str(gradient.dtype).rpartition(".")[2]]).eps)


def _by_hand(before: Arrays, now: Arrays, unit: float) -> Clip | None:
    """How gradients shrank between the backward and the step; ``unit``: of their dtype."""
    norms = {name: _norm(gradient) for name, gradient in now.items()}
    whole = {name: _norm(before[name]) for name in norms}
    shares = {name: norm / whole[name] for name, norm in norms.items() if whole[name] > 0.0}
    clipped = [name for name, share in shares.items() if 0 < share < 1 - max(1e-5, unit)]  # what is set to zero is not clipped
    if not clipped:
        return None
    near = max(1e-3, 2 * unit)
    if any(not np.allclose(now[name], before[name] * shares[name], near, 1e-2 * near * norms[name]) for name in clipped):
        return Clip(BY_VALUE, max(float(np.abs(now[name]).max()) for name in clipped), near)
    if max(shares.values()) - min(shares.values()) < 0.1 * near:
        reached, before_it = (float(np.sqrt(sum(norm**2 for norm in each.values()))) for each in (norms, whole))
        return Clip(BY_GLOBAL_NORM, reached, near, before_it)
    return Clip(BY_NORM, max(norms[name] for name in clipped), near)


def _declared(clip: Any, before: Arrays) -> Clip | None:
    """What Paddle's optimizer will do to gradients, if it does anything."""
    if isinstance(clip, paddle.nn.ClipGradByGlobalNorm):
        total = float(np.sqrt(sum(_norm(gradient) ** 2 for gradient in before.values())))
        return Clip(BY_GLOBAL_NORM, clip.clip_norm) if total > clip.clip_norm else None
    if isinstance(clip, paddle.nn.ClipGradByNorm):
        return Clip(BY_NORM, clip.clip_norm) if any(_norm(gradient) > clip.clip_norm for gradient in before.values()) else None
    if isinstance(clip, paddle.nn.ClipGradByValue):
        beyond = any(np.abs(gradient).max(initial=0) > clip.max for gradient in before.values())
        return Clip(BY_VALUE, clip.max) if beyond else None
    return None


@dataclass(frozen=True)
class Recipe:
    """Makes the optimizers of both models; ``places``: the caller's functions that do, Torch's and Paddle's."""

    torch: Callable[[Any], Any]
    paddle: Callable[[Any], Any]
    places: tuple[Any, Any] = (None, None)

    @classmethod
    def of(cls, optimizer: Optimizer) -> Recipe:
        """The recipe for ``optimizer=``.

        Raises:
            ArgumentError: it is not accepted.
        """
        if isinstance(optimizer, str):
            return cls(*_named(optimizer))
        if isinstance(optimizer, tuple) and len(optimizer) == 2 and all(map(callable, optimizer)):
            return cls(optimizer[1], optimizer[0], (optimizer[1], optimizer[0]))
        if optimizer is None or not callable(optimizer):
            raise ArgumentError("{accepted}, got {optimizer}", accepted=tr(_ACCEPTED), optimizer=described(optimizer))
        return cls(lambda model: optimizer("torch", model), lambda model: optimizer("paddle", model), (optimizer, optimizer))

    def trainer(self, framework: str, model: Model) -> Trainer:
        """The optimizer of one model, made anew."""
        return Trainer(framework, (self.torch if framework == "torch" else self.paddle)(model))


_RATE = 1e-3


def _named(name: str) -> tuple[Callable[[Any], Any], Callable[[Any], Any]]:
    """Functions for an optimizer's name: Torch's numbers on both sides, the learning rate 1e-3."""
    kind = PADDLES_KINDS.get(name)
    if kind is None or not hasattr(paddle.optimizer, name):
        raise ArgumentError(
            "optimizer={name} is none of the names {names}. {accepted}",
            name=repr(name),
            names=joined(", ", PADDLES_KINDS),
            accepted=tr(_ACCEPTED),
        )
    make = functools.partial(getattr(torch.optim, kind.name), lr=_RATE, **({"momentum": 0.9} if name == "Momentum" else {}))
    example = make([torch.nn.Parameter(torch.zeros(1))])
    twin: Any = same_in_paddle(OF_TORCH.settings(example, OF_TORCH.groups(example)[0]))
    return lambda model: make(model.parameters()), twin
