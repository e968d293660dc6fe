"""Runs a program (source lines) natively or under modes that open and close anywhere, and tells what differs.

Every variable, gradient and hook is looked at, and every error: compare mode must leave each bit as it is natively; reference mode
must agree in everything but rounding.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import paddle

import padiff_shim

from . import prelude

# How far a program may be off by rounding alone, relative to the largest number it held.
ROUNDING = {"float64": 1e-9, "float32": 1e-3, "float16": 0.1, "bfloat16": 0.5}
HARD = ("PRECISION_MODE", "SEMANTICS", "WRONG", "LOCAL_WRONG", "NONFINITE")


@dataclass
class Plan:
    """When modes open and close: events before a line, ``("open", kind, key, options)`` or ``("close", key)``."""

    name: str
    events: dict[int, list[tuple[str, ...]]] = field(default_factory=dict)

    @property
    def exact(self) -> bool:
        """Whether every bit must be as natively."""
        return not any(event[:2] == ("open", "reference") for events in self.events.values() for event in events)

    def __str__(self) -> str:
        return f"{self.name} {self.events}" if self.events else self.name


def whole(kind: str) -> Plan:
    """One mode around the whole program."""
    return Plan(f"{kind} around all", {0: [("open", kind, "m0", "")]})


NATIVE = Plan("native")


@dataclass
class Outcome:
    """What a run left behind."""

    errors: list[tuple[int, str, str]]
    values: dict[str, Any]  # path -> facts (a dict of plain values and arrays)
    runs: list[Any]
    after: dict[str, Any]  # the state of the process


def run(lines: list[str], plan: Plan) -> Outcome:
    """Execute the lines; an error ends its line only, as at a prompt."""
    paddle.seed(7)
    scope = prelude.namespace()
    errors: list[tuple[int, str, str]] = []
    opened: dict[str, Any] = {}
    runs = []
    try:
        for number, line in enumerate(lines):
            for action, *rest in plan.events.get(number, ()):
                if action == "open":
                    kind, key, options = rest
                    opened[key] = getattr(padiff_shim, kind)("torch", **eval(f"dict({options})"))
                    runs.append((kind, opened[key].start()))
                elif rest[0] in opened:
                    opened.pop(rest[0]).stop()
            try:
                exec(compile(line, f"<line {number}>", "exec"), scope)
            except Exception as error:
                errors.append((number, type(error).__name__, _headline(error)))
    finally:
        for mode in opened.values():
            mode.stop()
    values = {name: facts(value) for name, value in scope.items() if re.fullmatch(r"[tp]\d+", name)}
    values.update({f"seen[{i}] {name}": facts(value) for i, (name, value) in enumerate(scope["seen"])})
    tracer = paddle.base.framework._dygraph_tracer()
    rng = str(paddle.get_rng_state()[0]).split("0x")[0]
    after = {"grad enabled": paddle.is_grad_enabled(), "autocast": str(tracer._amp_level), "rng": rng}
    return Outcome(errors, values, runs, after)


def _headline(error: BaseException) -> str:
    """The part of a message that says what is wrong: Paddle's own names of tensors, addresses and stacks left out."""
    text = str(error)
    marked = re.search(r"\(\w+\) .*", text)  # "(InvalidArgument) ...": what stands behind Paddle's C++ stack
    line = marked[0] if marked else (text.strip().splitlines() or [""])[0]
    return re.sub(r"0x[0-9a-f]+|generated_tensor_\d+|\beager_in_tmp_\d+|\beager_tmp_\d+|'[\w.]*_\d+'", "_", line)[:200]


def facts(value: Any) -> dict[str, Any]:
    """What can be seen of a variable; of a layer, its parameters' gradients."""
    if isinstance(value, paddle.nn.Linear):
        parts = {"weight": value.weight, "bias": value.bias}
        return {f"{name}.grad": None if one.grad is None else array(one.grad) for name, one in parts.items()}
    if not isinstance(value, paddle.Tensor):
        return {"type": type(value).__name__}
    found = {
        "shape": list(value.shape),
        "dtype": str(value.dtype),
        "stop_gradient": value.stop_gradient,
        "is_leaf": value.is_leaf,
        "inplace_version": value.inplace_version,
        "value": array(value),
    }
    grad = value.grad if value.is_leaf or value._grad_ivar() is not None else None
    found["grad"] = None if grad is None else array(grad)
    if grad is not None:
        found["grad's dtype and shape"] = f"{grad.dtype}{list(grad.shape)}"
    return found


