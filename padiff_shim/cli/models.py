"""Models and inputs that a command line names."""

from __future__ import annotations

import inspect
from pathlib import Path
from typing import Any

from ..errors import ArgumentError, unreadable
from .program import load


def made(word: str, argument: str) -> Any:
    """A model: the named object, or its result if it is a class or function."""
    target = load(word, argument)
    is_model = hasattr(target, "parameters") and not inspect.isclass(target)
    return target if is_model or not callable(target) else target()


def named_object(word: str | None, option: str) -> Any:
    """What an option names; None where it is not there."""
    return None if word is None else load(word, option)


def optimizer_of(word: str | None) -> Any:
    """``--optimizer``: the named object, or the name of an optimizer."""
    return load(word, "--optimizer") if word and ":" in word else word


def layers_pair(word: str) -> tuple[str, str]:
    """``--layer-map`` as names."""
    torch_name, sign, paddle_name = word.partition("=")
    if not sign:
        raise ArgumentError(f"--layer-map is TORCH=PADDLE, got {word!r}")
    return torch_name, paddle_name


def model_inputs(word: str) -> Any:
    """The inputs of both models."""
    import numpy as np

    if Path(word).suffix not in (".npy", ".npz"):
        target = load(word, "--inputs")
        return target() if callable(target) and not inspect.signature(target).parameters else target
    try:
        loaded = np.load(word, allow_pickle=False)
    except OSError as error:
        raise unreadable("the inputs", word, error) from None
    except ValueError as error:
        raise ArgumentError(f"--inputs: {word}: {error}") from None
    if isinstance(loaded, np.ndarray):
        return loaded
    arrays = {name: loaded[name] for name in loaded.files}
    if all(name.startswith("arr_") for name in arrays):
        return tuple(arrays[f"arr_{place}"] for place in range(len(arrays)))
    return arrays
