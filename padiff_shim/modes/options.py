"""The options of each mode, once: calls, the command line, the environment, settings files and pytest all come down to these.

The functions that a user calls (``reference``, ``compare``) have the same names and defaults in their signatures; a test holds them
to it.
"""

from __future__ import annotations

from dataclasses import Field, dataclass, field, fields
from pathlib import PurePath
from typing import Any

from ..verdicts import Verdict
from . import kinds
from .kinds import Kind

LAYOUTS = ("contiguous", "copy", "view")  # what linear_layout= may be
WHOSE = ("paddle", "torch")  # whose random numbers, and whose definition of an optimizer or an op
CARRIES = ("native", "torch")
ACTIONS = ("log", "warn", "raise")  # what on_mismatch= may be
LOG_ERRORS = ("warn", "raise")


def _of(kind: Kind, help: str) -> dict[str, Any]:
    return {"kind": kind, "help": help}


@dataclass(frozen=True)
class Options:
    """What all modes can be told. Values are checked and made uniform when an object is made.

    Raises:
        ArgumentError: a value is not accepted. Names of ops are looked up when a mode is made of the options, as they need Torch.
    """

    backend: str = field(default="torch", metadata=_of(kinds.ANYTHING, "Whose kernels; torch."))
    ops: Any = field(default=None, metadata=_of(kinds.MAYBE_NAMES, "Only these ops or families."))
    exclude: Any = field(default=(), metadata=_of(kinds.NAMES, "Not these ops or families."))
    layers: Any = field(
        default=None, metadata=_of(kinds.LAYERS, "Only calls inside layers whose path matches, such as 'encoder.layers.*.linear1'.")
    )
    linear_layout: str = field(
        default="contiguous",
        metadata=_of(kinds.word(LAYOUTS), "How Torch gets a Linear's weight: in its own order, always by a copy, or as a view."),
    )
    all_threads: bool = field(default=False, metadata=_of(kinds.FLAG, "Also in threads that have no mode of their own."))
    log: Any = field(default=None, metadata=_of(kinds.PATH, "Folder of the log."))

    def __post_init__(self) -> None:
        for one in fields(self):
            object.__setattr__(self, one.name, kind_of(one).checked(one.name, getattr(self, one.name)))


@dataclass(frozen=True)
class ReferenceOptions(Options):
    """The options of :func:`padiff_shim.reference`."""

    strict: bool = field(default=False, metadata=_of(kinds.FLAG, "Raise at the first float op call that stays native."))
    optimizer: str = field(
        default="paddle", metadata=_of(kinds.word(WHOSE), "Whose definition of an optimizer's step, where they differ.")
    )
    random: str = field(
        default="paddle", metadata=_of(kinds.word(WHOSE), "Whose generator dropout, initializers and samplers draw from.")
    )
    definitions: Any = field(
        default="paddle",
        metadata=_of(kinds.NAMES, "Whose definition where one name means two things: paddle, torch, or ops in Torch's."),
    )
    kernels: str = field(
        default="torch",
        metadata=_of(kinds.word(WHOSE), "What answers where Paddle has no kernel: torch's, or its own error."),
    )
    profile: bool = field(default=False, metadata=_of(kinds.FLAG, "Note the layer, line and time of every call, for the page."))


@dataclass(frozen=True)
class CompareOptions(Options):
    """The options of :func:`padiff_shim.compare`."""

    steps: Any = field(default=None, metadata=_of(kinds.STEPS, "In these steps only: 3, 10:20, 0:100:10 or 0,5,9."))
    ranks: Any = field(default=None, metadata=_of(kinds.RANKS, "In processes of these ranks only: 0, 0:2 or 0,3."))
    every: int | None = field(default=None, metadata=_of(kinds.COUNT, "Each n-th call of a kind: op, shapes and dtypes."))
    first: int | None = field(default=None, metadata=_of(kinds.COUNT, "The first ones of a kind, then with probability first / n."))
    budget: str | float | None = field(
        default=None, metadata=_of(kinds.BUDGET, "Time that comparing may take: 10% or 0.1 of the native time.")
    )
    carry: str = field(default="native", metadata=_of(kinds.word(CARRIES), "Whose results the program goes on with."))
    on_mismatch: str = field(default="log", metadata=_of(kinds.word(ACTIONS), "What a verdict from mismatch_from up leads to."))
    mismatch_from: str = field(
        default=str(Verdict.LOW_ACCURACY), metadata=_of(kinds.word(Verdict), "From which verdict on_mismatch acts.")
    )
    callback: Any = field(default=None, metadata=_of(kinds.function("one record"), "Called with the record of each such verdict."))
    on_log_error: str = field(default="warn", metadata=_of(kinds.word(LOG_ERRORS), "When the log cannot be written."))
    known_differences: Any = field(default=None, metadata=_of(kinds.PATH, "A file of known differences, to name or mute them."))
    audit: int = field(default=16, metadata=_of(kinds.whole(), "One in so many equal results of a place is checked, too; 0: none."))
    screening: bool | None = field(
        default=None, metadata=_of(kinds.MAYBE, "Do not judge again what was rounding at its place; default with a budget.")
    )
    keep_inputs: int = field(default=8, metadata=_of(kinds.whole(), "Save the operands of so many serious calls, for repro."))
    exact: bool = field(default=True, metadata=_of(kinds.FLAG, "Compare ops that move or choose values, too."))
    shadow: bool = field(default=False, metadata=_of(kinds.FLAG, "Tell incoming from local error; costs a second forward pass."))
    defer: bool | None = field(
        default=None, metadata=_of(kinds.MAYBE, "Judge when a backward, a step or the mode ends; default on CUDA.")
    )
    progress: bool = field(default=True, metadata=_of(kinds.FLAG, "A live line on long runs, on terminals."))
    seed: int = field(default=0, metadata=_of(kinds.whole(), "Of the sample of outputs that are checked."))


def kind_of(option: Field[Any]) -> Kind:
    """The kind of an option's values."""
    kind: Kind = option.metadata["kind"]
    return kind


def textual(mode: type[Options]) -> dict[str, Field[Any]]:
    """The options of a mode that can be given as text, by name."""
    return {one.name: one for one in fields(mode) if kind_of(one).textual}


def as_data(value: Any) -> Any:
    """A value of an option as JSON holds it, for another process that opens the same mode (:func:`from_data`)."""
    if isinstance(value, slice):
        return {"slice": [value.start, value.stop, value.step]}
    if isinstance(value, range):
        return {"range": [value.start, value.stop, value.step]}
    if isinstance(value, (list, tuple)):
        return [as_data(one) for one in value]
    return str(value) if isinstance(value, PurePath) else value


def from_data(data: Any) -> Any:
    """The value that :func:`as_data` was given."""
    if isinstance(data, dict):
        ((name, numbers),) = data.items()
        return {"slice": slice, "range": range}[name](*numbers)
    return [from_data(one) for one in data] if isinstance(data, list) else data


MODES: dict[str, type[Options]] = {"reference": ReferenceOptions, "compare": CompareOptions}
