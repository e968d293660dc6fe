"""``padiff-shim transfer``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from ..arguments import one_of
from ..errors import ArgumentError, TransferError
from ..text import joined
from . import output
from .main import FINE, NO
from .models import Builders, builder_options, import_frameworks, layer_map_of, layer_map_option, named_object

_EPILOG = """\
\b
Examples:
  # which weights belong together; nothing is written
  padiff-shim transfer --torch original.py:build --paddle port.py:build
  # the weights of a Torch model as a file of Paddle's
  padiff-shim transfer --torch model.safetensors --paddle port.py:build \\
      --output model.pdparams
  padiff-shim transfer --torch original.py:build --paddle model.pdparams \\
      --weights 'paddle->torch' --output model.pt
  padiff-shim transfer --torch transformers:BertModel \\
      --paddle port.py:Bert --config config.json --layer-map bert=encoder

Exit status: 0 if each weight has a partner, 1 if not, or if its layout is not known; then no file is written.
"""
_FILES = {".pdparams": "paddle", ".pt": "torch", ".pth": "torch", ".bin": "torch", ".safetensors": ""}
DIRECTIONS = ("torch->paddle", "paddle->torch")


@click.command(epilog=_EPILOG, short_help="Weights from Torch to Paddle, or back, as a file.")
@click.option("--torch", "original", required=True, metavar="WHAT", help="A model, or a file of weights: .pt, .bin, .safetensors.")
@click.option("--paddle", "port", required=True, metavar="WHAT", help="A model, or a file of weights: .pdparams, .safetensors.")
@click.option("--output", "-o", "target", type=output.PAGE, help="Write the transferred weights: .pdparams, or .pt for Torch.")
@click.option("--weights", default="torch->paddle", show_default=True, metavar="WORD", help="torch->paddle or paddle->torch.")
@builder_options
@layer_map_option
@click.option("--rules", metavar="FILE:NAME", help="How weights are laid out: a list as rules= takes it.")
@output.file_options
def command(
    original: str,
    port: str,
    target: str | None,
    weights: str,
    arguments: tuple[str, ...],
    config: tuple[str, ...],
    layer_map: tuple[str, ...],
    rules: str | None,
    **files: Any,
) -> int:
    """Find out which weights of a Torch model and a Paddle model belong together and how each is laid out, and with --output write
    one model's weights as a file for the other. Values are copied exactly, all of them or none.

    At least the model into which weights go is file.py:name or package.module:name; the other may be a file of weights."""
    one_of("weights", weights, DIRECTIONS)
    source_side, _, target_side = weights.partition("->")
    endings = [ending for ending, framework in _FILES.items() if framework == target_side]
    if target is not None and Path(target).suffix not in endings:
        raise ArgumentError(
            "--output of weights for {framework} ends with {endings}, got {target}",
            framework=target_side.title(),
            endings=joined(" or ", endings),
            target=repr(target),
        )
    import_frameworks()
    from ..weights.files import write_file
    from ..weights.transfer import match, transfer_weights

    builders = Builders(arguments, config)
    if target is not None and _is_file(port if target_side == "paddle" else original):
        raise ArgumentError(
            "--{target_side} names the model that takes the weights, as file.py:name; a file alone has no layers",
            target_side=target_side,
        )
    models = {"torch": _model(builders, original, "--torch"), "paddle": _model(builders, port, "--paddle")}
    how = {"layer_map": layer_map_of(layer_map), "rules": named_object(rules, "--rules")}
    try:
        mapping = (match if target is None else transfer_weights)(models[source_side], models[target_side], **how)
    except TransferError as error:
        click.echo(str(error), err="-" in files.values())
        return NO
    if target is not None:
        output.written(write_file(models[target_side], target))
    output.answer(mapping, **files)
    return FINE if mapping and not (mapping.undecided or any(pair.undecided for pair in mapping)) else NO


def _model(builders: Builders, word: str, argument: str) -> Any:
    """A model, or the path of its weights."""
    return word if _is_file(word) else builders.made(word, argument)


def _is_file(word: str) -> bool:
    return Path(word).suffix in _FILES and "?" not in word
