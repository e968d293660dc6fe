"""Runs a program (source lines) natively or under modes that open and close anywhere, and tells what differs.

Every variable, gradient and hook is looked at, and every error: compare mode must leave each bit as it is natively; reference mode
must agree in everything but rounding (:mod:`.rounding` says how much that is).
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import paddle

import padiff_shim

from . import prelude

HARD = ("PRECISION_MODE", "SEMANTICS", "WRONG", "LOCAL_WRONG", "NONFINITE")
AROUND = " around all"
VARIABLE = re.compile(r"[tpn]\d+")


@dataclass
class Plan:
    """When modes open and close: events before a line, ``("open", kind, key, options)`` or ``("close", key)``."""

    name: str
    events: dict[int, list[tuple[str, ...]]] = field(default_factory=dict)

    @property
    def exact(self) -> bool:
        """Whether every bit must be as natively."""
        opened = [event for events in self.events.values() for event in events if event[0] == "open"]
        return not any(event[1] == "reference" or "carry='torch'" in event[3] for event in opened)

    def of(self, numbers: list[int]) -> Plan:
        """The plan of a program of these lines alone."""
        events: dict[int, list[tuple[str, ...]]] = {}
        for number in sorted(self.events):
            place = next((place for place, line in enumerate(numbers) if line >= number), None)
            if place is not None:
                events.setdefault(place, []).extend(self.events[number])
        return Plan(self.name, events)

    def __str__(self) -> str:
        return f"{self.name} {self.events}" if self.events else self.name


def whole(kind: str, options: str = "") -> Plan:
    """One mode around the whole program."""
    return Plan(f"{kind}({options}){AROUND}", {0: [("open", kind, "m0", options)]})


NATIVE = Plan("native")


@dataclass
class Outcome:
    """What a run left behind."""

    errors: list[tuple[int, str, str]]
    values: dict[str, Any]  # path -> facts (a dict of plain values and arrays)
    runs: list[Any]
    after: dict[str, Any]  # the state of the process

    def compared(self) -> Iterator[Any]:
        """The records of its comparisons."""
        return (call for kind, run in self.runs if kind == "compare" for call in run.calls)

    @property
    def named(self) -> dict[int, str]:
        """The lines of which a comparison knows the difference by its name, each with that."""
        calls = [call.to_dict() for call in self.compared()]
        names = {call["file"]: call["quirk"] for call in calls if call.get("quirk")}
        return {int(number[1]): name for file, name in names.items() if (number := re.fullmatch(r"<line (\d+)>", file or ""))}


def run(lines: list[str], plan: Plan, around: Callable[[], Any] = contextlib.nullcontext) -> Outcome:
    """Execute the lines; an error ends its line only, as at a prompt. ``around``: what each line runs in."""
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
                with around():
                    exec(compile(line, f"<line {number}>", "exec"), scope)
            except Exception as error:
                errors.append((number, type(error).__name__, _headline(error)))
    finally:
        for mode in opened.values():
            mode.stop()
    values = {name: facts(value) for name, value in scope.items() if VARIABLE.fullmatch(name)}
    values.update({f"seen[{i}] {name}": facts(value) for i, (name, value) in enumerate(scope["seen"])})
    tracer = paddle.base.framework._dygraph_tracer()
    rng = str(paddle.get_rng_state()[0]).split("0x")[0]
    after = {"grad enabled": paddle.is_grad_enabled(), "autocast": str(tracer._amp_level), "rng": rng}
    paddle.set_grad_enabled(True)
    return Outcome(errors, values, runs, after)


def _headline(error: BaseException) -> str:
    """The part of a message that says what is wrong: Paddle's own names of tensors, addresses and stacks left out."""
    text = str(error)
    marked = re.search(r"\(\w+\) .*", text)  # "(InvalidArgument) ...": what stands behind Paddle's C++ stack
    line = marked[0] if marked else (text.strip().splitlines() or [""])[0]
    return re.sub(r"0x[0-9a-f]+|generated_tensor_\d+|\beager_in_tmp_\d+|\beager_tmp_\d+|'[\w.]*_\d+'", "_", line)[:200]


