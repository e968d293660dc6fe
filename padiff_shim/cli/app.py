"""The commands, and the form of their ``--help``.

A command is a module of this folder with a click command named ``command``, and a name in :data:`COMMANDS`. It is imported when it
is called, and imports the frameworks inside functions only. It returns its exit status (None: 0; :mod:`.main` names them), or a
function that returns one and runs outside of click. Options of a mode come from ``modes/options.py`` by :mod:`.mode_options`.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterable
from typing import Any

import click

from .. import __version__
from ..errors import nearest

# fmt: off
COMMANDS: tuple[str, ...] = (
    "doctor", "run", "prove", "bitwise", "drift", "align", "transfer", "bisect",
    "report", "repro", "record", "diff", "ops", "audit", "gate",
)
# fmt: on

_EPILOG = """\
\b
Examples:
  padiff-shim doctor
  padiff-shim run train.py --epochs 3
  padiff-shim run --compare --log runs/monday train.py
  padiff-shim prove port.py:build original.py:build --inputs x.npy
  padiff-shim align --torch original.py:build --paddle port.py:build \\
      --inputs x.npy --report align.md
  padiff-shim transfer --torch model.safetensors --paddle port.py:build \\
      --output model.pdparams
  padiff-shim report runs/monday --html monday.html
  padiff-shim repro runs/monday worst
  padiff-shim record here train.py
  padiff-shim diff here there
  padiff-shim ops layer_norm

Exit status: 0, 1 if the answer is no, 2 if there is no answer (wrong arguments, missing files or frameworks).
`padiff-shim COMMAND --help` has examples of each.
"""


class Commands(click.Group):
    """The group of :data:`COMMANDS`."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """The names, in the order of use."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """The command of that name, or None."""
        if cmd_name not in COMMANDS:
            return None
        command: click.Command = importlib.import_module(f".{cmd_name}", __package__).command
        return command

    def resolve_command(self, ctx: click.Context, args: list[str]) -> tuple[Any, Any, list[str]]:
        """As in click, but the error for an unknown command names the nearest ones."""
        if not args[0].startswith("-") and args[0] not in COMMANDS:
            ctx.fail(f"no command {args[0]!r}.{did_you_mean(args[0], COMMANDS)} There are: {', '.join(COMMANDS)}.")
        return super().resolve_command(ctx, args)


def did_you_mean(name: str, names: Iterable[str]) -> str:
    """The nearest of ``names`` as a sentence, or nothing."""
    near = nearest(name, names)
    return f" Did you mean {' or '.join(near)}?" if near else ""


@click.group(cls=Commands, epilog=_EPILOG, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(__version__, "--version", message="padiff_shim %(version)s")
def app() -> None:
    """Is a Paddle port wrong, or is a framework's kernel? padiff_shim runs an unchanged Paddle program on Torch's kernels, or on
    both, and says which side is wrong, where and why."""
