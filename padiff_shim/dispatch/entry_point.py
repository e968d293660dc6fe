"""One entry point of one op, how its arguments are spelled, and the plan that answers its calls."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Protocol

import paddle

from ..frameworks.torch_state import autocasting, dispatch_modes, dispatch_stack, function_modes, inference, put_aside
from ..frameworks.versions import AXES_IN_LISTS, leads_here
from ..interrupts import let_pass
from ..table import signature
from ..table.op import Entry, Op, Sample
from ..table.reasons import DRAWN, FILTERED, MIXED, NOT_DRAWN, OUTSIDE_LAYERS, PARTS, RANDOM, WHOLE, Reason, StayNative
from ..table.signature import REFUSALS, binder, present as present_params, refused
from . import call_site
from .dtypes import DtypeRules, probe
from .frames import PAUSE, Frame, passed_by, stand, standing, top


def located(entry: Entry) -> Any:
    """The function or descriptor behind an entry now, or None if this Paddle does not have it."""
    return functools.reduce(lambda owner, part: getattr(owner, part, None), entry.target.split(".")[1:], paddle)


def present_entry(entry: Entry) -> Entry | None:
    """The entry with the parameters that the installed Paddle's function has; None if there is no such function."""
    function = located(entry) if leads_here(entry) else None
    if inspect.isfunction(function) and ".Tensor." not in entry.target:
        return replace(entry, params=signature.present(entry.params, function))
    return entry if function is not None else None


def spelled(entry: Entry, arguments: Mapping[str, Any], chosen: Iterable[str] = ()) -> list[Any]:
    """The arguments as this entry point takes them: by position, or in the legacy form with the names of attributes.

    ``chosen``: the names of attributes that are not the op's defaults; for others the entry point has its own.
    """
    chosen = frozenset(chosen)
    parsed = signature.parse(entry.params)
    if entry.pairs is None:
        own = {aliases[0]: default for aliases, default in parsed if default is not signature.REQUIRED}
        names = [aliases[0] for aliases, _ in parsed]
        values = {name: own[name] if name in own and name not in chosen else arguments[name] for name in names}
        if entry.target in AXES_IN_LISTS and not isinstance(values["axis"], list):
            values["axis"] = [] if values["axis"] is None else [values["axis"]]
        return list(values.values())
    args = [arguments[aliases[0]] for aliases, _ in parsed[: entry.pairs]]
    for aliases, _ in parsed[entry.pairs :]:
        name, value = aliases[-1], arguments.get(aliases[0])
        if name == "reduce_all":
            value = not isinstance(arguments["axis"], int) and not arguments["axis"]
        elif aliases[0] == "axis" and isinstance(value, int) and "reduce_all" in entry.params:
            value = [value]
        if value is not None:
            args += [name, value]
    return args


def takes(op: Op, entry: Entry, sample: Sample) -> bool:
    """Whether a sample can be spelled at this entry point: what that does not take, the sample leaves out."""
    if entry.arrange is not None:
        return False
    known = {aliases[0] for aliases, _ in signature.parse(entry.params)} | ({"axis"} if "reduce_all" in entry.params else set())
    defaults = {aliases[0]: default for aliases, default in signature.parse(op.params)}
    operands = {} if op.operands else {name: value for name, value in zip(op.names, sample.operands) if value is not None}
    return all(name in known or value == defaults[name] for name, value in {**operands, **sample.attrs}.items())


def typed(value: Any, framework: Any) -> Any:
    """A sample's dtype, a word, as the framework's own."""
    words = ("float", "int", "bool", "bfloat")
    return getattr(framework, value) if isinstance(value, str) and value.startswith(words) else value


def called(op: Op, entry: Entry, sample: Sample, operands: list[Any]) -> Any:
    """What this entry point gives for a sample's attributes and these operands (Paddle tensors, numbers, None)."""
    arguments = op.arguments(sample, operands)
    arguments = (*arguments[: op.leading], *(typed(value, paddle) for value in arguments[op.leading :]))
    result = located(entry)(*spelled(entry, dict(zip(op.names, arguments)), {*op.names[: op.leading], *sample.attrs}))
    return result[0] if entry.returns_list else result


# ---- One entry point of one op: what it is redirected to, and what is known of its calls before any of them is made.


def gate(frame: Frame, name: str) -> None:
    """The filters of the mode: StayNative for what it leaves out."""
    if frame.aside:
        raise StayNative(frame.aside)
    if name not in frame.enabled:
        raise StayNative(FILTERED)
    if frame.layers is not None and not frame.layers.accepts(call_site.layer_path()):
        raise StayNative(OUTSIDE_LAYERS)


