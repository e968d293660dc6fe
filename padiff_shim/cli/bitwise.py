"""``padiff-shim bitwise``."""

from __future__ import annotations

from typing import Any

import click

from . import output
from .main import FINE, NO
from .models import named_object, named_pair, pair_options

_EPILOG = """\
\b
Examples:
  padiff-shim bitwise port.py:build original.py:build --inputs x.npy
  # forward only, in bfloat16, with weights like those of a training
  padiff-shim bitwise port.py:build original.py:build --inputs x.npy \\
      --phase forward --dtype bfloat16 --weights random
  # writes the changes into the port's files
  padiff-shim bitwise port.py:build original.py:build --inputs x.npy \\
      --apply

Models, inputs and options are those of padiff-shim prove.
Exit status: 0 if no bit differs, 1 if one does or the port is not proven, 2 if there is no answer.
"""


@click.command(epilog=_EPILOG, short_help="Where the bits of a right port part, and what to write.")
@pair_options
@click.option("--phase", default="both", metavar="WORD", help="forward, or both: also gradients.")
@click.option("--dtype", metavar="DTYPE", help="Of parameters and inputs: bfloat16, float16, float32 or float64.")
@click.option("--rules", metavar="FILE:NAME", help="How weights are laid out: a list as rules= takes it.")
@click.option("--apply", "applied", is_flag=True, help="Write the changes into the files of the port.")
@output.format_options
@output.file_options
def command(
    rules: str | None,
    applied: bool,
    form: str | None,
    sarif: str | None,
    html: str | None,
    markdown: str | None,
    data: str | None,
    **options: Any,
) -> int:
    """Say at which lines the bits of a right port part from its original's on the same kernels, why, and what to write to have
    the same. Each change was tried: replayed at its line, and all of them together in the whole port."""
    models = named_pair(options)
    from ..bits.bitwise import bitwise

    answer = bitwise(*models, rules=named_object(rules, "--rules"), **options)
    output.answer(answer, html, markdown, data, form, sarif)
    if applied:
        for path in answer.apply():
            output.written(path)
    return FINE if answer else NO
