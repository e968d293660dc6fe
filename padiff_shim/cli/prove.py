"""``padiff-shim prove``."""

from __future__ import annotations

from typing import Any

import click

from ..progress import Waiting
from . import output
from .main import FINE, NO
from .models import Builders, builder_options, layers_pair, model_inputs, named_object, optimizer_of

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

Exit status: 0 if the port is right, 1 if it is not, or the proof is inconclusive.
"""


@click.command(epilog=_EPILOG, short_help="Is a port right, and if not, where?")
@click.argument("port", metavar="PADDLE")
@click.argument("original", metavar="TORCH")
@builder_options
@click.option("--inputs", required=True, metavar="WHAT", help="An .npy or .npz file, or file.py:name: arrays, or a function.")
@click.option("--weights", default="torch->paddle", metavar="WORD", help="torch->paddle, paddle->torch, as-is or random.")
@click.option("--phase", default="both", metavar="WORD", help="forward, both or train.")
@click.option("--optimizer", metavar="WHAT", help="With --phase train: a name, or FILE:NAME as for prove().")
@click.option("--steps", default=1, show_default=True, metavar="N", type=int, help="With --phase train: steps to compare.")
@click.option("--dtype", metavar="DTYPE", help="Of parameters and inputs: bfloat16, float16, float32 or float64.")
@click.option("--loss", metavar="FILE:NAME", help="A function of the output, or a pair of them (Paddle's, Torch's).")
@click.option("--layer-map", multiple=True, metavar="TORCH=PADDLE", help="Layers that belong together, if names do not tell.")
@click.option("--rules", metavar="FILE:NAME", help="How weights are laid out: a list as rules= takes it.")
@click.option("--seed", default=0, metavar="N", type=int, help="Seed of all random generators.")
@click.option("--bitwise", is_flag=True, help="Also where the bits of a right port part from the original's, and what to write.")
@click.option("--html", type=output.PAGE, help="Write the proof as a page.")
@click.option("--markdown", type=output.TEXT, help="Write it for a pull request; - is standard output.")
@click.option("--json", "data", type=output.TEXT, help="Write it as JSON; - is standard output.")
def command(
    port: str,
    original: str,
    inputs: str,
    arguments: tuple[str, ...],
    config: tuple[str, ...],
    optimizer: str | None,
    loss: str | None,
    layer_map: tuple[str, ...],
    rules: str | None,
    bitwise: bool,
    html: Any,
    markdown: Any,
    data: Any,
    **options: Any,
) -> int:
    """Say whether a Paddle layer computes what a Torch module computes, and if not, at which line and why.

    PADDLE and TORCH are file.py:name or package.module:name: a layer, or a class or function that makes one, with arguments as
    'port.py:build?layers=2&bias=false' (in quotes) or by --with. An .npz file's arrays are keyword arguments, or positional ones if
    they are called arr_0, arr_1... A function for --inputs gets 'paddle' or 'torch', if it takes an argument, and returns an array,
    a tuple or a dict of them."""
    from ..modes.environment import frameworks

    with Waiting("importing Paddle and Torch"):
        frameworks()
    if bitwise:
        options = _of_bitwise(options, optimizer)
        from ..bits.bitwise import bitwise as ask
    else:
        from ..proof.prove import prove as ask  # type: ignore[assignment]

    builders = Builders(arguments, config)
    module = builders.made(original, "TORCH")  # first: PaddleFormers hides Torch from a transformers that is imported later
    models = builders.made(port, "PADDLE"), module
    options |= {"loss": named_object(loss, "--loss"), "layer_map": dict(map(layers_pair, layer_map)) or None}
    if not bitwise:
        options["optimizer"] = optimizer_of(optimizer)
    options["rules"] = named_object(rules, "--rules")
    answer: Any = ask(*models, model_inputs(inputs), **options)
    if html is not None:
        output.written(output.write(html, answer.to_html()))
    output.write_json(data, answer.as_dict)
    output.write_markdown(markdown, answer)
    if "-" not in (data, markdown):
        click.echo(output.as_text(answer))
    return FINE if (answer.proof if bitwise else answer) else NO


def _of_bitwise(options: dict[str, Any], optimizer: str | None) -> dict[str, Any]:
    """The options without those of a training, which bitwise() does not take."""
    for name, value, default in (("optimizer", optimizer, None), ("steps", options["steps"], 1), ("dtype", options["dtype"], None)):
        if value != default:
            raise click.UsageError(f"--{name} does not go with --bitwise")
    return {name: value for name, value in options.items() if name not in ("steps", "dtype")}
