"""``padiff-shim prove``."""

from __future__ import annotations

from typing import Any

import click

from . import output
from .main import FINE, NO
from .models import named_object, named_pair, optimizer_of, pair_options

_EPILOG = """\
\b
Examples:
  padiff-shim prove port.py:build original.py:build --inputs inputs.npz
  padiff-shim prove port.py:Port original.py:Original \\
      --inputs original.py:batch --html proof.html
  padiff-shim prove project.paddle:make project.torch:make \\
      --inputs x.npy --phase forward --seed 3
  padiff-shim prove port.py:build original.py:build \\
      --inputs x.npy --layer-map encoder=backbone
  padiff-shim prove port.py:build original.py:build \\
      --inputs x.npy --bitwise
  padiff-shim prove 'port.py:build?layers=2&bias=false' \\
      original.py:build --with torch.layers=2 --inputs x.npy
  padiff-shim prove port.py:Bert transformers:BertModel \\
      --config config.json --inputs tokens.npz
  padiff-shim prove port.py:build original.py:build \\
      --inputs x.npy --phase train --optimizer AdamW --steps 3
  # for a workflow of GitHub, with a file for code scanning
  padiff-shim prove port.py:build original.py:build \\
      --inputs x.npy --format github --sarif proof.sarif

Exit status: 0 if the port is right, 1 if it is not, or the proof is inconclusive.
"""


@click.command(epilog=_EPILOG, short_help="Is a port right, and if not, where?")
@pair_options
@click.option("--phase", default="both", metavar="WORD", help="forward, both or train.")
@click.option("--optimizer", metavar="WHAT", help="With --phase train: a name, or FILE:NAME as for prove().")
@click.option("--steps", default=1, show_default=True, metavar="N", type=int, help="With --phase train: steps to compare.")
@click.option("--dtype", metavar="DTYPE", help="Of parameters and inputs: bfloat16, float16, float32 or float64.")
@click.option("--rules", metavar="FILE:NAME", help="How weights are laid out: a list as rules= takes it.")
@click.option("--bitwise", is_flag=True, help="Also where the bits of a right port part from the original's, and what to write.")
@output.format_options
@output.file_options
def command(
    optimizer: str | None,
    steps: int,
    rules: str | None,
    bitwise: bool,
    form: str | None,
    sarif: str | None,
    html: str | None,
    markdown: str | None,
    data: str | None,
    **options: Any,
) -> int:
    """Say whether a Paddle layer computes what a Torch module computes, and if not, at which line and why.

    PADDLE and TORCH are file.py:name or package.module:name: a layer, or a class or function that makes one, with arguments as
    'port.py:build?layers=2&bias=false' (in quotes) or by --with. An .npz file's arrays are keyword arguments, or positional ones if
    they are called arr_0, arr_1... A function for --inputs gets 'paddle' or 'torch', if it takes an argument, and returns an array,
    a tuple or a dict of them."""
    models = named_pair(options)
    options |= {"rules": named_object(rules, "--rules"), "optimizer": optimizer_of(optimizer), "steps": steps}
    if bitwise:
        from ..bits.bitwise import bitwise as ask

        answer: Any = ask(*models, **options)
        right = answer.proof
    else:
        from ..proof.prove import prove

        right = answer = prove(*models, **options)
    output.answer(answer, html, markdown, data, form, sarif)
    return FINE if right else NO