def facts(value: Any) -> dict[str, Any]:
    """What can be seen of a variable; of a layer, its parameters and buffers; of several values, each."""
    if isinstance(value, paddle.Tensor):
        return facts_of_tensor(value)
    if isinstance(value, paddle.nn.Layer):
        parts = {**dict(value.named_parameters()), **{f"buffer {name}": buffer for name, buffer in value.named_buffers()}}
        seen: dict[str, Any] = {}
        for name, part in parts.items():
            seen.update({f"{name}.{key}": fact for key, fact in facts_of_tensor(part).items() if key in ("value", "grad")})
        return seen
    if isinstance(value, (list, tuple)) and len(value) <= 32:
        return {f"[{place}].{key}": fact for place, part in enumerate(value) for key, fact in facts(part).items()}
    if isinstance(value, np.ndarray):
        return {"value": value}
    if isinstance(value, (bool, int, float, complex, str, type(None))):
        return {"type": type(value).__name__, "value": value if isinstance(value, (str, type(None))) else np.asarray(value)}
    return {"type": type(value).__name__}


def facts_of_tensor(value: Any) -> dict[str, Any]:
    """Everything of a tensor that a program can ask for."""
    seen = {
        "shape": list(value.shape),
        "dtype": str(value.dtype),
        "stop_gradient": value.stop_gradient,
        "is_leaf": value.is_leaf,
        "inplace_version": value.inplace_version,
        "value": array(value),
    }
    grad = value.grad if value.is_leaf or value._grad_ivar() is not None else None
    seen["grad"] = None if grad is None else array(grad)
    if grad is not None:
        seen["grad's dtype and shape"] = f"{grad.dtype}{list(grad.shape)}"
    return seen


def array(tensor: Any) -> np.ndarray | None:
    """The values, as float64 for the 16-bit types (exact)."""
    if not tensor._is_initialized():
        return None
    shown = tensor.detach()
    with paddle.no_grad():
        return (shown.astype("float64") if str(shown.dtype).endswith("float16") else shown).numpy()


# Where Paddle raises Torch may have an answer, and what it had done by then is its own; and a view that begins between two elements
# shows a last bit as an exponent. A program is compared without these lines.


def beyond(lines: list[str], native: Outcome) -> set[int]:
    """The lines that Paddle refuses, or behind which rounding is more than that."""
    strided = {number for number, line in enumerate(lines) if "as_strided(" in line and line.endswith(", 1)")}
    return strided | {number for number, *_ in native.errors}


Allowed = Callable[[str, str, Any, Any], bool]


def differences(native: Outcome, other: Outcome, allowed: Allowed | None = None) -> list[str]:
    """What differs, in words.

    Args:
        native: the run on Paddle's kernels.
        other: the run under a mode.
        allowed: whether rounding explains two facts of a variable, by its name and the fact's; without it every bit counts.
    """
    texts = []
    ours, theirs = (
        [(number, kind, text if allowed is None else "") for number, kind, text in outcome.errors] for outcome in (native, other)
    )
    if ours != theirs:
        texts.append(f"errors: natively {native.errors}, here {other.errors}")
    if native.after != other.after:
        texts.append(f"left behind: natively {native.after}, here {other.after}")
    for name in sorted({*native.values, *other.values}):
        a, b = native.values.get(name), other.values.get(name)
        if a is None or b is None:
            texts.append(f"{name}: {'only here' if a is None else 'only natively'}")
            continue
        for key in sorted({*a, *b}):
            x, y = a.get(key), b.get(key)
            if not same(x, y) and not (allowed is not None and allowed(name, key, x, y)):
                texts.append(f"{name}.{key}: {_both(x, y, exact=allowed is None)}")
    return texts


def same(x: Any, y: Any) -> bool:
    """Whether two facts are the same, arrays to the last bit."""
    if isinstance(x, np.ndarray) and isinstance(y, np.ndarray):
        return x.shape == y.shape and x.dtype == y.dtype and x.tobytes() == y.tobytes()
    return type(x) is type(y) and not isinstance(x, np.ndarray) and x == y


def _both(x: Any, y: Any, *, exact: bool) -> str:
    if not (isinstance(x, np.ndarray) and isinstance(y, np.ndarray)):
        return f"natively {_brief(x)}, here {_brief(y)}"
    if x.shape != y.shape or x.dtype != y.dtype:
        return f"natively {x.dtype}{x.shape}, here {y.dtype}{y.shape}"
    return f"{'other bits: ' if exact else ''}natively {x.tolist()}, here {y.tolist()}"


def _brief(fact: Any) -> Any:
    if not isinstance(fact, np.ndarray):
        return fact
    return "an array" if fact.any() else "zeros"


def accusations(outcome: Outcome) -> list[str]:
    """Hard verdicts on Paddle's or Torch's kernels that no known difference explains: nothing was planted."""
    return [str(call)[:300] for call in outcome.compared() if str(call.verdict) in HARD and not call.to_dict().get("quirk")]