def probed(op: Op, original: Callable[..., Any]) -> str:
    """The op's parameters, in which those that the installed Paddle has to be asked for have its answer as default."""
    answers = probe(op.probes, original)
    words = [word for word in op.params.split() if word.partition("=")[0] not in answers]
    return " ".join([*words, *(f"{name}={value!r}" for name, value in answers.items())])


class EntryPoint:
    """An entry point; :meth:`hook` is what it is redirected to."""

    def __init__(self, op: Op, entry: Entry, original: Callable[..., Any], *, python: bool = False) -> None:
        if python:
            entry = replace(entry, params=present_params(entry.params, original))
        if op.probes:
            op = replace(op, params=probed(op, original))
        self.op, self.entry, self.original, self.python = op, entry, original, python
        # Paddle leaves some calls with a result and an exception at once (`x - 10**400`): a partial notices it. Behind
        # `original(*args)` whatever runs next fails in its stead, the end of a `with` as well.
        checked = original if python else functools.partial(original)
        self.native = self._whole if python else checked  # Paddle's own call
        self.bind = binder(entry, op.params)
        self.names = op.names
        self.numbers = [self.names.index(name) for name in entry.numbers]
        self.transposed = self.names.index("weight") if op.layouts else None
        written = (*op.writes.values(), *op.overwrites)
        self.overwritten = [0] if entry.inplace else [self.names.index(name) for name in written]  # by Paddle's call
        self.rules = DtypeRules(op, checked, self.overwritten)
        # In Paddle's Python and old functions, whole numbers that want a gradient may put the result on the graph.
        self.without_integers = not python and entry.pairs is None
        self.dtype_at = self.names.index("dtype") if "dtype" in self.names else None
        self.reads: dict[Any, Any] = {}  # what backwards read, as far as it was learnt: see tape/calls.py
        self.substitution: Any = None  # what the plan of substitution makes of it, when it first needs it

    @functools.cached_property
    def torchs(self) -> EntryPoint:
        """The same entry point with Torch's own definition of the op, where that differs."""
        op = self.op
        if op.definition is None:
            return self
        formula, differs = op.definition
        defined = replace(op, reference=formula, definition=None, differs=differs, probes={})
        return EntryPoint(defined, self.entry, self.original, python=self.python)

    @functools.cached_property
    def of_complex(self) -> EntryPoint:
        """The same entry point for complex operands, which its op is not declared to take."""
        return EntryPoint(replace(self.op, complex=True), self.entry, self.original, python=self.python)

    def hook(self) -> Callable[..., Any]:
        """The redirected function: passes through unless a mode is open here, and else does what its plan says."""
        original, name, bind, exact, draws = self.original, self.op.name, self.bind, self.op.exact, self.op.random
        rests = getattr(bind, "rests", {})

        def hook(*args: Any, **kwargs: Any) -> Any:
            frame = top()
            if frame is None:
                if not exact:
                    passed_by()
                return original(*args, **kwargs)
            if frame.idle:
                return frame.plan.exact(name, original, args, kwargs) if exact else original(*args, **kwargs)
            # As disturbed(), without its call.
            if function_modes() or (dispatch_stack() and dispatch_modes()) or inference() or autocasting():
                with put_aside():
                    return hook(*args, **kwargs)
            try:
                quick = frame.quick.get(self)
                if quick is None or frame.layers is not None:
                    gate(frame, name)
                rest = None if kwargs else rests.get(len(args))  # the hot case: positional arguments, as the op has them
                values = bind(args, kwargs) if rest is None else args + rest
                if quick is not None:
                    result = quick(frame, values)
                    if result is not None:
                        return result
                if draws is not None:
                    self.permit(frame, draws(*values))
                return frame.plan.call(self, frame, values, args, kwargs)
            except StayNative as stays:
                why = stays.with_traceback(None)  # a traceback would hold this frame, and with it the operands
            # Not in there: what Paddle raises now is its answer to the program's call, and shows nothing of ours before it.
            if self.entry.seen_below or why.why is WHOLE or self.in_parts(why):
                return original(*args, **kwargs)
            return frame.plan.native(self, frame, why, args, kwargs)

        return functools.wraps(original)(hook) if self.python else hook

    def in_parts(self, why: StayNative) -> bool:
        """Whether the calls below are seen instead: each of these computes in the dtype of its own operands."""
        return why.why is PARTS or (self.entry.mixed_below and why.why is MIXED)

    def permit(self, frame: Frame, draws: bool) -> None:
        """Of an op that may draw random numbers: whether it may run on Torch's kernel here, and draw from Torch's generator."""
        if draws:
            if not frame.plan.draws:
                raise StayNative(RANDOM if self.op.tensors else DRAWN)
        elif self.entry.seen_below:
            raise StayNative(NOT_DRAWN)

    def _whole(self, *args: Any, **kwargs: Any) -> Any:
        before = standing()
        try:
            stand((*before, PAUSE))  # what the function calls inside is part of this call
            return self.original(*args, **kwargs)
        finally:
            stand(before)

    def tell(self, frame: Frame, arguments: Sequence[Any], advice: str = "") -> None:
        """Leaves a remark in the run where Torch's own definition of the op would give the formula's arguments another value."""
        try:
            remark = self.op.differs(*arguments) if self.op.differs else ""
        except (*REFUSALS, AttributeError) as error:  # arguments that Paddle is about to refuse
            let_pass(error)
            return
        if remark:
            frame.run.warn(f"{self.op.name}: {remark}{advice}")

    def torch(self, tensors: Sequence[Any], attributes: tuple[Any, ...], formula: Callable[..., Any] | None = None) -> Any:
        """The op's torch formula, or another one of its parameters; StayNative if torch refuses the arguments."""
        formula = formula or self.op.reference
        try:
            return formula(list(tensors), *attributes) if self.op.operands else formula(*tensors, *attributes)
        except REFUSALS as error:
            raise refused(error) from None


