"""An optimizer's settings for a parameter, in Torch's words for both frameworks, and in what two of them differ."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

Settings = dict[
    str, Any
]  # "optimizer", "lr", "weight_decay" and those of the kind; of one that is not known its class and "lr" alone


class OptimizerKind(NamedTuple):
    """An optimizer of Paddle: Torch's name for it, and Torch's word for each setting -> Paddle's."""

    name: str
    settings: dict[str, str]


_BETAS = {"beta1": "beta1", "beta2": "beta2", "eps": "epsilon"}
PADDLES_KINDS = {
    "SGD": OptimizerKind("SGD", {}),
    "Momentum": OptimizerKind("SGD", {"momentum": "momentum", "nesterov": "use_nesterov"}),
    "Adam": OptimizerKind("Adam", {**_BETAS, "amsgrad": "amsgrad"}),
    "AdamW": OptimizerKind("AdamW", {**_BETAS, "amsgrad": "amsgrad"}),
    "Adamax": OptimizerKind("Adamax", _BETAS),
    "NAdam": OptimizerKind("NAdam", {**_BETAS, "momentum_decay": "momentum_decay"}),
    "RAdam": OptimizerKind("RAdam", _BETAS),
    "Adagrad": OptimizerKind("Adagrad", {"eps": "epsilon", "initial_accumulator_value": "initial_accumulator_value"}),
    "Adadelta": OptimizerKind("Adadelta", {"eps": "epsilon", "rho": "rho"}),
    "RMSProp": OptimizerKind("RMSprop", {"alpha": "rho", "eps": "epsilon", "momentum": "momentum", "centered": "centered"}),
}
TORCHS_KINDS = {kind.name for kind in PADDLES_KINDS.values()}
PADDLES_WORDS = {
    "weight_decay": "weight_decay",
    **{word: own for kind in PADDLES_KINDS.values() for word, own in kind.settings.items()},
}
# Values without effect: such a setting counts as absent.
USUAL = {
    "dampening": 0, "maximize": False, "lr_decay": 0, "momentum": 0, "nesterov": False, "decoupled_weight_decay": False,
    "amsgrad": False, "centered": False, "initial_accumulator_value": 0,
}  # fmt: skip
WORDS = {"lr", "weight_decay", *USUAL, *(word for kind in PADDLES_KINDS.values() for word in kind.settings)}
# How gradients are clipped, with the limit as value -> the class of Paddle's and the function of Torch's that does it.
CLIPS = {
    "clip_norm": ("ClipGradByGlobalNorm", "clip_grad_norm_"),
    "clip_each_norm": ("ClipGradByNorm", ""),
    "clip_value": ("ClipGradByValue", "clip_grad_value_"),
}
CLIP_WAYS = "clipping"  # of two that clip in two ways: (one of CLIPS, limit) each
CLIP_WORDS = (*CLIPS, CLIP_WAYS)
CLIP = "clip"  # of a program's own class, of whose limit nothing is known
BEGINS = "begins"  # the optimizer keeps nothing yet as a step begins; recordings alone have it
_ROUNDED = 1e-9  # of schedules that compute one number in another order


def plain(settings: Settings) -> Settings:
    """Settings without those that have no effect, so that equal updates have equal settings."""
    known = {word: value for word, value in settings.items() if value is not None and USUAL.get(word, ...) != value}
    if known["optimizer"] not in TORCHS_KINDS:
        return known
    if not known.get("weight_decay"):
        known["weight_decay"] = 0
    if not known.get("momentum"):
        known.pop("nesterov", None)
        known.pop("dampening", None)
    decoupled = bool(known.pop("decoupled_weight_decay", False)) or known["optimizer"] == "AdamW"
    if known["optimizer"] == "AdamW":
        known["optimizer"] = "Adam"
    if known["weight_decay"] and decoupled:
        known["decoupled"] = True
    return known


def differing(first: Settings, second: Settings) -> Iterator[tuple[str, Any, Any]]:
    """(word, value, value) of what two have otherwise; of other optimizers ``"optimizer"`` alone, of unknown ones nothing."""
    kinds = [settings["optimizer"] for settings in (first, second)]
    if kinds[0] != kinds[1]:
        if TORCHS_KINDS.issuperset(kinds):
            yield "optimizer", *kinds
        return
    ways = [[(word, settings[word]) for word in CLIPS if word in settings] for settings in (first, second)]
    unknown_way = CLIP in {*first, *second}
    common = [way[0] for way in ways[0] if way[0] in second]  # a call that clips one gradient by its norm does both
    other_way = not unknown_way and all(ways) and not common
    left = {"optimizer", "decoupled", CLIP, *(CLIPS if other_way or unknown_way else CLIPS.keys() - common if common else ())}
    if other_way:
        yield CLIP_WAYS, ways[0][0], ways[1][0]
    for word in sorted({*first, *second} - left):
        value, other = (settings.get(word, USUAL.get(word)) for settings in (first, second))
        if not equal_settings(value, other):
            yield word, value, other
    if first.get("weight_decay") and second.get("weight_decay") and first.get("decoupled") != second.get("decoupled"):
        yield "decoupled", first.get("decoupled", False), second.get("decoupled", False)


def equal_settings(value: Any, other: Any) -> bool:
    """Whether two values of a setting are one number, but for rounding of schedules."""
    if isinstance(value, (int, float)) and isinstance(other, (int, float)):
        return value == other or abs(value - other) <= _ROUNDED * max(abs(value), abs(other))
    return bool(value == other)


def shifted(rates: Sequence[Any], others: Sequence[Any]) -> int:
    """By how many steps other learning rates are those of later steps; less than 0: of earlier ones; 0 where they are neither."""
    for steps in range(1, len(rates) - 1):
        for sign, first, second in ((1, rates, others), (-1, others, rates)):
            if len({*first[steps:]}) > 1 and all(map(equal_settings, first[steps:], second)):
                return sign * steps
    return 0


def setting_text(value: Any) -> str:
    """A setting's value, with the digits that tell it."""
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def spelled(word: str, value: Any, framework: str) -> str:
    """A setting as a program of a framework writes it."""
    paddle = framework == "paddle"
    word, value = value if word == CLIP_WAYS else (word, value)
    if word in CLIPS and value is not None:
        kind, function = CLIPS[word]
        return (
            f"grad_clip=paddle.nn.{kind}({setting_text(value)})" if paddle or not function else f"{function}({setting_text(value)})"
        )
    name = {"lr": "learning_rate", **PADDLES_WORDS}.get(word, word) if paddle else word
    return f"{name}={setting_text(value)}"
