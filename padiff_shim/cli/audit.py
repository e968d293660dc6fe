"""``padiff-shim audit``."""

from __future__ import annotations

import click

from . import output

_EPILOG = """\
\b
Examples:
  # every op of the table
  padiff-shim audit
  # a family, and a pattern over op names
  padiff-shim audit --ops norm --ops '*pool*'
  # continue an interrupted audit
  padiff-shim audit --folder audit --resume
  padiff-shim audit --device gpu --workers 1

DIR gets audit.md, audit.html, audit.json and repro/, a script for each finding. docs/audit.md says what the report means.
Exit status: 0, or 130 after Ctrl-C: the reports hold the finished ops, and --resume continues.
"""


@click.command(epilog=_EPILOG, short_help="Which kernels are wrong on this machine, and by how much.")
@click.option("--ops", metavar="NAME", multiple=True, help="An op, a family or a pattern over op names; may be repeated.")
@click.option("--device", metavar="PLACE", help="As paddle.set_device takes it: cpu, gpu:0.")
@click.option("--folder", metavar="DIR", default="padiff-audit", show_default=True, help="Where the reports go.")
@click.option("--resume", is_flag=True, help="Continue the audit in DIR.")
@click.option("--workers", metavar="N", type=click.IntRange(1), help="Processes at a time (default: one a core, at most 8).")
@click.option("--seconds", metavar="N", type=float, default=180.0, show_default=True, help="Time limit of one op.")
@click.option("--defects/--no-defects", default=True, show_default=True, help="Run the programs of docs/defects.md, too.")
def command(
    ops: tuple[str, ...], device: str | None, folder: str, resume: bool, workers: int | None, seconds: float, defects: bool
) -> int:
    """Try every op on this machine, forward and backward, on ordinary operands and under stress (long sums, large and tiny numbers,
    infinities, NaN, denormals, masks, strides, no elements), with Paddle's kernel and with Torch's, and judge both.

    Kernels run in separate processes: a kernel that ends its process is reported, and the audit continues."""
    from ..auditing.audit import audit

    result = audit(ops or None, device=device, folder=folder, resume=resume, workers=workers, seconds=seconds, defects=defects)
    result.save_all()
    click.echo(output.as_text(result))
    return 0 if result.complete else 130
