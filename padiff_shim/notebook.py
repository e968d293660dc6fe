"""Whether this program runs in a notebook, and what its cells are called."""

from __future__ import annotations

import functools
import re
import sys
from typing import Any

WIDTH = 100  # columns of text below a cell
_OLD_CELL = re.compile(r"<ipython-input-(\d+)-")  # before IPython 8


def _shell() -> Any:
    """IPython's shell; None in a plain Python."""
    get = getattr(sys.modules.get("IPython"), "get_ipython", None)
    return None if get is None else get()


def running() -> bool:
    """Whether this process is a notebook's kernel."""
    return hasattr(_shell(), "kernel")


def display(text: str, name: str, *, update: bool) -> None:
    """Show a text below the running cell under a name, or with ``update`` in place of what has the name."""
    _shell().display_pub.publish({"text/plain": text}, transient={"display_id": name}, update=update)


@functools.lru_cache(maxsize=4096)  # each call of a run asks for its line
def cell(file: str) -> str:
    """``"Cell In[2]"`` if ``file`` is what Python calls the code of a cell, else "".

    >>> from padiff_shim.notebook import cell
    >>> cell("<ipython-input-2-0a1b2c>"), cell("model.py")
    ('Cell In[2]', '')
    """
    if old := _OLD_CELL.match(file):
        return f"Cell In[{old[1]}]"
    named = getattr(getattr(_shell(), "compile", None), "format_code_name", None)
    return " ".join(named(file) or ()) if named is not None else ""
