"""What to write in a Paddle program: for an attribute of one of Torch's operators, or of one of Paddle's layers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .cause import Cause

_UPSCALES = 'mode="downscale_in_infer" scales in evaluation, Torch\'s dropout in training: write mode="upscale_in_train"'
_REDUCTIONS = ("none", "mean", "sum")
_BATCH_NORMS = frozenset({"native_batch_norm", "_native_batch_norm_legit", "cudnn_batch_norm", "_batch_norm_with_update"})
_ALSO_PADDLES = frozenset({
    "kernel_size", "stride", "padding", "dilation", "groups", "ceil_mode", "align_corners", "negative_slope", "keepdim",
    "ignore_index", "output_padding", "alpha", "beta", "threshold", "output_size", "padding_idx", "label_smoothing", "num_layers",
})  # fmt: skip


def _momentum(value: Any) -> str:
    return (
        f"Paddle's momentum is the share of the old statistics that stays, Torch's momentum={value:g} that of the new: "
        f"write momentum={1 - value:g}"
    )


def _reduction(value: Any) -> str:
    return f'write reduction="{_REDUCTIONS[value]}"' if value in range(len(_REDUCTIONS)) else ""


def in_paddles_words(op: str, name: str, value: Any) -> Any:
    """The value of an attribute of Torch's operator as a Paddle program says it: shares that stay, and those that go.

    >>> in_paddles_words("native_batch_norm", "momentum", 0.1)
    0.9
    """
    if name == "reduction" and value in range(len(_REDUCTIONS)):
        return _REDUCTIONS[value]
    turned = (name == "momentum" and op in _BATCH_NORMS) or (name == "p" and op == "bernoulli")
    return 1 - value if turned and isinstance(value, float) else value


def _fft_norm(op: str, value: Any) -> str:
    """Torch's number of a scale: 0 for none, 1 for the root of the length, 2 for the length."""
    if value == 1 or op == "_fft_c2c":  # whose direction is told by another attribute
        return 'write norm="ortho"' if value == 1 else ""
    return f'write norm="{"backward" if (value == 0) is (op == "_fft_r2c") else "forward"}"'


def _axis(value: Any) -> str:
    shown = value[0] if isinstance(value, (list, tuple)) and len(value) == 1 else value
    return f"write axis={shown}"


_WORDS: dict[str, Callable[[Any], str]] = {
    "eps": lambda value: f"write epsilon={value:g}",
    "dim": _axis,
    "count_include_pad": lambda value: f"write exclusive={not value}",
    "group": lambda value: f"write num_groups={value}",
    "approximate": lambda value: f"write approximate={value == 'tanh'}",
    "reduction": _reduction,
    **{name: lambda value, name=name: f"write {name}={value!r}" for name in _ALSO_PADDLES},  # type: ignore[misc]
}


def advice(op: str, name: str, value: Any) -> str:
    """What a Paddle program says for the attribute ``name=value`` of Torch's operator ``op``; "" if nothing is known.

    >>> advice("native_layer_norm", "eps", 1e-5)
    'write epsilon=1e-05'
    """
    if value is None:
        return ""
    if name == "momentum" and op in _BATCH_NORMS:
        return _momentum(value)
    if name == "p" and op == "bernoulli":  # what is kept
        return f"write p={1 - value:g}"
    if name == "dim" and op.startswith("_fft") and len(value) > 1:
        return f"write axes={value}"
    if name == "normalization":
        return _fft_norm(op, value)
    return _WORDS[name](value) if name in _WORDS else ""


_OTHER_OPS = {
    ("huber_loss", "smooth_l1_loss"): "Paddle's smooth_l1_loss is Torch's huber_loss, delta times as large: divide it by delta",
    ("smooth_l1_loss", "huber_loss"): "Paddle's smooth_l1_loss is Torch's huber_loss",
}


def advice_on_other_op(written: str, wanted: str) -> str:
    """What to write where a port calls one of Torch's operators in place of another, in brackets; "" if nothing is known.

    >>> advice_on_other_op("smooth_l1_loss", "huber_loss")
    " (Paddle's smooth_l1_loss is Torch's huber_loss)"
    """
    return f" ({_OTHER_OPS[written, wanted]})" if (written, wanted) in _OTHER_OPS else ""


_PADDINGS = {
    f"{kind}_pad{axes}d": word for kind, word in (("reflection", "reflect"), ("replication", "replicate")) for axes in (1, 2, 3)
}


def advice_on_missing(op: str, layer: Any) -> str:
    """What to write where one of Torch's operators is missing in a layer of Paddle's, in brackets; "" if nothing is known.

    >>> advice_on_missing("reflection_pad2d", paddle.nn.Conv2D(3, 3, 3, padding=1))
    " (write padding_mode='reflect')"
    """
    mode = _PADDINGS.get(op)
    return f" (write padding_mode={mode!r})" if mode and hasattr(layer, "_padding_mode") else ""


_DEFINITIONS = {
    "embedding": "leave padding_idx= out, or keep zeros in that row on both sides",
}


def advice_on_definition(op: str) -> str:
    """What a Paddle program says for Torch's definition of an op, in brackets; "" if nothing is known.

    >>> advice_on_definition("embedding")
    ' (leave padding_idx= out, or keep zeros in that row on both sides)'
    """
    return f" ({_DEFINITIONS[op]})" if op in _DEFINITIONS else ""


def advice_on_layer(cause: Cause, layer: Any) -> str:
    """The attribute of one of Paddle's layers that makes a call missing or too much; "" if there is none.

    A dropout that downscales multiplies in evaluation, and does not divide in training.

    >>> advice_on_layer(Cause.EXTRA, paddle.nn.Dropout(0.5, mode="downscale_in_infer"))
    'mode="downscale_in_infer" scales in evaluation, Torch\'s dropout in training: write mode="upscale_in_train"'
    """
    downscales = cause in (Cause.EXTRA, Cause.MISSING) and getattr(layer, "mode", None) == "downscale_in_infer"
    return _UPSCALES if downscales else ""
