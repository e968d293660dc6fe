"""``padiff-shim drift``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from ..text import tr
from . import output
from .models import named_pair, pair_options

_EPILOG = """\
\b
Examples:
  padiff-shim drift port.py:build original.py:build --inputs x.npy
  # gradients, too, and each op call with its line
  padiff-shim drift port.py:build original.py:build --inputs x.npy \\
      --phase both --calls
  padiff-shim drift port.py:build original.py:build --inputs x.npy \\
      --plot drift.png --csv drift.csv

Models, inputs and options are those of padiff-shim prove, which says whether the port is right.
Exit status: 0 if it was measured, 2 if that is not possible.
"""


@click.command(epilog=_EPILOG, short_help="How the difference grows from layer to layer.")
@pair_options
@click.option("--phase", default="forward", metavar="WORD", help="forward, or both: also gradients.")
@click.option("--calls", is_flag=True, help="Every op call with its line, too.")
@click.option("--no-double", "double", is_flag=True, flag_value=False, default=True, help="Without the runs in float64.")
@click.option("--plot", type=output.PAGE, help="Draw it as a .png or .svg file; needs matplotlib.")
@click.option("--csv", type=output.PAGE, help="Write all rows with all digits.")
@output.file_options
def command(plot: str | None, csv: str | None, html: str | None, markdown: str | None, data: str | None, **options: Any) -> None:
    """Measure how far a port's values are from its original's, layer by layer: on Paddle's own kernels, on Torch's, and of both
    models in float64. Rounding is 0 in the second column, and about 1e-9 of the first in the third."""
    if csv is not None and Path(csv).suffix.lower() != ".csv":
        raise click.UsageError(tr("--csv ends with .csv, got {csv}", csv=repr(csv)))
    if plot is not None and Path(plot).suffix.lower() not in (".png", ".svg"):
        raise click.UsageError(tr("--plot ends with .png or .svg, got {plot}", plot=repr(plot)))
    models = named_pair(options)
    from ..questions.drift import drift

    answer = drift(*models, **options)
    output.answer(answer, html, markdown, data)
    for path in (csv, plot):
        if path is not None:
            output.written(answer.save(path))
