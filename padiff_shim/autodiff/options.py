"""What a call of :func:`padiff_shim.auto_diff` may be told, under the words of all published versions of PaDiff."""

from __future__ import annotations

import math
import numbers
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any

from ..arguments import flag, one_of, path, whole
from ..errors import ArgumentError, described, unknown

MODES = ("strict", "mean", "abs_mean")
PHASES = ("both", "forward", "backward")
KERNELS = ("native", "torch")
# Words of one meaning: those of older versions, and ours.
ALIASES = {
    "auto_weights": "auto_init",
    "example_inp": "inputs",
    "inp": "inputs",
    "loss_fn": "loss_fns",
    "optimizer": "optimizers",
    "layer_mapping": "layer_map",
}
# What PaDiff's own functions leave in an options dict. They say what the arguments say, or open a debugger.
LEFT_BEHIND = ("use_loss", "use_opt", "opt_type", "debug", "cmd")
PUBLISHED_ATOL, PUBLISHED_RTOL = 0.0, 1e-7


@dataclass(frozen=True)
class Options:
    """The options of a call; see :func:`padiff_shim.auto_diff`. ``notes``: what was changed because it could not be had."""

    auto_init: bool = True
    atol: float = PUBLISHED_ATOL
    rtol: float = PUBLISHED_RTOL
    compare_mode: str = "strict"
    diff_phase: str = "both"
    single_step: bool = False
    steps: int = 1
    kernels: str = "native"
    explain: bool = True
    report_dir: str | None = "padiff_log"
    seed: int = 0
    tolerance_given: bool = False
    notes: tuple[str, ...] = field(default=())

    def __str__(self) -> str:
        shown = [one.name for one in fields(self) if one.name not in ("tolerance_given", "notes")]
        return "{\n" + "".join(f"  {name}: `{getattr(self, name)}`\n" for name in shown) + "}"


NAMES = tuple(one.name for one in fields(Options) if one.name not in ("tolerance_given", "notes"))


def collected(keywords: Mapping[str, Any], options: Any, accepted: Iterable[str]) -> dict[str, Any]:
    """Keywords and the entries of ``options=`` under their newest names.

    Raises:
        UnknownNameError: a word that no version knows.
        ArgumentError: one thing said twice, or ``options=`` is no dict.
    """
    if options is None:
        options = {}
    if not isinstance(options, Mapping):
        raise ArgumentError(f"options= is a dict, got {described(options)}")
    found: dict[str, Any] = {}
    words = [*accepted, *NAMES]
    for given in (keywords, options):
        for word, value in given.items():
            name = ALIASES.get(word, word)
            if name in LEFT_BEHIND:
                continue
            if name not in words:
                raise unknown("argument of auto_diff", word, [*words, *ALIASES])
            if name in found:
                raise ArgumentError(f"auto_diff: {word}= is given twice" + (f" ({name}=)" if name != word else ""))
            found[name] = value
    return found


def check_left_behind(given: Mapping[str, Any], *, loss: bool, optimizers: bool) -> None:
    """The words that PaDiff sets itself must say what is so.

    Raises:
        ArgumentError: they do not, or ask for a debugger.
    """
    for word, have, what in (("use_loss", loss, "loss_fn="), ("use_opt", optimizers, "optimizer=")):
        if given.get(word) and not have:
            raise ArgumentError(f"{word}=True without {what}")
    for word in ("debug", "cmd"):
        if given.get(word):
            raise ArgumentError(f"{word}=True opened a debugger; the report folder (report_dir=) holds what it showed")


def options_of(given: dict[str, Any], *, optimizers: bool, alike: bool) -> Options:
    """The options of a call, checked.

    Args:
        given: by newest names.
        optimizers: whether the models are trained.
        alike: whether both models are of one framework.

    Raises:
        ArgumentError: a value of a kind that is not accepted.
    """
    tolerance = any(given.get(name) is not None for name in ("atol", "rtol"))
    kernels = given.get("kernels")
    kernels = one_of("kernels", kernels, KERNELS) if kernels is not None else "native" if tolerance or alike else "torch"
    folder = given.get("report_dir", Options.report_dir)
    options = Options(
        auto_init=_flag(given, "auto_init"),
        atol=_bound(given, "atol"),
        rtol=_bound(given, "rtol"),
        compare_mode=one_of("compare_mode", given.get("compare_mode", Options.compare_mode), MODES),
        diff_phase=one_of("diff_phase", given.get("diff_phase", Options.diff_phase), PHASES),
        single_step=_flag(given, "single_step"),
        steps=whole("steps", given.get("steps", 1), 1),
        kernels=kernels,
        explain=_flag(given, "explain"),
        report_dir=None if folder is None else str(path("report_dir", folder)),
        seed=whole("seed", given.get("seed", 0)),
        tolerance_given=tolerance,
    )
    return _possible(options, optimizers)


def _possible(options: Options, optimizers: bool) -> Options:
    """What PaDiff changes, too, and says."""
    notes = []
    if options.diff_phase == "backward" and not options.single_step:
        options = replace(options, diff_phase="both")
        notes.append("diff_phase `backward` needs single_step: set to `both`")
    if options.diff_phase == "forward" and optimizers:
        notes.append("diff_phase is `forward`: the optimizers are not used")
    if options.steps > 1 and (options.diff_phase == "forward" or not optimizers):
        options = replace(options, steps=1)
        notes.append("steps is set to 1: without optimizers and a backward every step is the same")
    return replace(options, notes=tuple(notes))


def _flag(given: dict[str, Any], name: str) -> bool:
    return flag(name, given.get(name, getattr(Options, name)))


def _bound(given: dict[str, Any], name: str) -> float:
    value = given.get(name)
    if value is None:
        return float(getattr(Options, name))
    if isinstance(value, bool) or not isinstance(value, numbers.Real) or not 0 <= float(value) < math.inf:
        raise ArgumentError(f"{name}= is a number from 0 on, got {described(value)}")
    return float(value)
