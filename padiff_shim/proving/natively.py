"""The port on Paddle's own kernels, one of which may fail where Torch's does not: what the code is, is known all the same."""

from __future__ import annotations

from collections.abc import Callable

from ..dispatch.lacking import dtype_without_kernel
from ..dispatch.site import raised_at, short
from .outcome import Outcome
from .paddle_side import PaddleSide
from .sides import Side, out_of_memory

Run = Callable[[Side], Outcome]


def told(error: BaseException) -> str:
    """An error with the line of the user's program that it came from, if it came from one."""
    site, lacks = raised_at(error), dtype_without_kernel(error) if isinstance(error, Exception) else ""
    where = f", at {short(site.file)}:{site.line}" if site else ""
    what = f"of which this Paddle has none in {lacks}" if lacks else f"{type(error).__name__}: {str(error).strip()[:300]}"
    return f"{what}{where}"


def natively(ours: PaddleSide, within: Callable[[Run], Outcome] | None = None) -> tuple[Outcome | None, str]:
    """A native run; where its backward fails the forward alone, and None where that fails, too.

    Args:
        ours: the port, which ran on Torch's kernels.
        within: makes the run that it is given.

    Returns:
        What it gave, and what is to be said of a failure ("").
    """
    run = within or (lambda one: one(ours))
    ours.forget_copies()
    ours.shim = False
    try:
        return run(Side.run), ""
    except Exception as error:
        if out_of_memory(error):  # that is no kernel's doing
            raise
        said = told(error)
    finally:
        ours.shim = True
    outcome, why = forward_alone(ours, run)
    if outcome is None:
        return None, why
    return outcome, (
        f"the port's backward fails on Paddle's own kernels, not on Torch's ({said}): natively outputs alone are compared"
    )


def forward_alone(ours: PaddleSide, run: Callable[[Run], Outcome] | None = None) -> tuple[Outcome | None, str]:
    """The same of a forward without a backward."""
    ours.shim = False
    try:
        return (run or (lambda one: one(ours)))(Side.run_forward), ""
    except Exception as error:
        if out_of_memory(error):
            raise
        return None, f"the port fails on Paddle's own kernels, not on Torch's ({told(error)}): natively nothing is compared"
    finally:
        ours.shim = True
