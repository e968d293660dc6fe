"""The command that a run belongs to."""

from __future__ import annotations

import os
import shlex
import sys


def command() -> str:
    """What this process was started with, as a shell takes it; "" where there is no script (an interactive session)."""
    if not getattr(sys, "argv", None) or not sys.argv[0]:
        return ""
    started = getattr(sys, "orig_argv", None) or [sys.executable or "python", *sys.argv]
    return shlex.join([os.path.basename(started[0]), *started[1:]])
