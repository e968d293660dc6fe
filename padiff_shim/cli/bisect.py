"""``padiff-shim bisect``."""

from __future__ import annotations

from typing import Any

import click

from ..errors import ArgumentError
from . import output
from .models import import_frameworks, model_inputs, named_object

_EPILOG = """\
\b
Examples:
  # whose kernels part from Torch's by more than 1e-3
  padiff-shim bisect program.py:gradient --atol 1e-3
  padiff-shim bisect 'program.py:loss?layers=4' --over layers \\
      --target expected.npy --rtol 1e-4
  # true while the result is bad
  padiff-shim bisect program.py:loss --target program.py:is_bad
  padiff-shim bisect program.py:loss --markdown -

Exit status: 0 if the set was found, 2 if there is none: the result is bad on both frameworks' kernels, or on neither.
"""


@click.command(epilog=_EPILOG, short_help="The ops, layers or calls that make a difference.")
@click.argument("program", metavar="FUNCTION")
@click.option("--target", metavar="WHAT", help="The right result, as .npy, .npz or file.py:name; or a function: is it bad?")
@click.option("--over", default="ops", show_default=True, metavar="WORD", help="ops, layers or calls.")
@click.option("--atol", type=float, default=0.0, show_default=True, help="Elements may differ by this much.")
@click.option("--rtol", type=float, default=0.0, show_default=True, help="And by this share of the largest right element.")
@click.option("--optimizer", default="paddle", show_default=True, metavar="WORD", help="paddle or torch, as for `run`.")
@click.option("--random", default="paddle", show_default=True, metavar="WORD", help="paddle or torch, as for `run`.")
@click.option("--definitions", multiple=True, metavar="WORD", help="paddle, torch, or an op by Torch's definition.")
@click.option("--seed", default=0, show_default=True, metavar="N", type=int, help="Seed of all random generators.")
@output.file_options
def command(
    program: str,
    target: str | None,
    definitions: tuple[str, ...],
    html: str | None,
    markdown: str | None,
    data: str | None,
    **options: Any,
) -> None:
    """Find the smallest set of ops, layers or calls of a Paddle program whose kernels make a difference.

    FUNCTION is file.py:name: it needs no argument, returns numbers or tensors, and does the same each time. It runs again and
    again, each time with other ops on Paddle's kernels. Without --target the right result is that on Torch's kernels alone."""
    import_frameworks()
    from .. import reference
    from ..proof.programs import seeded
    from ..questions.bisect import bisect

    function = named_object(program, "FUNCTION")
    if not callable(function):
        raise ArgumentError("FUNCTION: {program} is no function", program=program)
    modes = {name: options[name] for name in ("optimizer", "random")}
    modes["definitions"] = options["definitions"] = definitions[0] if len(definitions) == 1 else list(definitions) or "paddle"
    if target is None:
        with seeded(options["seed"]), reference("torch", **modes):
            wanted = function()
    else:
        wanted = model_inputs(target, "--target")
    output.answer(bisect(function, wanted, **options), html, markdown, data)
