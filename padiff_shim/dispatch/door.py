"""One entry point of one op: what it is redirected to, and what is known of its calls before any of them is made."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from ..frameworks.surroundings import autocasting, dispatch_modes, function_modes, inference, put_aside
from ..signals import let_pass
from ..table.op import Entry, Op
from ..table.reasons import DRAWN, FILTERED, MIXED, NOT_DRAWN, OUTSIDE_LAYERS, PARTS, RANDOM, WHOLE, StayNative
from ..table.signature import REFUSALS, binder, present, refused
from . import site
from .dtypes import DtypeRules, ask
from .frames import PAUSE, Frame, passed_by, stand, standing, top


def gate(frame: Frame, name: str) -> None:
    """The filters of the mode: StayNative for what it leaves out."""
    if frame.aside:
        raise StayNative(frame.aside)
    if name not in frame.enabled:
        raise StayNative(FILTERED)
    if frame.layers is not None and not frame.layers.accepts(site.layer_path()):
        raise StayNative(OUTSIDE_LAYERS)


def answered(op: Op, original: Callable[..., Any]) -> str:
    """The op's parameters, in which those that the installed Paddle has to be asked for have its answer as default."""
    told = ask(op.asked, original)
    words = [word for word in op.params.split() if word.partition("=")[0] not in told]
    return " ".join([*words, *(f"{name}={value!r}" for name, value in told.items())])


class Door:
    """An entry point; :meth:`hook` is what it is redirected to."""

    def __init__(self, op: Op, entry: Entry, original: Callable[..., Any], *, python: bool = False) -> None:
        if python:
            entry = replace(entry, params=present(entry.params, original))
        if op.asked:
            op = replace(op, params=answered(op, original))
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
        self.reads: dict[Any, Any] = {}  # what backwards read, as far as it was learnt: see gradients/saved.py
        self.substitution: Any = None  # what the plan of substitution makes of it, when it first needs it

    @functools.cached_property
    def torchs(self) -> Door:
        """The same door with Torch's own definition of the op behind it, where that is another."""
        op = self.op
        if op.definition is None:
            return self
        defined = replace(op, reference=op.definition, definition=None, differs=op.remains, remains=None, asked={})
        return Door(defined, self.entry, self.original, python=self.python)

    @functools.cached_property
    def of_complex(self) -> Door:
        """The same door for complex operands, which its op is not declared to take."""
        return Door(replace(self.op, complex=True), self.entry, self.original, python=self.python)

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
            if function_modes() or dispatch_modes() or inference() or autocasting():  # disturbed(), without its call
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
