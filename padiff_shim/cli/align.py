"""``padiff-shim align``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from ..progress import Waiting
from . import output
from .main import FINE, NO
from .models import Builders, builder_options, layer_map_of, layer_map_option, model_inputs, named_object, optimizer_of

_EPILOG = """\
\b
Examples:
  padiff-shim align --torch original.py:build --paddle port.py:build \\
      --inputs inputs.npz --report align.md
  padiff-shim align --torch pair.py:original --paddle pair.py:port \\
      --inputs pair.py:batch --loss pair.py:losses --steps 50 \\
      --optimizer pair.py:optimizers --report align.md
  padiff-shim align --torch original.py:build --paddle port.py:build \\
      --inputs x.npy --dtype float32 --steps 0
  # in a workflow of GitHub
  padiff-shim align --torch original.py:build --paddle port.py:build \\
      --inputs x.npy --report align.md --format github

Exit status: 0 if the port is right, 1 if it is not, or that is not known.
"""


class _ReportFiles(output.Target):
    """A Markdown file, and the page beside it; ``-`` is standard output."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """The unchanged path.

        Raises:
            FileError: one of both files cannot be written.
        """
        report = super().convert(value, param, ctx)
        if value != "-":
            super().convert(str(Path(value).with_suffix(".html")), param, ctx)
        return report


@click.command(epilog=_EPILOG, short_help="The alignment report of a port, for its pull request.")
@click.option("--torch", "original", required=True, metavar="WHAT", help="The original: file.py:name or package.module:name.")
@click.option("--paddle", "port", required=True, metavar="WHAT", help="The port.")
@builder_options
@click.option("--inputs", required=True, metavar="WHAT", help="An .npy or .npz file, or file.py:name: arrays, or a function.")
@click.option(
    "--report", type=_ReportFiles(piped=True), help="Write Markdown, and a page with curves beside it (.html); - is stdout."
)
@output.format_options
@click.option("--json", "data", type=output.TEXT, help="Write it as JSON; - is standard output.")
@click.option("--dtype", "dtypes", multiple=True, default=("float32", "bfloat16"), show_default=True, metavar="DTYPE",
              help="Of parameters and inputs; may be repeated.")  # fmt: skip
@click.option("--weights", default="torch->paddle", metavar="WORD", help="torch->paddle, paddle->torch, as-is or random.")
@click.option("--loss", metavar="FILE:NAME", help="A function of the output, or a pair of them (Paddle's, Torch's).")
@click.option("--steps", default=10, show_default=True, metavar="N", type=int, help="Training steps to compare; 0: none.")
@click.option("--optimizer", default="AdamW", show_default=True, metavar="WHAT", help="A name, or FILE:NAME as for prove().")
@click.option("--tokens", default=16, show_default=True, metavar="N", type=int, help="Tokens to generate greedily; 0: none.")
@click.option("--generate", metavar="FILE:NAME", help="A pair of functions that generate them (Paddle's, Torch's).")
@layer_map_option
@click.option("--rules", metavar="FILE:NAME", help="How weights are laid out: a list as rules= takes it.")
@click.option("--seed", default=0, metavar="N", type=int, help="Seed of all random generators.")
def command(
    original: str,
    port: str,
    inputs: str,
    arguments: tuple[str, ...],
    config: tuple[str, ...],
    report: str | None,
    data: str | None,
    form: str | None,
    sarif: str | None,
    loss: str | None,
    optimizer: str,
    generate: str | None,
    layer_map: tuple[str, ...],
    rules: str | None,
    **options: Any,
) -> int:
    """Compare a Paddle port with its Torch original in all that a pull request reports.

    Environment and commits, weights, forward layer by layer, loss, gradients, training steps and greedy generation, in each dtype;
    then the conclusion: RIGHT, WRONG at a line, or NOT_KNOWN. Models and inputs are named as for `padiff-shim prove`."""
    from ..modes.environment import frameworks

    with Waiting("importing Paddle and Torch"):
        frameworks()
    from ..questions.align import align

    builders = Builders(arguments, config)
    module = builders.made(original, "--torch")  # first: PaddleFormers hides Torch from a transformers that is imported later
    layer = builders.made(port, "--paddle")
    named = {"loss": loss, "generate": generate, "rules": rules}
    options |= {name: named_object(word, f"--{name}") for name, word in named.items()}
    options["layer_map"] = layer_map_of(layer_map)
    options["optimizer"] = optimizer_of(optimizer)
    answer = align(layer, module, model_inputs(inputs), **options)
    if report is not None and report != "-":
        target = Path(report)
        output.write_markdown(str(target.with_suffix(".md") if target.suffix == ".html" else target), answer)
        output.written(answer.save(target.with_suffix(".html")))
    elif report == "-":
        output.write_markdown(report, answer)
    output.write_json(data, answer.to_dict)
    output.write_sarif(sarif, answer)
    if "-" not in (report, data, sarif):
        short = report is not None and form is None
        click.echo("\n".join(map(str, (answer.headline, *answer.untested()))) if short else output.formatted(answer, form))
    return FINE if answer else NO
