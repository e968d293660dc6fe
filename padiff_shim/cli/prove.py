"""``padiff-shim prove``."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import click

from ..arguments import seed as checked_seed
from ..errors import ArgumentError, PadiffShimError
from ..text import tr
from . import output
from .main import FINE, NO
from .models import Builders, builder_options, import_frameworks, layer_map_of, layer_map_option, model_inputs, named_object

_EPILOG = """\
\b
Examples:
  padiff-shim prove port.py:build original.py:build --inputs inputs.npz
  padiff-shim prove port.py:Port original.py:Original \\
      --inputs original.py:batch --html proof.html
  # which lines make other bits, and writes what makes them equal
  padiff-shim prove port.py:build original.py:build \\
      --inputs x.npy --bits --apply
  # how the difference grows from layer to layer
  padiff-shim prove port.py:build original.py:build \\
      --inputs x.npy --drift
  # what goes into the pull request, with ten steps of a training
  padiff-shim prove port.py:build original.py:build --inputs x.npy \\
      --train AdamW --steps 10 --dtype float32 --dtype bfloat16 \\
      --report align.md
  padiff-shim prove 'port.py:build?layers=2&bias=false' \\
      original.py:build --with torch.layers=2 --inputs x.npy
  padiff-shim prove port.py:Bert transformers:BertModel \\
      --config config.json --inputs tokens.npz
  # for a workflow of GitHub, with a file for code scanning
  padiff-shim prove port.py:build original.py:build \\
      --inputs x.npy --format github --sarif proof.sarif

Exit status: 0 if the port is right (with --bits: if no bit differs), 1 if it is not, or the proof is inconclusive.
"""


@click.command(epilog=_EPILOG, short_help="Is a port right, and if not, where?")
@click.argument("port", metavar="PADDLE", required=False)
@click.argument("original", metavar="TORCH", required=False)
@click.option(
    "--proxy", metavar="TORCH", help="Instead of both: Torch's source, imported as Paddle by paddle.compat, against itself."
)
@click.option(
    "--inputs",
    required=True,
    metavar="WHAT",
    help="An .npy or .npz file, file.py:name (arrays or function), or shapes of random numbers: "
    "2x3x8x8; 4x12:100,4x12 (tokens, and a second input).",
)
@click.option("--bits", is_flag=True, help="Where the bits of a right port part from the original's, and what to write.")
@click.option("--apply", "applied", is_flag=True, help="With --bits: write the changes into the files of the port.")
@click.option("--drift", is_flag=True, help="How the difference grows from layer to layer.")
@click.option("--calls", is_flag=True, help="With --drift: every op call with its line, too.")
@click.option("--report", type=output.TEXT, help="Write the pull request's Markdown, and a page beside it; - is standard output.")
@click.option("--tokens", default=16, show_default=True, metavar="N", type=int, help="In the report: tokens to generate greedily.")
@click.option("--generate", metavar="FILE:NAME", help="A pair of functions that generate them (Paddle's, Torch's).")
@click.option("--phase", default="both", show_default=True, metavar="WORD", help="forward, or both: also gradients.")
@click.option("--train", "optimizer", metavar="WHAT", help="Train with this optimizer: a name, or FILE:NAME as for prove().")
@click.option("--steps", default=1, show_default=True, metavar="N", type=int, help="With --train: steps to compare.")
@click.option("--dtype", "dtypes", multiple=True, metavar="DTYPE",
              help="Of parameters and inputs: bfloat16, float16, float32 or float64. Further ones go into the report.")  # fmt: skip
@builder_options
@click.option(
    "--weights", default="torch->paddle", show_default=True, metavar="WORD", help="torch->paddle, paddle->torch, as-is or random."
)
@click.option("--loss", metavar="FILE:NAME", help="A function of the output, or a pair of them (Paddle's, Torch's).")
@layer_map_option
@click.option("--rules", metavar="FILE:NAME", help="How weights are laid out: a list as rules= takes it.")
@click.option("--equal", metavar="FILE:NAME", help="A comparator of your own: a function of two arrays and a name.")
@click.option("--seed", default=0, show_default=True, metavar="N", type=int, help="Seed of all random generators.")
@output.format_options
@output.file_options
def command(
    port: str | None,
    original: str | None,
    proxy: str | None,
    inputs: str,
    bits: bool,
    applied: bool,
    drift: bool,
    calls: bool,
    report: str | None,
    tokens: int,
    generate: str | None,
    optimizer: str | None,
    dtypes: tuple[str, ...],
    arguments: tuple[str, ...],
    config: tuple[str, ...],
    layer_map: tuple[str, ...],
    **options: Any,
) -> int:
    """Say whether a Paddle layer computes what a Torch module computes, and if not, at which line and why.

    PADDLE and TORCH are file.py:name or package.module:name: a layer, or a class or function that makes one, with arguments as
    'port.py:build?layers=2&bias=false' (in quotes) or by --with. An .npz file's arrays are keyword arguments, or positional ones if
    they are called arr_0, arr_1... A function for --inputs gets 'paddle' or 'torch', if it takes an argument, and returns an array,
    a tuple or a dict of them."""
    for option, wrong in (
        (tr("PADDLE and TORCH, or --proxy TORCH"), (port is None, original is None) != ((proxy is not None),) * 2),
        (tr("--bits or --drift, not both"), bits and drift),
        (tr("--apply belongs to --bits"), applied and not bits),
        (tr("--calls belongs to --drift"), calls and not drift),
        (tr("several --dtype belong to --report"), len(dtypes) > 1 and report is None),
    ):
        if wrong:
            raise ArgumentError(str(option))
    import_frameworks()
    from ..proof.programs import seeded

    builders = Builders(arguments, config)
    with seeded(checked_seed(options["seed"])):  # the models' first weights, too
        if proxy is not None:
            from .proxied import both, listed

            layer, module, lacking = both(proxy, builders)
            if lacking:
                print(listed(lacking), file=sys.stderr)
        else:
            module = builders.made(str(original), "TORCH")  # first: PaddleFormers hides Torch from a transformers imported later
            layer = builders.made(str(port), "PADDLE")
    options |= {name: named_object(options[name], f"--{name}") for name in ("loss", "rules", "equal")}
    options |= {"layer_map": layer_map_of(layer_map), "dtype": dtypes[0] if dtypes else None}
    if optimizer is not None:
        options["phase"] = "train"
        options["optimizer"] = named_object(optimizer, "--train") if ":" in optimizer else optimizer
    files = {name: options.pop(name) for name in output.FILES}
    proof = _proven(layer, module, model_inputs(inputs), options)
    answer: Any = proof.bits() if bits else proof.drift(calls=calls) if drift else proof
    right = bool(proof) and (bool(answer) or not bits)
    if report is not None:
        alignment = proof.report(dtypes=dtypes[1:], tokens=tokens, generate=named_object(generate, "--generate"))
        right = right and bool(alignment)
        if report == "-":
            output.write_markdown(report, alignment)
        else:
            for suffix in (".md", ".html"):
                output.written(alignment.save(Path(report).with_suffix(suffix)))
    output.answer(answer, **files, piped=report == "-")
    for path in answer.apply() if applied else ():
        output.written(path)
    return FINE if right else NO


def _proven(layer: Any, module: Any, inputs: Any, options: dict[str, Any]) -> Any:
    """The proof; which model an error is of stands before its traceback."""
    from ..proof.programs import not_running
    from ..proof.prove import prove

    try:
        return prove(layer, module, inputs, **options)
    except Exception as error:
        if not isinstance(error, PadiffShimError):
            print(f"padiff-shim: {not_running(error)}", file=sys.stderr)
        raise
