"""A random program under ``reference("torch")`` and in plain Torch: every value, gradient and hook must have the same bits.

The modes' options are those that make the two programs mean the same: Torch's random numbers, Torch's definitions of optimizers.
"""

from __future__ import annotations

import re
from typing import Any, NamedTuple

import numpy as np
import torch

from ..execute import Outcome, Plan, run
from . import names
from .tensor import Elsewhere
from .value import Value

REFERENCE = Plan("reference, against Torch", {0: [("open", "reference", "m0", "random='torch', optimizer='torch'")]})
SEEDED = "paddle.seed(7)"  # inside of the mode, which hands it on
ROUNDS = 8  # a program from which lines are taken fails at others, which used their results


class Replayed(NamedTuple):
    """A program in plain Torch. ``values``: by name; ``without``: line number -> why Torch cannot say it; ``error``: of a line."""

    values: dict[str, dict[str, Any]]
    without: dict[int, str]
    error: str = ""


def replayed(lines: list[str]) -> Replayed:
    """The lines in Torch; what it cannot say, and what uses it, is left out."""
    scope = names.namespace()
    without: dict[int, str] = {}
    for number, line in enumerate(lines):
        try:
            exec(compile(line, f"<line {number} in Torch>", "exec"), scope)
        except Elsewhere as reason:
            without[number] = str(reason)
        except NameError as error:
            if not without:
                return Replayed({}, {}, f"line {number} in Torch: {error}")
            without[number] = "what it uses was left out"
        except Exception as error:
            if without:
                break  # it may be for what was left out: the next round tells
            return Replayed({}, without, f"line {number} in Torch: {type(error).__name__}: {error}")
    values = {name: facts(value) for name, value in scope.items() if re.fullmatch(r"[tp]\d+", name)}
    values.update({f"seen[{i}] {name}": facts(value) for i, (name, value) in enumerate(scope["seen"])})
    return Replayed(values, without)


def facts(value: Any) -> dict[str, Any]:
    """What is compared of a variable."""
    if isinstance(value, names.Layer):
        weight, bias = value.weight.grad, value.bias.grad
        return {"weight.grad": array(None if weight is None else weight.t().contiguous()), "bias.grad": array(bias)}
    if not isinstance(value, Value):
        return {}
    grad = None if value.grad is None else array(value.grad.data)
    return {"dtype": str(value.dtype), "value": array(value.data), "grad": grad}


def array(tensor: torch.Tensor | None) -> np.ndarray | None:
    """The values, as float64 for the 16-bit types (exact)."""
    if tensor is None:
        return None
    shown = tensor.detach()
    return (shown.double() if shown.dtype in (torch.float16, torch.bfloat16) else shown).numpy()


def compared(lines: list[str], counts: dict[str, int]) -> tuple[list[str], list[str]]:
    """The part of a program that both can run without an error, and what differs in it."""
    lines = [SEEDED, *lines]
    for _ in range(ROUNDS):
        outcome = run(lines, REFERENCE)
        failed = {number for number, *_ in outcome.errors}
        if not failed:
            twin = replayed(lines)
            if twin.error:
                return lines, [twin.error]
            if not twin.without:
                break
            for reason in twin.without.values():
                counts[f"not in Torch: {reason}"] = counts.get(f"not in Torch: {reason}", 0) + 1
            failed = set(twin.without)
        lines = [line for number, line in enumerate(lines) if number not in failed]
    else:
        raise AssertionError("\n".join(["a program that never comes to rest", *lines]))
    counts["lines replayed in Torch"] = counts.get("lines replayed in Torch", 0) + len(lines)
    return lines, differing(outcome, twin)


def differing(outcome: Outcome, twin: Replayed) -> list[str]:
    """What differs in a bit, in words."""
    differences, ours, theirs = [], by_name(outcome.values), by_name(twin.values)
    for name in sorted({*ours, *theirs}):
        if name not in ours or name not in theirs:
            differences.append(f"{name}: {'only in Torch' if name in theirs else 'not in Torch'}")
            continue
        for key, expected in theirs[name].items():
            here = ours[name].get(key)
            if key == "dtype":
                if here.rpartition(".")[2] != expected.rpartition(".")[2]:
                    differences.append(f"{name}: in Torch {expected}, here {here}")
            elif not same(here, expected):
                differences.append(f"{name}.{key}: in Torch {shown(expected)}, here {shown(here)}")
    return differences


def by_name(values: dict[str, Any]) -> dict[str, Any]:
    """What hooks saw, numbered for each tensor: engines may come to different tensors in another order."""
    numbers: dict[str, int] = {}
    arrays = {}
    for name, value in values.items():
        if name.startswith("seen["):
            of = name.partition(" ")[2]
            numbers[of] = numbers.get(of, 0) + 1
            name = f"seen {of} {numbers[of]}"
        arrays[name] = value
    return arrays


def same(array: np.ndarray | None, other: np.ndarray | None) -> bool:
    """Whether two arrays are the same to the last bit. Paddle gives no memory to a tensor without elements."""
    if array is None or other is None:
        return not any(side is not None and side.size for side in (array, other))
    return array.shape == other.shape and array.dtype == other.dtype and array.tobytes() == other.tobytes()


def shown(array: np.ndarray | None) -> str:
    """For people."""
    return "nothing" if array is None else f"{array.dtype}{list(array.shape)} {array.tolist()}"
