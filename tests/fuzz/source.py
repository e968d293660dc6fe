"""A program as Paddle source that runs alone, and which calls it is about."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Iterable, Sequence

from . import given, prelude
from .template import outermost

HEAD = """from __future__ import annotations

import contextlib, copy, functools, io
import numpy as np
import paddle
import paddle.nn.functional as F
from paddle.autograd import PyLayer
from paddle.distributed.fleet.utils import recompute
"""
# What lines call that a function returns or makes -> the function, and the line that makes it.
MADE = {
    **dict.fromkeys(("slope", "bent", "apart"), ("calculus", "globals().update(calculus(paddle, F))")),
    **dict.fromkeys(("watch", "seen"), ("watching", "globals().update(watching())")),
    "scaled": ("Scaled", "scaled = functools.partial(layer, kind=Scaled)"),
}


def definitions() -> dict[str, str]:
    """What the lines of a program may call beside Paddle, by name: its source."""
    sources: dict[str, str] = {}
    for module in (given, prelude):
        text = inspect.getsource(module)
        for node in ast.parse(text).body:
            source = ast.get_source_segment(text, node) or ""
            if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
                sources[node.name] = source
            elif isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
                sources[node.targets[0].id] = source
    return sources


def names_in(text: str) -> set[str]:
    """All names that a text reads."""
    return {node.id for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Name)}


def alone(lines: Sequence[str], raising: Iterable[int] = ()) -> str:
    """Source that runs alone. ``raising``: the lines whose errors end nothing but themselves, as at a prompt."""
    known, wanted = definitions(), sorted(names_in("\n".join(lines)))
    for name in wanted:  # which grows meanwhile
        more = names_in(known.get(name, "")) | ({MADE[name][0]} if name in MADE else set())
        wanted += sorted(more - {*wanted})
    helpers = [source for name, source in known.items() if name in wanted]
    making = sorted({line for name, (_, line) in MADE.items() if name in wanted}, key=lambda line: line.startswith("scaled"))
    suppressed = "with contextlib.suppress(Exception): "
    body = [f"{suppressed}{line}" if number in raising else line for number, line in enumerate(lines)]
    return "\n\n\n".join([HEAD, *helpers, "\n".join([*making, "paddle.seed(7)", *body])]) + "\n"


def culprits(lines: Sequence[str]) -> str:
    """The calls of a small program, without leaves and backwards: what a failure of it is about."""
    names = []
    for line in lines:
        try:
            names += [name for name in outermost(line) if name not in ("Tensor.backward", "Tensor.sum")]
        except SyntaxError:
            continue
    return " ".join(dict.fromkeys(names)) or "nothing"