# ---- What a mode does with the calls that it sees: the one seam between entry points and modes.


class Plan(Protocol):
    """A mode's plan, which its frames hold. ``args`` and ``kwargs`` are always those of the call to Paddle's function."""

    on_tape: bool  # calls that want gradients are put on the tape
    tracks_layers: bool  # asks in which layer a call is made
    draws: bool  # random numbers come from Torch's generator
    lends: bool  # Torch's kernels answer calls for which Paddle has none
    autocasts: str  # whose casts automatic mixed precision makes on a CPU: "paddle", "torch", or "": it stays off there

    def call(
        self, entry_point: EntryPoint, frame: Frame, values: tuple[Any, ...], args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        """An op of the table, bound to the op's arguments. Raises StayNative where it has to run natively."""

    def native(self, entry_point: EntryPoint, frame: Frame, why: StayNative, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """An op of the table that stays native."""

    def unlisted(self, other: Unlisted, frame: Frame, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """An op that computes with floats and is not in the table."""

    def update(self, other: Unlisted, frame: Frame, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """An optimizer's update of a parameter, of a kind that is declared."""

    def optimizing(
        self, part: str, original: Callable[..., Any], frame: Frame, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        """A function in Python of Paddle's optimizers or clippers; ``part`` is its name, with its class."""

    def passed(self, other: Unlisted) -> None:
        """Such an op passed by while the frame stands idle."""

    def exact(self, name: str, original: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """An op that moves values and rounds nothing."""

    def moved(self, original: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any], result: Any) -> None:
        """A method in Python moved values."""

    def writes(self, name: str, frame: Frame, original: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """An op that moves values into one of its arguments."""

    def py_layer(self, name: str, original: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """``PyLayer.apply``."""

    def packing(self, frame: Frame, pack: Callable[[Any], Any], unpack: Callable[[Any], Any]) -> tuple[Any, Any]:
        """``saved_tensors_hooks`` are set: the pair that is to be."""

    def layer_begins(self, frame: Frame) -> None:
        """The outermost layer of a thread is about to run."""

    def layer_ends(self, frame: Frame, layer: Any, result: Any) -> None:
        """A layer has run, and is still the running one (asked only where layers are tracked)."""

    def backward_begins(self, frame: Frame) -> None:
        """Paddle's engine is about to run."""

    def backward_ends(self, frame: Frame) -> None:
        """Paddle's engine is about to return."""


class Unlisted:
    """A function of ``paddle._C_ops`` or ``paddle._legacy_C_ops`` that computes with floats and has no entry in the table."""

    __slots__ = ("name", "original", "path", "reason", "unwritten", "updates")

    def __init__(
        self,
        name: str,
        path: str,
        reason: Reason,
        original: Callable[..., Any],
        *,
        updates: bool,
        unwritten: frozenset[int] = frozenset(),
    ) -> None:
        self.name, self.path, self.reason, self.original = name, path, reason, original
        self.updates = updates  # an optimizer's step
        self.unwritten = unwritten  # places of results that the kernel may leave unwritten
