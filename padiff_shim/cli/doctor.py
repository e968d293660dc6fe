"""``padiff-shim doctor``."""

from __future__ import annotations

import click

from ..errors import BackendError, MissingFrameworkError
from ..progress import Waiting
from ..text import tr
from . import output
from .main import FINE, NO

_EPILOG = """\
\b
Examples:
  # before the first run on a machine
  padiff-shim doctor
  # in CI: remarks (other thread counts, unknown entry points) count as well
  padiff-shim doctor --strict
  padiff-shim doctor --json health.json

Exit status: 0 if all is well, 1 if a check failed, 2 if a framework is missing.
"""


@click.command(epilog=_EPILOG, short_help="Can both frameworks work together here?")
@click.option("--strict", is_flag=True, help="Exit with 1 if there is a remark, too.")
@click.option("--json", "data", type=output.TEXT, help="Write everything as JSON; - is standard output.")
def command(strict: bool, data: str | None) -> int:
    """Try on real tensors whether Paddle and Torch share memory both ways and calls are redirected, compared and proven;
    show versions and every switch that can change a kernel's bits (TF32, determinism, threads); name what is unknown here."""
    from ..modes.environment import frameworks

    with Waiting("importing Paddle and Torch, and trying them"):
        try:
            frameworks()
        except MissingFrameworkError:
            raise
        except BackendError as error:  # a version that is too old, or no Torch at all
            click.echo(tr("BAD: {error}", error=error))
            return NO
        from ..questions.doctor import REMARK, examine

        health = examine()
    if data != "-":
        click.echo(output.as_text(health))
    output.write_json(data, health)
    remarks = any(check.state == REMARK for check in health.checks)
    return FINE if health and not (strict and remarks) else NO