def array(tensor: Any) -> np.ndarray | None:
    """The values, as float64 for the 16-bit types (exact)."""
    if not tensor._is_initialized():
        return None
    shown = tensor.detach()
    with paddle.no_grad():
        return (shown.astype("float64") if str(shown.dtype).endswith("float16") else shown).numpy()


# Where Paddle has no kernel or no second gradient and Torch has one, a substituted call succeeds where the native one raises; and a
# view that begins between two elements shows a last bit as an exponent. A program is only compared up to there.
LACKING = ("doesn't have any grad op", "is not registered. Selected wrong DataType")


def cut(lines: list[str], native: Outcome) -> list[str]:
    """The program up to the first line for which Paddle has no kernel, or behind which rounding is more than that."""
    numbers = [number for number, _, text in native.errors if any(lack in text for lack in LACKING)]
    numbers += [number for number, line in enumerate(lines) if "as_strided(" in line and line.endswith(", 1)")]
    return lines[: min(numbers)] if numbers else lines


def differences(native: Outcome, other: Outcome, *, exact: bool) -> list[str]:
    """What differs, in words."""
    found = []
    ours, theirs = ([(number, kind, text if exact else "") for number, kind, text in one.errors] for one in (native, other))
    if ours != theirs:
        found.append(f"errors: natively {native.errors}, here {other.errors}")
    if native.after != other.after:
        found.append(f"left behind: natively {native.after}, here {other.after}")
    scale, tolerance = _scale(native), _tolerance(native)
    for name in sorted({*native.values, *other.values}):
        a, b = native.values.get(name), other.values.get(name)
        if a is None or b is None:
            found.append(f"{name}: {'only here' if a is None else 'only natively'}")
            continue
        for key in sorted({*a, *b}):
            x, y = a.get(key), b.get(key)
            if isinstance(x, np.ndarray) and isinstance(y, np.ndarray):
                if x.shape != y.shape or x.dtype != y.dtype:
                    found.append(f"{name}.{key}: natively {x.dtype}{x.shape}, here {y.dtype}{y.shape}")
                elif exact:
                    if x.tobytes() != y.tobytes():
                        found.append(f"{name}.{key}: other bits: natively {x.tolist()}, here {y.tolist()}")
                elif not np.allclose(x.astype("float64"), y.astype("float64"), rtol=0, atol=tolerance * scale, equal_nan=True):
                    found.append(f"{name}.{key}: natively {x.tolist()}, here {y.tolist()}")
            elif type(x) is not type(y) or x != y:
                found.append(f"{name}.{key}: natively {_brief(x)}, here {_brief(y)}")
    return found


def _brief(fact: Any) -> Any:
    if not isinstance(fact, np.ndarray):
        return fact
    return "an array" if fact.any() else "zeros"


def accusations(outcome: Outcome) -> list[str]:
    """Hard verdicts on Paddle's or Torch's kernels that no known difference explains: nothing was planted."""
    return [
        str(call)[:300]
        for kind, run in outcome.runs
        if kind == "compare"
        for call in run.calls
        if str(call.verdict) in HARD and not call.as_dict().get("quirk")
    ]


def _arrays(outcome: Outcome) -> list[np.ndarray]:
    return [fact for facts in outcome.values.values() for fact in facts.values() if isinstance(fact, np.ndarray) and fact.size]


def _scale(outcome: Outcome) -> float:
    with np.errstate(all="ignore"):
        return max([1.0, *(float(np.nanmax(np.abs(a.astype("float64")))) for a in _arrays(outcome) if np.isfinite(a).any())])


def _tolerance(outcome: Outcome) -> float:
    names = {str(facts.get("dtype", "")).rpartition(".")[2] for facts in outcome.values.values()}
    return max(ROUNDING.get(name, 0.0) for name in {*names, "float64"})
